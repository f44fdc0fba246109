"""The group size at which a tail miss is likeliest, as a function of mu and tau."""

import functools
from fractions import Fraction
from itertools import combinations, pairwise

import sympy
from mpmath import mp, mpf

from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, number, proved, satisfies, vanishes
from paper_checks.exact import groups

RATES = [Fraction(1, 10), Fraction(3, 10), Fraction(1, 2), Fraction(63, 100), Fraction(9, 10)]
SHARES = [Fraction(1, 1000), Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)]
LARGEST = 60


def tail_miss(G, mu, tau):
    """Lemma 3.1, itself checked as f-grpo:lemma-3.1."""
    return (1 - tau) ** G - (mu - tau) ** G - (1 - mu) ** G


def active(G, mu):
    """The probability of both outcomes in a group."""
    return 1 - mu**G - (1 - mu) ** G


def conditional(G, mu, tau):
    """The probability that an active group misses the target."""
    return tail_miss(G, mu, tau) / active(G, mu)


def enumerated_conditional(G, mu, tau):
    """The same, from all groups of target, other correct and incorrect rollouts."""
    missed = chance_active = Fraction(0)
    for chance, (target, other, wrong) in groups((tau, mu - tau, 1 - mu), G):
        both = target + other > 0 and wrong > 0
        chance_active += chance * both
        missed += chance * (both and target == 0)
    return missed / chance_active


TARGETS = [{"mu": mu, "tau": mu * share} for mu in RATES for share in SHARES]


@claim(
    "simlab:conditional-tail-miss-at-two",
    where="Beyond the papers, question 2",
    says="Among active groups of two a tail miss has probability 1 - tau / mu, whatever mu and tau.",
    formula=r"\Pr(\mathcal{M}_2 \mid \mathcal{A}_2) = 1 - \tau/\mu",
    refuted_by="one (mu, tau) at which the share of pairs, one correct and one not, without the target differs",
    reading="Conditional on the group being active: at G = 2 such a group has exactly one correct rollout. By "
    "simlab:conditional-tail-miss-falls no larger group does worse. F-GRPO has the joint probability; a search "
    "(2026-11) found the conditional one nowhere. "
    "It speaks of sets of actions, so that rewards may have any levels.",
    identity=True,
    statement=lambda mu, tau: 1 - tau / mu,
    planted={"the mass in place of the share": lambda mu, tau: 1 - tau},
)
def conditional_at_two(statement):
    """All groups of two; Lemma 3.1 over the active probability."""
    yield from equals(
        statement,
        TARGETS,
        derived=lambda mu, tau: conditional(2, mu, tau),
        enumerated=lambda mu, tau: enumerated_conditional(2, mu, tau),
    )


@claim(
    "simlab:conditional-tail-miss-falls",
    where="Beyond the papers, question 2",
    says="Among active groups the probability of a tail miss falls strictly with every increase of G: the rise at "
    "small G is the rise of activity alone.",
    formula=r"\Pr(\mathcal{M}_{G+1}\mid\mathcal{A}_{G+1}) < \Pr(\mathcal{M}_G\mid\mathcal{A}_G),\quad G\ge 2,\ "
    r"0<\tau<\mu<1",
    refuted_by="one (mu, tau, G) at which it does not fall",
    reading="Proof: given s correct rollouts the target is missed with probability (1 - tau / mu)^s, falling in s; and "
    "the number of successes of an active group, a binomial cut to 1..G-1, grows with G in the likelihood-ratio order, "
    "since C(G+1, s) / C(G, s) = (G+1) / (G+1-s) grows with s. F-GRPO's non-monotonic curve is the joint one; a search "
    "(2026-11) found nobody who conditions on activity. "
    "It speaks of sets of actions, so that rewards may have any levels.",
    caveat="Read without the condition (the joint probability) it is wrong: that one rises first "
    "(simlab:tail-miss-unimodal).",
    statement=lambda pair, **_: pair[1] < pair[0],
    planted={"it rises": lambda pair, **_: pair[1] > pair[0]},
)
def conditional_falls(statement):
    """The share at G and G + 1, exact, over a grid; at small G from all groups as well."""
    points = [{"G": size} | target for size in range(2, LARGEST) for target in TARGETS]
    yield from satisfies(
        statement,
        points[: len(TARGETS) * 3],
        lambda G, mu, tau: (enumerated_conditional(G, mu, tau), enumerated_conditional(G + 1, mu, tau)),
        derived=lambda G, mu, tau: (conditional(G, mu, tau), conditional(G + 1, mu, tau)),
    )
    yield from satisfies(
        statement,
        points,
        lambda G, mu, tau: (conditional(G, mu, tau), conditional(G + 1, mu, tau)),
        method="numerical",
    )


def likelihood_ratio(s, G, mu):
    """The likelihood ratio of s successes in an active group of G + 1 against one of G."""

    def chance(size):
        ways = mp.binomial(size, s) * number(mu) ** s * number(1 - mu) ** (size - s)
        return ways / number(active(size, mu))

    return chance(G + 1) / chance(G)


@claim(
    "simlab:active-successes-grow",
    where="Beyond the papers, question 2",
    says="The number of successes of an active group grows with G in the likelihood-ratio order, which is why its tail "
    "misses become rarer.",
    refuted_by="an (s, G, mu) at which the likelihood ratio of G + 1 to G falls from s to s + 1",
    reading="Binomial cut to 1..G-1; mu cancels in the quotient of two ratios. This is the step of the proof of "
    "simlab:conditional-tail-miss-falls that is not plain; the order itself is of the textbooks (Shaked and "
    "Shanthikumar, Stochastic Orders, 2007). "
    "It speaks of sets of actions, so that rewards may have any levels.",
    statement=lambda pair, **_: pair[1] > pair[0],
    planted={"it falls": lambda pair, **_: pair[1] < pair[0]},
)
def active_successes_grow(statement):
    """The ratio at s and s + 1 over a grid, 50 digits; and their quotient for all s, G and mu."""
    points = grid(lambda G, s, mu: s + 1 <= G - 1, G=range(3, 25), s=range(1, 23), mu=RATES)
    yield from satisfies(
        statement,
        points,
        lambda G, s, mu: (likelihood_ratio(s, G, mu), likelihood_ratio(s + 1, G, mu)),
        method="numerical",
    )
    s, above = sympy.symbols("s above", integer=True, positive=True)
    G = s + 1 + above
    quotient = sympy.combsimp(
        sympy.binomial(G + 1, s + 1) * sympy.binomial(G, s) / sympy.binomial(G, s + 1) / sympy.binomial(G + 1, s)
    )
    rise = sympy.factor(quotient - 1)
    yield proved(statement((0, rise)), f"from s to s + 1 the ratio grows by {rise} of itself, G = s + 1 + above")


def turns(mu, tau):
    """Count the turns of the joint probability from rising to falling or back, over G from 1 to far past its peak."""
    last = int(real_peak(mu, tau) * 4) + 20
    sizes = sorted({*range(1, min(last, 200)), *(1 + last * n // 400 for n in range(1, 401))})
    values = [tail_miss(size, number(mu), number(tau)) for size in sizes]
    rises = [later > earlier for earlier, later in pairwise(values) if later != earlier]
    return sum(before != after for before, after in pairwise(rises))


def slope(G, mu, tau):
    """The derivative in a real G."""
    return sum(sign * base**G * mp.log(base) for sign, base in ((1, 1 - tau), (-1, mu - tau), (-1, 1 - mu)) if base > 0)


def real_peak(mu, tau):
    """The zero of the derivative, by bisection between 1 and a size at which it is negative."""
    mu, tau = number(mu), number(tau)
    low, high = mpf(1), mpf(2)
    while slope(high, mu, tau) > 0:
        high *= 2
    for _ in range(180):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle, mu, tau) > 0 else (low, middle)
    return low


@claim(
    "simlab:tail-miss-unimodal",
    where="Beyond the papers, question 2",
    says="The probability that a group is active and misses the target rises with G to one peak and then falls to 0.",
    refuted_by="a (mu, tau) at which it turns more than once, or never",
    reading="The joint probability of Lemma 3.1, 0 < tau < mu < 1. Proof: its derivative in a real G is a sum of three "
    "exponentials, whose largest base has a negative coefficient and whose smaller bases have positive ones, so that "
    "it has one zero at most (Descartes' rule of signs for exponentials; Polya and Szego, Problems and Theorems in "
    "Analysis II); the curve is 0 at G = 1, positive after, and tends to 0. For tau = mu the middle term is missing "
    "and the same holds; on whole numbers the curve can start at its peak (G = 2). That it is not monotonic is "
    "F-GRPO's finding; a search (2026-11) found no proof of a single peak. "
    "It speaks of sets of actions, so that rewards may have any levels.",
    statement=lambda count, **_: count == 1,
    planted={"two turns": lambda count, **_: count == 2},
)
def unimodal(statement):
    """The turns of the curve, 50 digits, over a grid of mu and tau."""
    yield from satisfies(statement, TARGETS, turns, method="numerical")


def likeliest_size(mu, tau):
    """The whole G with the largest joint probability: it lies beside the real peak."""
    near = range(max(1, int(real_peak(mu, tau)) - 2), int(real_peak(mu, tau)) + 4)
    return max(near, key=lambda size: tail_miss(size, number(mu), number(tau)))


def peak_by(factor):
    """G* = log(n log b / log(1 - tau)) / log((1 - tau) / b), b the larger of mu - tau and 1 - mu, n = factor(mu)."""

    def stated(mu, tau):
        bases = factor(mu)
        mu, tau = number(mu), number(tau)
        larger = max(mu - tau, 1 - mu)
        return mp.log(bases * mp.log(larger) / mp.log(1 - tau)) / mp.log((1 - tau) / larger)

    return stated


@claim(
    "simlab:tail-miss-peak",
    where="Beyond the papers, question 2",
    says="As tau shrinks at a given mu, the peak comes as close as one likes to G* = log(n log b / log(1 - tau)) / "
    "log((1 - tau) / b), b the larger of mu - tau and 1 - mu, n = 1 but at mu = 1/2, where it is 2: about log(1 / tau) "
    "divided by log(1 / max(mu, 1 - mu)).",
    formula=r"G^* = \frac{\ln\left(n\ln b / \ln(1-\tau)\right)}{\ln\left((1-\tau)/b\right)},\quad "
    r"b=\max(\mu-\tau,\,1-\mu)",
    refuted_by="a mu at which the distance from the exact peak does not vanish with tau",
    reading="The joint probability of Lemma 3.1, real G; the whole number with the largest probability is beside it. "
    "At mu = 1/2 the two smaller bases come together as tau shrinks, and their terms add up. Which targets and prompts "
    "have the larger worst group say simlab:worst-group-rarer and simlab:worst-group-one-sided. F-GRPO shows such "
    "curves; a search (2026-11) found no formula for the peak. "
    "It speaks of sets of actions, so that rewards may have any levels.",
    caveat="Small tau: the nearer mu is to 1/2, the smaller tau must be.",
    statement=peak_by(lambda mu: 2 if mu == Fraction(1, 2) else 1),
    planted={"a factor of 2": peak_by(lambda mu: 2), "no exception at mu = 1/2": peak_by(lambda mu: 1)},
)
def peak(statement):
    """The exact peak by bisection, against the formula, as tau shrinks."""

    def distance(step, mu):
        tau = number(mu) * step
        return real_peak(mu, tau) - statement(mu, tau)

    points = [{"mu": Fraction(n, 20)} for n in (8, 12, 5, 10, 15, 18)]
    yield from vanishes(distance, points, order=0.7, steps=("1e-3", "1e-4", "1e-5", "1e-6"))


TWENTIETHS = [Fraction(n, 20) for n in range(1, 20)]
TAUS = [Fraction(1, 10**6), Fraction(1, 10**4), Fraction(1, 1000), Fraction(1, 100), Fraction(1, 30)]


@claim(
    "simlab:worst-group-rarer",
    where="Beyond the papers, question 2",
    says="At a given rate of success the rarer the target, the larger the worst group, the size at which a group is "
    "likeliest to be active and to miss the target.",
    refuted_by="two targets at one mu of which the rarer has the smaller peak",
    reading="The exact peak at real G, at nineteen values of mu from .05 to .95 and targets from a millionth to 9/10 "
    "of it. F-GRPO has the curve; a search (2026-11) found no statement of how its peak moves. "
    "It speaks of sets of actions, so that rewards may have any levels.",
    caveat="Checked on a grid and not proved. Among active groups alone the worst is always G = 2 "
    "(simlab:conditional-tail-miss-falls).",
    statement=lambda rarer, other: rarer > other,
    planted={"the smaller": lambda rarer, other: rarer < other},
)
def worst_group_rarer(statement):
    """The exact peaks by bisection, of neighbouring targets."""
    targets = {mu: [tau for tau in TAUS if tau < mu] + [mu / 10, mu / 2, mu * Fraction(9, 10)] for mu in TWENTIETHS}
    points = [
        {"mu": mu, "rarer": rarer, "other": other}
        for mu, taus in targets.items()
        for rarer, other in pairwise(sorted(set(taus)))
    ]
    yield from satisfies(
        lambda peaks, **_: statement(*peaks),
        points,
        lambda mu, rarer, other: (real_peak(mu, rarer), real_peak(mu, other)),
        method="numerical",
    )


SMALL = [*TAUS, Fraction(1, 10), Fraction(1, 5), Fraction(3, 10)]


def one_sided(mu, tau):
    """The distance of a prompt from the one whose other correct rollouts are as likely as its wrong ones."""
    return abs(mu - (1 + tau) / 2)


def ordered_by(lopsided):
    """A check: the more lopsided of two prompts has the larger peak, and equally lopsided ones have equal peaks."""

    def holds(peaks, tau, one, other):
        stated = lopsided(one, tau) - lopsided(other, tau)
        gap = peaks[0] - peaks[1]
        return abs(gap) < mpf("1e-30") if stated == 0 else gap * number(stated) > 0

    return holds


@claim(
    "simlab:worst-group-one-sided",
    where="Beyond the papers, question 2",
    says="For a target of a given probability of at most 3/10, the more one-sided the prompt, the larger the worst "
    "group: it is smallest where correct rollouts off the target are as likely as wrong ones, mu = (1 + tau) / 2, and "
    "grows with the distance from there to either side.",
    refuted_by="two prompts with one tau of which the one nearer to (1 + tau) / 2 has the larger peak",
    reading="The exact peak at real G, at all pairs among nineteen values of mu and eight of tau from a millionth to "
    "3/10. Lemma 3.1 does not change if mu - tau and 1 - mu trade places, whence the symmetry. A search (2026-11) "
    "found no statement of how the peak moves. "
    "It speaks of sets of actions, so that rewards may have any levels.",
    caveat="Checked on a grid and not proved; the joint probability, not that among active groups. For a likely target "
    "(1/2) it is false, but its worst group is one of two anyway.",
    statement={"targets": SMALL, "order": ordered_by(one_sided)},
    planted={
        "the more balanced": {"targets": SMALL, "order": ordered_by(lambda mu, tau: -one_sided(mu, tau))},
        "smallest at mu = 1/2": {"targets": SMALL, "order": ordered_by(lambda mu, tau: abs(mu - Fraction(1, 2)))},
        "the harder": {"targets": SMALL, "order": ordered_by(lambda mu, tau: -mu)},
        "whatever the target": {"targets": [*SMALL, Fraction(1, 2)], "order": ordered_by(one_sided)},
    },
)
def worst_group_one_sided(statement):
    """The exact peaks by bisection, of every pair of prompts, and of mirrored ones."""
    targets = statement["targets"]
    mirrored = [(mu, 1 + tau - mu, tau) for tau in targets for mu in TWENTIETHS if tau < mu < 1 and 1 + tau - mu < 1]
    pairs = [(one, other, tau) for tau in targets for one, other in combinations(TWENTIETHS, 2) if tau < one]
    peaks = functools.cache(real_peak)
    yield from satisfies(
        statement["order"],
        [{"tau": tau, "one": one, "other": other} for one, other, tau in pairs + mirrored],
        lambda tau, one, other: (peaks(one, tau), peaks(other, tau)),
        method="numerical",
    )


@claim(
    "simlab:f-grpo-worst-group",
    where="Beyond the papers, question 2; F-GRPO App. J",
    says="For a typical rare action of F-GRPO's simulator (mu = .6301, tau = 6.297e-5) the worst group has 19 "
    "rollouts, and is active and misses the target with probability .99865.",
    refuted_by="another group size with a larger probability",
    reading="The joint probability of F-GRPO's Lemma 3.1 at the numbers of its App. J, at the start of training. The "
    "paper's text tells of a plateau near 1 at intermediate sizes, and names no size. "
    "It speaks of sets of actions, so that rewards may have any levels.",
    caveat="Among active groups the worst is G = 2.",
    statement=(19, Fraction(99865, 100_000)),
    planted={"a power of two": (16, Fraction(99865, 100_000)), "a digit": (19, Fraction(99866, 100_000))},
)
def worst_group(statement):
    """The whole number beside the exact peak, and the probability there to five digits."""

    def size_and_probability(mu, tau):
        size = likeliest_size(mu, tau)
        return size, Fraction(round(tail_miss(size, number(mu), number(tau)) * 100_000), 100_000)

    points = [{"mu": Fraction(6301, 10_000), "tau": Fraction(6297, 10**8)}]
    yield from equals(lambda **_: statement, points, derived=size_and_probability)

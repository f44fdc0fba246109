"""A hard prompt's hold against the pull of others: its own groups, all wrong or not, and their size."""

from fractions import Fraction

from mpmath import mp, mpf

from paper_checks.claim import claim
from paper_checks.evidence import equals, number, satisfies, vanishes
from paper_checks.exact import groups, mass, score_gradient
from paper_checks.laboratory.interference import WHERE
from paper_checks.laboratory.shared_head import (
    CONFLICT,
    SOME_OVERLAP,
    enumerated_transfer,
    gap,
    mixed,
    overlap,
    product,
    spread,
)
from paper_checks.laboratory.weights import (
    WEIGHTS,
    Weight,
    as_weight,
    cases,
    direction,
    expected_direction,
    mass_gradient,
    masses,
    pull,
)

EASY = (CONFLICT[0][0], CONFLICT[1][0])


def drift_parts(q_pos, G, weight):
    """The change of a hard prompt's log-odds, over eta, by itself and by an easy one, from all groups."""
    hard = (Fraction(3, 5), q_pos, Fraction(2, 5) - q_pos)
    head = {"policies": (EASY[0], hard), "correct": (EASY[1], (False, True, False)), "features": SOME_OVERLAP, "G": G}
    effects = (enumerated_transfer(i, 1, **head, weight=WEIGHTS[weight]) for i in (1, 0))
    return tuple(effect / (q_pos * (1 - q_pos)) for effect in effects)


def incoming_limit(G, weight):
    """K m_i <u_i, u_j> / 2 with u_j of a prompt without solved rollouts."""
    unsolved = (Fraction(-3, 5), 1, Fraction(-2, 5))
    taught = mixed(*EASY, G, WEIGHTS[weight])
    return overlap(SOME_OVERLAP, 0, 1) * taught * product(gap(*EASY), unsolved) / 2


@claim(
    "simlab:interference-drift",
    where=WHERE,
    says="At a fixed group size what a prompt does to its own log-odds vanishes in proportion to its solve rate, for "
    "every weight, while what other prompts do to them does not: the harder the prompt, the more it is moved by others "
    "alone.",
    formula=r"\mathbb{E}\left[\Delta\log\tfrac{Q_j}{1-Q_j}\right]=\frac{\eta}{P}\Big[K_{jj}\,m_j\,|u_j|^2+\sum_{i\ne "
    r"j}K_{ij}\,m_i\langle u_i,u_j\rangle\Big],\quad m_j=O(Q_j)",
    refuted_by="a weight of reward and solve rate under which the own part stays away from 0 as Q does not, or the "
    "incoming part goes with it",
    reading="G = 4, an easy prompt at 3/10 whose answer is the likely error of the hard one, first order, in "
    "expectation. The own part is small because m = kappa Q (1 - Q) and kappa is bounded at a given G "
    "(simlab:interference-speed). That an on-policy learner learns slowly where it is bad, and that others may hold it "
    "there, is the pair of conditions of ray interference (Schaul et al., 1904.11455), whose negative interference is "
    "K_ij <u_i, u_j> < 0 here; what is added is how the share of the own part falls with Q, for any weight. That the "
    "expected gradient of a prompt vanishes with the standard deviation of its reward is due to Razin et al. "
    "(2310.20703). "
    "It needs two levels of reward.",
    caveat="First order, one easy and one hard prompt. At a larger G a weight such as MaxRL gives the hard prompt more "
    "speed (simlab:interference-group-size).",
    statement=lambda internal, incoming, limit: (internal, incoming - limit),
    planted={
        "both vanish": lambda internal, incoming, limit: (internal, incoming),
        "the own part stays": lambda internal, incoming, limit: (internal - limit, incoming - limit),
    },
)
def drift(statement):
    """All groups of either prompt as Q goes to 0, under every weight."""
    points = [{"G": 4, "weight": weight} for weight in WEIGHTS]
    for index in (0, 1):

        def error(step, G, weight, index=index):
            rate = Fraction(mp.nstr(step, 5))
            return number(statement(*drift_parts(rate, G, weight), incoming_limit(G, weight))[index])

        yield from vanishes(error, points, order=1, method="enumerated")


COSINES = ((24, 7), (12, 5), (4, 3), (3, 4), (5, 12), (7, 24))  # legs of right triangles, that over the other's
RARE = (Fraction(3, 5), Fraction(1, 50), Fraction(19, 50))


def at_overlap(legs, G, weight):
    """The change of the hard prompt's solve rate in a step, from all groups of either, at a cosine of the features."""
    length = round((legs[0] ** 2 + legs[1] ** 2) ** 0.5)
    features = ((1, 0), (Fraction(legs[1], length), Fraction(legs[0], length)))
    head = {"policies": (EASY[0], RARE), "correct": (EASY[1], (False, True, False)), "features": features, "G": G}
    return sum(enumerated_transfer(i, 1, **head, weight=WEIGHTS[weight]) for i in (0, 1)), overlap(features, 0, 1)


def falls_beyond(ratio):
    """The hard prompt falls exactly beyond c*, with a function of both speeds for their ratio."""
    hard = (RARE, (False, True, False))
    held = spread(*hard) * product(gap(*hard), gap(*hard))
    pulled = -spread(*EASY) * product(gap(*EASY), gap(*hard))

    def holds(values, legs, G, weight):
        speeds = [pull(*prompt, G, WEIGHTS[weight]) for prompt in (hard, EASY)]
        return (values[0] < 0) == (values[1] > ratio(*speeds) * held / pulled)

    return holds


@claim(
    "simlab:interference-threshold",
    where=WHERE,
    says="A hard prompt beside an easy one whose answer is its error falls in expectation exactly if the cosine of "
    "their features exceeds c* = kappa_h Q_h (1 - Q_h) |u_h|^2 / (kappa_e Q_e (1 - Q_e) |<u_e, u_h>|): of the weight "
    "only the ratio of its speeds at the hard and at the easy prompt enters.",
    formula=r"c^*=\frac{\kappa_h}{\kappa_e}\cdot\frac{Q_h(1-Q_h)|u_h|^2}{Q_e(1-Q_e)|\langle u_e,u_h\rangle|}",
    refuted_by="a weight and an overlap beyond c* at which the hard prompt gains, or one below at which it falls",
    reading="Features of one length, <u_e, u_h> < 0, first order. Where n_e such easy prompts pull at one hard prompt, "
    "c* is the n_e-th part. A difficulty weight raises c* by the ratio of its factors, at a given G up to a bound "
    "(simlab:interference-bound); weights of constant strength, of whichever sign, have one and the same c*. Schaul et "
    "al. (1904.11455) and Barakat et al. (2602.21189) have when interference is negative; a search (2026-11) found no "
    "threshold for when it wins. "
    "It needs two levels of reward.",
    caveat="Two kinds of prompts, one expected step; over many steps both speeds and the threshold move.",
    statement=falls_beyond(lambda hard, easy: hard / easy),
    planted={
        "whatever the speeds": falls_beyond(lambda hard, easy: 1),
        "the ratio inverted": falls_beyond(lambda hard, easy: easy / hard),
    },
)
def threshold(statement):
    """All groups of either prompt at six overlaps, under every weight."""
    points = [{"legs": legs, "G": size, "weight": weight} for size in (2, 4) for weight in WEIGHTS for legs in COSINES]
    yield from satisfies(statement, points, at_overlap)


def all_wrong_update(policy, correct, G, weight):
    """The mean of dz / eta over the groups without a success."""
    chance_of, total = Fraction(0), [Fraction(0)] * len(policy)
    for chance, counts in groups(policy, G):
        if not any(n for n, right in zip(counts, correct, strict=True) if right):
            move = direction(counts, policy, correct, as_weight(weight))
            chance_of += chance
            total = [entry + chance * d for entry, d in zip(total, move, strict=True)]
    return tuple(value / chance_of for value in total)


def one_failure(policy, correct, G, weight):
    """The step of one rollout of p^-, weighed by -w_F(0)."""
    wrong, weighed = 1 - mass(policy, correct), as_weight(weight).failure(0, G)
    coefficients = [0 if right else -weighed * p / wrong for p, right in zip(policy, correct, strict=True)]
    return tuple(score_gradient(policy, coefficients))


def along_gap(factor):
    """A factor of w_F(0) and Q, times u."""

    def stated(policy, correct, G, weight):
        scale = factor(as_weight(weight).failure(0, G), mass(policy, correct))
        return tuple(scale * u for u in gap(policy, correct))

    return stated


@claim(
    "simlab:interference-all-wrong",
    where=WHERE,
    says="The mean update of a group that is all wrong is w_F(0) Q u: nothing under weights that are 0 there, and in "
    "proportion to the solve rate under those that are not, such as NSR. Punishing all that it drew teaches a hard "
    "prompt next to nothing, and what it does teach its neighbours is as little.",
    formula=r"\mathbb{E}[\Delta z_i\mid s=0]=\eta\, w_F(0)\,Q_i\,u_i",
    refuted_by="a policy and a weight whose all-wrong groups move the logits otherwise on average",
    reading="Mean over such groups, which have the chance (1 - Q)^G; plain gradient. Under NSR such groups hold the "
    "share (1 - Q)^(G - 1) of kappa = 1, nearly all of it, so that throwing them away (dynamic sampling) takes from a "
    "hard prompt what little it had, and centred weights take it from the start. NGRPO (2509.18851) and LENS "
    "(2510.08696) are made to learn from such groups; a search (2026-11) did not find their mean. "
    "It needs two levels of reward.",
    caveat="In the mean over such groups. A single one moves the logits of what it drew by far more.",
    statement=along_gap(lambda weighed, q_pos: weighed * q_pos),
    planted={
        "in proportion to the failures": along_gap(lambda weighed, q_pos: weighed * (1 - q_pos)),
        "nothing": along_gap(lambda weighed, q_pos: 0),
        "of full size": along_gap(lambda weighed, q_pos: weighed),
    },
)
def all_wrong(statement):
    """All groups without a success; one rollout among the failures."""
    yield from equals(statement, cases((1, 2, 3)), derived=one_failure, enumerated=all_wrong_update)


def largest(group_size, weight):
    """A and B, the largest m_S and m_F of a group."""
    pairs = [masses(s, group_size, as_weight(weight)) for s in range(group_size + 1)]
    return tuple(max(pair[axis] for pair in pairs) for axis in (0, 1))


def extremal(success, failure):
    """The weight with these masses wherever a group has a success, and a failure."""
    return Weight(
        lambda s, G: success * Fraction(G, s) if s else 0,
        lambda s, G: failure * Fraction(G, G - s) if s < G else 0,
    )


def own_mixed_mass(policy, correct, G, weight):
    """The change of a prompt's own log-odds over eta |u|^2, from all groups."""
    u = gap(policy, correct)
    change = expected_direction(policy, correct, G, as_weight(weight))
    return product(change, mass_gradient(policy, correct)) / (
        mass(policy, correct) * (1 - mass(policy, correct)) * product(u, u)
    )


def held_and_bound(policy, correct, G, weight):
    """A weight's mixed mass, that of the extremal weight of its A and B, and the parts of the bound."""
    success, failure = largest(G, weight)
    pair = [own_mixed_mass(policy, correct, G, each) for each in (weight, extremal(success, failure))]
    return (*pair, success, failure)


def within(bound):
    """No weight exceeds a bound, and the extremal one reaches it."""

    def holds(values, policy, correct, G, weight):
        held, reached, success, failure = values
        most = bound(mass(policy, correct), G, success, failure)
        return held <= most and reached == most

    return holds


@claim(
    "simlab:interference-bound",
    where=WHERE,
    says="The most that a prompt can hold by itself, whatever the weight of reward and solve rate: m = kappa Q (1 - Q) "
    "is at most A (1 - Q) times the chance of a success in the group plus B Q times that of a failure, where no group "
    "puts more than A on its successes and B on its failures; and one weight reaches it.",
    formula=r"m\le A(1-Q)\left(1-(1-Q)^G\right)+B\,Q\left(1-Q^G\right)",
    refuted_by="a weight of masses at most A and B with a larger m, or no weight that reaches the bound",
    reading="m |u|^2 K_jj eta / P is the own part of the drift of the log-odds. Whichever weight is chosen, prompt j "
    "falls where others pull harder than this. For small Q the bound is A G Q + B Q: with bounded masses it takes "
    "groups of about 1 / Q to hold a pull that does not vanish, and weighing failures cannot replace them. A search "
    "(2026-11) found no such bound. "
    "It needs two levels of reward.",
    statement=within(lambda q, G, a, b: a * (1 - q) * (1 - (1 - q) ** G) + b * q * (1 - q**G)),
    planted={
        "failures as good as successes": within(lambda q, G, a, b: (a + b) * (1 - q) * (1 - (1 - q) ** G)),
        "successes alone": within(lambda q, G, a, b: a * (1 - q) * (1 - (1 - q) ** G)),
        "one rollout": within(lambda q, G, a, b: (a + b) * q * (1 - q)),
    },
)
def bound(statement):
    """All groups, for every weight and for the extremal one of its masses."""
    yield from satisfies(statement, cases((1, 2, 3)), held_and_bound)


def needed(rate, incoming):
    """The G beyond which MaxRL holds a pull: 1 + log(1 - R / (1 - Q)) / log(1 - Q)."""
    return 1 + mp.log(1 - number(incoming / (1 - rate))) / mp.log(1 - number(rate))


@claim(
    "simlab:interference-group-size",
    where=WHERE,
    says="Under MaxRL a prompt holds a pull R of others from G > 1 + log(1 - R / (1 - Q)) / log(1 - Q) on, about R / "
    "Q; under PSR, NSR and Dr. GRPO no group size does where R > Q (1 - Q).",
    formula=r"m_{\mathrm{MaxRL}}=(1-Q)\left(1-(1-Q)^{G-1}\right),\quad m_{\mathrm{PSR}}=m_{\mathrm{NSR}}=Q(1-Q),\quad "
    r"m_{\mathrm{Dr. GRPO}}=\tfrac{G-1}{G}Q(1-Q)",
    refuted_by="a solve rate, a pull and a group size at which one of these weights holds or yields otherwise",
    reading="R = -(sum over the others of K_ij m_i <u_i, u_j>) / (K_jj |u_j|^2), R < 1 - Q, which the weight changes "
    "too: what counts between weights is the ratio of their speeds at hard and at easy prompts. In between lies GRPO, "
    "whose kappa is sqrt(G - 1) at Q = 0 and 1 / sqrt(Q (1 - Q)) in the limit of large groups. A larger G helps by "
    "more speed at hard prompts, and under a weight of one speed it helps in noise alone. MaxRL (2602.02710) shows "
    "that its objective nears the log-likelihood as groups grow; a search (2026-11) found no such comparison. "
    "It needs two levels of reward.",
    statement=lambda held, rate, incoming, G, weight: (
        (held > incoming) == (weight == "maxrl" and needed(rate, incoming) < G)
    ),
    planted={
        "from one over Q on": lambda held, rate, incoming, G, weight: (
            (held > incoming) == (weight == "maxrl" and G * rate > 1)
        ),
        "under every weight": lambda held, rate, incoming, G, **_: (held > incoming) == (needed(rate, incoming) < G),
    },
)
def group_size(statement):
    """The binomial masses at every G to 40, against all groups where these are few."""
    points = [
        {"rate": rate, "incoming": incoming, "G": size, "weight": weight}
        for weight in ("maxrl", "psr", "nsr", "dr_grpo")
        for rate, incoming in ((Fraction(1, 20), Fraction(1, 10)), (Fraction(1, 50), Fraction(1, 4)))
        for size in range(2, 41)
    ]

    def held(rate, incoming, G, weight):
        return mixed((rate, 1 - rate), (True, False), G, WEIGHTS[weight])

    def enumerated(rate, incoming, G, weight):
        return own_mixed_mass((rate, 1 - rate), (True, False), G, weight)

    yield from satisfies(statement, points, held, method="numerical", derived=enumerated, tolerance=mpf("1e-40"))

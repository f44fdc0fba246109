"""When pass@k must fall although pass@1 rises, from which k on, and how many times it can turn."""

import itertools
from fractions import Fraction
from math import ceil, comb

import sympy
from mpmath import mp, mpf

from paper_checks.claim import claim
from paper_checks.evidence import number, satisfies, vanishes
from paper_checks.exact import mass, stepped
from paper_checks.laboratory.interference import WHERE
from paper_checks.laboratory.shared_head import (
    CONFLICT,
    NEGATIVE_OVERLAP,
    PAIRS,
    SOME_OVERLAP,
    changed_mass,
    enumerated_changes,
    overlap,
)
from paper_checks.laboratory.weights import WEIGHTS, Weight, expected_direction

HARD = Fraction(1, 50)
KINDS = ((CONFLICT[0][0], (Fraction(3, 5), HARD, Fraction(2, 5) - HARD)), CONFLICT[1])


def moves_of_kinds(numbers, G, weight):
    """The expected dz / eta of easy and hard prompts in these numbers, from all groups."""
    each = [expected_direction(*prompt, G, WEIGHTS[weight]) for prompt in zip(*KINDS, strict=True)]
    shares = [[overlap(SOME_OVERLAP, i, j) * Fraction(numbers[i], sum(numbers)) for i in (0, 1)] for j in (0, 1)]
    return [[sum(share * d for share, d in zip(row, pair, strict=True)) for pair in zip(*each, strict=True)]
            for row in shares]  # fmt: skip


def first_changes(numbers, G, weight):
    """The first-order change of both solve rates over eta."""
    moves = moves_of_kinds(numbers, G, weight)
    return [changed_mass(policy, correct, move) for policy, correct, move in zip(*KINDS, moves, strict=True)]


def exact_crossing(step, numbers, G, weight):
    """The k beyond 1 at which the curve of pass@k after a step of finite size meets the one before."""
    before = [number(mass(*prompt)) for prompt in zip(*KINDS, strict=True)]
    moves = moves_of_kinds(numbers, G, weight)
    after = [mass(stepped(policy, move, step), right) for policy, right, move in zip(*KINDS, moves, strict=True)]

    def gain(k):
        kinds = zip(numbers, before, after, strict=True)
        return mp.fsum(count * ((1 - old) ** k - (1 - new) ** k) for count, old, new in kinds)

    ends = next(pair for pair in itertools.pairwise(range(1, 400)) if gain(pair[0]) > 0 >= gain(pair[1]))
    return mp.findroot(gain, ends, solver="anderson", tol=mpf("1e-80"), verify=False)


def crossing_by(formula):
    """k*, where pass@1 rises and hard prompts lose; else nothing is said."""

    def stated(numbers, G, weight):
        gain, loss = (count * change for count, change in zip(numbers, first_changes(numbers, G, weight), strict=True))
        rates = [number(mass(*prompt)) for prompt in zip(*KINDS, strict=True)]
        return formula(number(gain), -number(loss), *rates) if gain + loss > 0 > loss else None

    return stated


def crossing_formula(gain, loss, easy, hard):
    """1 + log(gain / loss) / log((1 - Q_h) / (1 - Q_e))."""
    return 1 + mp.log(gain / loss) / mp.log((1 - hard) / (1 - easy))


CROSSINGS = [
    {"numbers": numbers, "G": 2, "weight": weight}
    for numbers in ((1, 1), (3, 2), (5, 1), (1, 9))
    for weight in ("psr", "dr_grpo")
]


@claim(
    "simlab:interference-crossing",
    where=WHERE,
    says="Of n_e easy prompts that gain and n_h hard ones that lose, with pass@1 rising, pass@k rises at every k below "
    "k* = 1 + log(n_e dQ_e / (n_h |dQ_h|)) / log((1 - Q_h) / (1 - Q_e)) and falls at every k above it.",
    formula=r"k^*=1+\frac{\log\left(n_e\,\Delta Q_e/(n_h|\Delta Q_h|)\right)}{\log\left((1-Q_h)/(1-Q_e)\right)}",
    refuted_by="two kinds of prompts whose curves of pass@k before and after a small step meet elsewhere",
    reading="First order in the step: the distance from the crossing of the exact curves vanishes with eta. pass@k is "
    "the mean of 1 - (1 - Q)^k. This is the pattern of Yue et al. (2504.13837), better at small k and worse at large, "
    "after one expected step: it needs no loss of support (Wu et al., 2507.14843) and no sampling noise, only two "
    "kinds of prompts of which the harder lose; that problems interfere so is what Nguyen et al. (2510.02230) measure. "
    "Over many steps k* moves with Q and dQ. A search (2026-11) found no formula for where the curves cross. "
    "It speaks of changes of solve rates, whatever rewards bring them about.",
    caveat="Two kinds of prompts, one small expected step.",
    statement=crossing_by(crossing_formula),
    planted={
        "without the one": crossing_by(lambda *values: crossing_formula(*values) - 1),
        "the ratio of solve rates": crossing_by(
            lambda gain, loss, easy, hard: 1 + mp.log(gain / loss) / mp.log(easy / hard)
        ),
        "gain and loss exchanged": crossing_by(
            lambda gain, loss, easy, hard: crossing_formula(loss, gain, easy, hard)
        ),
    },
)  # fmt: skip
def crossing(statement):
    """The exact curves of pass@k as the step shrinks, in 50 digits; the first-order change at every k to 60."""

    def error(step, **point):
        stated = statement(**point)
        return None if stated is None else exact_crossing(step, **point) - stated

    yield from vanishes(error, CROSSINGS, order=1)

    def changes(k, **point):
        rates = [mass(*prompt) for prompt in zip(*KINDS, strict=True)]
        rows = zip(point["numbers"], rates, first_changes(**point), strict=True)
        return sum(count * k * (1 - rate) ** (k - 1) * change for count, rate, change in rows)

    def turns(change, k, **point):
        stated = statement(**point)
        return None if stated is None else (change > 0) == (k < stated)

    yield from satisfies(turns, [point | {"k": k} for point in CROSSINGS for k in range(1, 61)], changes)


BASE = Fraction(9, 10)  # prompts fail with a power of it, so that pass@k is a polynomial in y = BASE^(k - 1)
SCALES = ((0, 1, 3, 4), (1, 2, 3, 6))


def sums(*roots):
    """The coefficients of the polynomial with these roots that is 1 at 1, from the lowest power on."""
    y = sympy.Symbol("y")
    poly = sympy.Poly(sympy.prod([(y - sympy.Rational(*root)) for root in roots]), y)
    return tuple(Fraction(int(c.p), int(c.q)) for c in reversed((poly / poly.eval(1)).as_poly(y).all_coeffs()))


DESCARTES = [
    {"powers": powers, "changes": changes}
    for powers in SCALES
    for changes in itertools.product((-3, 2, 5), repeat=4)
    if sum(changes)
] + [{"powers": tuple(range(len(roots) + 1)), "changes": sums(*roots)}
     for roots in (((4, 5), (1, 2)), ((4, 5), (1, 2), (1, 5)), ((1, 2), (3, 2)))]  # fmt: skip


def counted_crossings(powers, changes):
    """Count the sign changes of the sum of (1 - Q)^(k - 1) dQ over k > 1, by Sturm's theorem; and those of dQ."""
    y = sympy.Symbol("y")
    lowest = powers[0]
    whole = sympy.Poly(sum(sympy.Rational(c) * y ** (a - lowest) for a, c in zip(powers, changes, strict=True)), y)
    odd = [factor for factor, times in whole.sqf_list()[1] if times % 2]
    crossings = sum(factor.count_roots(0, 1) for factor in odd)  # neither 0 nor 1 is a root
    return crossings, sum(before * after < 0 for before, after in itertools.pairwise(changes))


def scanned_crossings(powers, changes):
    """The same, by looking at the sum at many k."""
    heights = [Fraction(n, 199) for n in range(1, 199)]
    values = [sum(c * height**a for a, c in zip(powers, changes, strict=True)) for height in heights]
    signs = [value > 0 for value in [changes[0], *values, sum(changes)] if value]
    return (
        sum(before != after for before, after in itertools.pairwise(signs)),
        sum(before * after < 0 for before, after in itertools.pairwise(changes)),
    )


@claim(
    "simlab:interference-descartes",
    where=WHERE,
    says="Over k > 1 the change of pass@k turns its sign at most as often as dQ does from the hardest prompt to the "
    "easiest, and an odd number of times exactly if pass@1 and the hardest prompts go opposite ways: the crossing is "
    "unique where all prompts up to some solve rate lose and all easier ones gain.",
    refuted_by="solve rates and changes with more crossings than sign changes, or with an even number of crossings "
    "though pass@1 rises and the hardest prompts lose",
    reading="First order; Descartes' rule of signs for sums of exponentials, here tried on rates whose 1 - Q are "
    "powers of 9/10, where it is the rule for polynomials. With several changes of sign pass@k can fall, rise and fall "
    "again: three prompts with roots at .8 and .5 show two crossings. The rule is in Polya and Szego (Problems and "
    "Theorems in Analysis II); a search (2026-11) did not find it used on pass@k. "
    "It speaks of changes of solve rates, whatever rewards bring them about.",
    statement=lambda counts, changes, **_: (
        counts[0] <= counts[1] and (counts[0] % 2 == 1) == (sum(changes) * changes[0] < 0)
    ),
    planted={
        "at most one": lambda counts, **_: counts[0] <= 1,
        "as many": lambda counts, **_: counts[0] == counts[1],
        "fewer": lambda counts, **_: counts[0] < counts[1] or counts[1] == 0,
    },
)
def descartes(statement):
    """Sturm's theorem, against a scan of many k."""
    yield from satisfies(statement, DESCARTES, counted_crossings, derived=scanned_crossings)


def beyond(powers, changes, further):
    """The sum of (1 - Q)^(k - 1) dQ at a whole k beyond 1 + log(sum of the others / hardest) / log(the ratio)."""
    outweighed = Fraction(sum(abs(c) for c in changes[1:])) / abs(changes[0])
    ratio = BASE ** (powers[0] - powers[1])
    k = 1 + max(0, ceil(mp.log(number(outweighed)) / mp.log(number(ratio)))) + further
    return sum(c * BASE ** (a * (k - 1)) for a, c in zip(powers, changes, strict=True))


@claim(
    "simlab:interference-large-k",
    where=WHERE,
    says="At large k the hardest prompts that move decide alone: pass@k falls at every k beyond 1 + log(sum of the "
    "others' |dQ| / |dQ_h|) / log((1 - Q_h) / (1 - Q_next)) if they lose, however much all others gain.",
    formula=r"k>1+\frac{\log\left(\sum_{j\ne h}|\Delta Q_j|/|\Delta Q_h|\right)}{\log\left((1-Q_h)/(1-Q_{next})\right)}"
    r"\Rightarrow \mathrm{sign}\,\Delta\mathrm{pass@}k=\mathrm{sign}\,\Delta Q_h",
    refuted_by="solve rates and changes with another sign at a larger k",
    reading="First order, the hardest strictly harder than the next. So pass@k falls below the base model's in the end "
    "exactly if the hardest prompts lose, which an expected step makes them do where the pull of others exceeds what "
    "they hold themselves (simlab:interference-bound). That the hardest prompts rule pass@k at large k is known "
    "(Schaeffer et al., 2502.17578); a search (2026-11) did not find from which k on. "
    "It speaks of changes of solve rates, whatever rewards bring them about.",
    statement=lambda total, changes, **_: total * changes[0] > 0,
    planted={
        "pass@1 decides": lambda total, changes, **_: total * sum(changes) > 0,
        "the easiest decide": lambda total, changes, **_: total * changes[-1] > 0,
    },
)
def large_k(statement):
    """Exact sums at whole k from there on."""
    points = [point | {"further": further} for point in DESCARTES for further in (1, 2, 30)]
    yield from satisfies(statement, points, beyond, method="numerical")


def pass_at_k_weight(k):
    """The weight of the successes alone whose expected step is that of pass@k itself, kappa = k (1 - Q)^(k - 1)."""
    return Weight(lambda s, G: k * Fraction(comb(G - s, k - 1), comb(G - 1, k - 1)), lambda s, G: 0)


def both_ways(k, policies, correct, features, G):
    """The effect of a step on pass@1 on pass@k, and of one on pass@k on pass@1, from all pairs of groups."""
    head = {"policies": policies, "correct": correct, "features": features, "G": G}
    rates = [mass(*prompt) for prompt in zip(policies, correct, strict=True)]
    plain = enumerated_changes(**head, weight=WEIGHTS["psr"])
    steered = enumerated_changes(**head, weight=pass_at_k_weight(k))
    return sum(k * (1 - q) ** (k - 1) * change for q, change in zip(rates, plain, strict=True)) / 2, sum(steered) / 2


@claim(
    "simlab:interference-pass-at-k-reciprocity",
    where=WHERE,
    says="What a step on pass@1 does to pass@k is what a step on pass@k does to pass@1: the fall of pass@k under plain "
    "rewards and the fall of pass@1 under pass@k rewards are one number.",
    formula=r"\langle\nabla \mathrm{pass@}1,\nabla \mathrm{pass@}k\rangle",
    refuted_by="a head at which the two differ",
    reading="Expected plain gradient steps of one rate, first order: REINFORCE with any constant baseline, and PKPO's "
    "weight without a baseline, whose kappa is k (1 - Q)^(k - 1). Barakat et al. (2602.21189) show when the second is "
    "below 0, by prompts that interfere negatively and are weighed up; by this symmetry it is when the first is. PKPO "
    "is Walder and Karkhanis (2505.15201). A search (2026-11) found nobody who notes the symmetry. "
    "It needs two levels of reward.",
    identity=True,
    statement=lambda effects, **_: effects[0] == effects[1],
    planted={
        "opposite": lambda effects, **_: effects[0] == -effects[1],
        "pass@k's own step is the better for pass@1": lambda effects, **_: effects[0] < effects[1],
    },
)
def pass_at_k_reciprocity(statement):
    """All pairs of groups under both weights."""
    points = [
        {"k": k, "policies": pair[0], "correct": pair[1], "features": features, "G": 3}
        for k in (2, 3)
        for pair in PAIRS[:3]
        for features in (SOME_OVERLAP, NEGATIVE_OVERLAP)
    ]
    yield from satisfies(statement, points, both_ways)

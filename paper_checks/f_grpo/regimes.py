"""Section 3.1 in words: activity, coverage, and how the tail-miss probability depends on the group size."""

import itertools
from fractions import Fraction

import numpy as np
import sympy

from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import binomial
from paper_checks.f_grpo.tail_miss import POINTS, enumerated_tail_miss
from paper_checks.simulated import drawn, estimate

SIZES = (1, 2, 3, 4, 8, 16, 64, 256, 4096)
MASSES = (Fraction(1, 100), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(99, 100))
TARGETS = grid(
    lambda mu, tau: tau <= mu,
    mu=(*MASSES, Fraction(1)),
    tau=(Fraction(1, 1000), Fraction(1, 100), Fraction(1, 4), Fraction(9, 10)),
)
NEAR_A_THIRD = grid(mu=MASSES[2:], tau=(Fraction(32, 100), Fraction(34, 100)))


def tail_miss(G, mu, tau):
    """Lemma 3.1, which f-grpo:lemma-3.1 settles."""
    return (1 - tau) ** G - (mu - tau) ** G - (1 - mu) ** G


def activity(G, mu):
    """The probability of a mixed group, summed over the number of correct rollouts."""
    return sum(binomial(G, mu)[1:G], start=Fraction(0))


@claim(
    "f-grpo:eq-7",
    where="Section 3.1, Eq. 7",
    says="A group is active, 0 < X < G, with probability 1 - mu^G - (1 - mu)^G.",
    formula=r"\Pr(\mathcal{A}_G) = 1 - \mu^G - (1-\mu)^G",
    refuted_by="one (G, mu) at which the summed probability of mixed groups differs",
    reading="For G >= 1. At G = 1 it is 0, as it should be.",
    statement=lambda G, mu: 1 - mu**G - (1 - mu) ** G,
    planted={
        "all wrong counted as active": lambda G, mu: 1 - mu**G,
        "an exponent": lambda G, mu: 1 - mu**G - (1 - mu) ** (G - 1),
    },
)
def eq_7(statement):
    """Sum the binomial over mixed groups, symbolically and exactly, and draw groups."""

    def sampled(G, mu):
        correct = np.sum(drawn((mu, 1 - mu), G) == 0, axis=1)
        return estimate((correct > 0) & (correct < G))

    mu = sympy.Symbol("mu", positive=True)
    yield from equals(
        statement,
        grid(G=[1, 2, 3, 8], mu=(Fraction(0), *MASSES, Fraction(1))),
        derived=activity,
        symbolic_points=[{"G": size, "mu": mu} for size in (1, 2, 3, 5)],
        sampled=sampled,
        sampled_points=[{"G": 4, "mu": Fraction(9, 10)}],
    )


@claim(
    "f-grpo:lemma-3.1-factors",
    where="Section 3.1, below Lemma 3.1",
    says="Coverage and activity together determine the tail-miss probability: it is the coverage factor (1 - tau)^G "
    "times the activity given a miss, at correct mass (mu - tau)/(1 - tau).",
    refuted_by="one (G, mu, tau) at which the product of the two is not the tail-miss probability",
    reading="The paper names the two effects and gives no product. With the unconditional activity of Eq. 7, as the "
    "text could be read, the product would be another.",
    inferred=True,
    statement=lambda G, mu, tau: None if tau == 1 else (1 - tau) ** G * activity(G, (mu - tau) / (1 - tau)),
    planted={"the unconditional activity": lambda G, mu, tau: (1 - tau) ** G * activity(G, mu)},
)
def factors(statement):
    """Against the enumerated tail-miss probability."""
    yield from equals(statement, POINTS, enumerated=enumerated_tail_miss)


@claim(
    "f-grpo:lemma-3.1-competing",
    where="Section 3.1, below Lemma 3.1",
    says="The coverage factor decreases with G; activity increases, from near zero toward one.",
    refuted_by="mu and tau, strictly between 0 and 1, at which a sequence is not monotone or ends elsewhere",
    reading="From G = 1, where no group is active.",
    caveat="From G = 2, the smallest group that can be active, activity starts at 2 mu (1 - mu). That is near zero "
    "for very hard and very easy prompts alone; at mu = 1/2 it is 1/2.",
    statement=lambda coverage, active: (
        all(np.diff(coverage) < 0) and all(np.diff(active) > 0) and active[0] < 0.01 and active[-1] > 0.99
    ),
    planted={"activity falls": lambda coverage, active: all(np.diff(active) < 0)},
)
def competing(statement):
    """Both sequences at growing G; activity by Eq. 7, which f-grpo:eq-7 settles."""
    yield from satisfies(
        lambda value, mu, tau: bool(statement(*value)),
        [point for point in TARGETS if point["mu"] < 1],
        lambda mu, tau: (
            [(1 - tau) ** G for G in SIZES],
            [1 - mu**G - (1 - mu) ** G for G in SIZES],
        ),
        method="numerical",
    )


def rises_then_falls(values):
    """Check that a sequence rises strictly to an inner peak, then falls strictly."""
    peak = max(range(len(values)), key=values.__getitem__)
    steps = [later - earlier for earlier, later in itertools.pairwise(values)]
    return 0 < peak < len(values) - 1 and all(s > 0 for s in steps[:peak]) and all(s < 0 for s in steps[peak:])


@claim(
    "f-grpo:lemma-3.1-non-monotonic",
    where="Section 3.1, below Lemma 3.1; Abstract; Section 7",
    says="Given mu and tau the tail-miss probability of a rare target first rises with G, then falls: intermediate G "
    "maximizes it.",
    refuted_by="mu and tau at which it has no interior peak, or more than one",
    reading="Rare, as the section has it throughout: tau < 1/3 is enough. Group sizes from 2, the smallest that can be "
    "active, and tau < mu < 1; at tau = mu or mu = 1 the probability is 0 throughout. From G = 2 to 3 it changes by "
    "the factor 3 (1 - tau) / 2, whatever mu. Counted from G = 1, where no group is active, it rises at first for "
    "every tau.",
    caveat="Given an active group the probability of a miss only falls with G.",
    statement=lambda values, mu, tau: rises_then_falls(values) if tau < Fraction(1, 3) else None,
    planted={
        "for every target": lambda values, mu, tau: rises_then_falls(values),
        "it only rises": lambda values, mu, tau: all(np.diff(values) > 0) if tau < Fraction(1, 3) else None,
        "only for tau < 1/4": lambda values, mu, tau: rises_then_falls(values) == (tau < Fraction(1, 4)),
        "for tau < 1/2": lambda values, mu, tau: rises_then_falls(values) if tau < Fraction(1, 2) else None,
    },
)
def non_monotonic(statement):
    """Lemma 3.1 at every G from 2 to 12 and at powers of two beyond the peak, in 50 digits."""
    sizes = (*range(2, 13), *(2**power for power in range(4, 14)))
    targets = [point for point in (*TARGETS, *NEAR_A_THIRD) if point["tau"] < point["mu"] < 1]
    yield from satisfies(
        statement,
        targets,
        lambda mu, tau: [tail_miss(G, number(mu), number(tau)) for G in sizes],
        method="numerical",
    )


@claim(
    "f-grpo:sec-7-small-groups",
    where="Section 7; Sections 1 and 3.1",
    says="Small groups limit active misses through inactivity, large groups through coverage.",
    refuted_by="a case in which the tail-miss probability at G = 2 is not below its peak, or at large G is not small",
    reading="0 < tau < mu < 1. At G = 2 at least half of all groups are inactive, whatever mu. That bounds active "
    "misses by 1/2; the part missed, given activity, is at its largest there.",
    caveat="This is about the chance of an active miss, not about the mass that is kept. In the simulation small "
    "groups keep their mass at a chance near one: f-grpo:sec-5.1-lemma-locates-zone.",
    statement=lambda pair, peak, large, inactive: pair < peak and large < Fraction(1, 10) and inactive >= 1 / 2,
    planted={"pairs are inactive nine times in ten": lambda pair, peak, large, inactive: inactive > 9 / 10},
)
def small_groups(statement):
    """Lemma 3.1 at G = 2, at its largest over the sizes, and where G tau is 5 or more."""
    sizes = (2, 3, 4, 8, 16, 64)

    def course(mu, tau):
        values = [tail_miss(G, mu, tau) for G in sizes]
        return values[0], max(values), tail_miss(int(5 / tau), mu, tau), 1 - activity(2, mu)

    points = [{"mu": mu, "tau": tau} for mu in MASSES[1:4] for tau in (Fraction(1, 1000), Fraction(1, 100)) if tau < mu]
    yield from satisfies(lambda value, **_: bool(statement(*value)), points, course, method="numerical")

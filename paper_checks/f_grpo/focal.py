"""Sections 2.1, 2.2 and 4, Appendix I: the group-relative advantage and the focal weight."""

import itertools
from fractions import Fraction

import numpy as np
import sympy
from mpmath import mpf, sqrt

import simlab
from paper_checks.claim import claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.exact import binomial
from paper_checks.simulated import drawn, estimate

SIZES = (2, 4, 8)
GROUPS_BY_SUCCESS = grid(lambda X, G: X <= G, G=SIZES, X=range(9))
MIXED = [point for point in GROUPS_BY_SUCCESS if 0 < point["X"] < point["G"]]
GAMMAS = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2))


def rewards(G, X, right=1, wrong=0):
    """X correct rollouts, then G - X incorrect ones."""
    return [right] * X + [wrong] * (G - X)


def standardised(values):
    """(r - mean)/std with the population std, 0 where all are equal, in 50 digits."""
    mean = sum(map(number, values)) / len(values)
    spread = sqrt(sum((number(value) - mean) ** 2 for value in values) / len(values))
    return [(number(value) - mean) / spread if spread else mpf(0) for value in values]


@claim(
    "f-grpo:eq-3",
    where="Section 2.2, Eq. 3",
    says="(R - mean)/(std + eps) is a standardised advantage: +sqrt((1-p)/p) on the correct and -sqrt(p/(1-p)) on the "
    "incorrect at success rate p, zero for all rollouts of a group of equal rewards.",
    formula=r"\hat A_i = \frac{R_i - \mathrm{mean}(R)}{\mathrm{std}(R) + \epsilon}",
    refuted_by="a number of correct rollouts at which an advantage differs, also by simlab's estimator",
    reading="eps -> 0 and the population std, neither of which the paper states. With the sample std both are smaller, "
    "by the factor sqrt((G-1)/G); at eps = 1e-6 the difference is of that order.",
    identity=True,
    statement=lambda G, X: (mpf(0), mpf(0)) if X in (0, G) else (sqrt(mpf(G - X) / X), -sqrt(mpf(X) / (G - X))),
    planted={
        "not centred": lambda G, X: (mpf(0), mpf(0)) if X in (0, G) else (G / sqrt(mpf(X) * (G - X)), mpf(0)),
        "uniform groups learn": lambda G, X: (mpf(X == G), mpf(0)) if X in (0, G) else None,
    },
)
def eq_3(statement):
    """Standardise the rewards of every group; and ask the library."""

    def of_both(values, X):
        return (values[0] if X else mpf(0), values[-1] if len(values) > X else mpf(0))

    yield from equals(statement, GROUPS_BY_SUCCESS, enumerated=lambda G, X: of_both(standardised(rewards(G, X)), X))

    def close(value, G, X):
        stated = statement(G, X)
        return None if stated is None else all(abs(v - s) < 1e-6 for v, s in zip(value, stated, strict=True))

    yield from satisfies(
        close,
        GROUPS_BY_SUCCESS,
        lambda G, X: of_both([mpf(a) for a in simlab.advantages("grpo", np.array(rewards(G, X), float), eps=0.0)], X),
        method="numerical",
    )


@claim(
    "f-grpo:eq-1",
    where="Section 2.1, Eq. 1, with Section 2.3 and Appendix J",
    says="Rewards are binary, R_c and R_w; what they are changes nothing in the group-relative advantage.",
    refuted_by="reward values R_c > R_w for which the advantages of Eq. 3 differ from those for 1 and 0",
    reading="The paper uses 1 and 0 for LLMs, 1 and -1 in the simulation, and R_c >= 0 >= R_w in the theory. For Eq. "
    "3 that is free (eps = 0). It is not for Section 2.3, where the unsampled have reward 0: with R_w = 0 the "
    "baseline S_R is never negative, so every batch with a success is reward-positive.",
    inferred=True,
    identity=True,
    statement=lambda right, wrong: right > wrong,
    planted={"also with R_c < R_w": lambda right, wrong: right != wrong},
)
def eq_1(statement):
    """Standardise the same groups under several pairs of rewards."""
    pairs = ((1, 0), (1, -1), (Fraction(1, 2), -2), (5, 3), (-1, 1))

    def same(right, wrong, G, X):
        ours, usual = standardised(rewards(G, X, right, wrong)), standardised(rewards(G, X))
        return all(abs(a - b) < mpf("1e-40") for a, b in zip(ours, usual, strict=True))

    points = [{"right": r, "wrong": w} | point for r, w in pairs for point in MIXED]
    yield from satisfies(
        lambda value, right, wrong, **_: value if statement(right, wrong) else None, points, same, method="numerical"
    )


@claim(
    "f-grpo:eq-11",
    where="Section 4.1, Eq. 11",
    says="X/G is the group's mean reward and an unbiased estimator of the success probability.",
    formula=r"\hat\mu_{pos}(x) = X / G",
    refuted_by="a success probability and a group size with another mean of X/G, or a group with another mean reward",
    reading="Mean reward for rewards 1 and 0. With rewards 1 and -1 the mean reward is 2 X/G - 1 and only X/G is "
    "unbiased.",
    identity=True,
    statement=lambda X, G: X * Fraction(1, G),
    planted={"Laplace's rule": lambda X, G: Fraction(X + 1, G + 2)},
)
def eq_11(statement):
    """The mean reward of each group, the mean over the binomial, symbolically, and over drawn groups."""
    yield from equals(statement, GROUPS_BY_SUCCESS, enumerated=lambda G, X: Fraction(sum(rewards(G, X)), G))
    p = sympy.Symbol("p", positive=True)
    yield from equals(
        lambda G, p: sum(chance * statement(X, G) for X, chance in enumerate(binomial(G, p))),
        grid(G=SIZES, p=(Fraction(1, 10), Fraction(3, 5))),
        derived=lambda G, p: p,
        symbolic_points=[{"G": size, "p": p} for size in (1, 2, 5)],
        sampled=lambda G, p: estimate(np.mean(drawn((p, 1 - p), G) == 0, axis=1)),
        sampled_points=[{"G": 4, "p": Fraction(9, 10)}],
    )


@claim(
    "f-grpo:eq-12",
    where="Section 4.1, Eq. 12",
    says="The focal weight is 1 for all groups at gamma = 0, decreases with the success rate for gamma > 0, and goes "
    "to 0 as the success rate goes to 1.",
    formula=r"g(x) = (1 - \hat\mu_{pos}(x))^\gamma",
    refuted_by="a gamma at which the weight of two success rates is in the wrong order, or a limit other than 0",
    reading="At gamma = 0 and X = G it is 0^0, read as 1; the group's advantages are 0 in any case.",
    identity=True,
    statement=lambda p, gamma: number(1 - p) ** number(gamma),
    planted={
        "success rate to the gamma": lambda p, gamma: number(p) ** number(gamma),
        "linear": lambda p, gamma: 1 - number(gamma) * number(p) / 2,
    },
)
def eq_12(statement):
    """The weights of all groups of eight, in order; then the distance from 0 as p goes to 1."""
    rates = [Fraction(X, 8) for X in range(8)]

    def proper(value, gamma):
        if gamma == 0:
            return all(weight == 1 for weight in value)
        return value[0] == 1 and all(earlier > later > 0 for earlier, later in itertools.pairwise(value))

    yield from satisfies(
        proper, grid(gamma=GAMMAS), lambda gamma: [statement(p, gamma) for p in rates], method="numerical"
    )
    yield from vanishes(lambda step, gamma: statement(1 - step, gamma), grid(gamma=GAMMAS[1:]), order=0.5)


WEIGHTED = [point | {"gamma": gamma} for point in MIXED for gamma in GAMMAS]


def focal_advantages(G, X, gamma):
    """Eqs. 11 to 13 from the rewards of a group alone."""
    group = rewards(G, X)
    weight = (1 - mpf(sum(group)) / len(group)) ** number(gamma)
    return tuple(weight * value for value in standardised(group))


@claim(
    "f-grpo:eq-13",
    where="Section 4.2, Eq. 13",
    says="A focal advantage is one scalar times the group's advantages: gamma = 0 gives the base method back, and the "
    "mean over the group stays 0.",
    formula=r"\hat A_i^F = g(x) \hat A_i",
    refuted_by="a group whose advantages, each times (1 - mean reward)^gamma, are not that scalar times those of GRPO, "
    "or do not sum to 0",
    reading="Base GRPO; the factor does not depend on which rollout. The scalar is fixed during the update, as X/G is "
    "no function of the parameters.",
    identity=True,
    statement=lambda G, X, gamma: number(1 - Fraction(X, G)) ** number(gamma),
    planted={"per rollout": lambda G, X, gamma: number(1 - Fraction(X, G)) ** number(gamma + Fraction(1, 2))},
)
def eq_13(statement):
    """From the rewards of every mixed group, rollout by rollout; and ask the library."""

    def of_library(G, X, gamma):
        values = simlab.advantages(
            "f_grpo", np.array(rewards(G, X), float), gamma=float(gamma), base=simlab.estimator("grpo", eps=0.0)
        )
        return tuple(map(mpf, values.tolist()))

    def scaled(value, G, X, gamma):
        stated = [statement(G, X, gamma) * plain for plain in standardised(rewards(G, X))]
        same = all(abs(a - b) < mpf("1e-12") for a, b in zip(value, stated, strict=True))
        return same and abs(sum(value)) < mpf("1e-12")

    yield from satisfies(scaled, WEIGHTED, focal_advantages, method="numerical")
    yield from satisfies(scaled, WEIGHTED, of_library, method="numerical")


@claim(
    "f-grpo:abstract-no-extra-cost",
    where="Abstract, last sentence; Section 1, last contribution; Section 7",
    says="The focal weight needs no rollouts beyond those of the group that it weighs.",
    refuted_by="a group whose focal advantages take another number of rollouts than its own",
    reading="By construction: X is counted in the group that the base method draws. Rollouts of one training; the "
    "abstract adds 'or computational cost', and one product a rollout is the cost of the weight itself.",
    caveat="The search is not counted: each of the nine gains of Table 1 is the best of three trainings with the "
    "weight beside one without (Table 6). Nor is it known how many steps the compared checkpoints took: "
    "f-grpo:app-l.4-compute.",
    identity=True,
    statement=lambda G, X, gamma: G,
    planted={"one more": lambda G, X, gamma: G + 1, "the correct ones": lambda G, X, gamma: X},
)
def no_extra_cost(statement):
    """Count the outputs for the rewards of every mixed group."""
    yield from equals(statement, WEIGHTED, enumerated=lambda **point: len(focal_advantages(**point)))


def group_magnitude(p, gamma):
    """Sum of |A| over the group, divided by G, from the two advantages of Eq. 3 and their shares."""
    share, weight = number(p), (1 - number(p)) ** number(gamma)
    return weight * (share * sqrt((1 - share) / share) + (1 - share) * sqrt(share / (1 - share)))


@claim(
    "f-grpo:app-i",
    where="Section 4.1, last sentences; Appendix I, Figure 4",
    says="GRPO's advantage magnitudes vary with the success rate; the focal weight cuts high-success groups more than "
    "low-success ones.",
    refuted_by="equal magnitudes at different rates, or a cut that is larger at a lower rate",
    reading="Magnitude as the mean of |A| over the group, cut as the factor by which it falls. The total peaks at p = "
    "1/(2 + 2 gamma) instead of 1/2. Single rollouts: the focal advantage of a failure is -(1-p)^(gamma-1/2) sqrt(p), "
    "which at the paper's usual gamma = 1/2 still grows with p, to 1.",
    identity=True,
    statement=lambda plain, focal: (
        len(set(plain)) > 1
        and all(
            f / p > later_f / later_p
            for p, f, later_p, later_f in zip(plain, focal, plain[1:], focal[1:], strict=False)
        )
    ),
    planted={"low-success groups are cut more": lambda plain, focal: focal[0] / plain[0] < focal[-1] / plain[-1]},
)
def app_i(statement):
    """The magnitudes at the success rates of groups of eight."""
    rates = [Fraction(X, 8) for X in range(1, 8)]
    yield from satisfies(
        lambda value, **_: statement(*value),
        grid(gamma=GAMMAS[1:]),
        lambda gamma: ([group_magnitude(p, 0) for p in rates], [group_magnitude(p, gamma) for p in rates]),
        method="numerical",
    )

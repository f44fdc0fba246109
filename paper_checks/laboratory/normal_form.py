"""The normal form of a weight on rewards 0 and 1, and the baseline of least variance for its speed."""

from fractions import Fraction

import sympy

from paper_checks.claim import claim
from paper_checks.evidence import equals, grid
from paper_checks.exact import binomial
from paper_checks.laboratory.expected_update import arbitrary_weight
from paper_checks.laboratory.weights import WEIGHTS, as_weight, expected_direction, expected_masses, mass_gradient


def mean_speed(speed):
    """kappa from c(j): the mean over j correct ones among G - 1 others."""
    return lambda q_pos, G, weight: sum(
        chance * speed(as_weight(weight), j, G) for j, chance in enumerate(binomial(G - 1, q_pos))
    )


def derived_slope(q_pos, G, weight):
    """Kappa from the two masses, as in simlab:expected-update."""
    success, failure = expected_masses(q_pos, G, as_weight(weight))
    return success / q_pos + failure / (1 - q_pos)


def enumerated_slope(q_pos, G, weight):
    """The step of the first of two correct actions over its part of grad Q, from all groups."""
    policy, correct = (q_pos / 3, 2 * q_pos / 3, 1 - q_pos), (True, True, False)
    return expected_direction(policy, correct, G, as_weight(weight))[0] / mass_gradient(policy, correct)[0]


ARBITRARY = [
    {"q_pos": sympy.symbols("Q", positive=True), "G": size, "weight": arbitrary_weight(size)} for size in (1, 2, 3)
]
POINTS = grid(q_pos=(Fraction(1, 7), Fraction(1, 2), Fraction(9, 10)), G=(1, 2, 4), weight=tuple(WEIGHTS))


@claim(
    "simlab:normal-form",
    where="Beyond the papers, question 1",
    says="On rewards 0 and 1, a weight that ignores the order of a group is c(j) r - d(j) for a rollout beside j "
    "correct others, with c(j) = w_S(j + 1) + w_F(j) and d(j) = w_F(j), and its expected update is E[c(j)] grad Q, j "
    "binomial: two weights with one c differ in their noise alone.",
    formula=r"A_i = c(j)\,r_i - d(j), \quad \mathbb{E}[\Delta\theta] = \eta\,\mathbb{E}_{j\sim\mathrm{Bin}(G-1,Q)}"
    r"[c(j)]\,\nabla_\theta Q",
    refuted_by="a weight and a solve rate at which E[c(j)] is not the slope kappa of simlab:expected-update",
    reading="w_S(s) and -w_F(s) are the advantages in a group of s successes. That baselines leave the mean alone is "
    "as old as REINFORCE; Davis and Recht (2510.13651) have the transform of Q that an update climbs, whose slope has "
    "c as its Bernstein coefficients: the form generalises theirs to a baseline that may depend on the others. "
    "paper_checks/proofs/expected_update.v proves it for all G and policies; simlab alike prints both curves.",
    caveat="Rewards with more than two levels have no such form, nor do weights that read lengths, log-probabilities, "
    "other groups or earlier batches.",
    statement=mean_speed(lambda weight, j, G: weight.success(j + 1, G) + weight.failure(j, G)),
    planted={
        "j counts the rollout itself": mean_speed(
            lambda weight, j, G: weight.success(j + 1, G) + weight.failure(min(j + 1, G - 1), G)
        ),
        "successes alone": mean_speed(lambda weight, j, G: weight.success(j + 1, G)),
    },
)
def normal_form(statement):
    """Kappa from the masses, with symbols for the weight; all groups."""
    yield from equals(statement, POINTS, derived=derived_slope, enumerated=enumerated_slope, symbolic_points=ARBITRARY)


def beta_moment(x, y):
    """The integral of p^x (1 - p)^y, by parts: x! y! / (x + y + 1)!."""
    return Fraction(sympy.factorial(x) * sympy.factorial(y), sympy.factorial(x + y + 1))


def best_by_integrals(j, G, x, y, ratio):
    """The minimum of the integral of p^j (1-p)^(G-1-j) [p (1-b)^2 ratio + (1-p) b^2] over Beta(x, y), x and y >= 1."""
    right = ratio * beta_moment(j + x, G - 1 - j + y - 1)
    wrong = beta_moment(j + x - 1, G - 1 - j + y)
    return right / (right + wrong)


@claim(
    "simlab:least-variance",
    where="Beyond the papers, question 1",
    says="With the speed c given, the diagonal of the update's variance, E[A_i^2 |s_i|^2] over solve rates of the law "
    "Beta(x, y), is least at the baseline b(j) = (j + x) / (G - 1 + x + y): the solve rate that the others lead to "
    "expect. With x = y = 0 it is the leave-one-out mean.",
    formula=r"b(j) = \frac{j + x}{G - 1 + x + y}",
    refuted_by="a j, a G, an x and a y at which another baseline gives less",
    reading="s_i is the score of rollout i, as long for correct as for wrong ones in the mean square. An optimal "
    "baseline for a known policy is textbook (Weaver and Tao, 2001); here the solve rate is estimated from the others. "
    "It needs two levels of reward.",
    caveat="The products of two different rollouts are left out, which have the factor |grad Q|^2 / E|s|^2: small "
    "where many actions share the probability. Where correct scores are shorter, as with one likely correct "
    "answer, less is better.",
    statement=lambda j, G, x, y, ratio: Fraction(j + x, G - 1 + x + y) if ratio == 1 else None,
    planted={
        "the leave-one-out mean": lambda j, G, x, y, ratio: Fraction(j, G - 1),
        "whatever the scores' lengths": lambda j, G, x, y, ratio: Fraction(j + x, G - 1 + x + y),
    },
)
def least_variance(statement):
    """The minimum of the integral, exactly; also where scores are not as long, of which the claim is silent."""
    points = grid(lambda j, G, **_: j < G, G=(2, 3, 8), j=range(8), x=(1, 2), y=(1, 3), ratio=(1, Fraction(1, 2)))
    yield from equals(statement, points, enumerated=best_by_integrals)

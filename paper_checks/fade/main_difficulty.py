"""Section 4.3: Power-alpha, its relation to pass@k and the focal weight, Equations 9 and 10."""

from fractions import Fraction

import numpy as np
import sympy
from mpmath import mp, mpf

import simlab
from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.exact import binomial, mass
from paper_checks.fade.main_gradients import POINTS, derivative, expected_update


def power_update(policy, correct, k, G=1):
    """The expected update of Power-k with weights of the true solve rate, from its two masses."""
    p = mass(policy, correct)
    return expected_update(policy, correct, G, lambda _: ((1 - p) ** k, p * (1 - p) ** (k - 1)))


def pass_at_k_update(policy, correct, k):
    """The gradient of pass@k over k, by sympy."""

    def pass_at_k(actions):
        solved = sum(p for p, right in zip(actions, correct, strict=True) if right)
        return (1 - (1 - solved) ** k) / sympy.Integer(k)

    return derivative(policy, pass_at_k)


@claim(
    "fade:sec-4-3-pass-at-k",
    where="Section 4.3, Power-alpha as a smooth approximation of pass@k",
    says="Power-k follows the gradient of pass@k, up to the factor k.",
    formula=r"m_S = m_F = pq^k \;\Rightarrow\; m_S\nabla_S - m_F\nabla_F = \tfrac1k\nabla[1-(1-p)^k]",
    refuted_by="a policy and k at which the two differ",
    reading="Stronger than the paper says ('an approximation'), and exact, with weights of the true solve rate. With a "
    "group's own solve rate it is biased. As an approximation of Chen's normalised weights see fade:sec-4-3-chen.",
    statement=power_update,
    planted={"without the factor": lambda policy, correct, k: [k * x for x in power_update(policy, correct, k)]},
)
def power_is_pass_at_k(statement):
    """Differentiate pass@k by sympy."""
    points = [point | {"k": k} for point in POINTS[:3] for k in (2, 3, 5)]
    yield from equals(lambda **point: tuple(statement(**point)), points, derived=pass_at_k_update)


@claim(
    "fade:sec-4-3-chen",
    where="Section 4.3, Power-alpha as a smooth approximation of Chen's pass@k advantages",
    says="On hard prompts Power-k's mass is of the order of that of Chen's pass@k advantage.",
    refuted_by="two small solve rates between which the ratio of the two masses moves by more than a factor of two",
    reading="Approximation is read as staying within a constant factor as p -> 0, with alpha = k and Chen's population "
    "mass p sqrt(q^k / (1 - q^k)). Between p = .1 and .5 the curves, scaled to the same peak, do lie within a factor "
    "of two for k = 4, as Figure 2 may show.",
    statement=lambda drop, k: mpf("0.5") < drop < 2,
    correction=Amended(
        "Chen's mass falls as sqrt(p), Power's as p: from p = 1e-4 to 1e-8 the ratio falls a hundredfold",
        lambda drop, k: abs(drop * 100 - 1) < mpf("0.01"),
    ),
    planted={"tenfold": lambda drop, k: abs(drop * 10 - 1) < mpf("0.01")},
)
def hard_prompt_order(statement):
    """The ratio of the two masses at p = 1e-8 over that at 1e-4."""

    def ratio(p, k):
        return p * (1 - p) ** k / (p * mp.sqrt((1 - p) ** k / (1 - (1 - p) ** k)))

    yield from satisfies(
        statement, grid(k=[2, 4, 8]), lambda k: ratio(mpf("1e-8"), k) / ratio(mpf("1e-4"), k), method="numerical"
    )


def power_advantages(rewards, base, alpha):
    """(1 - p)^(alpha - 1) (r - p)."""
    p = Fraction(sum(rewards), len(rewards))
    return tuple((1 - p) ** (alpha - 1) * (reward - p) for reward in rewards)


@claim(
    "fade:sec-4-3-focal",
    where="Section 4.3, 'inspired by the focal loss'; F-GRPO Equation 13",
    says="Power-alpha is the focal weight of F-GRPO with gamma = alpha - 1.",
    formula=r"(1-p)^{\alpha-1}(r-p)",
    refuted_by="a group in which simlab's F-GRPO of gamma = alpha - 1 gives other advantages",
    reading="FADE does not name F-GRPO; both cite the focal loss. F-GRPO as published divides by the std of GRPO; with "
    "the mean alone as its base the two are one method, so that alpha = 1 + gamma.",
    statement=power_advantages,
    condition=Amended(
        "F-GRPO's base is mean GRPO, without the std",
        lambda rewards, base, alpha: power_advantages(rewards, base, alpha) if base == "dr_grpo" else None,
    ),
    planted={"gamma = alpha": lambda rewards, base, alpha: power_advantages(rewards, base, alpha + 1)},
)
def power_is_focal(statement):
    """Weigh groups by simlab's F-GRPO on either base."""
    yield from equals(
        statement,
        grid(base=["dr_grpo", "grpo"], rewards=[(1, 0), (0, 1, 0), (1, 0, 0, 1, 0)], alpha=[2, 3]),
        enumerated=lambda rewards, base, alpha: tuple(
            simlab.advantages("f_grpo", np.array(rewards, dtype=float), gamma=alpha - 1.0, base=base).tolist()
        ),
        tolerance=mpf("1e-12"),
    )


@claim(
    "fade:sec-4-3-mode",
    where="Section 4.3, 'placing the weight mode at 1/(1+alpha)'",
    says="Power-alpha's mass peaks at the solve rate 1 / (1 + alpha).",
    formula=r"\arg\max_p p(1-p)^\alpha = \frac{1}{1+\alpha}",
    refuted_by="an alpha at which the mass is larger elsewhere",
    reading="The mass, which for this sign-balanced weight is also the length of the expected update.",
    statement=lambda alpha: Fraction(1, 1 + alpha),
    planted={"1 / alpha": lambda alpha: Fraction(1, alpha)},
)
def mode(statement):
    """Solve for the zero of the derivative, and search a grid of sixtieths."""

    def derived(alpha):
        p = sympy.symbols("p", positive=True)
        return min(sympy.solve(sympy.diff(p * (1 - p) ** alpha, p), p))

    def searched(alpha):
        return max((Fraction(place, 60) for place in range(1, 60)), key=lambda p: p * (1 - p) ** alpha)

    yield from equals(statement, grid(alpha=[1, 2, 3, 5]), derived=derived, enumerated=searched)


def total_variance(p, success_variance, failure_variance, signal, size):
    """Var of w(p^) times the difference of an outcome's means, w = p (1 - p)^2, over the binomial law."""
    square, mean = mpf(0), mpf(0)
    for count, chance in enumerate(binomial(size, number(p))):
        rate = mpf(count) / size
        weight = rate * (1 - rate) ** 2
        if weight:
            spread = number(success_variance) / count + number(failure_variance) / (size - count)
            square += chance * weight**2 * (spread + number(signal) ** 2)
            mean += chance * weight * number(signal)
    return square - mean**2


def delta_method(p, success_variance, failure_variance, signal, size, *, cross=1):
    """Equation 9: w^2 v_0 + s^2 (w')^2 p q / G."""
    q = 1 - p
    weight, slope = p * q**2, q**2 - 2 * p * q
    raw = (success_variance / p + failure_variance / q) / size
    return weight**2 * raw + cross * signal**2 * slope**2 * p * q / size


@claim(
    "fade:eq-9",
    where="Section 4.3, Equation 9",
    says="To leading order the weighted gradient's variance is w^2 v_0 + s^2 Var(w).",
    formula=r"\mathrm{Var}(w(\hat p)\hat g)\approx w(p)^2v_0(p) + s(p)^2\,\mathrm{Var}(w(\hat p))",
    refuted_by="an error that does not vanish as 1/G^2",
    reading="g is the difference of the mean values of any function over successes and over failures, whose mean does "
    "not depend on how many there are; its covariance with the weight is then 0. For an estimate g that varies with "
    "the solve rate, a term 2 w s Cov(w, g) of the same order would be missing.",
    statement=delta_method,
    planted={
        "without the second term": lambda **point: delta_method(**point, cross=0),
        "twice the second": lambda **point: delta_method(**point, cross=2),
    },
)
def weighted_variance(statement):
    """The law of total variance over the binomial law of the successes, at growing G."""

    def error(step, **point):
        size = int(1 / step + mpf("0.5"))
        return number(statement(**point, size=size)) - total_variance(**point, size=size)

    points = grid(
        p=[Fraction(1, 2), Fraction(1, 5)],
        success_variance=[Fraction(1)],
        failure_variance=[Fraction(3)],
        signal=[Fraction(2)],
    )
    yield from vanishes(error, points, order=2, steps=("0.0025", "0.00125"), method="enumerated")


@claim(
    "fade:eq-10",
    where="Section 4.3, Equation 10 and the definition of q(p, w) above it",
    says="The quality that Equation 10 averages is the q(p, w) defined before it.",
    formula=r"q(p,w) = s(p)^2/\mathrm{Var}(w(\hat p)) = s(p)/\mathrm{Var}(w(\hat p)\hat g)",
    refuted_by="a solve rate at which the two differ",
    reading="Both as printed. They differ in the power of the signal and in whose variance it is; neither is a "
    "signal-to-noise ratio of the weighted gradient, which is (w s)^2 / Var(w g). The letter q is also the failure "
    "rate.",
    statement=lambda p, signal, weight_variance, total: number(signal) / total,
    correction=Amended(
        "s^2 / Var(w) in both places",
        lambda p, signal, weight_variance, total: number(signal) ** 2 / weight_variance,
    ),
    planted={"s / Var(w)": lambda p, signal, weight_variance, total: number(signal) / weight_variance},
)
def quality(statement):
    """Take the definition with the exact variances of a weight p (1 - p)^2 in groups of 16."""
    points = []
    for p in (Fraction(1, 4), Fraction(1, 2)):
        signal = Fraction(2)
        alone = total_variance(p, Fraction(0), Fraction(0), Fraction(1), 16)
        whole = total_variance(p, Fraction(1), Fraction(1), signal, 16)
        points.append({"p": p, "signal": signal, "weight_variance": alone, "total": whole})
    yield from equals(
        statement, points, enumerated=lambda p, signal, weight_variance, total: number(signal) ** 2 / weight_variance
    )

"""Section 4.3: Power-alpha, its relation to pass@k and the focal weight, Equations 9 and 10."""

from fractions import Fraction

import numpy as np
import sympy
from mpmath import mp, mpf

import simlab
from paper_checks.claim import CHANGES, Amended, claim
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
    reading="Stronger than the paper says ('an approximation'), and exact, with weights of the true solve rate. As an "
    "approximation of Chen's normalised weights see fade:sec-4-3-chen.",
    inferred=True,
    caveat="At the true solve rate; with the group's own it is biased.",
    identity=True,
    statement=power_update,
    planted={"without the factor": lambda policy, correct, k: [k * x for x in power_update(policy, correct, k)]},
)
def power_is_pass_at_k(statement):
    """Differentiate pass@k by sympy."""
    points = [point | {"k": k} for point in POINTS[:3] for k in (2, 3, 5)]
    yield from equals(lambda **point: tuple(statement(**point)), points, derived=pass_at_k_update)


@claim(
    "fade:sec-4-3-chen",
    where="Section 4.3; Figure 2",
    says="Power-alpha is a smooth approximation of the pass@k advantages of Chen et al.",
    refuted_by="a k and a range of solve rates over which every alpha is off by more than a factor of two",
    reading="For each k some alpha (1 to 8, by halves) has Chen's mass within a factor of two at solve rates from 1/16 "
    "to 1/2. Curves scaled to the same peak, Chen's mass at the true solve rate, p sqrt(q^k / (1 - q^k)). 1/16 is the "
    "least that 16 rollouts show. On the reading that alpha = k it fails for k = 8.",
    caveat="The factor of two is our measure of 'a smooth approximation'. On harder prompts it is none: as p tends to "
    "0 Chen's mass falls as sqrt(p) and Power's as p.",
    statement=lambda factor, k, lowest: factor < 2 if lowest >= Fraction(1, 16) else None,
    planted={
        "within a tenth": lambda factor, k, lowest: factor < 1.1,
        "however hard": lambda factor, k, lowest: factor < 2,
    },
)
def chen_within_a_factor(statement):
    """The largest quotient of the two curves, either way, on a grid from the lowest rate to 1/2, of the best alpha."""
    exponents = np.linspace(0, 1, 101)

    def scaled(weight, rates):
        return weight(rates) / weight(np.linspace(0.001, 0.999, 999)).max()

    def factor(k, lowest):
        rates = float(lowest) * (0.5 / float(lowest)) ** exponents
        target = scaled(lambda p: p * np.sqrt((1 - p) ** k / (1 - (1 - p) ** k)), rates)
        curves = (scaled(lambda p, a=alpha: p * (1 - p) ** a, rates) for alpha in np.arange(1, 8.5, 0.5))
        return min(float(np.maximum(curve / target, target / curve).max()) for curve in curves)

    points = grid(lowest=[Fraction(1, 16), Fraction(1, 1000)], k=[2, 4, 8])
    yield from satisfies(statement, points, factor, method="numerical")


def power_advantages(rewards, alpha):
    """(1 - p)^(alpha - 1) (r - p)."""
    p = Fraction(sum(rewards), len(rewards))
    return tuple((1 - p) ** (alpha - 1) * (reward - p) for reward in rewards)


@claim(
    "fade:sec-4-3-focal",
    where="Section 4.3, 'inspired by the focal loss'; Appendix 8.2, item 1",
    says="Power-alpha is mean GRPO times the focal factor (1 - p)^gamma with gamma = alpha - 1.",
    formula=r"(1-p)^{\alpha-1}(r-p)",
    refuted_by="a group in which simlab's focal factor on mean GRPO gives other advantages",
    reading="The focal factor is F-GRPO's (its Equation 13), a paper that FADE lists and does not discuss: with mean "
    "GRPO for its base the two are one method. On GRPO with its std, as F-GRPO is published, it is another weight.",
    identity=True,
    statement=power_advantages,
    planted={"gamma = alpha": lambda rewards, alpha: power_advantages(rewards, alpha + 1)},
)
def power_is_focal(statement):
    """Weigh groups by simlab's F-GRPO on mean GRPO."""
    yield from equals(
        statement,
        grid(rewards=[(1, 0), (0, 1, 0), (1, 0, 0, 1, 0)], alpha=[2, 3]),
        enumerated=lambda rewards, alpha: tuple(
            simlab.advantages("f_grpo", np.array(rewards, dtype=float), gamma=alpha - 1.0, base="dr_grpo").tolist()
        ),
        tolerance=mpf("1e-12"),
    )


@claim(
    "fade:sec-4-3-mode",
    where="Section 4.3, 'placing the weight mode at 1/(1+alpha)'",
    says="Power-alpha's mass peaks at the solve rate 1 / (1 + alpha).",
    formula=r"\arg\max_p p(1-p)^\alpha = \frac{1}{1+\alpha}",
    refuted_by="an alpha at which the mass is larger elsewhere",
    reading="The mass, which for this sign-balanced weight is also the length of the expected update. Section 5's "
    "alpha_max = 3 puts the mode at .25, below the .3 to .5 that Section 4.3 finds best for fixed weights.",
    identity=True,
    statement=lambda alpha: Fraction(1, 1 + alpha),
    planted={"1 / alpha": lambda alpha: Fraction(1, alpha)},
)
def mode(statement):
    """Solve for the zero of the derivative, and search a grid of sixtieths."""

    def derived(alpha):
        p = sympy.symbols("p", positive=True)
        return min(sympy.solve(sympy.diff(p * (1 - p) ** alpha, p), p))

    def searched(alpha):
        return max((Fraction(n, 60) for n in range(1, 60)), key=lambda p: p * (1 - p) ** alpha)

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
    says="q(p, w), as it is defined and as Equation 10 averages it, is the signal-to-noise ratio of the weighted "
    "gradient.",
    formula=r"q(p,w) = s(p)^2/\mathrm{Var}(w(\hat p)) = s(p)/\mathrm{Var}(w(\hat p)\hat g)",
    refuted_by="a solve rate at which either is not the squared mean of the weighted gradient over its variance",
    reading="Both as printed. They differ from one another too, in the power of the signal and in whose variance it "
    "is. s^2 / Var(w g), the likeliest intent, is the ratio only where w is constant: Equation 9 has s for the signal "
    "before it is weighted. On the reading that s is that of the weighted gradient, two slips would be left.",
    severity=CHANGES,
    statement=lambda signal, weight, weight_variance, variance: (signal**2 / weight_variance, signal / variance),
    correction=Amended(
        "(w s)^2 / Var(w g) in both places, w being E[w(p-hat)]",
        lambda signal, weight, weight_variance, variance: ((weight * signal) ** 2 / variance,) * 2,
    ),
    planted={
        "s^2 / Var(w g)": lambda signal, weight, weight_variance, variance: (signal**2 / variance,) * 2,
        "w s / Var(w g)": lambda signal, weight, weight_variance, variance: (weight * signal / variance,) * 2,
    },
)
def quality(statement):
    """Mean and variance of p^ (1 - p^)^2 times the difference of an outcome's means, in groups of 16."""
    signal = mpf(2)

    def stated(p):
        mean = mp.fsum(c * _weight(mpf(s) / 16) for s, c in enumerate(binomial(16, number(p))))
        spread = total_variance(p, Fraction(0), Fraction(0), Fraction(1), 16)
        return statement(signal, mean, spread, total_variance(p, Fraction(1), Fraction(1), signal, 16))

    def enumerated(p):
        # Two values a side, at -1 and 1 from its mean: a success's mean is the signal, a failure's 0.
        first = second = mpf(0)
        for s, chance in enumerate(binomial(16, number(p))):
            if not 0 < s < 16:
                continue
            weight = _weight(mpf(s) / 16)
            first += chance * weight * signal
            second += chance * weight**2 * (signal**2 + 1 / mpf(s) + 1 / mpf(16 - s))
        return (first**2 / (second - first**2),) * 2

    yield from equals(stated, grid(p=[Fraction(1, 4), Fraction(1, 2)]), enumerated=enumerated)


def _weight(p):
    return p * (1 - p) ** 2

"""Appendix 14, Eqs. 27-31: the noise of a weight that is a function of an estimated solve rate."""

from fractions import Fraction

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.claim import CONDITIONS, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.exact import binomial
from paper_checks.fade.variance_common import (
    THREE_KINDS,
    numerically,
    peak_constant,
    power_weight,
    printed_relative_variance,
    relative_variance,
    variance,
)
from paper_checks.simulated import drawn, estimate

# 1/G for groups of 128 and 256.
GROUPS = ("0.0078125", "0.00390625")
RATES = grid(alpha=[1, 2, 3], p=[Fraction(1, 10), Fraction(1, 4), Fraction(2, 5), Fraction(3, 4)])

# Masses of the paper's weights, as functions of the solve rate.
WEIGHTS = {
    "mean GRPO": lambda p: p * (1 - p),
    "Power 2": lambda p: p * (1 - p) ** 2,
    "Power 3": lambda p: p * (1 - p) ** 3,
    "GRPO": lambda p: mp.sqrt(p * (1 - p)),
    "MaxRL": lambda p: 1 - p,
    "Skew-R": lambda p: (p * (1 - p)) ** mpf("1.5"),
}


@claim(
    "fade:eq-27",
    where="Appendix 14, Eq. 27",
    says="C p (1 - p)^alpha has its maximum at p = 1/(1 + alpha), and C = (1 + alpha)^(1 + alpha) / (4 alpha^alpha) "
    "makes that maximum 1/4, the peak of GRPO's p (1 - p).",
    formula=r"\max_p C\,p(1-p)^\alpha = \max_p p(1-p) = \tfrac14,\quad p^\star=\tfrac{1}{1+\alpha},\quad "
    r"C=\frac{(1+\alpha)^{1+\alpha}}{4\alpha^\alpha}",
    refuted_by="an alpha at which the place or the height of the peak differs",
    reading="alpha > 0. GRPO is the mean-only GRPO here, as the paper has it from Section 2.2 on; with the standard "
    "deviation the mass is sqrt(p (1 - p)), whose peak is 1/2, and C would have to be twice as large.",
    identity=True,
    statement=lambda alpha: (1 / (1 + alpha), peak_constant(alpha)),
    planted={
        "mode alpha/(1 + alpha)": lambda alpha: (alpha / (1 + alpha), peak_constant(alpha)),
        "peak of GRPO with std": lambda alpha: (1 / (1 + alpha), 2 * peak_constant(alpha)),
    },
)
def peak(statement):
    """Solve for the stationary point symbolically; find the highest point numerically."""

    def derived(alpha):
        p = sympy.Symbol("p", positive=True)
        slope = sympy.diff(sympy.log(p) + sympy.sympify(alpha) * sympy.log(1 - p), p)
        (mode,) = sympy.solve(slope, p)
        return mode, sympy.Rational(1, 4) / power_weight(mode, sympy.sympify(alpha))

    def searched(alpha):
        mode = mp.findroot(lambda p: mp.diff(lambda x: power_weight(x, number(alpha)), p), mpf("0.3"))
        return mode, 1 / (4 * power_weight(mode, number(alpha)))

    points = [{"alpha": sympy.Rational(value)} for value in ("1", "2", "1/2", "3", "5/2")]
    yield from numerically(equals(statement, points, derived=derived, enumerated=searched, tolerance=mpf("1e-20")))


@claim(
    "fade:app-14-peak-in-algorithm-1",
    where="Section 4.3 and Eq. 27; Algorithm 1, line 5; Section 10",
    says="The Power-alpha advantage of Algorithm 1 has its gradient mass at the height of GRPO's, 1/4.",
    formula=r"m_S=m_F=C\,pq^\alpha,\qquad A_i\leftarrow(1-\bar r)^{\alpha-1}(r_i-\bar r)",
    refuted_by="an alpha at which the largest mass of the algorithm's advantage is not 1/4",
    reading="Section 4.3 and Appendix 14 define Power-alpha with the constant C; Algorithms 1 and 2, Eq. 11 and "
    "Section 10 (m_S = p q^alpha) leave it out: text against algorithm. On the reading that the learning rate makes "
    "up for C the claim would hold, but Section 11.3 equalises max |A|, which is 1 - p = 1 - 1/G and nearly the same "
    "for all alpha.",
    inferred=True,
    severity=CONDITIONS,
    caveat="The paper prints both forms and does not say that they are equal in height.",
    statement=lambda alpha: mpf(1) / 4,
    correction=Amended(
        "the algorithm's mass peaks at alpha^alpha / (1 + alpha)^(1 + alpha): 4/27 at alpha = 2, 27/256 at alpha = 3",
        lambda alpha: mpf(alpha) ** alpha / (1 + alpha) ** (1 + alpha),
    ),
    planted={"peak at 4/27": lambda alpha: mpf(4) / 27},
)
def algorithm_peak(statement):
    """Mass of the algorithm's success advantage, p times (1 - p)^(alpha - 1) (1 - p), at its highest point."""

    def highest(alpha):
        def mass(rate):
            return rate * (1 - rate) ** (alpha - 1) * (1 - rate)

        return mass(mp.findroot(lambda p: mp.diff(mass, p), mpf("0.3")))

    yield from numerically(equals(statement, grid(alpha=[1, 2, 3]), enumerated=highest, tolerance=mpf("1e-20")))


@claim(
    "fade:app-14-solve-rate-estimate",
    where="Appendix 14, before Eq. 28",
    says="The solve rate estimated from G independent rollouts has variance p (1 - p) / G.",
    formula=r"\mathrm{Var}(\hat p)=p(1-p)/G",
    refuted_by="one (G, p) at which the variance over all groups differs",
    reading="p-hat = k/G with k binomial. No reading makes it otherwise for independent rollouts of one policy; "
    "rollouts of an asynchronous sampler whose weights move within a group are not of one policy.",
    identity=True,
    statement=lambda p, G: p * (1 - p) / G,
    planted={"sample variance": lambda p, G: p * (1 - p) / (G - 1), "of the count": lambda p, G: G * p * (1 - p)},
)
def estimated_solve_rate(statement):
    """Add up the variances of G coins, sum over the number of successes, and draw groups."""

    def derived(p, G):
        coin = sympy.sympify(p) * (1 - sympy.sympify(p)) ** 2 + (1 - sympy.sympify(p)) * sympy.sympify(p) ** 2
        return coin * G / G**2

    def enumerated(p, G):
        return sum(chance * (Fraction(s, G) - p) ** 2 for s, chance in enumerate(binomial(G, p)))

    def sampled(p, G):
        return estimate((np.mean(drawn(THREE_KINDS, G) == 0, axis=1) - float(p)) ** 2)

    p, size = sympy.symbols("p G", positive=True)
    yield from equals(
        statement,
        grid(G=[2, 3, 8], p=[Fraction(1, 2), Fraction(1, 10), Fraction(9, 10)]),
        derived=derived,
        enumerated=enumerated,
        symbolic_points=[{"p": p, "G": size}],
        sampled=sampled,
        sampled_points=[{"p": THREE_KINDS[0], "G": 8}],
    )


@claim(
    "fade:eq-28",
    where="Appendix 14, Eq. 28; Section 4.3, after Eq. 9",
    says="To first order in 1/G the variance of a weight of the estimated solve rate is w'(p)^2 p (1 - p) / G.",
    formula=r"\mathrm{Var}(w(\hat p))\approx[w'(p)]^2\,\mathrm{Var}(\hat p)",
    refuted_by="a weight and a solve rate at which the error does not fall as 1/G^2",
    reading="Read as a limit, G to infinity at fixed p inside (0, 1), for the paper's smooth weights. Read at the G "
    "= 16 of Figure 7 it holds only away from the mode and from easy prompts: fade:app-14-delta-at-16. It says "
    "nothing of the quantile baselines, whose weight jumps at p-hat = 1/2.",
    statement=lambda slope, p, G: slope**2 * p * (1 - p) / G,
    planted={
        "sd for variance": lambda slope, p, G: abs(slope) * p * (1 - p) / G,
        "without the slope": lambda slope, p, G: p * (1 - p) / G,
    },
)
def delta_method(statement):
    """Sum over the number of successes in groups of 128 and 256, for each named weight."""

    def error(step, weight, p):
        shape = WEIGHTS[weight]
        return variance(shape, p, 1 / step) - statement(mp.diff(shape, number(p)), number(p), 1 / step)

    points = grid(weight=list(WEIGHTS), p=[Fraction(1, 4), Fraction(1, 2), Fraction(3, 5)])
    yield from vanishes(error, points, order=2, steps=GROUPS, method="enumerated")


@claim(
    "fade:eq-29",
    where="Appendix 14, Eq. 29",
    says="The derivative of C p (1 - p)^alpha is C (1 - p)^(alpha - 1) [1 - (1 + alpha) p].",
    formula=r"w'(p)=C(1-p)^{\alpha-1}[1-(1+\alpha)p]",
    refuted_by="one (alpha, p) at which the derivative differs",
    reading="alpha > 0, p in (0, 1). There is no other reading.",
    identity=True,
    statement=lambda alpha, p: peak_constant(alpha) * (1 - p) ** (alpha - 1) * (1 - (1 + alpha) * p),
    planted={
        "1 - alpha p": lambda alpha, p: peak_constant(alpha) * (1 - p) ** (alpha - 1) * (1 - alpha * p),
        "exponent alpha": lambda alpha, p: peak_constant(alpha) * (1 - p) ** alpha * (1 - (1 + alpha) * p),
    },
)
def slope(statement):
    """Differentiate symbolically, and numerically."""

    def derived(alpha, p):
        rate = sympy.Symbol("rate", positive=True)
        return sympy.diff(peak_constant(alpha) * power_weight(rate, alpha), rate).subs(rate, p)

    def numerical(alpha, p):
        return mp.diff(lambda rate: number(peak_constant(alpha)) * power_weight(rate, number(alpha)), number(p))

    p = sympy.Symbol("p", positive=True)
    points = grid(alpha=[sympy.Integer(1), sympy.Rational(5, 2)], p=[sympy.Rational(1, 10), sympy.Rational(2, 3)])
    yield from numerically(
        equals(
            statement,
            points,
            derived=derived,
            enumerated=numerical,
            symbolic_points=[{"alpha": sympy.Integer(alpha), "p": p} for alpha in (1, 2, 3)],
            tolerance=mpf("1e-15"),
        )
    )


def first_order(exact):
    """A check: the error of the printed variance, over all groups, falls as 1/G^2."""

    def decide(statement):
        """Sum over the number of successes in groups of 128 and 256; the error must fall as 1/G^2."""

        def error(step, alpha, p):
            return exact(alpha, p, 1 / step) - statement(mpf(alpha), number(p), 1 / step)

        yield from vanishes(error, RATES, order=2, steps=GROUPS, method="enumerated")

    return decide


claim(
    "fade:eq-30",
    where="Appendix 14, Eq. 30",
    says="The variance of the Power-alpha weight is C^2 p (1 - p)^(2 alpha - 1) [1 - (1 + alpha) p]^2 / G.",
    formula=r"\mathrm{Var}(w(\hat p))=\frac{C^2\,p(1-p)^{2\alpha-1}[1-(1+\alpha)p]^2}{G}",
    refuted_by="one (alpha, p) at which the error does not fall as 1/G^2",
    reading="Printed with '=', after the '~' of Eq. 28; read to first order in 1/G. Read as an equality it fails at "
    "every G (GRPO at p = 1/2: 0 against (G - 1)/(8 G^3)).",
    statement=lambda alpha, p, G: (
        peak_constant(alpha) ** 2 * p * (1 - p) ** (2 * alpha - 1) * (1 - (1 + alpha) * p) ** 2 / G
    ),
    planted={
        "exponent 2 alpha": lambda alpha, p, G: (
            peak_constant(alpha) ** 2 * p * (1 - p) ** (2 * alpha) * (1 - (1 + alpha) * p) ** 2 / G
        ),
        "C for C^2": lambda alpha, p, G: (
            peak_constant(alpha) * p * (1 - p) ** (2 * alpha - 1) * (1 - (1 + alpha) * p) ** 2 / G
        ),
    },
)(
    first_order(
        lambda alpha, p, size: variance(lambda rate: peak_constant(mpf(alpha)) * power_weight(rate, alpha), p, size)
    )
)


claim(
    "fade:eq-31",
    where="Appendix 14, Eq. 31, and 'The effect scales as O(1/G)'",
    says="The relative variance of the Power-alpha weight is [1 - (1 + alpha) p]^2 / (G p (1 - p)), so it falls as "
    "1/G.",
    formula=r"\frac{\mathrm{Var}(w)}{w^2}=\frac{[1-(1+\alpha)p]^2}{G\,p(1-p)}",
    refuted_by="one (alpha, p) at which the error does not fall as 1/G^2",
    reading="To first order in 1/G, and relative to w(p)^2. Relative to the squared mean of w(p-hat) it differs at "
    "second order only.",
    statement=printed_relative_variance,
    planted={
        "p for p (1 - p)": lambda alpha, p, G: (1 - (1 + alpha) * p) ** 2 / (G * p),
        "not squared": lambda alpha, p, G: abs(1 - (1 + alpha) * p) / (G * p * (1 - p)),
    },
)(first_order(relative_variance))


@claim(
    "fade:app-14-vanishes-at-mode",
    where="Appendix 14, after Eq. 31",
    says="At the mode p = 1/(1 + alpha) the relative variance of the weight vanishes, to the order of Eq. 31.",
    formula=r"\frac{\mathrm{Var}(w)}{w^2}\Big|_{p=1/(1+\alpha)}=0",
    refuted_by="an order in 1/G and an alpha at which G^order Var(w)/w^2 at the mode does not tend to zero",
    reading="'This' is Eq. 31, of first order in 1/G. What is left is of second order, (1 + alpha)^2 / (2 G^2).",
    caveat="The variance itself is not zero there: at G = 8 and alpha = 3 the weight at its mode varies by about 30 % "
    "(one standard deviation).",
    statement=lambda order, alpha: {1: mpf(0), 2: mpf(1 + alpha) ** 2 / 2}[order],
    planted={
        "1 / G": lambda order, alpha: {1: mpf(1), 2: None}[order],
        "(1 + alpha) / (2 G^2)": lambda order, alpha: {1: None, 2: mpf(1 + alpha) / 2}[order],
        "at every order": lambda order, alpha: 0,
    },
)
def variance_at_mode(statement):
    """Sum over the number of successes at p = 1/(1 + alpha), in groups of 128 and 256, times G or G^2."""

    def error(step, order, alpha):
        stated = statement(order, alpha)
        if stated is None:
            return None
        return relative_variance(alpha, Fraction(1, 1 + alpha), 1 / step) / step**order - stated

    yield from vanishes(error, grid(order=[1, 2], alpha=[1, 2, 3]), order=1, steps=GROUPS, method="enumerated")


@claim(
    "fade:app-14-quadratic-in-alpha",
    where="Appendix 14, after Eq. 31",
    says="Away from the mode the relative variance grows quadratically in alpha.",
    formula=r"\frac{\mathrm{Var}(w)}{w^2}=\frac{[1-(1+\alpha)p]^2}{Gp(1-p)}",
    refuted_by="a p at which the second difference in alpha of G Var(w)/w^2 does not tend to the same constant",
    reading="A quadratic in alpha, whose second derivative is 2 p / (G (1 - p)). Whether it grows is "
    "fade:app-14-larger-alpha.",
    statement=lambda p: 2 * p / (1 - p),
    planted={"linear": lambda p: 0, "2 p^2": lambda p: 2 * p**2},
)
def quadratic(statement):
    """Second differences in alpha of the relative variance over all groups, times G; they must tend to one number."""

    def error(step, p, alpha):
        low, middle, high = (relative_variance(alpha + shift, p, 1 / step) / step for shift in range(3))
        return low - 2 * middle + high - statement(number(p))

    points = grid(p=[Fraction(1, 10), Fraction(1, 4), Fraction(3, 4)], alpha=[1, 2])
    yield from vanishes(error, points, order=1, steps=GROUPS, method="enumerated")


@claim(
    "fade:app-14-larger-alpha",
    where="Appendix 14, after Eq. 31",
    says="A larger alpha raises the relative weight-estimation noise of prompts away from the mode.",
    refuted_by="a prompt away from the mode whose relative variance falls when alpha rises by one",
    reading="The mode is that of the smaller alpha. Eq. 31 is a parabola in alpha with its minimum at 1/p - 1, so "
    "for prompts clearly harder than the mode, p < 2 / (3 + 2 alpha), which a larger alpha is there for, the noise "
    "falls. For absolute variance (Eq. 30) the same prompts would get more noise, but then also more weight.",
    met="partly: easier prompts meet it; the harder ones, for which a larger alpha is meant, do not",
    statement=lambda growth, alpha, p: all(change > 0 for change in growth),
    condition=Amended(
        "p >= 1/(1 + alpha): prompts no harder than the mode",
        lambda growth, alpha, p: all(change > 0 for change in growth) if p * (1 + alpha) >= 1 else None,
    ),
    planted={
        "falls": lambda growth, alpha, p: all(change < 0 for change in growth),
        "falls for all harder prompts": lambda growth, alpha, p: (
            all(change < 0 for change in growth) if p * (1 + alpha) < 1 else None
        ),
    },
)
def larger_alpha(statement):
    """Growth of the relative variance from alpha to alpha + 1 at G = 16: by Eq. 31, and over all groups."""

    def growth(alpha, p):
        return tuple(noise(alpha + 1, p, 16) - noise(alpha, p, 16) for noise in (printed_relative_variance, exact))

    def exact(alpha, p, size):
        return relative_variance(alpha, p, size)

    points = grid(alpha=[1, 2], p=[Fraction(n, 20) for n in (1, 2, 9, 10, 12, 15, 18)])
    yield from satisfies(statement, points, growth, names=("growth by Eq. 31", "over all groups"))


@claim(
    "fade:app-14-delta-at-16",
    where="Appendix 14, before Eq. 28 ('G reasonably large'); Figure 7 (16 rollouts)",
    says="With 16 rollouts the delta method gives the variance of the Power-alpha weight at all solve rates.",
    refuted_by="a solve rate at which Eq. 31 is wrong by more than a factor of two",
    reading="The paper gives no accuracy and does not say that 16 is large enough. For prompts with 16 (1 - p) < 1 "
    "the true variance is that of one lucky failure and exceeds Eq. 31 without bound (a factor of 950 at alpha = 3, p "
    "= 0.99), and near the mode Eq. 31 is zero. Easy prompts carry little weight under Power-alpha, so on the reading "
    "that only prompts with weight matter, the former does no harm.",
    met="partly: Figure 7 draws all solve rates for 16 rollouts",
    caveat="The factor of two is our measure of 'reasonably large'.",
    inferred=True,
    statement=lambda ratio, alpha, p: mpf(1) / 2 < ratio < 2,
    condition=Amended(
        "p <= 4/5 and |1 - (1 + alpha) p| > 1/2, away from the mode and from solved prompts",
        lambda ratio, alpha, p: (
            mpf(1) / 2 < ratio < 2 if p <= Fraction(4, 5) and abs(1 - (1 + alpha) * p) > Fraction(1, 2) else None
        ),
    ),
    planted={"within 1 %": lambda ratio, alpha, p: abs(ratio - 1) < mpf("0.01")},
)
def delta_at_sixteen(statement):
    """True over printed relative variance, over all groups of 16."""

    def ratio(alpha, p):
        return relative_variance(alpha, p, 16) / number(printed_relative_variance(alpha, p, 16))

    points = grid(
        lambda alpha, p: p * (1 + alpha) != 1,
        alpha=[1, 2, 3],
        p=[Fraction(n, 100) for n in (1, 5, 10, 20, 40, 45, 60, 70, 80, 90, 99)],
    )
    yield from satisfies(statement, points, ratio)

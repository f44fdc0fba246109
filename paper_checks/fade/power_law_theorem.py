"""Appendix 12.1: pass@k over a data set, and its two regimes as k grows."""

from fractions import Fraction

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.exact import groups
from paper_checks.fade.variance_common import THREE_KINDS
from paper_checks.simulated import drawn, estimate

# Prompts of a data set: solve rate and share.
PROMPTS = ((Fraction(0), Fraction(1, 4)), (Fraction(1, 10), Fraction(1, 4)), (Fraction(3, 4), Fraction(1, 2)))

# Densities of solve rates with a power law at 0, as terms (coefficient, exponent b) of p^(b - 1) (1 - p)^(easy - 1).
DENSITIES = {
    "uniform": (((1, 1),), 1),
    "Beta(1/2, 3)": (((1 / mp.beta(mpf("0.5"), 3), mpf("0.5")),), 3),
    "Beta(2, 1/2)": (((1 / mp.beta(2, mpf("0.5")), 2),), mpf("0.5")),
    "two powers": (((mpf("0.4"), mpf("0.8")), (mpf("0.65"), mpf("1.3"))), 1),
}


def unsolved(density, k):
    """E[(1 - p)^k] in closed form, a sum of Beta integrals."""
    terms, easy = DENSITIES[density]
    return sum(coefficient * mp.beta(b, easy + k) for coefficient, b in terms)


def unsolved_by_integration(density, k, start=0):
    """E[(1 - p)^k] over p > start, by numerical integration with a grid that follows the decay."""
    terms, easy = DENSITIES[density]

    def integrand(p):
        return (1 - p) ** (k + easy - 1) * sum(coefficient * p ** (b - 1) for coefficient, b in terms)

    places = [start, *(edge for edge in (mpf(1) / (8 * k), mpf(1) / k, mpf(4) / k) if start < edge < 1), 1]
    return mp.quad(integrand, places)


def exponentially_unsolved(density, k):
    """E[e^(-kp)] in closed form, a sum of confluent hypergeometric functions."""
    terms, easy = DENSITIES[density]
    return sum(coefficient * mp.beta(b, easy) * mp.hyp1f1(b, b + easy, -k) for coefficient, b in terms)


def rapid(alpha, k, decay):
    """E[decay(p, k)] for the density exp(-1/p^alpha), up to its constant, by integration about the saddle point."""
    saddle = (alpha / k) ** (1 / (1 + alpha))
    edges = [saddle * mpf(factor) for factor in ("0.2", "0.5", "0.8", "1", "1.3", "2", "4")]
    return mp.quad(lambda p: decay(p, k) * mp.exp(-(p**-alpha)), [0, *(e for e in edges if e < 1), 1])


def survival(p, k):
    """(1 - p)^k."""
    return (1 - p) ** k


def exponential(p, k):
    """e^(-kp)."""
    return mp.exp(-k * p)


@claim(
    "fade:app-12-pass-at-k",
    where="Appendix 12, first paragraph",
    says="The chance that k samples hold a correct one, averaged over prompts, is 1 - E[(1 - p)^k].",
    formula=r"\mathrm{pass@}k=\mathbb{E}_p[1-(1-p)^k]=1-\mathbb{E}_p[(1-p)^k]",
    refuted_by="a k at which the chance over all groups of k samples differs",
    reading="p is the true solve rate of a prompt. Figure 12 uses solve rates estimated from 200 samples; with those "
    "the formula gives less than pass@k on average for k > 1 (Jensen), and calls every prompt below 1/200 unsolvable.",
    statement=lambda k: 1 - sum(share * (1 - p) ** k for p, share in PROMPTS),
    planted={
        "power of the mean": lambda k: 1 - (1 - sum(share * p for p, share in PROMPTS)) ** k,
        "one sample fewer": lambda k: 1 - sum(share * (1 - p) ** (k - 1) for p, share in PROMPTS),
    },
)
def definition(statement):
    """All groups of k samples of three prompts; draws of the prompt and its samples."""

    def enumerated(k):
        return sum(
            share * sum(chance for chance, (correct, _) in groups((p, 1 - p), k) if correct > 0) for p, share in PROMPTS
        )  # fmt: skip

    def sampled(k):
        # One draw for all prompts: of three kinds of samples, those below the prompt's threshold are correct.
        kinds = drawn(THREE_KINDS, k)
        solved = [np.any(kinds < threshold, axis=1) for threshold in range(len(PROMPTS))]
        return estimate(sum(float(share) * hits for (_, share), hits in zip(PROMPTS, solved, strict=True)))

    yield from equals(
        statement, grid(k=[1, 2, 4, 8]), enumerated=enumerated, sampled=sampled, sampled_points=[{"k": 8}]
    )


@claim(
    "fade:theorem-12.1-power-law",
    where="Theorem 12.1, case 1",
    says="If the density of solve rates is C p^(b - 1) near 0, then 1 - pass@k is C Gamma(b) k^-b to leading order.",
    formula=r"\mathrm{pass}_{D@k}=1-C\,\Gamma(b)\,k^{-b}+o(k^{-b})",
    refuted_by="a density for which k^b (1 - pass@k) does not tend to C Gamma(b)",
    reading="C and b of the lowest term of the density, with a remainder p^(b - 1 + theta). For Beta(a, b) solve "
    "rates the theorem's b is the first parameter: fade:app-12-beta-exponent.",
    statement=lambda C, b: C * mp.gamma(b),
    planted={
        "Gamma(b + 1)": lambda C, b: C * mp.gamma(b + 1),
        "without Gamma": lambda C, b: C,
        "C/b": lambda C, b: C / b,
    },
)
def power_law(statement):
    """Exact Beta integrals for four densities up to k = 10^6; compared with numerical integration at k = 20."""

    def error(step, density):
        coefficient, b = DENSITIES[density][0][0]
        return unsolved(density, 1 / step) * (1 / step) ** b - statement(mpf(coefficient), mpf(b))

    points = grid(density=list(DENSITIES))
    yield from vanishes(error, points, order=0.5)
    yield from satisfies(
        lambda value, density: 0 < value < 1,
        points,
        lambda density: unsolved(density, 20),
        method="numerical",
        derived=lambda density: unsolved_by_integration(density, 20),
        tolerance=mpf("1e-10"),
    )


@claim(
    "fade:theorem-12.1-rapid",
    where="Theorem 12.1, case 2",
    says="If the density is at most C exp(-c / p^alpha) near 0, 1 - pass@k falls faster than every power of k.",
    formula=r"1-\mathrm{pass}_{D@k}=o(k^{-b})\ \text{for all }b>0",
    refuted_by="an alpha at which it falls more slowly than the stated power",
    reading="Tested with the density exp(-1/p^alpha) itself and powers up to 5; smaller densities fall faster. The "
    "statement is the largest power tested.",
    statement=lambda alpha: 5,
    planted={"as exp(-k)": lambda alpha: 400},
)
def rapid_decay(statement):
    """Integrate about the saddle point; the decay from k = 400 to 1600 must beat the power."""

    def decay(alpha):
        return mp.log(rapid(alpha, 400, survival) / rapid(alpha, 1600, survival)) / mp.log(4)

    yield from satisfies(
        lambda order, alpha: order > statement(alpha),
        grid(alpha=[mpf("0.5"), mpf(1), mpf(2)]),
        decay,
        method="numerical",
    )


@claim(
    "fade:app-12-exponential-step",
    where="Theorem 12.1, first line of the proof",
    says="For large k, 1 - pass@k is approximately the integral of e^(-kp) against the density.",
    formula=r"1-\mathrm{pass}_{D@k}\approx\int_0^1e^{-kp}p_D(p)\,dp",
    refuted_by="a density for which the ratio of the two does not tend to 1",
    reading="'Approximately' as a ratio that tends to 1. (1 - p)^k / e^(-kp) is about exp(-k p^2 / 2), and at the "
    "saddle p ~ k^(-1/(1 + alpha)) of case 2 this tends to 1 only for alpha < 1: at alpha = 1 the ratio tends to "
    "exp(-c/2), for alpha > 1 to 0. Case 2 needs only (1 - p)^k <= e^(-kp), so its conclusion stands; on the reading "
    "as an upper bound the step holds everywhere.",
    statement=lambda family: 1,
    condition=Amended(
        "the power-law regime, or case 2 with alpha < 1", lambda family: None if family == "alpha 1" else 1
    ),
    planted={"half": lambda family: mpf(1) / 2},
)
def exponential_step(statement):
    """Ratios for power laws and for exp(-1/p^alpha), k up to 10^3; the distance from the stated limit must vanish."""

    def ratio(family, k):
        if family.startswith("alpha"):
            alpha = {"alpha 1/4": mpf("0.25"), "alpha 1": mpf(1)}[family]
            return rapid(alpha, k, survival) / rapid(alpha, k, exponential)
        return unsolved(family, k) / exponentially_unsolved(family, k)

    def error(step, family):
        limit = statement(family)
        return None if limit is None else ratio(family, 1 / step) - limit

    families = ["uniform", "two powers", "alpha 1/4", "alpha 1"]
    yield from vanishes(error, grid(family=families), order=0.3, steps=("1e-2", "1e-3"))


@claim(
    "fade:app-12-tail",
    where="Theorem 12.1, case 1 of the proof",
    says="The part of E[(1 - p)^k] from solve rates above epsilon is exponentially small in k.",
    formula=r"\int_\epsilon^1(1-p)^kp_D(p)\,dp\le(1-\epsilon)^k",
    refuted_by="a density, epsilon and k at which that part exceeds (1 - epsilon)^k",
    reading="The rate is (1 - epsilon)^k, for any density. e^(-k epsilon), with the exponential of the step before, "
    "is a weaker bound.",
    statement=lambda tail, density, k, epsilon: tail <= (1 - epsilon) ** k,
    planted={"twice the rate": lambda tail, density, k, epsilon: tail <= (1 - epsilon) ** (2 * k)},
)
def tail(statement):
    """Numerical integrals above epsilon."""
    yield from satisfies(
        statement,
        grid(density=["uniform", "Beta(1/2, 3)", "two powers"], k=[2, 10], epsilon=[mpf("0.1"), mpf("0.5")]),
        lambda density, k, epsilon: unsolved_by_integration(density, k, start=epsilon),
        method="numerical",
    )


@claim(
    "fade:app-12-saddle",
    where="Theorem 12.1, case 2 of the proof",
    says="e^(-kp - c/p^alpha) is largest at p* ~ k^(-1/(1 + alpha)), and there its logarithm is of order k^(alpha/(1 "
    "+ alpha)).",
    formula=r"p^*\sim k^{-1/(1+\alpha)},\quad\int\le\exp(-\Omega(k^{\alpha/(1+\alpha)}))",
    refuted_by="an alpha for which the powers of k differ",
    reading="The two exponents of k. There is no other reading.",
    statement=lambda alpha: (-1 / (1 + alpha), alpha / (1 + alpha)),
    planted={
        "-1/alpha": lambda alpha: (-1 / alpha, alpha / (1 + alpha)),
        "1/(1 + alpha)": lambda alpha: (-1 / (1 + alpha), 1 / (1 + alpha)),
    },
)
def saddle(statement):
    """Solve for the stationary point symbolically; search for it numerically at two k."""
    k = sympy.Symbol("k", positive=True)

    def power(expression):
        return sympy.simplify(k * sympy.diff(expression, k) / expression)

    def derived(alpha):
        p = sympy.Symbol("p", positive=True)
        (place,) = sympy.solve(sympy.diff(-k * p - p**-alpha, p) * p ** (1 + alpha), p)
        return power(place), power(k * place + place**-alpha)

    def searched(alpha):
        ks = (mpf(1000), mpf(2000))
        guesses = [size ** (-1 / (1 + number(alpha))) for size in ks]
        places = [
            mp.findroot(lambda p, size=size: number(alpha) - size * p ** (1 + number(alpha)), guess)
            for size, guess in zip(ks, guesses, strict=True)
        ]
        depths = [size * place + place ** -number(alpha) for size, place in zip(ks, places, strict=True)]
        return tuple(mp.log(high / low) / mp.log(2) for low, high in (places, depths))

    points = [{"alpha": sympy.Rational(value)} for value in ("1", "2", "1/2")]
    yield from equals(statement, points, derived=derived, enumerated=searched, tolerance=mpf("1e-20"))


@claim(
    "fade:app-12-exponential-growth",
    where="Section 12.2, first sentence",
    says="As shown in Theorem 12.1, pass@k approaches 1 as a power of k or exponentially in k.",
    refuted_by="a density of case 2 for which -log(1 - pass@k) does not grow as the stated power of k",
    reading="'Exponential' as e^(-const k). Case 2 gives exp(-const k^(alpha/(1 + alpha))), and no finite alpha "
    "makes this exponential; a gap, no solve rate below p_min, does. On the reading that 'exponential' includes "
    "stretched exponentials it would hold. ('Solve rates near p' is a slip for 'near p = 0'.)",
    statement=lambda alpha: 1,
    correction=Amended(
        "a stretched exponential: -log(1 - pass@k) grows as k^(alpha/(1 + alpha))",
        lambda alpha: alpha / (1 + alpha),
    ),
    planted={"1/(1 + alpha)": lambda alpha: 1 / (1 + alpha)},
)
def exponential_growth(statement):
    """The power of k in -log(1 - pass@k), from k = 10^6 to 10^8; within 0.03."""

    def growth(alpha):
        low, high = (-mp.log(rapid(alpha, mpf(10) ** order, exponential)) for order in (6, 8))
        return mp.log(high / low) / mp.log(100)

    yield from satisfies(
        lambda power, alpha: abs(power - statement(alpha)) < mpf("0.03"),
        grid(alpha=[mpf(1), mpf(2), mpf(3)]),
        growth,
        method="numerical",
    )


@claim(
    "fade:theorem-12.1-dichotomy",
    where="Theorem 12.1, title; Section 12.2 (prompts at p = 0, unsolved)",
    says="Over a data set of prompts, 1 - pass@k tends to 0, as a power of k or faster.",
    refuted_by="a distribution of solve rates for which (1 - pass@k) k^(b/2) does not tend to 0, b its exponent near 0",
    reading="A dichotomy: the two cases are all there are. Section 12.2 then finds most mass 'near p = 0 "
    "(unsolved)'; a share of prompts that the policy cannot solve is no density, and 1 - pass@k tends to that share. "
    "Densities such as log(1/p)^-2 / p, or p^(b - 1) log(1/p), are in neither case too. On the reading that the "
    "theorem only lists two sufficient conditions it would hold.",
    statement=lambda share: True,
    condition=Amended("no prompt has solve rate 0", lambda share: True if share == 0 else None),
    planted={"never tends to 0": lambda share: False},
)
def dichotomy(statement):
    """A share of unsolvable prompts and the rest of uniform solve rates, exactly, at k = 10^2 and 10^6."""

    def unsolved_share(share):
        return tuple((share + (1 - share) * mp.beta(1, 1 + k)) * mp.sqrt(k) for k in (mpf(10) ** 2, mpf(10) ** 6))

    yield from satisfies(
        lambda values, share: None if statement(share) is None else statement(share) == (values[1] < values[0] / 50),
        grid(share=[mpf(0), mpf("0.1"), mpf("0.5")]),
        unsolved_share,
        method="numerical",
    )

"""Appendix 12.1: pass@k over a data set, and its two regimes as k grows."""

import functools
from fractions import Fraction

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies, vanishes
from paper_checks.exact import groups
from paper_checks.fade.variance_common import THREE_KINDS, numerically
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

    edges = [start, *(edge for edge in (mpf(1) / (8 * k), mpf(1) / k, mpf(4) / k) if start < edge < 1), 1]
    return mp.quad(integrand, edges)


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
    identity=True,
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
    where="Section 12.1, Theorem 12.1, case 1",
    says="If the density of solve rates is C p^(b - 1) near 0, then 1 - pass@k is C Gamma(b) k^-b to leading order.",
    formula=r"\mathrm{pass}_{D@k}=1-C\,\Gamma(b)\,k^{-b}+o(k^{-b})",
    refuted_by="a density for which k^b (1 - pass@k) does not tend to C Gamma(b)",
    reading="C and b of the lowest term of the density, with a remainder p^(b - 1 + theta). For Beta(a, b) solve "
    "rates the theorem's b is the first parameter, a.",
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
    where="Section 12.1, Theorem 12.1, case 2",
    says="If the density is at most C exp(-c / p^alpha) near 0, 1 - pass@k falls faster than every power of k.",
    formula=r"1-\mathrm{pass}_{D@k}=o(k^{-b})\ \text{for all }b>0",
    refuted_by="an alpha and a power b for which k^b (1 - pass@k) does not fall in the end",
    reading="Tested with the density exp(-1/p^alpha) itself, powers up to 50 and k up to 4 million; smaller densities "
    "fall faster. There is no other reading.",
    statement=lambda order, alpha, b: order > b,
    planted={
        "as exp(-k)": lambda order, alpha, b: order > mpf(10) ** 6,
        "a power law": lambda order, alpha, b: order < 10,
    },
)
def rapid_decay(statement):
    """Integrate about the saddle point; the local power of k, from k = 10^6 to 4 10^6, must beat each power."""

    def order(alpha, b):
        low, high = (rapid(alpha, mpf(k), survival) for k in (10**6, 4 * 10**6))
        return mp.log(low / high) / mp.log(4)

    yield from satisfies(statement, grid(alpha=[mpf("0.5"), mpf(1), mpf(2)], b=[5, 50]), order, method="numerical")


@functools.cache
def laplace_integral(b, k):
    """The integral of p^(b - 1) e^(-kp) over p > 0, symbolically."""
    p = sympy.Symbol("p", positive=True)
    return sympy.integrate(p ** (b - 1) * sympy.exp(-k * p), (p, 0, sympy.oo))


@claim(
    "fade:app-12-laplace",
    where="Section 12.1, Theorem 12.1, case 1 of the proof, last step",
    says="The integral of C p^(b - 1) e^(-kp) over all p > 0 is C Gamma(b) k^-b.",
    formula=r"C\int_0^\infty p^{b-1}e^{-kp}\,dp=C\,k^{-b}\,\Gamma(b)",
    refuted_by="a b and k at which the integral differs",
    reading="b > 0. The upper limit is moved from 1 to infinity, at an exponentially small cost. No other reading.",
    identity=True,
    statement=lambda b, k: sympy.gamma(b) * k**-b,
    planted={"k^-(b - 1)": lambda b, k: sympy.gamma(b) * k ** (1 - b), "without Gamma": lambda b, k: k**-b},
)
def laplace(statement):
    """Integrate symbolically, and numerically in 50 digits."""

    def integrated(b, k):
        return mp.quad(lambda u: u ** (2 * number(b) - 1) * 2 * mp.exp(-number(k) * u**2), [0, 1, 4, mp.inf])

    powers = [sympy.Rational(1, 2), sympy.Integer(2), sympy.Rational(5, 2)]
    yield from numerically(
        equals(
            statement,
            grid(b=powers, k=[sympy.Integer(3)]),
            derived=laplace_integral,
            enumerated=integrated,
            symbolic_points=[{"b": b, "k": sympy.Symbol("k", positive=True)} for b in powers],
            tolerance=mpf("1e-20"),
        )
    )


@functools.cache
def survival_over_exponential(family, k):
    """E[(1 - p)^k] / E[e^(-kp)]."""
    if family == "a gap":  # uniform on (1/4, 1)
        return (mpf(3) / 4) ** k / (k + 1) * 3 * k / (4 * (mp.exp(-k / 4) - mp.exp(-k)))
    if family.startswith("alpha"):
        alpha = {"alpha 1/4": mpf("0.25"), "alpha 1": mpf(1)}[family]
        return rapid(alpha, k, survival) / rapid(alpha, k, exponential)
    return unsolved(family, k) / exponentially_unsolved(family, k)


@claim(
    "fade:app-12-exponential-step",
    where="Section 12.1, Theorem 12.1, first line of the proof",
    says="For large k, 1 - pass@k is approximately the integral of e^(-kp) against the density.",
    formula=r"1-\mathrm{pass}_{D@k}\approx\int_0^1e^{-kp}p_D(p)\,dp",
    refuted_by="a density for which the ratio of the two does not tend to 1",
    reading="'Approximately' as a ratio that tends to 1; at a density with a gap at 0 it tends to 0. (1 - p)^k / "
    "e^(-kp) is about exp(-k p^2 / 2), and at the saddle p ~ k^(-1/(1 + alpha)) of case 2 this tends to 1 only for "
    "alpha < 1: at alpha = 1 the ratio tends to exp(-c/2), for alpha > 1 to 0. Case 2 needs only (1 - p)^k <= "
    "e^(-kp), so its conclusion stands; on the reading as an upper bound the step holds everywhere.",
    severity=COSMETIC,
    met="yes: the fits are in the power-law regime",
    statement=lambda family: 1,
    condition=Amended(
        "the power-law regime, or a density that itself falls as exp(-c / p^alpha) with alpha < 1",
        lambda family: None if family in {"alpha 1", "a gap"} else 1,
    ),
    planted={
        "half": lambda family: mpf(1) / 2,
        "also with a gap": lambda family: None if family == "alpha 1" else 1,
    },
)
def exponential_step(statement):
    """Ratios for power laws and for exp(-1/p^alpha), k up to 10^3; the distance from the stated limit must vanish."""

    def error(step, family):
        limit = statement(family)
        return None if limit is None else survival_over_exponential(family, 1 / step) - limit

    families = ["uniform", "two powers", "alpha 1/4", "alpha 1", "a gap"]
    yield from vanishes(error, grid(family=families), order=0.3, steps=("1e-2", "1e-3"))


@claim(
    "fade:app-12-tail",
    where="Section 12.1, Theorem 12.1, case 1 of the proof",
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
    where="Section 12.1, Theorem 12.1, case 2 of the proof",
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
        (peak,) = sympy.solve(sympy.diff(-k * p - p**-alpha, p) * p ** (1 + alpha), p)
        return power(peak), power(k * peak + peak**-alpha)

    def searched(alpha):
        ks = (mpf(1000), mpf(2000))
        guesses = [size ** (-1 / (1 + number(alpha))) for size in ks]
        peaks = [
            mp.findroot(lambda p, size=size: number(alpha) - size * p ** (1 + number(alpha)), guess)
            for size, guess in zip(ks, guesses, strict=True)
        ]
        depths = [size * peak + peak ** -number(alpha) for size, peak in zip(ks, peaks, strict=True)]
        return tuple(mp.log(high / low) / mp.log(2) for low, high in (peaks, depths))

    points = [{"alpha": sympy.Rational(value)} for value in ("1", "2", "1/2")]
    yield from numerically(equals(statement, points, derived=derived, enumerated=searched, tolerance=mpf("1e-20")))


@claim(
    "fade:app-12-exponential-growth",
    where="Section 12.2, first sentence",
    says="As shown in Theorem 12.1, pass@k approaches 1 as a power of k or exponentially in k.",
    refuted_by="solve rates of case 2 for which -log(1 - pass@k) does not grow as k",
    reading="'Exponential' as e^(-const k). Case 2 covers everything below exp(-c/p^alpha); it is exponential only if "
    "no solve rate lies below some p_min. On the reading that 'exponential' includes stretched exponentials, which "
    "the proof's exp(-Omega(k^(alpha/(1 + alpha)))) is, it would hold. ('Solve rates near p' is a slip for 'near p = "
    "0'.)",
    severity=COSMETIC,
    met="no: many prompts are near p = 0 (Figure 10), so that there is no gap",
    statement=lambda alpha: 1,
    condition=Amended(
        "solve rates with a gap at 0; without one -log(1 - pass@k) grows as k^(alpha/(1 + alpha))",
        lambda alpha: 1 if alpha == mp.inf else alpha / (1 + alpha),
    ),
    planted={
        "1/(1 + alpha)": lambda alpha: None if alpha == mp.inf else 1 / (1 + alpha),
        "1/2 with a gap": lambda alpha: mpf(1) / 2 if alpha == mp.inf else None,
    },
)
def exponential_growth(statement):
    """The power of k in -log(1 - pass@k), from k = 10^6 to 10^8; within 0.03; alpha infinite: uniform on (1/4, 1)."""

    def growth(alpha):
        # E[(1 - p)^k] over p > 1/4 is (3/4)^k times 3/4 over k + 1.
        logs = [
            -mp.log(rapid(alpha, k, survival)) if alpha < mp.inf else -(k + 1) * mp.log(mpf(3) / 4) + mp.log(k + 1)
            for k in (mpf(10) ** 6, mpf(10) ** 8)
        ]
        return mp.log(logs[1] / logs[0]) / mp.log(100)

    def close(power, alpha):
        stated = statement(alpha)
        return None if stated is None else abs(power - stated) < mpf("0.03")

    yield from satisfies(close, grid(alpha=[mpf(1), mpf(2), mpf(3), mp.inf]), growth, method="numerical")


def unsolved_share(solve_rates, k):
    """1 - pass@k for the densities above, with unsolvable prompts, and for a density that no power bounds."""
    if solve_rates == "logarithmic density":  # by parts, with the distribution function 1 / (1 - log p)
        edges = [0, *(mpf(10) ** power / k for power in (-6, -3, -1, 0, 1)), 1]
        return mp.quad(lambda p: k * (1 - p) ** (k - 1) / (1 - mp.log(p)), edges)
    if solve_rates == "a tenth unsolvable":  # the others of uniform solve rate
        return mpf(1) / 10 + mpf(9) / 10 * mp.beta(1, 1 + k)
    return unsolved(solve_rates, k)


@functools.cache
def fading(solve_rates):
    """The power of k in 1 - pass@k between k and 2k, at k = 10^2 and at 10^6."""
    sizes = (mpf(10) ** 2, mpf(10) ** 6)
    return tuple(mp.log(unsolved_share(solve_rates, k) / unsolved_share(solve_rates, 2 * k), 2) for k in sizes)


@claim(
    "fade:theorem-12.1-dichotomy",
    where="Section 12.1, Theorem 12.1, title; Section 12.2 (prompts at p = 0, unsolved)",
    says="Over a data set of prompts, 1 - pass@k tends to 0, as a power of k or faster.",
    refuted_by="solve rates for which the power of k with which 1 - pass@k falls fades: at k = 10^6 less than 0.9 of "
    "that at 10^2",
    reading="The theorem states two sufficient conditions, which hold; its title, 'Dichotomy', may be taken to say "
    "that they are all there is. Section 12.2 then finds most mass 'near p = 0 (unsolved)'; a share of prompts that "
    "the policy cannot solve is no density, and 1 - pass@k tends to that share. Densities that no power bounds, such "
    "as 1/(p log(e/p)^2), are in neither case too: 1 - pass@k falls as 1/log k.",
    met="no: by Section 12.2 a share of the prompts is unsolved",
    inferred=True,
    statement=lambda powers, solve_rates: powers[1] > mpf("0.9") * powers[0],
    condition=Amended(
        "a density of solve rates that a power p^(b - 1), b > 0, bounds near 0",
        lambda powers, solve_rates: powers[1] > mpf("0.9") * powers[0] if solve_rates in DENSITIES else None,
    ),
    planted={
        "fades": lambda powers, solve_rates: powers[1] < mpf("0.9") * powers[0],
        "without unsolvable prompts": lambda powers, solve_rates: (
            powers[1] > mpf("0.9") * powers[0] if solve_rates != "a tenth unsolvable" else None
        ),
    },
)
def dichotomy(statement):
    """The power of k in 1 - pass@k between k and 2k, k = 10^2 and 10^6, by Beta integrals and numerically."""
    kinds = ["Beta(1/2, 3)", "Beta(2, 1/2)", "two powers", "a tenth unsolvable", "logarithmic density"]
    yield from satisfies(
        statement, grid(solve_rates=kinds), fading, method="numerical", names=("power at k = 10^2", "at k = 10^6")
    )

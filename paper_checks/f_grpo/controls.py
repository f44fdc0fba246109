"""Sections 5.6, L.4, Appendices N and Q: the learning-rate control, pass@k, and the subsampling test."""

from fractions import Fraction
from math import comb

import numpy as np
import sympy
from mpmath import beta, mpf, quad, sqrt

from paper_checks.claim import Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import binomial
from paper_checks.simulated import drawn, estimate

GAMMAS = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2)]


def close(left, right):
    """Equal within 1 %."""
    return abs(left / right - 1) < 0.01


def multiplier(gamma):
    """Appendix N's lambda."""
    return beta(mpf("1.5"), mpf("1.5") + number(gamma)) / beta(mpf("1.5"), mpf("1.5"))


def mean_magnitudes(gamma):
    """Mean over a uniform success rate of the mean |A| of GRPO, weighted and not, by integration."""

    def magnitude(p):
        return p * sqrt((1 - p) / p) + (1 - p) * sqrt(p / (1 - p)) if 0 < p < 1 else mpf(0)

    edges = [mpf(0), mpf("0.5"), mpf(1)]
    weighted = quad(lambda p: (1 - p) ** number(gamma) * magnitude(p), edges, maxdegree=9)
    return weighted, quad(magnitude, edges, maxdegree=9)


@claim(
    "f-grpo:app-n",
    where="Appendix N, learning-rate multiplier",
    says="Averaged over the success-rate axis the focal weight scales the mean absolute advantage by B(3/2, 3/2 + "
    "gamma)/B(3/2, 3/2).",
    formula=r"\lambda(\gamma) = \frac{B(3/2, 3/2 + \gamma)}{B(3/2, 3/2)}",
    refuted_by="a gamma at which the quotient of the two averages is another",
    reading="The quotient of the averages, with p uniform on [0, 1] and the population std. Averaging the quotient g "
    "itself would give 1/(1 + gamma), 2/3 at gamma = 1/2.",
    statement=multiplier,
    planted={
        "average of g": lambda gamma: 1 / (1 + number(gamma)),
        "B(1/2, .)": lambda gamma: beta(mpf("0.5"), mpf("0.5") + number(gamma)) / beta(mpf("0.5"), mpf("0.5")),
    },
)
def app_n(statement):
    """Integrate both averages numerically."""

    def quotient(gamma):
        weighted, plain = mean_magnitudes(gamma)
        return weighted / plain

    yield from equals(statement, grid(gamma=GAMMAS), derived=quotient, tolerance=mpf("1e-15"))


@claim(
    "f-grpo:app-n-groups-of-eight",
    where="Section 5.6 and Appendix N",
    says="The multiplier is that of the groups of eight which the experiments use.",
    refuted_by="an average over the nine success rates of such groups that is off by more than one per cent",
    reading="Success rates 0/8 to 8/8 equally often, which is what prompts of uniform difficulty give. Over the "
    "success rates met in training it would be another number, smaller the more prompts are solved.",
    inferred=True,
    statement=multiplier,
    planted={"average of g": lambda gamma: 1 / (1 + number(gamma))},
)
def groups_of_eight(statement):
    """The same quotient with sums over groups."""

    def quotient(gamma):
        rates = [mpf(x) / 8 for x in range(9)]
        magnitudes = [sqrt(p * (1 - p)) for p in rates]
        weighted = sum((1 - p) ** number(gamma) * size for p, size in zip(rates, magnitudes, strict=True))
        return weighted / sum(magnitudes)

    yield from satisfies(
        lambda value, gamma: close(value, statement(gamma)), grid(gamma=GAMMAS[:3]), quotient, method="numerical"
    )


def adam(gradients, rate):
    """Adam's move of a parameter: betas 0.9 and 0.999 as in Table 5, eps 1e-8."""
    first, second, moved = mpf(0), mpf(0), mpf(0)
    for step, gradient in enumerate(gradients, start=1):
        first += (gradient - first) / 10
        second += (gradient**2 - second) / 1000
        corrected = second / (1 - mpf("0.999") ** step)
        moved += rate * first / (1 - mpf("0.9") ** step) / (sqrt(corrected) + mpf("1e-8"))
    return moved


def plain(gradients, rate):
    """The move of a parameter by plain gradient steps."""
    return rate * sum(gradients)


@claim(
    "f-grpo:sec-5.6-low-lr",
    where="Section 5.6 and Appendix N, with Table 5",
    says="GRPO low-LR, the rate times lambda, matches the average scale of the advantages that Focal weighting leaves, "
    "and so checks whether that reduction alone is sufficient.",
    refuted_by="a course of gradients on which rate times lambda and advantages times lambda differ",
    reading="Advantages times lambda against rate times lambda. AdamW divides the gradient by its own size: at "
    "gradients well above eps advantages times a constant leave the steps as they were (as does the clipping of the "
    "gradient norm where it acts), while a lower rate shortens them all. On the reading that low-LR is a control for "
    "the step size, also named in Section 5.6, it is a proper one.",
    caveat="The paper's conclusion, that scale alone does not explain the gains, survives: under AdamW a constant "
    "scale does nothing.",
    met="no: Table 5 has AdamW",
    statement=lambda moved, optimizer, **_: close(*moved),
    condition=Amended(
        "plain gradient steps; under AdamW a lower rate shortens each step to lambda of it, and a constant scale none",
        lambda moved, optimizer, **_: close(*moved) if optimizer == "plain" else None,
    ),
    planted={"scaled advantages shorten, the rate does not": lambda moved, **_: moved[1] < moved[0]},
)
def low_learning_rate(statement):
    """Ten steps of one parameter under both, beside those under neither."""
    scale, rate = multiplier(Fraction(1, 2)), mpf("1e-6")

    def moved(gradients, optimizer):
        move = {"plain": plain, "adam": adam}[optimizer]
        before = move(gradients, rate)
        by_scale = move([scale * gradient for gradient in gradients], rate)
        return move(gradients, scale * rate) / before, by_scale / before

    courses = [
        tuple(mpf(value) * size for value in course)
        for size in (mpf("1e-3"), mpf("1e-6"))
        for course in ((3, 2, 4, 1), (3, -1, 4, 1, -5, 9, 2, -6, 5, 3))
    ]
    names = ("move at the lower rate, of the plain one", "with scaled advantages")
    points = grid(gradients=courses, optimizer=["plain", "adam"])
    yield from satisfies(statement, points, moved, method="numerical", names=names)


def unbiased_pass_at_k(n, c, k):
    """Eq. 27."""
    return 1 - Fraction(comb(n - c, k), comb(n, k))


@claim(
    "f-grpo:eq-27",
    where="Appendix L.4, Eq. 27",
    says="1 - C(n-c, k)/C(n, k) is an unbiased estimator of pass@k = 1 - (1-p)^k.",
    formula=r"\text{pass@}k = 1 - \binom{n-c}{k} \Big/ \binom{n}{k}",
    refuted_by="a p, a k and an n >= k with another mean over the binomial number of successes",
    reading="n >= k, without which the formula means nothing. Per problem; the average over problems is then unbiased "
    "for its average.",
    identity=True,
    statement=unbiased_pass_at_k,
    planted={
        "plug-in": lambda n, c, k: 1 - (1 - Fraction(c, n)) ** k,
        "one sample too many": lambda n, c, k: 1 - Fraction(comb(n - c + 1, k), comb(n + 1, k)),
    },
)
def eq_27(statement):
    """The exact mean over the binomial, as a polynomial in p, at fractions, and over drawn groups."""

    def mean(n, k, p):
        return sum(chance * statement(n, c, k) for c, chance in enumerate(binomial(n, p)))

    p = sympy.Symbol("p", positive=True)
    yield from equals(
        mean,
        grid(lambda n, k, p: k <= n, n=[1, 2, 4, 8], k=[1, 2, 4, 8], p=[Fraction(1, 10), Fraction(3, 5)]),
        derived=lambda n, k, p: 1 - (1 - p) ** k,
        symbolic_points=[{"n": n, "k": k, "p": p} for n, k in ((2, 2), (3, 2))],
        sampled=lambda n, k, p: estimate(np.any(drawn((p, 1 - p), n)[:, :k] == 0, axis=1)),
        sampled_points=[{"n": 4, "k": 2, "p": Fraction(9, 10)}],
    )


def hypergeometric(n, c, m):
    """(m + 1,) probability of c' successes among m of n samples drawn without replacement."""
    return [
        Fraction(comb(c, hit) * comb(n - c, m - hit), comb(n, m)) if m - hit <= n - c else 0 for hit in range(m + 1)
    ]


@claim(
    "f-grpo:app-q-mean",
    where="Appendix Q",
    says="Pass@k computed on m of the n generations, drawn without replacement, estimates the same pass@k.",
    refuted_by="n, c, m >= k at which the mean over all subsamples is not the estimate from all n",
    reading="m >= k, as in the paper. Not only in the mean over new generations, but for the given ones.",
    statement=unbiased_pass_at_k,
    planted={"plug-in": lambda n, c, k: 1 - (1 - Fraction(c, n)) ** k},
)
def subsample_mean(statement):
    """The exact mean over all subsamples."""

    def mean(n, c, m, k):
        return sum(chance * unbiased_pass_at_k(m, hit, k) for hit, chance in enumerate(hypergeometric(n, c, m)))

    points = grid(lambda n, c, m, k: c <= n and k <= m <= n, n=[4, 8], c=[0, 1, 3, 7], m=[2, 4, 6], k=[1, 2, 4])
    yield from equals(lambda n, c, m, k: statement(n, c, k), points, enumerated=mean)


@claim(
    "f-grpo:app-q-spread",
    where="Appendix Q",
    says="The spread of the subsampling distribution is that of the estimate: its 95% interval decides significance.",
    refuted_by="n, m and p at which the mean variance over subsamples is not the variance of the estimate from all n",
    reading="Pass@1 of one problem, the estimate from all n generations, intervals taken from the subsampling "
    "distribution as it stands; Politis et al. rescale it. With m below n/2 the test is too careful; above, it is too "
    "bold, and as m goes to n the interval has no width. On the reading that the estimate is that from m generations "
    "it is too narrow by sqrt(1 - m/n). Either way the problems are taken as given.",
    inferred=True,
    met="unknown: the stored text has lost m and n",
    statement=lambda n, m, p: p * (1 - p) / n,
    condition=Amended("m = n/2", lambda n, m, p: p * (1 - p) / n if 2 * m == n else None),
    planted={"that of m generations": lambda n, m, p: p * (1 - p) / m},
)
def subsample_spread(statement):
    """The variance over subsamples of pass@1, averaged over the binomial number of successes."""

    def spread(n, m, p):
        def variance(c):
            chances = hypergeometric(n, c, m)
            mean = sum(chance * Fraction(hit, m) for hit, chance in enumerate(chances))
            return sum(chance * (Fraction(hit, m) - mean) ** 2 for hit, chance in enumerate(chances))

        return sum(chance * variance(c) for c, chance in enumerate(binomial(n, p)))

    yield from equals(
        statement, grid(lambda n, m, p: m < n, n=[2, 4, 8], m=[1, 2, 4, 6], p=[Fraction(1, 4)]), enumerated=spread
    )

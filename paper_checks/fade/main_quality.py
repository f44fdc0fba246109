"""Section 4.3: the uses of the raw variance and the update quality."""

from fractions import Fraction

import sympy

from paper_checks.claim import CHANGES, CONDITIONS, COSMETIC, Amended, claim
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import groups
from paper_checks.fade.main_gradients import mean_score, successes, wrong


@claim(
    "fade:eq-9-raw-variance",
    where="Section 4.3, below Equation 9",
    says="The raw gradient's variance is proportional to 1 / (G p (1 - p)).",
    formula=r"v_0(p) \propto \frac{1}{Gp(1-p)}",
    refuted_by="a gradient whose variance relative to that at p = 1/2 is another",
    reading="The variance of the difference of two means in groups with exactly G p successes. It is (var_S / p + "
    "var_F / q) / G. If failures are the more diverse, as the paper finds them, it is larger at easy prompts than at "
    "hard ones; with var_S = 0 the weight 1 / v_0 is 1 - p and not p (1 - p).",
    met="no: Section 4.2 finds failures far more diverse than successes, and groups do not have exactly G p successes",
    statement=lambda p, success, failure: 1 / (4 * p * (1 - p)),
    condition=Amended(
        "successes and failures vary alike",
        lambda p, success, failure: 1 / (4 * p * (1 - p)) if success == failure else None,
    ),
    planted={"squared": lambda p, success, failure: 1 / (4 * p * (1 - p)) ** 2},
)
def raw_variance(statement):
    """Enumerate the groups of four with exactly 4 p successes."""

    def variance(p, success, failure):
        values = (success, 0, failure, 0)
        policy = (p * Fraction(3, 4), p / 4, (1 - p) * Fraction(3, 4), (1 - p) / 4)
        correct, moments = (True, True, False, False), [Fraction(0)] * 3
        for chance, counts in groups(policy, 4):
            if successes(counts, correct) == 4 * p:
                means = [
                    sum(entry * value for entry, value in zip(mean_score(policy, counts, side), values, strict=True))
                    for side in (correct, wrong(correct))
                ]
                moments = [m + chance * (means[0] - means[1]) ** power for power, m in enumerate(moments)]
        return moments[2] / moments[0] - (moments[1] / moments[0]) ** 2

    def enumerated(p, success, failure):
        return variance(p, success, failure) / variance(Fraction(1, 2), success, failure)

    # Values of a success and of a failure, against 0 for the others of the same outcome: their spread.
    points = grid(p=[Fraction(1, 4), Fraction(3, 4)], success=[Fraction(1), Fraction(0)], failure=[Fraction(1)])
    yield from equals(statement, points, enumerated=enumerated)


def effective_size(weights):
    """Kish's effective sample size."""
    return sum(weights) ** 2 / sum(weight**2 for weight in weights)


@claim(
    "fade:eq-10-argmax",
    where="Section 4.3, w* = argmax Q(w)",
    says="The update quality of Equation 10 has a maximiser: a weight that gains nothing by being halved, at all "
    "prompts or at one.",
    formula=r"w^\star = \arg\max_w \mathcal{Q}(w)",
    refuted_by="the weight p (1 - p) gaining in quality when it is halved",
    reading="Q as printed, with either definition of q(p, w): both carry w^-2, N_eff has no scale, so that Q(w/2) = 4 "
    "Q(w). A fixed peak, as by the constant C, does not help: halving one prompt's weight again and again lets Q grow "
    "without bound. With (w s)^2 / Var(w g), a signal-to-noise ratio, there is a maximum, but it is the even weight.",
    severity=CONDITIONS,
    same_error_as="fade:eq-10",
    statement=lambda signal, weight, noise: signal / noise,
    correction=Amended(
        "the quality is (w s)^2 / Var(w g)", lambda signal, weight, noise: (weight * signal) ** 2 / noise
    ),
    planted={"the square of the signal": lambda signal, weight, noise: signal**2 / noise},
)
def scale_of_quality(statement):
    """Q of the weights p (1 - p) of three prompts, and with all of them halved or the smallest."""
    rates = [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]

    def total(scales):
        weights = [scale * p * (1 - p) for scale, p in zip(scales, rates, strict=True)]
        qualities = [statement(1, w, w**2 / (p * (1 - p))) for w, p in zip(weights, rates, strict=True)]
        return effective_size(weights) * sum(qualities) / len(rates)

    half = Fraction(1, 2)
    scales = {"all": (half,) * 3, "the easiest": (1, 1, half)}
    yield from satisfies(
        lambda pair, halved: pair[0] >= pair[1],
        grid(halved=list(scales)),
        lambda halved: (total((1, 1, 1)), total(scales[halved])),
        names=("Q", "Q with halved weights"),
    )


def printed_quality(weights, noises):
    """Equation 10 for a signal of 1: N_eff times the mean of 1 / (w^2 v_0)."""
    return effective_size(weights) * sum(1 / (w**2 * v) for w, v in zip(weights, noises, strict=True)) / len(weights)


def signal_to_noise(weights, noises):
    """(sum of w s)^2 over sum of w^2 v_0, for a signal of 1: that of the summed update."""
    return sum(weights) ** 2 / sum(w**2 * v for w, v in zip(weights, noises, strict=True))


@claim(
    "fade:sec-4-3-optimal",
    where="Section 4.3, 'the optimal strategy assigns weight proportional to the inverse noise'",
    says="For a signal that does not depend on difficulty, weights proportional to p (1 - p) maximise the quality Q.",
    formula=r"w^\star(p) \propto 1/v_0(p) \propto p(1-p)",
    refuted_by="weights of the same mean with a higher Q",
    reading="Q of Equation 10 with known weights (Var(w) = 0) and equal mean weight, since without that it has no "
    "maximum. It grows as one prompt's weight goes to 0. The sentence is right of another objective, the "
    "signal-to-noise ratio of the summed update (inverse-variance weighting): as such it is fade:sec-4-3-tilt, which "
    "holds.",
    severity=CONDITIONS,
    same_error_as="fade:eq-10",
    statement=printed_quality,
    correction=Amended("they maximise the signal-to-noise ratio of the summed update", signal_to_noise),
    planted={"the effective size": lambda weights, noises: effective_size(weights)},
)
def optimal_weight(statement):
    """Compare p (1 - p) with other weights of two prompts."""
    noises = [1 / (p * (1 - p)) for p in (Fraction(1, 2), Fraction(1, 10))]

    def against(weights):
        best = [2 * (1 / v) / sum(1 / each for each in noises) for v in noises]
        return statement(best, noises), statement(weights, noises)

    others = [(Fraction(1), Fraction(1)), (Fraction(3, 2), Fraction(1, 2)), (Fraction(19, 10), Fraction(1, 10))]
    yield from satisfies(
        lambda pair, weights: pair[0] >= pair[1],
        [{"weights": weights} for weights in others],
        against,
        names=("Q of p (1 - p)", "Q of these weights"),
    )


@claim(
    "fade:sec-4-3-enrichment",
    where="Section 4.3, 'alpha = 3 is justified only if [...] 2.25 times more signal'",
    says="At a solve rate of 1/2 alpha = 3 is justified only if hard problems carry at least 2.25 times more signal "
    "than the average prompt.",
    formula=r"s(p)/s(\bar p) \ge [2(1-p)]^2",
    refuted_by="a smaller ratio at which alpha = 3 has the higher signal-to-noise ratio",
    reading="Justified as in Table 8, to which the sentence refers: 'required [...] to outperform GRPO'. At solve "
    "rates 1/4 and 1/2, with inverse-variance noise. At 2.25 = [2 (1 - 1/4)]^2, alpha = 3 is the best of all weights; "
    "it overtakes mean GRPO much earlier. The number depends on the prompts (1.36 for evenly spread ones, "
    "fade:table-8-minimum). Read as 'alpha = 3 is the optimal alpha' 2.25 is right: fade:app-14-enrichment.",
    severity=CHANGES,
    same_error_as="fade:table-8-minimum",
    caveat="Two prompts and known weights; the threshold depends on the prompts.",
    statement=lambda ratio: ratio >= Fraction(9, 4),
    correction=Amended("it overtakes mean GRPO at about 1.47", lambda ratio: ratio > Fraction(147, 100)),
    planted={"always": lambda ratio: ratio >= 1},
)
def enrichment(statement):
    """Compare the signal-to-noise ratios of the summed update under alpha = 3 and alpha = 1."""
    rates = (Fraction(1, 4), Fraction(1, 2))

    def wins(ratio):
        def squared(alpha):
            weights = [p * (1 - p) ** alpha for p in rates]
            signal = weights[0] * ratio + weights[1]
            return signal**2 / sum(w**2 / (p * (1 - p)) for w, p in zip(weights, rates, strict=True))

        return squared(3) > squared(1)

    ratios = [Fraction(1), Fraction(7, 5), Fraction(3, 2), Fraction(2), Fraction(9, 4), Fraction(3)]
    yield from satisfies(lambda better, ratio: better == statement(ratio), [{"ratio": ratio} for ratio in ratios], wins)


@claim(
    "fade:sec-4-3-effective-size",
    where="Section 4.3, below Equation 10",
    says="Raising alpha lowers the effective number of prompts.",
    formula=r"N_{\mathrm{eff}} = M(E[w])^2/E[w^2]",
    refuted_by="prompts whose effective number rises with alpha",
    reading="Kish's size of the weights p (1 - p)^alpha. While prompts are harder than the mode, a larger alpha evens "
    "their weights out. On the reading that the distribution has become easy, as the sentence goes on, it holds.",
    met="partly: prompts harder than the mode 1/3 are common early in training, rare later",
    statement=lambda sizes, rates: sizes[1] < sizes[0],
    condition=Amended(
        "no prompt is harder than the mode 1 / (1 + alpha)",
        lambda sizes, rates: sizes[1] < sizes[0] if min(rates) >= Fraction(1, 2) else None,
    ),
    planted={"it rises": lambda sizes, rates: sizes[1] > sizes[0]},
)
def effective_prompts(statement):
    """Kish's size at alpha 1 and 2 of pairs and triples of prompts."""

    def sizes(rates):
        return tuple(effective_size([p * (1 - p) ** alpha for p in rates]) for alpha in (1, 2))

    tenths = [(1, 3), (5, 8), (1, 5, 9), (6, 7, 9)]
    yield from satisfies(
        statement,
        [{"rates": tuple(Fraction(n, 10) for n in rates)} for rates in tenths],
        sizes,
        names=("size at alpha 1", "at alpha 2"),
    )


@claim(
    "fade:sec-4-3-scaling-law",
    where="Section 4.3, scaling law; Figure 6, 'diverse RL should increase b [...] and lower a'",
    says="Under the fitted law pass@k rises with b and falls with a.",
    formula=r"\mathrm{pass@}k = \exp(-a(k+c)^{-b})",
    refuted_by="a k, a, b, c at which a larger b lowers pass@k, or a larger a raises it",
    reading="What 'diverse RL should increase b [...] and lower a' rests on. k >= 1 and any c > -1 for which the law "
    "is defined. For k + c < 1 a larger b lowers pass@k; the paper does not print its fitted c.",
    severity=COSMETIC,
    met="unknown: the fitted shift c is not printed; any c > 0 will do",
    inferred=True,
    statement=lambda slopes, k, c: slopes[0] > 0 and slopes[1] < 0,
    condition=Amended(
        "c > 0, or k > 1 - c", lambda slopes, k, c: slopes[0] > 0 and slopes[1] < 0 if k + c > 1 else None
    ),
    planted={"a lifts": lambda slopes, k, c: slopes[0] > 0 and slopes[1] > 0},
)
def scaling_law(statement):
    """Differentiate the law by b and by a at a = b = 1."""
    a, b = sympy.symbols("a b", positive=True)

    def slopes(k, c):
        law = sympy.exp(-a * (k + c) ** (-b))
        return tuple(number(sympy.diff(law, symbol).subs({a: 1, b: 1})) for symbol in (b, a))

    points = grid(k=[1, 8], c=[sympy.Rational(-1, 2), sympy.Rational(1, 2), sympy.Integer(3)])
    yield from satisfies(statement, points, slopes, method="symbolic", names=("slope by b", "by a"))

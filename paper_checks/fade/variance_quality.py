"""Section 4.3 and Appendix 14: the noise of a weighted update, effective sample size and the weight that is best."""

from fractions import Fraction

from mpmath import mp, mpf

from paper_checks.claim import Amended, claim
from paper_checks.evidence import grid, number, satisfies, vanishes
from paper_checks.fade.variance_common import (
    power_weight,
    printed_relative_variance,
    raw_variance,
    update_variance,
)

# 1/G for groups of 128 and 256.
GROUPS = ("0.0078125", "0.00390625")
PROMPTS = grid(alpha=[1, 2], p=[Fraction(1, 4), Fraction(1, 2), Fraction(3, 5)], signal=[Fraction(1, 2), 2])


def noise_of_updates(truth):
    """A check: a printed noise is that of the update, up to an error of order 1/G^2."""

    def decide(statement):
        """Sum over all groups of 128 and 256: variance given the successes, plus variance of the mean given them."""

        def error(step, alpha, p, signal):
            return truth(alpha, p, 1 / step, signal) - statement(mpf(alpha), number(p), 1 / step, number(signal))

        yield from vanishes(error, PROMPTS, order=2, steps=GROUPS, method="enumerated")

    return decide


def raw(p, group_size):
    """v0 = 1 / (G p (1 - p)), for scores of variance 1."""
    return 1 / (group_size * p * (1 - p))


claim(
    "fade:app-14-penalty",
    where="Appendix 14, after Eq. 31",
    says="Estimating the weight adds Var(w)/w^2 (s^2 + v) to the noise v of a prompt's update.",
    formula=r"\frac{\mathrm{Var}(w)}{w^2}(s^2+v)",
    refuted_by="an alpha, solve rate and signal at which the error of v + penalty does not fall as 1/G^2",
    reading="Noise per squared weight, v = v0, first order in 1/G. The text refers to Eq. 10; Eq. 9 has s^2 where this "
    "has s^2 + v; v Var(w)/w^2 is of order 1/G^2, where both are wrong because w and g-hat share their rollouts. "
    "For a weight from other rollouts s^2 + v would be exact and Eq. 9 an approximation.",
    statement=lambda alpha, p, G, s: raw(p, G) + printed_relative_variance(alpha, p, G) * (s**2 + raw(p, G)),
    planted={
        "v alone": lambda alpha, p, G, s: raw(p, G) + printed_relative_variance(alpha, p, G) * raw(p, G),
        "twice": lambda alpha, p, G, s: raw(p, G) + 2 * printed_relative_variance(alpha, p, G) * (s**2 + raw(p, G)),
    },
)(
    noise_of_updates(
        lambda alpha, p, size, signal: update_variance(alpha, p, size, signal) / power_weight(number(p), alpha) ** 2
    )
)


@claim(
    "fade:sec-4-3-rare-outcomes",
    where="Section 4.3, after Eq. 9",
    says="The raw gradient variance blows up when successes or failures are rare.",
    formula=r"G\,v_0(p)\to\infty\ (p\to0)",
    refuted_by="groups in which 1/v0, per rollout, does not tend to 0 with p",
    reading="The gradient of Eq. 3, mean score of successes less mean score of failures, over the groups that have "
    "both. At a fixed G a mixed group has a success at least, so that v0 is at most 1 + 1/(G - 1) score variances, at "
    "G = 16 four times that at p = 1/2: what vanishes is the number of mixed groups, not their quality. Where G p is "
    "large, as 1 / (G p (1 - p)) takes for granted (fade:eq-9-raw-variance), G v0 grows as 1/p; v0 itself is small "
    "there, and large only beside that of a prompt at 1/2. p and 1 - p may trade places: rare failures do the same.",
    same_error_as="fade:eq-9-raw-variance",
    met="no: with 8 or 16 rollouts and most prompts near p = 0 (Figure 10), G p is often below 1",
    statement=lambda groups: 0,
    condition=Amended(
        "G p is large, so that successes are rare in share and not in number; then it is G v0 that grows",
        lambda groups: 0 if groups == "1/p^2" else None,
    ),
    planted={"it stays at that of p = 1/2": lambda groups: mpf(1) / 4},
)
def rare_outcomes(statement):
    """Sum over all mixed groups of 2, 8, 16 and of 1/p^2 rollouts as p falls."""

    def error(step, groups):
        stated = statement(groups)
        if stated is None:
            return None
        size = int(1 / step**2 + mpf("0.5")) if groups == "1/p^2" else groups
        return 1 / (size * raw_variance(step, size)) - stated

    points = grid(groups=[2, 8, 16, "1/p^2"])
    yield from vanishes(error, points, order=0.9, steps=("0.1", "0.05", "0.025"), method="enumerated")


@claim(
    "fade:sec-4-3-kish",
    where="Section 4.3, after Eq. 10",
    says="Kish's effective sample size M (E w)^2 / E[w^2] is at most M.",
    formula=r"N_{\mathrm{eff}}=M(\mathbb{E}[w])^2/\mathbb{E}[w^2]\le M",
    refuted_by="a weight with N_eff > M, or a weight that is not constant with N_eff = M",
    reading="The expectation is over the difficulty distribution of the batch. Tested beside it: M is reached by a "
    "constant weight alone.",
    statement=lambda share, weights: share <= 1 and (share == 1) == (len(set(weights)) == 1),
    planted={"at least M": lambda share, weights: share >= 1, "always below": lambda share, weights: share < 1},
)
def kish(statement):
    """Exact shares for constant, falling, rising and peaked weights of prompts."""

    def share(weights):
        return sum(weights) ** 2 / (len(weights) * sum(weight**2 for weight in weights))

    rates = [Fraction(n, 8) for n in range(1, 8)]
    weights = [(Fraction(1),) * 7, *(tuple(power_weight(p, alpha) for p in rates) for alpha in (0, 1, 2, 3))]
    yield from satisfies(statement, grid(weights=weights), share)


# Solve rates of equally many prompts, for the best weight.
SOLVE_RATES = tuple(Fraction(n, 10) for n in range(1, 10))
SIGNALS = {
    "flat": lambda p: mpf(1),
    "(1 - p)^2": lambda p: number(1 - p) ** 2,
    "e^(-p)": lambda p: mp.exp(-number(p)),
    "2 - p": lambda p: number(2 - p),
}


def best_weights(signals, noises):
    """The weights that maximise (sum w s)^2 / sum w^2 v: the leading eigenvector of a symmetric matrix."""
    scaled = [s / mp.sqrt(v) for s, v in zip(signals, noises, strict=True)]
    values, vectors = mp.eigsy(mp.matrix([[left * right for right in scaled] for left in scaled]))
    leading = max(range(len(values)), key=lambda index: values[index])
    return [abs(vectors[row, leading]) / mp.sqrt(v) for row, v in enumerate(noises)]


@claim(
    "fade:sec-4-3-tilt",
    where="Section 4.3, 'if instead harder problems carry a stronger learning signal'",
    says="With a constant signal the best weight is largest at p = 1/2; if harder problems carry a stronger signal it "
    "is largest at a lower p.",
    formula=r"s'(p)<0\;\Rightarrow\;w^\star\text{ tilts to low }p",
    refuted_by="a falling signal whose best weight is largest at p >= 1/2, or a flat one with another mode than 1/2",
    reading="Best for the signal-to-noise ratio of the summed update, known weights and v0 = 1/(p (1 - p)); the best "
    "weight is s/v0. It is Power-alpha, with its mode at 1/(1 + alpha), for s = (1 - p)^(alpha - 1) only.",
    caveat="Best by the signal-to-noise ratio of the summed update. By the paper's own Q it is not: "
    "fade:sec-4-3-optimal.",
    statement=lambda mode, signal: mode == Fraction(1, 2) if signal == "flat" else mode < Fraction(1, 2),
    planted={
        "to the easy side": lambda mode, signal: mode >= Fraction(1, 2),
        "always 1/2": lambda mode, signal: mode == Fraction(1, 2),
    },
)
def tilt(statement):
    """The largest of the best weights of nine prompts, by an eigenvalue problem."""

    def mode(signal):
        noises = [1 / number(p * (1 - p)) for p in SOLVE_RATES]
        weights = best_weights([SIGNALS[signal](p) for p in SOLVE_RATES], noises)
        return max(zip(weights, SOLVE_RATES, strict=True))[1]

    yield from satisfies(statement, grid(signal=list(SIGNALS)), mode, method="numerical")

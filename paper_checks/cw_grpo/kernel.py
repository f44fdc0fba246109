"""Section 2.3: the Gaussian kernel's weights of tokens, and their normalisation."""

from fractions import Fraction
from typing import Any

import numpy as np
import sympy
from mpmath import mp, mpf

import simlab
from paper_checks.claim import Amended, claim
from paper_checks.cw_grpo.batches import (
    covariance,
    deviation,
    group_advantages,
    kernel,
    mean,
    normalised,
    terms,
    tokens,
)
from paper_checks.evidence import equals, grid, number, satisfies

# Groups of responses, by the log-probabilities of their tokens and the rewards; the last has outliers on both sides.
GROUPS: list[dict[str, Any]] = [
    {"logp": ((-1,), (-2,), (-4,)), "rewards": (1, 0, 0)},
    {"logp": ((-1,), (-2,), (-4,), (-8,)), "rewards": (1, 0, 0, 1)},
    {"logp": ((-1, 0), (-3, -1), (0, -6)), "rewards": (1, 0, 1)},
    {"logp": ((-1,), (-3, 0, -1, -2), (0, -6)), "rewards": (1, 0, 1)},
    {"logp": ((0, -1, 0, -1), (0, -1, -1, -9), (-1, 0, 0, -12), (0, 0, -1, 0)), "rewards": (1, 0, 1, 0)},
]
EQUAL_REWARDS: dict[str, Any] = {"logp": ((-1, -2), (-3, -1)), "rewards": (1, 1)}
LONE_PAIR: dict[str, Any] = {"logp": ((-1,), (-3,)), "rewards": (1, 0)}
MIRRORED: dict[str, Any] = {"logp": ((-1, -2, -4, -5), (-1, -2, -4, -5)), "rewards": (1, 0)}


def batch(logp, rewards):
    """The log-probabilities and GRPO advantages of the tokens of a group, in 50 digits."""
    return tokens([[number(x) for x in response] for response in logp], group_advantages(rewards))


def group_terms(logp, rewards):
    """The covariance terms of a group."""
    return terms(*batch(logp, rewards))


def equally_long(logp):
    """Whether all responses have as many tokens."""
    return len(set(map(len, logp))) == 1


@claim(
    "cw-grpo:kernel",
    where="Section 2.3, the Gaussian kernel",
    says="w = exp(-c^2 / (2 sigma^2)) is 1 at c = 0 and falls with |c|, equally on both sides.",
    formula=r"w_{i,t} = \exp(-c_{i,t}^2 / (2\sigma^2))",
    refuted_by="c and sigma at which the weight is outside (0, 1], depends on the sign of c or does not fall with "
    "|c|; or a group whose weights in simlab are others",
    reading="sigma > 0 is the deviation (divisor N) of c over the tokens of the group; its divisor is not stated. "
    "Rare right tokens (c below 0) are thus suppressed as much as rare wrong ones, though only the latter lower "
    "entropy.",
    statement=lambda c, sigma: mp.exp(-(c**2) / (2 * sigma**2)),
    planted={
        "the sign of c": lambda c, sigma: mp.exp(-c / (2 * sigma**2)),
        "no square of sigma": lambda c, sigma: mp.exp(-(c**2) / (2 * sigma)),
    },
)
def kernel_shape(statement):
    """The properties over a grid, and the advantages of simlab for the weights stated."""

    def shape(found, **_):
        here, mirrored, further, center = found
        return 0 < further < here <= 1 and here == mirrored and center == 1

    yield from satisfies(
        shape,
        grid(c=[mpf("0.1"), mpf(1), mpf(4)], sigma=[mpf("0.5"), mpf(1), mpf(3)]),
        lambda c, sigma: tuple(statement(x, sigma) for x in (c, -c, 2 * c, mpf(0))),
    )

    def as_stated(found, logp, rewards):
        _, advantages = batch(logp, rewards)
        c = group_terms(logp, rewards)
        weights = normalised([statement(value, deviation(c)) for value in c])
        return np.allclose(found, [float(w * a) for w, a in zip(weights, advantages, strict=True)], rtol=1e-5)

    yield from satisfies(
        as_stated,
        [group for group in GROUPS if equally_long(group["logp"])],
        lambda logp, rewards: tuple(
            simlab.advantages("cw_grpo", np.array(rewards, float), old_logp=np.array(logp, float)).ravel()
        ),
        method="numerical",
    )


@claim(
    "cw-grpo:kernel-defined",
    where="Section 2.3, the bandwidth",
    says="Setting the bandwidth to the deviation of the c gives every token of any batch a weight.",
    refuted_by="a batch at which a weight is 0/0",
    reading="No epsilon is printed. sigma is 0 for groups of equal rewards (where A itself is 0/0) and for two tokens "
    "of different responses. On the reading that code adds an epsilon w is 1 at c = 0, but for equal c other than 0 "
    "every kernel underflows, and the normaliser is 0/0 again.",
    statement=lambda found, **_: found is not None,
    condition=Amended(
        "The terms c are not all equal.",
        lambda found, logp, rewards: found is not None if deviation(group_terms(logp, rewards)) else None,
    ),
    planted={"for no batch": lambda found, **_: found is None},
)
def kernel_defined(statement):
    """Compute the weights; None stands for 0/0."""

    def weights(logp, rewards):
        try:
            return tuple(normalised(kernel(group_terms(logp, rewards))))
        except ZeroDivisionError:
            return None

    yield from satisfies(statement, [LONE_PAIR, EQUAL_REWARDS, *GROUPS], weights)


@claim(
    "cw-grpo:kernel-center",
    where="Section 2.3: suppresses only magnitudes that exceed typical variability",
    says="A token whose c is within a deviation of the typical c keeps a weight of at least exp(-1/2).",
    refuted_by="a token with |c - mean c| <= sigma and a smaller weight",
    reading="Typical: the mean, about which sigma is measured; the kernel sits at 0. With c of 1 plus small noise "
    "every weight is about exp(-1/(2 sigma^2)) before normalisation, and after it the token of least |c| takes nearly "
    "all. In the paper's data the mean is small beside sigma, so there the two nearly agree; on the reading 'within "
    "sigma of 0' it holds by construction.",
    statement=lambda c, center, sigma: mp.exp(-(c**2) / (2 * sigma**2)),
    correction=Amended(
        "With c centred: exp(-(c - mean c)^2 / (2 sigma^2)).",
        lambda c, center, sigma: mp.exp(-((c - center) ** 2) / (2 * sigma**2)),
    ),
    planted={"half the bandwidth, centred": lambda c, center, sigma: mp.exp(-2 * (c - center) ** 2 / sigma**2)},
)
def kernel_center(statement):
    """The weights of typical tokens, in groups that include one whose c are nearly equal."""
    nearly_equal: dict[str, Any] = {
        "logp": ((-1,), (Fraction(-11, 10),), (-3,), (Fraction(-31, 10),)),
        "rewards": (1, 1, 0, 0),
    }

    def least_typical(logp, rewards):
        c = group_terms(logp, rewards)
        center, sigma = mean(c), deviation(c)
        return min(statement(value, center, sigma) for value in c if abs(value - center) <= sigma)

    yield from satisfies(lambda weight, **_: weight >= mp.exp(-mpf(1) / 2), [nearly_equal, *GROUPS], least_typical)


@claim(
    "cw-grpo:kernel-threshold",
    where="Section 2.3: suppresses only the magnitudes that exceed typical variability, sigma",
    says="The tokens whose advantages are made smaller are those with |c| > sigma.",
    refuted_by="a token with |c| <= sigma whose normalised weight is below 1, or one above sigma whose weight is not",
    reading="Normalised weights, as used. The kernel itself is below 1 for every c but 0. For normally distributed c "
    "the threshold is sigma sqrt(ln 2) = 0.83 sigma and 40 % of the tokens are suppressed, not a handful; the others "
    "are amplified, by up to 1.41. On the reading 'mostly those that exceed sigma' it would be a matter of degree.",
    statement=lambda sigma, weights: sigma,
    correction=Amended(
        "Those with |c| > sigma sqrt(2 ln(N / sum w)), at most sqrt(sigma^2 + (mean c)^2).",
        lambda sigma, weights: sigma * mp.sqrt(2 * mp.log(len(weights) / mp.fsum(weights))),
    ),
    planted={"two deviations": lambda sigma, weights: 2 * sigma},
)
def kernel_threshold(statement):
    """Tokens by threshold, and by normalised weight."""

    def agreement(logp, rewards):
        c = group_terms(logp, rewards)
        weights = kernel(c)
        threshold = statement(deviation(c), weights)
        return tuple(
            (abs(value) > threshold) == (weight < 1) for value, weight in zip(c, normalised(weights), strict=True)
        )

    yield from satisfies(lambda agreed, **_: all(agreed), GROUPS, agreement)


@claim(
    "cw-grpo:kernel-adaptive",
    where="Sections 1 and 2.3: adaptive, no hyperparameters",
    says="The weights do not depend on the scale of the covariances.",
    refuted_by="a group whose weights change when every log-probability is scaled",
    reading="Scaling the log-probabilities by a factor, as a temperature does far from its normaliser. So no scale is "
    "to be set; equally, the method never switches off: the same share is suppressed when no token is extreme. The "
    "factor 1 before sigma and what counts as the batch are choices all the same.",
    statement=lambda weights, scale: weights,
    planted={"a power": lambda weights, scale: [w**scale for w in weights]},
)
def kernel_adaptive(statement):
    """The weights before and after scaling."""

    def scaled(logp, rewards, scale):
        return tuple(kernel(group_terms([[scale * x for x in response] for response in logp], rewards)))

    yield from equals(
        lambda logp, rewards, scale: tuple(statement(scaled(logp, rewards, 1), scale)),
        [group | {"scale": scale} for group in GROUPS for scale in (Fraction(1, 10), 3)],
        enumerated=scaled,
    )


@claim(
    "cw-grpo:kernel-bound",
    where="Sections 1 and 2.3: regulates the contribution of outlier tokens",
    says="Before normalisation no token adds more than sigma exp(-1/2) to the covariance, however extreme it is.",
    refuted_by="a sigma at which the largest |c| exp(-c^2 / (2 sigma^2)) is another",
    reading="Formalised: the largest w |c|, at |c| = sigma, beyond which more extreme tokens count less. On the "
    "reading that the bound is to hold without regard to the other tokens it fails, as sigma grows with the extreme "
    "token.",
    statement=lambda sigma: (
        sigma * (mp.exp(-mpf(1) / 2) if not isinstance(sigma, sympy.Basic) else sympy.exp(-sympy.Rational(1, 2)))
    ),
    planted={"sigma itself": lambda sigma: sigma},
)
def kernel_bound(statement):
    """The maximum, by sympy, and by a numerical root of the derivative."""

    def derived(sigma):
        c, width = sympy.symbols("c width", positive=True)
        value = c * sympy.exp(-(c**2) / (2 * width**2))
        (top,) = sympy.solve(sympy.diff(value, c), c)
        return value.subs(c, top).subs(width, sigma)

    def numerical(sigma):
        def value(c):
            return c * mp.exp(-(c**2) / (2 * sigma**2))

        return value(mp.findroot(lambda c: mp.diff(value, c), sigma * mpf("1.1")))

    yield from equals(
        statement,
        [{"sigma": mpf(sigma)} for sigma in ("0.5", "1", "3")],
        derived=derived,
        enumerated=numerical,
        symbolic_points=[{"sigma": sympy.Symbol("sigma", positive=True)}],
    )


@claim(
    "cw-grpo:kernel-mean",
    where="Section 2.3, normalised weights",
    says="The normalised weights have mean 1 over the tokens.",
    formula=r"\tilde{w}_{i,t} = w_{i,t} \cdot N / \sum_{j=1}^{G}\sum_{k=1}^{|o_j|} w_{j,k}",
    refuted_by="a group whose normalised weights have another mean",
    reading="Wherever the weights are defined; each token counts once. Under the loss's own average, in which "
    "responses count equally, it is another matter: cw-grpo:kernel-mean-in-loss.",
    statement=lambda weights, lengths: [w * sum(lengths) / mp.fsum(weights) for w in weights],
    planted={
        "G for N": lambda weights, lengths: [w * len(lengths) / mp.fsum(weights) for w in weights],
        "the largest weight": lambda weights, lengths: [w / max(weights) for w in weights],
    },
)
def kernel_mean(statement):
    """The mean of the weights."""
    yield from equals(
        lambda logp, rewards: mean(statement(kernel(group_terms(logp, rewards)), list(map(len, logp)))),
        GROUPS,
        enumerated=lambda logp, rewards: mpf(1),
    )


@claim(
    "cw-grpo:kernel-mean-in-loss",
    where="Section 2.3: the loss's average beside the normaliser",
    says="The normalised weights have mean 1 in the average that the loss takes, of responses' means.",
    refuted_by="a group whose weights have another mean under (1/G) sum 1/|o_i| sum",
    reading="The loss averages over the tokens of a response first, the normaliser over all tokens at once. On the "
    "reading of a loss averaged over all tokens, as in DAPO, it would hold; the paper prints the other one.",
    statement=lambda logp, rewards: mpf(1),
    condition=Amended("All responses are equally long.", lambda logp, rewards: mpf(1) if equally_long(logp) else None),
    planted={"responses in place of tokens": lambda logp, rewards: mpf(len(logp)) / sum(map(len, logp))},
)
def kernel_mean_in_loss(statement):
    """The mean over responses of the mean weight of their tokens."""

    def averaged(logp, rewards):
        weights = iter(normalised(kernel(group_terms(logp, rewards))))
        return mean([mean([next(weights) for _ in response]) for response in logp])

    yield from equals(statement, GROUPS, enumerated=averaged)


@claim(
    "cw-grpo:expected-loss",
    where="Section 2.3: to maintain the expected loss",
    says="With normalised weights the mean of the tokens' losses is what it was.",
    refuted_by="a group whose mean of w A is not its mean of A, at ratios of 1",
    reading="The policy term at ratios of 1, over all tokens. Mean weight 1 keeps the mean of A only if weights and "
    "advantages are uncorrelated: the change is Cov(w, A). It is 0 for GRPO's groups before, so the weights also end "
    "the balance of positive and negative advantages that A-GRAE and FADE ascribe to GRPO. On the reading 'keeps the "
    "scale' (mean weight 1) it holds: cw-grpo:kernel-mean.",
    statement=lambda logp, rewards: mean(batch(logp, rewards)[1]),
    condition=Amended(
        "Weights and advantages are uncorrelated over the tokens.",
        lambda logp, rewards: (
            mean(batch(logp, rewards)[1])
            if abs(covariance(kernel(group_terms(logp, rewards)), batch(logp, rewards)[1])) < mpf("1e-40")
            else None
        ),
    ),
    planted={"the largest": lambda logp, rewards: max(batch(logp, rewards)[1])},
)
def expected_loss(statement):
    """The mean of the reweighted advantages."""

    def reweighted_mean(logp, rewards):
        weights = normalised(kernel(group_terms(logp, rewards)))
        return mean([w * a for w, a in zip(weights, batch(logp, rewards)[1], strict=True)])

    yield from equals(statement, [*GROUPS, MIRRORED], enumerated=reweighted_mean)

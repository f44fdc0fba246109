"""Section 2.3: the Gaussian kernel's weights of tokens, and their normalisation."""

from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp, mpf

import simlab
from paper_checks.claim import CONDITIONS, COSMETIC, Amended, claim
from paper_checks.cw_grpo.batches import (
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
# Mostly sure tokens, one unlikely and one very unlikely.
SURE: dict[str, Any] = {"logp": ((0,) * 9 + (Fraction(-13, 10),), (0,) * 9 + (-5,)), "rewards": (1, 0)}
MIRRORED: dict[str, Any] = {"logp": ((-1, -2, -4, -5), (-1, -2, -4, -5)), "rewards": (1, 0)}


def batch(logp, rewards):
    """The log-probabilities and GRPO advantages of the tokens of a group, in 50 digits."""
    return tokens([[number(x) for x in response] for response in logp], group_advantages(rewards))


def group_terms(logp, rewards):
    """The covariance terms of a group."""
    return terms(*batch(logp, rewards))


def equally_long(logp):
    """Check that all responses are equally long."""
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
    identity=True,
    statement=lambda c, sigma: mp.exp(-(c**2) / (2 * sigma**2)),
    planted={
        "the sign of c": lambda c, sigma: mp.exp(-c / (2 * sigma**2)),
        "no square of sigma": lambda c, sigma: mp.exp(-(c**2) / (2 * sigma)),
    },
)
def kernel_shape(statement):
    """The properties over a grid, and the advantages of simlab for the weights stated."""

    def shape(values, **_):
        here, mirrored, further, center = values
        return 0 < further < here <= 1 and here == mirrored and center == 1

    yield from satisfies(
        shape,
        grid(c=[mpf("0.1"), mpf(1), mpf(4)], sigma=[mpf("0.5"), mpf(1), mpf(3)]),
        lambda c, sigma: tuple(statement(x, sigma) for x in (c, -c, 2 * c, mpf(0))),
        method="numerical",
    )

    def as_stated(computed, logp, rewards):
        _, advantages = batch(logp, rewards)
        c = group_terms(logp, rewards)
        weights = normalised([statement(value, deviation(c)) for value in c])
        return np.allclose(computed, [float(w * a) for w, a in zip(weights, advantages, strict=True)], rtol=1e-5)

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
    reading="The paper does not say 'any'; no epsilon is printed. sigma is 0 for groups of equal rewards (where A "
    "itself is 0/0) and for two tokens of different responses. On the reading that code adds an epsilon w is 1 at c = "
    "0, but for equal c other than 0 every kernel underflows, and the normaliser is 0/0 again.",
    severity=COSMETIC,
    met="unknown: how groups of equal rewards are treated is not said.",
    inferred=True,
    statement=lambda values, **_: values is not None,
    condition=Amended(
        "The terms c are not all equal.",
        lambda values, logp, rewards: values is not None if deviation(group_terms(logp, rewards)) else None,
    ),
    planted={"for no batch": lambda values, **_: values is None},
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
    "cw-grpo:kernel-threshold",
    where="Section 2.3: 'exponentially suppresses only the magnitudes that exceed typical variability', sigma",
    says="Only tokens with |c| > sigma have their advantages made smaller.",
    refuted_by="a token with |c| <= sigma whose normalised weight is below 1",
    reading="Normalised weights, as used; the kernel itself is below 1, and exponential in c^2, for every c but 0. For "
    "normally distributed c the threshold is sigma sqrt(ln 2) = 0.83 sigma; the other tokens are amplified, by up to "
    "1.41. On the reading 'by more than exp(-1/2), before normalisation' it holds by construction; 'softly', in the "
    "next sentence, points that way. c is measured from 0 and sigma from the mean of c, which Table 1 suggests to be "
    "near 0.",
    severity=COSMETIC,
    statement=lambda sigma, weights: sigma,
    correction=Amended(
        "Only those with |c| > sigma sqrt(2 ln(N / sum w)), at most sqrt(sigma^2 + (mean c)^2).",
        lambda sigma, weights: sigma * mp.sqrt(2 * mp.log(len(weights) / mp.fsum(weights))),
    ),
    planted={"two deviations": lambda sigma, weights: 2 * sigma},
)
def kernel_threshold(statement):
    """The least |c| of the tokens whose normalised weight is below 1, beside the threshold."""

    def least_suppressed(logp, rewards):
        c = group_terms(logp, rewards)
        weights = kernel(c)
        least = min(abs(value) for value, weight in zip(c, normalised(weights), strict=True) if weight < 1)
        return least, statement(deviation(c), weights)

    yield from satisfies(
        lambda pair, **_: pair[0] > pair[1],
        [SURE, *GROUPS],
        least_suppressed,
        names=("least |c| of a weight below 1", "threshold"),
    )


@claim(
    "cw-grpo:kernel-adaptive",
    where="Sections 1, 2.3 and 4: adaptive, without hyperparameters",
    says="No scale has to be set: the weights do not change when all covariances are scaled.",
    formula=r"w_{i,t} = \exp(-c_{i,t}^2 / (2\sigma^2))",
    refuted_by="a group whose weights change when every log-probability is scaled",
    reading="The kernel as printed, sigma taken from the same terms. On the reading that the factor 1 before sigma, "
    "and what counts as the batch, are hyperparameters that have been chosen, the method has some.",
    caveat="For the same reason the method never switches off: as much is suppressed when no token is extreme.",
    identity=True,
    statement=lambda c, sigma: mp.exp(-(c**2) / (2 * sigma**2)),
    planted={
        "no square of sigma": lambda c, sigma: mp.exp(-(c**2) / (2 * sigma)),
        "a bandwidth of 1": lambda c, sigma: mp.exp(-(c**2) / 2),
    },
)
def kernel_adaptive(statement):
    """The weights before and after scaling."""

    def scaled(logp, rewards, scale):
        c = group_terms([[scale * x for x in response] for response in logp], rewards)
        return tuple(statement(value, deviation(c)) for value in c)

    yield from equals(
        lambda logp, rewards, scale: scaled(logp, rewards, 1),
        [group | {"scale": scale} for group in GROUPS for scale in (Fraction(1, 10), 3)],
        enumerated=scaled,
    )


@claim(
    "cw-grpo:kernel-outliers",
    where="Section 1: regulates the contribution of outlier tokens to the policy gradient",
    says="The kernel regulates the contribution of outlier tokens to the policy gradient.",
    formula=r"w_{i,t} = \exp(-c_{i,t}^2 / (2\sigma^2))",
    refuted_by="a group in which its share of sum |w A| is no smaller than its share of sum |A|",
    reading="Regulated: the token of largest |c| has a smaller share of the weighted advantages than of the "
    "advantages. The kernel as printed; shares do not depend on its normaliser. There is no fixed bound: w |c| is at "
    "most sigma exp(-1/2), and sigma grows with the outliers; if a tenth of the tokens are, they keep about exp(-5). "
    "On the reading that the outlier's part is to be bounded by the other tokens it would fail.",
    identity=True,
    statement=lambda c, sigma: mp.exp(-(c**2) / (2 * sigma**2)),
    planted={
        "the sign of c": lambda c, sigma: mp.exp(-c / (2 * sigma)),
        "the sign of the exponent": lambda c, sigma: mp.exp(c**2 / (2 * sigma**2)),
    },
)
def kernel_outliers(statement):
    """Both shares."""

    def shares(logp, rewards):
        _, advantages = batch(logp, rewards)
        c = group_terms(logp, rewards)
        outlier = max(range(len(c)), key=lambda token: abs(c[token]))
        weighted = [statement(value, deviation(c)) * abs(a) for value, a in zip(c, advantages, strict=True)]
        return abs(advantages[outlier]) / mp.fsum(map(abs, advantages)), weighted[outlier] / mp.fsum(weighted)

    yield from satisfies(lambda pair, **_: pair[1] < pair[0], GROUPS, shares, method="numerical")


def loss_average(logp, values):
    """The loss's average of a value of each token: over the tokens of a response, then over the responses."""
    each = iter(values)
    return mean([mean([next(each) for _ in response]) for response in logp])


@claim(
    "cw-grpo:kernel-mean-in-loss",
    where="Section 2.3: normalised weights 'to maintain the expected loss'",
    says="The normalised weights have mean 1 in the average that the loss takes, of responses' means.",
    formula=r"\tilde{w}_{i,t} = w_{i,t} \cdot N / \sum_{j=1}^{G}\sum_{k=1}^{|o_j|} w_{j,k}",
    refuted_by="a group whose weights have another mean under (1/G) sum 1/|o_i| sum",
    reading="What 'to maintain the expected loss' takes at least; the paper does not name the average. Its loss "
    "averages over the tokens of a response first, the normaliser over all tokens at once. Of a loss averaged over all "
    "tokens, as in DAPO, the mean is 1 by construction.",
    met="no: reasoning responses differ in length.",
    inferred=True,
    statement=lambda weights, lengths: [w * sum(lengths) / mp.fsum(weights) for w in weights],
    condition=Amended(
        "All responses are equally long.",
        lambda weights, lengths: (
            [w * sum(lengths) / mp.fsum(weights) for w in weights] if len(set(lengths)) == 1 else None
        ),
    ),
    planted={
        "G for N": lambda weights, lengths: [w * len(lengths) / mp.fsum(weights) for w in weights],
        "the largest weight": lambda weights, lengths: [w / max(weights) for w in weights],
    },
)
def kernel_mean_in_loss(statement):
    """The loss's average of the weights."""

    def averaged(logp, rewards):
        weights = statement(kernel(group_terms(logp, rewards)), list(map(len, logp)))
        return None if weights is None else loss_average(logp, weights)

    def is_one(average, **_):
        return None if average is None else abs(average - 1) < mpf("1e-30")

    yield from satisfies(is_one, GROUPS, averaged, method="numerical")


@claim(
    "cw-grpo:expected-loss",
    where="Section 2.3: to maintain the expected loss",
    says="The weights are normalised to maintain the expected loss.",
    refuted_by="a group whose average of w A is not its average of A, at ratios of 1",
    reading="By the letter: averaged over the tokens the loss is what it was. The policy term at ratios of 1, in the "
    "loss's own average. Weights of mean 1 keep it only if they do not depend on the advantages, from which they are "
    "made. For GRPO's groups it is 0 before, so that the weights also end the balance of positive and negative "
    "advantages. On the reading 'keeps the scale of the weights' see cw-grpo:kernel-mean-in-loss.",
    severity=CONDITIONS,
    statement=lambda logp, weights, advantages: loss_average(logp, advantages),
    correction=Amended(
        "It changes by the covariance of weights and advantages, in the loss's average.",
        lambda logp, weights, advantages: loss_average(logp, advantages) + loss_covariance(logp, weights, advantages),
    ),
    planted={"a change by the mean weight": lambda logp, weights, advantages: loss_average(logp, weights) - 1},
)
def expected_loss(statement):
    """The average of the reweighted advantages."""

    def stated(logp, rewards):
        return statement(logp, normalised(kernel(group_terms(logp, rewards))), batch(logp, rewards)[1])

    def reweighted_loss(logp, rewards):
        weights = normalised(kernel(group_terms(logp, rewards)))
        return loss_average(logp, [w * a for w, a in zip(weights, batch(logp, rewards)[1], strict=True)])

    yield from equals(stated, [*GROUPS, MIRRORED], enumerated=reweighted_loss)


def loss_covariance(logp, left, right):
    """The covariance of two values of the tokens in the loss's average."""
    centers = loss_average(logp, left), loss_average(logp, right)
    return loss_average(logp, [(x - centers[0]) * (y - centers[1]) for x, y in zip(left, right, strict=True)])

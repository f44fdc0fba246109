"""Entropy, and the spread of the covariance of log-probabilities and advantages, where a log has log-probabilities."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from simlab.arms import parse
from simlab.diagnose.estimate import Estimate, jackknifed
from simlab.diagnose.log import Log
from simlab.estimators import advantages
from simlab.theory.covariance import TOP_PERCENT, covariance_thresholds


@dataclasses.dataclass(frozen=True)
class Confidence:
    """What the log-probabilities of a window tell; a log has them of whole rollouts, and of tokens only the mean.

    Attributes:
        entropy: mean of -log p of a rollout, in nats.
        entropy_per_token: the same over the tokens; None where the log does not tell lengths.
        surprise_of_correct, surprise_of_wrong: mean of -log p of correct and of wrong rollouts.
        covariance: mean of (log p - its mean)(A - its mean) over the rollouts of the window, A by the estimator in use;
            above 0, learning makes the policy surer of itself.
        top_percent: the percentage of the rollouts of either sign that count as the top.
        positive, negative: what those of the largest covariance terms reach ``[cw-grpo:table-1-dominance]``.
    """

    entropy: Estimate
    entropy_per_token: Estimate | None
    surprise_of_correct: Estimate
    surprise_of_wrong: Estimate
    covariance: Estimate
    top_percent: tuple[float, ...]
    positive: tuple[float, ...]
    negative: tuple[float, ...]


def confidence(log: Log, estimator: str, level: float) -> Confidence | None:
    """What a window tells of log-probabilities; None where it has none."""
    own = log.confidence
    if own is None or not len(own.group):
        return None
    surprise = -own.log_probability
    place = np.unique(log.prompt[own.group], return_inverse=True)[1]

    def mean(name: str, values: Float[np.ndarray, " R"], among: Float[np.ndarray, " R"]) -> Estimate:
        above, below = (np.bincount(place, part) for part in (values * among, among))
        return jackknifed(name, above, below, level)

    everyone, correct = np.ones(len(surprise)), own.correct.astype(float)
    advantage = _advantages(log, estimator)
    terms = -(surprise - surprise.mean()) * (advantage - advantage.mean())
    positive, negative = covariance_thresholds(terms)
    known = own.length > 0
    per_token = mean("entropy per token", surprise / np.maximum(own.length, 1), own.length.astype(float))
    return Confidence(
        mean("entropy", surprise, everyone),
        per_token if known.all() else None,
        mean("-log p of correct rollouts", surprise, correct),
        mean("-log p of wrong rollouts", surprise, 1 - correct),
        mean("covariance", terms, everyone),
        TOP_PERCENT,
        tuple(positive.tolist()),
        tuple(negative.tolist()),
    )


def _advantages(log: Log, estimator: str) -> Float[np.ndarray, " R"]:
    """The advantage of each sampled rollout: that of a correct or wrong one in a group with as many correct."""
    own = log.confidence
    assert own is not None
    found = np.full(len(own.group), math.nan)
    size, correct = log.group_size[own.group], log.correct[own.group]
    own_estimator = parse(estimator).build().estimator
    for group_size in np.unique(size).tolist():
        rewards = (np.arange(group_size) < np.arange(group_size + 1)[:, None]).astype(float)
        table = np.stack([advantages(own_estimator, row[None])[0] for row in rewards])
        here = size == group_size
        found[here] = np.where(
            own.correct, table[correct % (group_size + 1), 0], table[correct % (group_size + 1), -1]
        )[here]
    return found

"""Sum over the tokens of a rollout what tells how far the trainer's probabilities are from the sampler's."""

from typing import Any

import numpy as np

CUT = 2.0  # at which truncated importance sampling cuts a weight, in the trainers that do
MOST = 50.0  # nats; weights beyond are as if at it
SUMS = ("tokens", "log_ratio", "log_ratio_square", "weight", "weight_square", "above", "weight_above")


def ratio_sums(trainer: Any, sampler: Any, mask: Any = None) -> dict[str, float]:
    """Return the ``SUMS`` over the tokens that have two log-probabilities, and are in ``mask``; {} unless lists match.

    With d = log p - log q and w = exp d of a token: 1, d, d^2, w and w^2, and 1 and w where w > ``CUT``.
    """
    if not isinstance(trainer, list) or not isinstance(sampler, list) or len(trainer) != len(sampler):
        return {}
    ratio = np.asarray(trainer, float) - np.asarray(sampler, float)
    counted = np.isfinite(ratio)
    if isinstance(mask, list) and len(mask) == len(trainer):
        counted &= np.asarray(mask, bool)
    return dict(zip(SUMS, (column.sum() for column in weigh(ratio[counted])), strict=True))


def weigh(ratio: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what is summed, of each log-ratio."""
    weight = np.exp(np.minimum(ratio, MOST))
    return np.ones(len(ratio)), ratio, ratio**2, weight, weight**2, weight > CUT, weight * (weight > CUT)

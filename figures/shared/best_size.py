"""Find the best group size at each cost, with the learning rate that suits it, and the sizes as good as seeds can tell.

A rate that is chosen by the very seeds that are shown looks too good. So each half of the seeds is shown at the rate
that the other half has chosen.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

ERRORS = 1.96  # standard errors of a difference by seed, within which two sizes are as good
AS_GOOD = 0.01  # or within this difference of probabilities


class Best(NamedTuple):
    """The index of the best size at each cost, and a mask of the sizes that are as good."""

    place: Int[np.ndarray, " costs"]
    as_good: Bool[np.ndarray, "sizes costs"]


def at_own_rates(
    values: Float[np.ndarray, "sizes rates seeds costs"],
) -> Float[np.ndarray, "sizes seeds costs"]:
    """Return what each seed reaches at the learning rate that is best on the other half of the seeds."""
    halves = np.arange(values.shape[2]) % 2 == 0
    reached = np.empty((values.shape[0], *values.shape[2:]))
    for shown in (halves, ~halves):
        chosen = values[:, :, ~shown].mean(axis=2).argmax(axis=1)  # (sizes, costs)
        reached[:, shown] = np.take_along_axis(values[:, :, shown], chosen[:, None, None, :], axis=1)[:, 0]
    return reached


def best_sizes(values: Float[np.ndarray, "sizes seeds costs"]) -> Best:
    """The best size at each cost, and those that seeds cannot tell from it."""
    best = values.mean(axis=1).argmax(axis=0)
    behind = values[best, :, np.arange(len(best))].T - values  # by seed
    error = behind.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    gap = behind.mean(axis=1)
    return Best(best, (gap <= ERRORS * error) | (gap <= AS_GOOD))

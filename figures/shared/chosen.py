"""Read a metric where pass@1 first reaches a level, at the setting that is best for a method.

The setting, such as a learning rate, is chosen on the first half of the seeds and judged on the second.
"""

from typing import NamedTuple

import numpy as np

from simlab.columns import at_equal_mass


class Judged(NamedTuple):
    """The mean of a metric over the judging seeds with its standard error, the mean step, and the chosen setting."""

    mean: float
    error: float
    step: float
    setting: int


def at_level(pass_at_1: np.ndarray, values: np.ndarray, steps: np.ndarray, level: float) -> np.ndarray:
    """Return a metric and the step of each seed where its pass@1 first reaches a level, (settings, 2, seeds).

    ``pass_at_1`` and ``values`` are (settings, seeds, records), ``steps`` (records,). NaN where a seed does not.
    """
    every = np.broadcast_to(steps.astype(float), pass_at_1.shape)
    return np.array(
        [
            [at_equal_mass(mass, metric, np.array([level]))[0] for metric in (value, step)]
            for mass, value, step in zip(pass_at_1, values, every, strict=True)
        ]
    )


def best_setting(values: np.ndarray) -> int | None:
    """Return the row of ``values`` (settings, seeds) with the largest mean over the first half of the seeds.

    None if no row has a number for all seeds.
    """
    means = values[:, : values.shape[1] // 2].mean(axis=1) + 0 * values.sum(axis=1)  # NaN where a seed has none
    return None if np.isnan(means).all() else int(np.nanargmax(means))


def judge(pass_at_1: np.ndarray, values: np.ndarray, steps: np.ndarray, level: float) -> Judged | None:
    """Return what a metric comes to at a level; None if there is no setting at which all seeds reach it."""
    metric, step = np.moveaxis(at_level(pass_at_1, values, steps, level), 1, 0)
    half, best = metric.shape[1] // 2, best_setting(metric)
    if best is None:
        return None
    judging = metric[best, half:]
    error = judging.std(ddof=1) / np.sqrt(len(judging))
    return Judged(float(judging.mean()), float(error), float(step[best, half:].mean()), best)

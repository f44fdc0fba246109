"""Find which estimators beat which, paired by seed: chosen on one half of the seeds, judged on the other.

A rival is an estimator, or a chain of links. Its results are (settings, seeds, metrics), where a setting is an update
norm; a larger metric is better.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

CLEAR = 2.0  # standard errors


def mean_and_error(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds and its standard error."""
    return values.mean(axis), values.std(axis, ddof=1) / np.sqrt(values.shape[axis])


def margins(winner: np.ndarray, loser: np.ndarray) -> np.ndarray:
    """A winner's lead in standard errors of the paired difference, (..., metrics), from (..., seeds, metrics).

    0 where the two are equal seed by seed.
    """
    mean, error = mean_and_error(winner - loser, axis=-2)
    ratio: np.ndarray = np.divide(mean, error, out=np.zeros_like(mean), where=error > 0)
    return ratio


def beaters(results: Mapping[str, np.ndarray]) -> dict[str, tuple[str, list[int]]]:
    """Return the rivals that one other rival, the winner, beats at each of their settings, at a setting of its own.

    To beat is to lead by more than ``CLEAR`` in every metric. Of several winners the one with the largest smallest lead
    is returned, with its setting that beats each setting of the loser.
    """
    beaten = {}
    for loser, values in results.items():
        best, choice = 0.0, None
        for winner, others in results.items():
            if winner == loser:
                continue
            leads = margins(others[None], values[:, None]).min(axis=-1)  # settings of the loser, of the winner
            if leads.max(axis=1).min() > max(best, CLEAR):
                best, choice = leads.max(axis=1).min(), (winner, leads.argmax(axis=1).tolist())
        if choice:
            beaten[loser] = choice
    return beaten


def judge(results: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """``beaters`` of the first half of the seeds, each with its smallest lead, in standard errors, in the second."""
    half = next(iter(results.values())).shape[1] // 2
    chosen = beaters({name: values[:, :half] for name, values in results.items()})
    return {
        loser: {
            "by": winner,
            "settings": settings,
            "lead": float(margins(results[winner][settings, half:], results[loser][:, half:]).min()),
        }
        for loser, (winner, settings) in chosen.items()
    }


def front(results: Mapping[str, np.ndarray]) -> list[tuple[str, int]]:
    """The rivals and settings that no other rival's setting beats in every metric."""
    points = [(name, setting) for name, values in results.items() for setting in range(len(values))]
    together = np.concatenate(list(results.values()))
    return [
        point
        for point, row in zip(points, together, strict=True)
        if not (margins(together, row[None]).min(axis=-1) > CLEAR).any()
    ]


def best_settings(results: Mapping[str, np.ndarray], scored: int) -> dict[str, int]:
    """Each rival's setting with the largest mean of the first ``scored`` metrics in the first half of the seeds."""
    half = next(iter(results.values())).shape[1] // 2
    return {name: int(values[:, :half, :scored].mean(axis=(1, 2)).argmax()) for name, values in results.items()}

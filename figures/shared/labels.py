"""Put numbers beside crowded points, moved apart until none covers another."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

SIZE = 6.5  # of the numbers, points
APART = np.array([8.5, 6.5])  # the room of one, points
TURNS = 500
PULL = 0.004  # back to its own point, of the distance to it, a turn


def number_points(axes: Axes, x: np.ndarray, y: np.ndarray, numbers: list[int]) -> None:
    """Write ``numbers`` + 1 near points, with a thin line to a point that its number had to leave.

    Every number starts on its point; those that overlap, with another number or with a point, push each other apart.
    The limits of the axes are fixed by this.
    """
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
    width, height = (side * 72 for side in (2.9, 2.3))  # about a panel's, in points
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    points = (np.stack([x, y], axis=1) - low) / (high - low) * (width, height)
    places = points + np.array([6, 4])
    for _ in range(TURNS):
        places = _pushed(places, places, points)
        places = _pushed(places, points, points)
        places = np.clip(places, APART / 2, (width, height) - APART / 2)
    line: dict[str, Any] = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.4, "shrinkA": 2, "shrinkB": 0}
    centred: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": SIZE}
    for row, number in enumerate(numbers):
        away = places[row] - points[row]
        axes.annotate(
            f"{number + 1}", (x[row], y[row]), away, arrowprops=line if np.hypot(*away) > 12 else None, **centred
        )


def _pushed(places: np.ndarray, others: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Places moved a little away from others that lie within their room, and a little back to their own points."""
    gap = places[:, None] - others[None]
    overlap = 1 - np.max(np.abs(gap) / APART, axis=-1)
    if others is places:
        np.fill_diagonal(overlap, 0)
    side = np.where(gap == 0, np.arange(len(places))[:, None, None] % 2 - 0.5, np.sign(gap))
    push = (np.maximum(overlap, 0)[..., None] * side * [1.0, 2.0]).sum(axis=1)
    moved: np.ndarray = places + push + PULL * (points - places)
    return moved

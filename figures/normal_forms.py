"""The normal form of every weight ``[simlab:normal-form]``: its speed and its baseline as two curves, by equal speed.

A_i = c(j) (r_i - b(j)), j of the other rollouts being correct; computed from the estimators themselves.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.alike import Kind, groups, known
from simlab.plotting import STYLE

CONFIGURATION = {"group_size": 8}
MESSAGE = (
    "Many weights are one speed with another baseline:\nREINFORCE, RLOO, Dr. GRPO, PSR and NSR differ in noise alone"
)
DIFFERS = "Not in the papers: all weights of rewards 0 and 1 in one form."
COLUMNS, HEIGHT = 3, 0.3  # weights side by side; inches of a row
SPEED, BASELINE = "C0", "C1"


def rows(group_size: int) -> list[tuple[str, Kind | None]]:
    """The rows in order: a title without a weight, then the weights below it."""
    entries: list[tuple[str, Kind | None]] = []
    for title, kinds in groups(known(group_size)):
        if kinds[0].form is not None:
            entries += [(title, None), *((kind.name, kind) for kind in kinds)]
    return entries


def draw(data: dict[str, Any]) -> Figure:
    """Two small curves a row, speed and baseline against j, each from 0 (or its least) to its largest."""
    listed = rows(data["group_size"])
    per_column = -(-len(listed) // COLUMNS)
    height = per_column * HEIGHT + 1.0
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, height))
        figure.suptitle(MESSAGE, x=0.02, y=1 - 0.08 / height, ha="left", va="top", fontsize=10, fontweight="bold")
        for number, (name, kind) in enumerate(listed):
            column, row = divmod(number, per_column)
            left, bottom = 0.01 + column / COLUMNS, 1 - (0.85 + (row + 1) * HEIGHT) / height
            if kind is None:
                figure.text(left, bottom + 0.3 * HEIGHT / height, name, fontsize=7.5, fontweight="bold")
                continue
            figure.text(left, bottom + 0.3 * HEIGHT / height, name, fontsize=7)
            assert kind.form is not None
            curves = (kind.form.speed, SPEED), (kind.form.baseline, BASELINE)
            for index, (values, colour) in enumerate(curves):
                box = (left + 0.172 + 0.072 * index, bottom + 0.1 * HEIGHT / height, 0.062, 0.75 * HEIGHT / height)
                _draw(figure.add_axes(box), values, colour)
        top = 1 - 0.72 / height
        for column in range(COLUMNS):
            for index, (text, colour) in enumerate((("c(j)", SPEED), ("b(j)", BASELINE))):
                figure.text(0.01 + column / COLUMNS + 0.172 + 0.072 * index, top, text, fontsize=7.5, color=colour)
    return figure


def _draw(axes: Axes, values: np.ndarray, colour: str) -> None:
    low, high = min(0.0, np.nanmin(values, initial=0)), max(0.0, np.nanmax(values, initial=0))
    margin = 0.12 * (high - low or 1.0)
    axes.axhline(0, color="0.8", linewidth=0.6)
    axes.plot(range(len(values)), values, color=colour, linewidth=1.1, marker="o", markersize=1.6)
    axes.set(ylim=(low - margin, high + margin), xlim=(-0.4, len(values) - 0.6), xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(False)

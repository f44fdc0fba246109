"""The covariance that the most extreme tokens reach, simulated and of a trained model ``[cw-grpo:table-1-dominance]``.

Table 1 of the paper beside the same percentiles of the tokens of cw_grpo_fig3, whose head says how to make them.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.cw_grpo_fig3 import DATA, STYLES
from simlab.plotting import STYLE

__all__ = ["DATA", "DIFFERS", "draw"]

MESSAGE = "A small model's covariances are spread much as the paper's are"
DIFFERS = (
    "A tree of tabular policies and a model of 0.12M parameters on countdown in place of a 1.5B model over 50 steps, "
    "whose printed numbers stand beside them."
)
PRINTED = {"positive": (11.52, 3.32, 0.58, 0.33, 0.06), "negative": (13.62, 3.34, 0.36, 0.22, 0.04)}  # sizes
MARKERS = ("v", "^", "s", "o")


def draw(data: dict[str, Any]) -> Figure:
    """The size of the covariance at each percentage, of either sign, on one logarithmic scale."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, sign, letter in zip(panels, PRINTED, "ab", strict=True):
            axes.plot(PRINTED[sign], "x", linestyle=(0, (7, 1.5)), color="C6", markersize=5, label="paper")
            _draw_thresholds(axes, data, sign)
            axes.set_title(f"({letter}) {sign}", loc="left")
        panels[0].set_ylabel("size of c at that place")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_thresholds(axes: Axes, data: dict[str, Any], sign: str) -> None:
    positions = np.arange(len(data["percent"]))
    for (name, (colour, dashes)), marker in zip(STYLES.items(), MARKERS, strict=True):
        sizes = np.abs(data["tokens"][name]["before"][sign]["at"])
        axes.plot(positions, sizes, color=colour, linestyle=dashes, marker=marker, label=name)
    axes.set_yscale("log")
    axes.set_xticks(positions, [f"{percent:g}" for percent in data["percent"]])
    axes.set(xlabel="% of the tokens of that sign", ylim=(5e-7, 80))

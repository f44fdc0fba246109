"""Sign bias and single steps: accumulated, one by one, one after the other ``[fade:app-15-clt]``.

The numbers are those of ``figures/fade_rank.py``, whose head says how to make them anew. Bars are 95 % of the mean over
seeds. Also ``[fade:sec-4-2-successive-alignment]``.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.fade_rank import DIVERSITIES, LEVELS, cell_of, last, marks
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "fade_rank.json"
MESSAGE = (
    "At equal correct mass hardly anything aligns under failure bias: neither single updates nor successive gradients"
)
DIFFERS = "A linear softmax with shared features in place of a language model's output head; plain steps."
QUANTITIES = {
    "leading_share_at": ("accumulated", f"$r_1$ at $Q_{{pos}}$ = {LEVELS[-1]:g}"),
    "update_leading_share": ("single steps", "$r_1$ of an update"),
    "gradient_alignment": ("successive gradients", "|cos|"),
}
ANSWERS = {"shared": "answers shared by all modes", "own": "answers of their own"}


def draw(data: dict[str, Any]) -> Figure:
    """Three quantities against the bias, by what is diverse."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        panels = figure.subplots(2, 3, sharex=True, sharey="col")
        for pair, letter, (quantity, (title, label)) in zip(panels.T, "abc", QUANTITIES.items(), strict=True):
            for axes, answers in zip(pair, ANSWERS, strict=True):
                _draw_deltas(axes, data, quantity, answers)
                axes.set_ylabel(label)
            pair[0].set_title(f"({letter}) {title}", loc="left")
        for axes, says in zip(panels[:, -1], ANSWERS.values(), strict=True):
            axes.annotate(says, (1.04, 0.5), xycoords="axes fraction", rotation=270, va="center", fontsize=8)
        figure.legend(handles=marks(), loc="outside lower center", ncols=len(DIVERSITIES))
    return figure


def _draw_deltas(axes: Axes, data: dict[str, Any], quantity: str, answers: str) -> None:
    """A quantity against delta, by what is diverse; of several levels the last."""
    for modes, (_, colour, marker) in DIVERSITIES.items():
        cell = cell_of(data, "sgd", modes, answers)
        mean, error = (np.array([last(value[key]) for value in cell["means"][quantity]]) for key in ("mean", "error"))
        axes.errorbar(cell["delta"], mean, 1.96 * error, color=colour, lw=1, marker=marker, ms=3.5)
    axes.set_xscale("log")
    axes.set_xticks([0.3, 1, 3], ["0.3", "1", "3"])
    axes.minorticks_off()
    if axes.get_subplotspec().is_last_row():
        axes.set_xlabel(r"$\delta$, below 1 failure bias")

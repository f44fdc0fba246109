"""Sign bias and single steps: accumulated, one by one, one after the other ``[fade:app-15-clt]``.

The numbers are those of ``figures/fade_rank.py``, whose head says how to make them anew. Bars are 95 % of the mean over
seeds. Also ``[fade:sec-4-2-successive-alignment]``.
"""

import itertools
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


def draw(data: dict[str, Any]) -> Figure:
    """Three quantities against the bias, by what is diverse."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        for axes, letter, quantity, title, label in zip(
            figure.subplots(1, 3),
            "abc",
            ("leading_share_at", "update_leading_share", "gradient_alignment"),
            ("accumulated", "single steps", "successive gradients"),
            (f"$r_1$ at $Q_{{pos}}$ = {LEVELS[-1]:g}", "$r_1$ of an update", "|cos|"),
            strict=True,
        ):
            _draw_deltas(axes, data, quantity)
            axes.set(ylabel=label)
            axes.set_title(f"({letter}) {title}", loc="left")
        title = "solid: answers shared by all modes; dashed: of their own"
        figure.legend(handles=marks(), loc="outside lower center", ncols=len(DIVERSITIES), title=title)
    return figure


def _draw_deltas(axes: Axes, data: dict[str, Any], quantity: str) -> None:
    """A quantity against delta, by what is diverse; of several levels the last."""
    for (modes, (_, colour, marker)), (answers, dashes) in itertools.product(
        DIVERSITIES.items(), (("shared", "-"), ("own", "--"))
    ):
        cell = cell_of(data, "sgd", modes, answers)
        mean, error = (np.array([last(value[part]) for value in cell["means"][quantity]]) for part in ("mean", "error"))
        style = {"marker": marker, "ms": 3.5, "markerfacecolor": colour if answers == "shared" else "white"}
        axes.errorbar(cell["delta"], mean, 1.96 * error, color=colour, ls=dashes, lw=1, **style)
    axes.set_xscale("log")
    axes.set_xticks([0.3, 1, 3], ["0.3", "1", "3"])
    axes.minorticks_off()
    axes.set(xlabel=r"$\delta$, below 1 failure bias")

"""FADE's controller ``[fade:eq-11]``, ``[fade:alg-2]``: alpha and delta by solve rate and entropy, and a run's path.

The run is that of figures/fade_fig8.py, which keeps its numbers. What the schedule gives is read off the advantages of
the library's estimator.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.fade_fig8 import schedule
from figures.shared.scheduled import scheduled
from simlab.plotting import STYLE
from simlab.theory import closed_form

DATA = Path(__file__).parent / "data" / "fade_fig8.json"
MESSAGE = "FADE's schedule leads from hard focus to mean GRPO with failures at 2.7 times their weight"
DIFFERS = (
    "The paper prints the controller as formulas; points are records of a bank of 64 tabular prompts, at the means of "
    "solve rate and entropy over prompts."
)
MOMENTS = (0, 6, 12, 30)  # records: the start, on the way, and the end
LINES = (("C0", "-"), ("C1", "--"), ("C2", "-."), ("C3", ":"))
_RATES = np.linspace(0.01, 0.99, 99)
_GAPS = np.linspace(-1.2, 1.6, 141)  # entropy less its target
_TARGET = 2.0  # nats; any from 1.2 up shows the same gaps


def draw(data: dict[str, Any]) -> Figure:
    """alpha, delta, and the masses at a few moments of the run."""
    entropies, path = np.array(data["bank"]["entropy"]["mean"]), schedule(data)
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        left.plot(_RATES, [scheduled(p, _TARGET, _TARGET)[0] for p in _RATES], color="0.4", lw=1)
        _draw_path(left, np.array(data["bank"]["q_pos"]["mean"]), path[:, 0])
        left.set(xlabel=r"averaged solve rate $\hat p$", ylabel=r"$\alpha$", ylim=(0.8, 3.2))
        left.set_title("(a) difficulty", loc="left")
        middle.plot(_GAPS, [scheduled(0.5, _TARGET + gap, _TARGET)[1] for gap in _GAPS], color="0.4", lw=1)
        gaps = entropies - entropies[0] / 2
        _draw_path(middle, gaps, path[:, 1])
        middle.set(xlabel=r"averaged entropy less target, $\hat H - H^*$", ylabel=r"$\delta$", ylim=(0.2, 1.08))
        middle.set_title("(b) sign", loc="left")
        for moment, style in zip(MOMENTS, LINES, strict=True):
            _draw_masses(right, path[moment], f"step {data['step'][moment]}", style)
        right.axhline(0, color="0.6", lw=0.6, zorder=0)
        right.set(xlabel="solve rate p of a prompt", ylabel=r"$m_S$ (up) and $-m_F$ (down)")
        right.set_title("(c) masses", loc="left")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=len(MOMENTS))
    return figure


def _draw_path(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Every record of the run; those of (c) larger, in their colours."""
    axes.plot(x, y, ls="", marker=".", ms=3, color="0.4")
    for moment, (colour, _) in zip(MOMENTS, LINES, strict=True):
        axes.plot(x[moment], y[moment], ls="", marker="o", ms=5, color=colour)


def _draw_masses(axes: Axes, scheduled_now: np.ndarray, label: str, style: tuple[str, str]) -> None:
    """p q^alpha on successes, and that over delta on failures ``[fade:fig-8-weight]``."""
    (colour, dashes), (alpha, delta) = style, scheduled_now
    success, failure = closed_form("power_alpha", _RATES, alpha=float(alpha))
    axes.plot(_RATES, success, dashes, color=colour, label=label)
    axes.plot(_RATES, -failure / delta, dashes, color=colour)

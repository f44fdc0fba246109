"""FADE's difficulty axis and its scheduler on a bank of prompts ``[fade:fig-6]``, ``[fade:fig-9]``.

The numbers are those of ``figures/fade.py``, whose head says how to make them anew. Bars and bands are 95 % of the mean
over seeds; comparisons are seed by seed.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "fade.json"
MESSAGE = "At one norm hard focus pays at small and middle k; FADE's schedule is behind the best fixed weight"
DIFFERS = "64 tabular policies in place of 7B and 32B models; steps of one norm beside steps as the weights give them."
DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
SHOWN_DIFFERENCES = {
    "power 4": "Power-4",
    "pass_at_k_chen": "Chen's pass@4",
    "easy 2": "easy Power-2",
    "delta 0.1": r"$\delta = .1$",
    "delta 10": r"$\delta = 10$",
    "fade whole 0.02": "FADE",
}


def draw(data: dict[str, Any]) -> Figure:
    """Speed and effective prompts along the difficulty axis, pass@k at the end, and the scheduler's lag."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        panels = figure.subplots(1, 3)
        _draw_focus(panels[0], data)
        _draw_differences(panels[1], data)
        _draw_scheduler(panels[2], data)
    return figure


def _title(axes: Axes, letter: str, text: str) -> None:
    axes.set_title(f"({letter}) {text}", loc="left")


def _draw_focus(axes: Axes, data: dict[str, Any]) -> None:
    """Speed of learning and effective number of prompts along the difficulty axis."""
    names = [*(f"easy {a}" for a in ("4", "3", "2", "1.5")), *(f"power {a}" for a in ("1", "1.5", "2", "3", "4"))]
    other = axes.twinx()
    lines = []
    for steps, dashes, filled in (("weight", "-", "C0"), ("equal", "--", "white")):
        weights = data["steps"][steps]["weights"]
        mean, error = (np.array([weights[name]["mean_q_pos"][key] for name in names]) for key in ("mean", "error"))
        lines += [
            axes.errorbar(
                range(len(names)), mean, 1.96 * error, color="C0", ls=dashes, marker="o", ms=4, markerfacecolor=filled
            )
        ]
    prompts = [data["steps"]["weight"]["weights"][name]["effective_prompts"]["mean"] for name in names]
    (line,) = other.plot(range(len(names)), prompts, ":", color="C1", marker="D", ms=3)
    axes.legend([*lines, line], ["as given", "one norm", "prompts (right)"], loc="lower center", fontsize=7)
    axes.set_xticks(range(len(names)), [name.split()[1] for name in names])
    axes.set(xlabel=r"easy $\leftarrow\;\alpha\;\rightarrow$ hard", ylabel="mean pass@1 of the run", ylim=(0.2, 0.76))
    other.set(ylabel="effective prompts of 16", ylim=(0, None))
    other.spines.right.set_visible(True)
    _title(axes, "a", "difficulty axis")


def _draw_differences(axes: Axes, data: dict[str, Any]) -> None:
    """Final pass@k less mean GRPO's, at steps of one norm."""
    for (name, label), dashes in zip(SHOWN_DIFFERENCES.items(), DASHES, strict=True):
        less = data["steps"]["equal"]["over_mean_grpo"][name]["pass_at_k"]
        mean, error = (np.array(less[key]) for key in ("mean", "error"))
        (line,) = axes.plot(data["k"], mean, linestyle=dashes, label=label)
        axes.fill_between(data["k"], mean - 1.96 * error, mean + 1.96 * error, color=line.get_color(), alpha=0.2, lw=0)
    axes.set_xscale("log", base=2)
    axes.axhline(0, color="0.6", lw=0.6, zorder=0)
    axes.set(xlabel="k", ylabel="pass@k less mean GRPO's", ylim=(-0.13, 0.045))
    axes.legend(loc="lower right", fontsize=7, labelspacing=0.2)
    _title(axes, "b", "final, one norm")


_ROWS = {
    "fade whole 0.02": "FADE",
    "fade no difficulty 0.02": "no difficulty",
    "fade no sign 0.02": "no sign",
    "fade neither 0.02": "neither",
    "fade whole 0.98": r"$\beta = .98$",
}


def _draw_scheduler(axes: Axes, data: dict[str, Any]) -> None:
    """Mean pass@1 of the schedulers less that of the best static weight."""
    for steps, offset, filled in (("weight", -0.12, "C4"), ("equal", 0.12, "white")):
        over = data["steps"][steps]["over_best_static"]
        mean, error = (np.array([over[name]["mean_q_pos"][key] for name in _ROWS]) for key in ("mean", "error"))
        rows = np.arange(len(_ROWS)) + offset
        axes.errorbar(mean, rows, xerr=1.96 * error, color="C4", marker="o", ls="", ms=4, markerfacecolor=filled)
    axes.axvline(0, color="0.6", lw=0.6, zorder=0)
    axes.set_yticks(range(len(_ROWS)), list(_ROWS.values()), fontsize=7)
    axes.set_ylim(len(_ROWS) - 0.5, -0.5)
    _title(axes, "c", "scheduler")
    axes.set_xlabel("mean pass@1, less the best\nstatic's; open: one norm")

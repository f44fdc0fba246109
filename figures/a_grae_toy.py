"""A-GRAE's control experiments on a bank, drawn as the paper draws them ``[a-grae:fig-3]``, ``[a-grae:fig-5]``,
``[a-grae:sec-4.2-pass-256]``, ``[a-grae:sec-4.3-focus]``.

Figures 2 to 5 of the paper, from the numbers of a_grae_controls, whose head says how to make them. Bands are 95 % of
the mean over seeds.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.a_grae_controls import DATA, GROUP_SIZE, banded
from simlab.plotting import STYLE

__all__ = ["DATA", "DIFFERS", "draw"]

MESSAGE = "Positive-dominant is ahead at every k, the reverse of the paper's order"
DIFFERS = (
    "16 tabular prompts of 64 actions in place of Qwen2.5-Math-7B on MATH, 24 seeds in place of one run, under Adam "
    "and under plain steps; the base is what training starts from."
)
ROWS = {"few": "Adam", "few-sgd": "SGD"}
PROMPTS_PER_STEP = 4
MOMENT = "quarter"  # at the end most methods solve all prompts
SIGN = ("grpo", "positive_dominant", "negative_dominant")
DIFFICULTY = ("grpo", "hard_focused", "easy_focused")
TITLES = ("Fig. 2, pass@k", "Fig. 3, entropy", "Fig. 4, pass@k", "Fig. 5, correct of {}")


def draw(data: dict[str, Any]) -> Figure:
    """A row for each optimiser, a column for each of the paper's figures."""
    batch = PROMPTS_PER_STEP * GROUP_SIZE
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        panels = figure.subplots(2, 4, sharex="col", sharey="col")
        for row, (name, optimiser) in zip(panels, ROWS.items(), strict=True):
            experiment = data["experiments"][name]
            _draw_pass_at_k(row[0], data["k"], experiment, SIGN)
            _draw_curves(row[1], experiment, SIGN, "entropy", 1)
            _draw_pass_at_k(row[2], data["k"], experiment, DIFFICULTY)
            _draw_curves(row[3], experiment, DIFFICULTY, "q_pos", batch)
            row[1].set_ylim(0, None)
            row[0].set_ylabel(optimiser)
        for axes, title in zip(panels[0], TITLES, strict=True):
            axes.set_title(title.format(batch), loc="left", fontsize=8)
        step = data["experiments"]["few"]["step"]
        for column, axes in enumerate(panels[1]):
            axes.set_xlabel(f"k, at step {step[len(step) // 4]}" if column in (0, 2) else "step")
        lines = {}
        for axes in panels[0]:
            lines |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3)
    return figure


def _draw_pass_at_k(axes: Axes, k: list[int], experiment: dict[str, Any], methods: tuple[str, ...]) -> None:
    start = experiment["methods"]["grpo"]["pass_at_k"]["start"]["mean"]
    axes.plot(k, start, color="0.6", linestyle=(0, (1, 1)), label="base")
    for method in methods:
        banded(axes, k, experiment["methods"][method]["pass_at_k"][MOMENT], method)
    axes.set_xscale("log", base=2)
    axes.set(ylim=(0.45, 1.01), xticks=k[::4])


def _draw_curves(axes: Axes, experiment: dict[str, Any], methods: tuple[str, ...], metric: str, scale: float) -> None:
    """A metric while training, times ``scale``."""
    for method in methods:
        curve = experiment["methods"][method]["curves"][metric]
        scaled = {key: scale * np.array(values) for key, values in curve.items()}
        banded(axes, experiment["step"], scaled, method)

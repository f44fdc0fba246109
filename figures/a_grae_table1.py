"""Positive and negative mass of A-GRAE's controls and of itself, by solve rate ``[a-grae:control-1]``,
``[a-grae:control-2]``, ``[a-grae:eq-12]``, ``[a-grae:eq-13]``.

Table 1 of the paper as curves. Its sums over the group are G (m_S - m_F) and G (m_S + m_F). Dots are the estimator on
every group of eight, lines on groups so large that p is nearly continuous.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import simlab
from simlab.plotting import STYLE

CONFIGURATION = {
    "group_size": 8,
    "large_group": 256,
    "controls": ["grpo", "positive_dominant", "negative_dominant", "hard_focused", "easy_focused"],
    "mean_reward": [0.1, 0.5, 0.9],
    "groups": 5000,
}
MESSAGE = "One set of controls changes the ratio of the masses, the other their shape; A-GRAE changes both"
DIFFERS = (
    "The paper's table has formulas, and no row for A-GRAE, which depends on the mean reward of the batch: it is drawn "
    "early, midway and late."
)
NAMES = {
    "grpo": "GRPO",
    "positive_dominant": "positive-dom.",
    "negative_dominant": "negative-dom.",
    "hard_focused": "hard-focused",
    "easy_focused": "easy-focused",
}
TOP = 0.62


def draw(data: dict[str, Any]) -> Figure:
    """A panel for each method, with both of its masses."""
    shown = [(method, 0.5, NAMES[method]) for method in data["controls"]]
    shown += [("a_grae", mean, f"A-GRAE, $\\omega$ = {mean:g}") for mean in data["mean_reward"]]
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.9), layout="constrained")
        panels = figure.subplots(2, 4, sharex=True)
        for axes, letter, (method, mean, title) in zip(panels.flat, "abcdefgh", shown, strict=True):
            _draw_masses(axes, data, method, mean)
            axes.set_title(f"({letter}) {title}", loc="left", fontsize=8)
            axes.set_ylim(0, 10 * TOP if method == "positive_dominant" else TOP)
        for axes in panels[1]:
            axes.set_xlabel("solve rate p")
        for axes in panels[:, 0]:
            axes.set_ylabel("mass")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _draw_masses(axes: Axes, data: dict[str, Any], method: str, mean: float) -> None:
    rates, success, failure = _masses(method, data["large_group"], mean, data["groups"])
    axes.plot(rates, success, color="C0", label="$m_S$, on successes")
    axes.plot(rates, failure, "--", color="C1", label="$m_F$, on failures")
    rates, success, failure = _masses(method, data["group_size"], mean, data["groups"])
    axes.plot(rates, success, "o", color="C0", markersize=3.5)
    axes.plot(rates, failure, "s", color="C1", markersize=2)


def _masses(method: str, group_size: int, mean: float, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p, m_S and m_F of the mixed groups of a batch whose mean reward is ``mean``.

    The batch holds a group with each number of successes, and others of equal rewards, which get no advantage.
    """
    successes = np.arange(group_size + 1)
    solved = round(mean * groups - successes.sum() / group_size)
    counts = np.concatenate([successes, np.repeat([group_size, 0], [solved, groups - len(successes) - solved])])
    correct = np.arange(group_size) < counts[:, None]
    weights = simlab.advantages(method, correct.astype(float))[1:group_size]
    correct = correct[1:group_size]
    success, failure = np.where(correct, weights, 0).mean(axis=1), np.where(correct, 0, -weights).mean(axis=1)
    return successes[1:-1] / group_size, success, failure

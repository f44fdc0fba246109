"""Figure 2 of FADE: gradient masses by solve rate ``[fade:masses]``, ``[fade:power-alpha]``, ``[fade:asym-grpo]``."""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simlab.plotting import STYLE
from simlab.theory import closed_form, masses

MESSAGE = "The masses of published weights beside FADE's two axes, sign and difficulty"
DIFFERS = (
    "Failures are drawn below zero, so that the sign axis is seen; masses in groups of 16 stand beside the population "
    "limit; Power-alpha is that of the paper's Algorithm 1, without the constant that gives all peaks one height."
)
CONFIGURATION: dict[str, Any] = {
    "group_size": 16,
    "panels": {
        "existing methods": [
            {"estimator": "dr_grpo", "label": "mean GRPO"},
            {"estimator": "grpo", "label": "GRPO"},
            {"estimator": "mix", "k": 4, "label": "mix, pass@4"},
            {"estimator": "w_reinforce", "label": "W-REINFORCE"},
        ],
        r"Power-$\alpha$": [
            {"estimator": "power_alpha", "alpha": alpha, "label": rf"$\alpha$ = {alpha:g}"}
            for alpha in (1.0, 2.0, 3.0, 4.0)
        ],
        "AsymGRPO": [
            {"estimator": "asym_grpo", "delta": delta, "label": rf"$\delta$ = {delta:g}"}
            for delta in (1.0, 0.3, 0.5, 2.0)
        ],
    },
}
LINES = (("C0", "-"), ("C1", "--"), ("C2", ":"), ("C3", "-."))
_DENSE = np.linspace(0.005, 0.995, 199)  # inside (0, 1): some weights jump at its ends


def draw(configuration: dict[str, Any]) -> Figure:
    """The three panels of the figure."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.1), layout="constrained")
        panels = figure.subplots(1, 3)
        for axes, (title, weights), letter in zip(panels, configuration["panels"].items(), "abc", strict=True):
            for weight, (colour, dashes) in zip(weights, LINES, strict=True):
                _draw_weight(axes, weight, configuration["group_size"], colour, dashes)
            axes.axhline(0, color="0.6", lw=0.6, zorder=0)
            axes.set_title(f"({letter}) {title}", loc="left")
            axes.set(xlabel="solve rate p", xlim=(0, 1))
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, handlelength=2.4, columnspacing=1.0)
        panels[0].set_ylabel(r"$m_S$ up, $-m_F$ down")
        kinds = [
            Line2D([], [], color="0.3", label="population limit"),
            Line2D([], [], color="0.3", ls="", marker="o", label=f"groups of {configuration['group_size']}"),
        ]
        figure.legend(handles=kinds, loc="outside lower center", ncols=2)
    return figure


def _draw_weight(axes: Axes, weight: dict[str, Any], group_size: int, colour: str, dashes: str) -> None:
    """Both masses of a weight: lines of the limit, points at every number of successes of a group."""
    parameters = {name: value for name, value in weight.items() if name not in ("estimator", "label")}
    success, failure = closed_form(weight["estimator"], _DENSE, **parameters)
    axes.plot(_DENSE, success, dashes, color=colour, label=weight["label"])
    axes.plot(_DENSE, -failure, dashes, color=colour)
    dots = masses(weight["estimator"], group_size, **parameters)
    for values in (dots.success, -dots.failure):
        axes.plot(dots.successes / group_size, values, ls="", marker="o", ms=2.2, color=colour)

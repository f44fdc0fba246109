"""GRPO's advantages under the focal weight, by success rate ``[f-grpo:app-i]``, ``[f-grpo:eq-13]``.

Figure 4 of the paper. Lines are closed forms in the limit of large groups, dots the estimator itself on every group of
eight.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.plotting import STYLE
from simlab.theory import closed_form, masses

CONFIGURATION = {"gamma": [0.0, 0.5, 1.0, 2.0], "group_size": 8}
MESSAGE = "The focal weight moves a group's largest update from a success rate of 1/2 to 1/(2 + 2 gamma)"
DIFFERS = (
    "The paper's exponents are not in its text: here 0 (GRPO) to 2; the mean over the group is drawn beside the two "
    "advantages, and groups of eight beside the limit."
)
DASHES = ("-", "--", "-.", ":")
TITLES = ("(a) a correct rollout", "(b) an incorrect rollout", "(c) the whole group")
RATES = np.sin(np.linspace(0, np.pi / 2, 402)[1:-1]) ** 2  # dense where the curves are steep, at both ends


def draw(data: dict[str, Any]) -> Figure:
    """The size of the advantage of a success, of a failure, and its mean over the group."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.6), layout="constrained")
        panels = figure.subplots(1, 3, sharex=True)
        for number, (gamma, dashes) in enumerate(zip(data["gamma"], DASHES, strict=True)):
            label = f"$\\gamma$ = {gamma:g}" + (" (GRPO)" if gamma == 0 else "")
            _draw_sizes(
                panels,
                RATES,
                *closed_form("f_grpo", RATES, gamma=gamma),
                linestyle=dashes,
                label=label,
                color=f"C{number}",
            )
            dots = masses("f_grpo", data["group_size"], gamma=gamma)
            mixed = slice(1, data["group_size"])
            _draw_sizes(
                panels,
                dots.successes[mixed] / data["group_size"],
                dots.success[mixed],
                dots.failure[mixed],
                color=f"C{number}",
                marker="o",
                linestyle="none",
            )
        for axes, title, top in zip(panels, TITLES, (3, 3, 1.04), strict=True):
            axes.set(xlabel="success rate X/G", ylim=(0, top), xlim=(0, 1))
            axes.set_title(title, loc="left")
        panels[0].set_ylabel("size of the advantage")
        panels[2].set_ylabel("mean size")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(data["gamma"]))
    return figure


def _draw_sizes(panels: np.ndarray, p: np.ndarray, success: np.ndarray, failure: np.ndarray, **style: Any) -> None:
    """Masses of the group as sizes of one success, of one failure, and as the mean over the group."""
    values = (success / p, failure / (1 - p), success + failure)
    for axes, sizes in zip(panels, values, strict=True):
        drawn: Axes = axes
        drawn.plot(p, sizes, **style)

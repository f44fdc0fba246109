"""The advantages of correct and of wrong tokens under CW-GRPO, by their log-probability ``[cw-grpo:kernel]``,
``[cw-grpo:covariance]``.

Figure 2 of the paper, computed: groups of 16 rollouts that all have the same log-probabilities, spread exponentially. A
twentieth of the tokens lies between two marks of a line.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import simlab
from simlab.plotting import STYLE

CONFIGURATION = {"group_size": 16, "successes": [2, 8, 14], "tokens": 400, "mean_logp": -0.5}
MESSAGE = "Where one outcome is rare, CW-GRPO's kernel mutes the rare side"
DIFFERS = (
    "The paper's figure is a sketch of one group: here the estimator itself, in a hard, a middling and an easy group "
    "of tokens whose log-probabilities are spread exponentially."
)


def draw(data: dict[str, Any]) -> Figure:
    """A panel for each number of successes: the advantages of either side under GRPO and after the kernel."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.7), layout="constrained")
        panels = figure.subplots(1, len(data["successes"]), sharex=True)
        for axes, successes, letter in zip(panels, data["successes"], "abc", strict=True):
            _draw_group(axes, data, successes)
            axes.set_title(f"({letter}) {successes} of {data['group_size']} correct", loc="left")
            axes.set_xlabel(r"$\log \pi$ of the token")
        panels[0].set_ylabel("advantage of the token")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw_group(axes: Axes, data: dict[str, Any], successes: int) -> None:
    quantiles = (np.arange(data["tokens"]) + 0.5) / data["tokens"]
    logp = -data["mean_logp"] * np.log(quantiles)  # of the exponential distribution
    rewards = (np.arange(data["group_size"]) < successes).astype(float)
    plain = simlab.advantages("grpo", rewards)
    tamed = simlab.advantages("cw_grpo", rewards, old_logp=np.tile(logp, (data["group_size"], 1)))
    axes.axhline(0, color="0.6", linewidth=0.6)
    for rollout, colour, word in ((0, "C0", "correct"), (-1, "C1", "wrong")):
        axes.plot(logp[[0, -1]], plain[[rollout, rollout]], "--", color=colour, linewidth=1, label=f"{word}, GRPO")
        axes.plot(logp, tamed[rollout], color=colour, label=f"{word}, CW-GRPO")
        axes.plot(logp[::20], tamed[rollout, ::20], "|", color=colour, markersize=5)  # every 20th token

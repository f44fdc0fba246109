"""Figure 4 of CaSP: successes, failures and entropy ``[casp:eq-4]``, ``[casp:eq-5]``, ``[casp:figure-4-c]``."""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.stats import entropy

from figures.shared.candidate_cells import coefficients, example, logit_change
from simlab.plotting import STYLE
from simlab.theory import first_order_change

MESSAGE = "A success at rank 1 still sharpens under CaSP, by a sixth of the policy gradient's step"
DIFFERS = (
    "Computed from the library's surrogate, with an alpha and a penalty far above the paper's, so that they can be "
    "seen; a success at rank 1 still sharpens, only less."
)
CONFIGURATION: dict[str, Any] = {
    "policy": [0.5, 0.22, 0.13, 0.08, 0.05, 0.02],
    "success_at_rank": 1,
    "casp": "psr+casp(alpha=0.6,candidates=3,quantile=0,top_penalty=1.5)",
    "casp_on_failures": "nsr+casp(alpha=0.6,candidates=3,quantile=0,top_penalty=1.5)",
    "few_candidates": [0.45, 0.3, 0.2, 0.05],
    "many_candidates": 64,
}
BARS = (("C0", "", -0.2), ("C1", "///", 0.2))


def draw(configuration: dict[str, Any]) -> Figure:
    """The three panels of the figure."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained")
        panels = figure.subplots(1, 3)
        _draw_success(panels[0], configuration)
        _draw_failures(panels[1], configuration)
        _draw_equal_entropy(panels[2], configuration)
        for axes, title in zip(
            panels, ("(a) a success at rank 1", "(b) failures", "(c) two of equal entropy"), strict=True
        ):
            axes.set_title(title, loc="left")
    return figure


def _cells(configuration: dict[str, Any], method: str, rank: int, reward: float) -> np.ndarray:
    """(C,) the coefficients of one sampled token and its candidates."""
    policies, ranks = np.array(configuration["policy"])[None, None], np.array([[rank - 1]])
    return coefficients(method, example(policies, ranks, np.array([reward])), ranks)[0, 0]


def _draw_success(axes: Axes, configuration: dict[str, Any]) -> None:
    """The first-order change of every candidate's probability, for a unit step."""
    policy, rank = np.array(configuration["policy"]), configuration["success_at_rank"]
    ranks = np.arange(len(policy)) + 1
    for method, label, (colour, hatch, shift) in zip(("psr", configuration["casp"]), _NAMES, BARS, strict=True):
        change = first_order_change(policy, logit_change(policy, _cells(configuration, method, rank, 1.0)))
        axes.bar(ranks + shift, change, 0.38, color=colour, hatch=hatch, edgecolor="white", label=label)
    axes.axhline(0, color="0.3", lw=0.6)
    axes.set(xlabel="rank of the candidate", ylabel=r"d$\pi$ / step", xticks=ranks)
    axes.legend()


_NAMES = ("policy gradient", "CaSP")


def _draw_failures(axes: Axes, configuration: dict[str, Any]) -> None:
    """The coefficient of the sampled token's grad log pi, by its rank."""
    ranks = np.arange(len(configuration["policy"])) + 1
    methods = ("nsr", configuration["casp_on_failures"])
    for method, label, (colour, hatch, shift) in zip(methods, _NAMES, BARS, strict=True):
        values = [_cells(configuration, method, int(rank), 0.0)[rank - 1] for rank in ranks]
        axes.bar(ranks + shift, values, 0.38, color=colour, hatch=hatch, edgecolor="white", label=label)
    axes.axhline(0, color="0.3", lw=0.6)
    axes.set(xlabel="rank of the sampled token", ylabel="its coefficient", xticks=ranks)


def _draw_equal_entropy(axes: Axes, configuration: dict[str, Any]) -> None:
    """A policy of few candidates, and one of many with a sharp peak whose height gives it the same entropy."""
    few, count = np.array(configuration["few_candidates"]), configuration["many_candidates"]

    def peaked(peak: float) -> np.ndarray:
        return np.append(peak, np.full(count - 1, (1 - peak) / (count - 1)))

    many = peaked(brentq(lambda peak: entropy(peaked(peak)) - entropy(few), 1 / count, 1 - 1e-9))
    shown = np.arange(8)
    few_shown = np.append(few, np.zeros(len(shown) - len(few)))
    for policy, (colour, hatch, shift), name in zip((few_shown, many), BARS, ("few", "peak, tail"), strict=True):
        label = f"{name}: {policy[:3].sum():.2f}"
        axes.bar(shown + 1 + shift, policy[shown], 0.38, color=colour, hatch=hatch, edgecolor="white", label=label)
    axes.set(xlabel="rank of the candidate", ylabel="probability", xticks=shown + 1, ylim=(0, 1.08))
    axes.legend(title=f"entropy {entropy(few):.2f} nats,\nmass of the top 3", fontsize=7, title_fontsize=7)

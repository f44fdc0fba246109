"""The probability that a group updates the policy and misses a rare correct target, by group size
``[f-grpo:lemma-3.1]``, ``[f-grpo:lemma-3.1-competing]``.

Figure 1(a) of the paper, with the two factors of the lemma beside their product: the share of groups that are active
and the share of those that miss the target. A regime ends where one of the two crosses 1/2.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.plotting import STYLE
from simlab.theory import active, conditional_tail_miss, tail_miss

CONFIGURATION = {"correct_mass": 0.05, "target_mass": 0.001, "largest_group": 16384}
MESSAGE = "Groups of middling size move the policy most often without having seen the rare target"
DIFFERS = (
    "The paper's mu and tau are not in its text: here 0.05 and 0.001; it names the regimes without saying where they "
    "end, here at 1/2; the lemma's two factors are drawn too."
)
REGIMES = ("(I)\ninactive", "(II)\nactive, misses", "(III)\ncovers")


def draw(data: dict[str, Any]) -> Figure:
    """The probability of the lemma and its two factors, in its three regimes."""
    sizes = np.unique(np.geomspace(2, data["largest_group"], 300).astype(int))
    masses = data["correct_mass"], data["target_mass"]
    updates, missed = active(sizes, masses[0]), conditional_tail_miss(sizes, *masses)
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        axes = figure.subplots()
        _draw_regimes(axes, [sizes[0], _crossing(sizes, updates), _crossing(sizes, missed), sizes[-1]])
        axes.plot(sizes, updates, "--", color="C0", zorder=3, label="active")
        axes.plot(sizes, missed, ":", color="C2", zorder=3, label="missed, if active")
        axes.plot(sizes, tail_miss(sizes, *masses), color="C1", linewidth=2, label="active and missed")
        axes.set_xscale("log", base=2)
        axes.set(xlabel="group size G", ylabel="probability", xlim=(sizes[0], sizes[-1]), ylim=(0, 1.24))
        axes.set_yticks(np.linspace(0, 1, 6))
        axes.set_title(f"$\\mu$ = {masses[0]:g}, $\\tau$ = {masses[1]:g}", loc="left")
        axes.text(2**10.2, 1.02, "active", color="C0", va="bottom")
        axes.text(2**1.2, 0.95, "missed, if active", color="C2", va="top")
        axes.text(2**11, 0.2, "active and missed", color="C1")
    return figure


def _crossing(sizes: np.ndarray, probability: np.ndarray) -> int:
    """The first group size beyond which a monotone probability is on the other side of 1/2."""
    other = (probability > 0.5) != (probability[0] > 0.5)
    return int(sizes[other.argmax()])


def _draw_regimes(axes: Axes, ends: list[int]) -> None:
    for number, name in enumerate(REGIMES):
        low, high = ends[number : number + 2]
        axes.axvspan(low, high, color=("1.0", "0.92", "1.0")[number], zorder=0, linewidth=0)
        axes.text(np.sqrt(low * high), 1.22, name, ha="center", va="top", fontsize=8)

"""The tail-miss probability against group size, for targets of every rarity ``[f-grpo:lemma-3.1]``,
``[f-grpo:lemma-3.1-non-monotonic]``.

Figure 3 of the paper: the lemma at several masses of the correct and of the target. A dot marks
the group size at which a curve is highest.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.plotting import STYLE
from simlab.theory import tail_miss

CONFIGURATION = {
    "correct_mass": [0.01, 0.2, 0.6, 0.95],
    "target_share": [0.5, 0.1, 0.01, 0.001],
    "largest_group": 131072,
}
MESSAGE = "The rarer the target among the correct answers, the higher and wider the peak of tail misses"
DIFFERS = (
    "The paper's mu and tau are not in its text: here four of each, tau as a share of mu, so that one curve is equally "
    "rare among the correct in every panel."
)
DASHES = ("-", "--", "-.", ":")


def draw(data: dict[str, Any]) -> Figure:
    """A panel for each correct mass, a curve for each target."""
    sizes = np.unique(np.geomspace(2, data["largest_group"], 400).astype(int))
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.5), layout="constrained")
        panels = figure.subplots(1, len(data["correct_mass"]), sharex=True, sharey=True)
        for axes, mass, letter in zip(panels, data["correct_mass"], "abcd", strict=True):
            _draw_targets(axes, sizes, mass, data["target_share"])
            axes.set_title(f"({letter}) $\\mu$ = {mass:g}", loc="left")
            axes.set(xlabel="group size G", ylim=(0, 1.04))
        axes.set_xscale("log", base=2)
        axes.set_xticks([2**power for power in (1, 5, 9, 13, 17)])
        panels[0].set_ylabel("active and missed")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(data["target_share"]))
    return figure


def _draw_targets(axes: Axes, sizes: np.ndarray, mass: float, shares: list[float]) -> None:
    for number, (share, dashes) in enumerate(zip(shares, DASHES, strict=True)):
        missed = tail_miss(sizes, mass, share * mass)
        axes.plot(sizes, missed, linestyle=dashes, color=f"C{number}", label=f"$\\tau$ = {share:g} $\\mu$")
        axes.plot(sizes[missed.argmax()], missed.max(), "o", color=f"C{number}", markersize=4)

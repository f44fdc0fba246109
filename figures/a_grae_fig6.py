"""The update magnitude of a group against its difficulty, 2 G sqrt(p (1 - p)) ``[a-grae:fig-6]``, ``[a-grae:thm-2]``,
``[a-grae:thm-2-peak]``.

Figure 6 of the paper. Lines are the closed form, dots the estimator itself on every group.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.plotting import STYLE
from simlab.theory import closed_form, masses

CONFIGURATION = {"group_sizes": [4, 8, 16], "ddof": [0, 1], "pair": [0.25, 0.75]}
MESSAGE = "GRPO weighs groups solved at 1/4 and at 3/4 alike, whatever the group size"
DIFFERS = (
    "The same curve, for three group sizes; beside it what the sample's standard deviation, which verl divides by, "
    "makes of it in a small group."
)
DASHES = ("-.", "-", "--")


def draw(data: dict[str, Any]) -> Figure:
    """The sum over the group, and the same as a share of the group size with either standard deviation."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.7), layout="constrained")
        whole, share = figure.subplots(1, 2)
        for number, (size, dashes) in enumerate(zip(data["group_sizes"], DASHES, strict=True)):
            _draw_size(whole, size, size, 0, color=f"C{number}", linestyle=dashes, label=f"G = {size}")
        for ddof in data["ddof"]:
            style = {"color": f"C{3 + ddof}", "linestyle": DASHES[1 + ddof]}
            label = "of the sample" if ddof else "of the population"
            _draw_size(share, data["group_sizes"][0], 1, ddof, **style, label=label)
        low, high = data["pair"]
        middle = data["group_sizes"][1]
        height = middle * sum(closed_form("grpo", low, eps=0.0))
        whole.plot([low, low, high, high], [0, height, height, 0], ":", color="0.4", linewidth=1)
        whole.set(ylabel=r"$\sum |A|$")
        whole.set_title("(a) standard deviation of the population", loc="left")
        share.set(ylabel=r"$\sum |A|$ / G")
        share.set_title(f"(b) G = {data['group_sizes'][0]}, standard deviation", loc="left")
        for axes in (whole, share):
            axes.set(xlabel="success rate p", ylim=(0, None), xlim=(-0.02, 1.02))
            axes.legend(loc="upper right" if axes is whole else "lower center")
        whole.set(ylim=(0, 1.4 * max(data["group_sizes"])), yticks=range(0, max(data["group_sizes"]) + 1, 4))
    return figure


def _draw_size(axes: Axes, group_size: int, scale: float, ddof: int, **style: Any) -> None:
    """``scale`` times the mean size of the advantages of a group."""
    dots = masses("grpo", group_size, eps=0.0, ddof=ddof)
    axes.plot(dots.successes / group_size, scale * (dots.success + dots.failure), "o", color=style["color"])
    if ddof == 0:  # the population's does not depend on the group size, so that p is continuous
        rates = np.sin(np.linspace(0, np.pi / 2, 201)) ** 2
        axes.plot(rates, scale * sum(closed_form("grpo", rates, eps=0.0)), **style)
    else:
        axes.plot(dots.successes / group_size, scale * (dots.success + dots.failure), **style)

"""Figure 6 of FADE: the shifted power law of pass@k along training, and pass@100 by pass@1 ``[fade:fig-6]``.

The runs are those of figures/fade_fig14.py at equalised learning rates, which also keeps their numbers.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.fade_fig14 import LINES
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "fade_fig14.json"
MESSAGE = "Every weight lowers both coefficients of the pass@k law; none keeps its exponent"
DIFFERS = (
    "A bank of 64 tabular prompts in place of a language model on LiveCodeBench, at learning rates equalised by the "
    "largest |A|."
)
K = 100


def draw(data: dict[str, Any]) -> Figure:
    """The path of the law's scale and exponent, and of pass@100 against pass@1."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        index = data["k"].index(K)
        for name, (colour, dashes) in LINES.items():
            runs = data["runs"]["equal"][name]
            style = {"color": colour, "linestyle": dashes, "label": name.replace("delta", r"$\delta$ =")}
            _draw_path(left, _mean(runs["scale"]), _mean(runs["exponent"]), style)
            _draw_path(right, _mean(runs["pass_at_k"])[:, 0], _mean(runs["pass_at_k"])[:, index], style)
        left.set(xlabel="scale a", ylabel="exponent b")
        left.set_title("(a) the law G(k) = exp(-a (k + c)$^{-b}$)", loc="left")
        right.set(xlabel="pass@1", ylabel=f"pass@{K}")
        right.set_title("(b) accuracy and diversity", loc="left")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=6, columnspacing=1.2)
    return figure


def _mean(quantity: dict[str, Any]) -> np.ndarray:
    return np.array(quantity["mean"], dtype=float)


def _draw_path(axes: Axes, x: np.ndarray, y: np.ndarray, style: dict[str, Any]) -> None:
    """A path through training: an open circle where it starts, a filled one where it ends."""
    axes.plot(x, y, **style)
    axes.plot(x[0], y[0], ls="", marker="o", ms=4, color="0.3", markerfacecolor="white")
    axes.plot(x[-1], y[-1], ls="", marker="o", ms=4, color=style["color"])

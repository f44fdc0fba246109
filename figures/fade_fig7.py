"""Figure 7 of FADE: how Power-alpha varies when the solve rate is estimated ``[fade:eq-30]``, ``[fade:eq-31]``.

The variance over groups is exact, by the sum over the number of successes; points are groups that were drawn.
"""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from simlab.plotting import STYLE
from simlab.theory import closed_form, masses
from simlab.theory.weight_variance import peak_constant, power_alpha_variance, weight_variance

MESSAGE = "The paper's first order in 1/G can be 1.4 times the variance, and 0 where there is some"
DIFFERS = (
    "The exact variance stands beside Monte Carlo and beside the paper's first order in 1/G, which fails at the mode "
    "of the weight; the variance relative to the squared weight is added."
)
CONFIGURATION: dict[str, Any] = {
    "group_size": 16,
    "alpha": [1.0, 2.0, 3.0],
    "rates_drawn": [round(0.05 * step, 2) for step in range(1, 20)],
    "groups_drawn": 20_000,
    "seed": 0,
}
LINES = (("C0", "-"), ("C1", "--"), ("C2", "-."))
_DENSE = np.linspace(0.005, 0.97, 194)


def draw(configuration: dict[str, Any]) -> Figure:
    """Both panels: the variance, and the variance relative to the squared weight."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        random = np.random.default_rng(configuration["seed"])
        for alpha, (colour, dashes) in zip(configuration["alpha"], LINES, strict=True):
            _draw_alpha((left, right), configuration, alpha, random, (colour, dashes))
        left.set(xlabel="solve rate p", ylabel=r"Var$(w(\hat p))$", ylim=(0, None))
        left.set_title("(a) variance of the weight", loc="left")
        right.set(xlabel="solve rate p", ylabel=r"Var$(w(\hat p))\;/\;w(p)^2$", yscale="log", ylim=(1e-3, 30))
        right.set_title("(b) relative to the weight", loc="left")
        names = [
            Line2D([], [], color=colour, ls=dashes, label=rf"$\alpha$ = {alpha:g}")
            for alpha, (colour, dashes) in zip(configuration["alpha"], LINES, strict=True)
        ]
        names.append(Line2D([], [], color="0.3", ls="", marker="o", label="drawn groups"))
        names.append(Line2D([], [], color="0.3", lw=0.7, ls=":", label="first order in 1/G"))
        figure.legend(handles=names, loc="outside lower center", ncols=len(names))
    return figure


def _draw_alpha(
    panels: tuple[Axes, Axes],
    configuration: dict[str, Any],
    alpha: float,
    random: np.random.Generator,
    style: tuple[str, str],
) -> None:
    """One alpha: exact, drawn, and to first order."""
    (colour, dashes), size = style, configuration["group_size"]
    weights = peak_constant(alpha) * masses("power_alpha", size, alpha=alpha).success
    first_order = power_alpha_variance(_DENSE, alpha, size)
    exact = weight_variance(weights, _DENSE)
    rates = np.array(configuration["rates_drawn"])
    solved = random.binomial(size, rates[:, None], (len(rates), configuration["groups_drawn"]))
    drawn = weights[solved].var(axis=1, ddof=1)
    for axes, divided in zip(panels, (False, True), strict=True):
        dense, at_points = (_squared_weight(p, alpha) if divided else 1.0 for p in (_DENSE, rates))
        axes.plot(_DENSE, exact / dense, dashes, color=colour)
        axes.plot(_DENSE, first_order / dense, ":", color=colour, lw=0.7)
        axes.plot(rates, drawn / at_points, ls="", marker="o", ms=2.5, color=colour)


def _squared_weight(p: np.ndarray, alpha: float) -> np.ndarray:
    """w(p)^2, the weight of a known solve rate."""
    squared: np.ndarray = (peak_constant(alpha) * closed_form("power_alpha", p, alpha=alpha)[0]) ** 2
    return squared

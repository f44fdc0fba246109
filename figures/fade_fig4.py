"""Figure 4 of FADE: final entropy against pass@k, learning speed and the ratio of the masses ``[fade:fig-4]``.

Every static weight of the runs of figures/fade.py, with steps as the weight gives them. Bars are 95 % of the mean over
seeds; rho is Spearman's rank correlation over the weights that are drawn.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import spearmanr

from figures.fade import FAMILIES, FAMILY_LABELS
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "fade.json"
MESSAGE = "Final entropy goes with how much was learnt, and hardly with the ratio of the masses"
DIFFERS = (
    "64 tabular policies in place of 7B and 32B models, and pass@128 in place of pass@100; here final entropy goes "
    "with what has been learnt, and hardly with the ratio."
)
K = 128
STEPS = "weight"  # steps as the weight gives them


def draw(data: dict[str, Any]) -> Figure:
    """The three panels of the figure."""
    weights = {name: row for name, row in data["steps"][STEPS]["weights"].items() if not name.startswith("fade")}
    index = data["k"].index(K)
    panels = (
        ("pass@k", f"pass@{K}", {name: _at(row["pass_at_k"], index) for name, row in weights.items()}),
        ("learning speed", "mean pass@1 of the run", {name: _at(row["mean_q_pos"]) for name, row in weights.items()}),
        ("ratio", r"$m_S\,p\;/\;m_F\,(1 - p)$", {name: _ratio(row) for name, row in weights.items()}),
    )
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        for axes, (title, label, points), letter in zip(figure.subplots(1, 3, sharey=True), panels, "abc", strict=True):
            rho = _draw_points(axes, points, {name: _at(row["entropy"]) for name, row in weights.items()})
            axes.set(xlabel=label, xscale="log" if title == "ratio" else "linear")
            axes.set_title(rf"({letter}) {title}, $\rho$ = {rho:.2f}", loc="left")
        figure.axes[0].set_ylabel("final entropy (nats)")
        families = [
            Line2D([], [], ls="", marker=marker, ms=4, color=colour, label=FAMILY_LABELS[family])
            for family, (colour, marker) in FAMILIES.items()
        ]
        figure.legend(handles=families, loc="outside lower center", ncols=len(families))
    return figure


def _at(quantity: dict[str, Any], index: int | None = None) -> tuple[float, float]:
    """Mean and half-width of its band, of a quantity or of an index of its lists."""
    mean, error = (quantity[key] if index is None else quantity[key][index] for key in ("mean", "error"))
    return (np.nan, np.nan) if mean is None else (mean, 1.96 * error)


def _ratio(weight: dict[str, Any]) -> tuple[float, float]:
    """The ratio, kept as its decimal logarithm; its band is narrower than a point."""
    return 10 ** _at(weight["log_ratio"])[0], 0.0


def _draw_points(axes: Axes, across: dict[str, tuple[float, float]], up: dict[str, tuple[float, float]]) -> float:
    """Points with their bars; the rank correlation of points with both numbers."""
    for name, (x, width) in across.items():
        colour, marker = FAMILIES.get(name.split()[0], FAMILIES["other"])
        y, height = up[name]
        axes.errorbar(x, y, height, width, color=colour, marker=marker, ms=4, lw=0.8)
    table = np.array([(across[name][0], up[name][0]) for name in across])
    table = table[np.isfinite(table).all(axis=1)]
    return float(spearmanr(table[:, 0], table[:, 1])[0])

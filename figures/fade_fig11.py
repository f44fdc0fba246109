"""Figure 11 of FADE: shifted power laws fitted to pass@k at two budgets of samples ``[fade:app-12-shifted-limit]``."""

from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figures.shared.solved_banks import BANKS, PROMPTS, STYLES, draw_fit, fitted
from simlab.plotting import STYLE

MESSAGE = "Ten samples of each prompt overstate pass@1000 where many prompts are hardly ever solved"
DIFFERS = (
    "Banks of 454 prompts whose solve rates are known, in place of models on LiveCodeBench; a budget is read as the "
    "samples of each problem, of which every k up to the budget is estimated and fitted."
)
CONFIGURATION: dict[str, Any] = {
    "prompts": PROMPTS,
    "banks": BANKS,
    "budgets": [10, 50],
    "largest_k": 10_000,
    "seed": 0,
}


def draw(configuration: dict[str, Any]) -> Figure:
    """A panel for each budget."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, len(configuration["budgets"]), sharey=True)
        for axes, budget, letter in zip(panels, configuration["budgets"], "ab", strict=True):
            for name, style in zip(configuration["banks"], STYLES, strict=True):
                draw_fit(axes, fitted(configuration, name, budget, budget, plugged_in=False), style, name)
            axes.axvline(budget, color="0.6", lw=0.6, zorder=0)
            axes.set_title(f"({letter}) {budget} samples a problem", loc="left")
        panels[0].set_ylabel("pass@k")
        names = panels[0].get_legend_handles_labels()[0]
        law = Line2D([], [], color="0.25", lw=0.8, ls=(0, (1, 1)), label="fit")
        seen = Line2D([], [], color="0.3", ls="", marker="o", label="estimate")
        figure.legend(handles=[*names, seen, law], loc="outside lower center", ncols=5, columnspacing=1.2)
    return figure

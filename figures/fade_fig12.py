"""Figure 12 of FADE: fits to solve rates of 200 samples, and beyond ``[fade:fig-12-estimated-rates]``."""

from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figures.shared.solved_banks import BANKS, PROMPTS, STYLES, draw_fit, fitted, law_in_words
from simlab.plotting import STYLE

MESSAGE = "Fitted to k up to 100, the law holds at 10,000 but where much mass lies near 0"
DIFFERS = (
    "Three banks whose solve rates are known, so that the prediction can be held against the truth, which the paper "
    "cannot; the law is fitted to k up to 100."
)
CONFIGURATION: dict[str, Any] = {
    "prompts": PROMPTS,
    "banks": BANKS,
    "samples": 200,
    "fitted_up_to": 100,
    "largest_k": 10_000,
    "seed": 0,
}
_WORDS: dict[str, Any] = {"ha": "right", "fontsize": 7, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}


def draw(configuration: dict[str, Any]) -> Figure:
    """A panel for each bank."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        panels = figure.subplots(1, len(configuration["banks"]), sharey=True)
        for axes, (name, style), letter in zip(
            panels, zip(configuration["banks"], STYLES, strict=True), "abc", strict=True
        ):
            bank = fitted(configuration, name, configuration["samples"], configuration["fitted_up_to"], plugged_in=True)
            draw_fit(axes, bank, style, "truth")
            axes.axvline(configuration["fitted_up_to"], color="0.6", lw=0.6, zorder=0)
            axes.set_title(f"({letter}) {name}", loc="left")
            axes.text(0.97, 0.05, law_in_words(bank.law), transform=axes.transAxes, **_WORDS)
        panels[0].set_ylabel("pass@k")
        kinds = [
            Line2D([], [], color="0.3", label="true pass@k"),
            Line2D([], [], color="0.3", ls="", marker="o", label=f"from {configuration['samples']} samples a prompt"),
            Line2D([], [], color="0.25", lw=0.8, ls=(0, (1, 1)), label="shifted power law, fitted left of the line"),
        ]
        figure.legend(handles=kinds, loc="outside lower center", ncols=3)
    return figure

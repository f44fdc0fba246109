"""The most extreme tokens' share of all covariance, simulated and of a trained model ``[cw-grpo:figure-3]``,
``[cw-grpo:extreme-tokens-dominate]``.

    simlab train --preset countdown --arms grpo --seeds 1 --steps 30 --out run   (some minutes)
    python -m figures.cw_grpo_fig3 run   (samples the models that it has left, and the tree of cw_grpo)
    simlab figures cw_grpo_fig3          (draws from the numbers kept here)

Figure 3 of the paper, for the tokens of either sign, under GRPO's advantages and under those that the kernel leaves.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep, rounded
from figures.shared.token_covariances import SHARES, spreads, tokens_of_model, tokens_of_tree
from simlab.estimators.tokens import TOP_PERCENT
from simlab.identity import commit, versions
from simlab.plotting import STYLE
from simlab.problems import tree
from simlab.sweeps.presets.papers import BRANCHING, DEPTH, LOGITS, REWARDED

DATA = Path(__file__).parent / "data" / "cw_grpo_fig3.json"
MESSAGE = "Few tokens hold much of the covariance under a model, but the first 1 % never hold half"
DIFFERS = (
    "A tree of tabular policies and a model of 0.12M parameters on countdown, at its start and after 30 steps, in "
    "place of a 1.5B model over 50 steps; the kernel's effect is drawn as well."
)
SAMPLED = {"seed": 1, "group_size": 16, "tree_groups": 4000, "tree_accuracy": [0.05, 0.5], "model_groups": 1024}
MODELS = {"model, start": "start/seed-0/model", "model, trained": "arms/grpo/seed-0/model"}
STYLES = {
    "tree, accuracy 0.05": ("C5", ":"),
    "tree, accuracy 0.5": ("C2", "-."),
    "model, start": ("C0", "--"),
    "model, trained": ("C1", "-"),
}


def condense(run: Path) -> dict[str, Any]:
    """The spread of the covariances of all tokens."""
    problem, seed, size = (
        tree(DEPTH, BRANCHING, rewarded=REWARDED, logits=LOGITS),
        SAMPLED["seed"],
        SAMPLED["group_size"],
    )
    tokens = {
        f"tree, accuracy {accuracy:g}": tokens_of_tree(problem, accuracy, size, SAMPLED["tree_groups"], seed)
        for accuracy in SAMPLED["tree_accuracy"]
    }
    tokens |= {name: tokens_of_model(run, folder, SAMPLED["model_groups"], seed) for name, folder in MODELS.items()}
    origin = {"settings": SAMPLED, "commit": commit(), "versions": versions(), "platform": jax.default_backend()}
    return {
        "provenance": [origin, json.loads((run / "run.json").read_text())],
        "percent": TOP_PERCENT,
        "shares_of": rounded(SHARES),
        "tokens": {name: spreads(some) for name, some in tokens.items()},
    }


def draw(data: dict[str, Any]) -> Figure:
    """Columns for the sign of the covariance, rows for the advantages."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for row, (when, method) in zip(panels, {"before": "GRPO", "after": "CW-GRPO"}.items(), strict=True):
            for axes, sign in zip(row, ("positive", "negative"), strict=True):
                _draw_shares(axes, data, when, sign)
                axes.set_title(f"({'abcd'[2 * (when == 'after') + (sign == 'negative')]}) {method}, {sign}", loc="left")
        for axes in panels[1]:
            axes.set_xlabel("% of the tokens of that sign")
        for axes in panels[:, 0]:
            axes.set_ylabel("share of their covariance")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_shares(axes: Axes, data: dict[str, Any], when: str, sign: str) -> None:
    shown = np.array(data["shares_of"])
    for name, (colour, dashes) in STYLES.items():
        share = data["tokens"][name][when][sign]["share"]
        axes.plot(shown, share, color=colour, linestyle=dashes, label=name)
    axes.plot(shown, shown / 100, color="0.6", linewidth=0.8, label="all alike")
    axes.set_xscale("log")
    axes.set(ylim=(0, 1.02))


if __name__ == "__main__":
    keep(DATA, condense(Path(sys.argv[1])))

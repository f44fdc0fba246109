"""CW-GRPO's kernel beside GRPO, Clip-Cov and KL-Cov on a tree ``[cw-grpo:kernel]``, ``[cw-grpo:table-1-dominance]``.

    simlab sweep --preset cw-grpo --out cw.nc
    python -m figures.cw_grpo cw.nc   (condenses cw-kernel.nc and cw-baselines.nc)
    simlab figures cw_grpo            (draws from the condensed numbers kept here)

Bars and bands are 95 % of the mean over seeds, in (e) the standard deviation of single groups; comparisons are seed
by seed.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.advantage_sums import measured
from figures.shared.condensed import each_cell, keep, mean_and_error, provenance, results
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE
from simlab.problems import tree
from simlab.sweeps.presets.papers import BRANCHING, DEPTH, LOGITS, REWARDED

DATA = Path(__file__).parent / "data" / "cw_grpo.json"
MESSAGE = "At equal accuracy CW-GRPO keeps a little more entropy and a third more modes, at a third of GRPO's pace"
DIFFERS = (
    "A tree of tabular policies in place of a language model; Clip-Cov and KL-Cov beside the kernel, compared at "
    "equal accuracy."
)
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9])
LEVEL = 0.75  # the accuracy at which methods are compared
DRAWN = slice(None, None, 5)  # the records of the learning curves
MID = (0.1, 0.9)  # the accuracies between which the covariances of a run are averaged
GRPO = "GRPO"
RATES = (0.1, 0.3, 1.0)
NAMES = {
    ("grpo", "unclipped"): GRPO,
    ("grpo", "ppo_clip"): "GRPO, clip",
    ("cw_grpo", "unclipped"): "CW-GRPO",
    ("cw_grpo", "ppo_clip"): "CW-GRPO, clip",
    ("grpo", "clip_cov"): "Clip-Cov",
    ("grpo", "kl_cov"): "KL-Cov",
}
Seeds = dict[str, np.ndarray]


def condense(path: Path) -> dict[str, Any]:
    """Every method at every learning rate, alone and less GRPO; and the sums of advantages."""
    sweeps = results("cw-grpo", path)
    cells = {key: _by_seed(runs) for dataset in sweeps.values() for key, runs in _methods(dataset)}
    reference = {rate: cells[GRPO, rate] for rate in RATES}
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "step": sweeps["kernel"]["step"].values[DRAWN].tolist(),
        "levels": LEVELS.tolist(),
        "methods": [
            {
                "name": name,
                "learning_rate": rate,
                "own": {quantity: mean_and_error(_seeds_last(values)) for quantity, values in quantities.items()},
                "over_grpo": {
                    quantity: mean_and_error(_seeds_last(values - reference[rate][quantity]))
                    for quantity, values in quantities.items()
                },
            }
            for (name, rate), quantities in cells.items()
        ],
        "sums": measured(tree(DEPTH, BRANCHING, rewarded=REWARDED, logits=LOGITS)),
    }


def _methods(dataset: xr.Dataset) -> Iterator[tuple[tuple[str, float], xr.Dataset]]:
    """Every method and learning rate of a sweep."""
    for runs in each_cell(dataset):
        name = NAMES[str(runs["estimator"].item()), str(runs["surrogate"].item())]
        share = f" {runs['share'].item():g}" if "share" in runs.coords else ""
        yield (name + share, runs["learning_rate"].item()), runs


def _seeds_last(values: np.ndarray) -> np.ndarray:
    return np.moveaxis(values, 0, -1)


def _by_seed(runs: xr.Dataset) -> Seeds:
    """The quantities of one method, seeds first."""
    accuracy, entropy = runs["q_pos"].values, runs["entropy"].values
    steps = np.broadcast_to(runs["step"].values, accuracy.shape)
    modes = runs["mode_coverage"].values
    quantities: Seeds = {"q_pos": accuracy[:, -1], "entropy": entropy[:, -1], "mode_coverage": modes[:, -1]}
    quantities |= {"curve": accuracy[:, DRAWN], "mean_q_pos": accuracy.mean(axis=1)}
    quantities |= {"rise": (entropy - entropy[:, :1]).max(axis=1)}
    for name, values in (("steps", steps), ("entropy", entropy), ("mode_coverage", modes)):
        quantities[f"{name}_at_levels"] = at_equal_mass(accuracy, values, LEVELS).T
    learning = (accuracy > MID[0]) & (accuracy < MID[1])
    for name in ("positive_covariance", "negative_covariance"):
        values = np.where(learning[..., None], runs[name].values, np.nan)
        counted = np.isfinite(values).sum(axis=1)
        quantities[name] = np.nansum(values, axis=1) / np.where(counted > 0, counted, np.nan)
    return quantities


SHOWN = {
    GRPO: ("C0", "-", "o"),
    "CW-GRPO": ("C1", "--", "s"),
    "Clip-Cov 0.1": ("C2", ":", "^"),
    "KL-Cov 0.1": ("C3", "-.", "D"),
}


def method(data: dict[str, Any], name: str, rate: float) -> dict[str, Any]:
    """A method at a learning rate."""
    return next(each for each in data["methods"] if (each["name"], each["learning_rate"]) == (name, rate))


def draw(data: dict[str, Any]) -> Figure:
    """The six panels of the figure."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 5.4), layout="constrained")
        panels = figure.subplots(2, 3)
        _draw_training(panels[0, 0], data)
        _draw_paths(panels[0, 1], data, "entropy", "entropy (nats)", "(b) entropy at equal accuracy")
        _draw_paths(panels[0, 2], data, "mode_coverage", "modes in 1000 responses", "(c) modes, of 25")
        _draw_differences(panels[1, 0], data)
        _draw_sums(panels[1, 1], data["sums"])
        _draw_shares(panels[1, 2], data["sums"])
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(SHOWN), title="(a) to (d)")
    return figure


def _statistics(quantity: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and half-width of its 95 % band; NaN where a seed has no number."""
    mean, error = (np.array(quantity[key], dtype=float) for key in ("mean", "error"))
    return mean, 1.96 * error


def _banded(axes: Axes, x: np.ndarray, quantity: dict[str, Any], name: str) -> None:
    mean, half = _statistics(quantity)
    colour, dashes, _ = SHOWN[name]
    axes.plot(x, mean, linestyle=dashes, color=colour, label=name)
    axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)


def _draw_training(axes: Axes, data: dict[str, Any]) -> None:
    """Accuracy along training."""
    for name in SHOWN:
        _banded(axes, np.array(data["step"]), method(data, name, 0.3)["own"]["curve"], name)
    axes.set(xlabel="step", ylabel="accuracy", ylim=(0, 1.02))
    axes.set_title("(a) learning rate 0.3", loc="left")


def _draw_paths(axes: Axes, data: dict[str, Any], quantity: str, label: str, title: str) -> None:
    """A quantity where the runs reach each level of accuracy."""
    for name in SHOWN:
        _banded(axes, np.array(data["levels"]), method(data, name, 0.3)["own"][f"{quantity}_at_levels"], name)
    axes.set(xlabel="accuracy", ylabel=label, ylim=(0, None))
    axes.set_title(title, loc="left")


def _draw_differences(axes: Axes, data: dict[str, Any]) -> None:
    """Entropy at the accuracy of comparison less GRPO's, at each learning rate."""
    index = data["levels"].index(LEVEL)
    for shift, (name, (colour, _, marker)) in enumerate(SHOWN.items()):
        if name == GRPO:
            continue
        for column, rate in enumerate(RATES):
            mean, half = _statistics(method(data, name, rate)["over_grpo"]["entropy_at_levels"])
            axes.errorbar(
                column + 0.15 * (shift - 2), mean[index], half[index], color=colour, marker=marker, ms=4, lw=1
            )
    axes.axhline(0, color="0.6", linewidth=0.6, zorder=0)
    axes.set_xticks(range(len(RATES)), [f"{rate:g}" for rate in RATES])
    axes.set(xlabel="learning rate", ylabel=f"entropy at accuracy {LEVEL:g}\nless GRPO's")
    axes.set_title("(d) at equal accuracy", loc="left")


def _draw_sums(axes: Axes, sums: dict[str, Any]) -> None:
    """The sum of a group's reweighted advantages as a share of the sum of their sizes."""
    drawn = [each["after"]["mean"] for each in sums["sampled"]]
    axes.plot(sums["accuracy"], drawn, "s-", color="C1", label="tree, G = 16")
    spread = np.array([each["after"]["std"] for each in sums["sampled"]])
    axes.fill_between(sums["accuracy"], drawn - spread, drawn + spread, color="C1", alpha=0.2, linewidth=0)
    axes.plot(
        sums["accuracy"], [each["after"] for each in sums["enumerated"]], "o--", color="C4", label="small tree, exact"
    )
    axes.axhline(0, color="C0", label="GRPO")
    axes.set(xlabel="accuracy", ylabel=r"$\sum \tilde w A \;/\; \sum |A|$", ylim=(-0.62, 0.62))
    axes.set_title("(e) sum of advantages", loc="left")
    axes.legend(loc="lower right", fontsize=7)


def _draw_shares(axes: Axes, sums: dict[str, Any]) -> None:
    """The share of all positive covariance that the tokens of largest covariance have, as in Figure 3."""
    for accuracy, colour in (("0.05", "C5"), ("0.5", "C6")):
        for when, dashes in (("before", "-"), ("after", "--")):
            share = sums["covariance"][accuracy][when]["share"]
            axes.plot(sums["curve"], share, dashes, color=colour, label=f"accuracy {accuracy}, {when}")
    axes.set_xscale("log")
    axes.set(xlabel="% of tokens with c > 0", ylabel="share of their covariance", ylim=(0, 1.02))
    axes.set_title("(f) before, after kernel", loc="left")
    axes.legend(loc="upper left", fontsize=7)


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Focal weights on a bank of prompts, at equal Q_pos, beside GRPO with shorter steps ``[f-grpo:sec-5.6-low-lr]``.

    simlab sweep --preset f-grpo --out f-grpo.nc
    simlab sweep --preset f-grpo --group-size 8 --param beta_a=1e6 --param beta_b=1e6 --out alike.nc
    python -m figures.f_grpo_bank f-grpo.nc alike.nc   (condenses f-grpo-adam.nc, alike-adam.nc, ...)
    simlab figures f_grpo_bank                         (draws from the condensed numbers kept here)

In the second sweep all prompts start at a solve rate of 1/2. It is not drawn; figures/README.md quotes it.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep, mean_and_error, provenance, results
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "f_grpo_bank.json"
DIFFERS = (
    "A bank of tabular prompts in place of mathematics and a language model, compared at equal correct mass; the "
    "control of App. N beside it."
)
OPTIMIZERS = {"adam": "Adam", "sgd": "plain steps", "norm": "steps of one norm"}
LEVELS = np.round(np.arange(0.55, 0.96, 0.025), 3)
METRICS = ("retained_mass", "share_correct_kept", "pass_at_64", "entropy")
SHOWN = {"retained_mass": "$M_{ret}$", "pass_at_64": "pass@64"}
SHOWN_GROUP_SIZE = 8
STEPS_KEPT = 150  # between two steps of the curves
MESSAGE = "At equal correct mass the focal weight keeps more rare answers than shorter steps do"


def condense(path: Path) -> dict[str, Any]:
    """Curves of every method, and its metrics where Q_pos reaches each level, alone and less GRPO's."""
    sweeps = results("f-grpo", path)
    first = sweeps["adam"]
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "gamma": first["gamma"].values[1:].tolist(),
        "group_size": first["group_size"].values.tolist(),
        "step": first["step"].values[first["step"].values % STEPS_KEPT == 0].tolist(),
        "level": LEVELS.tolist(),
        "optimizers": {name: _compared(sweeps[name], sweeps[f"{name}-low-lr"]) for name in OPTIMIZERS},
    }


def _compared(focal: xr.Dataset, control: xr.Dataset) -> dict[str, Any]:
    """The methods of one optimiser: GRPO, the focal weights, and GRPO with the steps of each focal weight."""
    (shortened,) = {"learning_rate", "update_norm"} & set(control.dims)
    methods = {"grpo": focal.isel(gamma=0)}
    for number, gamma in enumerate(focal["gamma"].values[1:]):
        methods[f"focal {gamma:g}"] = focal.isel(gamma=number + 1)
        methods[f"short {gamma:g}"] = control.isel({shortened: number})
    reached = {name: _at_levels(runs) for name, runs in methods.items()}
    return {
        name: {
            "curves": _curves(runs),
            "at_equal_mass": {metric: mean_and_error(values) for metric, values in reached[name].items()},
            "over_grpo": _gains(reached[name], reached["grpo"]),
            "over_short": _gains(reached[name], reached[name.replace("focal", "short")]),
        }
        for name, runs in methods.items()
    }


def _gains(reached: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> dict[str, Any]:
    """The difference in each metric, paired by seed."""
    return {metric: mean_and_error(values - reference[metric]) for metric, values in reached.items()}


def _metric(runs: xr.Dataset, name: str) -> np.ndarray:
    """(group sizes, seeds, steps) of one metric."""
    values = runs["pass_at_k"].sel(k=int(name.rpartition("_")[2])) if name.startswith("pass_at_") else runs[name]
    array: np.ndarray = values.squeeze("estimator").transpose("group_size", "seed", "step").values
    return array


def _at_levels(runs: xr.Dataset) -> dict[str, np.ndarray]:
    """(group sizes, levels, seeds) of each metric where Q_pos reaches each level."""
    masses = _metric(runs, "q_pos")
    return {
        metric: np.stack(
            [at_equal_mass(q_pos, values, LEVELS) for q_pos, values in zip(masses, _metric(runs, metric), strict=True)]
        )
        for metric in METRICS
    }


def _curves(runs: xr.Dataset) -> dict[str, Any]:
    thinned = runs.isel(step=runs["step"].values % STEPS_KEPT == 0)
    return {name: mean_and_error(_metric(thinned, name).swapaxes(1, 2)) for name in ("q_pos", "retained_mass")}


def draw(data: dict[str, Any]) -> Figure:
    """The gain of each method over GRPO at equal Q_pos, a column for each optimiser."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        panels = figure.subplots(2, 3, sharex=True, sharey="row")
        letters = iter("abcdef")
        for row, (metric, label) in zip(panels, SHOWN.items(), strict=True):
            for axes, (name, title) in zip(row, OPTIMIZERS.items(), strict=True):
                _draw_gains(axes, data, name, metric)
                axes.set_title(f"({next(letters)}) {title}", loc="left")
            row[0].set_ylabel(f"gain in {label} over GRPO")
        for axes in panels[1]:
            axes.set_xlabel("equal correct mass $Q_{pos}$")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_gains(axes: Axes, data: dict[str, Any], optimizer: str, metric: str) -> None:
    axes.axhline(0, color="0.6", linewidth=0.8)
    size = data["group_size"].index(SHOWN_GROUP_SIZE)
    for colour, gamma in enumerate(data["gamma"]):
        for kind, dashes, label in (
            ("focal", "-", f"$\\gamma = {gamma:g}$"),
            ("short", "--", f"$\\gamma = 0$, steps times $\\lambda({gamma:g})$"),
        ):
            gain = data["optimizers"][optimizer][f"{kind} {gamma:g}"]["over_grpo"][metric]
            mean, error = (np.array(gain[key][size], dtype=float) for key in ("mean", "error"))
            axes.plot(data["level"], mean, dashes, color=f"C{colour}", label=label)
            axes.fill_between(
                data["level"], mean - 1.96 * error, mean + 1.96 * error, color=f"C{colour}", alpha=0.2, lw=0
            )


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    mixed, alike = (condense(Path(name)) for name in arguments)
    keep(DATA, mixed | {"alike": alike})


if __name__ == "__main__":
    main(sys.argv[1:])

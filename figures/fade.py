"""Effects of sign and difficulty on entropy, on a bank of prompts ``[fade:fig-4]``.

    simlab sweep --preset fade --out fade.nc
    python -m figures.fade fade.nc   (condenses fade-sign.nc and its three siblings)
    simlab figures fade              (draws from the condensed numbers kept here)

The paper plots whole models, this figure 64 tabular policies. Bars and bands are 95 % of the mean over seeds;
comparisons are seed by seed. ``figures/fade_difficulty.py`` draws the rest.
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
from matplotlib.lines import Line2D
from scipy.stats import spearmanr

from figures.shared.condensed import each_cell, keep, mean_and_error, provenance, results, rounded
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE
from simlab.theory.power_law import power_laws

DATA = Path(__file__).parent / "data" / "fade.json"
MESSAGE = "At equal pass@1, weights that favour failures have the lower entropy, not the higher"
DIFFERS = (
    "64 tabular policies in place of 7B and 32B models; the ratio is measured at batch level, and the entropy "
    "compared at equal pass@1 as well."
)
STEPS = {"weight": "steps as the weight gives them", "equal": "steps of one norm"}
MEAN_GRPO = "delta 1"
LEVEL = np.array([0.6])  # the pass@1 at which runs are compared
MASSES = ("success_mass", "failure_mass")
EARLY = slice(1, 6)  # the records of the first 100 steps
PARTS = {(3.0, 0.3): "whole", (1.0, 0.3): "no difficulty", (3.0, 1.0): "no sign", (1.0, 1.0): "neither"}
STATIC = ("delta", "power", "easy")
CURVES = ("delta 0.1", MEAN_GRPO, "delta 10")

Runs = dict[str, xr.Dataset]
Seeds = dict[str, np.ndarray]


def condense(path: Path) -> dict[str, Any]:
    """Every weight, alone and less mean GRPO, and the scheduler beside the best static weight."""
    sweeps = results("fade", path)
    first = sweeps["sign"]
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "step": first["step"].values.tolist(),
        "k": first["k"].values.tolist(),
        "start": _start(first),
        "steps": {
            name: _compared(
                {
                    weight: runs
                    for dataset in sweeps.values()
                    for weight, runs in _weights(dataset.isel(update_norm=number))
                }
            )
            for number, name in enumerate(STEPS)
        },
    }


def _start(dataset: xr.Dataset) -> dict[str, Any]:
    """The start of all runs."""
    start = dataset.isel(step=0, update_norm=0, delta=0, estimator=0, group_size=0, seed=[0])
    law = power_laws(start["pass_at_k"]).isel(seed=0)
    return {
        "entropy": rounded(start["entropy"].item()),
        "pass_at_k": rounded(start["pass_at_k"].isel(seed=0).values),
        "scale": rounded(law["scale"].item()),
        "exponent": rounded(law["exponent"].item()),
    }


def _weights(dataset: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """Every weight of a sweep by its name, its runs with the dimensions ``seed`` and ``step`` first."""
    for runs in each_cell(dataset):
        yield _name(runs), runs


def _name(runs: xr.Dataset) -> str:
    estimator = str(runs["estimator"].item())
    if estimator == "fade":
        variant = PARTS[runs["alpha_max"].item(), runs["delta_min"].item()]
        return f"fade {variant} {runs['beta'].item():g}"
    if estimator == "asym_grpo":
        return f"delta {runs['delta'].item():g}"
    focus = {"power_alpha": "power", "easy_power": "easy"}.get(estimator)
    return f"{focus} {runs['alpha'].item():g}" if focus else estimator


def _compared(runs: Runs) -> dict[str, Any]:
    """The weights of one kind of steps."""
    seeds = {name: _by_seed(dataset) for name, dataset in runs.items()}
    return {
        "weights": {
            name: {quantity: mean_and_error(np.moveaxis(values, 0, -1)) for quantity, values in quantities.items()}
            for name, quantities in seeds.items()
        },
        "over_mean_grpo": {name: _differences(quantities, seeds[MEAN_GRPO]) for name, quantities in seeds.items()},
        "over_best_static": {name: _over_best(name, seeds) for name in seeds if name.startswith("fade")},
        "parts": _ablations(seeds),
        "correlations": _correlations(runs, seeds),
        "curves": {name: _curves(runs[name]) for name in CURVES},
    }


def _by_seed(runs: xr.Dataset) -> Seeds:
    """The quantities of one weight, seeds first."""
    q_pos, entropy, last = runs["q_pos"].values, runs["entropy"].values, runs.isel(step=-1)
    law = power_laws(last["pass_at_k"])
    numbers: Seeds = {name: last[name].values for name in ("q_pos", "entropy", "retained_mass", "unsolved_prompts")}
    numbers |= {name: law[name].values for name in ("scale", "exponent")}
    numbers |= {"pass_at_k": last["pass_at_k"].values, "all_k": last["pass_at_k"].mean("k").values}
    numbers |= {"mean_q_pos": q_pos.mean(axis=1), "rise": (entropy - entropy[:, :1]).max(axis=1)}
    at_level = {"steps": np.broadcast_to(runs["step"].values, q_pos.shape), "entropy": entropy}
    at_level |= {"retained_mass": runs["retained_mass"].values}
    numbers |= {f"{name}_at_level": at_equal_mass(q_pos, values, LEVEL)[0] for name, values in at_level.items()}
    for name in ("effective_prompts", "effective_rollouts"):
        numbers |= {name: runs[name].isel(step=EARLY).mean("step").values}
    masses = [runs[name].sum("bin").isel(step=slice(1, None)).mean("step").values for name in MASSES]
    numbers |= {"log_ratio": _log_ratio(*masses, numbers["mean_q_pos"]), "log_masses": np.log10(masses[0] / masses[1])}
    return numbers


def _log_ratio(success: np.ndarray, failure: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The decimal logarithm of the ratio of FADE's Figure 4, m_S p / (m_F (1 - p))."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(success * p / (failure * (1 - p)))


def _differences(weight: Seeds, other: Seeds) -> dict[str, Any]:
    """The differences of a weight from another, seed by seed."""
    return {name: mean_and_error(np.moveaxis(weight[name] - other[name], 0, -1)) for name in weight}


def _over_best(name: str, seeds: dict[str, Seeds]) -> dict[str, Any]:
    """A scheduler less the static weight that is best on the even seeds, on the odd ones; pass@k at each k."""
    compared: dict[str, Any] = {}
    static = [weight for weight in seeds if weight.startswith(STATIC)]
    for quantity in ("mean_q_pos", "q_pos", "all_k"):
        best = max(static, key=lambda weight, quantity=quantity: seeds[weight][quantity][::2].mean())
        compared[quantity] = {"best": best} | mean_and_error((seeds[name][quantity] - seeds[best][quantity])[1::2])
    chosen = [
        static[index] for index in np.argmax([seeds[weight]["pass_at_k"][::2].mean(axis=0) for weight in static], 0)
    ]
    scheduler = seeds[name]["pass_at_k"]
    less = [(scheduler[:, k] - seeds[weight]["pass_at_k"][:, k])[1::2] for k, weight in enumerate(chosen)]
    compared["pass_at_k"] = {"best": chosen} | mean_and_error(np.array(less))
    return compared


def _ablations(seeds: dict[str, Seeds]) -> dict[str, Any]:
    """The whole scheduler less the scheduler without a part, and the printed beta less the other reading."""
    pairs = {
        f"{variant} {beta}": (f"fade whole {beta}", f"fade {variant} {beta}")
        for beta in ("0.02", "0.98")
        for variant in ("no difficulty", "no sign", "neither")
    }
    pairs["0.98"] = ("fade whole 0.02", "fade whole 0.98")
    return {name: _differences(seeds[whole], seeds[other]) for name, (whole, other) in pairs.items()}


def _correlations(runs: Runs, seeds: dict[str, Seeds]) -> dict[str, Any]:
    """Spearman's rank correlations over the static weights, one a seed; the drift's over all windows."""
    static = [name for name in seeds if not name.startswith("fade") and name not in ("power 1", "easy 1")]
    count = len(seeds[MEAN_GRPO]["q_pos"])

    def over_weights(first: str, second: str) -> Any:
        table = [(seeds[name][first], seeds[name][second]) for name in static]
        return mean_and_error(np.array([_rank([(x[s], y[s]) for x, y in table]) for s in range(count)]))

    return {
        "final_entropy": over_weights("log_ratio", "entropy"),
        "final_entropy_masses": over_weights("log_masses", "entropy"),
        "final_entropy_pass_at_1": over_weights("q_pos", "entropy"),
        "entropy_at_level": over_weights("log_ratio", "entropy_at_level"),
        "entropy_at_level_masses": over_weights("log_masses", "entropy_at_level"),
        "drift": mean_and_error(np.array([_drift([runs[name].isel(seed=s) for name in static]) for s in range(count)])),
    }


def _drift(each: list[xr.Dataset]) -> list[float]:
    """The rank correlation of the change of entropy between records with the window's ratio."""
    pairs = []
    for runs in each:
        p = (runs["q_pos"].values[1:] + runs["q_pos"].values[:-1]) / 2
        success, failure = (runs[name].sum("bin").values[1:] for name in MASSES)
        pairs += list(zip(_log_ratio(success, failure, p), np.diff(runs["entropy"].values), strict=True))
    return _rank(pairs)


def _rank(pairs: list[tuple[float, float]]) -> float:
    table = np.array(pairs)
    table = table[np.isfinite(table).all(axis=1)]
    return float(spearmanr(table[:, 0], table[:, 1])[0])


def _curves(runs: xr.Dataset) -> dict[str, Any]:
    return {name: mean_and_error(runs[name].values.T) for name in ("q_pos", "entropy")}


def draw(data: dict[str, Any]) -> Figure:
    """Entropy along training, at its end, and at equal pass@1."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        panels = figure.subplots(1, 3)
        _draw_paths(panels[0], data)
        _draw_ratio(panels[1], data, "entropy", "final entropy (nats)")
        _title(panels[1], "b", "final")
        _draw_ratio(panels[2], data, "entropy_at_level", f"entropy at pass@1 = {LEVEL[0]:g}")
        _title(panels[2], "c", "at equal pass@1")
        families = [
            Line2D([], [], ls="", marker=marker, ms=4, color=colour, label=FAMILY_LABELS[family])
            for family, (colour, marker) in FAMILIES.items()
        ]
        title = "(b), (c): filled, steps as the weight gives them; open, all steps of one norm"
        figure.legend(handles=families, loc="outside lower center", ncols=len(families), title=title)
    return figure


def _title(axes: Axes, letter: str, text: str) -> None:
    axes.set_title(f"({letter}) {text}", loc="left")


def _draw_paths(axes: Axes, data: dict[str, Any]) -> None:
    """Entropy against pass@1 along training."""
    for name, colour, dashes in zip(CURVES, ("C0", "C6", "C1"), ("-", "--", ":"), strict=True):
        curves = data["steps"]["equal"]["curves"][name]
        mean, half = (np.array(curves["entropy"][key]) for key in ("mean", "error"))
        x = curves["q_pos"]["mean"]
        axes.plot(x, mean, dashes, color=colour, label=f"$\\delta = {name.split()[1]}$")
        axes.fill_between(x, mean - 1.96 * half, mean + 1.96 * half, color=colour, alpha=0.2, lw=0)
    axes.set(xlabel="pass@1", ylabel="entropy (nats)")
    axes.legend()
    _title(axes, "a", "training, one norm")


FAMILIES = {"delta": ("C1", "o"), "power": ("C0", "^"), "easy": ("C2", "v"), "other": ("C6", "s")}
FAMILY_LABELS = {"delta": "AsymGRPO", "power": r"Power-$\alpha$", "easy": "easy Power", "other": "other weights"}


def _draw_ratio(axes: Axes, data: dict[str, Any], quantity: str, label: str) -> None:
    """A quantity of every static weight against the ratio of Figure 4; open: steps of one norm."""
    for steps, filled in (("weight", True), ("equal", False)):
        for name, weight in data["steps"][steps]["weights"].items():
            family = name.split()[0]
            if family == "fade":
                continue
            colour, marker = FAMILIES.get(family, FAMILIES["other"])
            x, y = weight["log_ratio"]["mean"], weight[quantity]["mean"]
            if x is None or y is None:
                continue
            bar = 1.96 * weight[quantity]["error"]
            face = colour if filled else "white"
            axes.errorbar(10**x, y, bar, color=colour, marker=marker, markerfacecolor=face, lw=0.8, ms=4)
    axes.set_xscale("log")
    axes.set(xlabel=r"$m_S\,p\;/\;m_F\,(1 - p)$", ylabel=label)


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])

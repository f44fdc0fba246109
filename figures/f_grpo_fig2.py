"""F-GRPO Figure 2 ``[f-grpo:fig-2]``: correct and retained mass against group size, with and without focal weight.

    simlab sweep --preset f-grpo-fig2 --storage dense --group-size 2,4,...,32768 --seeds 200 --out fig2.nc   (an hour)
    simlab sweep --preset f-grpo-fig2 --storage dense --group-size 65536,131072 --seeds 64 --out fig2-large.nc
    python -m figures.f_grpo_fig2 fig2.nc fig2-large.nc   (condenses the results)
    simlab figures f_grpo_fig2                            (draws from the condensed numbers kept here)

What differs from the paper's figure: bands (95 % of the mean over seeds) where the paper shows four seeds' mean, and
panel (c) shades where retained mass ends below one half.
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

from figures.shared.condensed import keep, provenance, rounded
from simlab.plotting import LABELS, STYLE
from simlab.sweeps.result import read

DATA = Path(__file__).parent / "data" / "f_grpo_fig2.json"
MESSAGE = "Groups of middling size win the correct mass and lose the rare answers; the focal weight delays that"
DIFFERS = (
    "Bands (95 % of the mean over 32 to 200 seeds) where the paper draws the mean of four; optimiser and gradient "
    "form are a reading, as the paper states neither."
)
METRICS = ("q_pos", "retained_mass", "entropy", "tail_miss_rate")
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
SHOWN_GROUP_SIZES = (2, 8, 32, 256, 4096, 32768, 131072)
COLLAPSED = 0.5


def condense(paths: list[Path]) -> dict[str, Any]:
    """Mean, standard deviation over seeds and final quantiles of the metrics, with the results' provenance.

    The results share gammas and steps; each brings its own group sizes and number of seeds.
    """
    datasets = [read(path) for path in paths]
    sizes = np.concatenate([dataset["group_size"].values for dataset in datasets])
    seeds = np.concatenate([np.full(dataset.sizes["group_size"], dataset.sizes["seed"]) for dataset in datasets])
    order = np.argsort(sizes)
    return {
        "provenance": [provenance(dataset) for dataset in datasets],
        "gamma": datasets[0]["gamma"].values.tolist(),
        "step": datasets[0]["step"].values.tolist(),
        "group_size": sizes[order].tolist(),
        "seeds": seeds[order].tolist(),
        "quantiles": QUANTILES,
        "metrics": {name: _statistics([dataset[name] for dataset in datasets], order) for name in METRICS},
    }


def _statistics(parts: list[xr.DataArray], order: np.ndarray) -> dict[str, Any]:
    """Mean and standard deviation (gamma, group size, step), final quantiles (gamma, group size, quantile)."""
    ordered = [part.squeeze("estimator").transpose("gamma", "group_size", "step", "seed").values for part in parts]
    statistics = {
        "mean": [values.mean(axis=-1) for values in ordered],
        "std": [values.std(axis=-1, ddof=1) for values in ordered],
        "final_quantiles": [
            np.moveaxis(np.quantile(values[:, :, -1], QUANTILES, axis=-1), 0, -1) for values in ordered
        ],
    }
    return {name: rounded(np.concatenate(values, axis=1)[:, order]) for name, values in statistics.items()}


def draw(data: dict[str, Any]) -> Figure:
    """The three panels of the figure."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for axes, metric, letter in ((left, "q_pos", "a"), (middle, "retained_mass", "b")):
            _draw_training(axes, data, metric)
            axes.set_title(f"({letter}) {LABELS[metric]}", loc="left")
        _draw_final(right, data)
        sizes, finals = left.get_legend_handles_labels(), right.get_legend_handles_labels()
        title = (
            f"(a), (b): group size G; solid $\\gamma = {data['gamma'][0]:g}$, dashed $\\gamma = {data['gamma'][1]:g}$"
        )
        figure.legend(*sizes, loc="outside lower left", ncols=len(SHOWN_GROUP_SIZES), title=title, columnspacing=1.2)
        figure.legend(*finals, loc="outside lower right", ncols=2)
    return figure


def _mean_and_half(data: dict[str, Any], metric: str, gamma: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and half-width of its 95 % band, (group sizes, steps) each."""
    mean, std = (np.array(data["metrics"][metric][name][gamma], dtype=float) for name in ("mean", "std"))
    return mean, 1.96 * std / np.sqrt(data["seeds"])[:, None]


def _draw_training(axes: Axes, data: dict[str, Any], metric: str) -> None:
    shown = [size for size in SHOWN_GROUP_SIZES if size in data["group_size"]]
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.93, len(shown)))
    for gamma, dashes in enumerate(("-", "--")):
        mean, half = _mean_and_half(data, metric, gamma)
        for size, colour in zip(shown, colours, strict=True):
            row = data["group_size"].index(size)
            label = f"{size}" if gamma == 0 else None
            axes.plot(data["step"], mean[row], dashes, color=colour, label=label, linewidth=1.1)
            axes.fill_between(data["step"], mean[row] - half[row], mean[row] + half[row], color=colour, alpha=0.2, lw=0)
    axes.set(xlabel="step", ylim=(-0.03, 1.03))


def _draw_final(axes: Axes, data: dict[str, Any]) -> None:
    sizes = np.array(data["group_size"])
    for metric, colour in (("q_pos", "C0"), ("retained_mass", "C1")):
        for gamma, dashes in enumerate(("-", "--")):
            mean, half = (values[:, -1] for values in _mean_and_half(data, metric, gamma))
            label = f"{LABELS[metric].split()[-1]}, $\\gamma = {data['gamma'][gamma]:g}$"
            axes.plot(sizes, mean, dashes, color=colour, marker="o", markersize=2, label=label, linewidth=1.1)
            axes.fill_between(sizes, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
    retained, _ = _mean_and_half(data, "retained_mass", 0)
    collapsed = sizes[retained[:, -1] < COLLAPSED]
    axes.axvspan(collapsed.min(), collapsed.max(), color="0.92", zorder=0)
    axes.set_xscale("log", base=2)
    axes.set(xlabel=LABELS["group_size"], ylim=(-0.03, 1.03))
    axes.set_title(f"(c) at step {data['step'][-1]}", loc="left")


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    keep(DATA, condense([Path(name) for name in arguments]))


if __name__ == "__main__":
    main(sys.argv[1:])

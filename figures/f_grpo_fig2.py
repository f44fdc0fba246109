"""F-GRPO Figure 2 ``[f-grpo:fig-2]``: correct and retained mass against group size, with and without focal weight.

    simlab sweep --preset f-grpo-fig2 --storage dense --group-size 2,4,...,32768 --seeds 200 --out fig2.nc   (an hour)
    simlab sweep --preset f-grpo-fig2 --storage dense --group-size 65536,131072 --seeds 64 --out fig2-large.nc
    python -m figures.f_grpo_fig2 fig2.nc fig2-large.nc   (condenses the results)
    simlab figures f_grpo_fig2                            (draws from the condensed numbers kept here)

Bands are 95 % of the mean over seeds, where the paper shows four seeds' mean; panel (a) shades group sizes whose
retained mass ends below one half.
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
# The names of the lines in panel (a): x, y, the number of the colour, the name, and the exponent.
WRITTEN = (
    (2**4, 0.55, 0, LABELS["q_pos"], None),
    (2**3, 0.88, 1, LABELS["retained_mass"], None),
    (2**10.5, 0.88, 0, "dashed, below:", 1),
    (2**10.5, 0.2, 1, "dashed:", 1),
    (2**10.5, -0.045, 1, "solid:", 0),
)


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


def _statistics(arrays: list[xr.DataArray], order: np.ndarray) -> dict[str, Any]:
    """Mean and standard deviation (gamma, group size, step), final quantiles (gamma, group size, quantile)."""
    ordered = [array.squeeze("estimator").transpose("gamma", "group_size", "step", "seed").values for array in arrays]
    statistics = {
        "mean": [values.mean(axis=-1) for values in ordered],
        "std": [values.std(axis=-1, ddof=1) for values in ordered],
        "final_quantiles": [
            np.moveaxis(np.quantile(values[:, :, -1], QUANTILES, axis=-1), 0, -1) for values in ordered
        ],
    }
    return {name: rounded(np.concatenate(values, axis=1)[:, order]) for name, values in statistics.items()}


def draw(data: dict[str, Any]) -> Figure:
    """All group sizes at the end, and the training of some, a panel each."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.3), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=(1.25, 1), hspace=0.04)
        _draw_final(above.subplots(), data)
        shown = [size for size in SHOWN_GROUP_SIZES if size in data["group_size"]]
        panels = below.subplots(1, len(shown), sharex=True, sharey=True)
        for axes, size in zip(panels, shown, strict=True):
            _draw_training(axes, data, size)
        panels[0].set_title("(b) G = 2", loc="left")
        below.supxlabel("step", fontsize=9)
    return figure


def _lines(data: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Each metric at each focal exponent, and how its line looks in every panel."""
    for metric, colour in (("q_pos", "C0"), ("retained_mass", "C1")):
        for gamma, dashes in enumerate(("-", "--")):
            label = f"{LABELS[metric]}, $\\gamma = {data['gamma'][gamma]:g}$"
            yield metric, gamma, {"color": colour, "linestyle": dashes, "linewidth": 1.2, "label": label}


def _mean_and_half(data: dict[str, Any], metric: str, gamma: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and half-width of its 95 % band, (group sizes, steps) each."""
    mean, std = (np.array(data["metrics"][metric][name][gamma], dtype=float) for name in ("mean", "std"))
    return mean, 1.96 * std / np.sqrt(data["seeds"])[:, None]


def _draw_training(axes: Axes, data: dict[str, Any], size: int) -> None:
    """Both masses of one group size against the step."""
    row = data["group_size"].index(size)
    for metric, gamma, style in _lines(data):
        mean, half = (values[row] for values in _mean_and_half(data, metric, gamma))
        axes.plot(data["step"], mean, **style)
        axes.fill_between(data["step"], mean - half, mean + half, color=style["color"], alpha=0.2, lw=0)
    axes.set_title(f"{size:,}", loc="left")
    axes.set(ylim=(-0.03, 1.03), xlim=(0, data["step"][-1]), xticks=(0, 500), yticks=(0, 0.5, 1))


def _draw_final(axes: Axes, data: dict[str, Any]) -> None:
    """Both masses at the end against group size, and in grey where most of the retained mass is gone."""
    sizes = np.array(data["group_size"])
    for metric, gamma, style in _lines(data):
        mean, half = (values[:, -1] for values in _mean_and_half(data, metric, gamma))
        axes.plot(sizes, mean, marker="o", markersize=2.5, **style)
        axes.fill_between(sizes, mean - half, mean + half, color=style["color"], alpha=0.2, lw=0)
    retained, _ = _mean_and_half(data, "retained_mass", 0)
    collapsed = sizes[retained[:, -1] < COLLAPSED]
    axes.axvspan(collapsed.min(), collapsed.max(), color="0.92", zorder=0)
    axes.set_xscale("log", base=2)
    axes.set(xlabel=LABELS["group_size"], ylim=(-0.1, 1.06), xlim=(sizes.min() / 1.2, sizes.max() * 1.2))
    for x, y, number, text, gamma in WRITTEN:
        name = text if gamma is None else f"{text} $\\gamma = {data['gamma'][gamma]:g}$"
        axes.text(x, y, name, color=f"C{number}", fontsize=8.5, ha="center", va="center")
    axes.set_title(f"(a) at step {data['step'][-1]}; grey: $M_{{ret}}$ below one half at $\\gamma = 0$", loc="left")


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    keep(DATA, condense([Path(name) for name in arguments]))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Every surrogate where ratios leave 1, with gradient steps of one norm: what several epochs on a batch change.

    simlab sweep --preset surrogates --out surrogates.nc   (minutes)
    python -m figures.surrogates surrogates.nc             (adds surrogates-epochs.nc and its sibling to what is kept)
    python -m figures.surrogates --table                   (prints the tables of README.md)
    simlab figures surrogates                              (draws from what is kept here)

Bands and bars are 95 % intervals of the mean over seeds.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import condense_or_print, finished, mean_and_error, origins
from figures.shared.end_labels import end_labels
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "surrogates.json"
MESSAGE = "The more an old batch teaches, the less rare mass is left, but for masks of probability"
DIFFERS = "Not in the papers: every surrogate with several epochs on a batch, at equal update norm and at equal pass@1."
LEVEL = 0.65  # pass@1, from .28 of the base model
METRICS = {"pass_at_1": "pass@1", "pass_at_256": "pass@256", "entropy": "entropy (nats)"}
READ = {"retained_mass": "retained mass", "entropy": "entropy", "pass_at_256": "pass@256", "step": "batches"}
# Drawn in colour: the plain ratio, and what each idea does to it.
SHOWN = {
    "unclipped": ("ratio A", "black"),
    "ppo_clip": ("PPO's clip", "C0"),
    "sequence_clip": ("GSPO's bounds", "C5"),
    "vespo": ("VESPO", "C2"),
    "ipo_mask": ("IPO's mask", "C1"),
    "forking_tokens": ("forking tokens", "C3"),
}

Runs = dict[str, np.ndarray]


def runs_of(cell: xr.Dataset) -> Runs:
    """The records of one cell by metric, (seeds, records)."""
    alone = cell.isel(estimator=0, group_size=0, update_norm=0) if "update_norm" in cell.dims else cell
    k = alone.pass_at_k.transpose("seed", "step", "k")
    curves = {"pass_at_1": k.sel(k=1), "pass_at_256": k.sel(k=256)}
    curves |= {name: alone[name].transpose("seed", "step") for name in ("entropy", "retained_mass")}
    return {name: values.values for name, values in curves.items()}


def at_level(runs: Runs, steps: np.ndarray) -> dict[str, Any]:
    """Means and errors of everything that is read where pass@1 first reaches the level; null where a seed does not."""
    records = runs | {"step": np.broadcast_to(steps.astype(float), runs["pass_at_1"].shape)}
    level = np.array([LEVEL])
    return {name: mean_and_error(at_equal_mass(runs["pass_at_1"], records[name], level)[0]) for name in READ}


def of_epochs(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the curves of each surrogate and number of epochs, and the readings at the level."""
    dataset, steps = dataset.isel(estimator=0, group_size=0), dataset.step.values
    data: dict[str, Any] = {}
    for name in dataset.surrogate.values.tolist():
        data[name] = {}
        for epochs in dataset.epochs.values.tolist():
            runs = runs_of(dataset.sel(surrogate=name, epochs=epochs))
            curves = {metric: mean_and_error(runs[metric].T) for metric in METRICS}
            data[name][str(epochs)] = {"curves": curves, "level": at_level(runs, steps)}
    return data


def of_minibatches(dataset: xr.Dataset) -> dict[str, Any]:
    """Mean pass@1 of a run, less that of the plain ratio seed by seed, of each surrogate and number of minibatches."""
    dataset = dataset.isel(estimator=0, group_size=0)
    means = dataset.pass_at_k.sel(k=1).mean("step").transpose("surrogate", "minibatches", "seed")
    gain = (means - means.sel(surrogate="unclipped")).values
    names, counts = dataset.surrogate.values.tolist(), dataset.minibatches.values.tolist()
    return {
        name: {str(count): mean_and_error(gain[i, j]) for j, count in enumerate(counts)} for i, name in enumerate(names)
    }


def condense(path: Path) -> dict[str, Any]:
    """Return the kept data with the surrogates of finished sweeps, which replace old ones of their names."""
    data, sweeps = json.loads(DATA.read_text()), finished("surrogates", path)
    read = {"epochs": of_epochs, "minibatches": of_minibatches}
    new = {name: data[name] | read[name](sweep) for name, sweep in sweeps.items()}
    return data | new | {"provenance": origins(data, sweeps)}


def draw(data: dict[str, Any]) -> Figure:
    """Curves at each number of epochs, then every surrogate where pass@1 is the same and in minibatches."""
    numbers = list(next(iter(data["epochs"].values())))
    with mpl.style.context(STYLE):
        # Placed by hand: the solver of a constrained layout may round the last digit otherwise in another run.
        figure = Figure(figsize=(7.2, 9.6))
        grid = {"left": 0.085, "right": 0.855, "top": 0.945, "bottom": 0.46, "wspace": 0.08, "hspace": 0.1}
        figure.suptitle(MESSAGE, x=0.01, y=0.99, ha="left", fontsize=9.5, fontweight="bold")
        rows = figure.subplots(len(METRICS), len(numbers), sharex=True, sharey="row", gridspec_kw=grid)
        for (metric, label), row in zip(METRICS.items(), rows, strict=True):
            for epochs, axes in zip(numbers, row, strict=True):
                draw_curves(axes, data, metric, epochs)
            row[0].set_ylabel(label)
        for letter, epochs, axes in zip("abc", numbers, rows[0], strict=True):
            axes.set_title(f"({letter}) {epochs} epoch{'s' * (epochs != '1')}", loc="left")
        for axes in rows[-1]:
            axes.set_xlabel("batches")
        for axes in rows[:, -1]:
            end_labels(axes)
        grid = {"left": 0.15, "right": 0.985, "top": 0.375, "bottom": 0.045, "wspace": 0.06}
        below = figure.subplots(1, 2, sharey=True, gridspec_kw=grid)
        draw_rows(below, data, numbers)
    return figure


def draw_curves(axes: Axes, data: dict[str, Any], metric: str, epochs: str) -> None:
    """One metric against batches: in colour with bands, or in grey without."""
    steps = np.array(data["steps"])
    for name, surrogate in data["epochs"].items():
        mean, error = (np.array(surrogate[epochs]["curves"][metric][key]) for key in ("mean", "error"))
        if name not in SHOWN:
            axes.plot(steps, mean, color="0.75", linewidth=0.8, zorder=1)
            continue
        label, colour = SHOWN[name]
        axes.fill_between(steps, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.2, linewidth=0)
        axes.plot(steps, mean, color=colour, linewidth=1.2, label=label)


def draw_rows(below: Any, data: dict[str, Any], numbers: list[str]) -> None:
    """A row for each surrogate: retained mass at the level, and pass@1 after minibatches."""
    at_most = data["epochs"]
    order = sorted(at_most, key=lambda name: _retained(at_most[name], numbers[-1]))
    left, right = below
    for number, epochs in enumerate(numbers):
        draw_bars(
            left,
            dict(enumerate(order)),
            lambda name, epochs=epochs: at_most[name][epochs]["level"]["retained_mass"],
            number,
        )
    left.legend([f"{epochs} epoch{'s' * (epochs != '1')}" for epochs in numbers], loc="upper left", fontsize=7)
    left.set(xlabel=f"retained mass where pass@1 is {data['level']:g}", ylim=(-0.7, len(order) - 0.3))
    left.set_yticks(range(len(order)), order, fontsize=7)
    left.set_title("(d) at equal pass@1", loc="left")
    few = {row: name for row, name in enumerate(order) if name in data["minibatches"]}
    counts = list(next(iter(data["minibatches"].values())))
    for number, count in enumerate(counts):
        draw_bars(right, few, lambda name, count=count: data["minibatches"][name][count], number)
    right.legend([f"{count} minibatch{'es' * (count != '1')}" for count in counts], loc="center left", fontsize=7)
    right.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    right.set(xlabel="mean pass@1, less that of unclipped")
    right.set_title("(e) one epoch, prompts that share features", loc="left")
    for axes in below:
        axes.grid(axis="y", color="0.92", linewidth=0.6)


def _retained(surrogate: dict[str, Any], epochs: str) -> float:
    mean: float | None = surrogate[epochs]["level"]["retained_mass"]["mean"]
    return -1.0 if mean is None else mean


def draw_bars(axes: Axes, order: dict[int, str], of: Any, number: int) -> None:
    """A mean with its interval in the row of each surrogate that has one."""
    pairs = [(row, of(name)) for row, name in order.items() if of(name)["mean"] is not None]
    rows, numbers = zip(*pairs, strict=True)
    mean, error = (np.array([value[key] for value in numbers]) for key in ("mean", "error"))
    style = {"fmt": "osD"[number], "color": ("0.55", "C0", "C3")[number], "markersize": 3.5, "elinewidth": 0.9}
    axes.errorbar(mean, rows, xerr=1.96 * error, **style)


def table(data: dict[str, Any]) -> str:
    """Every surrogate where pass@1 is the level, at the most epochs, from the one that retains most down."""
    numbers = list(next(iter(data["epochs"].values())))
    most = numbers[-1]
    lines = [
        f"| {most} epochs | {' | '.join(READ.values())} | pass@1 at the end |",
        f"|---|{'---:|' * (len(READ) + 1)}",
    ]
    for name in sorted(data["epochs"], key=lambda name: -_retained(data["epochs"][name], most)):
        content = data["epochs"][name][most]
        end = {key: content["curves"]["pass_at_1"][key][-1] for key in ("mean", "error")}
        cells = [cell(content["level"][metric], 0 if metric == "step" else 3) for metric in READ]
        lines.append(f"| `{name}` | {' | '.join([*cells, cell(end, 3)])} |")
    return "\n".join(lines)


def cell(value: dict[str, Any], digits: int) -> str:
    """``.684(4)``: a mean and its standard error in units of the last digit; empty where a seed has no number."""
    if value["mean"] is None:
        return ""
    return f"{value['mean']:.{digits}f}({round(value['error'] * 10**digits)})".removeprefix("0")


def main(arguments: list[str]) -> None:
    """Condense results, or print the table of README.md."""
    condense_or_print(arguments, DATA, condense, table)


if __name__ == "__main__":
    main(sys.argv[1:])

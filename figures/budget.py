"""The best group size at equal cost, by budget, difficulty, shared features and the price of an update.

    simlab sweep --preset budget --out budget.nc          (ten minutes)
    python -m figures.budget budget.nc                    (condenses budget-difficulty.nc, ...)
    simlab figures budget                                 (draws from the condensed numbers kept here)

A run of a larger budget passes through the smaller ones, for the learning rate follows no schedule: each cost of one
sweep is a budget.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.best_size import at_own_rates, best_sizes
from figures.shared.condensed import keep, mean_and_error, provenance, results
from figures.shared.end_labels import end_labels
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "budget.json"
MESSAGE = "The best group size grows with the budget where hard prompts are being lost; interference is why"
DIFFERS = "Not in the papers: prompts that share features, in place of the language models of arXiv 2603.12151."
RECORDS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]  # of 128: at factors of 3/2 and 4/3
SHOWN_RATE = 0.01  # of the panels of one difficulty
CURVES = (2**14, 2**16, 2**18, 2**20)  # rollouts
BEST = {
    "difficulty": "features that overlap by 0.3",
    "apart": "features that do not overlap",
    "updates": "an update costs 256 rollouts",
}


def condense(path: Path) -> dict[str, Any]:
    """Curves and best sizes of every sweep."""
    sweeps = results("budget", path)
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "cost": shown_costs(sweeps["difficulty"]).tolist(),
        "sweeps": {
            name: {f"{rate:g}": condensed(sweeps[name].sel(hard_rate=rate)) for rate in sweeps[name].hard_rate.values}
            for name in BEST
        },
        "prompts": {
            "group_size": sweeps["prompts"]["group_size"].values.tolist(),
            "prompts_per_step": sweeps["prompts"]["prompts_per_step"].values.tolist(),
            "curves": [
                condensed(sweeps["prompts"].sel(prompts_per_step=prompts))["q_pos"]
                for prompts in sweeps["prompts"]["prompts_per_step"].values
            ],
        },
    }


def shown_costs(dataset: xr.Dataset) -> np.ndarray:
    """The costs that are shown."""
    costs: np.ndarray = dataset["cost"].values[RECORDS]
    return costs


def condensed(dataset: xr.Dataset) -> dict[str, Any]:
    """Q_pos of hard prompts of a problem by size and cost, the best sizes, and their gain over the smallest."""
    values = dataset["q_pos_by_kind"].sel(kind="hard", cost=shown_costs(dataset)).squeeze(drop=True)
    reached = at_own_rates(values.transpose("group_size", "learning_rate", "seed", "cost").values.astype(float))
    best, sizes = best_sizes(reached), dataset["group_size"].values
    of_best = reached[best.place, :, np.arange(len(best.place))]
    return {
        "group_size": sizes.tolist(),
        "q_pos": mean_and_error(reached.swapaxes(1, 2)),
        "best": sizes[best.place].tolist(),
        "lowest": [int(sizes[good].min()) for good in best.as_good.T],
        "highest": [int(sizes[good].max()) for good in best.as_good.T],
        "over_smallest": mean_and_error(of_best - reached[0].T),
    }


def draw(data: dict[str, Any]) -> Figure:
    """Curves against G, the best G in three settings, and its gain."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 9.0), layout="constrained")
        above, middle, below = figure.subfigures(3, 1, height_ratios=(1, 2.2, 1))
        draw_curves(above.subplots(), data)
        best = middle.subplots(len(BEST), 3, sharex=True, sharey=True)
        for row, (name, title), letter in zip(best, BEST.items(), "bcd", strict=True):
            draw_best(row, data, name)
            row[0].set_title(f"({letter}) {title}", loc="left")
        prompts, worth = below.subplots(1, 2)
        draw_prompts(prompts, data)
        draw_worth(worth, data)
        for axes in (*best[-1], worth):
            axes.set_xlabel("budget in rollouts")
    return figure


def banded(axes: Axes, x: Any, values: dict[str, Any], **style: Any) -> None:
    """A line in its 95 % band over seeds."""
    mean, error = (np.array(values[key], dtype=float) for key in ("mean", "error"))
    (line,) = axes.plot(x, mean, **style)
    axes.fill_between(x, mean - 1.96 * error, mean + 1.96 * error, color=line.get_color(), alpha=0.2, lw=0)


def draw_curves(axes: Axes, data: dict[str, Any]) -> None:
    """Q_pos of hard prompts against G at a few budgets."""
    problem = data["sweeps"]["difficulty"][f"{SHOWN_RATE:g}"]
    curves = problem["q_pos"]
    for number, cost in enumerate(CURVES):
        index = data["cost"].index(cost)
        chosen = {key: [row[index] for row in curves[key]] for key in ("mean", "error")}
        shade = mpl.colormaps["viridis"](0.85 - 0.28 * number)
        label = f"$2^{{{int(np.log2(cost))}}}$ rollouts"
        banded(axes, problem["group_size"], chosen, color=shade, marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="group size G", ylabel="$Q_{pos}$ of hard prompts", ylim=(-0.03, 1.03))
    axes.set_title(f"(a) hard prompts start at {SHOWN_RATE:g}", loc="left")
    end_labels(axes)


def extremes(data: dict[str, Any]) -> tuple[int, int]:
    """The smallest and the largest size of any sweep."""
    sizes = [size for sweep in data["sweeps"].values() for problem in sweep.values() for size in problem["group_size"]]
    return min(sizes), max(sizes)


def draw_best(row: Sequence[Axes], data: dict[str, Any], name: str) -> None:
    """The best size against the budget, in the range of sizes as good, a panel for each difficulty.

    Nothing is drawn where every size is as good. A bar is the range at a budget whose neighbours have none.
    """
    smallest, largest = extremes(data)
    for number, ((rate, problem), axes) in enumerate(zip(data["sweeps"][name].items(), row, strict=True)):
        best, low, high = (np.array(problem[key], dtype=float) for key in ("best", "lowest", "highest"))
        told = (low > problem["group_size"][0]) | (high < problem["group_size"][-1])
        best[~told], low[~told], high[~told] = np.nan, np.nan, np.nan
        axes.plot(data["cost"], best, color=f"C{number}", marker="o", markersize=3.5)
        axes.fill_between(data["cost"], low, high, color=f"C{number}", alpha=0.16, lw=0)
        axes.vlines(data["cost"], low, high, color=f"C{number}", alpha=0.5, lw=0.8)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set(ylim=(smallest / 1.6, largest * 1.6), xlim=(data["cost"][0] / 1.2, CURVES[-1] * 1.2))
        axes.annotate(
            f"start at {rate}", (0.97, 0.05), xycoords="axes fraction", color=f"C{number}", ha="right", fontsize=8
        )
    row[0].set_ylabel("best G")


def draw_prompts(axes: Axes, data: dict[str, Any]) -> None:
    """Q_pos of hard prompts at the whole budget against the prompts a step, for each G."""
    prompts, sizes = data["prompts"]["prompts_per_step"], data["prompts"]["group_size"]
    for number, size in enumerate(sizes):
        chosen = {key: [curve[key][number][-1] for curve in data["prompts"]["curves"]] for key in ("mean", "error")}
        shade = mpl.colormaps["plasma"](0.85 - 0.25 * number)
        banded(axes, prompts, chosen, color=shade, marker="o", label=f"G = {size}")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="prompts a step", ylabel="$Q_{pos}$ of hard prompts", ylim=(-0.03, 1.03))
    axes.set_title(f"(e) $2^{{20}}$ rollouts, start at {SHOWN_RATE:g}", loc="left")
    end_labels(axes)


def draw_worth(axes: Axes, data: dict[str, Any]) -> None:
    """The gain of the best size over the smallest."""
    for number, (rate, problem) in enumerate(data["sweeps"]["difficulty"].items()):
        banded(axes, data["cost"], problem["over_smallest"], color=f"C{number}", marker="o", markersize=3, label=rate)
    axes.set_xscale("log", base=2)
    axes.axhline(0, color="0.6", lw=0.8)
    axes.set_ylabel(f"gain in $Q_{{pos}}$ over G = {problem['group_size'][0]}")
    axes.set_title("(f) what the best G is worth in (b)", loc="left")
    end_labels(axes)


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    (path,) = arguments
    keep(DATA, condense(Path(path)))


if __name__ == "__main__":
    main(sys.argv[1:])

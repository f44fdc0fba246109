"""Ways to allocate the rollouts of a step, at equal cost: on a bank of prompts, and on prompts that share features.

    simlab sweep --preset allocation --out allocation.nc      (ten minutes)
    python -m figures.allocation allocation.nc                (condenses allocation-bank.nc, ...)
    simlab figures allocation                                 (draws from the condensed numbers kept here)

The group sizes of (e) and the shares of (f) are of exact solve rates, at the start of the bank.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.budget import banded
from figures.shared.best_size import at_own_rates
from figures.shared.condensed import keep, mean_and_error, provenance, results
from figures.shared.end_labels import end_labels
from simlab.plotting import STYLE
from simlab.problems import prompt_bank
from simlab.simulator.allocation import ALLOCATIONS, SIZED, USUAL_ROOM, group_sizes
from simlab.sweeps.presets import PRESETS

DATA = Path(__file__).parent / "data" / "allocation.json"
MESSAGE = "Where prompts share features, knapsack allocation wins hard prompts that even groups lose"
DIFFERS = "Not in the papers: their rules on a bank and on prompts that share features, in place of language models."
COLOURS = {name: f"C{number}" for number, name in enumerate(ALLOCATIONS)}
SHOWN_SHARE = 0.5  # of the budget, at which (d) compares
GROUP_SIZE, SMALLEST = 8, 2


def condense(path: Path) -> dict[str, Any]:
    """Curves of every allocation by cost, beside allocations that know the solve rates."""
    sweeps = results("allocation", path)
    data: dict[str, Any] = {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "cost": {name: sweeps[name]["cost"].values.tolist() for name in ("bank", "shared")},
        "gains": {},
        "curves": {},
    }
    bank = reached(sweeps["bank"]["q_pos"])
    data["gains"]["bank"] = gains(bank, bank["even"])
    data["gains"]["bank-exact"] = gains(reached(sweeps["bank-exact"]["q_pos"]), bank["even"])
    data["curves"]["bank"] = curves(bank)
    for rate in sweeps["shared"]["hard_rate"].values:
        estimated, exact = (
            reached(sweeps[name]["q_pos_by_kind"].sel(kind="hard", hard_rate=rate))
            for name in ("shared", "shared-exact")
        )
        data["curves"][f"shared {rate:g}"] = curves(estimated)
        data["gains"][f"shared {rate:g}"] = gains(estimated, estimated["even"])
        data["gains"][f"shared {rate:g}-exact"] = gains(exact, estimated["even"])
    return data


def reached(values: xr.DataArray) -> dict[str, np.ndarray]:
    """(seeds, costs) of each allocation, at the learning rate that the other seeds choose."""
    ordered = values.squeeze(drop=True).transpose("allocation", "learning_rate", "seed", "cost")
    chosen = at_own_rates(ordered.values.astype(float))
    return dict(zip(ordered["allocation"].values.tolist(), chosen, strict=True))


def curves(values: dict[str, np.ndarray]) -> dict[str, Any]:
    """Means over seeds."""
    return {name: mean_and_error(runs.T) for name, runs in values.items()}


def gains(values: dict[str, np.ndarray], reference: np.ndarray) -> dict[str, Any]:
    """The gain of each allocation over a reference, seed by seed."""
    return {name: mean_and_error((runs - reference).T) for name, runs in values.items() if runs is not reference}


def draw(data: dict[str, Any]) -> Figure:
    """Three problems by cost, what exact solve rates are worth, and how the rules deal out rollouts."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 8.6), layout="constrained")
        above, *rows = figure.subfigures(4, 1, height_ratios=(1, 0.95, 0.95, 1))
        draw_gains(above.subplots(), data)
        hard = [name for name in data["curves"] if name != "bank"]
        for row, name, letter in zip(rows, hard, "bc", strict=False):
            panels = row.subplots(1, len(data["curves"][name]) - 1, sharex=True, sharey=True)
            draw_curves(panels, data, name)
            start = f"({letter}) hard prompts that start at {name.rpartition(' ')[2]}"
            row.suptitle(start, x=0.01, ha="left", fontsize=mpl.rcParams["axes.titlesize"])
        exact, sizes, shares = rows[-1].subplots(1, 3)
        draw_exact(exact, data)
        draw_sizes(sizes)
        draw_shares(shares)
    return figure


def thousands(costs: list[float]) -> np.ndarray:
    """Costs in thousands of rollouts."""
    return np.array(costs) / 1000


def draw_gains(axes: Axes, data: dict[str, Any]) -> None:
    """The gain of each allocation over even groups on the bank."""
    axes.axhline(0, color=COLOURS["even"], lw=1.4)
    for name, gain in data["gains"]["bank"].items():
        banded(axes, thousands(data["cost"]["bank"]), gain, color=COLOURS[name], label=name)
    axes.set(xlabel="cost in thousands of rollouts", ylabel="gain in $Q_{pos}$ over even groups")
    axes.set_title("(a) a bank of prompts apart", loc="left")
    end_labels(axes, size=7.5)


def draw_curves(panels: Sequence[Axes], data: dict[str, Any], name: str) -> None:
    """Q_pos of hard prompts by cost, each rule in a panel with even groups."""
    curves = data["curves"][name]
    for axes, rule in zip(panels, (rule for rule in curves if rule != "even"), strict=True):
        for allocation in ("even", rule):
            banded(axes, thousands(data["cost"]["shared"]), curves[allocation], color=COLOURS[allocation])
        axes.set_title(rule, loc="left", fontsize=8)
        axes.set(xlabel="thousands of rollouts", ylim=(-0.03, 1.03))
        axes.xaxis.label.set_fontsize(8)
    panels[0].set_ylabel("$Q_{pos}$, hard prompts")


def draw_exact(axes: Axes, data: dict[str, Any]) -> None:
    """Gains over even groups at a share of the budget, by estimated and by exact solve rates."""
    problems = [name for name in data["gains"] if not name.endswith("-exact")]
    rules = list(data["gains"]["bank-exact"])
    for row, problem in enumerate(problems):
        costs = data["cost"][problem.partition(" ")[0]]
        index = round(SHOWN_SHARE * (len(costs) - 1))
        for number, rule in enumerate(rules):
            for exact, marker, shift in (("", "o", -0.06), ("-exact", "D", 0.06)):
                gain = data["gains"][problem + exact][rule]
                x = row + 0.25 * (number - 1) + shift
                mean, error = gain["mean"][index], 1.96 * gain["error"][index]
                style = {"color": COLOURS[rule], "markerfacecolor": "white" if exact else COLOURS[rule]}
                axes.errorbar(x, mean, error, fmt=marker, markersize=4.5, lw=1, **style)
    axes.axhline(0, color="0.6", lw=0.8)
    axes.set_xticks(range(len(problems)), [name.replace("shared ", "shared,\n") for name in problems])
    axes.set_ylabel("gain at half of the cost")
    axes.tick_params(axis="x", labelsize=7.5)
    axes.set_title("(d) open: by exact rates", loc="left")


def bank_rates() -> np.ndarray:
    """The solve rates at which the preset's bank starts."""
    settings = PRESETS["allocation"]["bank"]["parameters"]
    assert not any(name.startswith("problem.") for name in settings)
    return prompt_bank().solve_rates


def sizes_of(rule: str, rates: np.ndarray) -> np.ndarray:
    """The rollouts of each prompt, 8 in the mean."""
    if rule not in SIZED:
        return np.full(len(rates), GROUP_SIZE)
    return np.asarray(group_sizes(rule, jnp.asarray(rates, jnp.float32), GROUP_SIZE, SMALLEST, USUAL_ROOM * GROUP_SIZE))


def draw_sizes(axes: Axes) -> None:
    """Group sizes by solve rate, all prompts of the bank being sampled."""
    rates = bank_rates()
    for rule in ("even", *SIZED):
        axes.plot(rates, sizes_of(rule, rates), color=COLOURS[rule], marker=".", drawstyle="steps-mid", label=rule)
    axes.set(xlabel="solve rate of a prompt", ylabel="rollouts of its group", ylim=(0, 24))
    axes.set_yticks(range(0, 25, 4))
    axes.set_title("(e) group sizes", loc="left")
    end_labels(axes, size=7.5)


def share_with_signal(rates: np.ndarray, sizes: np.ndarray) -> float:
    """The expected share of rollouts in a group with both outcomes."""
    mixed = 1 - rates**sizes - (1 - rates) ** sizes
    return float((sizes * mixed).sum() / sizes.sum())


def draw_shares(axes: Axes) -> None:
    """The expected share of rollouts that teach anything at the start of the bank, by rule."""
    rates = bank_rates()
    rules = ("even", *SIZED)
    shares = [share_with_signal(rates, sizes_of(rule, rates)) for rule in rules]
    bars = axes.bar(range(len(rules)), shares, color=[COLOURS[rule] for rule in rules], width=0.6)
    axes.bar_label(bars, [f"{share:.2f}" for share in shares], fontsize=8)
    axes.set_xticks(range(len(rules)), rules)
    axes.set(ylabel="share of rollouts", ylim=(0, 1))
    axes.set_title("(f) in mixed groups", loc="left")


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    (path,) = arguments
    keep(DATA, condense(Path(path)))


if __name__ == "__main__":
    main(sys.argv[1:])

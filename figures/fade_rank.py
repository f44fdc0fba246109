"""FADE's rank-1 funnel, and its control: diverse failures or successes ``[fade:prop-15.1]``.

    simlab sweep --preset fade-rank --out rank.nc
    python -m figures.fade_rank rank.nc   (condenses rank-sgd.nc and its four siblings)
    simlab figures fade_rank              (draws from the condensed numbers kept here)

Runs are compared at equal Q_pos, and at the end. Bars and bands are 95 % of the mean over seeds; comparisons are seed
by seed. ``figures/fade_rank_steps.py`` draws single steps from the same numbers.
"""

import itertools
import json
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

from figures.shared.condensed import keep, mean_and_error, provenance, results
from simlab.columns import at_equal_mass
from simlab.plotting import DASHES, STYLE

DATA = Path(__file__).parent / "data" / "fade_rank.json"
MESSAGE = "Failure bias brings updates nearer to rank 1 only where failures alone are diverse, and early"
DIFFERS = (
    "A linear softmax with shared features in place of a language model's output head, with a control that makes "
    "the successes diverse."
)
LEVELS = np.array([0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9])
WAY = (0.8, 0.95)  # the Q_pos between which single steps are averaged
LATE = slice(-10, None)  # the records of the last 100 steps
SINGLE_STEPS = (
    "update_leading_share",
    "gradient_alignment",
    "gradient_direction_alignment",
    "update_alignment",
    "residual_correlation_correct",
    "residual_correlation_failed",
    "own_effect",
    "cross_effect",
)
BALANCED = 1.0
DIVERSITIES = {
    (8, 1): ("diverse failures", "C1", "o"),
    (1, 8): ("diverse successes", "C0", "^"),
    (8, 8): ("both diverse", "C2", "s"),
    (1, 1): ("neither diverse", "C6", "v"),
}

Seeds = dict[str, np.ndarray]
Deltas = dict[float, Seeds]


def condense(path: Path) -> dict[str, Any]:
    """Every delta in every setting, alone and less delta 1."""
    sweeps = results("fade-rank", path)
    cells = [cell for name, dataset in sweeps.items() for cell in _cells(name, dataset)]
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "levels": LEVELS.tolist(),
        "cells": [where | _compared(deltas) for where, deltas in cells],
    }


def _cells(sweep: str, dataset: xr.Dataset) -> Iterator[tuple[dict[str, Any], Deltas]]:
    """Every setting of a sweep, and its runs by delta."""
    parameters = json.loads(dataset.attrs["configuration"])["parameters"]
    names = [name for name in dataset["q_pos"].dims if name not in ("seed", "step", "delta", "estimator", "group_size")]
    alone = dataset.isel(estimator=0, group_size=0)
    for index in itertools.product(*(range(dataset.sizes[name]) for name in names)):
        runs = alone.isel(dict(zip(names, index, strict=True)))
        fixed = {name: parameters[f"problem.{name}"][0] for name in ("failure_modes", "success_modes")}
        where = {"sweep": sweep} | fixed | {name: runs[name].item() for name in names}
        yield where, {float(delta): _by_seed(runs.sel(delta=delta)) for delta in runs["delta"].values}


def _by_seed(runs: xr.Dataset) -> Seeds:
    """The quantities of one delta, seeds first."""
    runs = runs.transpose("seed", "step", ...)
    q_pos, share = runs["q_pos"].values, runs["leading_share"].values
    numbers: Seeds = {f"final_{name}": runs[name].values[:, -1] for name in ("q_pos", "leading_share", "singular_gap")}
    numbers |= {"leading_share_at": at_equal_mass(q_pos, share, LEVELS).T}
    gap = at_equal_mass(q_pos, runs["singular_gap"].values, LEVELS)[-1]
    numbers |= {"singular_gap_at": gap, "steps": at_equal_mass(q_pos, _steps(runs), LEVELS)[-1]}
    underway = (q_pos >= WAY[0]) & (q_pos < WAY[1])
    for name in SINGLE_STEPS:
        numbers[name] = _mean(np.where(underway, runs[name].values, np.nan))
        numbers[f"late_{name}"] = _mean(runs[name].values[:, LATE])
    ratio = _ratio(runs["residual_norm_failed"].values, runs["residual_norm_correct"].values)
    over = _ratio(ratio, runs["residual_norm_ratio_predicted"].values)
    for name, values in (("residual_ratio", ratio), ("residual_ratio_over_predicted", over)):
        numbers[name] = _median(np.where(underway, values, np.nan))
    return numbers | {"cross_over_own": numbers["cross_effect"] / numbers["own_effect"]}


def _steps(runs: xr.Dataset) -> np.ndarray:
    return np.broadcast_to(runs["step"].values, runs["q_pos"].shape).astype(float)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The ratio, infinite where only ``below`` is 0, as is the residual of a batch whose gradient has rank 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return above / below


def _median(values: np.ndarray) -> np.ndarray:
    """Median over the records, the last axis, that have a number, infinity among them; NaN without one."""
    return np.array([np.median(row[~np.isnan(row)]) if not np.isnan(row).all() else np.nan for row in values])


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the records, the last axis, that have a number; NaN without one."""
    there = np.isfinite(values)
    count = there.sum(axis=-1)
    return np.where(count, np.where(there, values, 0).sum(axis=-1) / np.maximum(count, 1), np.nan)


def _compared(deltas: Deltas) -> dict[str, Any]:
    """Means over seeds, and differences from delta 1 seed by seed."""
    balanced = deltas[BALANCED]
    return {
        "delta": list(deltas),
        "means": {name: [_condensed(numbers[name]) for numbers in deltas.values()] for name in balanced},
        "over_balanced": {
            name: [_condensed(numbers[name] - balanced[name]) for numbers in deltas.values()] for name in balanced
        },
        "failure_over_success_bias": {
            name: _condensed(deltas[min(deltas)][name] - deltas[max(deltas)][name]) for name in balanced
        },
    }


def _condensed(values: np.ndarray) -> dict[str, Any]:
    return mean_and_error(np.moveaxis(values, 0, -1))


def draw(data: dict[str, Any]) -> Figure:
    """The share of the leading direction along training, and what each bias adds to it in every setting."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        panels = figure.subplots(1, 3)
        for axes, modes, letter in ((panels[0], (8, 1), "a"), (panels[1], (1, 8), "b")):
            _draw_paths(axes, cell_of(data, "sgd", modes, "shared"))
            _title(axes, letter, f"{DIVERSITIES[modes][0]}, SGD")
        panels[1].sharey(panels[0])
        _draw_settings(panels[2], data)
        _title(panels[2], "c", r"$r_1$ less that of $\delta$ = 1")
        title = r"(c): filled, $\delta$ = .3; open, $\delta$ = 3"
        figure.legend(handles=marks(), loc="outside lower center", ncols=len(DIVERSITIES), title=title)
    return figure


def marks() -> list[Line2D]:
    """A mark for each kind of diversity."""
    return [
        Line2D([], [], color=colour, marker=marker, ms=4, label=label) for label, colour, marker in DIVERSITIES.values()
    ]


def _title(axes: Axes, letter: str, text: str) -> None:
    axes.set_title(f"({letter}) {text}", loc="left")


def cell_of(data: dict[str, Any], sweep: str, modes: tuple[int, int], answers: str | None = None) -> dict[str, Any]:
    """The setting of a sweep with these modes and answers."""
    (setting,) = (
        cell
        for cell in data["cells"]
        if cell["sweep"] == sweep
        and (cell["failure_modes"], cell["success_modes"]) == modes
        and cell.get("answers") == answers
    )
    return setting


def _draw_paths(axes: Axes, cell: dict[str, Any]) -> None:
    """r1 against Q_pos along training."""
    shown = (0.3, 1.0, 3.0)
    for delta, colour, dashes in zip(shown, ("C3", "C6", "C4"), DASHES, strict=False):
        share = cell["means"]["leading_share_at"][cell["delta"].index(delta)]
        mean, half = np.array(share["mean"], dtype=float), 1.96 * np.array(share["error"], dtype=float)
        axes.plot(LEVELS, mean, dashes, color=colour, label=f"$\\delta = {delta:g}$")
        axes.fill_between(LEVELS, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
    axes.set(xlabel="$Q_{pos}$", ylabel="$r_1$ of $W - W_0$", ylim=(0.5, 1.0))
    axes.legend()


def last(value: Any) -> float:
    """A number, or the last of a list; NaN for none."""
    value = value[-1] if isinstance(value, list) else value
    return np.nan if value is None else value


_ROWS = {
    "SGD": ("sgd", {"answers": "shared"}),
    "own answers": ("sgd", {"answers": "own"}),
    "Adam": ("adam", {}),
    "full batch": ("batch", {}),
    "overlap .3": ("overlap", {"shared": 0.3}),
    "overlap 3": ("overlap", {"shared": 3.0}),
}


def _draw_settings(axes: Axes, data: dict[str, Any]) -> None:
    """r1 of either bias less that of balance at equal Q_pos, in every setting; open: success bias."""
    for cell in data["cells"]:
        row = next(
            index
            for index, (sweep, where) in enumerate(_ROWS.values())
            if cell["sweep"].startswith(sweep) and where.items() <= cell.items()
        )
        modes = cell["failure_modes"], cell["success_modes"]
        _, colour, marker = DIVERSITIES[modes]
        offset = 0.18 * (list(DIVERSITIES).index(modes) - 1.5)
        for delta, face in ((0.3, colour), (3.0, "white")):
            less = cell["over_balanced"]["leading_share_at"][cell["delta"].index(delta)]
            style = {"color": colour, "marker": marker, "markerfacecolor": face, "ls": "", "ms": 3.5, "lw": 1}
            axes.errorbar(last(less["mean"]), row + offset, xerr=1.96 * last(less["error"]), **style)
    axes.axvline(0, color="0.6", lw=0.6, zorder=0)
    axes.set_yticks(range(len(_ROWS)), list(_ROWS), fontsize=7)
    axes.set_ylim(len(_ROWS) - 0.5, -0.5)
    axes.set(xlabel=f"difference at $Q_{{pos}}$ = {LEVELS[-1]:g}")


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])

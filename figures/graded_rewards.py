"""Rewards in parts: a format, tests passed, a length, a rubric, and a check that can be hacked, under three weights.

    simlab sweep --preset graded-rewards --out graded-rewards.nc    (minutes)
    python -m figures.graded_rewards graded-rewards.nc              (condenses graded-rewards-format.nc, ...)
    python -m figures.graded_rewards --table                        (prints the tables of README.md)
    simlab figures graded_rewards                                   (draws from what is kept here)

Bands are 95 % intervals of the mean over seeds.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.budget import banded
from figures.shared.condensed import condense_or_print, mean_and_error, number_and_error, provenance, results
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "graded_rewards.json"
MESSAGE = "What is easy is learned first, and the std of a group undoes the small weight of a part"
DIFFERS = "Not in the papers: graded rewards and rewards in parts, under mean GRPO, GRPO and GDPO."
PRESET = "graded-rewards"
ARMS = {"dr_grpo+reinforce": "mean GRPO", "grpo+reinforce": "GRPO", "gdpo+reinforce": "GDPO"}
MEAN, USUAL, APART = ARMS
# The parameter of each sweep, and the pass@1 at which runs are compared.
SWEEPS = {
    "format": ("format_weight", 0.5), "tests-by-token": ("credit", 0.5), "tests-apart": ("credit", 0.5),
    "length": ("penalty", 0.6), "rubric": (None, 0.5), "hack": ("hack_weight", 0.5), "placebo": ("reward", 0.5),
}  # fmt: skip
EVERY = 4  # one record in four is kept
DASHES = {0: "-", 1: "--", 2: ":", 3: "-."}


def condense(path: Path) -> dict[str, Any]:
    """Curves of every cell, and its numbers where pass@1 first is at the sweep's level."""
    data: dict[str, Any] = {"provenance": []}
    for name, sweep in results(PRESET, path).items():
        parameter, level = SWEEPS[name]
        data["provenance"].append(provenance(sweep))
        values = [None] if parameter is None else sweep[parameter].values.tolist()
        data[name] = {"step": sweep["step"].values[::EVERY].tolist(), "parts": sweep["part"].values.tolist()}
        for arm, value in itertools.product(ARMS, values):
            cell = sweep.sel(arm=arm) if value is None else sweep.sel({"arm": arm, parameter: value})
            data[name][_key(arm, value)] = of_cell(cell.squeeze(drop=True), level)
    return data


def _key(arm: str, value: float | str | None = None) -> str:
    return arm if value is None else f"{arm} {value}"


def of_cell(cell: xr.Dataset, level: float) -> dict[str, Any]:
    """Means and errors over seeds; null at a level that some seed does not reach."""
    q_pos, target = (cell[name].transpose("seed", "step").values for name in ("q_pos", "target_mass"))
    steps = np.broadcast_to(cell["step"].values.astype(float), q_pos.shape)
    rewards = cell["part_reward"].transpose("part", "step", "seed").values[:, ::EVERY]
    return {
        "pass_at_1": mean_and_error(q_pos.T[::EVERY]),
        "parts": mean_and_error(rewards),
        "step_at_level": mean_and_error(at_equal_mass(q_pos, steps, np.array([level]))[0]),
        "target_at_level": mean_and_error(at_equal_mass(q_pos, target, np.array([level]))[0]),
        "pass_at_1_at_end": mean_and_error(q_pos[:, -1]),
        "parts_at_end": mean_and_error(rewards[:, -1]),
    }


def draw(data: dict[str, Any]) -> Figure:
    """Curves of all problems under GRPO, and of the rubric under GDPO too."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 5.2), layout="constrained")
        panels = figure.subplots(2, 3)
        titles = ("format", "tests passed", "length penalty", "rubric: GRPO", "rubric: GDPO", "hack")
        draws = (_draw_format, _draw_tests, _draw_length, _draw_rubric(USUAL), _draw_rubric(APART), _draw_hack)
        for axes, letter, title, draw_panel in zip(panels.flat, "abcdef", titles, draws, strict=True):
            draw_panel(axes, data)
            axes.set_title(f"({letter}) {title}", loc="left")
            crowded = letter in "abf"  # the legend stands above the curves
            axes.set(xlabel="step", ylim=(-0.03, 1.75 if crowded else 1.03), yticks=np.linspace(0, 1, 6))
            axes.legend(loc="upper left" if crowded else "best", ncols=1 + (letter == "f"), columnspacing=0.8)
    return figure


def _curve(axes: Axes, sweep: dict[str, Any], key: str, index: int | None = None, **style: Any) -> None:
    curve = sweep[key]["pass_at_1"] if index is None else sweep[key]["parts"]
    values = {name: np.array(curve[name] if index is None else curve[name][index], float) for name in ("mean", "error")}
    banded(axes, np.array(sweep["step"]), values, **style)


def _draw_format(axes: Axes, data: dict[str, Any]) -> None:
    for number, weight in enumerate((0.0, 1.0)):
        key = _key(MEAN, weight)
        for index, name in enumerate(data["format"]["parts"]):
            label = f"{name}, weight {weight:g}"
            _curve(axes, data["format"], key, index, color=f"C{index}", linestyle=DASHES[1 - number], label=label)


def _draw_tests(axes: Axes, data: dict[str, Any]) -> None:
    for colour, (name, label) in enumerate((("tests-by-token", "shared steps"), ("tests-apart", "nothing shared"))):
        for number, credit in enumerate((0.0, 1.0)):
            text = f"{label}, {'tests' if credit else 'all or nothing'}"
            _curve(axes, data[name], _key(USUAL, credit), color=f"C{colour}", linestyle=DASHES[1 - number], label=text)


def _draw_length(axes: Axes, data: dict[str, Any]) -> None:
    for number, penalty in enumerate((0.0, 0.3, 0.6)):
        _curve(axes, data["length"], _key(MEAN, penalty), color=f"C{number}", label=f"penalty {penalty:g}")
    axes.set_ylabel("pass@1")


def _draw_rubric(arm: str) -> Any:
    def panel(axes: Axes, data: dict[str, Any]) -> None:
        for index, name in enumerate(data["rubric"]["parts"]):
            _curve(axes, data["rubric"], arm, index, color=f"C{index}", label=name)

    return panel


def _draw_hack(axes: Axes, data: dict[str, Any]) -> None:
    for number, weight in enumerate((0.1, 0.2, 0.5)):
        for arm, style in ((MEAN, "-"), (USUAL, "--")):
            label = f"{'mean' if arm == MEAN else ARMS[arm]}, {weight:g}"
            _curve(axes, data["hack"], _key(arm, weight), color=f"C{number}", linestyle=style, label=label)
    axes.set_ylabel("pass@1, by weight")


def table(data: dict[str, Any]) -> str:
    """Every cell: pass@1 and parts at the end, and steps and the target's mass at the level of its sweep."""
    lines = ["| sweep | weight | steps to the level | target mass there | pass@1 at the end | parts at the end |"]
    lines.append("|---|---|---:|---:|---:|---|")
    for name, (parameter, level) in SWEEPS.items():
        for key, cell in data[name].items():
            if key in ("step", "parts"):
                continue
            arm, _, value = key.partition(" ")
            text = f"{name}" + (f", {parameter} = {value}" if parameter else "") + f", at {level:g}"
            ends = zip(data[name]["parts"], cell["parts_at_end"]["mean"], cell["parts_at_end"]["error"], strict=True)
            rewards = ", ".join(f"{reward} {number_and_error(mean, error)}" for reward, mean, error in ends)
            cells = [text, ARMS[arm], number_and_error(*cell["step_at_level"].values(), digits=0)]
            cells += [number_and_error(*cell[what].values()) for what in ("target_at_level", "pass_at_1_at_end")]
            lines.append(f"| {' | '.join([*cells, rewards])} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here, or print the table."""
    condense_or_print(arguments, DATA, condense, table)


if __name__ == "__main__":
    main(sys.argv[1:])

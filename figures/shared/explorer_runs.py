"""Compute the runs and tables that the explorer shows in advance, and write them, in minutes.

The command is ``python -m figures.shared.explorer_runs``; ``simlab.explore.in_advance`` reads what it writes.
"""

import bz2
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.explore.controls import (
    AXES,
    EQUAL_ROLLOUTS,
    MAPPED,
    PICTURE_SETTINGS,
    PROMPTS,
    controls_of_panel,
    hold_panel,
    rounded,
    run_settings,
)
from simlab.explore.in_advance import DIGITS, LINKED, LINKED_SIZES, LINKED_TABLES, RUNS, table_in_advance
from simlab.explore.panel_runs import BLOCK_SEEDS, moments, simulate_panel
from simlab.explore.presets import PRESETS, WARM
from simlab.explore.weights import parameters_of
from simlab.files import write_whole
from simlab.grammar import Term, write

RUN_SEEDS = {"run": 16, "interference": 8, "tree": 32, "bank": 8}  # seeds of each run, by its panel
RUN_RECORDS = {"run": 25, "interference": 16}  # about the number of records stored of a run
MAPPED_METRICS = ("pass_at_1", "pass_at_16", "pass_at_256")  # for interfering prompts, which only maps show in advance
DRAWN = (2**16, 2**18)  # rollouts of the maps at equal rollouts, read at fewer too
SPREAD_DIGITS = 2  # digits of ``m2``: a standard error within 3 %, which 16 seeds know to 18 %

RunSettings = dict[str, Any]


def runs_to_compute() -> Iterator[tuple[str, RunSettings]]:
    """Yield the runs of the map as it opens, then those of the presets with their pins and their maps, each once.

    Interfering prompts have ``interference_paths`` instead.
    """
    views = list(map_cells({}))
    for panel, view in (shown for shown in WARM if shown[0] != "interference"):
        views += [(panel, dict(view)), *((panel, pinned) for pinned in pinned_runs(panel, view))]
    maps = [preset.settings for preset in PRESETS.values() if preset.panel == "map"]
    views += [cell for view in maps for rollouts in DRAWN for cell in map_cells({**view, "rollouts": rollouts})]
    unique: dict[str, tuple[str, RunSettings]] = {}
    for panel, settings in views:
        changed = changed_settings(panel, settings)
        unique.setdefault(json.dumps([panel, changed], sort_keys=True), (panel, changed))
    yield from unique.values()


def map_cells(view: Mapping[str, Any]) -> Iterator[tuple[str, RunSettings]]:
    """Yield the runs of a map's cells, as ``cellRun`` of the page makes them; with gamma on an axis, of GRPO.

    At equal rollouts it draws all of the view's, which are one of ``DRAWN``, as ``drawnRollouts`` of the page.
    """
    values = {name: control.default for name, control in controls_of_panel("map").items()} | dict(view)
    panel = MAPPED[values["problem"]]
    shared = {name: values[name] for name in run_settings(panel) if name in values}
    down, across = values["down"], values["across"]
    for y, x in itertools.product(AXES[down].values, AXES[across].values):
        cell = {AXES[axis].setting: focal(at) if axis == "gamma" else at for axis, at in ((down, y), (across, x))}
        if values["length"] == EQUAL_ROLLOUTS:
            cell["steps"] = values["rollouts"] // (PROMPTS[panel] * (shared | cell)["group_size"])
        yield panel, shared | cell


def focal(gamma: float) -> str:
    """Return GRPO with the focal weight, as the page writes it."""
    return write(Term("f_grpo", (("gamma", gamma), ("base", "grpo"))))


def pinned_runs(panel: str, view: Mapping[str, Any]) -> list[RunSettings]:
    """Return the runs that a view of a panel pins."""
    controls = controls_of_panel(panel)
    text = view.get("pinned", controls["pinned"].default if "pinned" in controls else "")
    types: dict[str, Any] = {"whole": int, "number": float}
    runs = [dict(pair.split("=", 1) for pair in run.split("&")) for run in text.split(";") if run]
    return [{name: types.get(controls[name].kind, str)(value) for name, value in run.items()} for run in runs]


def changed_settings(panel: str, settings: Mapping[str, Any]) -> RunSettings:
    """Return those settings of a run that differ from the defaults of its panel."""
    defaults = {name: control.default for name, control in controls_of_panel(panel).items()}
    return {k: value for k, value in settings.items() if k not in PICTURE_SETTINGS and value != defaults[k]}


def compute_run(panel: str, settings: RunSettings) -> RunSettings:
    """Return the result of a run over its seeds, thinned and rounded."""
    settings, _ = hold_panel(panel, settings)
    firsts = range(settings["seed"], settings["seed"] + RUN_SEEDS[panel], BLOCK_SEEDS)
    blocks = [simulate_panel(panel, settings, first, lambda _: None) for first in firsts]
    opening = [changed_settings("run", run) for run in ({}, *pinned_runs("run", {}))]
    with_seeds = panel == "run" and changed_settings(panel, settings) in opening
    every = max((len(blocks[0]["step"]) - 1) // RUN_RECORDS[panel], 1) if panel in RUN_RECORDS else 1

    def joined(pieces: list[RunSettings]) -> RunSettings:
        metrics = {}
        for name in MAPPED_METRICS if panel == "interference" else pieces[0]:
            values = np.array([row for piece in pieces for row in piece[name]["values"]], dtype=float)
            summary = moments(values[:, ::every])
            summary["m2"] = rounded(summary["m2"], SPREAD_DIGITS)
            metrics[name] = {key: value for key, value in summary.items() if with_seeds or key != "values"}
        return metrics

    result = blocks[0] | {"seeds": RUN_SEEDS[panel], "step": blocks[0]["step"][::every]}
    if panel == "tree":
        for name, method in result["methods"].items():
            method["metrics"] = joined([block["methods"][name]["metrics"] for block in blocks])
    else:
        result["metrics"] = joined([block["metrics"] for block in blocks])
    if result.get("theory"):
        result["theory"] = {name: values[::every] for name, values in result["theory"].items()}
    return dict(rounded(result, DIGITS))


def linked_tables() -> Iterator[dict[str, Any]]:
    """Yield the tables of all linked choices, with numbers such as gamma at their defaults."""
    parameters = parameters_of(LINKED)
    defaults = {key: parameter.default for key, parameter in parameters.items()}
    choices = {key: parameter.choices for key, parameter in parameters.items() if parameter.choices}
    for values in itertools.product(*choices.values()):
        try:
            yield table_in_advance(LINKED, defaults | dict(zip(choices, values, strict=True)), LINKED_SIZES)
        except InputError:  # it reads more than the rewards of a step
            continue


def main() -> None:
    """Compute all runs and tables, and write them."""
    runs = []
    for panel, settings in runs_to_compute():
        runs.append({"panel": panel, "settings": settings, "result": compute_run(panel, settings)})
        print(len(runs), panel, settings, flush=True)
    write_whole(RUNS, bz2.compress(_written(runs)))  # a wheel's own packing leaves a third more
    write_whole(LINKED_TABLES, _written([*linked_tables()]))


def _written(content: list[dict[str, Any]]) -> bytes:
    return (json.dumps(content, separators=(",", ":")) + "\n").encode()


if __name__ == "__main__":
    main()

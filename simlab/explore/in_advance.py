"""Keep what was computed in advance: the page shows runs at once, and an exported page has no other answers.

``python -m simlab.explore.in_advance`` writes it anew, in minutes; ``figures.interference_map --explorer`` the map, and
``figures.shared.explorer_paths`` the paths of interfering prompts.
"""

import functools
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.explore.answers import BANK_SETTINGS, answer_bank
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
from simlab.explore.masses import RATES, group_masses, has_masses, limit_curve, push_of, with_pass_at_k
from simlab.explore.presets import PRESETS, WARM
from simlab.explore.weights import SEPARATOR, WeightParameter, parameters_of, read_weight, write_weight
from simlab.files import write_whole
from simlab.grammar import Term, write

RUNS = Path(__file__).with_name("in_advance.json")
MAP = Path(__file__).with_name("interference_map.json")
PATHS = Path(__file__).with_name("interference_paths.json")
LINKED_TABLES = Path(__file__).with_name("linked_tables.json")
RUN_SEEDS = {"run": 16, "interference": 8, "tree": 32, "bank": 8}  # of each run, by its panel
RUN_RECORDS = {"run": 25, "interference": 16}  # about as many records of a run are stored
MAPPED_METRICS = ("pass_at_1", "pass_at_16", "pass_at_256")  # of interfering prompts, which only maps show in advance
DRAWN = (2**16, 2**18)  # of the maps at equal rollouts, read at fewer too
DIGITS = 4
SPREAD_DIGITS = 2  # of ``m2``: a standard error within 3 %, which 16 seeds know to 18 %
SIZES, LINKED_SIZES = (2, 4, 8, 16, 32, 64), (4, 8, 16)  # of groups whose masses are computed
STOPS = 9  # about so many values of a parameter have masses
STEPS = (0.1, 0.25, 0.5, 1, 5)  # between these
LINKED = "linked"

RunSettings = dict[str, Any]


@functools.cache
def in_advance() -> list[dict[str, Any]]:
    """Return the runs: ``panel``, ``settings`` other than its defaults, ``result``; few hold values of single seeds."""
    runs: list[dict[str, Any]] = json.loads(RUNS.read_text(encoding="utf-8"))
    for run in runs:
        if run["result"].get("theory"):
            run["result"]["theory"] = with_pass_at_k(run["result"]["theory"])
    return runs


@functools.cache
def interference_map() -> dict[str, Any]:
    """Return the maps of interference, numbers of thousands of runs.

    Runs are read at the ``level`` of pass@1, at each of ``k`` and ``overlap`` (C,). Each of ``maps`` has a ``label``,
    ``settings``, the ``setting`` of its rows with (R,) ``values``; pass@k less the base model's, (R, C) ``mean`` and
    ``error``; the ``crossing``, k from which on it is below; ``threshold`` (R, 2), the edges by theory. Null: none.
    """
    maps: dict[str, Any] = json.loads(MAP.read_text(encoding="utf-8"))
    return maps


@functools.cache
def interference_paths() -> dict[str, Any]:
    """Return paths of pass@k at ``levels`` (L,) of pass@1, means over ``seeds``, of runs that have ``shared`` settings.

    Each representation and optimiser has its learning rate in ``rates`` and its ``paths``, by ``group_size``,
    ``hard_rate`` and ``weights``: ``mean`` and ``half`` (k, L), thousandths, of pass@k and of its 95 % band, and the
    ``step`` (L,). A list ends where not all seeds reach a level; None: the base model is beyond it. ``base`` is the
    base model's pass@k by ``hard_rate``. Lists of k begin at 1, those of a path after it.
    """
    paths: dict[str, Any] = json.loads(PATHS.read_text(encoding="utf-8"))
    return paths


# Runs


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
    # Compiling code is needed here alone.
    from simlab.explore.panel_runs import BLOCK_SEEDS, moments, simulate_panel  # noqa: PLC0415

    settings, _ = hold_panel(panel, settings)
    firsts = range(settings["seed"], settings["seed"] + RUN_SEEDS[panel], BLOCK_SEEDS)
    blocks = [simulate_panel(panel, settings, first, lambda _: None) for first in firsts]
    opening = [changed_settings("run", run) for run in ({}, *pinned_runs("run", {}))]
    with_seeds = panel == "run" and changed_settings(panel, settings) in opening
    every = max((len(blocks[0]["step"]) - 1) // RUN_RECORDS[panel], 1) if panel in RUN_RECORDS else 1

    def joined(parts: list[RunSettings]) -> RunSettings:
        metrics = {}
        for name in MAPPED_METRICS if panel == "interference" else parts[0]:
            values = np.array([row for part in parts for row in part[name]["values"]], dtype=float)
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


# Answers


def answers_in_advance() -> dict[str, Any]:
    """Return what an exported page holds: ``masses`` by estimator, and ``bank`` questions with their answers."""
    tables = {name: [*tables_in_advance(name)] for name in sorted(filter(has_masses, REGISTRY)) if name != LINKED}
    tables[LINKED] = json.loads(LINKED_TABLES.read_text(encoding="utf-8"))
    banks = {}
    for run in in_advance():
        if run["panel"] == "bank":
            settings = hold_panel("bank", run["settings"])[0]
            question = {name: settings[name] for name in (*BANK_SETTINGS, "rare_modes")}
            banks[json.dumps(question)] = {"question": question, "answer": rounded(answer_bank(question), 5)}
    return {"masses": tables, "bank": [*banks.values()]}


def tables_in_advance(name: str) -> Iterator[dict[str, Any]]:
    """Yield the tables of an estimator: each parameter at its stops or choices, the others at their defaults."""
    defaults = {key: parameter.default for key, parameter in parameters_of(name).items()}
    variants = [defaults]
    for key, parameter in parameters_of(name).items():
        variants += [defaults | {key: value} for value in (parameter.choices or _stops(key, parameter))]
    usual = controls_of_panel("masses")["pinned"].default
    views = [preset.settings for preset in PRESETS.values() if preset.panel == "masses"]
    texts = [str(view.get(key, usual)) for view in views for key in ("weight", "pinned")]
    for text in filter(None, SEPARATOR.join(texts).split(SEPARATOR)):
        estimator_name, parameters = read_weight(text)
        variants += [defaults | parameters] if estimator_name == name else []
    for parameters in {write_weight(name, parameters): parameters for parameters in variants}.values():
        yield table_in_advance(name, parameters, SIZES)


def table_in_advance(name: str, parameters: dict[str, Any], sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return one table of an estimator, as ``answers_in_advance`` has it."""

    def sides(success: np.ndarray, failure: np.ndarray) -> dict[str, Any]:
        return {"success": success, "failure": None if np.array_equal(success, failure, equal_nan=True) else failure}

    limit = limit_curve(name, tuple(parameters.items()))
    groups = {}
    for size in sizes:
        masses = group_masses(name, size, REGISTRY[name].parameters | parameters)
        groups[str(size)] = sides(*masses) | {"push": push_of(*(limit or (np.arange(size + 1) / size, *masses)))}
    rates = limit and (limit[0] if len(limit[0]) > len(RATES) else None)
    table = {"parameters": parameters, "limit": limit and {"rates": rates, **sides(*limit[1:])}, "groups": groups}
    return dict(rounded(table, DIGITS))


def _stops(key: str, parameter: WeightParameter) -> list[float]:
    """Return about ten values of a slider, round ones if it is linear; of gamma twice as many."""
    low, high = parameter.low, parameter.high
    if parameter.whole or parameter.scale == "log":
        values = np.geomspace(low, high, STOPS)
        return sorted({round(value) if parameter.whole else float(f"{value:.3g}") for value in values})
    step = 0.5 if key == "gamma" and high > 1 else next(step for step in STEPS if (high - low) / step <= STOPS + 1)
    counts = range(math.ceil(low / step), math.floor(high / step) + 1)
    return sorted({low, *(round(step * count, 2) for count in counts)})


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
    for path, content in ((RUNS, runs), (LINKED_TABLES, [*linked_tables()])):
        write_whole(path, (json.dumps(content, separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    main()

"""Keep what was computed in advance: the page shows runs at once, and an exported page has no other answers.

``python -m figures.shared.explorer_runs`` writes runs and tables anew, in minutes; ``figures.interference_map
--explorer`` the map, and ``figures.shared.explorer_paths`` the paths of interfering prompts.
"""

import bz2
import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simlab.estimators import REGISTRY
from simlab.explore.answers import BANK_SETTINGS, answer_bank
from simlab.explore.controls import controls_of_panel, hold_panel, rounded
from simlab.explore.masses import RATES, group_masses, has_masses, limit_curve, push_of, with_pass_at_k
from simlab.explore.presets import PRESETS
from simlab.explore.weights import SEPARATOR, WeightParameter, parameters_of, read_weight, write_weight

RUNS = Path(__file__).with_name("in_advance.json.bz2")
MAP = Path(__file__).with_name("interference_map.json")
PATHS = Path(__file__).with_name("interference_paths.json")
LINKED_TABLES = Path(__file__).with_name("linked_tables.json")
DIGITS = 4
SIZES, LINKED_SIZES = (2, 4, 8, 16, 32, 64), (4, 8, 16)  # of groups whose masses are computed
STOPS = 9  # about so many values of a parameter have masses
STEPS = (0.1, 0.25, 0.5, 1, 5)  # between these
LINKED = "linked"


@functools.cache
def in_advance() -> list[dict[str, Any]]:
    """Return the runs: ``panel``, ``settings`` other than its defaults, ``result``; few hold values of single seeds."""
    runs: list[dict[str, Any]] = json.loads(bz2.decompress(RUNS.read_bytes()))
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

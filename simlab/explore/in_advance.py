"""Keep runs that were computed in advance: the page shows them at once, and an exported page has no others.

python -m simlab.explore.in_advance   (writes in_advance.json anew, in minutes)

The map of interference is written by ``python -m figures.interference_map --explorer``.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simlab.explore.controls import AXES, MAPPED, PICTURE_SETTINGS, controls_of_panel, rounded, run_settings
from simlab.explore.drift import with_pass_at_k
from simlab.explore.presets import PRESETS, WARM
from simlab.files import write_whole
from simlab.grammar import Term, write

RUNS = Path(__file__).with_name("in_advance.json")
MAP = Path(__file__).with_name("interference_map.json")
RUN_SEEDS = {"run": 16, "interference": 8, "tree": 32, "bank": 8}  # of each run, by its panel
RUN_RECORDS = {"run": 25, "interference": 20}  # about as many records of a run are stored
DIGITS = 4

RunSettings = dict[str, Any]


@functools.cache
def in_advance() -> list[dict[str, Any]]:
    """Return the runs: ``panel``, those ``settings`` that differ from the panel's defaults, and the ``result``.

    A result is that of the panel's simulation over all its seeds. The values of single seeds take room: only the runs
    that the Simulation opens with hold them, its sliders' run and the one it pins, so that these are compared without
    a server too.
    """
    runs: list[dict[str, Any]] = json.loads(RUNS.read_text(encoding="utf-8"))
    for run in runs:
        if run["result"].get("theory"):
            run["result"]["theory"] = with_pass_at_k(run["result"]["theory"])
    return runs


@functools.cache
def interference_map() -> dict[str, Any]:
    """Return the maps of interference, numbers of thousands of runs.

    Returns:
        The ``level`` of pass@1 at which every run is read, ``k``, and (C,) ``overlap``; and of each of the ``maps`` its
        ``label``, the panel's ``settings`` in all of its cells (others are at their defaults), the ``setting`` that its
        rows differ in, their (R,) ``values``, and of pass@k less the base model's (R, C) ``mean`` and standard
        ``error``, both null where not all seeds reach the level. ``crossing`` is the k from which on pass@k is below
        the base model's, and ``threshold`` (R, 2) the edge by theory, of negative and of positive overlaps, or null.
    """
    maps: dict[str, Any] = json.loads(MAP.read_text(encoding="utf-8"))
    return maps


# The runs


def runs_to_compute() -> Iterator[tuple[str, RunSettings]]:
    """Yield the runs of the map as it opens, then those of the presets with their pins and their maps, each once."""
    views = list(map_cells({}))
    for panel, view in WARM:
        views += [(panel, dict(view)), *((panel, pinned) for pinned in pinned_runs(panel, view))]
    views += [cell for preset in PRESETS.values() if preset.panel == "map" for cell in map_cells(preset.settings)]
    unique: dict[str, tuple[str, RunSettings]] = {}
    for panel, settings in views:
        changed = changed_settings(panel, settings)
        unique.setdefault(json.dumps([panel, changed], sort_keys=True), (panel, changed))
    yield from unique.values()


def map_cells(view: Mapping[str, Any]) -> Iterator[tuple[str, RunSettings]]:
    """Yield the runs of a map's cells, as ``cellRun`` of the page makes them; with gamma on an axis, of GRPO."""
    values = {name: control.default for name, control in controls_of_panel("map").items()} | dict(view)
    panel = MAPPED[values["problem"]]
    shared = {name: values[name] for name in run_settings(panel) if name in values}
    down, across = values["down"], values["across"]
    for y in AXES[down].values:
        for x in AXES[across].values:
            cell = {AXES[axis].setting: focal(at) if axis == "gamma" else at for axis, at in ((down, y), (across, x))}
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
    controls = controls_of_panel(panel)
    return {
        name: value
        for name, value in settings.items()
        if name not in PICTURE_SETTINGS and value != controls[name].default
    }


# Their results


def compute_run(panel: str, settings: RunSettings) -> RunSettings:
    """Return the result of a run over its seeds, thinned and rounded."""
    from simlab.explore.block import BLOCK_SEEDS  # noqa: PLC0415  # compiling code is needed here alone
    from simlab.explore.panel_runs import SIMULATIONS  # noqa: PLC0415
    from simlab.explore.panel_settings import hold_panel  # noqa: PLC0415

    settings, _ = hold_panel(panel, settings)
    firsts = range(settings["seed"], settings["seed"] + RUN_SEEDS[panel], BLOCK_SEEDS)
    blocks = [SIMULATIONS[panel](settings, first, lambda _: None) for first in firsts]
    result = blocks[0] | {"seeds": RUN_SEEDS[panel]}
    if panel == "tree":
        for name, method in result["methods"].items():
            method["metrics"] = _joined([block["methods"][name]["metrics"] for block in blocks], with_seeds=False)
    else:
        opening = [changed_settings("run", run) for run in ({}, *pinned_runs("run", {}))]
        with_seeds = panel == "run" and changed_settings(panel, settings) in opening
        result["metrics"] = _joined([block["metrics"] for block in blocks], with_seeds=with_seeds)
    return dict(rounded(_thinned(result, RUN_RECORDS[panel]) if panel in RUN_RECORDS else result, DIGITS))


def _joined(blocks: list[RunSettings], *, with_seeds: bool) -> RunSettings:
    from simlab.explore.block import moments  # noqa: PLC0415

    joined = {}
    for name in blocks[0]:
        values = np.array([row for block in blocks for row in block[name]["values"]], dtype=float)
        joined[name] = {key: value for key, value in moments(values).items() if with_seeds or key != "values"}
    return joined


def _thinned(result: RunSettings, records: int) -> RunSettings:
    every = max((len(result["step"]) - 1) // records, 1)
    metrics = {
        name: {
            key: [row[::every] for row in side] if key == "values" else side[::every] for key, side in metric.items()
        }
        for name, metric in result["metrics"].items()
    }
    theory = {name: values[::every] for name, values in (result.get("theory") or {}).items()}
    return result | {"step": result["step"][::every], "metrics": metrics} | ({"theory": theory} if theory else {})


def main() -> None:
    """Compute all runs and write them."""
    runs = []
    for panel, settings in runs_to_compute():
        runs.append({"panel": panel, "settings": settings, "result": compute_run(panel, settings)})
        print(len(runs), panel, settings, flush=True)
    write_whole(RUNS, (json.dumps(runs, separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    main()

"""Keep runs that were computed in advance: what the page shows at once, and all that an exported page has.

python -m simlab.explore.in_advance   (writes in_advance.json anew, in minutes)
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simlab.explore.axes import AXES
from simlab.explore.controls import BY_NAME, MAPPED, OF_THE_PICTURE, names_of_runs, settings_of
from simlab.explore.presets import PRESETS, WARM
from simlab.files import write_whole
from simlab.grammar import Term, write

RUNS = Path(__file__).with_name("in_advance.json")
SEEDS = {"run": 16, "interference": 8, "tree": 32, "bank": 8}  # of each run, by its panel
RECORDS = {"run": 25, "interference": 20}  # that are kept of a run
DIGITS = 4

Settings = dict[str, Any]


@functools.cache
def in_advance() -> list[dict[str, Any]]:
    """The runs: ``panel``, those ``settings`` that differ from the panel's defaults, and the ``result`` over its seeds.

    A result is that of the panel's simulation. It holds the values of single seeds, which take room, only of what the
    Simulation opens with: its sliders' run and the one it pins, so that these are compared without a server too.
    """
    found: list[dict[str, Any]] = json.loads(RUNS.read_text(encoding="utf-8"))
    return found


def wanted() -> Iterator[tuple[str, Settings]]:
    """The runs of the map as it opens, then those of the presets with what they pin and of their maps, each once."""
    asked = list(map_cells({}))
    for panel, view in WARM:
        asked += [(panel, dict(view)), *((panel, pinned) for pinned in pinned_runs(panel, view))]
    asked += [cell for preset in PRESETS.values() if preset.panel == "map" for cell in map_cells(preset.settings)]
    seen = set()
    for panel, settings in asked:
        own = differing(panel, settings)
        key = json.dumps([panel, own], sort_keys=True)
        if key not in seen:
            seen.add(key)
            yield panel, own


def map_cells(view: Mapping[str, Any]) -> Iterator[tuple[str, Settings]]:
    """The runs of a map's cells, as ``cellRun`` of the page makes them; with gamma on an axis, the weight is GRPO."""
    own = {name: BY_NAME[f"map.{name}"].default for name in settings_of("map")} | dict(view)
    panel = MAPPED[own["problem"]]
    shared = {name: own[name] for name in names_of_runs(panel) if name in own}
    down, across = own["down"], own["across"]
    for y in AXES[down].values:
        for x in AXES[across].values:
            placed = {AXES[axis].setting: focal(at) if axis == "gamma" else at for axis, at in ((down, y), (across, x))}
            yield panel, shared | placed


def focal(gamma: float) -> str:
    """GRPO with the focal weight, as the page writes it."""
    return write(Term("f_grpo", (("gamma", gamma), ("base", "grpo"))))


def pinned_runs(panel: str, view: Any) -> list[Settings]:
    """The runs that a view of a panel pins."""
    text = view.get("pinned", BY_NAME[f"{panel}.pinned"].default if f"{panel}.pinned" in BY_NAME else "")
    runs = [dict(pair.split("=", 1) for pair in run.split("&")) for run in text.split(";") if run]
    return [{name: _typed(panel, name, value) for name, value in run.items()} for run in runs]


def _typed(panel: str, name: str, text: str) -> Any:
    kind = BY_NAME[f"{panel}.{name}"].kind
    return {"whole": int, "number": float}.get(kind, str)(text)


def differing(panel: str, settings: Settings) -> Settings:
    """Those settings of a run that differ from the defaults of its panel."""
    return {
        name: value
        for name, value in settings.items()
        if name not in OF_THE_PICTURE and value != BY_NAME[f"{panel}.{name}"].default
    }


def computed(panel: str, settings: Settings) -> Settings:
    """The result of a run over its seeds, thinned and rounded."""
    from simlab.explore.jobs import SIMULATED  # noqa: PLC0415  # it needs JAX, which the server does without
    from simlab.explore.settings import hold_panel  # noqa: PLC0415
    from simlab.explore.shapes import SEEDS as BLOCK  # noqa: PLC0415

    held, _ = hold_panel(panel, settings)
    blocks = [SIMULATED[panel](held, held["seed"] + first, lambda _: None) for first in range(0, SEEDS[panel], BLOCK)]
    if panel == "tree":
        joined = blocks[0] | {"methods": {name: _joined_method(name, blocks) for name in blocks[0]["methods"]}}
    else:
        joined = blocks[0] | {
            "metrics": _joined([block["metrics"] for block in blocks], seeds=is_paired(panel, settings))
        }
    joined["seeds"] = SEEDS[panel]
    return dict(_rounded(_thinned(joined, RECORDS[panel]) if panel in RECORDS else joined))


def is_paired(panel: str, settings: Settings) -> bool:
    """Whether a run is of those that the Simulation opens with, whose seeds are kept."""
    return panel == "run" and differing(panel, settings) in [
        differing("run", run) for run in ({}, *pinned_runs("run", {}))
    ]


def _joined_method(name: str, blocks: list[Settings]) -> Settings:
    own = [block["methods"][name] for block in blocks]
    return {"metrics": _joined([one["metrics"] for one in own], seeds=False), "policies": own[0]["policies"]}


def _joined(blocks: list[Settings], *, seeds: bool) -> Settings:
    import numpy as np  # noqa: PLC0415

    from simlab.explore.moments import moments  # noqa: PLC0415

    found = {}
    for name in blocks[0]:
        values = np.array([row for block in blocks for row in block[name]["values"]], dtype=float)
        found[name] = {key: value for key, value in moments(values).items() if seeds or key != "values"}
    return found


def _thinned(result: Settings, most: int) -> Settings:
    every = max((len(result["step"]) - 1) // most, 1)
    metrics = {
        name: {key: [row[::every] for row in kept] if key == "values" else kept[::every] for key, kept in own.items()}
        for name, own in result["metrics"].items()
    }
    thinned = {"step": result["step"][::every], "metrics": metrics}
    theory = {name: values[::every] for name, values in (result.get("theory") or {}).items()}
    return result | thinned | ({"theory": theory} if theory else {})


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(own) for key, own in value.items()}
    return [_rounded(own) for own in value] if isinstance(value, (list, tuple)) else value


def main() -> None:
    """Compute all runs and write them."""
    runs = []
    for panel, settings in wanted():
        runs.append({"panel": panel, "settings": settings, "result": computed(panel, settings)})
        print(len(runs), panel, settings, flush=True)
    write_whole(RUNS, (json.dumps(runs, separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    main()

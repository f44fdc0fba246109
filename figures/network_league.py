"""Every weight where prompts share a linear head or a network: pass@256 at equal pass@1, by optimiser and solve rate.

    simlab sweep --preset network-league --out network-league.nc       (about two hours on two cores)
    python -m figures.network_league network-league.nc                 (condenses)
    python -m figures.network_league --table [COLUMN=VALUE ...]        (prints the rows, best first, tab-separated)
    simlab figures network_league                                      (draws from what is kept here)

The learning rate is chosen on half of the seeds and judged on the other half.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xarray as xr

from figures.shared.chosen import judge
from figures.shared.condensed import decoded, keep, provenance, results, rounded

DATA = Path(__file__).parent / "data" / "network_league.json"
PRESET = "network-league"
LEVELS = (0.25, 0.3, 0.35, 0.4, 0.45)  # of pass@1; with half of the prompts easy, .5 is where these are solved
CONDITIONS = ("representation", "optimizer", "group_size", "hard_rate", "prompts", "prompts_per_step")
COLUMNS = (*CONDITIONS, "method", "beside", "level", "pass@256", "error", "step", "learning_rate", "base")
USUAL_PROMPTS = 32
BESIDE = ("entropy_bonus", "kl", "supervised", "epochs")  # what a rival has beside its weight


def conditions(name: str, dataset: xr.Dataset) -> dict[str, Any]:
    """Return the conditions of a sweep that all its cells share."""
    sweep = decoded(dataset.attrs["configuration"])
    fixed = {key.partition(".")[2]: values[0] for key, values in sweep["parameters"].items() if len(values) == 1}
    rate = "log-uniform" if fixed.get("solve_rates") == "log-uniform" else 0.01
    prompts = USUAL_PROMPTS
    shared = {"representation": name.split("-")[-2], "optimizer": sweep["optimizer"], "hard_rate": rate}
    return (
        shared
        | {"prompts": prompts, "prompts_per_step": fixed.get("prompts_per_step", 0)}
        | {key: fixed[key] for key in BESIDE if key in fixed}
    )


def rows(name: str, dataset: xr.Dataset) -> Iterator[dict[str, Any]]:
    """Yield a row for each method, condition and level of a sweep, with the learning rate that is best there."""
    shared = conditions(name, dataset)
    curves = dataset.pass_at_k
    others = [dim for dim in curves.dims if dim not in ("learning_rate", "seed", "step", "k")]
    for cell in curves.stack(cell=others).transpose("cell", "k", "learning_rate", "seed", "step"):
        labels = {dim: cell[dim].item() for dim in others}
        values = {k: cell.sel(k=k).values for k in (1, 256)}
        own = shared | {key: labels[key] for key in labels if key in (*CONDITIONS, *BESIDE)}
        beside = ", ".join(f"{key} = {own.pop(key):g}" for key in BESIDE if key in own)
        method = str(labels["arm"]).removesuffix("+reinforce")
        base = rounded(values[256][:, :, 0].mean(), 4)
        for level in LEVELS:
            best = judge(values[1], values[256], dataset.step.values, level)
            numbers = (None,) * 4 if best is None else (
                rounded(best.mean, 4), rounded(best.error, 2), rounded(best.step, 3),
                float(cell.learning_rate.values[best.setting]),
            )  # fmt: skip
            named = dict(zip(("pass@256", "error", "step", "learning_rate"), numbers, strict=True))
            yield own | {"method": method, "beside": beside, "level": level, "base": base} | named


def condense(path: Path) -> dict[str, Any]:
    """Return the columns of all rows, with the provenance of all sweeps."""
    sweeps = results(PRESET, path)
    table = [row for name, dataset in sweeps.items() for row in rows(name, dataset)]
    columns = {column: [row[column] for row in table] for column in COLUMNS}
    return {"provenance": [provenance(dataset) for dataset in sweeps.values()], "columns": columns}


def selected(data: dict[str, Any], conditions: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows whose columns have these values, the largest pass@256 first."""
    columns = data["columns"]
    every = (dict(zip(COLUMNS, row, strict=True)) for row in zip(*(columns[name] for name in COLUMNS), strict=True))
    chosen = [row for row in every if all(str(row[name]) == value for name, value in conditions.items())]
    return sorted(chosen, key=lambda row: -(row["pass@256"] or 0))


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as tab-separated text, with a heading."""
    lines = ["\t".join("" if row[name] is None else str(row[name]) for name in COLUMNS) for row in rows]
    return "\n".join(["\t".join(COLUMNS), *lines])


def main(arguments: list[str]) -> None:
    """Condense results, or print the rows that are kept."""
    if arguments[:1] == ["--table"]:
        wanted = dict(argument.split("=", 1) for argument in arguments[1:])
        print(table(selected(json.loads(DATA.read_text()), wanted)))
    else:
        keep(DATA, condense(*map(Path, arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])

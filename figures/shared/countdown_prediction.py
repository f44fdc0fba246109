"""Predict from the problem of interference which weights keep countdown's pass@64, before any of them is trained.

    simlab sweep --preset interference-countdown --out predicted.nc   (a quarter of an hour)
    python -m figures.shared.countdown_prediction predicted.nc        (condenses, prints the prediction)

Neither the overlap of a network's prompts nor the plain step that a step of AdamW amounts to is known, so that each is
swept; a prediction is the smallest interval that holds those of all settings. Arms are compared at the pass@1 that GRPO
has where its pass@64 has first fallen by a given amount, which a model that is trained has too, at another pass@1.
Settings at which GRPO's pass@64 does not fall so much say nothing of who avoids the fall and are left out.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from figures.shared.avoided import at_gain, gain_at_fall, share, verdict
from figures.shared.condensed import keep, provenance, results, rounded

DATA = Path(__file__).parent.parent / "data" / "countdown_prediction.json"
PRESET = "interference-countdown"
FALLS = (0.1, 0.2)  # falls of GRPO's pass@64, from .9 of the base model
SETTINGS = ("overlap", "learning_rate")
Runs = dict[str, tuple[np.ndarray, np.ndarray]]  # pass@1 and pass@64 of each arm, (seeds, records)


def predicted(sweeps: dict[str, xr.Dataset], fall: float) -> dict[str, Any]:
    """Return for each arm the smallest interval that holds its intervals at all settings, and their number."""
    by_arm: dict[str, list[tuple[float, float, float]]] = {}
    for runs in settings(sweeps):
        gain = gain_at_fall(*runs["grpo"], fall)
        at = {arm: at_gain(*curves, gain) for arm, curves in runs.items()}
        if np.isnan(at["grpo"]).any():
            continue
        for arm, values in at.items():
            if arm != "grpo" and not np.isnan(values).any():
                by_arm.setdefault(arm, []).append(share(values, at["grpo"], runs["grpo"][1][:, 0]))
    return {arm: _hull(np.array(shares)) for arm, shares in by_arm.items()}


def _hull(shares: np.ndarray) -> dict[str, Any]:
    low, high = shares[:, 1].min(), shares[:, 2].max()
    numbers = {"low": rounded(low, 3), "high": rounded(high, 3), "median": rounded(np.median(shares[:, 0]), 3)}
    return numbers | {"settings": len(shares), "verdict": verdict(low, high)}


def settings(sweeps: dict[str, xr.Dataset]) -> Iterator[Runs]:
    """The runs of all arms at each overlap and learning rate."""
    for values in itertools.product(*(sweeps["weights"][name].values.tolist() for name in SETTINGS)):
        at = dict(zip(SETTINGS, values, strict=True))
        yield {arm: curves for name, data in sweeps.items() for arm, curves in _arms(name, data.sel(at))}


def _arms(name: str, dataset: xr.Dataset) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """The arms of one sweep, named as those of the training."""
    for arm in dataset.arm.values.tolist() if "arm" in dataset.dims else [None]:
        curves = dataset.pass_at_k if arm is None else dataset.pass_at_k.sel(arm=arm)
        curves = curves.squeeze([dim for dim in curves.dims if dim not in ("seed", "step", "k")])
        curves = curves.transpose("k", "seed", "step")
        yield named(name, arm), (curves.sel(k=1).values, curves.sel(k=64).values)


def named(sweep: str, arm: str | None) -> str:
    """``"G = 2"`` for a group size, ``"kl"`` and ``"entropy"`` for these, and the arm itself for weights."""
    kind, _, size = sweep.partition("-")
    return f"G = {size}" if size else arm if kind == "weights" and arm else kind


def table(data: dict[str, Any]) -> str:
    """The prediction, as a table."""
    lines = ["| arm | " + " | ".join(f"share of a fall by {fall} | predicted" for fall in data["falls"]) + " |"]
    lines.append("|---|" + "---:|---|" * len(data["falls"]))
    for arm in dict.fromkeys(arm for numbers in data["predicted"] for arm in numbers):
        cells = [_cell(numbers.get(arm)) for numbers in data["predicted"]]
        lines.append(f"| `{arm}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    return f"{row['low']:.2f} to {row['high']:.2f} | {row['verdict']}" if row else " | does not gain so much"


def main(arguments: list[str]) -> None:
    """Condense the results of the preset if they are given; print the prediction."""
    if arguments:
        sweeps = results(PRESET, Path(arguments[0]))
        content = {"provenance": [provenance(dataset) for dataset in sweeps.values()], "falls": FALLS}
        keep(DATA, content | {"predicted": [predicted(sweeps, fall) for fall in FALLS]})
    print(table(json.loads(DATA.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])

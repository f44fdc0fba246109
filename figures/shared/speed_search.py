"""Search the best speeds that a class of information allows, on sampled groups, and confirm them on other seeds.

    python -m figures.shared.speed_search CLASS PRICE [NORM]     (three minutes; adds to what figures/frontier.py draws)

CLASS is ``group_only``, ``with_history`` or ``with_rates`` (``figures.shared.speed_classes``). The search lowers
the mean of log2(rollouts) + PRICE (1 - pass@256), both where pass@1 first reaches the level, of prompts that overlap by
.3 on a linear head. Steps have the norm NORM, or the best one without it. The search is the cross-entropy method: a
normal law of the parameters, refitted to the best quarter of each generation, whose runs share their seeds.
"""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from figures import frontier
from figures.shared import speed_classes
from figures.shared.condensed import keep, rounded
from simlab.arms import parse
from simlab.columns import at_equal_mass
from simlab.identity import code_fingerprint, commit, versions
from simlab.problems.interference import interference
from simlab.simulator.runner import run
from simlab.simulator.settings import Settings

CONDITION, OVERLAP, GROUP_SIZE, PROMPTS, LEVEL = "linear-0.3", 0.3, 8, 32, 0.45
STEPS = np.arange(4, 1025, 4)
CANDIDATES, BEST, GENERATIONS, SEEDS, FRESH = 16, 4, 24, 3, 10_000
JUDGES = range(500, 516)
SPREAD = {"power": 0.5, "threshold": 0.2, "steep": 8.0, "decay": 0.1, "norm": 0.7}  # at the first generation; c has 2
BOUNDS: dict[str, tuple[float, float]] = {
    "threshold": (0.01, 1.5),
    "steep": (0.0, 60.0),
    "decay": (0.0, 0.98),
    "power": (-1.0, 4.0),
    "norm": (-6.5, 2.0),
}
FIRST = {"norm": float(np.log2(0.6)), "steep": 8.0}


def parameters_of(name: str, norm: float | None) -> dict[str, float]:
    """Return the parameters of a class at the start of a search; the norm as its logarithm if it is free."""
    signature = inspect.signature(getattr(speed_classes, name)).parameters
    start = {key: float(each.default) for key, each in signature.items()}
    # A first law that favours few successes, as weights of pass@k do.
    start |= {key: 1.5 - 1.5 * int(key[1:]) for key in start if key[0] == "c"}
    return {key: FIRST.get(key, value) for key, value in (start | ({"norm": 0.0} if norm is None else {})).items()}


def settings_of(name: str, values: dict[str, float], norm: float | None) -> Settings:
    """Return the settings of a run."""
    parameters = {key: value for key, value in values.items() if key != "norm"}
    text = ", ".join(f"{key}={value:.5g}" for key, value in parameters.items())
    arm = parse(f"{Path(speed_classes.__file__)}:{name}({text})+reinforce")
    shared: dict[str, Any] = dict(optimizer="sgd", optimizer_parameters={"learning_rate": 1.0}, pass_at_k=(1, 256))
    return Settings(arm, GROUP_SIZE, update_norm=2.0 ** values["norm"] if norm is None else norm, **shared)


def outcomes(each: list[Settings], seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """Return (settings, seeds) rollouts to the level and pass@256 there; what does not get there costs twice all."""
    records = run(interference(overlap=OVERLAP), [entry for entry in each for _ in seeds], [*seeds] * len(each), STEPS)
    first, passed = np.moveaxis(np.asarray(records["pass_at_k"], float), -1, 0)
    cost = np.broadcast_to(np.append(0, STEPS) * GROUP_SIZE * PROMPTS, first.shape).astype(float)
    rollouts, there = (at_equal_mass(first, values, np.array([LEVEL]))[0] for values in (cost, passed))
    missed = np.isnan(rollouts)
    rollouts[missed] = 2 * cost[missed, -1] * (1 + LEVEL - first[missed].max(axis=-1))
    there[missed] = passed[missed, -1]
    return rollouts.reshape(len(each), -1), there.reshape(len(each), -1)


def search(name: str, price: float, norm: float | None) -> dict[str, float]:
    """Return the parameters at which the cross-entropy method ends."""
    start = parameters_of(name, norm)
    keys, centre = list(start), np.array(list(start.values()))
    spread = np.array([SPREAD.get(key, 2.0) for key in keys])
    low, high = np.transpose([BOUNDS.get(key, (-8.0, 8.0)) for key in keys])
    random = np.random.default_rng(0)
    for generation in range(GENERATIONS):
        drawn = np.clip(centre + spread * random.standard_normal((CANDIDATES, len(keys))), low, high)
        drawn[0] = centre
        seeds = range(FRESH + SEEDS * generation, FRESH + SEEDS * (generation + 1))
        each = [settings_of(name, dict(zip(keys, map(float, row), strict=True)), norm) for row in drawn]
        rollouts, passed = outcomes(each, seeds)
        loss = (np.log2(rollouts) + price * (1 - passed)).mean(axis=1)
        chosen = drawn[np.argsort(loss)[:BEST]]
        centre = 0.5 * centre + 0.5 * chosen.mean(axis=0)
        spread = np.maximum(0.8 * spread + 0.2 * chosen.std(axis=0), 0.01)
        at = f"{rollouts[0].mean():.0f} rollouts, {passed[0].mean():.3f}"
        print(generation, f"{loss[0]:.3f} {loss.min():.3f}", at, np.round(centre, 2).tolist(), flush=True)
    return dict(zip(keys, map(float, centre), strict=True))


def added(data: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """Return the frontier's numbers with a point of a search and what made it, in place of one of the same search."""
    which = [point[key] for key in ("class", "price", "norm")]
    made: dict[str, Any] = {"code": code_fingerprint(), "dtype": "float32", "platform": "cpu", "versions": versions()}
    made["commit"] = commit(Path(__file__), Path(speed_classes.__file__))
    made["configuration"] = {"search": which}
    others = [other for other in data.get("classes", []) if [other[key] for key in ("class", "price", "norm")] != which]
    origins = [origin for origin in data["provenance"] if origin["configuration"] != made["configuration"]]
    return data | {"classes": [*others, point], "provenance": [*origins, made]}


def main(arguments: list[str]) -> None:
    """Search, judge on other seeds, and add the point to the frontier's numbers."""
    name, price, norm = arguments[0], float(arguments[1]), float(arguments[2]) if len(arguments) > 2 else None
    values = search(name, price, norm)
    rollouts, passed = outcomes([settings_of(name, values, norm)], JUDGES)
    point: dict[str, Any] = {"class": name, "price": price, "norm": norm}
    point["parameters"] = {key: rounded(value, 4) for key, value in values.items()}
    point |= {"rollouts": rounded(rollouts[0], 6), "kept": rounded(passed[0], 5)}
    keep(frontier.DATA, added(json.loads(frontier.DATA.read_text()), point))
    print(f"{rollouts.mean():.0f} rollouts, pass@256 {passed.mean():.4f}, from {passed.min():.4f}", values)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Judge weights at equal pass@1 under two optimisers, against a prediction that was committed before the runs.

The rule. A method has several learning rates; for each seed the one counts that is best on average over the other
seeds, among the rates at which all seeds reach the level. A difference is that of pass@64 from GRPO's under the same
optimiser, each at its own rate and where its pass@1 has first gained as much; paired by seed, with Student's interval.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from figures.shared.avoided import at_gain
from simlab.intervals import half_width
from simlab.llm.training.settings import TrainingSettings

FOLDER = Path(__file__).parents[1] / "data"
PREDICTION, OF_TASKS = (FOLDER / f"weights_by_{what}_prediction.json" for what in ("optimizer", "task"))
TRAINED, HELD_OUT = "trained", "held out"  # the problems of countdown that are evaluated
READ = ("pass@1", "pass@64")
OPTIMIZERS = ("adamw", "sgd")
BETWEEN = "adamw less sgd"
Intervals = dict[str, dict[str, list[float]]]


def prediction(task: str) -> dict[str, Any]:
    """Return what was committed before the runs of a task, with the gains of pass@1 at which optimisers are judged."""
    countdown: dict[str, Any] = json.loads(PREDICTION.read_text())
    if task in countdown["judged_at"]:
        return countdown | {"judged_at": dict.fromkeys(OPTIMIZERS, countdown["judged_at"][task])}
    others: dict[str, dict[str, Any]] = json.loads(OF_TASKS.read_text())
    return countdown | others[task]


def of_arm(name: str) -> tuple[str, str]:
    """Return method and optimiser of an arm."""
    method, _, settings = name.partition("@optimizer=")
    return method, settings.partition("@")[0]


def read_options(arguments: list[str], first: dict[str, dict[str, Any]]) -> argparse.Namespace:
    """Read what a script of runs is told: the ``first`` arguments, then seeds, and an optimiser if one is named."""
    parser = argparse.ArgumentParser()
    for name, kind in first.items():
        parser.add_argument(name, **kind)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--optimizer", choices=OPTIMIZERS)
    return parser.parse_args(arguments)


def arms_of(settings: TrainingSettings, optimizer: str | None) -> list[str]:
    """Return the arms of a run, those of one optimiser if it is named."""
    return [name for name in settings.arms if optimizer in (None, of_arm(name)[1])]


def best_of_others(values: np.ndarray, read: np.ndarray | None = None) -> np.ndarray:
    """(seeds,) ``read``, or ``values`` (rates, seeds), at the rate whose values have the highest mean over other seeds.

    A rate at which a seed has no value is out; no numbers if all are.
    """
    reached = ~np.isnan(values).any(axis=1)
    if not reached.any():
        return np.full(values.shape[1], np.nan)
    left = values[reached]
    best = (left.sum(axis=1, keepdims=True) - left).argmax(axis=0)
    chosen: np.ndarray = (values if read is None else read)[reached][best, np.arange(values.shape[1])]
    return chosen


def at_own_rate(curves: dict[str, Any], gain: float) -> np.ndarray:
    """(seeds,) pass@64 where pass@1 is first by ``gain`` above the start's; curves are (rates, seeds, records)."""
    pairs = zip(*(np.array(curves[name]) for name in READ), strict=True)
    return best_of_others(np.array([at_gain(mass, passed, gain) for mass, passed in pairs]))


def interval(differences: np.ndarray) -> list[float]:
    """The mean over seeds, and the ends of its interval (Student's)."""
    width = half_width(differences.std(ddof=1) / np.sqrt(len(differences)), len(differences))
    return [float(differences.mean() + shift) for shift in (0, -width, width)]


def judged(task: dict[str, Any], gains: dict[str, float]) -> Intervals:
    """Pass@64 less GRPO's by optimiser and method, and how much more that is under Adam; there also GRPO's pass@64.

    Each optimiser has its gain; the two are compared only if both are there and their gains are equal.
    """
    table = {name: {method: at_own_rate(runs, gains[name]) for method, runs in of.items()} for name, of in task.items()}
    differences = {name: {method: passed - of["grpo"] for method, passed in of.items()} for name, of in table.items()}
    if len(table) > 1 and len(set(gains.values())) == 1:
        adam, plain = (differences[name] for name in OPTIMIZERS)
        differences[BETWEEN] = {method: adam[method] - plain[method] for method in adam}
        differences[BETWEEN]["grpo"] = table["adamw"]["grpo"] - table["sgd"]["grpo"]
    return {name: {method: interval(values) for method, values in of.items()} for name, of in differences.items()}


def outcome(estimate: list[float], predicted: list[float] | None) -> str:
    """A hit if the interval lies in the predicted one, a miss if it lies outside; else it is undecided."""
    _, low, high = estimate
    if np.isnan(low):
        return "does not gain so much"
    if predicted is None:
        return "nothing predicted"
    if predicted[0] <= low and high <= predicted[1]:
        return "hit"
    return "miss" if high < predicted[0] or low > predicted[1] else "undecided"


def order(differences: dict[str, list[float]], toy: dict[str, float]) -> float:
    """Spearman's correlation of mean differences with the toy network's pass@256, over the methods that both have."""
    means = {"grpo": 0.0} | {method: mean for method, (mean, *_) in differences.items() if np.isfinite(mean)}
    both = [method for method in toy if method in means]
    return float(spearmanr([means[method] for method in both], [toy[method] for method in both]).statistic)

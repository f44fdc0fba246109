"""Score forecasts of training logs: that of ``simlab diagnose`` against no change, the last trend, a sigmoid, a swing.

    python -m benchmarks.forecasts FOLDER NAME=FOLDER ...      # scores these logs, and keeps the numbers
    python -m benchmarks.forecasts --reward mean_reward FILE   # of metrics in another column, perhaps a list in a .json
    python -m benchmarks.forecasts --table                     # prints the stored table

A log is cut at a quarter, a half and three quarters of its steps. From the steps before a cut each forecaster tells the
mean over the next 20 steps, or over all before the next cut if they are fewer, with an interval at 90 %: of rollouts
the mean solve rate and the middle pass@k, of metrics the reward. The score is the continuous ranked probability score
of the normal distribution with that mean and that width, in units of the quantity, lower for the better.

- *diagnose*: the forecast of ``simlab diagnose``, a walk seen through noise (``simlab.diagnose.predict``);
- *no change*: the mean of the last ten steps;
- *last trend*: a line through the last ten steps;
- *sigmoid*: ScaleRL's form, of least squares through all steps;
- *oscillator*: the response of a damped oscillator (arXiv 2606.30789), likewise;
- *line*: one through the later half of the steps, which ``simlab diagnose`` told before.

All but the first take their width from the variance of the residuals, in the mean of the coming steps and in the mean
of the steps that they rest on. The standard error beside a difference of scores is over logs, as if
they were independent; runs of one start are not quite.
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from benchmarks.machine import RESULTS, describe, in_words
from figures.shared.oscillator import fit_oscillator
from simlab.diagnose.log import Log
from simlab.diagnose.predict import FEWEST, extend_walk, predict, step_means
from simlab.diagnose.reading import Metrics, read_logs
from simlab.diagnose.reading.files import find_files
from simlab.errors import InputError
from simlab.files import WRITER, check_outputs, write_output
from simlab.reading import read_json
from simlab.scaling.sigmoid import fit

DATA = RESULTS / "forecasts.json"
CUTS = (0.25, 0.5, 0.75)  # shares of the steps that are the past
AHEAD = 20  # steps
LAST = 10  # steps that no change and the last trend rest on
LEVEL, NORMAL = 0.9, 1.6448536  # level and normal quantile of intervals
REWARD, DIAGNOSE, NO_CHANGE = "reward", "diagnose", "no change"
LEAST = 1e-12  # variance of a constant

Values = Float[np.ndarray, " N"]


class Forecast(NamedTuple):
    """The mean over the next steps, and an interval that is to hold it nine times of ten."""

    mean: float
    low: float
    high: float


class Quantity(NamedTuple):
    """A quantity of a log by step, and the forecast of ``simlab diagnose`` from its first steps for steps ahead."""

    name: str
    steps: Values
    values: Values
    diagnosed: Callable[[int, int], Forecast]


def about(mean: float, variance: float) -> Forecast:
    """Return a normal distribution."""
    half = NORMAL * math.sqrt(variance)
    return Forecast(mean, mean - half, mean + half)


def crps(forecast: Forecast, truth: float) -> float:
    """The continuous ranked probability score of a normal distribution (Gneiting and Raftery 2007), 0 at best.

    >>> round(crps(about(0.0, 1.0), 0.0), 4)
    0.2337
    """
    deviation = (forecast.high - forecast.low) / (2 * NORMAL)
    if deviation <= 0:
        return abs(truth - forecast.mean)
    z = (truth - forecast.mean) / deviation
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return deviation * (z * (2 * float(ndtr(z)) - 1) + 2 * density - 1 / math.sqrt(math.pi))


def no_change(steps: Values, values: Values, later: Values) -> Forecast:
    """Tell the mean of the last steps."""
    last = values[-LAST:]
    noise = _variance(last - last.mean(), 1)
    return about(float(last.mean()), noise * (1 / len(last) + 1 / len(later)))


def through(past: Values, values: Values, later: Values) -> Forecast:
    """Tell the line of least squares through some steps."""
    away = past - past.mean()
    slope = float(away @ values / (away @ away))
    distance = float(later.mean() - past.mean())
    noise = _variance(values - values.mean() - slope * away, 2)
    lever = distance**2 / float(away @ away)
    return about(float(values.mean()) + slope * distance, noise * (1 / len(values) + 1 / len(later) + lever))


def last_trend(steps: Values, values: Values, later: Values) -> Forecast:
    """Tell the line through the last steps."""
    return through(steps[-LAST:], values[-LAST:], later)


def line(steps: Values, values: Values, later: Values) -> Forecast:
    """Tell the line through the later half of the steps."""
    half = len(steps) // 2
    return through(steps[half:], values[half:], later)


def curve(form: Callable[[Values, Values, float], Any], steps: Values, values: Values, later: Values) -> Forecast:
    """Tell where a fitted form comes to, from the mean of the first three steps on."""
    start = steps[0] - 1
    fitted = form(steps - start, values, float(values[:3].mean()))
    noise = _variance(values - fitted.at(steps - start), 4)
    return about(float(fitted.at(later - start).mean()), noise * (1 / len(values) + 1 / len(later)))


def _variance(residuals: Values, freedom: int) -> float:
    return max(float(residuals @ residuals) / max(len(residuals) - freedom, 1), LEAST)


RIVALS: dict[str, Callable[[Values, Values, Values], Forecast]] = {
    NO_CHANGE: no_change,
    "last trend": last_trend,
    "sigmoid": partial(curve, fit),
    "oscillator": partial(curve, fit_oscillator),
    "line": line,
}


def quantities(path: Path, reward: str = REWARD) -> Iterator[Quantity]:
    """Read a log of rollouts or of metrics: a folder or file of ``simlab diagnose``, or a list of rows in a .json."""
    if path.suffix == ".json":
        rows = _rows(path, reward)
        yield _metric(reward, np.array([row["step"] for row in rows]), np.array([row[reward] for row in rows], float))
        return
    reading = read_logs([path])
    if isinstance(reading, Metrics):
        if reward not in reading.values:
            raise InputError(f"{path}: the metrics have no {reward}; allowed: {', '.join(sorted(reading.values))}")
        yield _metric(reward, np.asarray(reading.step), np.asarray(reading.values[reward], float))
        return
    log = reading.log
    for name, means in list(step_means(log).items())[::4]:
        yield Quantity(name, np.unique(log.step).astype(float), means, partial(_diagnosed, log, name))


def _rows(path: Path, reward: str) -> list[dict[str, Any]]:
    try:
        rows = [row for row in json.loads(path.read_text()) if row.get(reward) is not None]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{path}: {error}; allowed: a list of objects with step and {reward}") from None
    if not rows or any("step" not in row for row in rows):
        raise InputError(f"{path} has no step and {reward} in its rows; allowed: a list of objects with both")
    return rows


def _metric(name: str, step: np.ndarray, column: Values) -> Quantity:
    mask = np.isfinite(column)
    steps, index = np.unique(step[mask].astype(int), return_inverse=True)
    values = np.bincount(index, column[mask]) / np.bincount(index)

    def told(first: int, ahead: int) -> Forecast:
        estimate = extend_walk(name, values[:first], ahead, groups=math.inf, level=LEVEL)
        return Forecast(estimate.value, estimate.low, estimate.high)

    return Quantity(name, steps.astype(float), values, told)


def _diagnosed(log: Log, name: str, first: int, ahead: int) -> Forecast:
    early = log.select(log.step < np.unique(log.step)[first])
    told = next(estimate for estimate in predict(early, LEVEL, ahead).next_steps if estimate.name == name)
    return Forecast(told.value, told.low, told.high)


def score(quantity: Quantity) -> Iterator[dict[str, Any]]:
    """Yield what each forecaster tells at each cut of a log, its score, and whether its interval holds."""
    _, steps, values, diagnosed = quantity
    ends = [*(round(share * len(steps)) for share in CUTS), len(steps)]
    for first, end in itertools.pairwise(ends):
        if first < 2 * FEWEST or first == end:
            continue
        ahead = slice(first, min(first + AHEAD, end))
        truth = float(values[ahead].mean())
        told = {DIAGNOSE: diagnosed(first, ahead.stop - first)}
        told |= {name: rival(steps[:first], values[:first], steps[ahead]) for name, rival in RIVALS.items()}
        yield {
            "quantity": quantity.name, "after": first, "ahead": ahead.stop - first, "truth": round(truth, 5),
            "told": {name: [round(number, 5) for number in forecast] for name, forecast in told.items()},
            "crps": {name: round(crps(forecast, truth), 6) for name, forecast in told.items()},
            "held": {name: bool(forecast.low <= truth <= forecast.high) for name, forecast in told.items()},
        }  # fmt: skip


def summarise(logs: Sequence[dict[str, Any]]) -> Iterator[tuple[str, float, float, float, int, int]]:
    """Yield each forecaster's CRPS, its gain over no change with the standard error over logs, and its hits."""
    for name in (DIAGNOSE, *RIVALS):
        means, plain = (
            [np.mean([row["crps"][who] for row in log["rows"]]) for log in logs] for who in (name, NO_CHANGE)
        )
        gains = np.subtract(plain, means)
        error = float(gains.std(ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
        hits = [row["held"][name] for log in logs for row in log["rows"]]
        yield name, float(np.mean(means)), float(gains.mean()), error, sum(hits), len(hits)


def table(content: dict[str, Any]) -> str:
    """Return a row a forecaster, for each set of logs."""
    lines = ["| logs | forecaster | CRPS | no change's minus this (standard error) | 90 % intervals hold |"]
    lines.append("|---|---|--:|--:|--:|")
    for group in sorted({log["set"] for log in content["logs"]}):
        logs = [log for log in content["logs"] if log["set"] == group]
        for name, mean, gain, error, hits, count in summarise(logs):
            lines.append(
                f"| {group}: {len(logs)} | {name} | {mean:.4f} | {gain:+.4f} ({error:.4f}) | {hits} of {count} |"
            )
    return "\n".join(lines)


def _named(argument: str) -> tuple[str, Path]:
    """Return the name of a log and its path; names and paths may hold = themselves."""
    if (path := Path(argument)).exists() or "=" not in argument:
        return argument, path
    name, _, rest = argument.partition("=")
    return name, Path(rest)


def page(content: dict[str, Any]) -> str:
    """Return the table and the sources of the logs."""
    sources = sorted({f"- {log['set']}: {log['source']}" for log in content["logs"] if log["source"]})
    words, mark = in_words(content["made_by"]), f"<!-- {WRITER} -->"
    return "\n".join(["# Forecasts of training logs", "", table(content), "", *sources, "", words, "", mark, ""])


def main() -> int:
    """Score logs, each a run, and keep the numbers; or print the stored table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", metavar="FOLDER", help="a log, or NAME=FOLDER")
    parser.add_argument("--set", default="logs", help="what the table calls these logs")
    parser.add_argument("--source", default="", help="where they come from, kept with the numbers")
    parser.add_argument("--reward", default=REWARD, help="column of metrics")
    parser.add_argument("--out", type=Path, default=DATA, help="where the numbers are kept")
    parser.add_argument("--table", action="store_true", help="print what is kept")
    options = parser.parse_args()
    try:
        named, report = [_named(argument) for argument in options.logs], options.out.with_suffix(".md")
        if not options.table:
            check_outputs(options.out, report, inputs=find_files([path for _, path in named]))
        content = read_json(options.out) if options.out.exists() else {"logs": []}
        if "logs" not in content:
            raise InputError(f"{options.out} holds no forecasts; allowed: a new path, or that of former ones")
        if not options.table:
            logs = {(log["set"], log["log"]): log for log in content["logs"]}
            for name, path in named:
                rows = [row for quantity in quantities(path, options.reward) for row in score(quantity)]
                if not rows:
                    raise InputError(f"{path} has too few steps to be cut; allowed: {4 * FEWEST} or more")
                about_log = {"set": options.set, "source": options.source, "log": name}
                logs[options.set, name] = {**about_log, "rows": rows}
            content = {"writer": WRITER, "made_by": describe("numpy", "scipy"), "logs": list(logs.values())}
            write_output(options.out, (json.dumps(content) + "\n").encode())
            write_output(report, page(content).encode())
        print(table(content))
    except InputError as error:
        print(f"forecasts: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

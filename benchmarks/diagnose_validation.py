"""Predictions of ``simlab diagnose`` beside the outcome, on logs of real trainings.

    python -m benchmarks.diagnose_validation "countdown, seed 0=OUT/arms/ARM/seed-0" "TRL=trl-log"
    python -m benchmarks.diagnose_validation --table       # prints the stored table

The predictions of each log:

- *Larger groups.* Half of the groups are thinned at random to a quarter of their rollouts, G. From these come the dead
  groups at 2 G and 4 G, and pass@2G and pass@4G, which no thinned group carries. They are compared with the means over
  the groups of the other half, with all their rollouts, by the unbiased estimate over subsets of a group.
- *The next steps*: from all steps but the last 20, means over these. The stored predictions come from a line, which
  ``simlab diagnose`` used before; ``benchmarks.forecasts`` scores both.

Stored logs stay, unless a log of the same name is named.

A prediction is held if the mean that is seen lies in its interval. For larger groups the interval is of the mean over
all such prompts, but a sample is seen: the interval is widened by 1.645 standard errors of it, in quadrature.
"""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import RESULTS, describe
from simlab.diagnose.dead_groups import observe_groups, predict_groups
from simlab.diagnose.estimate import LEVEL, IntervalEstimate
from simlab.diagnose.log import Log
from simlab.diagnose.predict import STEPS, score
from simlab.diagnose.reading import read_log
from simlab.diagnose.solve_rates import fit_population, pass_at_k
from simlab.files import write_whole

DATA = RESULTS / "diagnose_validation.json"
TABLE = DATA.with_suffix(".md")
THINNED = 4  # times fewer rollouts
NORMAL = 1.645  # quantile at 95 %


def thinned(log: Log, random: np.random.Generator) -> Log:
    """The log with a quarter of the rollouts of each group, drawn without replacement."""
    size = log.group_size // THINNED
    correct = random.hypergeometric(log.correct, log.group_size - log.correct, size)
    return Log(log.format, log.prompt, log.step, size, correct, log.prompts)


def subsets_all_alike(count: np.ndarray, size: np.ndarray, chosen: int) -> np.ndarray:
    """The share of a group's subsets of ``chosen`` rollouts that lie within ``count`` of them."""
    ways = [math.comb(int(c), chosen) / math.comb(int(n), chosen) for c, n in zip(count, size, strict=True)]
    return np.array(ways)


def larger_groups(log: Log, random: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Dead groups and pass@k at two and four times the rollouts that are looked at."""
    half = random.permutation(len(log.prompt)) < len(log.prompt) // 2
    first, second = thinned(log.select(half), random), log.select(~half)
    now, size = fit_population(first, LEVEL), observe_groups(first).group_size
    sizes = [times * size for times in (2, THINNED)]
    told = zip(predict_groups(now, sizes, 1), pass_at_k(now, sizes), strict=True)
    for times, (groups, curve) in zip((2, THINNED), told, strict=True):
        wrong = subsets_all_alike(second.group_size - second.correct, second.group_size, times * size)
        right = subsets_all_alike(second.correct, second.group_size, times * size)
        where = f"{times} G = {times * size}"
        yield beside(groups.dead, wrong + right) | {"quantity": f"dead groups at {where}"}
        yield beside(curve, 1 - wrong) | {"quantity": f"pass@k at k = {where}"}


def beside(estimate: IntervalEstimate, seen: np.ndarray) -> dict[str, Any]:
    """A prediction beside the mean over groups."""
    mean, error = float(seen.mean()), float(seen.std(ddof=1)) / math.sqrt(len(seen))
    low = estimate.value - math.hypot(estimate.value - estimate.low, NORMAL * error)
    high = estimate.value + math.hypot(estimate.high - estimate.value, NORMAL * error)
    return {
        "quantity": estimate.name, "predicted": estimate.value, "low": estimate.low, "high": estimate.high,
        "seen": mean, "standard_error": error, "held": bool(low <= mean <= high),
    }  # fmt: skip


def next_steps(log: Log) -> Iterator[dict[str, Any]]:
    """Means over the last steps, from those before; none of a log that is too short."""
    steps = len(np.unique(log.step))
    if steps < 2 * STEPS:
        return
    for forecast in score(log, STEPS / steps, LEVEL):
        estimate = forecast.predicted
        if math.isfinite(estimate.low):
            yield {
                "quantity": f"next {STEPS} steps: {estimate.name}", "predicted": estimate.value, "low": estimate.low,
                "high": estimate.high, "seen": forecast.truth, "standard_error": None, "held": bool(forecast.held),
            }  # fmt: skip


def validated(name: str, folder: Path) -> dict[str, Any]:
    """All predictions of a log, and where it came from."""
    log = read_log([folder]).log
    rows = [*larger_groups(log, np.random.default_rng(0)), *next_steps(log)]
    return {
        "log": name, "format": log.format, "groups": len(log.prompt), "rollouts": int(log.group_size.sum()),
        "group_size": observe_groups(log).group_size, "steps": len(np.unique(log.step)), "made_by": provenance(folder),
        "machine": describe("numpy", "scipy"), "rows": rows,
    }  # fmt: skip


def provenance(folder: Path) -> Any:
    """The settings and versions of a log's run."""
    for above in (folder, *folder.absolute().parents):
        for name in ("run.json", "origin.json"):
            if (above / name).is_file():
                made = json.loads((above / name).read_text())
                return {key: made[key] for key in ("settings", "versions", "commit") if key in made}
    return None


def table(content: dict[str, Any]) -> str:
    """A row a prediction; misses are bold."""
    lines = ["| log | quantity | predicted [90% interval] | seen | held |", "|---|---|---|---|---|"]
    for log in content["logs"]:
        for row in log["rows"]:
            seen = f"{row['seen']:.3g}" + (f" ± {row['standard_error']:.2g}" if row["standard_error"] else "")
            interval = f"{row['predicted']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"
            held = "yes" if row["held"] else "**no**"
            lines.append(f"| {log['log']} | {row['quantity']} | {interval} | {seen} | {held} |")
    return "\n".join(lines)


def counted(content: dict[str, Any]) -> str:
    """The number of held predictions of each kind."""
    rows = [row for log in content["logs"] for row in log["rows"]]
    kinds = {"dead groups": "dead groups", "pass@k": "pass@k", "the next steps": "next"}
    told = []
    for kind, begins in kinds.items():
        hits = [row["held"] for row in rows if row["quantity"].startswith(begins)]
        told.append(f"{sum(hits)} of {len(hits)} of {kind}")
    return f"Held: {', '.join(told)}. Rows of one log are not independent."


def page(content: dict[str, Any]) -> str:
    """The table with its logs and counts."""
    logs = "\n".join(
        f"- {log['log']}: {log['rollouts']:,} rollouts in {log['groups']:,} groups of {log['group_size']}, "
        f"{log['steps']} steps, written by {log['format']}"
        for log in content["logs"]
    )
    sections = ["# Predictions of `simlab diagnose` on real runs", HEAD, logs, counted(content), table(content)]
    return "\n\n".join(sections) + "\n"


HEAD = """By `python -m benchmarks.diagnose_validation`, whose head says what is predicted from what. G is a quarter of
the group size of the run. Settings, versions and commits of the runs are in `diagnose_validation.json`. The next steps
of these logs were told by a line, which `simlab diagnose` has given up: what it tells now is scored in
[forecasts](forecasts.md), on other logs."""


def main() -> None:
    """Validate the named logs, or print the stored table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", metavar="NAME=FOLDER", help="logs of runs")
    parser.add_argument("--table", action="store_true", help="print the table of what is kept")
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(DATA.read_text())))
        return
    named = [(name, Path(folder)) for name, _, folder in (argument.partition("=") for argument in options.logs)]
    logs = {log["log"]: log for log in json.loads(DATA.read_text())["logs"]} if DATA.exists() else {}
    content = {"logs": list((logs | {name: validated(name, folder) for name, folder in named}).values())}
    write_whole(DATA, (json.dumps(content, indent=1) + "\n").encode())
    write_whole(TABLE, page(content).encode())
    print(page(content))


if __name__ == "__main__":
    main()

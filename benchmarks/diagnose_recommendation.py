"""The split of a budget that ``simlab diagnose`` recommends, beside the results of training at each split.

    simlab train --preset countdown-conflict --arms grpo --seeds 1 --steps 30 --param record.rollouts=512 --out logged
    python -m benchmarks.diagnose_recommendation logged/arms/grpo/seed-*
    python -m benchmarks.diagnose_recommendation --table       # prints the stored page

The trainings are those of ``figures/countdown_conflict.py``: 100 steps of 512 rollouts as 256 x 2, 128 x 4, 64 x 8,
32 x 16 and 16 x 32, five seeds each. Each log holds the first 30 steps of one seed at 32 x 16, and its
recommendation is computed from the log alone. Splits are compared with 32 x 16, paired by seed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import RESULTS, describe
from simlab.diagnose.diagnosis import diagnose
from simlab.diagnose.reading import read_log
from simlab.files import write_whole
from simlab.llm.compare.run_arms import MeanEstimate, estimate_mean

DATA = RESULTS / "diagnose_recommendation.json"
PAGE = DATA.with_suffix(".md")
TRAINED = Path(__file__).parent.parent / "figures" / "data" / "countdown_conflict.json"
ROLLOUTS, IN_USE = 512, 16
ARMS = {2: "G = 2", 4: "G = 4", 8: "G = 8", 16: "grpo", 32: "G = 32"}
SHOWN = ("pass@1", "pass@64")
HEAD = """By `python -m benchmarks.diagnose_recommendation`, whose head says what was logged and what was trained.
The trainings' intervals are 95 % t-intervals over seeds."""


def recommended(folder: Path) -> dict[str, Any]:
    """One log's estimates of every split of the budget."""
    reading = read_log([folder])
    plan = diagnose(reading.log, rollouts=ROLLOUTS).recommendation
    return {
        "log": folder.name,
        "steps": len(np.unique(reading.log.step)),
        "rollouts": int(reading.log.group_size.sum()),
        "recommended": plan.recommended and plan.recommended.group_size,
        "reason": plan.reason,
        "teaching": {split.group_size: _interval(split.teaching) for split in plan.splits if split.group_size in ARMS},
        "gain": {split.group_size: _interval(split.gain) for split in plan.splits if split.group_size in ARMS},
    }


def _interval(estimate: Any) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


def trained() -> dict[int, dict[str, Any]]:
    """Each split at the last step: its pass@k, and how much more than at the split in use."""
    arms = json.loads(TRAINED.read_text())["arms"]
    splits = {}
    for size, name in ARMS.items():
        last = {k: np.array(arms[name][k])[:, -1] for k in SHOWN}
        usual = {k: np.array(arms[ARMS[IN_USE]][k])[:, -1] for k in SHOWN}
        splits[size] = {k: float(last[k].mean()) for k in SHOWN} | {
            f"more {k}": list(_change(estimate_mean(last[k] - usual[k]))) for k in SHOWN
        }
    return splits


def _change(estimate: MeanEstimate) -> tuple[float, float, float]:
    return estimate.mean, estimate.low, estimate.high


def page(content: dict[str, Any]) -> str:
    """Both tables: the recommendations of the logs, and the results of the trainings."""
    logs = ["| log | rollouts | recommended G | because |", "|---|---|---|---|"]
    logs += [
        f"| {row['log']} | {row['rollouts']:,} in {row['steps']} steps | {row['recommended'] or 'none'} "
        f"| {row['reason']} |"
        for row in content["logs"]
    ]
    splits = ["| prompts x G | groups that teach, by log | pass@1 | more | pass@64 | more |", "|---" * 6 + "|"]
    for size, row in content["trained"].items():
        teaching = ", ".join(f"{log['teaching'][size][0]:.0f}" for log in content["logs"])
        more = [_signed(row[f"more {k}"]) if int(size) != IN_USE else "in use" for k in SHOWN]
        splits.append(
            f"| {ROLLOUTS // int(size)} x {size} | {teaching} | {row['pass@1']:.3f} | {more[0]} "
            f"| {row['pass@64']:.3f} | {more[1]} |"
        )
    sections = ["# The recommended split of a budget, tested by training", HEAD, "\n".join(logs), "\n".join(splits)]
    return "\n\n".join(sections) + "\n"


def _signed(interval: list[float]) -> str:
    value, low, high = interval
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def main() -> None:
    """Diagnose the named logs, or print the stored page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, help="folders of an arm and seed")
    parser.add_argument("--table", action="store_true", help="print the page of what is kept")
    options = parser.parse_args()
    if not options.table:
        content = {
            "machine": describe("numpy", "scipy"),
            "logs": [recommended(folder) for folder in options.logs],
            "trained": trained(),
        }
        write_whole(DATA, (json.dumps(content, indent=1) + "\n").encode())
        write_whole(PAGE, page(json.loads(DATA.read_text())).encode())
    print(page(json.loads(DATA.read_text())))


if __name__ == "__main__":
    main()

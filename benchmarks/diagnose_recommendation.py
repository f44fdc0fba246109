"""The split of a budget that ``simlab diagnose`` recommends, beside what training at each split gave.

    simlab train --preset countdown-conflict --arms grpo --seeds 1 --steps 30 --param record.rollouts=512 --out logged
    python -m benchmarks.diagnose_recommendation logged/arms/grpo/seed-*
    python -m benchmarks.diagnose_recommendation --table       # prints the page of what is kept

The trainings are those of ``figures/countdown_conflict.py``: 100 steps of 512 rollouts as 256 x 2, 128 x 4, 64 x 8,
32 x 16 and 16 x 32, five seeds each. Each log holds the first 30 steps of one seed at 32 x 16, and what it recommends
is computed from the log alone. Splits are compared with 32 x 16, paired by seed.
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
    """What one log says of every split of the budget."""
    reading = read_log([folder])
    found = diagnose(reading.log, rollouts=ROLLOUTS).recommendation
    return {
        "log": folder.name,
        "steps": len(np.unique(reading.log.step)),
        "rollouts": int(reading.log.group_size.sum()),
        "recommended": found.recommended and found.recommended.group_size,
        "reason": found.reason,
        "teaching": {split.group_size: _interval(split.teaching) for split in found.splits if split.group_size in ARMS},
        "gain": {split.group_size: _interval(split.gain) for split in found.splits if split.group_size in ARMS},
    }


def _interval(own: Any) -> list[float]:
    return [own.value, own.low, own.high]


def trained() -> dict[int, dict[str, Any]]:
    """Each split at the last step: its pass@k, and how much more than at the split in use."""
    arms = json.loads(TRAINED.read_text())["arms"]
    found = {}
    for size, name in ARMS.items():
        last = {k: np.array(arms[name][k])[:, -1] for k in SHOWN}
        usual = {k: np.array(arms[ARMS[IN_USE]][k])[:, -1] for k in SHOWN}
        found[size] = {k: float(last[k].mean()) for k in SHOWN} | {
            f"more {k}": list(_change(estimate_mean(last[k] - usual[k]))) for k in SHOWN
        }
    return found


def _change(own: MeanEstimate) -> tuple[float, float, float]:
    return own.mean, own.low, own.high


def page(content: dict[str, Any]) -> str:
    """Both tables: what the logs recommend, and what the trainings gave."""
    logs = ["| log | rollouts | recommended G | because |", "|---|---|---|---|"]
    logs += [
        f"| {own['log']} | {own['rollouts']:,} in {own['steps']} steps | {own['recommended'] or 'none'} "
        f"| {own['reason']} |"
        for own in content["logs"]
    ]
    splits = ["| prompts x G | groups that teach, by log | pass@1 | more | pass@64 | more |", "|---" * 6 + "|"]
    for size, own in content["trained"].items():
        teaching = ", ".join(f"{log['teaching'][size][0]:.0f}" for log in content["logs"])
        more = [_signed(own[f"more {k}"]) if int(size) != IN_USE else "in use" for k in SHOWN]
        splits.append(
            f"| {ROLLOUTS // int(size)} x {size} | {teaching} | {own['pass@1']:.3f} | {more[0]} "
            f"| {own['pass@64']:.3f} | {more[1]} |"
        )
    parts = ["# The recommended split of a budget, tested by training", HEAD, "\n".join(logs), "\n".join(splits)]
    return "\n\n".join(parts) + "\n"


def _signed(own: list[float]) -> str:
    value, low, high = own
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def main() -> None:
    """Diagnose the logs that are named, or print the page of what is kept."""
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

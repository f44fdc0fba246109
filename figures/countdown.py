"""Countdown from scratch: seven methods from the same starts, and how many different solutions are left.

    simlab train --preset countdown --out countdown
    python -m figures.countdown countdown   (condenses the run, prints its table)
    simlab figures countdown                (draws from the condensed numbers kept here)

The second also prints every arm beside GRPO at equal pass@1: F-GRPO's and MaxRL's weights are smaller than GRPO's, and
an arm that is only slower keeps more for that reason alone.
"""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from figures.shared import trained

DATA = Path(__file__).parent / "data" / "countdown.json"
DIFFERS = "Not in the papers: seven methods train one small language model from scratch, five seeds."
draw = trained.draw
NAMES = ("pass@16", "pass@64", "distinct", "entropy", "tail_miss", "tail_miss_lemma")


def numbers(files: dict[str, Any], arm: str, seed: int) -> np.ndarray:
    """(evaluations, 1 + NAMES) pass@1 and what is compared, of an arm since its start."""
    lines = files[f"start/seed-{seed}/evaluation.jsonl"] + files[f"arms/{arm}/seed-{seed}/evaluation.jsonl"]
    return np.array([[_number(line, name) for name in ("pass@1", *NAMES)] for line in lines])


def _number(line: dict[str, Any], name: str) -> float:
    _, at, k = name.partition("@")
    return line["pass_at_k"][k]["mean"] if at else float(np.mean(line[name]))


def at_equal_pass_1(files: dict[str, Any], arm: str, seed: int) -> np.ndarray:
    """What an arm ended with, less what GRPO of the same seed had when it first had that pass@1.

    GRPO is taken to move straight from one evaluation to the next; where it never had so little or so much, the nearest
    evaluation stands, and a difference in pass@1 is left.
    """
    end, path = numbers(files, arm, seed)[-1], numbers(files, "grpo", seed)
    for before, after in itertools.pairwise(path):
        if before[0] <= end[0] <= after[0]:
            return end - before - (after - before) * (end[0] - before[0]) / (after[0] - before[0])
    return end - path[np.argmin(np.abs(path[:, 0] - end[0]))]


def table(files: dict[str, Any]) -> str:
    """Means over seeds and their standard errors."""
    lines = ["at GRPO's step of equal pass@1, arm less GRPO: pass@1, " + ", ".join(NAMES)]
    for arm in files["run.json"]["arms"][1:]:
        each = np.array([at_equal_pass_1(files, arm, seed) for seed in files["run.json"]["seeds"]])
        errors = each.std(axis=0, ddof=1) / np.sqrt(len(each))
        cells = (f"{mean:+.3f}({error:.3f})" for mean, error in zip(each.mean(axis=0), errors, strict=True))
        lines.append(" ".join((arm.ljust(8), *cells)))
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Condense a run into the numbers kept here if one is given; print the tables."""
    if arguments:
        trained.keep_run(DATA, Path(arguments[0]))
    print(table(json.loads(DATA.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])

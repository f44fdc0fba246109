"""Processor time that the metrics of ``simlab.diagnose.live`` add to a training step.

    python -m benchmarks.live_overhead            # a minute
    python -m benchmarks.live_overhead --quick    # a tenth of the batches; writes nothing

Batches are given to ``Live()`` with its defaults, a fit every ten batches of the last twenty. Prompts are new in every
batch, solve rates u-shaped, completions of 2,000 characters with one of 30 answers. The mean over all batches is
stated, fits included, and the longest batch. A step that lasts a hundred times the mean spends 1 % on them: steps of
language models with such batches take longer. Time is the processor's, since other work may share the machine.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks.machine import RESULTS, describe, in_words, table
from simlab.diagnose.live import Live

BATCHES = 100
SIZES = ((32, 8), (128, 8), (512, 16))  # prompts x G
FILLER = "and therefore " * 140
ANSWERS = 30


def rollouts(
    source: np.random.Generator, batch: int, prompts: int, size: int
) -> tuple[list[str], list[float], list[str]]:
    """Prompts, rewards and completions of a batch."""
    rates = np.repeat(source.beta(0.3, 0.3, prompts), size)
    names = [f"problem {batch}-{prompt}" for prompt in range(prompts) for _ in range(size)]
    rewards = (source.random(len(names)) < rates).astype(float)
    answers = (source.random(len(names)) ** 2 * ANSWERS).astype(int)
    return names, rewards.tolist(), [f"{FILLER} \\boxed{{{answer}}}" for answer in answers]


def measure(prompts: int, size: int, batches: int) -> dict[str, float]:
    """Milliseconds a batch: the mean, and the longest."""
    source, live = np.random.default_rng(0), Live()
    spent = []
    for batch in range(-live.every, batches):
        columns = rollouts(source, batch, prompts, size)
        began = time.process_time()
        live.observe(*columns)
        if batch >= 0:  # the first fit builds tables that later ones share
            spent.append(1e3 * (time.process_time() - began))
    mean = float(np.mean(spent))
    return {
        "prompts": prompts,
        "group_size": size,
        "ms_a_step": round(mean, 1),
        "ms_of_the_longest": round(max(spent), 1),
        "seconds_of_a_step_of_which_it_is_1_percent": round(mean / 10, 2),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a tenth of the batches; write nothing")
    options = parser.parse_args()
    machine = describe("numpy", "scipy")
    rows = [measure(*sizes, BATCHES // 10 if options.quick else BATCHES) for sizes in SIZES]
    header = ["prompts", "G", "ms a step", "ms of the longest", "1 % of a step of seconds"]
    text = f"{table(header, [[str(value) for value in row.values()] for row in rows])}\n\n{in_words(machine)}.\n"
    print(text)
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"machine": machine, "batches": BATCHES, "measured": rows}
        (options.out / "live_overhead.json").write_text(json.dumps(content, indent=1) + "\n")
        (options.out / "live_overhead.md").write_text(text)


if __name__ == "__main__":
    main()

"""Lumped storage by the number of distinct reward levels: a step's time grows with these, not with the actions.

    python -m benchmarks.graded_levels            # some minutes on an otherwise idle machine
    python -m benchmarks.graded_levels --quick    # fewer levels; prints, writes nothing

One prompt of N equally likely actions, N / L of each of L rewards, GRPO with Adam, G = 32. The cells run in turns, and
the fewest processor seconds of some rounds count. Beside them stands dense storage of 131,072 actions with the same
levels.
"""

import argparse
import json
import os
import time

import numpy as np

from benchmarks.machine import RESULTS, describe, in_words, table
from simlab.files import write_whole
from simlab.problems import Categorical
from simlab.simulator.call import Call, computing
from simlab.simulator.lumped import initial_size
from simlab.simulator.resources import batch_size, devices_by
from simlab.simulator.settings import Settings

LEVELS = (2, 32, 512, 8192, 131072)
ACTIONS = (10**9, 10**15)
DENSE_ACTIONS = 2**17
GROUP_SIZE, STEPS, ROUNDS = 32, 200, 5


class Cell:
    """N actions in L equal classes, whose rewards differ, in one storage."""

    def __init__(self, storage: str, actions: int, levels: int):
        rewards, counts = np.linspace(0, 1, levels), np.full(levels, actions // levels)
        correct = rewards > 0.5
        self.problem = Categorical(np.zeros(levels), correct, correct, counts=counts, rewards=rewards)
        self.settings = Settings("grpo", GROUP_SIZE, storage=storage)
        self.together = batch_size(self.problem, self.settings, "cpu")
        self.slots = initial_size(self.problem, self.settings, STEPS) if storage == "lumped" else actions
        seeds = list(range(self.together))
        self.call = Call(self.problem, [self.settings] * self.together, seeds, np.array([STEPS]), devices_by(1)[0])

    def seconds(self) -> float:
        """Processor seconds of a step of a seed, in runs that record their ends alone."""
        with computing(self.settings, None):
            start = time.process_time()
            self.call.rows()
            return (time.process_time() - start) / (STEPS * self.together)


def measured(levels: tuple[int, ...], rounds: int) -> list[dict[str, float | str]]:
    """The time of a step of each cell."""
    cells = [("lumped", actions, number) for actions in ACTIONS for number in levels]
    cells += [("dense", DENSE_ACTIONS, number) for number in levels]
    made = {key: Cell(*key) for key in cells}
    for cell in made.values():
        cell.seconds()  # compiles
    rows = [{key: cell.seconds() for key, cell in made.items()} for _ in range(rounds)]
    return [
        {"storage": key[0], "actions": key[1], "levels": key[2], "slots": cell.slots}
        | {"seconds": min(row[key] for row in rows)}
        for key, cell in made.items()
    ]


def report(rows: list[dict[str, float | str]]) -> str:
    """The table, microseconds a step."""
    keys = ("storage", "actions", "levels", "slots")
    lines = [[*(f"{row[key]:,}" if key != "storage" else str(row[key]) for key in keys)] for row in rows]
    times = [f"{1e6 * float(row['seconds']):.0f}" for row in rows]
    return table([*keys, "us a step"], [[*line, number] for line, number in zip(lines, times, strict=True)])


def main() -> None:
    """Measure, print, and write the result unless it is a quick run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two numbers of levels, one round; writes nothing")
    quick = parser.parse_args().quick
    machine = describe() | {"load_average": os.getloadavg()[0]}
    rows = measured(LEVELS[:2] if quick else LEVELS, 1 if quick else ROUNDS)
    text = f"{in_words(machine)}\n\n{report(rows)}\n"
    print(text)
    if not quick:
        (RESULTS / "graded_levels.json").write_text(json.dumps({"machine": machine, "cells": rows}, indent=1) + "\n")
        write_whole(RESULTS / "graded_levels.md", f"# Reward levels in lumped storage\n\n{text}".encode())


if __name__ == "__main__":
    main()

"""One cell of the preset f-grpo-fig2: its problem and settings, its runs, and how long a step of them takes."""

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from simlab.simulator.draw import GROUP_TO_ACTIONS, LEAST_GROUP
from simlab.simulator.multinomial import LARGEST_MEAN
from simlab.simulator.resources import batch_size, devices_by, needed_bytes, platform_of
from simlab.simulator.runner import run
from simlab.sweeps import Plan, Sweep
from simlab.sweeps.presets import F_GRPO_FIG2

CORES = os.cpu_count() or 1
ACTIONS = 128_000
CORRECT_SHARE = 10 / 128
TIMED_GAMMA = 1.0


class Cell:
    """One group size and number of actions, in one storage, as ``simlab sweep`` runs it, records included.

    The share of correct actions is the preset's at every number of actions.
    """

    def __init__(self, storage: str, group_size: int, gamma: float, steps: int, actions: int = ACTIONS):
        size = {"problem.actions": (actions,), "problem.correct": (round(actions * CORRECT_SHARE),)}
        parameters = F_GRPO_FIG2["parameters"] | size | {"estimator.gamma": (gamma,)}
        options = {"group_sizes": (group_size,), "steps": steps, "storage": storage, "parameters": parameters}
        plan = Plan(Sweep(**F_GRPO_FIG2 | options))
        [resolved] = plan.distinct
        self.problem, self.settings, self.steps = resolved.problem, resolved.settings, resolved.steps
        self.devices = devices_by(1)[0]  # named, as a sweep does: a program is kept by its devices
        self.together = batch_size(self.problem, self.settings, platform_of(self.devices))

    def run(self, seed: int) -> dict[str, np.ndarray]:
        """The records of the seeds that the storage simulates in one call."""
        seeds = [seed + offset for offset in range(self.together)]
        return run(self.problem, [self.settings] * self.together, seeds, self.steps, self.devices)

    def compile_seconds(self) -> float:
        """Seconds to compile the program of a cell in dense storage; later calls find it compiled."""
        start = time.perf_counter()
        needed_bytes(self.problem, self.settings, self.steps, self.devices)
        return time.perf_counter() - start

    def first_seconds(self) -> float:
        """Seconds of a first run, which compiles."""
        start = time.perf_counter()
        self.run(0)
        return time.perf_counter() - start

    def seconds_per_step(self, calls: int = CORES) -> float:
        """Seconds of one step of one seed, while a thread a core makes a call at a time, as in a sweep."""
        with ThreadPoolExecutor(CORES) as pool:
            start = time.perf_counter()
            list(pool.map(self.run, range(calls)))
            return (time.perf_counter() - start) / (calls * self.together * int(self.steps[-1]))


def step_bytes(actions: int, group_size: int) -> int:
    """Bytes that a step of the dense Adam simulation must move, whatever the code: 4 (8 N + 6 G).

    Update: logits and two moments, each read and written, 6 N floats. Softmax: the weights, made from the logits while
    these are at hand, are written and, for the draw, read: 2 N. Draws: two random words and an index each, written and
    read: 6 G. Not counted: the logits' maximum, the gradient, rewards, the search of the cumulative sum, records.
    """
    return 4 * (8 * actions + 6 * group_size)


def step_words(actions: int, group_size: int) -> int:
    """Random words of 32 bits that a step of dense storage draws.

    Two a rollout; where a group is known by its counts, one for each of the N + G / 4 cells whose counts are drawn.
    The few draws that complete the group are not counted.
    """
    if group_size < max(LEAST_GROUP, GROUP_TO_ACTIONS * actions):
        return 2 * group_size
    return actions + math.ceil(group_size / LARGEST_MEAN)


# Threefry-2x32 gives two words: 20 rounds of an addition, a rotation (two shifts, an or) and an exclusive or, and 17
# additions of the key and of counters.
OPERATIONS_A_WORD = (20 * 5 + 17) / 2


def step_functions(actions: int) -> int:
    """Exponentials, square roots and divisions of a step, which take a processor several times as long as a product.

    One of each an action: its weight, and the root and quotient of Adam.
    """
    return 3 * actions

"""Choose the storage whose step costs less, by a model of both that is fitted to measurements.

A dense step passes over all numbers of a problem and searches its actions for each rollout; a lumped step passes over
the slots that the run has come to need, and gives one to each rollout. Only their ratio is used, so that the processor
matters little.
"""

import math
from typing import NamedTuple

from simlab.problems.base import LARGEST_ARRAY, Problem
from simlab.simulator.settings import Settings

# Nanoseconds of a core, set by hand to measurements of benchmarks/storages.py, which counts how often the choice is
# right: in all 15 cells of benchmarks/results/storages.json, whose processor is twice as fast in either storage.
DENSE_STEP, DENSE_NUMBER, DENSE_TOKEN = 4_000.0, 3.0, 30.0
PRODUCT = 0.2  # of two numbers in a product of matrices, by hand and roughly
LUMPED_STEP, LUMPED_SLOT, LUMPED_ROLLOUT = 20_000.0, 4.2, 600.0

# Smaller problems fit any device. The choice is by the size alone, so that it is the same on every machine.
SHARDED_FROM = 2**24


class StepCosts(NamedTuple):
    """Microseconds of a core that a step of one run takes in each storage; infinite where it cannot run."""

    dense: float
    lumped: float


def step_costs(problem: Problem, settings: Settings, steps: int) -> StepCosts:
    """Return the costs that the model predicts for a run of so many steps."""
    batch = problem.prompts_a_step(settings)
    rollouts = batch * settings.group_size
    passes, products = problem.step_numbers(batch)
    lumps = problem.lumps and not settings.truncates
    dense = DENSE_STEP + DENSE_NUMBER * passes + DENSE_TOKEN * rollouts * problem.tokens + PRODUCT * products
    return StepCosts(
        dense=dense / 1000 if problem.actions * problem.prompts <= LARGEST_ARRAY else math.inf,
        lumped=_lumped_step(problem, settings, steps, rollouts) / 1000 if lumps else math.inf,
    )


def _lumped_step(problem: Problem, settings: Settings, steps: int, rollouts: int) -> float:
    """Return the nanoseconds of a step that passes over the slots of all prompts."""
    sets = problem.prompts if problem.has_own_parameters else 1
    batch = problem.prompts_a_step(settings)
    drawn = rollouts / sets  # of each set of slots, in the mean over the steps
    slots = problem.by_classes().entries + touched(problem.actions, drawn, steps)
    dense_share = problem.step_numbers(batch)[0] / problem.actions  # numbers that an action has: those of a slot
    return LUMPED_STEP + LUMPED_SLOT * slots * dense_share + LUMPED_ROLLOUT * rollouts


def touched(actions: int, drawn: float, steps: int) -> float:
    """Return the mean over the steps of how many actions were sampled, if all alike: N (1 - exp(-G t / N)) at step t.

    A policy that sharpens touches fewer.
    """
    rounds = drawn * steps / actions
    if rounds < 1e-6:  # where the difference below loses all digits
        return drawn * steps / 2
    return actions * (1 + math.expm1(-rounds) / rounds)


def resolved(problem: Problem, settings: Settings, steps: int) -> Settings:
    """Replace the storage ``auto`` by the cheaper one, and dense by sharded where the problem is large."""
    if settings.storage != "auto":
        return settings
    if settings.allocation != "even":
        return settings.resolved("dense")
    costs = step_costs(problem, settings, steps)
    if costs.lumped < costs.dense:
        return settings.resolved("lumped")
    shards = problem.shards and not settings.truncates
    is_large = shards and problem.actions * problem.prompts >= SHARDED_FROM
    return settings.resolved("sharded" if is_large else "dense")

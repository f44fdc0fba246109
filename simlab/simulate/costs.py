"""Which engine runs a program: the one whose step costs less, by a model of both that is fitted to measurements.

A dense step passes over all actions and searches them for each rollout; a lumped step passes over the places that the
run has come to need, and places each rollout. Only their ratio is used, so that the processor matters little.
"""

import dataclasses
import math
from typing import NamedTuple

from simlab.problems import Categorical, Classes, LinearSoftmax, Problem, PromptBank, Tree
from simlab.problems.classes import LARGEST_ARRAY
from simlab.simulate.program import Program

# Nanoseconds of a core, fitted to results/engines.json by benchmarks/engines.py.
DENSE_STEP, DENSE_ACTION, DENSE_ROLLOUT = 4_000.0, 3.0, 30.0
PRODUCT = 0.2  # of two numbers in a product of matrices, by hand and roughly: only the lumped engine would compare it
LUMPED_STEP, LUMPED_PLACE, LUMPED_ROLLOUT = 20_000.0, 4.2, 600.0

# Smaller simulations fit any device. The choice is by the size alone, so that the same engine runs on every machine.
SHARDED_FROM = 2**24


class StepCosts(NamedTuple):
    """Microseconds of a core that a step of one lane takes on each engine."""

    dense: float
    lumped: float


def step_costs(program: Program, problem: Problem, steps: int) -> StepCosts:
    """What the model gives for a run of so many steps; infinite for an engine that cannot run it."""
    actions, group_size = problem.actions, program.group_size
    if isinstance(problem, PromptBank | LinearSoftmax):
        return StepCosts(_bank_step(program, problem) / 1000, math.inf)
    if isinstance(problem, Tree):
        tokens = group_size * problem.depth
        return StepCosts(_dense_step(math.prod(problem.shape), tokens) / 1000, math.inf)
    dense = _dense_step(actions, group_size)
    places = len(problem.classes.counts) + touched(actions, group_size, steps)
    lumped = LUMPED_STEP + LUMPED_PLACE * places + LUMPED_ROLLOUT * group_size
    return StepCosts(
        dense=dense / 1000 if actions <= LARGEST_ARRAY else math.inf,
        lumped=math.inf if program.fixes_update_norm else lumped / 1000,
    )


def _dense_step(logits: int, draws: int) -> float:
    """Nanoseconds of a step that passes over all logits and draws so often."""
    return DENSE_STEP + DENSE_ACTION * logits + DENSE_ROLLOUT * draws


def _bank_step(program: Program, bank: PromptBank | LinearSoftmax) -> float:
    """Nanoseconds of a step that passes over all parameters and draws a group for each prompt of its batch.

    Where prompts share a head, the logits of the batch come from products, and their gradient goes back by as many.
    """
    batch = program.prompts_per_step or bank.prompts
    rollouts = batch * program.group_size
    if isinstance(bank, PromptBank):
        return _dense_step(math.prod(bank.shape), rollouts)
    return _dense_step(bank.weights.size + batch * bank.actions, rollouts) + PRODUCT * 2 * batch * bank.weights.size


def touched(actions: int, group_size: int, steps: int) -> float:
    """Mean over the steps of how many actions have been sampled, were they all alike: N (1 - exp(-G t / N)) at step t.

    A policy that sharpens touches fewer.
    """
    rounds = group_size * steps / actions
    if rounds < 1e-6:  # where the difference below loses all digits
        return group_size * steps / 2
    return actions * (1 + math.expm1(-rounds) / rounds)


def resolved(program: Program, problem: Problem, steps: int) -> Program:
    """The program on one of the engines if it asks for ``auto``: the cheaper one, the dense one sharded where large."""
    if program.engine != "auto":
        return program
    costs = step_costs(program, problem, steps)
    if costs.lumped < costs.dense:
        return dataclasses.replace(program, engine="lumped")
    is_large = isinstance(problem, Categorical | Classes) and problem.actions >= SHARDED_FROM
    return dataclasses.replace(program, engine="sharded" if is_large else "dense")

"""Simulate a block of seeds by a program that is compiled once for a few sizes of the group.

Group size, learning rate, steps and an estimator's numbers are arguments of the program. The group is filled up to one
of a few sizes with absent rollouts, unless the method may not see these. Anything else (the estimator itself, its
choices, the optimiser, the shape of the problem) needs another program.
"""

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from simlab.explore.shapes import GROUPS, SEEDS, filled_to
from simlab.problems import Problem
from simlab.simulator.call import make_learners
from simlab.simulator.compiled import cached, is_cached
from simlab.simulator.metrics import Metric
from simlab.simulator.settings import Settings, StaticSettings
from simlab.simulator.state import Records
from simlab.simulator.storage import DENSE
from simlab.simulator.trajectory import Inputs, RecordSchedule, advance, begin

Rows = dict[str, np.ndarray]
Say = Callable[[str], None]


class Recorded(NamedTuple):
    """What is recorded: metrics of the problem by name, and others."""

    names: tuple[str, ...]
    others: tuple[Metric, ...]

    def metrics(self, problem: Problem) -> tuple[Metric, ...]:
        """The metrics."""
        return *(metric for metric in problem.metrics if metric.name in self.names), *self.others


@dataclass(frozen=True, eq=False)
class Block:
    """``SEEDS`` seeds of one problem under one method.

    Attributes:
        problem: what is learned, with an entry for each action.
        settings: how, with dense storage.
        steps: (R,) after which of them is recorded, increasing.
        recorded: what is recorded.
    """

    problem: Problem
    settings: Settings
    steps: Int[np.ndarray, " R"]
    recorded: Recorded

    @functools.cached_property
    def static(self) -> StaticSettings:
        """What shapes the program: the settings at the group size that is compiled for."""
        static = self.settings.static
        if not static.exchangeable:
            return static
        return replace(static, group_size=filled_to(static.group_size, GROUPS))

    def rows(self, first: int, say: Say) -> Rows:
        """The records of the seeds from ``first`` up, (seeds, R + 1, ...); ``say`` hears what has to be waited for."""
        schedule, inputs = self._arguments(first)
        if not is_cached(self._key(inputs)):
            say("compiling")
        code = self._compiled(schedule, inputs)
        say("simulating")
        return {name: np.moveaxis(np.asarray(row), 0, 1) for name, row in code(schedule, inputs).items()}

    def compile(self) -> None:
        """Compile its program, unless it is there."""
        self._compiled(*self._arguments(0))

    def _compiled(self, schedule: RecordSchedule, inputs: Inputs) -> Any:
        """The compiled program; threads that ask for the same one wait for its only compilation."""
        key = self._key(inputs)
        program = functools.partial(_program, self.static, self.recorded)
        return cached(key, lambda: jax.jit(program).lower(schedule, inputs).compile())

    def _arguments(self, first: int) -> tuple[RecordSchedule, Inputs]:
        dtype = self.static.dtype
        loaded = DENSE.load(self.problem, dtype)
        keys = jnp.stack([jax.random.key(first + seed, impl="threefry2x32") for seed in range(SEEDS)])
        traced = jax.tree.map(lambda value: jnp.full(SEEDS, value, dtype), self.settings.traced)
        schedule = RecordSchedule(jnp.asarray(self.steps, jnp.int32), jnp.int32(len(self.steps)))
        return schedule, Inputs(loaded, None, jnp.int32(self.settings.group_size), keys, traced)

    def _key(self, inputs: Inputs) -> Hashable:
        leaves, structure = jax.tree.flatten(inputs)
        shapes = tuple(leaf.shape for leaf in leaves)
        return "explore", self.static, self.recorded, len(self.steps), structure, shapes


def _program(settings: StaticSettings, recorded: Recorded, schedule: RecordSchedule, inputs: Inputs) -> Records:
    """The records, (R + 1, seeds, ...), of step 0 and of those scheduled."""
    metrics = recorded.metrics(inputs.problem)
    learners = make_learners(settings, DENSE, inputs, are_padded=settings.exchangeable, metrics=metrics)
    return advance(learners, schedule, begin(learners, schedule)).rows

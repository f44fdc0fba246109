"""Simulate a block of seeds by a program that is compiled once for a few sizes of the group.

Group size, learning rate, steps and an estimator's numbers are arguments of the program. The group is filled up to one
of a few sizes with absent rollouts, unless the method may not see these. Anything else (the estimator itself, its
choices, the optimiser, the shape of the problem) needs another program. For example, groups of 3 and of 17 run by the
program for 32: of its 32 places, 29 or 15 hold rollouts that count nowhere.
"""

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from simlab.explore.controls import rounded
from simlab.problems import Problem
from simlab.simulator.call import make_learners
from simlab.simulator.compiled import cached, is_cached
from simlab.simulator.metrics import Metric
from simlab.simulator.settings import Settings, StaticSettings
from simlab.simulator.state import Records
from simlab.simulator.storage import DENSE
from simlab.simulator.trajectory import Inputs, RecordSchedule, advance, begin

BLOCK_SEEDS = 4
GROUP_SIZES = (32, 128, 512)  # for which programs are compiled
ACTIONS = (256, 2048, 32768)  # likewise, of one policy

Say = Callable[[str], None]


def fill_up(size: int, sizes: tuple[int, ...]) -> int:
    """Return the least of ``sizes`` that is at least ``size``.

    >>> fill_up(33, (32, 128, 512))
    128
    """
    return next(larger for larger in sizes if larger >= size)


def record_steps(steps: int, records: int) -> Int[np.ndarray, " R"]:
    """Return the recorded steps, evenly spread; the last one is the last step."""
    return np.round(np.linspace(0, steps, records + 1)[1:]).astype(np.int64)


def moments(values: Float[np.ndarray, "seeds R"]) -> dict[str, list[Any]]:
    """Return the ``mean`` over seeds, ``m2``, the sum of squared differences from it, and the ``values`` themselves.

    Blocks of seeds are joined by these.
    """
    values = values.astype(np.float64)
    mean = values.mean(axis=0)
    return dict(rounded({"mean": mean, "m2": ((values - mean) ** 2).sum(axis=0), "values": values}))


@dataclass(frozen=True, eq=False)
class Block:
    """``BLOCK_SEEDS`` seeds of one problem under one method.

    Attributes:
        problem: what is learned, with an entry for each action.
        settings: the method and its numbers, with dense storage.
        steps: (R,) increasing; the state after each is recorded.
        metrics: the names of recorded metrics of the problem.
        more_metrics: recorded metrics beside these.
    """

    problem: Problem
    settings: Settings
    steps: Int[np.ndarray, " R"]
    metrics: tuple[str, ...]
    more_metrics: tuple[Metric, ...] = ()

    @functools.cached_property
    def static(self) -> StaticSettings:
        """The settings that shape the program, with the group size that it is compiled for."""
        static = self.settings.static
        size = fill_up(static.group_size, GROUP_SIZES) if static.exchangeable else static.group_size
        return replace(static, group_size=size)

    def rows(self, first: int, say: Say) -> dict[str, np.ndarray]:
        """Return the records of the seeds from ``first`` up, (seeds, R + 1, ...); ``say`` hears of the stages."""
        schedule, inputs = self._arguments(first)
        if not is_cached(self._key(inputs)):
            say("compiling")
        code = self.compile()
        say("simulating")
        return {name: np.moveaxis(np.asarray(row), 0, 1) for name, row in code(schedule, inputs).items()}

    def compile(self) -> Any:
        """Return the compiled program; threads that need the same one wait for its only compilation."""
        schedule, inputs = self._arguments(0)
        program = functools.partial(_program, self.static, self.metrics, self.more_metrics)
        return cached(self._key(inputs), lambda: jax.jit(program).lower(schedule, inputs).compile())

    def _arguments(self, first: int) -> tuple[RecordSchedule, Inputs]:
        dtype = self.static.dtype
        loaded = DENSE.load(self.problem, dtype)
        keys = jnp.stack([jax.random.key(first + seed, impl="threefry2x32") for seed in range(BLOCK_SEEDS)])
        traced = jax.tree.map(lambda value: jnp.full(BLOCK_SEEDS, value, dtype), self.settings.traced)
        schedule = RecordSchedule(jnp.asarray(self.steps, jnp.int32), jnp.int32(len(self.steps)))
        return schedule, Inputs(loaded, None, jnp.int32(self.settings.group_size), keys, traced)

    def _key(self, inputs: Inputs) -> Hashable:
        leaves, structure = jax.tree.flatten(inputs)
        shapes = tuple(leaf.shape for leaf in leaves)
        return "explore", self.static, self.metrics, self.more_metrics, len(self.steps), structure, shapes


def _program(
    settings: StaticSettings, names: tuple[str, ...], more: tuple[Metric, ...], schedule: RecordSchedule, inputs: Inputs
) -> Records:
    """Return the records, (R + 1, seeds, ...), of step 0 and of those scheduled."""
    metrics = (*(metric for metric in inputs.problem.metrics if metric.name in names), *more)
    learners = make_learners(settings, DENSE, inputs, are_padded=settings.exchangeable, metrics=metrics)
    return advance(learners, schedule, begin(learners, schedule)).rows

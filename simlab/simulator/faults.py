"""Notice the first number of a run that is not finite, and tell it in one line once the run has ended.

A loop on a device cannot stop to complain, and what is not finite need not show in the records. So a run carries what
came first, in four whole numbers. Within a step the advantages and coefficients of its group are looked at, and then
the logits that it drew; where something is recorded, all logits and the optimiser's moments.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from simlab.errors import Diverged
from simlab.finite import rewards_in_words
from simlab.problems.base import Problem
from simlab.simulator.settings import Settings

LOGIT, ADVANTAGE, COEFFICIENT, MOMENT = 1, 2, 3, 4
NAMES = {LOGIT: "a logit", ADVANTAGE: "an advantage", COEFFICIENT: "a coefficient", MOMENT: "the optimiser's state"}
UNKNOWN = -1


class Fault(NamedTuple):
    """What came first, and when; nothing changes any more once there is something.

    Attributes:
        what: 0 while all is well, then a key of ``NAMES``.
        steps: how many steps had begun.
        correct: how many rollouts of the group were correct, -1 if it was noticed at a record.
        prompt: whose group it was in a batch of several prompts; -1 where there is one alone, or all are meant.
    """

    what: Int[Array, ""]
    steps: Int[Array, ""]
    correct: Int[Array, ""]
    prompt: Int[Array, ""]

    def begun(self) -> "Fault":
        """One more step has begun."""
        return self._replace(steps=self.steps + (self.what == 0))

    def noticed(
        self,
        what: int,
        finite: Bool[Array, " P"],
        correct: Int[Array, " P"] | None = None,
        prompts: Int[Array, " P"] | None = None,
    ) -> "Fault":
        """Something was looked at, group by group, of which so many rollouts are ``correct``."""
        place = jnp.argmin(finite) if len(finite) > 1 else 0  # which spares a step of one prompt some microseconds
        first = (self.what == 0) & ~finite[place]
        return Fault(
            jnp.where(first, what, self.what),
            self.steps,
            self.correct if correct is None else jnp.where(first, correct[place], self.correct),
            self.prompt if prompts is None else jnp.where(first, prompts[place], self.prompt),
        )


def no_fault() -> Fault:
    """Before the first step."""
    zero, unknown = jnp.zeros((), jnp.int32), jnp.full((), UNKNOWN, jnp.int32)
    return Fault(zero, zero, unknown, unknown)


def complain(settings: Sequence[Settings], seeds: Sequence[int], fault: Fault, problem: Problem) -> None:
    """Raise ``Diverged`` for the first of some runs, of these settings and seeds, that has a fault."""
    found = [np.atleast_1d(np.asarray(values)) for values in fault]
    for own, seed, *values in zip(settings, seeds, *found, strict=True):
        what, steps, correct, prompt = (int(value) for value in values)
        if what:
            where = f"seed {seed}, step {steps}" + (f", prompt {prompt}" if prompt != UNKNOWN else "")
            right, wrong = float(problem.reward_correct), float(problem.reward_incorrect)
            told = rewards_in_words({right: correct, wrong: own.group_size - correct})
            group = f", where {told if correct != UNKNOWN else f'rewards are {right:g} and {wrong:g}'}"
            fault_of = f"{NAMES[what]} is not finite in {own.dtype}"
            raise Diverged(f"{own.name}, {where}: {fault_of}{group}; allowed: finite numbers")

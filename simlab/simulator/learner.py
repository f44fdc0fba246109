"""Learn: a step draws samples, weighs them, and ascends; one learner for all problems and storages.

A learner is one seed with one set of traced settings. A step on one prompt with four equally likely actions, of which
action 0 is correct, with Dr. GRPO, G = 4 and SGD at a rate of 0.1::

    draw      actions        0      2      0      3
    weigh     rewards        1      0      1      0      their mean is 0.5
              advantages     0.5   -0.5    0.5   -0.5
    ascend    coefficients   0.125 -0.125  0.125 -0.125  advantages / G, which sum to exactly 0:
              gradient       0.25   0     -0.125 -0.125  of the logits of actions 0 to 3; action 1 was not drawn
              logits move by 0.025  0     -0.0125 -0.0125
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from simlab.simulator.allocation import UNSEEN
from simlab.simulator.ascend import ascend_batch, empty_batch, record_shapes
from simlab.simulator.context import StepContext
from simlab.simulator.draw import draw_samples
from simlab.simulator.lumped import Lumped, most_new
from simlab.simulator.remedy import known_at_start
from simlab.simulator.state import LOGIT, MOMENT, UNKNOWN, Fault, LastBatch, LearnerState, Records
from simlab.simulator.storage import Slots
from simlab.simulator.tempering import count_outcomes, tempering_at_start
from simlab.simulator.weigh import weigh_samples
from simlab.truths import all_true


class Learner(StepContext):
    """A context that takes steps, of three stages."""

    draw, weigh, ascend = draw_samples, weigh_samples, ascend_batch

    def slots_at_start(self) -> Slots:
        """Return the slots that the first step starts from."""
        return self.initial_slots

    def start(self) -> LearnerState:
        """Return the state before the first step."""
        settings = self.settings
        zero = jnp.zeros((), settings.dtype)
        moments = self.optimizer.init(self.initial_parameters)
        stages = self.method.estimator, self.method.surrogate
        memory, schedule = (jax.tree.map(lambda value: zero + value, stage.init()) for stage in stages)
        unknown: Any = None
        older = (self.initial_parameters,) * settings.lag
        slots, fault = self.slots_at_start(), Fault(*(jnp.int32(value) for value in (0, 0, UNKNOWN, UNKNOWN)))
        solved = jnp.full(self.problem.prompts, UNSEEN, settings.dtype) if settings.remembers_solve_rates else None
        tempering = (
            tempering_at_start(self.problem.prompts, self.numbers, settings.dtype) if settings.is_tempered else None
        )
        more = fault, solved, empty_batch(self), schedule, tempering, known_at_start(self)
        bare = LearnerState(self.initial_parameters, moments, memory, slots, unknown, {}, None, older, *more)

        def first_batch() -> tuple[LastBatch, Records]:
            batch, _ = self.weigh(*self.draw(jnp.int32(0), bare)[1:], bare)
            return batch.summary(), record_shapes(self, batch, schedule)

        shapes = jax.eval_shape(first_batch)
        last, sums = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        history = self.problem.first_history(self.initial_parameters, self.prompts_per_step)
        return bare._replace(last=last, sums=sums, history=history)

    def step(self, index: Int[Array, ""], state: LearnerState) -> LearnerState:
        """Choose prompts, draw a group for each, weigh them all, and take the gradient steps they pay for."""
        state, keys, prompts, samples = self.draw(index, state)
        batch, memory = self.weigh(keys, prompts, samples, state)
        solved = state.solved if state.solved is None else state.solved.at[batch.prompts].set(batch.accepted_share)
        tempering = state.tempering
        if tempering is not None:
            right = batch.number_correct.astype(batch.dtype)
            tempering = count_outcomes(tempering, batch.prompts, right, batch.size, self.numbers)
        return self.ascend(batch, state._replace(memory=memory, solved=solved, tempering=tempering))

    def begin_window(self, state: LearnerState) -> LearnerState:
        """Return the state with nothing summed yet, as after a record."""
        state = state._replace(sums=jax.tree.map(jnp.zeros_like, state.sums))
        return state._replace(history=self.problem.recorded_history(state.history, state.parameters))

    def has_room(self, state: LearnerState) -> Bool[Array, ""]:
        """Return True if the storage has a slot for every action that the next step may draw."""
        if not isinstance(self.storage, Lumped):
            return jnp.asarray(True)
        rollouts = self.group_size if self.present is None else jnp.sum(self.present, dtype=jnp.int32)
        new = most_new(self.problem, self.prompts_per_step, rollouts, self.surrogate.candidates)
        return self.storage.fits(state.slots, new)

    def align(self, parameters: Any, slots: Slots, state: LearnerState) -> Any:
        """Extend parameters before the step to a state to the slots that the step has given to actions."""
        if slots is None:
            return parameters
        return self.map_slots(self.storage.align)(parameters, slots, state.slots)

    def check_all(self, state: LearnerState) -> LearnerState:
        """Note a fault in any parameter or moment, where something is recorded."""
        fault = state.fault
        for kind, tree in ((LOGIT, state.parameters), (MOMENT, state.moments)):
            leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.ndim]
            if leaves:
                check = self.map_slots(self.storage.is_finite)
                finite = all_true(jnp.stack([all_true(check(leaf, state.slots)) for leaf in leaves]))
                fault = fault.check(kind, finite[None])
        return state._replace(fault=fault)

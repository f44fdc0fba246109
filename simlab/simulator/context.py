"""Give the stages of a step what they share: the settings, numbers and policies of one seed on one problem."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.problems.exact import correct_mass
from simlab.simulator.metrics import Metric
from simlab.simulator.mismatch import sampler_logits
from simlab.simulator.optimizers import optimizer
from simlab.simulator.policy import Group
from simlab.simulator.settings import StaticSettings, TracedSettings
from simlab.simulator.state import LearnerState
from simlab.simulator.storage import Slots, StoredProblem


class StepContext:
    """A seed's key and numbers, on a problem that a storage keeps, whose ``metrics`` may be others than the problem's.

    ``present`` is false for rollouts that only pad a group to the size its program is compiled for.
    """

    def __init__(
        self,
        settings: StaticSettings,
        stored: StoredProblem,
        key: PRNGKeyArray,
        numbers: TracedSettings,
        present: Bool[Array, " G"] | None = None,
        *,
        metrics: tuple[Metric, ...] | None = None,
    ):
        self.settings, self.key, self.numbers, self.present = settings, key, numbers, present
        self.problem, self.storage, self.initial_slots = stored
        self.method = settings.build(numbers.method)
        self.surrogate: Any = self.method.surrogate
        self.optimizer = optimizer(settings.optimizer, **numbers.optimizer)
        self.metrics = self.problem.recorded if metrics is None else metrics
        self.correct, self.target = (jnp.atleast_2d(values) for values in (self.problem.correct, self.problem.target))
        self.group_size = settings.room  # how many rollouts a group has room for: G, unless groups differ in size
        self.prompts_per_step: int = self.problem.prompts_a_step(settings)
        # A batch is all prompts in their order, unless minibatches are parts of a random order.
        self.takes_all_in_order = self.prompts_per_step == self.problem.prompts and settings.minibatches == 1

        self.labels = self.correct, self.target, self.problem.rewards

    # Computed by what needs them: a program makes a learner in each of its loops and conditions.

    @functools.cached_property
    def initial_parameters(self) -> Any:
        """The parameters at the start."""
        spread, dtype = self.map_slots(self.storage.spread), self.settings.dtype
        # A user's problem may have NumPy's.
        return jax.tree.map(lambda values: spread(jnp.asarray(values, dtype)), self.problem.parameters)

    @functools.cached_property
    def initial_policies(self) -> Any:
        """The policies of all prompts at the start."""
        return self.policies_at(self.initial_parameters, self.initial_slots)

    @functools.cached_property
    def demonstrators(self) -> Any:
        """The policies of all prompts at the start, given that the answer is correct."""
        condition = self.map_prompts(
            lambda slots, policy, correct: policy.condition(self.storage.at_slots(correct, slots))
        )
        return condition(self.initial_slots, self.initial_policies, self.correct)

    def map_prompts(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Extend a function of the slots and of values of one prompt to all prompts of a batch."""
        slots_axis = 0 if self.problem.has_own_parameters else None

        def mapped(slots: Any, *values: Any) -> Any:
            if self.problem.prompts > 1:
                return jax.vmap(function, in_axes=(slots_axis, *[0] * len(values)))(slots, *values)
            slots = jax.tree.map(lambda leaf: leaf[0], slots) if slots_axis == 0 else slots
            result = function(slots, *jax.tree.map(lambda leaf: leaf[0], values))
            return jax.tree.map(lambda leaf: leaf[None], result)

        return mapped

    def map_slots(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Extend a function of one set of slots to all: to those of each prompt, if prompts have own parameters."""
        return jax.vmap(function) if self.problem.has_own_parameters else function

    def select(self, values: Any, prompts: Int[Array, " P"]) -> Any:
        """Select those of a batch from values of all prompts."""
        return values if self.problem.prompts == 1 else jax.tree.map(lambda leaf: leaf[prompts], values)

    def select_rows(self, values: Any, prompts: Int[Array, " P"]) -> Any:
        """Select those of a batch from values that have a row of each prompt where prompts have own parameters."""
        if not self.problem.has_own_parameters or self.takes_all_in_order:
            return values
        return jax.tree.map(lambda leaf: leaf[prompts], values)

    def replace_rows(self, values: Any, prompts: Int[Array, " P"], rows: Any) -> Any:
        """Put the rows of a batch back."""
        if not self.problem.has_own_parameters or self.takes_all_in_order:
            return rows
        return jax.tree.map(lambda leaf, row: leaf.at[prompts].set(row), values, rows)

    def policies_at(self, parameters: Any, slots: Slots, prompts: Int[Array, " P"] | None = None) -> Any:
        """Return the policies of some prompts, or of all, at some parameters."""
        return self.policies_from(self.problem.logits_of(parameters, prompts), slots)

    def policies_from(
        self, logits: Float[Array, "P ..."], slots: Slots, temperatures: Float[Array, " P"] | None = None
    ) -> Any:
        """Return the policies that logits of prompts give, at one temperature or one of each."""
        storage, policy = self.storage, self.problem.policy
        if temperatures is None:
            make = self.map_prompts(lambda slots, own: policy(own, self.numbers.temperature, storage, slots))
            return make(slots, logits)
        make = self.map_prompts(lambda slots, own, temperature: policy(own, temperature, storage, slots))
        return make(slots, logits, temperatures)

    def temperatures(self, state: LearnerState, prompts: Int[Array, " P"]) -> Float[Array, " P"] | None:
        """Return the temperature of each prompt of a batch; None where all have one."""
        return None if state.tempering is None else state.tempering.temperatures[prompts]

    def policies(self, state: LearnerState, prompts: Int[Array, " P"]) -> Any:
        """Return the policies of the prompts of a batch."""
        logits = self.problem.logits_of(state.parameters, prompts)
        return self.policies_from(logits, self.select_rows(state.slots, prompts), self.temperatures(state, prompts))

    def samplers(self, state: LearnerState, prompts: Int[Array, " P"]) -> Any:
        """Return the policies that draw the groups of the prompts of a batch."""
        if not self.settings.samples_otherwise:
            return self.policies(state, prompts)
        parameters = state.older[-1] if state.older else state.parameters
        logits, numbers = self.problem.logits_of(parameters, prompts), self.numbers
        logits = sampler_logits(self.settings.sampler, logits, numbers.temperature, numbers.top_p, self.settings.top_k)
        return self.policies_from(logits, self.select_rows(state.slots, prompts))

    def token_logp(self, policies: Any, groups: Group) -> Float[Array, "P G T"]:
        """Return the log-probability of each token of some groups."""
        logp: Array = self.map_prompts(lambda _, policy, group: policy.token_logp(group))(None, policies, groups)
        return logp

    def drawn_values(self, values: Float[Array, "P ..."], groups: Group) -> Float[Array, "P ..."]:
        """Look up the values of each prompt at what its group drew."""
        look_up = self.map_prompts(lambda _, row, group: group.drawn_values(row, self.storage))
        drawn: Array = look_up(None, values, groups)
        return drawn

    def solve_rate(self, slots: Slots, policy: Any, correct: Array) -> Float[Array, ""]:
        """Return the exact probability of a correct rollout of one prompt."""
        outcomes = policy.outcomes()
        rate: Array = correct_mass(outcomes.shares, self.storage.at_slots(correct, slots), outcomes.sum)
        return rate

    def parameter_members(self, parameters: Any, slots: Slots) -> Float[Array, "..."] | float:
        """Return how many actions each entry of the parameters stands for."""
        if slots is None:
            return 1.0
        members: Array = self.map_slots(lambda slots: self.storage.multiplicity(slots, parameters.dtype))(slots)
        return members.reshape(*members.shape, *[1] * (parameters.ndim - members.ndim))

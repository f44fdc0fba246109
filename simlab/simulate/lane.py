"""One lane: one seed with one set of numbers; how it starts, steps, and what it records of its policy.

Engines differ in what a place of the policy stands for. Here it is one action, as in the dense engine; the lumped one
overrides what it means to sample, and how a place finds what the problem says of its action.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from simlab.rollouts import Rollouts
from simlab.simulate.metrics import Row, policy_metrics, update_metrics
from simlab.simulate.optimizers import optimizer
from simlab.simulate.policy import Policy, softmax
from simlab.simulate.program import Numbers, Program
from simlab.simulate.sampling import draw
from simlab.simulate.update import entropy_gradient, kl_gradient, logit_gradient, rule_factor
from simlab.surrogates import aggregation_weights

NOISE_STREAM = 1  # folded into the key of a step, which itself draws the group


class Landscape(NamedTuple):
    """The arrays of a problem on the device: initial logits, correct and target actions, each (N,), or of classes."""

    logits: Float[Array, " N"]
    correct: Bool[Array, " N"]
    target: Bool[Array, " N"]


class State(NamedTuple):
    """What a lane carries from step to step; the last group and two counters serve the records.

    ``lumps`` is what the lumped engine knows of the places, None in the dense engine; ``tree`` is what its sparse steps
    keep of the policy.
    """

    logits: Float[Array, " N"]
    optimizer: Any
    estimator: Any
    actions: Int[Array, " G"]
    active: Float[Array, ""]
    tail_missed: Float[Array, ""]
    lumps: Any = None
    tree: Any = None


class Drawn(NamedTuple):
    """The policy that drew a group, the places drawn, and the likeliest actions: log-probabilities and places."""

    policy: Policy
    actions: Int[Array, " G"]
    top_logp: Float[Array, " C"]
    candidates: Int[Array, " C"]


class Group(NamedTuple):
    """One sampled group, P = 1 and T = 1, the likeliest actions when it was sampled, and its advantages."""

    actions: Int[Array, " G"]
    candidates: Int[Array, " C"]
    rollouts: Rollouts
    advantages: Float[Array, "1 G 1"]


class Lane:
    """A lane of the dense engine.

    ``present`` (G,) is false for rollouts that only fill a group up to the size its program is compiled for; None where
    there are none.
    """

    def __init__(
        self,
        program: Program,
        place: Landscape,
        key: PRNGKeyArray,
        numbers: Numbers,
        present: Bool[Array, " G"] | None = None,
    ):
        self.program, self.place, self.key, self.numbers, self.present = program, place, key, numbers, present
        self.estimator = program.build_estimator(numbers.estimator)
        self.surrogate = program.build_surrogate(numbers.surrogate)
        self.optimizer = optimizer(program.optimizer, **numbers.optimizer)
        self.initial = self.initial_policy()

    def initial_policy(self) -> Policy:
        """The policy before the first step."""
        return softmax(self.place.logits, self.numbers.temperature)

    def start(self) -> State:
        """The state before the first step."""
        zero = jnp.zeros_like(self.initial.total)
        return State(
            logits=self.place.logits,
            optimizer=self.optimizer.init(self.place.logits),
            estimator=jax.tree.map(lambda value: zero + value, self.estimator.init()),
            actions=jnp.zeros(self.program.group_size, jnp.int32),
            active=zero,
            tail_missed=zero,
        )

    def remaining(self, state: State) -> Float[Array, " C"] | None:
        """How many actions each of the first places stands for, if they stand for classes."""
        return None

    def moved(self, logits: Float[Array, " N"], change: Float[Array, " N"]) -> Float[Array, " N"]:
        """The logits after an update."""
        return logits + change

    def at_places(self, values: Shaped[Array, " N"], state: State) -> Shaped[Array, " N"]:
        """What the problem says of the action of each place."""
        return values

    def at(self, values: Shaped[Array, " N"], places: Int[Array, " G"], state: State) -> Shaped[Array, " G"]:
        """What the problem says of the actions of some places."""
        return values[places]

    def sample(self, key: PRNGKeyArray, state: State) -> tuple[State, Drawn]:
        """Draw a group, and give every action of it a place of its own."""
        policy = softmax(state.logits, self.numbers.temperature)
        actions = draw(key, policy.weights, self.program.group_size)
        return state, Drawn(policy, actions, *policy.top(self.surrogate.candidates))

    def step(self, index: Int[Array, ""], state: State) -> State:
        """Sample a group, weigh it, and take the gradient steps it pays for."""
        key = jax.random.fold_in(self.key, index)
        return self.learn(key, *self.sample(key, state))

    def learn(self, key: PRNGKeyArray, state: State, drawn: Drawn) -> State:
        """Weigh a group and take the gradient steps it pays for."""
        correct = self.at(self.place.correct, drawn.actions, state)
        group, memory = self.weigh(key, drawn, correct, state.estimator)
        moved = self.ascend(group, state, drawn.policy, jnp.ones_like(group.advantages))
        if self.program.gradient_steps > 1:
            moved = jax.lax.fori_loop(
                1, self.program.gradient_steps, lambda _, state: self.ascend_again(group, state), moved
            )
        target = self.at(self.place.target, drawn.actions, state)
        absent = jnp.zeros_like(correct) if self.present is None else ~self.present
        active = jnp.any(correct & ~absent) & ~jnp.all(correct | absent)
        missed = active & ~jnp.any(target & ~absent)
        return moved._replace(
            estimator=memory,
            actions=drawn.actions,
            active=state.active + active,
            tail_missed=state.tail_missed + missed,
        )

    def weigh(self, key: PRNGKeyArray, drawn: Drawn, correct: Bool[Array, " G"], memory: Any) -> tuple[Group, Any]:
        """The group with its advantages, and what the estimator remembers."""
        rollouts = self.rollouts(drawn, correct, key)
        advantages, memory = self.estimator.update(rollouts, memory)
        return Group(drawn.actions, drawn.candidates, rollouts, advantages.reshape(1, -1, 1)), memory

    def rollouts(self, drawn: Drawn, correct: Bool[Array, " G"], key: PRNGKeyArray) -> Rollouts:
        """The record of one group, with what the estimator, the surrogate or a later gradient step reads."""
        rewards = jnp.where(correct, self.numbers.reward_correct, self.numbers.reward_incorrect)
        needs, shape = self.estimator.needs | self.surrogate.needs, (1, self.program.group_size, 1)
        needs_logp = "old_logp" in needs or self.program.gradient_steps > 1
        everyone = (*shape, self.surrogate.candidates)
        return Rollouts(
            rewards.astype(self.program.dtype)[None],
            old_logp=drawn.policy.logp_of(drawn.actions).reshape(shape) if needs_logp else None,
            entropy=jnp.broadcast_to(drawn.policy.entropy, shape) if "entropy" in needs else None,
            topn_logp=jnp.broadcast_to(drawn.top_logp, everyone) if "topn_logp" in self.surrogate.needs else None,
            noise=jax.random.uniform(jax.random.fold_in(key, NOISE_STREAM), shape, self.program.dtype)
            if "noise" in needs
            else None,
            mask=None if self.present is None else self.present[None],
        )

    def ascend_again(self, group: Group, state: State) -> State:
        """A further gradient step on a group that an older policy sampled."""
        policy = softmax(state.logits, self.numbers.temperature, self.remaining(state))
        old_logp = group.rollouts.old_logp
        assert old_logp is not None
        ratio = jnp.exp(policy.logp_of(group.actions).reshape(old_logp.shape) - old_logp)
        return self.ascend(group, state, policy, ratio)

    def ascend(self, group: Group, state: State, policy: Policy, ratio: Float[Array, "1 G 1"]) -> State:
        """One gradient step on the group, at ``policy``, whose probabilities are ``ratio`` times the sampler's."""
        numbers = self.numbers
        gradient = self.gradient(self.coefficients(group, ratio), group, policy)
        if self.program.uses_entropy_bonus:
            gradient += numbers.entropy_bonus * entropy_gradient(policy, numbers.temperature)
        if self.program.uses_kl:
            gradient -= numbers.kl * kl_gradient(policy, self.at_places(self.initial.logp, state), numbers.temperature)
        change, moments = self.optimizer.update(-gradient, state.optimizer, state.logits)
        return state._replace(logits=self.moved(state.logits, change), optimizer=moments)

    def coefficients(self, group: Group, ratio: Float[Array, "1 G 1"]) -> Float[Array, "G M"]:
        """What the loss multiplies grad log pi with: of the action of each rollout first, then of the candidates."""
        coefficients = self.surrogate.coefficient(ratio, group.advantages, group.rollouts)
        averaged: Float[Array, "G M"] = coefficients.reshape(self.program.group_size, -1)
        return averaged * self.averaging(ratio.dtype)[:, None]

    def gradient(self, coefficients: Float[Array, "G M"], group: Group, policy: Policy) -> Float[Array, " N"]:
        """The gradient of the logits, from the coefficients of each rollout's action and candidates."""
        times = 1.0 if self.present is None else self.present.astype(coefficients.dtype)
        coefficients = coefficients * rule_factor(self.program.update_rule, policy, group.actions, times)[:, None]
        moved = jnp.concatenate([group.actions, jnp.tile(group.candidates, self.program.group_size)])
        each = jnp.concatenate([coefficients[:, 0], coefficients[:, 1:].reshape(-1)])
        return logit_gradient(each, moved, policy, self.numbers.temperature)

    def averaging(self, dtype: jnp.dtype) -> Float[Array, " G"]:
        """The weight of each rollout in the loss, 1 / G."""
        present = jnp.ones(self.program.group_size, bool) if self.present is None else self.present
        weights: Float[Array, " G"] = aggregation_weights(present[None, :, None]).astype(dtype).reshape(-1)
        return weights

    def policy_metrics(self, state: State) -> Row:
        """The records of a policy."""
        policy = softmax(state.logits, self.numbers.temperature, self.remaining(state))
        scores, weights = (self.at_places(values, state) for values in (self.initial.scores, self.initial.weights))
        initial = Policy(scores, weights, self.initial.total)
        correct = self.at_places(self.place.correct, state)
        return policy_metrics(policy, initial, correct, self.program.pass_at_k, self.program.top_n)

    def record(self, before: Float[Array, " N"], state: State, length: Int[Array, ""]) -> Row:
        """The records after a window of ``length`` steps, the last of which started at logits ``before``."""
        steps = length.astype(before.dtype)
        rates = {"active_rate": state.active / steps, "tail_miss_rate": state.tail_missed / steps}
        temperature, left = self.numbers.temperature, self.remaining(state)
        old, new = softmax(before, temperature, left), softmax(state.logits, temperature, left)
        change = (state.logits - before) / temperature
        update = update_metrics(old, new, change, self.times(state), self.at_places(self.place.correct, state))
        return rates | update | self.policy_metrics(state)

    def times(self, state: State) -> Float[Array, " N"]:
        """How often the last group holds the action of each place."""
        drawn = 1.0 if self.present is None else self.present.astype(state.logits.dtype)
        return jnp.zeros_like(state.logits).at[state.actions].add(drawn)

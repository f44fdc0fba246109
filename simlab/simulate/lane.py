"""One lane: one seed with one set of numbers; how it starts, steps, and what it records of its policy.

Engines differ in what a place of the policy stands for. Here it is one action, as in the dense engine; the lumped one
overrides what it means to sample, and how a place finds what the problem says of its action. A bank of prompts is many
policies of this kind: ``simlab.simulate.bank_lane``.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from simlab.estimators.tokens import of_tokens
from simlab.rollouts import Rollouts
from simlab.simulate.axis import WHOLE, Axis
from simlab.simulate.faults import ADVANTAGE, COEFFICIENT, LOGIT, MOMENT, Fault, no_fault
from simlab.simulate.metrics import Row, policy_metrics, update_metrics
from simlab.simulate.optimizers import optimizer
from simlab.simulate.policy import Policy, softmax
from simlab.simulate.program import Numbers, Program
from simlab.simulate.update import entropy_gradient, kl_gradient, logit_gradient, rule_factor, with_norm
from simlab.surrogates import aggregation_weights

NOISE_STREAM = 1  # folded into the key of a step, which itself draws the group


class Landscape(NamedTuple):
    """The arrays of a problem on the device: initial logits, correct and target actions.

    Each is (N,), or of classes, or (M, A) of a bank of prompts. Where prompts share a head, ``features`` are (M, d),
    and ``logits`` the initial weights of the head, (A, d). Of a tree the logits are (nodes, B), the others (leaves,),
    and ``modes`` are the leaves whose probabilities are recorded.
    """

    logits: Float[Array, "*M N"]
    correct: Bool[Array, "*outcomes"]
    target: Bool[Array, "*outcomes"]
    features: Float[Array, "M d"] | None = None
    modes: Int[Array, " modes"] | None = None


class State(NamedTuple):
    """What a lane carries from step to step; the last group and two counters serve the records.

    ``logits`` are what the optimiser moves: of prompts that share features their weights.
    ``lumps`` is what the lumped engine knows of the places, None in the dense engine; ``tree`` is what its sparse steps
    keep of the policy; ``bank`` is what a lane of many prompts knows of its last batch; ``advantages`` are those of the
    last group's tokens, kept by a lane of many tokens; ``fault`` is the first number that was not finite.
    """

    logits: Float[Array, "*M N"]
    optimizer: Any
    estimator: Any
    actions: Int[Array, "*P G"]
    active: Float[Array, ""]
    tail_missed: Float[Array, ""]
    fault: Fault
    lumps: Any = None
    tree: Any = None
    bank: Any = None
    advantages: Float[Array, "1 G T"] | None = None


class Drawn(NamedTuple):
    """The policy that drew a group, the places drawn, and the likeliest actions: log-probabilities and places."""

    policy: Policy
    actions: Int[Array, "*P G"]
    top_logp: Float[Array, "*P C"]
    candidates: Int[Array, "*P C"]


class Group(NamedTuple):
    """One sampled group, P = 1 and T = 1, the likeliest actions when it was sampled, and its advantages.

    Of a bank it is a batch of groups, with an axis of prompts. Of a tree T may be more: ``actions`` are then the leaves
    reached, and there are candidates at each token, (G, T, C).
    """

    actions: Int[Array, "*P G"]
    candidates: Int[Array, "*P C"]
    rollouts: Rollouts
    advantages: Float[Array, "P G 1"] | Float[Array, "P G T"]


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
        *,
        axis: Axis = WHOLE,
    ):
        self.program, self.place, self.key, self.numbers, self.present = program, place, key, numbers, present
        self.axis = axis
        self.estimator = program.build_estimator(numbers.estimator)
        self.surrogate = program.build_surrogate(numbers.surrogate)
        self.optimizer = optimizer(program.optimizer, **numbers.optimizer)
        self.initial = self.initial_policy()

    @property
    def tokens(self) -> int:
        """T, the tokens of a rollout."""
        return 1

    def initial_policy(self) -> Policy:
        """The policy before the first step."""
        return softmax(self.place.logits, self.numbers.temperature, axis=self.axis)

    def start(self) -> State:
        """The state before the first step."""
        zero = jnp.zeros((), self.place.logits.dtype)
        return State(
            logits=self.place.logits,
            optimizer=self.optimizer.init(self.place.logits),
            estimator=jax.tree.map(lambda value: zero + value, self.estimator.init()),
            actions=jnp.zeros(self.program.group_size, jnp.int32),
            active=zero,
            tail_missed=zero,
            fault=no_fault(),
        )

    def counted_anew(self, state: State) -> State:
        """The state with nothing counted yet, as after a record."""
        zero = jnp.zeros_like(state.active)
        return state._replace(active=zero, tail_missed=zero)

    def remaining(self, state: State) -> Float[Array, " C"] | None:
        """How many actions each of the first places stands for, if they stand for classes."""
        return None

    def moved(self, logits: Float[Array, "*M N"], change: Float[Array, "*M N"]) -> Float[Array, "*M N"]:
        """The logits after an update."""
        return logits + change

    def at_places(self, values: Shaped[Array, " N"], state: State) -> Shaped[Array, " N"]:
        """What the problem says of the action of each place."""
        return values

    def at(self, values: Shaped[Array, " N"], places: Int[Array, " G"], state: State) -> Shaped[Array, " G"]:
        """What the problem says of the actions of some places."""
        return self.axis.at(values, places)

    def policy(self, state: State) -> Policy:
        """The policy that draws the next group."""
        return softmax(state.logits, self.numbers.temperature, self.remaining(state), self.axis)

    def sample(self, key: PRNGKeyArray, state: State) -> tuple[State, Drawn]:
        """Draw a group, and give every action of it a place of its own."""
        return state, self.drawn(key, self.policy(state))

    def drawn(self, key: PRNGKeyArray, policy: Policy) -> Drawn:
        """A group of a policy."""
        actions = self.axis.draw(key, policy.weights, self.program.group_size)
        return Drawn(policy, actions, *policy.top(self.surrogate.candidates))

    def step(self, index: Int[Array, ""], state: State) -> State:
        """Sample a group, weigh it, and take the gradient steps it pays for."""
        key = jax.random.fold_in(self.key, index)
        return self.learn(key, *self.sample(key, state))

    def learn(self, key: Key[Array, "*P"], state: State, drawn: Drawn) -> State:
        """Weigh a group and take the gradient steps it pays for."""
        correct = self.at(self.place.correct, drawn.actions, state)
        group, memory = self.weigh(key, drawn, correct, state.estimator)
        on_policy = jnp.ones((*group.rollouts.rewards.shape, self.tokens), group.advantages.dtype)
        begun = self.noticed(state.fault.begun(), ADVANTAGE, group.advantages, group, state)
        moved = self.ascend(group, state._replace(fault=begun), drawn.policy, on_policy)
        if self.program.gradient_steps > 1:
            moved = jax.lax.fori_loop(
                1, self.program.gradient_steps, lambda _, state: self.ascend_again(group, state), moved
            )
        fault = self.noticed(moved.fault, LOGIT, self.drawn_logits(moved, group), group, state)
        target = self.at(self.place.target, drawn.actions, state)
        absent = jnp.zeros_like(correct) if self.present is None else ~self.present
        active = jnp.any(correct & ~absent, axis=-1) & ~jnp.all(correct | absent, axis=-1)
        missed = active & ~jnp.any(target & ~absent, axis=-1)
        return moved._replace(
            fault=fault,
            estimator=memory,
            actions=drawn.actions,
            active=state.active + jnp.mean(active, dtype=state.active.dtype),
            tail_missed=state.tail_missed + jnp.mean(missed, dtype=state.active.dtype),
            bank=self.batch_record(state, drawn, correct, group),
            advantages=self.token_record(group),
        )

    def noticed(self, fault: Fault, what: int, values: Float[Array, "..."], group: Group, state: State) -> Fault:
        """What has been noticed when something of a group was looked at."""
        return fault.noticed(what, jnp.isfinite(values).all()[None], number_correct(group))

    def drawn_logits(self, state: State, group: Group) -> Float[Array, "..."]:
        """The logits of the places that a group drew: a step that breaks one logit breaks those, or the next does."""
        logits = self.axis.at(state.logits, group.actions)
        return logits if self.present is None else jnp.where(self.present, logits, 0)

    def looked_over(self, state: State) -> State:
        """The state with what shows in all its logits and moments, where something is recorded."""
        fault = state.fault.noticed(LOGIT, self.is_finite(state.logits, state)[None])
        moments = [leaf for leaf in jax.tree.leaves(state.optimizer) if leaf.ndim]
        if moments:
            finite = jnp.stack([self.is_finite(leaf, state) for leaf in moments]).all()
            fault = fault.noticed(MOMENT, finite[None])
        return state._replace(fault=fault)

    def is_finite(self, values: Float[Array, "*M N"], state: State) -> Bool[Array, ""]:
        """Whether logits or moments are finite at all places of actions."""
        return self.axis.sum(~jnp.isfinite(values)) == 0

    def batch_record(self, state: State, drawn: Drawn, correct: Bool[Array, "*P G"], group: Group) -> Any:
        """What a lane of many prompts keeps of a batch: nothing."""
        return None

    def token_record(self, group: Group) -> Float[Array, "1 G T"] | None:
        """The advantages that a lane of many tokens keeps: none."""
        return None

    def weigh(
        self, key: Key[Array, "*P"], drawn: Drawn, correct: Bool[Array, "*P G"], memory: Any
    ) -> tuple[Group, Any]:
        """The group with its advantages, and what the estimator remembers."""
        rollouts = self.rollouts(drawn, correct, key)
        advantages, memory = self.estimator.update(rollouts, memory)
        return Group(drawn.actions, drawn.candidates, rollouts, of_tokens(advantages)), memory

    def rollouts(self, drawn: Drawn, correct: Bool[Array, " G"], key: PRNGKeyArray) -> Rollouts:
        """The record of one group, with what the estimator, the surrogate or a later gradient step reads."""
        rewards = jnp.where(correct, self.numbers.reward_correct, self.numbers.reward_incorrect)
        needs, shape = self.estimator.needs | self.surrogate.needs, (1, self.program.group_size, self.tokens)
        needs_logp = "old_logp" in needs or self.program.gradient_steps > 1
        everyone = (*shape, self.surrogate.candidates)
        return Rollouts(
            rewards.astype(self.program.dtype)[None],
            old_logp=self.token_logp(drawn.policy, drawn.actions).reshape(shape) if needs_logp else None,
            entropy=jnp.broadcast_to(self.token_entropy(drawn), shape) if "entropy" in needs else None,
            topn_logp=jnp.broadcast_to(drawn.top_logp, everyone) if "topn_logp" in self.surrogate.needs else None,
            noise=jax.random.uniform(jax.random.fold_in(key, NOISE_STREAM), shape, self.program.dtype)
            if "noise" in needs
            else None,
            mask=None if self.present is None else self.present[None],
        )

    def ascend_again(self, group: Group, state: State) -> State:
        """A further gradient step on a group that an older policy sampled."""
        policy, old_logp = self.policy(state), group.rollouts.old_logp
        assert old_logp is not None
        ratio = jnp.exp(self.logp_of(policy, group.actions).reshape(old_logp.shape) - old_logp)
        return self.ascend(group, state, policy, ratio)

    def logp_of(self, policy: Policy, actions: Int[Array, "*P G"]) -> Float[Array, "*P_G_T"]:
        """The log-probabilities of the actions of a batch."""
        return self.token_logp(policy, actions)

    def token_logp(self, policy: Policy, actions: Int[Array, " G"]) -> Float[Array, "*G_T"]:
        """The log-probabilities of the tokens of one group."""
        return policy.logp_of(actions)

    def token_entropy(self, drawn: Drawn) -> Float[Array, "*G_T"]:
        """The entropy at the tokens of one group."""
        return drawn.policy.entropy

    def initial_logp(self, state: State) -> Float[Array, "*M N"]:
        """The log-probabilities of the initial policy."""
        return self.at_places(self.initial.logp, state)

    def ascend(self, group: Group, state: State, policy: Policy, ratio: Float[Array, "1 G T"]) -> State:
        """One gradient step on the group, at ``policy``, whose probabilities are ``ratio`` times the sampler's."""
        coefficients = self.coefficients(group, ratio)
        state = state._replace(fault=self.noticed(state.fault, COEFFICIENT, coefficients, group, state))
        return self.move(self.direction(coefficients, group, policy, self.initial_logp(state)), state)

    def direction(
        self, coefficients: Float[Array, "G_T M"], group: Group, policy: Policy, initial_logp: Float[Array, "*M N"]
    ) -> Float[Array, "*M N"]:
        """The gradient of the objective of one prompt."""
        numbers = self.numbers
        gradient = self.gradient(coefficients, group, policy)
        if self.program.uses_entropy_bonus:
            gradient += numbers.entropy_bonus * self.entropy_gradient(group, policy)
        if self.program.uses_kl:
            gradient -= numbers.kl * self.kl_gradient(group, policy, initial_logp)
        return gradient

    def entropy_gradient(self, group: Group, policy: Policy) -> Float[Array, "*M N"]:
        """The gradient of the entropy that a bonus is paid for."""
        return entropy_gradient(policy, self.numbers.temperature)

    def kl_gradient(self, group: Group, policy: Policy, initial_logp: Float[Array, "*M N"]) -> Float[Array, "*M N"]:
        """The gradient of the divergence from the initial policy that is charged for."""
        return kl_gradient(policy, initial_logp, self.numbers.temperature)

    def move(self, gradient: Float[Array, "*M N"], state: State) -> State:
        """The state after the optimiser has taken its step."""
        change, moments = self.optimizer.update(-gradient, state.optimizer, state.logits)
        if self.program.fixes_update_norm:
            change = with_norm(change, self.numbers.update_norm, self.axis)
        return state._replace(logits=self.moved(state.logits, change), optimizer=moments)

    def coefficients(self, group: Group, ratio: Float[Array, "1 G T"]) -> Float[Array, "G_T M"]:
        """What the loss multiplies grad log pi with: of the action of each rollout first, then of the candidates."""
        coefficients = self.surrogate(ratio, group.advantages, group.rollouts)
        averaged: Float[Array, "G_T M"] = coefficients.reshape(ratio.size, -1)
        return averaged * self.averaging(ratio.dtype)[:, None]

    def gradient(self, coefficients: Float[Array, "G_T M"], group: Group, policy: Policy) -> Float[Array, "*M N"]:
        """The gradient of the logits, from the coefficients of each rollout's action and candidates."""
        times = 1.0 if self.present is None else self.present.astype(coefficients.dtype)
        coefficients = coefficients * rule_factor(self.program.update_rule, policy, group.actions, times)[:, None]
        moved = jnp.concatenate([group.actions, jnp.tile(group.candidates, self.program.group_size)])
        each = jnp.concatenate([coefficients[:, 0], coefficients[:, 1:].reshape(-1)])
        return logit_gradient(each, moved, policy, self.numbers.temperature)

    def averaging(self, dtype: jnp.dtype) -> Float[Array, " G_T"]:
        """The weight of each token in the loss; 1 / G where rollouts have one."""
        present = jnp.ones(self.program.group_size, bool) if self.present is None else self.present
        tokens = jnp.broadcast_to(present[None, :, None], (1, len(present), self.tokens))
        weights: Float[Array, " G_T"] = aggregation_weights(tokens, self.program.aggregation).astype(dtype).reshape(-1)
        return weights

    def outcomes(self, logits: Float[Array, "*M N"], state: State) -> Policy:
        """The policy of some logits over what is correct or not."""
        return softmax(logits, self.numbers.temperature, self.remaining(state), self.axis)

    def initial_outcomes(self, state: State) -> Policy:
        """The same of the initial policy."""
        scores, weights = (self.at_places(values, state) for values in (self.initial.scores, self.initial.weights))
        return Policy(scores, weights, self.initial.total, axis=self.axis)

    def change(self, before: Float[Array, "*M N"], state: State) -> Float[Array, "*outcomes"]:
        """By how much the scores of the outcomes moved since logits ``before``, to first order in the logits."""
        change: Float[Array, "*outcomes"] = (state.logits - before) / self.numbers.temperature
        return change

    def policy_metrics(self, state: State) -> Row:
        """The records of a policy."""
        policy, initial = self.outcomes(state.logits, state), self.initial_outcomes(state)
        correct = self.at_places(self.place.correct, state)
        return policy_metrics(policy, initial, correct, self.program.pass_at_k, self.program.top_n)

    def record(self, before: Float[Array, "*M N"], state: State, length: Int[Array, ""]) -> Row:
        """The records after a window of ``length`` steps, the last of which started at logits ``before``."""
        steps = length.astype(before.dtype)
        rates = {"active_rate": state.active / steps, "tail_miss_rate": state.tail_missed / steps}
        old, new = self.outcomes(before, state), self.outcomes(state.logits, state)
        correct = self.at_places(self.place.correct, state)
        update = update_metrics(old, new, self.change(before, state), self.times(state), correct)
        return rates | update | self.policy_metrics(state)

    def times(self, state: State) -> Float[Array, " N"]:
        """How often the last group holds the outcome of each place."""
        drawn = 1.0 if self.present is None else self.present.astype(state.logits.dtype)
        return self.axis.add(jnp.zeros_like(state.logits), state.actions, drawn)


def number_correct(group: Group) -> Int[Array, " P"]:
    """How many rollouts of each group are correct."""
    correct = group.rollouts.rewards > 0
    if group.rollouts.mask is not None:
        correct &= group.rollouts.mask
    return jnp.sum(correct, axis=-1, dtype=jnp.int32)

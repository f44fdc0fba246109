"""A lane of a bank of prompts: each step draws some prompts, a group for each, and weighs all groups as one batch.

A prompt is a policy of its own, stepped by the same closed forms as a single one. Prompts meet in three places: in what
an estimator or surrogate reads of the whole batch, in an estimator's memory (a few numbers of past batches, nothing of
a single prompt), and in the optimiser, which holds all logits. A prompt outside the batch has gradient 0, so that SGD
leaves it as it is, while Adam goes on moving it along the moments of its earlier batches, and AdamW shrinks its logits.

Here the parameters that are learned are the logits themselves. ``simlab.simulate.linear_lane``, where prompts share
weights, overrides how logits come from parameters and how a gradient goes back to them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped, UInt32

from simlab.problems.categorical import correct_mass
from simlab.rollouts import Rollouts
from simlab.simulate.bank_metrics import batch_metrics, difficulty_metrics
from simlab.simulate.faults import COEFFICIENT, Fault
from simlab.simulate.lane import Drawn, Group, Lane, State, number_correct
from simlab.simulate.metrics import Row, policy_metrics, update_metrics
from simlab.simulate.policy import Policy, softmax
from simlab.simulate.threefry import threefry

CHOOSING, GROUPS = 0, 1  # the first word of the counters of a step's key: which prompts, and the key of each


class Batch(NamedTuple):
    """The prompts of the last batch, and what was recorded of all batches since the last record, summed.

    ``history`` is what a lane of shared weights keeps of its last steps.
    """

    prompts: Int[Array, " P"]
    sums: Row
    history: Any = None


def solve_rate(policy: Policy, correct: Bool[Array, " A"]) -> Float[Array, ""]:
    """The exact probability of a correct action of one prompt."""
    mass: Float[Array, ""] = correct_mass(policy.shares, correct, policy.sum)
    return mass


def own_words(key: PRNGKeyArray, stream: int, prompts: Int[Array, " P"]) -> tuple[UInt32[Array, " P"], ...]:
    """Two random words of each prompt."""
    own = prompts.astype(jnp.uint32)
    return threefry(key, jnp.full_like(own, stream), own)


class BankLane(Lane):
    """A lane of M prompts of A actions; a policy, a draw and a group of it have a first axis of prompts."""

    @property
    def prompts_per_step(self) -> int:
        """P."""
        return self.program.prompts_per_step or len(self.place.correct)

    def logits_of(
        self, parameters: Float[Array, "R C"], prompts: Int[Array, " P"] | None = None
    ) -> Float[Array, "P A"]:
        """The logits of some prompts, or of all."""
        return parameters if prompts is None else parameters[prompts]

    def pulled_back(self, gradients: Float[Array, "P A"], state: State) -> Float[Array, "R C"]:
        """The gradient of the parameters, from that of the logits of each prompt of the batch."""
        return jnp.zeros_like(state.logits).at[state.bank.prompts].set(gradients)

    def policies(self, logits: Float[Array, "P A"]) -> Policy:
        """The policies of some prompts."""
        return jax.vmap(lambda own: softmax(own, self.numbers.temperature))(logits)

    def initial_policy(self) -> Policy:
        """The policies of all prompts before the first step."""
        return self.policies(self.logits_of(self.place.logits))

    def start(self) -> State:
        """The state before the first step."""
        state, shape = super().start(), (self.prompts_per_step, self.program.group_size)
        nothing = jnp.zeros(shape, state.logits.dtype)
        sums = batch_metrics(nothing, jnp.ones(shape, bool), nothing[:, 0])
        batch = Batch(jnp.zeros(shape[0], jnp.int32), jax.tree.map(jnp.zeros_like, sums))
        return state._replace(actions=jnp.zeros(shape, jnp.int32), bank=batch)

    def counted_anew(self, state: State) -> State:
        """The state with nothing counted yet, as after a record."""
        sums = jax.tree.map(jnp.zeros_like, state.bank.sums)
        return super().counted_anew(state)._replace(bank=state.bank._replace(sums=sums))

    def choose(self, key: PRNGKeyArray) -> Int[Array, " P"]:
        """The prompts of a batch: different ones, or all of them in their order."""
        everyone = jnp.arange(len(self.place.correct), dtype=jnp.int32)
        if self.prompts_per_step == len(everyone):
            return everyone
        words, _ = own_words(key, CHOOSING, everyone)
        # Those of the largest of 24 random bits each; the lower place wins a tie, of which there are too few to show.
        return jax.lax.top_k((words >> 8).astype(jnp.float32), self.prompts_per_step)[1]

    def step(self, index: Int[Array, ""], state: State) -> State:
        """Choose prompts, sample a group for each, weigh them all, and take the gradient steps they pay for.

        What a prompt draws at a step does not depend on the prompts beside it.
        """
        key = jax.random.fold_in(self.key, index)
        prompts = self.choose(key)
        keys = jax.random.wrap_key_data(jnp.stack(own_words(key, GROUPS, prompts), axis=-1), impl="threefry2x32")
        state = state._replace(bank=state.bank._replace(prompts=prompts))
        return self.learn(keys, state, jax.vmap(self.drawn)(keys, self.policy(state)))

    def policy(self, state: State) -> Policy:
        """The policies of the prompts of the batch."""
        return self.policies(self.logits_of(state.logits, state.bank.prompts))

    def at(self, values: Shaped[Array, "M A"], places: Int[Array, "P G"], state: State) -> Shaped[Array, "P G"]:
        """What the problem says of the actions of each prompt's group."""
        return jnp.take_along_axis(values[state.bank.prompts], places, axis=1)

    def rollouts(self, drawn: Drawn, correct: Bool[Array, "P G"], key: Key[Array, " P"]) -> Rollouts:
        """The record of all groups, (P, G, ...)."""
        groups = jax.vmap(super().rollouts)(drawn, correct, key)
        together: Rollouts = jax.tree.map(lambda field: field[:, 0], groups)
        return together

    def logp_of(self, policy: Policy, actions: Int[Array, "P G"]) -> Float[Array, "P G"]:
        """The log-probabilities of the actions of each prompt's group."""
        return jax.vmap(self.token_logp)(policy, actions)

    def ascend(self, group: Group, state: State, policy: Policy, ratio: Float[Array, "P G 1"]) -> State:
        """One gradient step on the mean over the prompts of the batch of each one's objective."""
        coefficients = self.coefficients(group, ratio)
        state = state._replace(fault=self.noticed(state.fault, COEFFICIENT, coefficients, group, state))
        each = self.gradients(coefficients, group, state, policy)
        return self.move(self.pulled_back(each / len(each), state), state)

    def noticed(self, fault: Fault, what: int, values: Float[Array, "P G C"], group: Group, state: State) -> Fault:
        """What has been noticed, and of which prompt, when something of a batch was looked at."""
        return fault.noticed(what, jnp.isfinite(values).all((1, 2)), number_correct(group), state.bank.prompts)

    def drawn_logits(self, state: State, group: Group) -> Float[Array, "P G 1"]:
        """The logits of the actions of each prompt's group."""
        return state.logits[state.bank.prompts[:, None, None], group.actions[..., None]]

    def gradients(
        self, coefficients: Float[Array, "P G C"], group: Group, state: State, policy: Policy
    ) -> Float[Array, "P A"]:
        """The gradient of each prompt's objective with respect to its logits."""
        initial = jax.tree.map(lambda values: values[state.bank.prompts], self.initial)
        initial_logp = jax.vmap(lambda own: own.logp)(initial)
        return jax.vmap(self.direction)(coefficients, group, policy, initial_logp)

    def coefficients(self, group: Group, ratio: Float[Array, "P G 1"]) -> Float[Array, "P G C"]:
        """As of one prompt, for each; the surrogate sees the whole batch."""
        coefficients = self.surrogate(ratio, group.advantages, group.rollouts)
        averaged: Float[Array, "P G C"] = coefficients.reshape(*ratio.shape[:2], -1)
        return averaged * self.averaging(ratio.dtype)[:, None]

    def batch_record(self, state: State, drawn: Drawn, correct: Bool[Array, "P G"], group: Group) -> Batch:
        """The batch's prompts, and its record added to those before."""
        prompts = state.bank.prompts
        rates = jax.vmap(solve_rate)(drawn.policy, self.place.correct[prompts])
        row = batch_metrics(group.advantages[..., 0], correct, rates)
        batch: Batch = state.bank._replace(sums=jax.tree.map(jnp.add, state.bank.sums, row))
        return batch

    def policy_metrics(self, state: State) -> Row:
        """The records of all policies: means over prompts, and how their solve rates are distributed."""

        def of_one(policy: Policy, initial: Policy, correct: Bool[Array, " A"]) -> Row:
            return policy_metrics(policy, initial, correct, self.program.pass_at_k, self.program.top_n)

        rows = jax.vmap(of_one)(self.policies(self.logits_of(state.logits)), self.initial, self.place.correct)
        return {name: jnp.mean(values, axis=0) for name, values in rows.items()} | difficulty_metrics(rows["q_pos"])

    def record(self, before: Float[Array, "R C"], state: State, length: Int[Array, ""]) -> Row:
        """The records after a window of ``length`` steps, the last of which started at parameters ``before``."""
        steps = length.astype(before.dtype)
        rates = {"active_rate": state.active, "tail_miss_rate": state.tail_missed} | state.bank.sums
        prompts = state.bank.prompts
        old, new = self.logits_of(before, prompts), self.logits_of(state.logits, prompts)
        change = (new - old) / self.numbers.temperature
        update = jax.vmap(update_metrics)(
            self.policies(old), self.policies(new), change, self.times(state), self.place.correct[prompts]
        )
        means = {name: jnp.mean(values) for name, values in update.items()}
        return {name: total / steps for name, total in rates.items()} | means | self.policy_metrics(state)

    def times(self, state: State) -> Float[Array, "P A"]:
        """How often each prompt's last group holds each of its actions."""
        none = jnp.zeros((len(state.actions), self.place.correct.shape[1]), state.logits.dtype)
        times: Float[Array, "P A"] = jax.vmap(lambda own, actions: own.at[actions].add(1))(none, state.actions)
        return times

"""A lane that draws how often each action occurs in a group, for groups so large that this costs less than its draws.

Rollouts of one group that have equal rewards have equal coefficients, unless something reads more of a rollout than its
reward, or its place. So a group is known by its counts, and an estimator sees it with the correct rollouts first.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from simlab.simulate.lane import Drawn, Group, Lane, State
from simlab.simulate.multinomial import multinomial
from simlab.simulate.policy import Policy, softmax
from simlab.simulate.program import Program
from simlab.simulate.update import exact_sum, gradient_from_sums, rule_share

OF_EQUAL_ROLLOUTS = frozenset({"rewards", "entropy"})
LEAST_GROUP = 4096  # below it a group costs little, however it is drawn
GROUP_TO_ACTIONS = 0.5  # with a quarter the two take as long, and counts take longer to compile


def counts_suffice(program: Program, actions: int) -> bool:
    """Whether a ``CountedLane`` can run the program, and does so in less time than a ``Lane``."""
    estimator, surrogate = program.build_estimator({}), program.build_surrogate({})
    symmetric = program.exchangeable and estimator.needs | surrogate.needs <= OF_EQUAL_ROLLOUTS
    large = program.group_size >= max(LEAST_GROUP, GROUP_TO_ACTIONS * actions)
    return large and symmetric and surrogate.candidates == 0 and program.gradient_steps == 1


class CountedLane(Lane):
    """A lane whose ``actions``, drawn, of a group and of a state, are (N,): how often each action occurs."""

    def start(self) -> State:
        """The state before the first step."""
        return super().start()._replace(actions=jnp.zeros(len(self.place.logits), jnp.int32))

    def at(self, values: Bool[Array, " N"], places: Int[Array, " N"], state: State) -> Bool[Array, " G"]:
        """What the problem says of the actions of the group, listed with those first of which it is true."""
        return jnp.arange(self.program.group_size, dtype=jnp.int32) < jnp.sum(
            jnp.where(values, places, 0), dtype=jnp.int32
        )

    def sample(self, key: PRNGKeyArray, state: State) -> tuple[State, Drawn]:
        """Draw the counts of a group."""
        policy = softmax(state.logits, self.numbers.temperature)
        counts = multinomial(key, policy.weights, policy.total, self.program.group_size)
        return state, Drawn(policy, counts, *policy.top(0))

    def gradient(self, coefficients: Float[Array, "G 1"], group: Group, policy: Policy) -> Float[Array, " N"]:
        """The gradient of the logits, from the coefficient of the correct rollouts and that of the others."""
        rule, each = self.program.update_rule, coefficients[:, 0]
        times = group.actions.astype(each.dtype)
        of_action = jnp.where(self.place.correct, each[0], each[-1])
        sums = times * of_action * rule_share(rule, policy.p, times)
        total = exact_sum(each if rule == "simulator" else sums)
        return gradient_from_sums(sums, total, policy, self.numbers.temperature)

    def drawn_logits(self, state: State, group: Group) -> Float[Array, " N"]:
        """The logits of the actions that a group holds."""
        return jnp.where(group.actions > 0, state.logits, 0)

    def times(self, state: State) -> Float[Array, " N"]:
        """How often the last group holds each action."""
        return state.actions.astype(state.logits.dtype)

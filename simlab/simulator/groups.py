"""Groups of rollouts: the places that they drew one by one, or how often each action was drawn.

Rollouts of one group that have equal rewards have equal coefficients, unless something reads more of a rollout than its
reward, or its order. So a group that is larger than the set of actions is known by its counts, which cost less to draw,
and an estimator sees it with the correct rollouts first.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from simlab.methods import Method
from simlab.simulator.gradients import exact_sum, rule_factor, rule_share
from simlab.simulator.storage import Dense, Places

if TYPE_CHECKING:
    from simlab.problems.base import Problem
    from simlab.simulator.policy import Policy
    from simlab.simulator.settings import StaticSettings

OF_EQUAL_ROLLOUTS = frozenset({"rewards", "entropy", "greedy_reward"})
# Timed by benchmarks/constants.py, which draws the same groups in both ways.
LEAST_GROUP = 4096  # below it a group costs little, however it is drawn
GROUP_TO_ACTIONS = 0.5  # with a quarter the two take as long, and counts take longer to compile


class Listed(NamedTuple):
    """The place, or the leaf, that each rollout drew; ``present`` is false for rollouts that only fill a group up."""

    places: Int[Array, " G"]
    present: Bool[Array, " G"] | None = None

    def marks(self, values: Shaped[Array, " C"], storage: Dense, places: Places, size: int) -> Shaped[Array, " G"]:
        """What a problem says of the action of each rollout."""
        return storage.of(values, self.places, places)

    def number(self, marks: Bool[Array, " G"], values: Bool[Array, " C"]) -> Int[Array, ""]:
        """How many rollouts have a mark, made from what a problem says of the actions."""
        return jnp.sum(marks, dtype=jnp.int32)

    def score_sums(
        self, coefficients: Float[Array, "G D"], candidates: Int[Array, " C"], rule: str, policy: "Policy"
    ) -> tuple[Float[Array, " S"], Float[Array, ""]]:
        """The sum of the coefficients of each place, and that of all: of the rollouts first, then of the candidates."""
        times = 1.0 if self.present is None else self.present.astype(coefficients.dtype)
        coefficients = coefficients * rule_factor(rule, policy, self.places, times)[:, None]
        moved = jnp.concatenate([self.places, jnp.tile(candidates, len(self.places))])
        each = jnp.concatenate([coefficients[:, 0], coefficients[:, 1:].reshape(-1)])
        return policy.storage.add(jnp.zeros_like(policy.weights), moved, each), exact_sum(each)

    def total(self, values: Float[Array, "G T"]) -> Float[Array, ""]:
        """The sum of values of tokens."""
        return jnp.sum(values)

    def by_probability(
        self, values: Float[Array, "G T"], policy: "Policy", bins: Callable[[Array], Array]
    ) -> Float[Array, " B"]:
        """The sums of values of tokens over bins of the log-probability that a policy gives to the token."""
        return jnp.einsum("gt,gtb->b", values, bins(policy.token_logp(self)).astype(values.dtype))

    def times(self, nowhere: Float[Array, " S"], storage: Dense) -> Float[Array, " S"]:
        """How often the group holds each place; ``nowhere`` is 0 at all."""
        return storage.add(nowhere, self.places, 1.0 if self.present is None else self.present.astype(nowhere.dtype))

    def values(self, values: Float[Array, " S"], storage: Dense) -> Float[Array, " G"]:
        """The values at the places that were drawn, 0 for what only fills the group up."""
        drawn = storage.at(values, self.places)
        return drawn if self.present is None else jnp.where(self.present, drawn, 0)


class Counted(NamedTuple):
    """How often a group holds each action, and which actions are correct."""

    counts: Int[Array, " N"]
    correct: Bool[Array, " N"]

    def marks(self, values: Bool[Array, " N"], storage: Dense, places: Places, size: int) -> Bool[Array, " G"]:
        """What a problem says of the action of each rollout, those listed first of which it is true."""
        return jnp.arange(size, dtype=jnp.int32) < self._number(values)

    def number(self, marks: Bool[Array, " G"], values: Bool[Array, " N"]) -> Int[Array, ""]:
        """How many rollouts have a mark, made from what a problem says of the actions."""
        return self._number(values)

    def _number(self, values: Bool[Array, " N"]) -> Int[Array, ""]:
        return jnp.sum(jnp.where(values, self.counts, 0), dtype=jnp.int32)

    def _of_actions(self, values: Float[Array, "G 1"]) -> Float[Array, " N"]:
        """The value that the rollouts of each action share: the correct ones are listed first."""
        return jnp.where(self.correct, values[0, 0], values[-1, 0])

    def _sums(self, values: Float[Array, "G 1"]) -> Float[Array, " 2"]:
        """The sum of the values of the correct rollouts, which are equal, and that of the others."""
        number = self._number(self.correct)
        times = jnp.stack([number, len(values) - number]).astype(values.dtype)
        return times * jnp.stack([values[0, 0], values[-1, 0]])

    def score_sums(
        self, coefficients: Float[Array, "G 1"], candidates: Int[Array, " 0"], rule: str, policy: "Policy"
    ) -> tuple[Float[Array, " N"], Float[Array, ""]]:
        """The sum of the coefficients of each action, from that of the correct rollouts and that of the others."""
        times = self.counts.astype(coefficients.dtype)
        sums = times * self._of_actions(coefficients) * rule_share(rule, policy.p, times)
        if rule == "simulator":
            return sums, exact_sum(self._sums(coefficients), len(coefficients))
        return sums, exact_sum(sums)

    def total(self, values: Float[Array, "G 1"]) -> Float[Array, ""]:
        """The sum of values of rollouts, which those of equal rewards share."""
        return jnp.sum(self._sums(values))

    def by_probability(
        self, values: Float[Array, "G 1"], policy: "Policy", bins: Callable[[Array], Array]
    ) -> Float[Array, " B"]:
        """The sums of values of rollouts, which those of equal rewards share, over bins of their log-probability."""
        of_action = self._of_actions(values) * self.counts.astype(values.dtype)
        return of_action @ bins(policy.logp).astype(values.dtype)

    def times(self, nowhere: Float[Array, " N"], storage: Dense) -> Float[Array, " N"]:
        """How often the group holds each action."""
        return self.counts.astype(nowhere.dtype)

    def values(self, values: Float[Array, " N"], storage: Dense) -> Float[Array, " N"]:
        """The values of the actions that the group holds, 0 of the others."""
        return jnp.where(self.counts > 0, values, 0)


Group = Listed | Counted


def different(groups: Group, values: Shaped[Array, "P G ..."]) -> Shaped[Array, "P K ..."]:
    """Of values of rollouts those that may differ: of groups known by their counts the first one's and the last one's.

    Of 131072 rollouts XLA then computes no others.
    """
    return jnp.stack([values[:, 0], values[:, -1]], axis=1) if isinstance(groups, Counted) else values


def counts_suffice(settings: "StaticSettings", method: Method, problem: "Problem") -> bool:
    """Whether a group of dense storage may be known by its counts, and takes less time so."""
    symmetric = settings.exchangeable and method.needs <= OF_EQUAL_ROLLOUTS
    large = settings.group_size >= max(LEAST_GROUP, GROUP_TO_ACTIONS * problem.entries)
    alone = problem.prompts == problem.tokens == settings.gradient_steps == 1
    judged_alike = not settings.errs and not settings.is_ragged and method.surrogate.candidates == 0
    return settings.storage == "dense" and large and symmetric and alone and judged_alike

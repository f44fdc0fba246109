"""Groups of rollouts: the slots that they drew one by one, or how often each action was drawn.

Rollouts of one group that have equal rewards have equal coefficients, unless something reads more of a rollout than its
reward, or its order. So a group that is larger than the set of actions is known by its counts, which cost less to draw,
and an estimator sees it with the correct rollouts first. Of 4 actions, of which 0 and 2 are correct, the group 1 2 2 0
1 has the counts 1, 2, 2, 0; estimators see three correct rollouts and then two wrong ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from simlab.simulator.storage import Dense, Slots
from simlab.simulator.sums import exact_sum

UPDATE_RULES = ("simulator", "simulator_literal", "theorem")


class Listed(NamedTuple):
    """The slot, or the leaf, that each rollout drew; ``present`` is false for rollouts that only pad a group."""

    slots: Int[Array, " G"]
    present: Bool[Array, " G"] | None = None

    def label(self, values: Shaped[Array, " C"], storage: Dense, slots: Slots, size: int) -> Shaped[Array, " G"]:
        """Look up, for each rollout, the value of the problem's entry that its action belongs to."""
        return storage.at_draws(values, self.slots, slots)

    def count(self, labels: Bool[Array, " G"], values: Bool[Array, " C"]) -> Int[Array, ""]:
        """Count the rollouts that ``label`` has marked by ``values``."""
        return jnp.sum(labels, dtype=jnp.int32)

    def score_sums(
        self,
        coefficients: Float[Array, "G D"],
        candidates: Int[Array, " C"],
        rule: str,
        *,
        weights: Float[Array, " S"],
        total: Float[Array, ""],
        storage: Dense,
    ) -> tuple[Float[Array, " S"], Float[Array, ""]]:
        """Return the sum of the coefficients of each slot, and that of all: of rollouts first, then of candidates."""
        times = 1.0 if self.present is None else self.present.astype(coefficients.dtype)
        p = storage.at(weights, self.slots) / total
        counts = storage.add(jnp.zeros_like(weights), self.slots, times)
        coefficients = coefficients * rule_factor(rule, p, storage.at(counts, self.slots))[:, None]
        moved = jnp.concatenate([self.slots, jnp.tile(candidates, len(self.slots))])
        each = jnp.concatenate([coefficients[:, 0], coefficients[:, 1:].reshape(-1)])
        return storage.add(jnp.zeros_like(weights), moved, each), exact_sum(each)

    def total(self, values: Float[Array, "G T"]) -> Float[Array, ""]:
        """Return the sum of values of tokens."""
        return jnp.sum(values)

    def histogram(self, values: Float[Array, "G T"], in_bin: Bool[Array, "G T B"]) -> Float[Array, " B"]:
        """Return the sums of values of tokens over bins."""
        return jnp.einsum("gt,gtb->b", values, in_bin.astype(values.dtype))

    def slot_counts(self, zeros: Float[Array, " S"], storage: Dense) -> Float[Array, " S"]:
        """Return how often the group holds each slot; ``zeros`` has their shape."""
        return storage.add(zeros, self.slots, 1.0 if self.present is None else self.present.astype(zeros.dtype))

    def drawn_values(self, values: Float[Array, " S"], storage: Dense) -> Float[Array, " G"]:
        """Look up the values at the slots that were drawn, 0 for padding."""
        drawn = storage.at(values, self.slots)
        return drawn if self.present is None else jnp.where(self.present, drawn, 0)


class Counted(NamedTuple):
    """The number of times a group holds each action, and which actions are correct; methods as of ``Listed``."""

    counts: Int[Array, " N"]
    correct: Bool[Array, " N"]

    def label(self, values: Bool[Array, " N"], storage: Dense, slots: Slots, size: int) -> Bool[Array, " G"]:
        """Mark as many rollouts, from the first on, as have an action of ``values``."""
        return jnp.arange(size, dtype=jnp.int32) < self._count(values)

    def count(self, labels: Bool[Array, " G"], values: Bool[Array, " N"]) -> Int[Array, ""]:
        """Count the rollouts that have an action of ``values``."""
        return self._count(values)

    def _count(self, values: Bool[Array, " N"]) -> Int[Array, ""]:
        return jnp.sum(jnp.where(values, self.counts, 0), dtype=jnp.int32)

    def _by_action(self, values: Float[Array, "G 1"]) -> Float[Array, " N"]:
        """Return the value that the rollouts of each action share: the correct ones are listed first."""
        return jnp.where(self.correct, values[0, 0], values[-1, 0])

    def _sums(self, values: Float[Array, "G 1"]) -> Float[Array, " 2"]:
        """Return the sum of the values of the correct rollouts, which are equal, and that of the others."""
        number = self._count(self.correct)
        times = jnp.stack([number, len(values) - number]).astype(values.dtype)
        return times * jnp.stack([values[0, 0], values[-1, 0]])

    def score_sums(
        self,
        coefficients: Float[Array, "G 1"],
        candidates: Int[Array, " 0"],
        rule: str,
        *,
        weights: Float[Array, " N"],
        total: Float[Array, ""],
        storage: Dense,
    ) -> tuple[Float[Array, " N"], Float[Array, ""]]:
        """Return the sum of the coefficients of each action, and that of all."""
        times = self.counts.astype(coefficients.dtype)
        sums = times * self._by_action(coefficients) * rule_factor(rule, storage.divide(weights, total), times)
        if rule == "simulator":
            return sums, exact_sum(self._sums(coefficients), len(coefficients))
        return sums, exact_sum(sums)

    def total(self, values: Float[Array, "G 1"]) -> Float[Array, ""]:
        """Return the sum of values of rollouts, which those of equal rewards share."""
        return jnp.sum(self._sums(values))

    def histogram(self, values: Float[Array, "G 1"], in_bin: Bool[Array, "N B"]) -> Float[Array, " B"]:
        """Return the sums of values of rollouts, which those of equal rewards share, over bins of their actions."""
        by_action = self._by_action(values) * self.counts.astype(values.dtype)
        return by_action @ in_bin.astype(values.dtype)

    def slot_counts(self, zeros: Float[Array, " N"], storage: Dense) -> Float[Array, " N"]:
        """Return how often the group holds each action."""
        return self.counts.astype(zeros.dtype)

    def drawn_values(self, values: Float[Array, " N"], storage: Dense) -> Float[Array, " N"]:
        """Return the values of the actions that the group holds, 0 of the others."""
        return jnp.where(self.counts > 0, values, 0)


Group = Listed | Counted
LookUp = Callable[[Float[Array, "P ..."], Group], Float[Array, "P ..."]]  # drawn values of each prompt


def rule_factor(rule: str, p: Float[Array, " G"], counts: Float[Array, " G"]) -> Float[Array, " G"]:
    """Return what an update rule multiplies a coefficient with, by its action's probability and count in the group.

    ``simulator``: 1, the ratio form (1/G) sum A_i pi_i / sg(pi_i), whose gradient is A grad log pi.
    ``simulator_literal``: p_i, the objective as printed, (1/G) sum A_i p_i ``[f-grpo:app-j]``.
    ``theorem``: p_i over its multiplicity, so that each distinct action counts once ``[f-grpo:eq-5]``.
    """
    if rule == "simulator":
        return jnp.ones_like(p)
    return p / jnp.maximum(counts, 1) if rule == "theorem" else p


def distinct_rollouts(groups: Group, values: Shaped[Array, "P G ..."]) -> Shaped[Array, "P K ..."]:
    """Select the values of rollouts that may differ: of groups known by their counts the first and the last.

    Of 131072 rollouts XLA then computes no others.
    """
    return jnp.stack([values[:, 0], values[:, -1]], axis=1) if isinstance(groups, Counted) else values

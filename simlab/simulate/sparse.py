"""Sparse steps of the lumped engine: where weights sum to zero and the optimiser is SGD, only drawn places change.

log pi moves every logit by -p_j (sum of all coefficients), which is then exactly 0, and SGD moves no logit that has no
gradient. So the weights of all S places and their sums are kept from step to step, and a step renews those of the G
places drawn. It costs O(32 G) for each of the three levels of the tree, plus one pass over S / 1024 sums, plus one over
the C classes.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.simulate.descent import CHUNK, ROW, masses_of, total
from simlab.simulate.faults import COEFFICIENT
from simlab.simulate.lane import Drawn, Group, State
from simlab.simulate.lumped import LumpedLane
from simlab.simulate.policy import Policy, relative_scores
from simlab.simulate.program import Program
from simlab.simulate.update import exact_sum

LARGEST_GROUP = 4096  # what deciding costs grows with its square
# Within these, 2^24 places of the highest score do not overflow in float32; and what underflows, even from a class of
# 10^18 actions, is less than a draw can tell from nothing: 10^18 e^-87 / LEAST_TOTAL < 2^-31.
HIGHEST_SCORE = 40.0
LEAST_TOTAL = math.exp(-20)


class Tree(NamedTuple):
    """The weights of S places, as ``Policy`` has them, but relative to the highest score of an earlier step.

    Attributes:
        weights: (S,) exp((logits - reference) / temperature).
        rows: the sums of the masses of 32 places each.
        chunks: the sums of 32 rows each.
        reference: the highest logit when all weights were last computed.
        is_stale: whether the policy has moved so far since that all weights are to be computed again.
    """

    weights: Float[Array, " S"]
    rows: Float[Array, " S/32"]
    chunks: Float[Array, " S/1024"]
    reference: Float[Array, ""]
    is_stale: Bool[Array, ""]

    def grown(self, places: int) -> "Tree":
        """The same with free places at the end, also for an axis of lanes before."""

        def wider(values: Array, length: int) -> Array:
            return jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, length - values.shape[-1])])

        weights, rows, chunks = wider(self.weights, places), wider(self.rows, places // ROW), places // CHUNK
        return self._replace(weights=weights, rows=rows, chunks=wider(self.chunks, chunks))


def may_be_sparse(program: Program) -> bool:
    """Whether a step changes drawn places alone, if its coefficients sum to zero; and whether these depend on the
    number of correct rollouts alone, so that it can be told beforehand if they do.
    """
    estimator, surrogate = program.build_estimator({}), program.build_surrogate({})
    return (
        (program.optimizer, program.update_rule, program.gradient_steps) == ("sgd", "simulator", 1)
        and not (program.uses_kl or program.uses_entropy_bonus or surrogate.candidates)
        and program.exchangeable
        and estimator.needs | surrogate.needs == {"rewards"}
        and not jax.tree.leaves(estimator.init())
        and program.group_size <= LARGEST_GROUP
    )


class SparseLane(LumpedLane):
    """A lane whose coefficients sum to zero for every group, with SGD."""

    def start(self) -> State:
        """The state before the first step: all actions in their classes."""
        return self.planted(super().start())

    def planted(self, state: State) -> State:
        """The state with all weights computed from its logits, in O(S)."""
        reference = jnp.max(state.logits)
        weights = jnp.exp(self._scores(state.logits, reference))
        of_classes = jnp.arange(0, len(self.place.logits), ROW, dtype=jnp.int32) // ROW
        rows = total(weights.reshape(-1, ROW).T).at[of_classes].set(self._rows(of_classes, weights, state))
        chunks = total(rows.reshape(-1, ROW).T)
        return state._replace(tree=Tree(weights, rows, chunks, reference, jnp.zeros((), bool)))

    def refreshed(self, state: State) -> State:
        """The state with all weights computed again if they are stale."""
        stale, fresh = state.tree.is_stale, self.planted(state).tree
        return state._replace(tree=jax.tree.map(lambda old, new: jnp.where(stale, new, old), state.tree, fresh))

    def _scores(self, logits: Float[Array, " n"], reference: Float[Array, ""]) -> Float[Array, " n"]:
        return jnp.minimum(relative_scores(logits, self.numbers.temperature, reference), HIGHEST_SCORE)

    def _rows(self, row: Int[Array, " R"], weights: Float[Array, " S"], state: State) -> Float[Array, " R"]:
        return total(masses_of(row, weights, self.remaining(state)).T)

    def policy(self, state: State) -> Policy:
        """The policy that draws the next group; its scores are relative to the tree's reference."""
        tree = state.tree
        scores = relative_scores(state.logits, self.numbers.temperature, tree.reference)
        return Policy(scores, tree.weights, total(tree.chunks), self.remaining(state), tree.rows, tree.chunks)

    def ascend(self, group: Group, state: State, policy: Policy, ratio: Float[Array, "1 G 1"]) -> State:
        """One gradient step on the group."""
        places = group.actions
        coefficients = self.coefficients(group, ratio)
        fault = self.noticed(state.fault, COEFFICIENT, coefficients, group, state)
        gradient = coefficients[:, 0] / self.numbers.temperature
        change, moments = self.optimizer.update(-gradient, state.optimizer)
        logits = state.logits.at[places].add(change)
        tree = self.renewed(places, logits, state)
        return state._replace(logits=logits, optimizer=moments, tree=tree, fault=fault)

    def renewed(self, places: Int[Array, " G"], logits: Float[Array, " S"], state: State) -> Tree:
        """The tree with the weights of some places, and what holds these or the classes summed, anew."""
        tree, classes = state.tree, jnp.arange(len(self.place.logits), dtype=jnp.int32)
        row, chunk = (jnp.concatenate([classes[::size] // size, places // size]) for size in (ROW, CHUNK))
        scores = self._scores(logits[places], tree.reference)
        weights = tree.weights.at[places].set(jnp.exp(scores))
        rows = tree.rows.at[row].set(self._rows(row, weights, state))
        chunks = tree.chunks.at[chunk].set(total(rows.reshape(-1, ROW)[chunk].T))
        is_stale = jnp.any(scores >= HIGHEST_SCORE) | (total(chunks) < LEAST_TOTAL)
        return Tree(weights, rows, chunks, tree.reference, is_stale)

    def sum_to_zero(self, correct: Bool[Array, " G"]) -> Bool[Array, ""]:
        """Whether the coefficients of a group with these correct rollouts sum to exactly 0."""
        drawn = Drawn(self.initial, jnp.zeros_like(correct, dtype=jnp.int32), *self.initial.top(0))
        group, _ = self.weigh(self.key, drawn, correct, self.estimator.init())
        coefficients = self.coefficients(group, jnp.ones_like(group.advantages))
        return exact_sum(coefficients.reshape(-1)) == 0

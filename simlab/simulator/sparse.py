"""Take sparse steps: where coefficients sum to zero and the optimiser is SGD, only places that were drawn change.

log pi moves every logit by -p_j (sum of all coefficients), which is then exactly 0, and SGD moves no logit that has no
gradient. So the weights of all S places and their sums are kept from step to step, and a step renews those of the G
places drawn. It costs O(32 G) for each of the three levels of the sums, plus one pass over S / 1024 sums, plus one over
the C classes. With two classes, and 4096 places, a group that drew places 3, 70 and 2050 computes again::

    the weights of places              3    70   2050
    the sums of rows                0  0     2     64      of 32 places each; row 0 holds the classes
    the sums of chunks              0  0     0      2      of 32 rows each
    the total of chunks 0 to 3
"""

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.estimators.tokens import of_tokens
from simlab.simulator.faults import COEFFICIENT
from simlab.simulator.gradients import exact_sum
from simlab.simulator.groups import Listed
from simlab.simulator.learner import Learner
from simlab.simulator.lumped import Lumped, Places, relative_scores
from simlab.simulator.policy import Policy
from simlab.simulator.state import Batch, Drawn, State
from simlab.simulator.storage import EMPTY
from simlab.simulator.sum_tree import CHUNK, ROW, masses_of, total

if TYPE_CHECKING:
    from simlab.problems.base import Problem
    from simlab.simulator.settings import StaticSettings

LARGEST_GROUP = 4096  # what deciding costs grows with its square
# Within these, 2^24 places of the highest score do not overflow in float32; and what underflows, even from a class of
# 10^18 actions, is less than a draw can tell from nothing: 10^18 e^-87 / LEAST_TOTAL < 2^-31.
HIGHEST_SCORE = 40.0
LEAST_TOTAL = math.exp(-20)


class Weights(NamedTuple):
    """The weights of S places, as ``Policy`` has them, but relative to the highest logit of an earlier step.

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


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Sparse(Lumped):
    """Lumped storage that keeps the weights of its places from step to step."""

    def grown(self, state: State, problem: "Problem", size: int, *, batched: bool) -> tuple[State, Lumped]:
        """The same state in more places, the new ones free."""
        state, larger = super().grown(state, problem, size, batched=batched)
        kept = state.places.kept

        def wider(sums: Float[Array, "..."]) -> Float[Array, "..."]:
            return jnp.pad(sums, [(0, 0)] * (sums.ndim - 1) + [(0, (size // self.size - 1) * sums.shape[-1])])

        kept = kept._replace(weights=wider(kept.weights), rows=wider(kept.rows), chunks=wider(kept.chunks))
        return state._replace(places=state.places._replace(kept=kept)), larger


class SparseLearner(Learner):
    """A learner whose coefficients sum to zero for every group, with SGD."""

    def start_places(self) -> Places:
        """What is known of the places when steps begin, all weights with it."""
        places: Places = self.first_places
        return places._replace(kept=self.weights(self.first, places))

    def policies(self, state: State, prompts: Int[Array, " P"]) -> Policy:
        """The policy that draws the next group; its scores are relative to the reference of the weights."""

        def policy(places: Places, logits: Float[Array, " S"]) -> Policy:
            kept, scores = places.kept, relative_scores(logits, self.numbers.temperature, places.kept.reference)
            scores = self.storage.filled(scores, EMPTY, places)
            left = places.left(logits.dtype)
            return Policy(scores, kept.weights, total(kept.chunks), left, kept.rows, kept.chunks, self.storage)

        policies: Policy = self.each(policy)(state.places, self.problem.logits_of(state.parameters, prompts))
        return policies

    def ascend(
        self,
        batch: Batch,
        state: State,
        policies: Policy,
        log_ratio: Float[Array, "1 G 1"],
        number: Int[Array, ""] | int,
    ) -> tuple[State, Float[Array, "1 S"]]:
        """One gradient step on the group, and its gradient."""
        group = batch.drawn.groups
        assert isinstance(group, Listed)
        drawn = group.places[0]
        coefficients = self.coefficients_at(log_ratio, batch, state.schedule)
        state = self.summed(state, self.every_ascent(batch, log_ratio, coefficients, number))
        fault = self.noticed(state.fault, COEFFICIENT, coefficients, batch.number_correct, batch)
        gradient = coefficients[0, :, 0, 0] / self.numbers.temperature
        change, moments = self.optimizer.update(-gradient, state.moments, state.parameters)
        parameters = state.parameters.at[drawn].add(change)
        places = state.places._replace(kept=self.renewed(drawn, parameters, state.places))
        everywhere = jnp.zeros_like(parameters).at[drawn].add(gradient)
        return state._replace(parameters=parameters, moments=moments, places=places, fault=fault), everywhere[None]

    def is_stale(self, state: State) -> Bool[Array, ""]:
        """Whether all weights are to be computed again."""
        stale: Bool[Array, ""] = state.places.kept.is_stale
        return stale

    def refreshed(self, state: State) -> State:
        """The state with all weights computed again if they are stale."""
        kept, fresh = state.places.kept, self.weights(state.parameters, state.places)
        kept = jax.tree.map(lambda old, new: jnp.where(kept.is_stale, new, old), kept, fresh)
        return state._replace(places=state.places._replace(kept=kept))

    def weights(self, logits: Float[Array, " S"], places: Places) -> Weights:
        """All weights, in O(S)."""
        reference = jnp.max(self.storage.filled(logits, -jnp.inf, places))
        weights = self.storage.filled(jnp.exp(self._scores(logits, reference)), 0, places)
        of_classes = jnp.arange(0, places.classes, ROW, dtype=jnp.int32) // ROW
        rows = total(weights.reshape(-1, ROW).T).at[of_classes].set(_rows(of_classes, weights, places))
        return Weights(weights, rows, total(rows.reshape(-1, ROW).T), reference, jnp.zeros((), bool))

    def renewed(self, drawn: Int[Array, " G"], logits: Float[Array, " S"], places: Places) -> Weights:
        """The weights with some places replaced, and every sum that contains these places or the classes recomputed."""
        kept, classes = places.kept, jnp.arange(places.classes, dtype=jnp.int32)
        row, chunk = (jnp.concatenate([classes[::size] // size, drawn // size]) for size in (ROW, CHUNK))
        scores = self._scores(logits[drawn], kept.reference)
        weights = kept.weights.at[drawn].set(jnp.exp(scores))
        rows = kept.rows.at[row].set(_rows(row, weights, places))
        chunks = kept.chunks.at[chunk].set(total(rows.reshape(-1, ROW)[chunk].T))
        is_stale = jnp.any(scores >= HIGHEST_SCORE) | (total(chunks) < LEAST_TOTAL)
        return Weights(weights, rows, chunks, kept.reference, is_stale)

    def _scores(self, logits: Float[Array, " n"], reference: Float[Array, ""]) -> Float[Array, " n"]:
        return jnp.minimum(relative_scores(logits, self.numbers.temperature, reference), HIGHEST_SCORE)

    # Whether it may be used

    def always_sum_to_zero(self, ranks: Int[Array, "2 G"]) -> Bool[Array, ""]:
        """Whether coefficients sum to exactly 0 where the c rollouts of the lowest ranks are correct, for all c."""
        numbers_correct = jnp.arange(self.group_size + 1, dtype=jnp.int32)
        return jnp.all(jax.lax.map(lambda correct: jax.vmap(self.sum_to_zero)(ranks < correct), numbers_correct))

    def sum_to_zero(self, correct: Bool[Array, " G"]) -> Bool[Array, ""]:
        """Whether the coefficients of a group with these correct rollouts sum to exactly 0."""
        nowhere = Listed(jnp.zeros((1, self.group_size), jnp.int32))
        top = self.each(lambda _, own: own.top(0))(None, self.initial)
        rollouts = self.rollouts(Drawn(self.initial, nowhere, *top), self.initial, correct[None], self.key[None])
        advantages = of_tokens(self.method.estimator.update(rollouts, self.method.estimator.init())[0])
        coefficients = self.coefficients(jnp.ones_like(advantages), advantages, rollouts, ())
        return exact_sum(coefficients.reshape(-1)) == 0


def _rows(row: Int[Array, " R"], weights: Float[Array, " S"], places: Places) -> Float[Array, " R"]:
    """The sums of the masses of some rows."""
    return total(masses_of(row, weights, places.left(weights.dtype)).T)


def may_be_sparse(problem: "Problem", settings: "StaticSettings") -> bool:
    """Whether a step changes drawn places alone, if its coefficients sum to zero; and whether these depend on the
    number of correct rollouts alone, so that it can be told beforehand if they do.
    """
    method = settings.method()
    return (
        (settings.optimizer, settings.update_rule, settings.gradient_steps) == ("sgd", "simulator", 1)
        and not (settings.uses_kl or settings.uses_entropy_bonus or settings.uses_supervised)
        and not (settings.fixes_update_norm or settings.samples_otherwise)
        and method.surrogate.candidates == 0
        and method.surrogate.schedule is None
        and settings.exchangeable
        and method.needs == {"rewards"}
        and not jax.tree.leaves(method.estimator.init())
        and settings.group_size <= LARGEST_GROUP
        and problem.parameters_are_logits
    )

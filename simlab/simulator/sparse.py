"""Take sparse steps: where coefficients sum to zero and the optimiser is SGD, only slots that were drawn change.

log pi moves every logit by -p_j (sum of all coefficients), which is then exactly 0, and SGD moves no logit that has no
gradient. So the weights of all S slots and their sums are cached from step to step, and a step renews those of the G
slots drawn. It costs O(32 G) for each of the three levels of the sums, plus one pass over S / 1024 sums, plus one over
the C classes. With two classes, and 4096 slots, a group that drew slots 3, 70 and 2050 computes again::

    the weights of slots               3    70   2050
    the sums of rows                0  0     2     64      of 32 slots each; row 0 holds the classes
    the sums of chunks              0  0     0      2      of 32 rows each
    the total of chunks 0 to 3
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.estimators.tokens import of_tokens
from simlab.simulator.ascend import CurrentPolicies, Number, ascend_batch, record_gradient_step, token_coefficients
from simlab.simulator.learner import Learner
from simlab.simulator.lumped import Lumped, SlotTable, relative_scores
from simlab.simulator.policy import Listed, SoftmaxPolicy
from simlab.simulator.sampling import CHUNK, ROW, exact_sum, row_masses, tree_sum
from simlab.simulator.settings import StaticSettings
from simlab.simulator.state import LearnerState, Samples, WeighedBatch
from simlab.simulator.storage import EMPTY
from simlab.simulator.weigh import to_rollouts

LARGEST_GROUP = 4096  # what deciding costs grows with its square
# Within these, 2^24 slots of the highest score do not overflow in float32; and what underflows, even from a class of
# 10^18 actions, is less than a draw can tell from nothing: 10^18 e^-87 / LEAST_TOTAL < 2^-31.
HIGHEST_SCORE = 40.0
LEAST_TOTAL = math.exp(-20)


class WeightCache(NamedTuple):
    """The weights of S slots, as ``SoftmaxPolicy`` has them, but relative to the highest logit of an earlier step."""

    weights: Float[Array, " S"]
    rows: Float[Array, " S/32"]
    chunks: Float[Array, " S/1024"]
    reference: Float[Array, ""]
    is_stale: Bool[Array, ""]  # the policy has moved so far that all weights are to be computed again


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Sparse(Lumped):
    """Lumped storage that caches the weights of its slots from step to step."""

    def grow(self, state: LearnerState, size: int, axis: int) -> tuple[LearnerState, Lumped]:
        """Return the state with more slots, the new ones free, and their storage."""
        state, larger = super().grow(state, size, axis)
        wider = {}
        for name in ("weights", "rows", "chunks"):
            sums = getattr(state.slots.cache, name)
            more = [(0, 0)] * (sums.ndim - 1) + [(0, (size // self.size - 1) * sums.shape[-1])]
            wider[name] = jnp.pad(sums, more)
        slots = state.slots._replace(cache=state.slots.cache._replace(**wider))
        return state._replace(slots=slots), larger


def _sparse_step(
    context: Any, batch: WeighedBatch, state: LearnerState, current: CurrentPolicies, number: Number
) -> tuple[LearnerState, Float[Array, "1 S"]]:
    """Take a gradient step at the slots of the group; returns its gradient too."""
    groups: Any = batch.samples.groups
    drawn = groups.slots[0]
    coefficients, state = record_gradient_step(context, batch, state, current.log_ratio, number)
    gradient = coefficients[0, :, 0, 0] / context.numbers.temperature
    change, moments = context.optimizer.update(-gradient, state.moments, state.parameters)
    parameters = state.parameters.at[drawn].add(change)
    slots = state.slots._replace(cache=context.renew(drawn, parameters, state.slots))
    everywhere = jnp.zeros_like(parameters).at[drawn].add(gradient)
    return state._replace(parameters=parameters, moments=moments, slots=slots), everywhere[None]


class SparseLearner(Learner):
    """A learner whose coefficients sum to zero for every group, with SGD."""

    def slots_at_start(self) -> SlotTable:
        """Return the slots with the cache of their weights."""
        slots: SlotTable = self.initial_slots
        return slots._replace(cache=self.all_weights(self.initial_parameters, slots))

    def policies(self, state: LearnerState, prompts: Int[Array, " P"]) -> SoftmaxPolicy:
        """Return the policy that draws the next group; its scores are relative to the reference of the weights."""

        def policy(slots: SlotTable, logits: Float[Array, " S"]) -> SoftmaxPolicy:
            cache, scores = slots.cache, relative_scores(logits, self.numbers.temperature, slots.cache.reference)
            scores = self.storage.fill_empty(scores, EMPTY, slots)
            counts, total = slots.remaining(logits.dtype), tree_sum(cache.chunks)
            return SoftmaxPolicy(scores, cache.weights, total, counts, cache.rows, cache.chunks, self.storage)

        logits = self.problem.logits_of(state.parameters, prompts)
        policies: SoftmaxPolicy = self.map_prompts(policy)(state.slots, logits)
        return policies

    ascend = functools.partialmethod(ascend_batch, step=_sparse_step)

    def refresh(self, state: LearnerState) -> LearnerState:
        """Return the state with all weights computed again if they are stale."""
        cache, fresh = state.slots.cache, self.all_weights(state.parameters, state.slots)
        cache = jax.tree.map(lambda old, new: jnp.where(cache.is_stale, new, old), cache, fresh)
        return state._replace(slots=state.slots._replace(cache=cache))

    def all_weights(self, logits: Float[Array, " S"], slots: SlotTable) -> WeightCache:
        """Compute all weights, in O(S)."""
        reference = jnp.max(self.storage.fill_empty(logits, -jnp.inf, slots))
        weights = self.storage.fill_empty(jnp.exp(self._scores(logits, reference)), 0, slots)
        class_rows = jnp.arange(0, slots.classes, ROW, dtype=jnp.int32) // ROW
        rows = tree_sum(weights.reshape(-1, ROW).T).at[class_rows].set(_row_sums(class_rows, weights, slots))
        return WeightCache(weights, rows, tree_sum(rows.reshape(-1, ROW).T), reference, jnp.zeros((), bool))

    def renew(self, drawn: Int[Array, " G"], logits: Float[Array, " S"], slots: SlotTable) -> WeightCache:
        """Replace the weights of some slots, and every sum that contains these slots or the classes."""
        cache, classes = slots.cache, jnp.arange(slots.classes, dtype=jnp.int32)
        row, chunk = (jnp.concatenate([classes[::size] // size, drawn // size]) for size in (ROW, CHUNK))
        scores = self._scores(logits[drawn], cache.reference)
        weights = cache.weights.at[drawn].set(jnp.exp(scores))
        rows = cache.rows.at[row].set(_row_sums(row, weights, slots))
        chunks = cache.chunks.at[chunk].set(tree_sum(rows.reshape(-1, ROW)[chunk].T))
        is_stale = jnp.any(scores >= HIGHEST_SCORE) | (tree_sum(chunks) < LEAST_TOTAL)
        return WeightCache(weights, rows, chunks, cache.reference, is_stale)

    def _scores(self, logits: Float[Array, " n"], reference: Float[Array, ""]) -> Float[Array, " n"]:
        return jnp.minimum(relative_scores(logits, self.numbers.temperature, reference), HIGHEST_SCORE)

    def always_sum_to_zero(self, ranks: Int[Array, "2 G"]) -> Bool[Array, ""]:
        """Return True if coefficients sum to exactly 0 where the c rollouts of the lowest ranks are correct, any c."""
        numbers_correct = jnp.arange(self.group_size + 1, dtype=jnp.int32)
        return jnp.all(jax.lax.map(lambda correct: jax.vmap(self.sum_to_zero)(ranks < correct), numbers_correct))

    def sum_to_zero(self, correct: Bool[Array, " G"]) -> Bool[Array, ""]:
        """Return True if the coefficients of a group with these correct rollouts sum to exactly 0."""
        nowhere = Listed(jnp.zeros((1, self.group_size), jnp.int32))
        top = self.map_prompts(lambda _, policy: policy.top(0))(None, self.initial_policies)
        samples = Samples(self.initial_policies, nowhere, *top)
        rollouts = to_rollouts(self, samples, self.initial_policies, correct[None], self.key[None])
        advantages = of_tokens(self.method.estimator.update(rollouts, self.method.estimator.init())[0])
        coefficients = token_coefficients(self, jnp.zeros_like(advantages), advantages, rollouts, ())
        return exact_sum(coefficients.reshape(-1)) == 0


def _row_sums(row: Int[Array, " R"], weights: Float[Array, " S"], slots: SlotTable) -> Float[Array, " R"]:
    """Return the sums of the masses of some rows."""
    return tree_sum(row_masses(row, weights, slots.remaining(weights.dtype)).T)


def may_be_sparse(problem: Any, settings: StaticSettings) -> bool:
    """Return True if a step changes drawn slots alone, if its coefficients sum to zero, which can then be tried."""
    method = settings.build()
    return (
        (settings.optimizer, settings.update_rule, settings.gradient_steps) == ("sgd", "simulator", 1)
        and not (settings.kl or settings.entropy_bonus or settings.supervised)
        and not (settings.update_norm or settings.samples_otherwise or settings.is_tempered)
        and method.surrogate.candidates == 0
        and method.surrogate.schedule is None
        and settings.exchangeable
        and method.needs == {"rewards"}
        and not method.estimator.remembers
        and settings.group_size <= LARGEST_GROUP
        and problem.parameters_are_logits
        and problem.rewards is None
    )

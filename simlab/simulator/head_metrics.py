"""Metrics of prompts that share a linear head: the rank of its updates, and what prompts do to one another.

u_1 is the top right singular vector of the last batch's gradient, as in FADE's Section 15. What is undefined, such as
the correlation of successes where there is none, is NaN.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision
from jaxtyping import Array, Bool, Float, Int

from simlab.simulator.difficulty import OF_PROMPTS
from simlab.simulator.metrics import UPDATE, Metric, OneUpdate, Row, Whole
from simlab.theory.rank import alignment, effective_rank, leading_share, mean_pairwise_cosine, singular_gap

SINGULAR_VALUES = 8  # how many are recorded


class Split(NamedTuple):
    """The d singular values of n matrices of d columns, and their leading vectors, which are 0 where the matrix is."""

    values: Float[Array, "n d"]
    left: Float[Array, "n A"]
    right: Float[Array, "n d"]


def _svd(matrix: Float[Array, "A d"]) -> tuple[Float[Array, "A R"], Float[Array, " R"], Float[Array, "R d"]]:
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    return left, values, right


def svd_each(matrices: Sequence[Float[Array, "A d"]]) -> Split:
    """The singular values and leading vectors of each matrix, one after the other, in a batch too.

    JAX on a CPU hands a batch of decompositions out to the threads that its programs run on, and waits for them there:
    two programs at once, as a sweep has them on two cores, wait for one another for ever.
    """
    in_turn: Any = jax.custom_batching.sequential_vmap
    left, values, right = jax.lax.map(in_turn(_svd), jnp.stack(matrices))
    there = values[:, :1] > 0
    # Those that a matrix of fewer rows than columns does not have are 0, whatever number of rows a storage keeps.
    values = jnp.pad(values, [(0, 0), (0, right.shape[-1] - values.shape[-1])])
    return Split(values, jnp.where(there, left[:, :, 0], 0), jnp.where(there, right[:, 0], 0))


def rank_metrics(split: Split) -> Row:
    """How near to rank 1 the change since the start is, place 0, and the last update, place 2."""
    kept = split.values[0, :SINGULAR_VALUES]
    row = {"singular_values": jnp.full(SINGULAR_VALUES, jnp.nan, kept.dtype).at[: len(kept)].set(kept)}
    for prefix, place in (("", 0), ("update_", 2)):
        for name, measure in (
            ("leading_share", leading_share),
            ("singular_gap", singular_gap),
            ("effective_rank", effective_rank),
        ):
            row[prefix + name] = measure(split.values[place])
    return row


def alignments(matrices: Sequence[Float[Array, "A d"]], split: Split) -> Row:
    """How far directions are kept: between records, updates and gradients, places 0 and 1, 2 and 3, 4 and 5.

    FADE compares the left vector of the change with that of the last checkpoint ``[fade:table-12-alignment]``, here
    with that of the record before, and successive gradients ``[fade:sec-4-2-successive-alignment]``, which under an
    adaptive optimiser are not the updates.
    """
    row = {"direction_alignment": alignment(split.left[0], split.left[1])}
    for name, place in (("update", 2), ("gradient", 4)):
        row[f"{name}_alignment"] = alignment(matrices[place], matrices[place + 1])
        row[f"{name}_direction_alignment"] = alignment(split.right[place], split.right[place + 1])
    return row


def residual_metrics(
    direction: Float[Array, " d"],
    features: Float[Array, "P d"],
    times: Float[Array, "P A"],
    shares: Float[Array, "P A"],
    correct: Bool[Array, "P A"],
) -> Row:
    """What of the features is left beside ``direction``, u_1, for the correct and the failed rollouts of a batch.

    h_perp = h - (h . u_1) u_1. The correlation is the mean cosine of h_perp over the pairs of different rollouts of the
    group; rollouts whose h_perp is rounding have no direction. R_g = (1/N_g) sum of v h_perp^T, with v = e_y - pi, is
    the residual of group g ``[fade:app-15-group-residual]``; if it were noise alone, the norms would be as
    1 / sqrt(N_g) ``[fade:app-15-clt]``.

    Args:
        times: how often each prompt's group holds each action.
        shares: the policy that drew it.
    """
    along = jnp.matmul(features, direction, precision=Precision.HIGHEST)
    perpendicular = features - along[:, None] * direction
    least = float(np.sqrt(np.finfo(features.dtype).eps)) * jnp.linalg.vector_norm(features, axis=1)
    left_over = jnp.linalg.vector_norm(perpendicular, axis=1) > least
    directions = jnp.where(left_over[:, None], perpendicular, 0)
    row, sizes = {}, {}
    for name, members in (("correct", correct), ("failed", ~correct)):
        counted = jnp.where(members, times, 0)
        each = jnp.sum(counted, axis=1)
        sizes[name] = jnp.sum(each)
        errors = counted - each[:, None] * shares
        residual = jnp.matmul(errors.T, perpendicular, precision=Precision.HIGHEST)
        row[f"residual_correlation_{name}"] = mean_pairwise_cosine(directions, each)
        row[f"residual_norm_{name}"] = jnp.sqrt(jnp.sum(residual**2)) / sizes[name]
    row = {name: jnp.where(jnp.any(direction != 0), value, jnp.nan) for name, value in row.items()}
    ratio = jnp.sqrt(sizes["correct"] / sizes["failed"])
    return row | {"residual_norm_ratio_predicted": jnp.where(jnp.isfinite(ratio), ratio, jnp.nan)}


def interference(
    change: Float[Array, " M"], predicted: Float[Array, " M"], own: Float[Array, " P"], prompts: Int[Array, " P"]
) -> Row:
    """What a batch did to the prompts outside it, and what its prompts do to themselves and to others.

    To first order prompt i moves the logits of prompt j by (h_i . h_j) dz_i / P a unit of learning rate. The own effect
    sums what this does to Q_j over i = j, the cross effect over all other pairs, both over M: their sum is what a plain
    gradient step on the batch does to the mean Q_pos of all prompts.

    Args:
        change: the change of the Q_pos of all prompts in the last update.
        predicted: what the batch's gradient changes the Q_pos of all prompts by, to first order.
        own: what the gradient of each prompt of the batch changes its own Q_pos by, to first order.
    """
    outside = len(change) - len(prompts)
    beside = jnp.sum(change.at[prompts].set(0)) / outside if outside else jnp.full((), jnp.nan, change.dtype)
    own_effect = jnp.sum(own) / len(change)
    return {"d_q_pos_outside": beside, "own_effect": own_effect, "cross_effect": jnp.mean(predicted) - own_effect}


def _matrices(whole: Whole) -> list[Float[Array, "A d"]]:
    """What ranks and alignments describe: changes of W since the start, updates, and gradients, now and before.

    The row of a place that stands for m actions is multiplied by sqrt(m), which has the singular values, right singular
    vectors and cosines of m equal rows.
    """
    learner, places, history, weights = whole.learner, whole.state.places, whole.state.history, whole.state.parameters
    start, times = learner.storage.everywhere(learner.first, places), jnp.sqrt(learner.members(weights, places))
    matrices = [
        weights - start,
        history.weights_recorded - start,
        weights - whole.before,
        whole.before - history.weights_earlier,
        history.gradient,
        history.gradient_before,
    ]
    return [learner.storage.whole(times * matrix) for matrix in matrices]


def ranks_and_alignments(whole: Whole) -> Row:
    """How near to rank 1 changes are, and how far directions are kept."""
    matrices = _matrices(whole)
    split = svd_each(matrices)
    return rank_metrics(split) | alignments(matrices, split) | residuals(whole, split.right[4])


def residuals(whole: Whole, direction: Float[Array, " d"]) -> Row:
    """How alike the features of the last batch's successes are, and those of its failures."""
    learner, prompts = whole.learner, whole.state.last.prompts
    policies = learner.policies_of(whole.before, whole.state.places, prompts)

    def of_one(places: Any, policy: Any, group: Any, correct: Array) -> tuple[Array, Array, Array]:
        times = group.times(jnp.zeros_like(policy.weights), learner.storage)
        shares = policy.p * jnp.sqrt(policy.members)  # so that equal rows of a residual count as often as there are
        of_places = times, shares, learner.storage.everywhere(correct, places)
        return tuple(learner.storage.whole(values) for values in of_places)

    of_all = learner.each(of_one)
    times, shares, correct = of_all(
        whole.state.places, policies, whole.state.last.groups, learner.of_batch(learner.correct, prompts)
    )
    return residual_metrics(direction, learner.problem.teaching[prompts], times, shares, correct)


def effects(whole: Whole) -> Row:
    """What the last batch did, and to first order does, to its own prompts and to the others."""
    learner, state = whole.learner, whole.state
    history, prompts, problem = state.history, state.last.prompts, learner.problem
    old, new = (learner.policies_of(weights, state.places) for weights in (whole.before, state.parameters))
    temperature = learner.numbers.temperature

    def changes(places: Any, old: Any, new: Any, change: Array, correct: Array) -> tuple[Array, Array]:
        right = learner.storage.everywhere(correct, places)
        nobody, nothing = jnp.zeros_like(old.weights), jnp.zeros((0, 1), change.dtype)
        update = OneUpdate(old, new, change, nobody, right, old, None, nothing, 0)
        return update.changed(right), update.predicted(right)

    measured = learner.each(changes)
    moved = problem.logits_of(history.gradient) / temperature
    change, predicted = measured(state.places, old, new, moved, learner.correct)
    by_itself = jnp.sum(problem.teaching[prompts] ** 2, axis=1, keepdims=True) * history.gradients.T / len(prompts)
    own = (jax.tree.map(lambda values: values[prompts], part) for part in (old, new))
    _, of_itself = measured(state.places, *own, by_itself / temperature, learner.correct[prompts])
    return interference(change, predicted, of_itself, prompts)


def _part(function: Callable[[Whole], Row], name: str) -> Callable[[Whole], Array]:
    """One of the quantities that are computed together; XLA computes what several need once."""
    return lambda whole: function(whole)[name]


def _update_metrics(function: Callable[[Whole], Row], descriptions: dict[str, str]) -> tuple[Metric, ...]:
    return tuple(
        Metric(name, text, UPDATE, _part(function, name), ("singular",) * (name == "singular_values"), whole=True)
        for name, text in descriptions.items()
    )


_OF_RANKS = _update_metrics(
    ranks_and_alignments,
    {
        "singular_values": "leading singular values of W_t - W_0",
        "leading_share": "r1 = s_1^2 / |W_t - W_0|_F^2 (FADE Section 15.1)",
        "singular_gap": "s_1 / s_2 of W_t - W_0 (FADE Figure 5)",
        "effective_rank": "srank of W_t - W_0 (FADE Figure 5), delta = 0.01",
        "direction_alignment": "|cos| of the leading left singular vectors of W_t - W_0 now and at the record before",
        "update_leading_share": "r1 of the last update",
        "update_singular_gap": "s_1 / s_2 of the last update",
        "update_effective_rank": "srank of the last update, delta = 0.01",
        "update_alignment": "|cos| of the last two updates",
        "update_direction_alignment": "|cos| of the leading right singular vectors of the last two updates",
        "gradient_alignment": "|cos| of the last two batches' gradients",
        "gradient_direction_alignment": "|cos| of the leading right singular vectors of the last two batches' "
        "gradients",
        "residual_correlation_correct": "mean pairwise cosine of h_perp of the correct rollouts of the last batch",
        "residual_correlation_failed": "mean pairwise cosine of h_perp of the failed rollouts of the last batch",
        "residual_norm_correct": "|R_S|_F of the last batch (FADE Section 15.2)",
        "residual_norm_failed": "|R_F|_F of the last batch (FADE Section 15.2)",
        "residual_norm_ratio_predicted": "FADE's prediction of |R_F| / |R_S|, sqrt(N_S / N_F), of the last batch",
    },
)
OF_EFFECTS = _update_metrics(
    effects,
    {
        "d_q_pos_outside": "change of Q_pos in the last update, mean over the prompts outside its batch",
        "own_effect": "first-order change of the mean Q_pos of all prompts, over the learning rate of a plain "
        "gradient step, by what each prompt of the last batch does to itself",
        "cross_effect": "the same, by what each prompt of the last batch does to the others",
    },
)
OF_A_HEAD = (*OF_PROMPTS, *_OF_RANKS, *OF_EFFECTS)

"""Metrics of prompts that share a linear head: the rank of its updates, and the effects of prompts on one another.

u_1 is the top right singular vector of the last batch's gradient, as in FADE's Section 15. What is undefined is NaN.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from simlab.problems.exact import log_miss_at_k
from simlab.simulator.metrics import BANK_METRICS, POLICY, UPDATE, JointView, Metric, UpdateView, first_order, table
from simlab.simulator.state import Records
from simlab.theory.rank import alignment, effective_rank, leading_share, mean_pairwise_cosine, singular_gap

SINGULAR_VALUES = 8  # how many are recorded


class SingularVectors(NamedTuple):
    """The d singular values of n matrices of d columns, and their leading vectors, which are 0 where the matrix is."""

    values: Float[Array, "n d"]
    left: Float[Array, "n A"]
    right: Float[Array, "n d"]


def svd_each(matrices: Sequence[Float[Array, "A d"]]) -> SingularVectors:
    """Return the singular values and leading vectors of each matrix, computed in turn, in a batch too.

    On a CPU, two programs at once that hand a batch of decompositions out to their threads wait for one another.
    """
    in_turn: Any = jax.custom_batching.sequential_vmap
    split = in_turn(lambda matrix: tuple(jnp.linalg.svd(matrix, full_matrices=False)))
    left, values, right = jax.lax.map(split, jnp.stack(matrices))
    nonzero = values[:, :1] > 0
    # A matrix of fewer rows than columns has zeros, whatever number of rows a storage keeps.
    values = jnp.pad(values, [(0, 0), (0, right.shape[-1] - values.shape[-1])])
    return SingularVectors(values, jnp.where(nonzero, left[:, :, 0], 0), jnp.where(nonzero, right[:, 0], 0))


def ranks_and_alignments(view: JointView) -> Records:
    """Measure how near to rank 1 changes are, and how far directions persist.

    FADE compares the left vector of the change with that of the last checkpoint ``[fade:table-12-alignment]``, here
    with that of the record before, and successive gradients ``[fade:sec-4-2-successive-alignment]``, which under an
    adaptive optimiser are not the updates.
    """
    matrices = _matrices(view)
    split = svd_each(matrices)
    largest = split.values[0, :SINGULAR_VALUES]
    row = {"singular_values": jnp.full(SINGULAR_VALUES, jnp.nan, largest.dtype).at[: len(largest)].set(largest)}
    measures = {"leading_share": leading_share, "singular_gap": singular_gap, "effective_rank": effective_rank}
    for prefix, index in (("", 0), ("update_", 2)):
        row |= {prefix + name: measure(split.values[index]) for name, measure in measures.items()}
    row["direction_alignment"] = alignment(split.left[0], split.left[1])
    for name, index in (("update", 2), ("gradient", 4)):
        row[f"{name}_alignment"] = alignment(matrices[index], matrices[index + 1])
        row[f"{name}_direction_alignment"] = alignment(split.right[index], split.right[index + 1])
    return row | residuals(view, split.right[4])


def _matrices(view: JointView) -> list[Float[Array, "A d"]]:
    """Return changes of W since the start, updates, and gradients, now and before; a row of m actions times sqrt(m)."""
    learner, slots, history, weights = view.learner, view.state.slots, view.state.history, view.state.parameters
    start = learner.storage.at_slots(learner.initial_parameters, slots)
    times = jnp.sqrt(learner.parameter_members(weights, slots))
    matrices = [
        weights - start,
        history.weights_recorded - start,
        weights - view.before,
        view.before - history.weights_earlier,
        history.gradient,
        history.gradient_before,
    ]
    return [learner.storage.gather(times * matrix) for matrix in matrices]


def residuals(view: JointView, direction: Float[Array, " d"]) -> Records:
    """Measure how alike the features of the last batch's successes are, and those of its failures."""
    learner, state, prompts = view.learner, view.state, view.state.last.prompts
    policies = learner.policies_at(view.before, state.slots, prompts)

    def of_prompt(slots: Any, policy: Any, group: Any, correct: Array) -> tuple[Array, Array, Array]:
        times = group.slot_counts(jnp.zeros_like(policy.weights), learner.storage)
        shares = policy.p * jnp.sqrt(policy.members)  # so that equal rows of a residual count as often as there are
        values = times, shares, learner.storage.at_slots(correct, slots)
        return tuple(learner.storage.gather(value) for value in values)

    correct = learner.select(learner.correct, prompts)
    times, shares, correct = learner.map_prompts(of_prompt)(state.slots, policies, state.last.groups, correct)
    return residual_metrics(direction, learner.problem.teaching[prompts], times, shares, correct)


def residual_metrics(
    direction: Float[Array, " d"],
    features: Float[Array, "P d"],
    times: Float[Array, "P A"],
    shares: Float[Array, "P A"],
    correct: Bool[Array, "P A"],
) -> Records:
    """Measure what is left of the features beside ``direction``, u_1, for correct and for failed rollouts of a batch.

    h_perp = h - (h . u_1) u_1. The correlation is the mean cosine of h_perp over the pairs of different rollouts of the
    group; rollouts whose h_perp is rounding have no direction. R_g = (1/N_g) sum of v h_perp^T, with v = e_y - pi, is
    the residual of group g ``[fade:app-15-group-residual]``; if it were noise alone, the norms would be as
    1 / sqrt(N_g) ``[fade:app-15-clt]``. ``times`` says how often a group, drawn by ``shares``, holds each action.
    """
    along = jnp.matmul(features, direction, precision=Precision.HIGHEST)
    perpendicular = features - along[:, None] * direction
    least = float(np.sqrt(np.finfo(features.dtype).eps)) * jnp.linalg.vector_norm(features, axis=1)
    has_direction = jnp.linalg.vector_norm(perpendicular, axis=1) > least
    directions = jnp.where(has_direction[:, None], perpendicular, 0)
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


def effects(view: JointView) -> Records:
    """Measure what the last batch did, and to first order does, to its own prompts and to the others.

    To first order prompt i moves the logits of prompt j by (h_i . h_j) dz_i / P a unit of learning rate. The own effect
    sums what this does to Q_j over i = j, the cross effect over all other pairs, both over M.
    """
    learner, state = view.learner, view.state
    history, prompts, problem = state.history, state.last.prompts, learner.problem
    old, new = (learner.policies_at(weights, state.slots) for weights in (view.before, state.parameters))
    temperature = learner.numbers.temperature

    def changes(slots: Any, old: Any, new: Any, change: Array, correct: Array) -> tuple[Array, Array]:
        right = learner.storage.at_slots(correct, slots)
        nobody, nothing = jnp.zeros_like(old.weights), jnp.zeros((0, 1), change.dtype)
        update = UpdateView(old, new, change, nobody, right, old, None, nothing, 0)
        return update.changed(right), update.predicted(right)

    measured = learner.map_prompts(changes)
    moved = problem.logits_of(history.gradient) / temperature
    change, predicted = measured(state.slots, old, new, moved, learner.correct)
    by_itself = jnp.sum(problem.teaching[prompts] ** 2, axis=1, keepdims=True) * history.gradients.T / len(prompts)
    of_batch = (jax.tree.map(lambda values: values[prompts], policies) for policies in (old, new))
    _, of_itself = measured(state.slots, *of_batch, by_itself / temperature, learner.correct[prompts])
    outside = len(change) - len(prompts)
    beside = jnp.sum(change.at[prompts].set(0)) / outside if outside else jnp.full((), jnp.nan, change.dtype)
    own_effect = jnp.sum(of_itself) / len(change)
    return {"d_q_pos_outside": beside, "own_effect": own_effect, "cross_effect": jnp.mean(predicted) - own_effect}


def _update_metrics(function: Callable[[JointView], Records], descriptions: dict[str, str]) -> tuple[Metric, ...]:
    """Return the metrics that are computed together; XLA computes what several need once."""

    def value(name: str) -> Callable[[JointView], Array]:
        return lambda view: function(view)[name]

    return tuple(
        Metric(name, text, UPDATE, value(name), ("singular",) * (name == "singular_values"), joint=True)
        for name, text in descriptions.items()
    )


RANK_METRICS = _update_metrics(
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
EFFECT_METRICS = _update_metrics(
    effects,
    {
        "d_q_pos_outside": "change of Q_pos in the last update, mean over the prompts outside its batch",
        "own_effect": "first-order change of the mean Q_pos of all prompts, over the learning rate of a plain "
        "gradient step, by what each prompt of the last batch does to itself",
        "cross_effect": "the same, by what each prompt of the last batch does to the others",
    },
)
HEAD_METRICS = (*BANK_METRICS, *RANK_METRICS, *EFFECT_METRICS)


# Easy and hard prompts

LARGEST_K = 2**20
STEPS_PER_OCTAVE = 4  # of the grid on which a crossing is looked for; two crossings in one step are seen as none
HALVINGS = 40  # of that step, which leave less of it than float64 can tell
ROUNDINGS = 16  # epsilons by which all masses are taken to be larger than they are: rounding alone is no fall


def correct_masses(learner: Any, policies: Any, slots: Any) -> Float[Array, " M"]:
    """Return Q_pos of all prompts under some policies."""
    masses: Array = learner.map_prompts(learner.solve_rate)(slots, policies, learner.correct)
    return masses


def base_masses(view: JointView) -> Float[Array, " M"]:
    """Return Q_pos of all prompts under the base model."""
    return correct_masses(view.learner, view.learner.initial_policies, view.learner.initial_slots)


def kinds_of(problem: Any) -> Bool[Array, "2 M"]:
    """Return the masks of the easy and of the hard prompts."""
    return jnp.stack([~problem.hard, problem.hard])


def mean_by_kind(values: Float[Array, "M ..."], kinds: Bool[Array, "2 M"]) -> Float[Array, "2 ..."]:
    """Return the mean of the values of easy and of hard prompts; NaN for a kind of which there is none."""
    members = kinds.astype(values.dtype)
    return jnp.tensordot(members, values, 1) / members.sum(1).reshape(-1, *[1] * (values.ndim - 1))


def crossing(base: Float[Array, " M"], now: Float[Array, " M"]) -> Float[Array, ""]:
    """Return the smallest real k at which mean pass@k is below the base model's; infinite if it is above ``LARGEST_K``.

    The gain changes its sign at most as often as Q_pos - Q_base over the prompts in order of mass (Descartes' rule).
    """
    octaves = LARGEST_K.bit_length() - 1
    grid = jnp.linspace(0, octaves, octaves * STEPS_PER_OCTAVE + 1, dtype=now.dtype)
    at_most = now * (1 + ROUNDINGS * float(np.finfo(now.dtype).eps))

    def is_below(log2_k: Array) -> Array:
        missed, missed_before = (logsumexp(log_miss_at_k(mass, 2.0**log2_k)) for mass in (at_most, base))
        return missed > missed_before

    below = jax.vmap(is_below)(grid)
    first = jnp.argmax(below)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        return jnp.where(is_below(middle), ends[0], middle), jnp.where(is_below(middle), middle, ends[1])

    ends = grid[jnp.maximum(first - 1, 0)], grid[first]
    k = 2.0 ** jax.lax.fori_loop(0, HALVINGS, halve, ends)[1]
    return jnp.where(below.any(), k, jnp.inf)


def pass_at_k_gain(view: JointView) -> Float[Array, " k"]:
    """Return mean pass@k less that of the base model, by what each misses: exact where both are nearly 1 too."""
    base, now = base_masses(view), view.each["q_pos"]
    ks = jnp.array(view.learner.settings.pass_at_k, base.dtype)
    return jax.vmap(lambda k: jnp.mean(jnp.exp(log_miss_at_k(base, k)) - jnp.exp(log_miss_at_k(now, k))))(ks)


def target_surprise(view: JointView) -> Float[Array, " 2"]:
    """Return the mean of -log p over the target set of a prompt, averaged over the prompts of each kind."""
    learner, state = view.learner, view.state

    def of_prompt(slots: Any, policy: Any, target: Array) -> Array:
        members = jnp.where(learner.storage.at_slots(target, slots), policy.members, 0)
        surprise: Array = policy.sum(members * -policy.logp) / policy.sum(members)
        return surprise

    policies = learner.policies_from(learner.problem.logits_of(state.parameters), state.slots)
    surprises = learner.map_prompts(of_prompt)(state.slots, policies, learner.target)
    return mean_by_kind(surprises, kinds_of(learner.problem))


def metric_by_kind(name: str) -> Callable[[JointView], Array]:
    """Return the mean of a metric over the prompts of each kind."""
    return lambda view: mean_by_kind(view.each[name], kinds_of(view.learner.problem))


def effects_by_kind(view: JointView) -> tuple[Float[Array, "2 2"], Float[Array, "2 2"]]:
    """Return how much a plain step on one kind of prompts raises Q_pos of another per learning rate, (source, kind).

    The step is on the last batch's prompts of the source: to first order, and taken at the learning rate of the run.
    """
    learner, slots, problem = view.learner, view.state.slots, view.learner.problem
    history, prompts = view.state.history, view.state.last.prompts
    old = learner.policies_at(view.before, slots)
    rate, kinds = learner.numbers.optimizer["learning_rate"], kinds_of(problem)
    before = correct_masses(learner, old, slots)

    def predicted(slots: Any, policy: Any, moved: Array, correct: Array) -> Any:
        return first_order(policy, moved, learner.storage.at_slots(correct, slots)) / learner.numbers.temperature

    def of_source(members: Bool[Array, " M"]) -> tuple[Array, Array]:
        gradients = jnp.where(members[prompts][:, None], history.gradients.T / len(prompts), 0)
        step = problem.pullback(gradients, view.before, prompts)
        moved, logits = problem.moved_logits(view.before, step, rate)
        expected = learner.map_prompts(predicted)(slots, old, moved, learner.correct)
        after = correct_masses(learner, learner.policies_from(logits, slots), slots)
        return mean_by_kind(expected, kinds), mean_by_kind((after - before) / rate, kinds)

    expected, measured = jax.lax.map(of_source, kinds)
    return expected, measured


_EFFECT = (
    "change of the mean Q_pos of the prompts of a kind by what the last batch's prompts of the source do in a plain "
    "step, over the learning rate"
)
WORDS = {
    "q_pos_by_kind": "probability of a correct action, Q_pos; mean over the prompts of a kind",
    "pass_at_k_by_kind": "pass@k; mean over the prompts of a kind",
    "target_nll_by_kind": "mean of -log p over the target set of a prompt; mean over the prompts of a kind",
    "pass_at_k_gain": "mean pass@k less that of the base model, which is the policy at step 0",
    "crossing_k": f"smallest k at which mean pass@k is below the base model's; infinite if it is not up to {LARGEST_K}",
    "effect": f"first-order {_EFFECT}",
    "effect_measured": _EFFECT,
}
_CROSSING: dict[str, Any] = {"crossing_k": lambda view: crossing(base_masses(view), view.each["q_pos"])}
_EFFECTS: dict[str, Any] = {
    "effect": lambda view: effects_by_kind(view)[0],
    "effect_measured": lambda view: effects_by_kind(view)[1],
}
KIND_METRICS = (
    *table(WORDS, POLICY, {"q_pos_by_kind": metric_by_kind("q_pos")}, "kind", joint=True),
    *table(WORDS, POLICY, {"pass_at_k_by_kind": metric_by_kind("pass_at_k")}, "kind", "k", joint=True),
    *table(WORDS, POLICY, {"target_nll_by_kind": target_surprise}, "kind", units="nat", joint=True),
    *table(WORDS, POLICY, {"pass_at_k_gain": pass_at_k_gain}, "k", joint=True),
    *table(WORDS, POLICY, _CROSSING, joint=True),
    *table(WORDS, UPDATE, _EFFECTS, "source", "kind", joint=True),
)
INTERFERENCE_METRICS = (*BANK_METRICS, *EFFECT_METRICS, *KIND_METRICS)
NETWORK_METRICS = (*BANK_METRICS, *KIND_METRICS)

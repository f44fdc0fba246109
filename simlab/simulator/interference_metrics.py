"""Metrics of easy and hard prompts: pass@k against the base model's, and what one kind of prompts does to another."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from simlab.problems.exact import correct_mass, log_miss_at_k
from simlab.simulator.difficulty import OF_PROMPTS
from simlab.simulator.head_metrics import OF_EFFECTS
from simlab.simulator.metrics import POLICY, UPDATE, Metric, Whole

LARGEST_K = 2**20
PARTS_OF_AN_OCTAVE = 4  # in which a crossing is looked for; two crossings in one part are seen as none
HALVINGS = 40  # of that part, which leave less of it than float64 can tell
ROUNDINGS = 16  # epsilons by which all masses are taken to be larger than they are: rounding alone is no fall


def masses(learner: Any, policies: Any, places: Any) -> Float[Array, " M"]:
    """Q_pos of all prompts under some policies."""

    def one(places: Any, policy: Any, correct: Array) -> Array:
        mass: Array = correct_mass(policy.shares, learner.storage.everywhere(correct, places), policy.sum)
        return mass

    found: Array = learner.each(one)(places, policies, learner.correct)
    return found


def base_masses(whole: Whole) -> Float[Array, " M"]:
    """Q_pos of all prompts under the base model."""
    return masses(whole.learner, whole.learner.initial, whole.learner.first_places)


def by_kind(values: Float[Array, "M ..."], kinds: Bool[Array, "2 M"]) -> Float[Array, "2 ..."]:
    """The mean of the values of easy and of hard prompts; NaN for a kind of which there is none."""
    members = kinds.astype(values.dtype)
    return jnp.tensordot(members, values, 1) / members.sum(1).reshape(-1, *[1] * (values.ndim - 1))


def mean_gain(k: Float[Array, ""], base: Float[Array, " M"], now: Float[Array, " M"]) -> Float[Array, ""]:
    """The mean pass@k over prompts less that of the base model, by what each misses: where both are nearly 1 too."""
    return jnp.mean(jnp.exp(log_miss_at_k(base, k)) - jnp.exp(log_miss_at_k(now, k)))


def crossing(base: Float[Array, " M"], now: Float[Array, " M"]) -> Float[Array, ""]:
    """The smallest real k at which mean pass@k is below the base model's; infinite if it is not up to ``LARGEST_K``.

    The gain changes its sign at most as often as Q_pos - Q_base does over the prompts in the order of all masses
    (Descartes' rule for sums of powers), so that a part of an octave is narrow enough to see all of its changes.
    """
    octaves = LARGEST_K.bit_length() - 1
    grid = jnp.linspace(0, octaves, octaves * PARTS_OF_AN_OCTAVE + 1, dtype=now.dtype)
    at_most = now * (1 + ROUNDINGS * float(np.finfo(now.dtype).eps))

    def is_below(log2_k: Array) -> Array:
        missed, missed_before = (logsumexp(log_miss_at_k(mass, 2.0**log2_k)) for mass in (at_most, base))
        return missed > missed_before

    below = jax.vmap(is_below)(grid)
    first = jnp.argmax(below)

    def halved(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        return jnp.where(is_below(middle), ends[0], middle), jnp.where(is_below(middle), middle, ends[1])

    ends = grid[jnp.maximum(first - 1, 0)], grid[first]
    found = 2.0 ** jax.lax.fori_loop(0, HALVINGS, halved, ends)[1]
    return jnp.where(below.any(), found, jnp.inf)


def crossing_k(whole: Whole) -> Float[Array, ""]:
    """``crossing`` of a policy with the base model."""
    return crossing(base_masses(whole), whole.each["q_pos"])


def pass_at_k_gain(whole: Whole) -> Float[Array, " k"]:
    """Mean pass@k less that of the base model."""
    base = base_masses(whole)
    ks = jnp.array(whole.learner.settings.pass_at_k, base.dtype)
    return jax.vmap(lambda k: mean_gain(k, base, whole.each["q_pos"]))(ks)


def target_surprise(whole: Whole) -> Float[Array, " 2"]:
    """The mean of -log p over the target set of a prompt, averaged over the prompts of each kind."""
    learner, state = whole.learner, whole.state

    def one(places: Any, policy: Any, target: Array) -> Array:
        members = jnp.where(learner.storage.everywhere(target, places), policy.members, 0)
        surprise: Array = policy.sum(members * -policy.logp) / policy.sum(members)
        return surprise

    policies = learner.policies_by(learner.problem.logits_of(state.parameters), state.places)
    return by_kind(learner.each(one)(state.places, policies, learner.target), learner.problem.members_of_kinds())


def of_kinds(name: str) -> Callable[[Whole], Array]:
    """A metric of each prompt as the mean of each kind."""
    return lambda whole: by_kind(whole.each[name], whole.learner.problem.members_of_kinds())


def effects(whole: Whole) -> tuple[Float[Array, "2 2"], Float[Array, "2 2"]]:
    """By how much the prompts of one kind raise the mean Q_pos of another a unit of learning rate, (source, kind).

    Of a plain step on the last batch's prompts of the source alone: to first order, and by taking it at the learning
    rate of the run.
    """
    learner, places = whole.learner, whole.state.places
    logits = learner.problem.logits_of(whole.before)
    old = learner.policies_by(logits, places)
    rate, kinds = learner.numbers.optimizer["learning_rate"], learner.problem.members_of_kinds()
    before = masses(learner, old, places)

    def predicted(places: Any, policy: Any, moved: Array, correct: Array) -> Array:
        right, shares = learner.storage.everywhere(correct, places), policy.shares
        mass: Array = correct_mass(shares * (moved - policy.sum(shares * moved)), right, policy.sum)
        change: Array = mass / learner.numbers.temperature
        return change

    def of_source(members: Bool[Array, " M"]) -> tuple[Array, Array]:
        moved = moved_by(whole, members)
        first_order = learner.each(predicted)(places, old, moved, learner.correct)
        after = masses(learner, learner.policies_by(logits + rate * moved, places), places)
        return by_kind(first_order, kinds), by_kind((after - before) / rate, kinds)

    first_order, measured = jax.lax.map(of_source, kinds)
    return first_order, measured


def moved_by(whole: Whole, members: Bool[Array, " M"]) -> Float[Array, "M ..."]:
    """The logits that a plain step of rate 1 adds to all prompts, by some of the prompts of the last batch."""
    problem, history, prompts = whole.learner.problem, whole.state.history, whole.state.last.prompts
    gradients = jnp.where(members[prompts][:, None], history.gradients.T / len(prompts), 0)
    moved: Array = problem.logits_of(problem.pulled_back(gradients, whole.before, prompts))
    return moved


_BY = "by what the last batch's prompts of the source do in a plain step, over the learning rate"
OF_INTERFERENCE = (
    *OF_PROMPTS,
    *OF_EFFECTS,
    Metric(
        "q_pos_by_kind",
        "probability of a correct action, Q_pos; mean over the prompts of a kind",
        POLICY,
        of_kinds("q_pos"),
        ("kind",),
        whole=True,
    ),
    Metric(
        "pass_at_k_by_kind",
        "pass@k; mean over the prompts of a kind",
        POLICY,
        of_kinds("pass_at_k"),
        ("kind", "k"),
        whole=True,
    ),
    Metric(
        "target_nll_by_kind",
        "mean of -log p over the target set of a prompt; mean over the prompts of a kind",
        POLICY,
        target_surprise,
        ("kind",),
        "nat",
        whole=True,
    ),
    Metric(
        "pass_at_k_gain",
        "mean pass@k less that of the base model, which is the policy at step 0",
        POLICY,
        pass_at_k_gain,
        ("k",),
        whole=True,
    ),
    Metric(
        "crossing_k",
        f"smallest k at which mean pass@k is below the base model's; infinite if it is not up to {LARGEST_K}",
        POLICY,
        crossing_k,
        whole=True,
    ),
    Metric(
        "effect",
        f"first-order change of the mean Q_pos of the prompts of a kind {_BY}",
        UPDATE,
        lambda whole: effects(whole)[0],
        ("source", "kind"),
        whole=True,
    ),
    Metric(
        "effect_measured",
        f"change of the mean Q_pos of the prompts of a kind {_BY}",
        UPDATE,
        lambda whole: effects(whole)[1],
        ("source", "kind"),
        whole=True,
    ),
)

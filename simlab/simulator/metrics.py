"""Record quantities of a run: each is one object that says its name, dimensions and meaning, and how to compute it.

There are four kinds, by what a quantity is of: the policy after a step, the last update, every step, or every gradient
step that a batch pays for. The last two are averaged over the steps since the last record. What a ``Metric`` computes
is of one prompt, and the record holds its mean over prompts, unless it is of the whole problem.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from simlab.problems.exact import correct_mass, pass_at_k, retained_mass, share_kept

Row = dict[str, Array]
POLICY, UPDATE, EVERY_STEP, EVERY_ASCENT = "policy", "update", "every step", "every gradient step"
DECADES = ("below 0.001", "0.001 to 0.01", "0.01 to 0.1", "0.1 to 1")  # of the sampler's probability of a token
_BOUNDS = np.log([0.001, 0.01, 0.1])


@dataclass(frozen=True)
class Metric:
    """A recorded quantity.

    Attributes:
        name: the name of the variable in a result.
        description: what it is, for its ``long_name``.
        of: ``POLICY``, recorded at step 0 too; ``UPDATE``, of the step before the record; ``EVERY_STEP``, the mean of
            its values since the last record; ``EVERY_ASCENT``, the same of the sum over the gradient steps of a batch.
        value: of ``OnePolicy``, ``OneUpdate``, a ``Batch`` or ``OneAscent``; with ``whole`` of ``Policies`` or
            ``Updates``.
        dimensions: beside seed and step.
        units: "1" for a pure number.
        whole: whether it describes all prompts together.
        off_policy: whether it is computed only where a gradient step may be off-policy; elsewhere it is NaN.
    """

    name: str
    description: str
    of: str
    value: Callable[[Any], Array]
    dimensions: tuple[str, ...] = ()
    units: str = "1"
    whole: bool = False
    off_policy: bool = False

    def described(self, change: Callable[[str], str]) -> "Metric":
        """The same with another description."""
        return replace(self, description=change(self.description))


class OnePolicy(NamedTuple):
    """The policy of one prompt: over outcomes, now and at the start, and which outcomes are correct.

    ``own`` is the policy that draws tokens, which is the same where a rollout has one.
    """

    policy: Any
    initial: Any
    correct: Bool[Array, " N"]
    target: Bool[Array, " N"]
    own: Any
    ks: tuple[int, ...]
    top_n: int


class OneUpdate(NamedTuple):
    """One update of one prompt: the policies before and after it, by how much the scores moved, and its group.

    ``change`` is that of logits / temperature, to first order; ``times`` is how often the group holds each outcome.
    ``sampler`` is the policy that drew the tokens, which is ``old`` where a rollout has one.
    """

    old: Any
    new: Any
    change: Float[Array, " N"]
    times: Float[Array, " N"]
    correct: Bool[Array, " N"]
    sampler: Any
    group: Any
    advantages: Float[Array, "G T"]
    top_n: int

    @property
    def missed(self) -> Bool[Array, " N"]:
        """The correct outcomes that the group did not hold."""
        return self.correct & (self.times == 0)

    def changed(self, members: Bool[Array, " N"]) -> Float[Array, ""]:
        """By how much the mass of some outcomes changed."""
        mass: Array = correct_mass(self.new.shares - self.old.shares, members, self.old.sum)
        return mass

    def predicted(self, members: Bool[Array, " N"]) -> Float[Array, ""]:
        """The same to first order, dp_i = p_i (dz_i - sum_j p_j dz_j) ``[f-grpo:eq-18]``."""
        shares, change = self.old.shares, self.change
        mass: Array = correct_mass(shares * (change - self.old.sum(shares * change)), members, self.old.sum)
        return mass


class OneAscent(NamedTuple):
    """One gradient step on the group of one prompt.

    Attributes:
        sampler: the policy that drew the group.
        group: what it drew; ``present`` (G,) is false for what only fills it up, None where nothing does.
        correct: (G,) what the verifier accepts.
        log_ratio: (G, T) log of the probability of each token over that on record, before the step.
        advantages: (G, T).
        coefficients: (G, T, D) what the surrogate makes of them, for the token and its candidates.
        is_last: whether no gradient step of the batch comes after it.
        share: 1 / how many gradient steps the batch pays for.
    """

    sampler: Any
    group: Any
    present: Bool[Array, " G"] | None
    correct: Bool[Array, " G"]
    log_ratio: Float[Array, "G T"]
    advantages: Float[Array, "G T"]
    coefficients: Float[Array, "G T D"]
    is_last: Bool[Array, ""] | bool
    share: float

    @property
    def clipped(self) -> Bool[Array, "G T"]:
        """The tokens that teach nothing although their advantage is not 0."""
        return (self.coefficients == 0).all(-1) & (self.advantages != 0)

    def of_tokens(self, values: Shaped[Array, "G ..."]) -> Float[Array, "G T"]:
        """What each token adds to the mean of some values over the tokens that are there."""
        values = jnp.broadcast_to(values, self.log_ratio.shape).astype(self.log_ratio.dtype)
        if self.present is None:
            return values / values.size
        tokens = jnp.sum(self.present, dtype=values.dtype) * values.shape[1]
        return jnp.where(self.present[:, None], values, 0) / tokens

    def mean(self, values: Shaped[Array, "G ..."]) -> Float[Array, ""]:
        """The mean of some values over the tokens that are there."""
        total: Array = self.group.total(self.of_tokens(values))
        return total

    def by_decade(self, values: Shaped[Array, "G ..."]) -> Float[Array, " decade"]:
        """The same mean, split by the probability that the sampler gave to a token."""
        sums: Array = self.group.by_probability(self.of_tokens(values), self.sampler, _decades)
        return sums


def _decades(logp: Float[Array, "..."]) -> Bool[Array, "... decade"]:
    """Of log-probabilities, in which of ``DECADES`` each lies."""
    place = jnp.sum(logp[..., None] >= jnp.asarray(_BOUNDS, logp.dtype), axis=-1)
    return place[..., None] == jnp.arange(len(DECADES))


class Whole(NamedTuple):
    """What a metric of all prompts together is computed from.

    Attributes:
        learner: what learns, see ``simlab.simulator.learner``.
        state: where it is.
        each: the metrics of the same kind of each prompt, (prompts, ...).
        before: the parameters before the last step, for metrics of an update.
    """

    learner: Any
    state: Any
    each: Row
    before: Any


def q_pos(one: OnePolicy) -> Float[Array, ""]:
    """The exact probability of a correct outcome."""
    mass: Float[Array, ""] = correct_mass(one.policy.shares, one.correct, one.policy.sum)
    return mass


def _kept(measure: Callable[..., Array]) -> Callable[[OnePolicy], Array]:
    def value(one: OnePolicy) -> Array:
        policy = one.policy
        return measure(policy.p, one.initial.p, one.correct, policy.members, policy.sum)

    return value


def target_mass(one: OnePolicy) -> Float[Array, ""]:
    """The exact probability of the target set."""
    mass: Float[Array, ""] = correct_mass(one.policy.shares, one.target, one.policy.sum)
    return mass


def _split(name: str, what: str, chosen: Callable[[OneAscent], Array]) -> Metric:
    """A metric of tokens, split by decade: of those chosen, (G, T).

    To look up the probabilities takes a tenth of a step's time, and on-policy there is no clip to ask about.
    """
    description = (
        f"share of tokens that are {what}, by the sampler's probability of the token; recorded in off-policy runs only"
    )

    def value(one: OneAscent) -> Array:
        return one.share * one.by_decade(chosen(one))

    return Metric(name, description, EVERY_ASCENT, value, ("decade",), off_policy=True)


def _distinct_correct(one: OneUpdate) -> Array:
    distinct: Array = one.old.sum((one.correct & (one.times > 0)).astype(one.change.dtype))
    return distinct


ACTIVE_RATE = Metric(
    "active_rate",
    "share of groups since the last record with both outcomes",
    EVERY_STEP,
    lambda batch: jnp.mean(batch.active, dtype=batch.dtype),
)
ACCEPTED_RATE = Metric(
    "accepted_rate",
    "share of rollouts since the last record that the verifier accepts",
    EVERY_STEP,
    lambda batch: jnp.mean(batch.accepted_share),
)
TAIL_MISS_RATE = Metric(
    "tail_miss_rate",
    "share of groups since the last record with both outcomes and none of the target set",
    EVERY_STEP,
    lambda batch: jnp.mean(batch.active & ~batch.holds_target, dtype=batch.dtype),
)
OF_POLICIES = (
    Metric("q_pos", "probability of a correct action, Q_pos", POLICY, q_pos),
    Metric("target_mass", "probability of an action of the target set", POLICY, target_mass),
    Metric("retained_mass", "retained positive mass, M_ret (F-GRPO Eq. 26)", POLICY, _kept(retained_mass)),
    Metric(
        "share_correct_kept",
        "share of correct actions at or above their initial probability",
        POLICY,
        _kept(share_kept),
    ),
    Metric("entropy", "entropy of the policy in nats", POLICY, lambda one: one.policy.entropy, units="nat"),
    Metric(
        "pass_at_k",
        "probability that k samples hold a correct one, 1 - (1 - Q_pos)^k",
        POLICY,
        lambda one: jnp.array([pass_at_k(q_pos(one), k) for k in one.ks], one.policy.total.dtype),
        ("k",),
    ),
    Metric(
        "top_logp",
        "log-probability of the n likeliest actions",
        POLICY,
        lambda one: one.policy.top(one.top_n)[0],
        ("rank",),
        "nat",
    ),
)
OF_UPDATES = (
    Metric(
        "unsampled_correct_mass",
        "mass, before the last update, of correct actions its group missed, Q_upos",
        UPDATE,
        lambda one: correct_mass(one.old.shares, one.missed, one.old.sum),
    ),
    Metric("distinct_correct", "distinct correct actions in the group of the last update", UPDATE, _distinct_correct),
    Metric("d_q_pos", "change of Q_pos in the last update", UPDATE, lambda one: one.changed(one.correct)),
    Metric(
        "d_q_pos_predicted",
        "first-order prediction of d_q_pos from the logit change (F-GRPO Eq. 19)",
        UPDATE,
        lambda one: one.predicted(one.correct),
    ),
    Metric(
        "d_q_upos",
        "change, in the last update, of the mass of the correct actions its group missed",
        UPDATE,
        lambda one: one.changed(one.missed),
    ),
    Metric(
        "d_q_upos_predicted",
        "first-order prediction of d_q_upos from the logit change (F-GRPO Eq. 19)",
        UPDATE,
        lambda one: one.predicted(one.missed),
    ),
)
OF_ASCENTS = (
    Metric(
        "ratio_drift",
        "mean |log ratio| of the tokens of a batch's last gradient step, before it",
        EVERY_ASCENT,
        lambda one: jnp.where(one.is_last, one.mean(jnp.abs(one.log_ratio)), 0),
    ),
    Metric(
        "clipped_share",
        "share of tokens whose coefficient the surrogate sets to 0 although their advantage is not; mean over the "
        "gradient steps of a batch",
        EVERY_ASCENT,
        lambda one: one.share * one.mean(one.clipped),
    ),
    _split("clipped_correct", "clipped and accepted", lambda one: one.clipped & one.correct[:, None]),
    _split("clipped_wrong", "clipped and rejected", lambda one: one.clipped & ~one.correct[:, None]),
    _split("drawn_correct", "accepted", lambda one: one.correct[:, None]),
    _split("drawn_wrong", "rejected", lambda one: ~one.correct[:, None]),
)
OF_STEPS = (ACCEPTED_RATE, ACTIVE_RATE, TAIL_MISS_RATE, *OF_ASCENTS)
USUAL = (*OF_POLICIES, *OF_UPDATES, *OF_STEPS)

"""Record quantities of a run: of one prompt, whose record is the mean over prompts, and below of a bank of prompts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from simlab.problems.exact import correct_mass, pass_at_k, retained_mass, share_kept

POLICY, UPDATE, EVERY_STEP, EVERY_ASCENT = "policy", "update", "every step", "every gradient step"
DECADES = ("below 0.001", "0.001 to 0.01", "0.01 to 0.1", "0.1 to 1")  # of the sampler's probability of a token
_BOUNDS = np.log([0.001, 0.01, 0.1])
Functions = dict[str, Callable[[Any], Array]]


@dataclass(frozen=True)
class Metric:
    """A recorded quantity.

    Attributes:
        description: its meaning, for its ``long_name``.
        of: ``POLICY``, recorded at step 0 too; ``UPDATE``, of the step before the record; ``EVERY_STEP``, the mean of
            its values since the last record; ``EVERY_ASCENT``, the same of the sum over the gradient steps of a batch.
        value: a function of a ``PolicyView``, an ``UpdateView``, a ``WeighedBatch`` or an ``AscentView``; of a
            ``JointView`` if it is ``joint``.
        dimensions: beside seed and step.
        units: "1" for a pure number.
        joint: True if it describes all prompts together.
        off_policy: True if it is computed only where a gradient step may be off-policy; elsewhere it is NaN.
    """

    name: str
    description: str
    of: str
    value: Callable[[Any], Array]
    dimensions: tuple[str, ...] = ()
    units: str = "1"
    joint: bool = False
    off_policy: bool = False


def described(metrics: Iterable[Metric], change: Callable[[str], str]) -> tuple[Metric, ...]:
    """Return the metrics with other descriptions."""
    return tuple(replace(metric, description=change(metric.description)) for metric in metrics)


class PolicyView(NamedTuple):
    """The policy of one prompt over outcomes, now and at the start, which are correct, and the policy of tokens."""

    policy: Any
    initial: Any
    correct: Bool[Array, " N"]
    target: Bool[Array, " N"]
    token_policy: Any
    ks: tuple[int, ...]
    top_n: int
    parts: Float[Array, "N R"] | None = None  # of graded rewards
    weights: Float[Array, " R"] | None = None


class UpdateView(NamedTuple):
    """One update of one prompt: the policies before and after it, the change of the scores, and the group."""

    old: Any
    new: Any
    change: Float[Array, " N"]  # of logits / temperature, to first order
    times: Float[Array, " N"]  # how often the group holds each outcome
    correct: Bool[Array, " N"]
    sampler: Any  # drew the tokens; ``old`` where a rollout has one
    group: Any
    advantages: Float[Array, "G T"]
    top_n: int

    @property
    def missed(self) -> Bool[Array, " N"]:
        """True for correct outcomes that the group did not hold."""
        return self.correct & (self.times == 0)

    def changed(self, members: Bool[Array, " N"]) -> Float[Array, ""]:
        """Return the change of the mass of some outcomes."""
        mass: Array = correct_mass(self.new.shares - self.old.shares, members, self.old.sum)
        return mass

    def predicted(self, members: Bool[Array, " N"]) -> Float[Array, ""]:
        """Return that change to first order."""
        return first_order(self.old, self.change, members)


def first_order(policy: Any, change: Float[Array, " N"], members: Bool[Array, " N"]) -> Float[Array, ""]:
    """Return the first-order change of a mass, dp_i = p_i (dz_i - sum_j p_j dz_j) ``[f-grpo:eq-18]``."""
    shares = policy.shares
    mass: Array = correct_mass(shares * (change - policy.sum(shares * change)), members, policy.sum)
    return mass


class AscentView(NamedTuple):
    """One gradient step on the group of one prompt."""

    sampler: Any  # the policy that drew the group
    group: Any
    present: Bool[Array, " G"] | None  # false for padding
    correct: Bool[Array, " G"]  # what the verifier accepts
    log_ratio: Float[Array, "G T"]  # of the probability of each token over that on record, before the step
    advantages: Float[Array, "G T"]
    coefficients: Float[Array, "G T D"]  # of the surrogate, for the token and its candidates
    is_last: Bool[Array, ""] | bool  # gradient step of the batch
    share: float  # 1 / the number of gradient steps of the batch

    @property
    def clipped(self) -> Bool[Array, "G T"]:
        """True for tokens that teach nothing although their advantage is not 0."""
        return (self.coefficients == 0).all(-1) & (self.advantages != 0)

    def mean_terms(self, values: Shaped[Array, "G ..."]) -> Float[Array, "G T"]:
        """Return what each token adds to the mean of some values over the tokens that are there."""
        values = jnp.broadcast_to(values, self.log_ratio.shape).astype(self.log_ratio.dtype)
        if self.present is None:
            return values / values.size
        tokens = jnp.sum(self.present, dtype=values.dtype) * values.shape[1]
        return jnp.where(self.present[:, None], values, 0) / tokens

    def mean(self, values: Shaped[Array, "G ..."]) -> Float[Array, ""]:
        """Return the mean of some values over the tokens that are there."""
        total: Array = self.group.total(self.mean_terms(values))
        return total

    def by_decade(self, values: Shaped[Array, "G ..."]) -> Float[Array, " decade"]:
        """Return that mean, split by the probability that the sampler gave to a token."""
        logp = self.sampler.group_logp(self.group)
        decade = jnp.sum(logp[..., None] >= jnp.asarray(_BOUNDS, logp.dtype), axis=-1)
        in_decade = decade[..., None] == jnp.arange(len(DECADES))
        sums: Array = self.group.histogram(self.mean_terms(values), in_decade)
        return sums


class JointView(NamedTuple):
    """All prompts together: the learner, its state, the metrics of each prompt, and the parameters before the step."""

    learner: Any
    state: Any
    each: dict[str, Array]
    before: Any


def q_pos(view: PolicyView) -> Float[Array, ""]:
    """Return the exact probability of a correct outcome."""
    mass: Float[Array, ""] = correct_mass(view.policy.shares, view.correct, view.policy.sum)
    return mass


def _retention(measure: Callable[..., Array]) -> Callable[[PolicyView], Array]:
    def value(view: PolicyView) -> Array:
        policy = view.policy
        return measure(policy.p, view.initial.p, view.correct, policy.members, policy.sum)

    return value


def _by_decade(chosen: Callable[[AscentView], Array]) -> Callable[[AscentView], Array]:
    """Return a function of the share of the chosen tokens, (G, T), split by decade: a tenth of a step's time."""
    return lambda view: view.share * view.by_decade(chosen(view))


def _pass_at_ks(view: PolicyView) -> Float[Array, " k"]:
    return jnp.array([pass_at_k(q_pos(view), k) for k in view.ks], view.policy.total.dtype)


def _distinct_correct(view: UpdateView) -> Array:
    distinct: Array = view.old.sum((view.correct & (view.times > 0)).astype(view.change.dtype))
    return distinct


def table(words: dict[str, str], of: str, functions: Functions, *dimensions: str, **options: Any) -> tuple[Metric, ...]:
    """Return metrics of one kind, from the words and the function of each."""
    return tuple(Metric(name, words[name], of, value, dimensions, **options) for name, value in functions.items())


_PREDICTED = "first-order prediction of {} from the logit change (F-GRPO Eq. 19)"
_SPLIT = (
    "mean over prompts of the share of a group's tokens that are {}, by the sampler's probability of the token; "
    "recorded in off-policy runs only"
)
_GROUPS = "share of groups since the last record"
WORDS = {
    "q_pos": "probability of a correct action, Q_pos",
    "target_mass": "probability of an action of the target set",
    "retained_mass": "retained positive mass, M_ret (F-GRPO Eq. 26)",
    "share_correct_kept": "share of correct actions at or above their initial probability",
    "entropy": "entropy of the policy in nats",
    "pass_at_k": "probability that k samples hold a correct one, 1 - (1 - Q_pos)^k",
    "top_logp": "log-probability of the n likeliest actions",
    "unsampled_correct_mass": "mass, before the last update, of correct actions its group missed, Q_upos",
    "distinct_correct": "distinct correct actions in the group of the last update",
    "d_q_pos": "change of Q_pos in the last update",
    "d_q_pos_predicted": _PREDICTED.format("d_q_pos"),
    "d_q_upos": "change, in the last update, of the mass of the correct actions its group missed",
    "d_q_upos_predicted": _PREDICTED.format("d_q_upos"),
    "accepted_rate": "share of rollouts since the last record that the verifier accepts",
    "active_rate": f"{_GROUPS} with both outcomes, or with unequal graded rewards",
    "tail_miss_rate": f"{_GROUPS} that are active and hold none of the target set",
    "ratio_drift": "mean over prompts of the mean |log ratio| of a group's tokens, before a batch's last gradient step",
    "clipped_share": "mean over prompts of the share of a group's tokens whose coefficient the surrogate sets to 0 "
    "although their advantage is not; mean over the gradient steps of a batch",
    "clipped_correct": _SPLIT.format("clipped and accepted"),
    "clipped_wrong": _SPLIT.format("clipped and rejected"),
    "drawn_correct": _SPLIT.format("accepted"),
    "drawn_wrong": _SPLIT.format("rejected"),
}
_MASSES: Functions = {
    "q_pos": q_pos,
    "target_mass": lambda view: correct_mass(view.policy.shares, view.target, view.policy.sum),
    "retained_mass": _retention(retained_mass),
    "share_correct_kept": _retention(share_kept),
}
POLICY_METRICS = (
    *table(WORDS, POLICY, _MASSES),
    *table(WORDS, POLICY, {"entropy": lambda view: view.policy.entropy}, units="nat"),
    *table(WORDS, POLICY, {"pass_at_k": _pass_at_ks}, "k"),
    *table(WORDS, POLICY, {"top_logp": lambda view: view.policy.top(view.top_n)[0]}, "rank", units="nat"),
)
_CHANGES: Functions = {
    "unsampled_correct_mass": lambda view: correct_mass(view.old.shares, view.missed, view.old.sum),
    "distinct_correct": _distinct_correct,
    "d_q_pos": lambda view: view.changed(view.correct),
    "d_q_pos_predicted": lambda view: view.predicted(view.correct),
    "d_q_upos": lambda view: view.changed(view.missed),
    "d_q_upos_predicted": lambda view: view.predicted(view.missed),
}
UPDATE_METRICS = table(WORDS, UPDATE, _CHANGES)
_RATIOS: Functions = {
    "ratio_drift": lambda view: jnp.where(view.is_last, view.mean(jnp.abs(view.log_ratio)), 0),
    "clipped_share": lambda view: view.share * view.mean(view.clipped),
}
_SHARES: Functions = {
    "clipped_correct": _by_decade(lambda view: view.clipped & view.correct[:, None]),
    "clipped_wrong": _by_decade(lambda view: view.clipped & ~view.correct[:, None]),
    "drawn_correct": _by_decade(lambda view: view.correct[:, None]),
    "drawn_wrong": _by_decade(lambda view: ~view.correct[:, None]),
}
ASCENT_METRICS = (
    *table(WORDS, EVERY_ASCENT, _RATIOS),
    *table(WORDS, EVERY_ASCENT, _SHARES, "decade", off_policy=True),
)
_RATES: Functions = {
    "accepted_rate": lambda batch: batch.pooled(batch.accepted_share),
    "active_rate": lambda batch: jnp.mean(batch.active, dtype=batch.dtype),
    "tail_miss_rate": lambda batch: jnp.mean(batch.active & ~batch.holds_target, dtype=batch.dtype),
}
STEP_METRICS = (*table(WORDS, EVERY_STEP, _RATES), *ASCENT_METRICS)
USUAL_METRICS = (*POLICY_METRICS, *UPDATE_METRICS, *STEP_METRICS)

# Graded rewards


def part_means(view: PolicyView) -> Float[Array, " R"]:
    """Return the exact mean of each part of the reward, without its noise."""
    shares, parts = view.policy.shares, view.parts
    assert parts is not None
    return jnp.stack([view.policy.sum(shares * values) for values in parts.T])


GRADED_WORDS = {
    "mean_reward": "exact mean of the reward, the weighted sum of its parts",
    "part_reward": "exact mean of each part of the reward",
}
GRADED_METRICS = (
    *table(GRADED_WORDS, POLICY, {"mean_reward": lambda view: part_means(view) @ view.weights}),
    *table(GRADED_WORDS, POLICY, {"part_reward": part_means}, "part"),
)

# Banks of prompts

BINS = 10  # of the solve rate, each .1 wide
BIN_CENTRES = (np.arange(BINS) + 0.5) / BINS
UNSOLVED_AT = 2**20  # samples, the budget at which pass@k is read to tell whether a prompt is solved at all


def effective_size(weights: Float[Array, "*shape"]) -> Float[Array, ""]:
    """Return Kish's effective sample size (sum w)^2 / sum w^2 of weights from 0 up ``[fade:sec-4-3-kish]``."""
    largest = jnp.max(weights)
    shares = weights / jnp.where(largest > 0, largest, 1)
    square = jnp.sum(shares**2)
    return jnp.where(square > 0, jnp.sum(shares) ** 2 / jnp.where(square > 0, square, 1), 0)


def by_solve_rate(values: Float[Array, " P"], solve_rates: Float[Array, " P"]) -> Float[Array, " bins"]:
    """Return the sum over prompts of a value of each, by bins of the solve rate: [0, .1), ..., [.9, 1]."""
    bins = jnp.clip(jnp.floor(solve_rates * BINS).astype(jnp.int32), 0, BINS - 1)
    return jnp.zeros(BINS, values.dtype).at[bins].add(values)


def success_mass(batch: Any) -> Float[Array, " bins"]:
    """Return m_S = (1/G) sum of A over the successes of a group, over the prompts of each bin ``[fade:masses]``."""
    mass = batch.mean(jnp.where(batch.correct, batch.advantages[..., 0], 0))
    return by_solve_rate(mass / len(mass), batch.solve_rates)


def failure_mass(batch: Any) -> Float[Array, " bins"]:
    """Return m_F = -(1/G) sum of A over the failures of a group, over the prompts of each bin ``[fade:masses]``."""
    mass = -batch.mean(jnp.where(batch.correct, 0, batch.advantages[..., 0]))
    return by_solve_rate(mass / len(mass), batch.solve_rates)


def effective_prompts(batch: Any) -> Float[Array, ""]:
    """Return N_eff of ``[fade:eq-10]``: a prompt weighs mean abs(A) over its group, m_S + m_F where no sign is odd."""
    return effective_size(batch.mean(jnp.abs(batch.advantages[..., 0])))


def solve_rate_histogram(view: JointView) -> Float[Array, " bins"]:
    """Return the share of the prompts in each bin."""
    rates = view.each["q_pos"]
    return by_solve_rate(jnp.full_like(rates, 1 / len(rates)), rates)


def unsolved_prompts(view: JointView) -> Float[Array, ""]:
    """Return how many prompts ``UNSOLVED_AT`` samples solve with a chance below 1/2."""
    rates = view.each["q_pos"]
    return jnp.sum(pass_at_k(rates, UNSOLVED_AT) < 0.5, dtype=rates.dtype)


_SINCE = "mean over the steps since the last record"
_SUMMED = f"of the groups whose prompt's Q_pos lay in the bin, summed, over all groups of a batch; {_SINCE}"
BANK_WORDS = {
    "solve_rate_histogram": "share of the prompts whose Q_pos lies in the bin",
    "unsolved_prompts": f"prompts that {UNSOLVED_AT} samples solve with a chance below 1/2",
    "success_mass": f"m_S (FADE) {_SUMMED}",
    "failure_mass": f"m_F (FADE) {_SUMMED}",
    "effective_prompts": f"Kish's effective number of a batch's prompts, each weighed by its mean |A|; {_SINCE}",
    "effective_rollouts": f"Kish's effective number of a batch's rollouts, each weighed by |A|; {_SINCE}",
    "unsolved_rate": f"{_GROUPS} without a rollout that is accepted",
}
_NUMBERS: Functions = {
    "effective_prompts": effective_prompts,
    "effective_rollouts": lambda batch: effective_size(jnp.abs(batch.advantages[..., 0])),
    "unsolved_rate": lambda batch: jnp.mean(~jnp.any(batch.correct, axis=1), dtype=batch.dtype),
}
BANK_METRICS = (
    *described(POLICY_METRICS, lambda text: f"{text}; mean over all prompts"),
    *described(UPDATE_METRICS + STEP_METRICS, lambda text: f"{text}; mean over the prompts of a batch"),
    *table(BANK_WORDS, POLICY, {"solve_rate_histogram": solve_rate_histogram}, "bin", joint=True),
    *table(BANK_WORDS, POLICY, {"unsolved_prompts": unsolved_prompts}, joint=True),
    *table(BANK_WORDS, EVERY_STEP, {"success_mass": success_mass, "failure_mass": failure_mass}, "bin"),
    *table(BANK_WORDS, EVERY_STEP, _NUMBERS),
)

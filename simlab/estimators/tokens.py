"""Estimators that read tokens: advantages for each token, (P, G, T), or weights from how likely a rollout was."""

from array_api_compat import array_namespace
from jaxtyping import Float

from simlab.errors import check_choice, check_range, check_ranges
from simlab.estimators.base import (
    Estimator,
    Link,
    beside,
    chain,
    present_rollouts,
    read_tokens,
    shape_rewards,
    stateless,
    weigh,
)
from simlab.estimators.named import grpo
from simlab.estimators.registry import base_estimator, register
from simlab.order_statistics import average_rank, infinite_where_absent, lower_quantile
from simlab.rollouts import (
    Array,
    Rollouts,
    Scalar,
    group_count,
    group_mean,
    is_correct,
    masked,
    needed,
    or_one,
    sequence_mean,
    sequence_mean_logp,
)

SCOPES = ("group", "batch")
TOP_PERCENT = (0.01, 1.0, 20.0, 40.0, 100.0)  # the rows of CW-GRPO's Table 1


def of_tokens(advantages: Array) -> Array:
    """Give advantages an axis of tokens: (P, G, 1), or (P, G, T) if they have one already."""
    return advantages if advantages.ndim == 3 else advantages[..., None]


def deviations(advantages: Array, logp: Array, present: Array, scope: str) -> tuple[Array, Array, Array, Array]:
    """Deviations from the means over the tokens of each group or of the batch, and what they were taken from.

    ``present`` is 1 where a token is and 0 elsewhere. Returns log pi - its mean, (P, G, T), 0 where no token is;
    A - its mean, (P, G, 1) or (P, G, T); the mean of log pi, and the number of tokens or 1: (P, 1, 1) or (1, 1, 1).
    """
    xp = array_namespace(logp)
    axes = _axes(scope)
    length, weight = xp.sum(present, axis=-1, keepdims=True), of_tokens(advantages)
    count = or_one(xp.sum(length, axis=axes, keepdims=True))
    logp = masked(logp, present > 0)
    # An advantage of a rollout counts as often as it has tokens, without being written out for each.
    often = length if weight.shape[-1] == 1 else present
    weight = masked(weight, often > 0)
    mean_logp = xp.sum(logp, axis=axes, keepdims=True) / count
    mean_weight = xp.sum(weight * often, axis=axes, keepdims=True) / count
    return (logp - mean_logp) * present, weight - mean_weight, mean_logp, count


def covariance_terms(advantages: Array, logp: Array, present: Array, scope: str) -> Array:
    """(log pi - its mean)(A - its mean) at each token, both means over the tokens of the group or the batch, (P, G, T).

    ``[cw-grpo:covariance]``. ``present`` is 1 where a token exists and 0 elsewhere, where the result is 0.
    """
    of_logp, of_advantages, *_ = deviations(advantages, logp, present, scope)
    return of_logp * of_advantages


def covariance_thresholds(terms: Float[Array, " n"]) -> tuple[Float[Array, " percent"], Float[Array, " percent"]]:
    """Thresholds that 0.01 to 100 % of the tokens of either sign reach or pass ``[cw-grpo:table-1-dominance]``.

    ``terms`` are ``covariance_terms``. Returns those of the positive terms and of the negative ones, the most extreme
    first; NaN where no token has the sign.

    >>> positive, negative = covariance_thresholds(np.array([1.0, 2.0, 3.0, 4.0, 5.0, -1.0]))
    >>> positive.tolist()
    [5.0, 5.0, 5.0, 4.0, 1.0]
    """
    xp = array_namespace(terms)

    def of_negative(terms: Array) -> Array:
        negative = terms < 0
        thresholds = xp.concat([lower_quantile(terms, percent / 100, negative) for percent in TOP_PERCENT])
        return xp.where(xp.any(negative), thresholds, xp.full_like(thresholds, float("nan")))

    return -of_negative(-terms), of_negative(terms)


def _axes(scope: str) -> tuple[int, ...] | None:
    return (-2, -1) if scope == "group" else None


def tame_covariance(scope: str = "group") -> Link:
    """Multiply by w N / sum(w), w = exp(-c^2 / (2 sigma^2)) ``[cw-grpo:kernel]``.

    c is the token's covariance term, sigma the std of c, and N the number of tokens, each over the group as the paper
    sums, or over the batch. Where every c is equal, w is 1.
    """
    check_choice("scope", scope, SCOPES)
    axes = _axes(scope)

    def reweigh(advantages: Array, rollouts: Rollouts) -> Array:
        logp, present = read_tokens(rollouts, "old_logp")
        xp = array_namespace(logp)
        of_logp, of_advantages, mean_logp, count = deviations(advantages, logp, present, scope)
        c = of_logp * of_advantages
        mean = xp.sum(c, axis=axes, keepdims=True) / count
        variance = xp.sum(present * (c - mean) ** 2, axis=axes, keepdims=True) / count
        # A variance no larger than the rounding of equal values of that size is none: every weight is then 1.
        size = xp.max(of_advantages**2, axis=axes, keepdims=True) * mean_logp**2
        rounding = (8 * xp.finfo(variance.dtype).eps) ** 2 * (variance + mean**2 + size)
        variance = xp.where(variance > rounding, variance, xp.full_like(variance, float("inf")))
        # The least c^2 is taken off each, which normalised weights do not see: it keeps them from all vanishing. As a
        # product the difference is never above 0: two squares rounded apart could come to a weight of exp(65,000).
        sizes = xp.abs(c)
        least = xp.min(infinite_where_absent(sizes, present > 0), axis=axes, keepdims=True)
        least = masked(least, xp.isfinite(least))  # of no token
        kernel = present * xp.exp((least - sizes) * (least + sizes) / (2 * variance))
        total = xp.sum(kernel, axis=axes, keepdims=True)
        return of_tokens(advantages) * kernel * (count / or_one(total))

    return stateless(reweigh, needs=frozenset({"old_logp"}), exchangeable=True)


@register("cw-grpo:kernel", "w_it N / sum(w) A_i, w = exp(-c^2 / (2 std(c)^2)), c = (log pi - mean)(A - mean)")
def cw_grpo(scope: str = "group", base: str | Estimator = "grpo") -> Estimator:
    """CW-GRPO: any base; a Gaussian kernel tames tokens of extreme covariance; advantages are per token.

    The means, sigma and N run over the tokens of a group, as the paper's sums do, or of the batch (``scope="batch"``).
    Groups of equal rewards get 0 from a base that gives 0 there, such as GRPO. Equal log-probabilities leave the base
    as it is.

    >>> logp = np.array([[-1.0, -1.0], [-1.0, -5.0]])
    >>> simlab.advantages("cw_grpo", np.array([1.0, 0.0]), old_logp=logp, base="dr_grpo").round(3)
    array([[ 0.638,  0.638],
           [-0.638, -0.086]])
    """
    return chain(base_estimator(base), tame_covariance(scope))


def add_entropy(alpha: Scalar = 0.4, kappa: Scalar = 2.0) -> Link:
    """Add min(alpha H, abs(A) / kappa), H the entropy at the token ``[casp:entropy-adv]``."""
    check_range("alpha", alpha, 0)
    check_range("kappa", kappa, 0, open_low=True)

    def add(advantages: Array, rollouts: Rollouts) -> Array:
        entropy, present = read_tokens(rollouts, "entropy")
        xp, bonus = array_namespace(entropy), alpha * entropy
        most = xp.abs(of_tokens(advantages)) / kappa + xp.zeros_like(bonus)
        return (of_tokens(advantages) + xp.where(bonus < most, bonus, most)) * present

    return stateless(add, needs=frozenset({"entropy"}), exchangeable=True)


@register("casp:entropy-adv", "A_i + min(alpha H_it, |A_i| / kappa)")
def entropy_advantage(alpha: Scalar = 0.4, kappa: Scalar = 2.0, base: str | Estimator = "grpo") -> Estimator:
    """Entropy-based advantage: any base; uncertain tokens gain up to a share of its size; advantages are per token.

    Groups of equal rewards get 0 from a base that gives 0 there, such as GRPO. With ``alpha`` 0 it is its base.

    >>> entropy = np.array([[0.5, 5.0], [0.0, 5.0]])
    >>> simlab.advantages("entropy_advantage", np.array([1.0, 0.0]), entropy=entropy, base="dr_grpo")
    array([[ 0.7 ,  0.75],
           [-0.5 , -0.25]])
    """
    return chain(base_estimator(base), add_entropy(alpha, kappa))


# Certainty of the policy


def weigh_by_probability(alpha: Scalar = 0.2) -> Link:
    """Multiply by alpha pi + 1 - alpha, pi the probability of the token when it was sampled ``[arxiv:2505.12929]``."""
    check_range("alpha", alpha, 0, 1)

    def reweigh(advantages: Array, rollouts: Rollouts) -> Array:
        logp, present = read_tokens(rollouts, "old_logp")
        probability = array_namespace(logp).exp(logp)
        return of_tokens(advantages) * (alpha * probability + (1 - alpha)) * present

    return stateless(reweigh, needs=frozenset({"old_logp"}), exchangeable=True)


@register("arxiv:2505.12929", "(alpha pi_it + 1 - alpha) A_i")
def advantage_reweighting(alpha: Scalar = 0.2, base: str | Estimator = "grpo") -> Estimator:
    """Advantage Reweighting: any base, with less weight on unlikely tokens; advantages are per token.

    arXiv 2505.12929, beside Lopti, which a run has as ``isolation``. As ``compute_reweight_advantage`` in
    ``verl/trainer/ppo/ray_trainer.py`` of zhyang2226/AR-Lopti with ``both_linear_normal``, whose scripts take alpha .2,
    or .3 with Lopti. Nothing differs. Groups of equal rewards get 0 from a base that gives 0 there, such as GRPO. With
    ``alpha`` 0 it is its base.

    >>> logp = np.log([[1.0, 0.5], [0.25, 1.0]])
    >>> simlab.advantages("advantage_reweighting", np.array([1.0, 0.0]), old_logp=logp, alpha=0.4, base="dr_grpo")
    array([[ 0.5 ,  0.4 ],
           [-0.35, -0.5 ]])
    """
    return chain(base_estimator(base), weigh_by_probability(alpha))


def modulate_by_entropy(strength: Scalar = 1.0, least_spread: Scalar = 0.1) -> Link:
    """Multiply by exp(-strength h) over its mean in the group, h the rollout's entropy, scaled to [0, 1] in its group.

    ``[arxiv:2605.00425]``. h = (H - min H) / (max H - min H), H the mean entropy of the rollout's tokens. Groups whose
    H differ by less than ``least_spread`` stay as they are.
    """
    check_range("strength", strength, 0)
    check_range("least_spread", least_spread, 0, open_low=True)

    def modulate(advantages: Array, rollouts: Rollouts) -> Array:
        entropy = sequence_mean(needed(rollouts, "entropy"), rollouts)
        xp = array_namespace(entropy)
        present = present_rollouts(rollouts)
        infinite = xp.full_like(entropy, float("inf"))
        low = xp.min(xp.where(present, entropy, infinite), axis=-1, keepdims=True)
        spread = xp.max(xp.where(present, entropy, -infinite), axis=-1, keepdims=True) - low
        differs = spread >= least_spread
        above = masked(entropy - low, present & differs)
        weight = xp.exp(-strength * above / xp.where(differs, spread, xp.ones_like(spread)))
        return weigh(advantages, weight / or_one(group_mean(weight, rollouts)))  # of an empty group it is 0

    return stateless(modulate, needs=frozenset({"entropy"}), exchangeable=True)


@register(
    "arxiv:2605.00425", "A_i exp(-strength h_i) / mean(exp(-strength h)), h the group's mean entropies, to [0, 1]"
)
def aem(strength: Scalar = 1.0, least_spread: Scalar = 0.1, base: str | Estimator = "grpo") -> Estimator:
    """AEM, adaptive entropy modulation: any base, with more weight on the rollouts of lower entropy in their group.

    arXiv 2605.00425 (v3), whose lambda is ``strength``, and whose constants are the defaults. Its authors' code is not
    public. In an agent's rollout each turn is a response, and the group is that of all turns of all rollouts of a
    prompt: here a rollout is one response. Where all tokens of a prompt have one entropy, as in a simulation of single
    tokens, it is its base. Groups of equal rewards get 0 from a base that gives 0 there, such as GRPO.

    >>> entropy = np.array([[0.0, 0.5], [1.0, 1.5]])
    >>> simlab.advantages("aem", np.array([1.0, 0.0]), entropy=entropy, base="dr_grpo").round(3)
    array([ 0.731, -0.269])
    """
    return chain(base_estimator(base), modulate_by_entropy(strength, least_spread))


# A baseline for each token


def center_by_energy(eps: Scalar = 1e-8) -> Link:
    """Subtract at each token the mean reward of the rollouts that have it, weighed by W: see the estimator."""
    check_range("eps", eps, 0, open_low=True)

    def subtract(advantages: Array, rollouts: Rollouts) -> Array:
        logp, present = read_tokens(rollouts, "old_logp")
        collision, _ = read_tokens(rollouts, "collision")
        xp, here = array_namespace(logp), present > 0
        energy = masked(1 - 2 * xp.exp(logp) + collision, here)
        energy = masked(energy, energy > 0)  # a squared length, below 0 by rounding alone
        weight = xp.cumulative_sum(energy, axis=-1) * present
        rewards = masked(of_tokens(advantages), here)
        total = xp.sum(weight, axis=-2, keepdims=True) + eps
        shared = xp.sum(present, axis=-2, keepdims=True) > 1
        baseline = masked(xp.sum(weight * rewards, axis=-2, keepdims=True) / total, shared)
        infinite = xp.full_like(logp, float("inf"))
        low = xp.min(xp.where(here, rewards, infinite), axis=-2, keepdims=True)
        equal = low >= xp.max(xp.where(here, rewards, -infinite), axis=-2, keepdims=True)
        return masked(rewards - baseline, here & ~(shared & equal))

    return stateless(subtract, needs=frozenset({"old_logp", "collision"}), exchangeable=True)


@register("arxiv:2602.07078", "r_i - sum_k W_kt r_k / sum_k W_kt, W_kt = sum of 1 - 2 pi + sum(pi^2) up to token t")
def optimal_token_baseline(eps: Scalar = 1e-8) -> Estimator:
    """Optimal token baseline: rewards less a mean in which rollouts of unlikely tokens weigh more; per token.

    arXiv 2602.07078, as ``compute_optimal_token_baseline_advantage`` (``verl/trainer/ppo/core_algos.py`` of
    verl-project/verl, 1dda039, 22 August 2026; the paper was not read). 1 - 2 pi + sum(pi^2) is the squared length of
    the score of a token with respect to its logits, so that W is what the variance of a REINFORCE gradient weighs by.
    ``eps`` is added to the sum of W. A token that a single rollout has keeps its reward, as verl's ``handle_zero_tail``
    has it; verl's importance weights are left out. Where all rollouts that have a token have equal rewards it gets 0;
    verl leaves r eps / sum(W). Where all tokens are as likely and all candidates too, it is mean GRPO.

    >>> logp, collision = np.log([[0.5], [0.25]]), np.array([[0.375], [0.375]])
    >>> simlab.advantages("optimal_token_baseline", np.array([1.0, 0.0]), old_logp=logp, collision=collision).round(4)
    array([[ 0.7],
           [-0.3]])
    """
    return chain(center_by_energy(eps))


# Likelihood of a rollout

LOGP = frozenset({"old_logp"})


def smooth_by_outcome(success: Scalar = 0.05, failure: Scalar = 0.05) -> Link:
    """Subtract ``success`` times mean log pi on success, add ``failure`` times it on failure ``[f-grpo:ds-grpo]``."""
    check_ranges(0, success=success, failure=failure)

    def smooth(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        logp = sequence_mean_logp(rollouts)
        change = xp.where(is_correct(rollouts), -success * logp, failure * logp)
        return advantages + beside(change, advantages)

    return stateless(smooth, needs=LOGP, exchangeable=True)


@register("f-grpo:ds-grpo", "A_GRPO -/+ coefficient mean_t(log pi_t) on success / failure")
def ds_grpo(success: Scalar = 0.05, failure: Scalar = 0.05, ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """DS-GRPO: GRPO with differential smoothing, from the length-mean log-probability of each rollout.

    Groups of equal rewards get the smoothing term alone; with both coefficients 0 it is GRPO.

    >>> simlab.advantages("ds_grpo", np.array([1.0, 0.0]), old_logp=np.array([[-2.0], [-4.0]]), eps=0.0)
    array([ 1.1, -1.2])
    """
    return chain(grpo(ddof, eps), smooth_by_outcome(success, failure))


RANKINGS = ("paper", "code")


def discount_likely(beta: Scalar, ranking: str, inner: Estimator) -> Link:
    """The advantages of ``inner`` for rewards r (1 - beta likeliness), likeliness a rank in the group over G.

    ``ranking="paper"`` ranks by the log-probability of the whole sequence, the likeliest rollout getting 1 and the
    least likely 1 / G; ``"code"`` ranks by its mean over tokens, from (G - 1) / G down to 0. Rollouts that are equally
    likely share the mean of their ranks. Defined for rewards in [0, 1]: a discount would make a negative one better.
    """
    check_range("beta", beta, 0, 1)
    check_choice("ranking", ranking, RANKINGS)

    def discount(rollouts: Rollouts) -> Array:
        if ranking == "paper":
            logp, _ = read_tokens(rollouts, "old_logp")
            likeliness = average_rank(array_namespace(logp).sum(logp, axis=-1), rollouts.mask) + 1
        else:
            likeliness = average_rank(sequence_mean_logp(rollouts), rollouts.mask)
        return rollouts.rewards * (1 - beta * likeliness / group_count(rollouts))

    return shape_rewards(discount, inner, needs=LOGP, domain="unit", exchangeable=True)


@register("f-grpo:unlikeliness", "GRPO of r_i (1 - beta rank_i / G), the likeliest rollout ranking highest")
def unlikeliness(beta: Scalar = 0.25, ranking: str = "paper", ddof: int = 0, eps: Scalar = 1e-6) -> Estimator:
    """Unlikeliness reward: GRPO on rewards that are discounted the likelier a rollout is in its group.

    The published code (``ranking="code"``, ``ddof=1``) ranks by the mean log-probability of the tokens, from 0. For
    rewards in [0, 1]. Groups of rewards 0, and single rollouts, get 0; of rewards 1, the likely lose to the unlikely.

    >>> logp = np.log([[0.5], [0.25], [0.25]])
    >>> simlab.advantages("unlikeliness", np.array([1.0, 1.0, 0.0]), old_logp=logp, eps=0.0).round(3)
    array([ 0.539,  0.863, -1.402])
    """
    return chain(discount_likely(beta, ranking, grpo(ddof, eps)))

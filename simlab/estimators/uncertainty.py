"""Links that weigh advantages by how certain the policy was, token by token, or rollout by rollout within a group."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.estimators.base import Estimator, Link, chain, stateless, weigh
from simlab.estimators.registry import base_estimator, register
from simlab.estimators.tokens import of_tokens
from simlab.rollouts import Array, Rollouts, Scalar, group_mean, needed, sequence_mean, token_weights


def weigh_by_probability(alpha: Scalar = 0.2) -> Link:
    """Multiply by alpha pi + 1 - alpha, pi the probability of the token when it was sampled ``[arxiv:2505.12929]``.

    Raises:
        InputError: for ``alpha`` outside [0, 1].
    """
    check_range("alpha", alpha, 0, 1)

    def reweigh(advantages: Array, rollouts: Rollouts) -> Array:
        logp = needed(rollouts, "old_logp")
        xp = array_namespace(logp)
        present = token_weights(logp, rollouts)
        probability = xp.exp(xp.where(present > 0, logp, xp.zeros_like(logp)))
        return of_tokens(advantages) * (alpha * probability + (1 - alpha)) * present

    return stateless(reweigh, needs=frozenset({"old_logp"}), exchangeable=True)


@register("arxiv:2505.12929", "(alpha pi_it + 1 - alpha) A_i")
def advantage_reweighting(alpha: Scalar = 0.2, base: str | Estimator = "grpo") -> Estimator:
    """Advantage Reweighting: any base, with less weight on unlikely tokens; advantages are per token.

    arXiv 2505.12929, beside Lopti, which a run has as ``isolation``. As ``compute_reweight_advantage`` in
    ``verl/trainer/ppo/ray_trainer.py`` of zhyang2226/AR-Lopti with ``both_linear_normal``, whose scripts take alpha .2,
    or .3 with Lopti. Nothing differs. Groups of equal rewards get 0 from a base that gives 0 there, such as GRPO. With
    ``alpha`` 0 it is its base.

    >>> import simlab, numpy as np
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

    Raises:
        InputError: for a negative ``strength``, or ``least_spread`` not above 0.
    """
    check_range("strength", strength, 0)
    check_range("least_spread", least_spread, 0, open_low=True)

    def modulate(advantages: Array, rollouts: Rollouts) -> Array:
        entropy = sequence_mean(needed(rollouts, "entropy"), rollouts)
        xp = array_namespace(entropy)
        present = xp.ones_like(entropy, dtype=xp.bool) if rollouts.mask is None else rollouts.mask
        infinite = xp.full_like(entropy, float("inf"))
        low = xp.min(xp.where(present, entropy, infinite), axis=-1, keepdims=True)
        spread = xp.max(xp.where(present, entropy, -infinite), axis=-1, keepdims=True) - low
        differs = spread >= least_spread
        above = xp.where(present & differs, entropy - low, xp.zeros_like(entropy))
        weight = xp.exp(-strength * above / xp.where(differs, spread, xp.ones_like(spread)))
        mean = group_mean(weight, rollouts)
        return weigh(advantages, weight / xp.where(mean > 0, mean, xp.ones_like(mean)))  # 0 where a group is empty

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

    >>> import simlab, numpy as np
    >>> entropy = np.array([[0.0, 0.5], [1.0, 1.5]])
    >>> simlab.advantages("aem", np.array([1.0, 0.0]), entropy=entropy, base="dr_grpo").round(3)
    array([ 0.731, -0.269])
    """
    return chain(base_estimator(base), modulate_by_entropy(strength, least_spread))

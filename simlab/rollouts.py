"""The record that every estimator reads, and the masked reductions they share.

Axes: P prompts, G rollouts of one prompt (the group), T tokens, C candidate tokens.
"""

from typing import Any, NamedTuple

from array_api_compat import array_namespace
from jaxtyping import Bool, Float

from simlab.errors import InputError

Array = Any
Scalar = float | Array  # a number, which JAX may trace


class Rollouts(NamedTuple):
    """A batch of sampled groups. A NamedTuple, so JAX treats it as a pytree without being imported here.

    Attributes:
        rewards: (P, G) verifier rewards; a rollout is *correct* when its reward is above 0.
        old_logp: (P, G, T) log-probability of each sampled token under the policy that sampled it.
        entropy: (P, G, T) entropy of that policy, in nats, at each token.
        topn_logp: (P, G, T, C) log-probabilities of the C likeliest candidates at each token.
        mask: (P, G) true where a rollout exists; None when every group is full.
        token_mask: (P, G, T) true where a token exists; None when every rollout has T tokens.
    """

    rewards: Float[Array, "P G"]
    old_logp: Float[Array, "P G T"] | None = None
    entropy: Float[Array, "P G T"] | None = None
    topn_logp: Float[Array, "P G T C"] | None = None
    mask: Bool[Array, "P G"] | None = None
    token_mask: Bool[Array, "P G T"] | None = None


FIELDS = frozenset({"rewards", "old_logp", "entropy", "topn_logp"})


def check_rollouts(rollouts: Rollouts, needs: frozenset[str] = frozenset({"rewards"})) -> None:
    """Raise ``InputError`` for rollouts that no estimator could use. For concrete arrays, not traced ones."""
    rewards = rollouts.rewards
    if rewards.ndim != 2:
        raise InputError(f"rewards have shape {tuple(rewards.shape)}; allowed: (prompts, rollouts)")
    if 0 in rewards.shape:
        raise InputError(f"rewards have shape {tuple(rewards.shape)}; a group needs at least one rollout")
    xp = array_namespace(rewards)
    present = _weights(rollouts, xp) > 0 if _mask_fits(rollouts) else None
    if not bool(xp.all(xp.isfinite(rewards) if present is None else xp.isfinite(rewards) | ~present)):
        raise InputError("rewards hold NaN or infinity; allowed: finite numbers")
    for name in sorted(needs & FIELDS):
        if getattr(rollouts, name) is None:
            raise InputError(f"rollouts carry no {name}, which this estimator needs")
    for name, axes in (("old_logp", 3), ("entropy", 3), ("topn_logp", 4), ("token_mask", 3)):
        field = getattr(rollouts, name)
        if field is not None and (field.ndim != axes or tuple(field.shape[:2]) != tuple(rewards.shape)):
            raise InputError(
                f"{name} has shape {tuple(field.shape)}; allowed: {axes} axes, the first two {tuple(rewards.shape)}"
            )


def _mask_fits(rollouts: Rollouts) -> bool:
    if rollouts.mask is None:
        return False
    if tuple(rollouts.mask.shape) != tuple(rollouts.rewards.shape):
        raise InputError(f"mask has shape {tuple(rollouts.mask.shape)}; allowed: {tuple(rollouts.rewards.shape)}")
    if not array_namespace(rollouts.mask).isdtype(rollouts.mask.dtype, "bool"):
        raise InputError(f"mask has dtype {rollouts.mask.dtype}; allowed: bool")
    return True


def _weights(rollouts: Rollouts, xp: Any) -> Array:
    """1 where a rollout exists and 0 elsewhere, in the dtype of the rewards.

    Without a mask the ones are computed, for a count that XLA knows while compiling turns each division by it into a
    multiplication by a rounded 1 / G, fused with what follows: 1 - (a mean of ones) is then below 0 for G = 3.
    """
    present = rollouts.rewards == rollouts.rewards if rollouts.mask is None else rollouts.mask
    return xp.astype(present, rollouts.rewards.dtype)


def group_count(rollouts: Rollouts) -> Float[Array, "P 1"]:
    """Rollouts present in each group, at least 1 so that an empty group divides safely."""
    xp = array_namespace(rollouts.rewards)
    count = xp.sum(_weights(rollouts, xp), axis=-1, keepdims=True)
    return xp.where(count < 1, xp.ones_like(count), count)


def group_sum(values: Float[Array, "P G"], rollouts: Rollouts) -> Float[Array, "P 1"]:
    """Sum over the rollouts present in each group."""
    xp = array_namespace(values)
    if rollouts.mask is not None:
        values = xp.where(rollouts.mask, values, xp.zeros_like(values))
    return xp.sum(values, axis=-1, keepdims=True)


def group_mean(values: Float[Array, "P G"], rollouts: Rollouts) -> Float[Array, "P 1"]:
    """Mean over the rollouts present in each group."""
    return group_sum(values, rollouts) / group_count(rollouts)


def group_std(values: Float[Array, "P G"], rollouts: Rollouts, ddof: int) -> Float[Array, "P 1"]:
    """Standard deviation of each group; ``ddof`` 0 is the population's, 1 the sample's.

    A group with too few rollouts for ``ddof`` gets 0.
    """
    xp = array_namespace(values)
    squares = group_sum((values - group_mean(values, rollouts)) ** 2, rollouts)
    freedom = group_count(rollouts) - ddof
    safe = xp.where(freedom > 0, freedom, xp.ones_like(freedom))
    return xp.where(freedom > 0, xp.sqrt(squares / safe), xp.zeros_like(squares))


def is_uniform(rollouts: Rollouts, axis: int | None = -1) -> Bool[Array, "P 1"]:
    """Whether all rewards of a group are equal, compared exactly and not through a rounded mean.

    With ``axis=None``, whether all rewards of the batch are, (1, 1).
    """
    xp = array_namespace(rollouts.rewards)
    rewards, highest, lowest = rollouts.rewards, rollouts.rewards, rollouts.rewards
    if rollouts.mask is not None:
        highest = xp.where(rollouts.mask, rewards, xp.full_like(rewards, -float("inf")))
        lowest = xp.where(rollouts.mask, rewards, xp.full_like(rewards, float("inf")))
    return xp.max(highest, axis=axis, keepdims=True) <= xp.min(lowest, axis=axis, keepdims=True)


def is_correct(rollouts: Rollouts) -> Bool[Array, "P G"]:
    """Whether each rollout is correct: its reward is above 0."""
    return rollouts.rewards > 0


def solve_rate(rollouts: Rollouts) -> Float[Array, "P 1"]:
    """X / G, the share of correct rollouts in each group ``[f-grpo:eq-11]``."""
    xp = array_namespace(rollouts.rewards)
    return group_mean(xp.astype(is_correct(rollouts), rollouts.rewards.dtype), rollouts)


def batch_mean(values: Float[Array, "P G"], rollouts: Rollouts) -> Float[Array, "1 1"]:
    """Mean over every rollout present in the batch, whatever its prompt; 0 for a batch without any."""
    xp = array_namespace(values)
    count = xp.sum(_weights(rollouts, xp), axis=None, keepdims=True)
    count = xp.where(count < 1, xp.ones_like(count), count)
    return xp.sum(group_sum(values, rollouts), axis=0, keepdims=True) / count


def sequence_mean_logp(rollouts: Rollouts) -> Float[Array, "P G"]:
    """Mean over tokens of the sampling log-probability of each rollout."""
    logp = rollouts.old_logp
    if logp is None:
        raise InputError("rollouts carry no old_logp, which this estimator needs")
    xp = array_namespace(logp)
    if rollouts.token_mask is None:
        return xp.mean(logp, axis=-1)
    present = xp.astype(rollouts.token_mask, logp.dtype)
    length = xp.sum(present, axis=-1)
    total = xp.sum(xp.where(rollouts.token_mask, logp, xp.zeros_like(logp)), axis=-1)
    return total / xp.where(length < 1, xp.ones_like(length), length)

"""The record that estimators read, and masked reductions. Axes: P prompts, G rollouts, T tokens, C candidates."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from array_api_compat import array_namespace
from jaxtyping import Bool, Float

from simlab.errors import Diverged, InputError

Array = Any
Scalar = float | Array  # a number, which JAX may trace


class Rollouts(NamedTuple):
    """A batch of sampled groups. A NamedTuple, so JAX treats it as a pytree without being imported here.

    Attributes:
        rewards: (P, G) verifier rewards, or the weighted sums of their parts.
        old_logp: (P, G, T) log-probability of each sampled token under the policy that sampled it.
        entropy: (P, G, T) entropy of that policy, in nats, at each token.
        topn_logp: (P, G, T, C) log-probabilities of the C likeliest candidates at each token, the likeliest first.
        collision: (P, G, T) the sum of the squared probabilities of all candidates at each token, under that policy.
        ref_logp: (P, G, T) log-probability of each sampled token under a reference policy.
        teacher_logp: (P, G, T) log-probability of each sampled token under a teacher.
        noise: (P, G, T) independent uniform numbers in [0, 1) of the engine's, for methods that draw tokens at random.
        mask: (P, G) true where a rollout exists; None when every group is full.
        token_mask: (P, G, T) true where a token exists; None when every rollout has T tokens.
        greedy_reward: (P, G) reward of the answer whose every token is the likeliest: one number a prompt, which stands
            at each of its rollouts. The greedy answer itself is not among the rollouts.
        correct: (P, G) true for correct rollouts, where that is not a reward above 0: see ``is_correct``.
        parts: (P, G, R) the R parts of each reward, for methods that weigh them apart.
        part_weights: (P, G, R) what each part weighs in the sum, 0 where it is missing; None for 1 each.
        role: (P, G) the number of the role in which each rollout was played, a whole number from 0 up.
    """

    rewards: Float[Array, "P G"]
    old_logp: Float[Array, "P G T"] | None = None
    entropy: Float[Array, "P G T"] | None = None
    topn_logp: Float[Array, "P G T C"] | None = None
    collision: Float[Array, "P G T"] | None = None
    ref_logp: Float[Array, "P G T"] | None = None
    teacher_logp: Float[Array, "P G T"] | None = None
    noise: Float[Array, "P G T"] | None = None
    mask: Bool[Array, "P G"] | None = None
    token_mask: Bool[Array, "P G T"] | None = None
    greedy_reward: Float[Array, "P G"] | None = None
    correct: Bool[Array, "P G"] | None = None
    parts: Float[Array, "P G R"] | None = None
    part_weights: Float[Array, "P G R"] | None = None
    role: Float[Array, "P G"] | None = None


TOKEN_FIELDS = {  # and their numbers of axes
    "old_logp": 3, "entropy": 3, "topn_logp": 4, "collision": 3, "ref_logp": 3, "teacher_logp": 3, "noise": 3,
}  # fmt: skip
FIELDS = frozenset({"rewards", "greedy_reward", "parts", "role", *TOKEN_FIELDS})
MOST_ROLLOUTS = 2.0**24  # of a group
FEW = 3  # different rewards that a message lists; of more, it gives the range


def check_rollouts(rollouts: Rollouts, needs: frozenset[str] = frozenset({"rewards"})) -> None:
    """Raise ``InputError`` for rollouts that no estimator could use. For concrete arrays, not traced ones."""
    check_shapes(rollouts, needs)
    rewards = rollouts.rewards
    xp = array_namespace(rewards)
    if not xp.isdtype(rewards.dtype, "real floating") or xp.finfo(rewards.dtype).bits < 32:
        raise InputError(f"rewards have dtype {rewards.dtype}; allowed: float32, float64")
    for name in ("mask", "token_mask", "correct"):
        mask = getattr(rollouts, name)
        if mask is not None and not array_namespace(mask).isdtype(mask.dtype, "bool"):
            raise InputError(f"{name} has dtype {mask.dtype}; allowed: bool")
    first = ("rewards",) if rollouts.parts is None else ("parts", "rewards")  # what sums is told before the sum
    for name in (*first, *sorted(needs & FIELDS - {*first})):
        field = needed(rollouts, name)
        xp = array_namespace(field)
        present = xp.ones_like(field, dtype=xp.bool) if rollouts.mask is None else rollouts.mask
        if name == "parts":
            present = present_parts(rollouts)
        elif field.ndim > 2:
            present = token_weights(field if field.ndim == 3 else field[..., 0], rollouts) > 0
            present = present if field.ndim == 3 else present[..., None]
        # A candidate may be impossible; a token that was sampled is not.
        bad = xp.isnan(field) if name == "topn_logp" else ~xp.isfinite(field)
        if bool(xp.any(bad & present)):
            verb = "hold" if name in ("rewards", "parts") else "holds"
            missing = "mask= and token_mask= are" if name in TOKEN_FIELDS else "mask= is"
            raise InputError(f"{name} {verb} NaN or infinity; allowed: finite numbers, but where {missing} false")


def check_finite(name: str, what: str, values: Array, rollouts: Rollouts) -> None:
    """Raise ``Diverged`` unless values of ``name``, (P, G, ...), are finite: for arrays that JAX does not trace."""
    xp = array_namespace(values)
    finite = xp.isfinite(values)
    if bool(xp.all(finite)):
        return
    group = next(index for index in range(values.shape[0]) if not bool(xp.all(finite[index, ...])))
    rewards = rollouts.rewards[group, ...]
    if rollouts.mask is not None:
        rewards = rewards[rollouts.mask[group, ...]]
    described = rewards_in_words(Counter(float(reward) for reward in rewards))
    raise Diverged(f"{name}: {what} of group {group} are not finite, where {described}; allowed: finite numbers")


def rewards_in_words(counts: Mapping[float, int]) -> str:
    """Describe the rewards of a group, each with how often it occurs.

    >>> rewards_in_words({1.0: 3, -1.0: 5})
    '3 of 8 rewards are 1, the others -1'
    """
    present = sorted(((value, count) for value, count in counts.items() if count), reverse=True)
    total = sum(count for _, count in present)
    if len(present) == 1:
        return f"all {total} rewards are {present[0][0]:g}"
    if len(present) > FEW:
        return f"{total} rewards lie between {present[-1][0]:g} and {present[0][0]:g}"
    (first, count), *remaining = present
    others = " and ".join(f"{value:g}" for value, _ in remaining)
    return f"{count} of {total} rewards are {first:g}, the others {others}"


def check_shapes(rollouts: Rollouts, needs: frozenset[str] = frozenset({"rewards"})) -> None:
    """Raise ``InputError`` for fields that are missing or do not fit together; also for traced arrays."""
    shape = tuple(rollouts.rewards.shape)
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"rewards have shape {shape}; allowed: (prompts, rollouts), one or more of each")
    for name in sorted(needs & FIELDS):
        needed(rollouts, name)
    for name in ("mask", "greedy_reward", "correct", "role"):
        field = getattr(rollouts, name)
        if field is not None and tuple(field.shape) != shape:
            raise InputError(f"{name} has shape {tuple(field.shape)}; allowed: {shape}")
    _check_parts(rollouts, shape)
    tokens = tokens_of(rollouts)
    for name, axes in (*TOKEN_FIELDS.items(), ("token_mask", 3)):
        field = getattr(rollouts, name)
        if field is None:
            continue
        if field.ndim != axes or tuple(field.shape[:2]) != shape or field.shape[2] == 0:
            allowed = f"{axes} axes, the first two {shape}, and one or more tokens"
            raise InputError(f"{name} has shape {tuple(field.shape)}; allowed: {allowed}")
        if field.shape[2] != tokens:
            raise InputError(f"{name} has {field.shape[2]} tokens a rollout; allowed: {tokens}, as in other fields")


def _check_parts(rollouts: Rollouts, shape: tuple[int, ...]) -> None:
    parts, weights = rollouts.parts, rollouts.part_weights
    if parts is not None and (parts.ndim != 3 or tuple(parts.shape[:2]) != shape or parts.shape[2] == 0):
        raise InputError(f"parts have shape {tuple(parts.shape)}; allowed: {shape} and then the number of parts")
    if weights is not None and (parts is None or tuple(weights.shape) != tuple(parts.shape)):
        like = "as parts, which there are none of" if parts is None else f"{tuple(parts.shape)}, as parts"
        raise InputError(f"part_weights have shape {tuple(weights.shape)}; allowed: {like}")


def tokens_of(rollouts: Rollouts) -> int | None:
    """Return T, by the first field that has an axis of tokens; None without such a field."""
    fields = (getattr(rollouts, name) for name in (*TOKEN_FIELDS, "token_mask"))
    return next((int(field.shape[2]) for field in fields if field is not None and field.ndim > 2), None)


def needed(rollouts: Rollouts, name: str) -> Array:
    """Return a field that a link or surrogate reads; ``InputError`` if the rollouts do not carry it."""
    field = getattr(rollouts, name)
    if field is None:
        raise InputError(f"rollouts carry no {name}, which this method needs")
    return field


def _weights(rollouts: Rollouts, xp: Any) -> Array:
    """1 where a rollout exists, else 0, computed from the rewards, so that XLA does not round 1 / G."""
    present = rollouts.rewards == rollouts.rewards if rollouts.mask is None else rollouts.mask
    return xp.astype(present, rollouts.rewards.dtype)


def or_one(values: Array) -> Array:
    """Replace what is not above 0 by 1, to divide by it."""
    xp = array_namespace(values)
    return xp.where(values > 0, values, xp.ones_like(values))


def masked(values: Array, mask: Array | None) -> Array:
    """Put 0 where a mask is false."""
    xp = array_namespace(values)
    return values if mask is None else xp.where(mask, values, xp.zeros_like(values))


def group_count(rollouts: Rollouts) -> Float[Array, "P 1"]:
    """Rollouts present in each group, at least 1 so that an empty group divides safely."""
    xp = array_namespace(rollouts.rewards)
    return or_one(xp.sum(_weights(rollouts, xp), axis=-1, keepdims=True))


def group_sum(values: Float[Array, "P G"], rollouts: Rollouts) -> Float[Array, "P 1"]:
    """Sum over the rollouts present in each group."""
    return array_namespace(values).sum(masked(values, rollouts.mask), axis=-1, keepdims=True)


def group_mean(values: Float[Array, "P G"], rollouts: Rollouts) -> Float[Array, "P 1"]:
    """Mean over the rollouts present in each group."""
    return group_sum(values, rollouts) / group_count(rollouts)


def group_std(values: Float[Array, "P G"], rollouts: Rollouts, ddof: int) -> Float[Array, "P 1"]:
    """Standard deviation of each group; ``ddof`` 0 is the population's, 1 the sample's; 0 with too few rollouts."""
    xp = array_namespace(values)
    deviations = values - group_mean(values, rollouts)
    # Where squares would leave the dtype, they are those of the deviations over the largest.
    largest, limits = xp.max(xp.abs(masked(deviations, rollouts.mask)), axis=-1, keepdims=True), xp.finfo(values.dtype)
    low, high = math.sqrt(limits.smallest_normal / limits.eps), math.sqrt(limits.max / MOST_ROLLOUTS)
    fits = ((largest > low) & (largest < high)) | (largest == 0)
    unit = xp.where(fits, xp.ones_like(largest), largest)
    return _std(group_sum((deviations / unit) ** 2, rollouts), unit, group_count(rollouts) - ddof, xp)


def _std(squares: Array, unit: Array, freedom: Array, xp: Any) -> Array:
    """Divide a sum of squares of deviations in some unit by the degrees of freedom; 0 where there is none."""
    safe = or_one(freedom)
    return xp.where(freedom > 0, unit * xp.sqrt(squares / safe), xp.zeros_like(squares))


def is_uniform(rollouts: Rollouts, axis: int | None = -1) -> Bool[Array, "P 1"]:
    """True where all rewards of a group, or (1, 1) of the batch with ``axis=None``, are equal: compared exactly."""
    xp = array_namespace(rollouts.rewards)
    rewards, highest, lowest = rollouts.rewards, rollouts.rewards, rollouts.rewards
    if rollouts.mask is not None:
        highest = xp.where(rollouts.mask, rewards, xp.full_like(rewards, -float("inf")))
        lowest = xp.where(rollouts.mask, rewards, xp.full_like(rewards, float("inf")))
    return xp.max(highest, axis=axis, keepdims=True) <= xp.min(lowest, axis=axis, keepdims=True)


def is_correct(rollouts: Rollouts) -> Bool[Array, "P G"]:
    """True for correct rollouts: those that ``correct`` marks; without it, those whose reward is above 0."""
    return rollouts.rewards > 0 if rollouts.correct is None else rollouts.correct


def present_parts(rollouts: Rollouts) -> Bool[Array, "P G R"]:
    """True where a part of the reward exists: its rollout does, and its weight is not 0."""
    parts = needed(rollouts, "parts")
    xp = array_namespace(parts)
    present = xp.ones_like(parts, dtype=xp.bool) if rollouts.part_weights is None else rollouts.part_weights != 0
    return present if rollouts.mask is None else present & rollouts.mask[..., None]


def solve_rate(rollouts: Rollouts) -> Float[Array, "P 1"]:
    """X / G, the share of correct rollouts in each group ``[f-grpo:eq-11]``."""
    xp = array_namespace(rollouts.rewards)
    return group_mean(xp.astype(is_correct(rollouts), rollouts.rewards.dtype), rollouts)


def remainder(share: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 - ``share``, of a share in [0, 1], and 0 where rounding (a fused 1 - 3 / 3 is -3e-8) would leave less."""
    xp = array_namespace(share)
    return xp.maximum(1 - share, xp.zeros_like(share))


def batch_mean(values: Float[Array, "P G"], rollouts: Rollouts) -> Float[Array, "1 1"]:
    """Mean over every rollout present in the batch, whatever its prompt; 0 for a batch without any."""
    xp = array_namespace(values)
    count = or_one(xp.sum(_weights(rollouts, xp), axis=None, keepdims=True))
    return xp.sum(group_sum(values, rollouts), axis=0, keepdims=True) / count


def batch_std(values: Float[Array, "P G"], rollouts: Rollouts, ddof: int) -> Float[Array, "1 1"]:
    """Standard deviation over every rollout present in the batch; 0 where there are too few for ``ddof``."""
    xp = array_namespace(values)
    deviations = masked(values - batch_mean(values, rollouts), rollouts.mask)
    largest = xp.max(xp.abs(deviations), axis=None, keepdims=True)
    unit = or_one(largest)  # so that no square leaves the dtype
    freedom = xp.sum(_weights(rollouts, xp), axis=None, keepdims=True) - ddof
    return _std(xp.sum((deviations / unit) ** 2, axis=None, keepdims=True), unit, freedom, xp)


def sequence_sum(values: Float[Array, "P G T"], rollouts: Rollouts) -> Float[Array, "P G"]:
    """Sum over the tokens of each rollout."""
    return array_namespace(values).sum(masked(values, rollouts.token_mask), axis=-1)


def sequence_mean(values: Float[Array, "P G T"], rollouts: Rollouts) -> Float[Array, "P G"]:
    """Mean over the tokens of each rollout; 0 for a rollout without tokens."""
    xp = array_namespace(values)
    if rollouts.token_mask is None:
        return xp.mean(values, axis=-1)
    length = xp.sum(xp.astype(rollouts.token_mask, values.dtype), axis=-1)
    return sequence_sum(values, rollouts) / or_one(length)


def sequence_mean_logp(rollouts: Rollouts) -> Float[Array, "P G"]:
    """Mean over tokens of the sampling log-probability of each rollout."""
    return sequence_mean(needed(rollouts, "old_logp"), rollouts)


def token_weights(values: Float[Array, "P G T"], rollouts: Rollouts) -> Float[Array, "P G T"]:
    """1 where a token of a rollout exists and 0 elsewhere, in the shape and dtype of ``values``."""
    xp = array_namespace(values)
    present = xp.ones_like(values, dtype=xp.bool) if rollouts.token_mask is None else rollouts.token_mask
    if rollouts.mask is not None:
        present = present & rollouts.mask[..., None]
    return xp.astype(present, values.dtype)


def select_fields(stage: Any, rollouts: Rollouts, *, of_tokens: bool) -> Rollouts:
    """Select the fields that a link or a surrogate needs, and padding only if it is ``exchangeable``.

    Another gets no ``mask``: ``InputError`` unless all rollouts, and tokens if it deals with these, certainly exist.
    """
    selected = rollouts._replace(**{name: None for name in FIELDS - {"rewards"} - stage.needs})
    if stage.exchangeable:
        return selected
    of_tokens = of_tokens or bool(stage.needs & set(TOKEN_FIELDS))
    for mask, absent, equal in (("mask", "rollouts", "equal groups"), ("token_mask", "tokens", "equal lengths")):
        if (of_tokens or mask == "mask") and not _is_full(getattr(rollouts, mask)):
            raise InputError(
                f"{mask} leaves out {absent}, and {stage.name} is not declared to heed that; allowed: {equal}, or "
                "exchangeable=True where it is made, if it neither reads what is absent nor the order"
            )
    return selected._replace(mask=None)


def check_made(said: str, values: Array, like: Array, fits: bool, allowed: object) -> None:
    """Raise ``InputError`` unless a stage gave an array that ``fits``, of real numbers as precise as ``like``."""
    if not hasattr(values, "shape") or not hasattr(values, "dtype"):
        raise InputError(f"{said} of type {type(values).__name__}; allowed: an array")
    xp = array_namespace(like)
    exact = fits and xp.isdtype(values.dtype, "real floating")
    if not exact or xp.finfo(values.dtype).bits < xp.finfo(like.dtype).bits:
        raise InputError(
            f"{said} of shape {tuple(values.shape)} and dtype {values.dtype}; allowed: {allowed}, in {like.dtype} or "
            "more precise"
        )


def _is_full(mask: Array | None) -> bool:
    """Return True if the mask certainly excludes nothing."""
    try:
        return mask is None or bool(array_namespace(mask).all(mask))
    except TypeError:  # JAX traces it
        return False

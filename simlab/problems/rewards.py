"""Read the rewards that a problem states: graded ones, one or several parts for each action, with weights and noise."""

from typing import Any

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError, check_choice, check_range

FIELDS = ("rewards", "reward_parts", "reward_weights", "reward_noise", "noise_of")  # of a problem with graded rewards
NOISE_OF = ("rollout", "answer", "prompt")  # the units of an error, of a verifier and of a reward alike


def binary_rewards(reward_correct: Any, reward_incorrect: Any) -> None:
    """Raise ``InputError`` unless a correct rollout has one reward above 0, and any other one of at most 0."""
    for name, value in (("reward_correct", reward_correct), ("reward_incorrect", reward_incorrect)):
        if np.shape(value):
            graded = "graded rewards are rewards=, one for each action"
            raise InputError(f"{name} has shape {np.shape(value)}; allowed: one number ({graded})")
    check_range("reward_correct", reward_correct, 0, open_low=True)
    check_range("reward_incorrect", reward_incorrect, high=0)


def graded_rewards(fields: dict[str, Any], prompts: int, entries: int) -> dict[str, Any]:
    """Return the ``FIELDS`` in their normal form: rewards (M, R, C), R names, weights (R,) and noise (R,) or None.

    ``InputError`` for another shape, a number that is not finite, or a name that comes twice. Transposed parts, (C, R),
    have another shape, but where C = R.
    """
    rewards = _numbers("rewards", fields["rewards"])
    shape = rewards.shape
    if rewards.ndim < 3:
        rewards = rewards[:, None] if prompts > 1 and rewards.ndim == 2 else np.atleast_2d(rewards)[None]
    parts = rewards.shape[1]
    if parts == 0 or rewards.shape != (prompts, parts, entries):
        one = f"({entries},) graded, (R, {entries}) in R parts"
        each = f"({prompts}, {entries}) graded, ({prompts}, R, {entries}) in R parts"
        raise InputError(f"rewards have shape {shape}; allowed: {each if prompts > 1 else one}")
    names = tuple(fields["reward_parts"]) or tuple(f"part {number}" for number in range(1, parts + 1))
    if len(names) != parts or len(set(names)) != parts or not all(isinstance(name, str) for name in names):
        raise InputError(f"reward_parts = {names}; allowed: {parts} names, each another")
    for prompt, part, action in np.argwhere(~np.isfinite(rewards))[:1]:
        of_part = f"part {names[part]!r}, " if parts > 1 or fields["reward_parts"] else ""
        where = f"{of_part}action {action}" + (f" of prompt {prompt}" if prompts > 1 else "")
        raise InputError(f"rewards hold {rewards[prompt, part, action]} ({where}); allowed: finite numbers")
    weights = np.ones(parts) if fields["reward_weights"] is None else _of_parts("reward_weights", fields, parts)
    noise = None if fields["reward_noise"] is None else _of_parts("reward_noise", fields, parts)
    for scale in () if noise is None else noise:
        check_range("reward_noise", scale, 0)
    check_choice("noise_of", fields["noise_of"], NOISE_OF)
    values = rewards, names, weights, noise, fields["noise_of"]
    return dict(zip(FIELDS, values, strict=True))


def _of_parts(name: str, fields: dict[str, Any], parts: int) -> Float[np.ndarray, " R"]:
    values = _numbers(name, fields[name])
    if values.shape != (parts,):
        raise InputError(f"{name} have shape {values.shape}; allowed: ({parts},), one for each part of the rewards")
    if not np.isfinite(values).all():
        raise InputError(f"{name} hold {values[~np.isfinite(values)][0]}; allowed: finite numbers")
    return values


def _numbers(name: str, values: Any) -> Float[np.ndarray, "..."]:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} are no array of numbers; allowed: finite numbers, rows of equal length") from None

"""Register estimators, and make them by name."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from simlab.errors import InputError, build, check_choice
from simlab.estimators.base import DOMAINS, Estimator
from simlab.rollouts import Array, Rollouts, check_finite, check_rollouts, masked


@dataclass(frozen=True)
class Registered:
    """A named estimator: its constructor, its tag (the place in the paper that defines it), and its formula.

    In formulas r_i is the reward of a rollout, and mean, std and the like run over its group; p is the solve rate,
    q = 1 - p, s the number of correct rollouts, F of incorrect ones, and G of all.
    """

    name: str
    tag: str
    build: Callable[..., Estimator]
    formula: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters with their defaults."""
        return {name: parameter.default for name, parameter in inspect.signature(self.build).parameters.items()}

    @property
    def summary(self) -> str:
        """First line of the constructor's docstring."""
        return next(iter((self.build.__doc__ or "").strip().splitlines()), "")


_REGISTRY: dict[str, Registered] = {}
REGISTRY: Mapping[str, Registered] = MappingProxyType(_REGISTRY)


def register(tag: str, formula: str = "") -> Callable[[Callable[..., Estimator]], Callable[..., Estimator]]:
    """List a constructor under its own name, as a decorator."""

    def add(constructor: Callable[..., Estimator]) -> Callable[..., Estimator]:
        entry = Registered(constructor.__name__, tag, constructor, formula)
        if entry.name in _REGISTRY:
            raise InputError(f"estimator {entry.name!r} is registered already; choose another name")
        if bare := [name for name, default in entry.parameters.items() if default is inspect.Parameter.empty]:
            raise InputError(f"estimator {entry.name!r}: parameters {bare} need a default")
        _REGISTRY[entry.name] = entry
        return constructor

    return add


def estimator(name: str, **parameters: Any) -> Estimator:
    """Build a registered estimator by name.

    >>> estimator("f_grpo", gamma=0.5).needs
    frozenset({'rewards'})
    """
    constructors = {entry.name: entry.build for entry in REGISTRY.values()}
    chosen: Estimator = build("estimator", name, constructors, parameters)
    return chosen


def built(name: str | Estimator, **parameters: Any) -> Estimator:
    """Build an estimator by name, or return the estimator that is passed instead, which takes no parameters."""
    if isinstance(name, Estimator) and parameters:
        raise InputError(f"parameters {sorted(parameters)} belong to a named estimator, not to a built one")
    return name if isinstance(name, Estimator) else estimator(name, **parameters)


def base_estimator(base: str | Estimator) -> Estimator:
    """Build the base of another estimator by its registered name, at its defaults, or return the estimator passed."""
    if not isinstance(base, Estimator):
        check_choice("base", base, sorted(REGISTRY))
    return built(base)


def advantages(
    name: str | Estimator,
    rewards: Array | None = None,
    *,
    parts: Array | None = None,
    weights: Array | None = None,
    correct: Array | None = None,
    role: Array | None = None,
    mask: Array | None = None,
    old_logp: Array | None = None,
    entropy: Array | None = None,
    collision: Array | None = None,
    teacher_logp: Array | None = None,
    token_mask: Array | None = None,
    greedy_reward: Array | None = None,
    **parameters: Any,
) -> Array:
    """Advantages of one batch, in the shape and array library of ``rewards``, or of ``parts`` without the last axis.

    Args:
        name: a registered estimator's name, or an estimator.
        rewards: (G,) one group, or (P, G); integers are read as floats, lists as NumPy arrays.
        parts: (G, R) or (P, G, R), the R parts of each reward, in place of ``rewards``: their weighted sum. For
            estimators that weigh parts apart; without it the reward is the only part. Transposed ones, (R, G) as a
            problem states them, are told by ``weights`` or by a mask of rollouts alone, and where R = G by nothing.
        weights: (R,) what each part weighs, by default 1.
        correct: true for correct rollouts, in the shape of ``rewards``; by default those with a reward above 0, where
            all of these have one reward. Of more levels, an estimator that reads it refuses them without ``correct``.
        role: the number of the role in which each rollout was played, likewise, for estimators that need it.
        mask: true where a rollout exists, in the shape of ``rewards``; or where a part does, in the shape of ``parts``:
            what is missing adds nothing, and a rollout without any part does not exist. Your own link must be declared
            exchangeable before it gets a batch with absent rollouts.
        old_logp: (..., T) sampling log-probabilities, for estimators that need them.
        entropy: (..., T) entropies of the sampling policy, likewise.
        collision: (..., T) sums of the squared probabilities of that policy, likewise.
        teacher_logp: (..., T) log-probabilities under a teacher, likewise.
        token_mask: (..., T) true where a token exists; by default every rollout has T tokens.
        greedy_reward: the reward of the greedy answer to each rollout's prompt, in the shape of ``rewards``, for
            estimators that need it.
        parameters: the parameters of the named estimator.

    Raises: InputError: for an unknown name or parameter, rewards that are not finite or outside the domain of the
    formula (some are for rewards in [0, 1], some for 0 and 1 only), graded rewards without ``correct`` where the
    advantages depend on it, arrays of the wrong shape, or advantages that are not finite.

    >>> advantages("dr_grpo", np.array([1.0, 0.0, 0.0, 0.0]))
    array([ 0.75, -0.25, -0.25, -0.25])
    """
    chosen = built(name, **parameters)
    mask = _from_lists("mask", mask, bool)
    part_weights = None
    if parts is not None:
        if rewards is not None:
            raise InputError("rewards beside parts; allowed: one of the two, for rewards are the sums of their parts")
        parts, part_weights, mask = _weighed(parts, weights, mask)
        rewards = array_namespace(parts).sum(parts * part_weights, axis=-1)
    elif weights is not None:
        raise InputError("weights without parts; allowed: beside parts=")
    rewards = _as_float_array("rewards", _from_lists("rewards", rewards, float))
    if "parts" in chosen.needs and parts is None:
        parts = rewards[..., None]
    numbers = {"old_logp": old_logp, "entropy": entropy, "collision": collision, "teacher_logp": teacher_logp}
    numbers |= {"greedy_reward": greedy_reward, "role": role}
    masks = {"token_mask": token_mask, "correct": correct}
    fields = {name: _from_lists(name, values, float) for name, values in numbers.items()}
    fields |= {name: _from_lists(name, values, bool) for name, values in masks.items()}
    fields |= {"mask": mask, "parts": parts, "part_weights": part_weights}
    if rewards.ndim not in (1, 2):
        raise InputError(f"rewards have shape {tuple(rewards.shape)}; allowed: (G,) or (P, G)")
    one_group = rewards.ndim == 1

    def batched(array: Array | None) -> Array | None:
        return array[None, ...] if one_group and array is not None else array

    rollouts = Rollouts(batched(rewards), **{name: batched(field) for name, field in fields.items()})
    check_rollouts(rollouts, chosen.needs)
    called = name if isinstance(name, str) else name.name
    check_domain(chosen, rewards if mask is None else rewards[mask], called)
    result, _ = chosen.update(rollouts, chosen.init())
    check_finite(called, "advantages", result, rollouts)
    _check_verdicts(chosen, rollouts, result, called)
    return result[0, ...] if one_group else result


def _weighed(parts: Any, weights: Any, mask: Array | None) -> tuple[Array, Array, Array | None]:
    """Parts, 0 where they are missing, what each weighs there, and the mask of the rollouts."""
    parts = _as_float_array("parts", _from_lists("parts", parts, float))
    if parts.ndim not in (2, 3):
        raise InputError(f"parts have shape {tuple(parts.shape)}; allowed: (G, R) or (P, G, R)")
    xp = array_namespace(parts)
    each = xp.ones_like(parts)
    if weights is not None:
        values = xp.asarray(_from_lists("weights", weights, float), dtype=parts.dtype)
        if tuple(values.shape) != (parts.shape[-1],) or not bool(xp.all(xp.isfinite(values))):
            raise InputError(f"weights = {values}; allowed: {parts.shape[-1]} finite numbers, one for each part")
        each = each * values
    if mask is None or tuple(mask.shape) != tuple(parts.shape):
        return parts, each, mask
    return masked(parts, mask), masked(each, mask), xp.any(mask, axis=-1)


def check_domain(chosen: Estimator, rewards: Array, name: str = "this estimator") -> None:
    """Raise ``InputError`` if the estimator's formula, called ``name``, is not defined for these rewards."""
    if chosen.domain == "any":
        return
    xp = array_namespace(rewards)
    outside = (rewards < 0) | (rewards > 1)
    if chosen.domain == "binary":
        outside = outside | ((rewards != 0) & (rewards != 1))
    if bool(xp.any(outside)):
        low, high = float(xp.min(rewards)), float(xp.max(rewards))
        first = float(rewards[outside][0])
        raise InputError(
            f"rewards span [{low:g}, {high:g}] and hold {first:g}; {name} is defined for {DOMAINS[chosen.domain]}"
        )


def _check_verdicts(chosen: Estimator, rollouts: Rollouts, result: Array, name: str) -> None:
    """Raise ``InputError`` for several rewards above 0 without ``correct``, where another verdict changes the result.

    ``result`` is that of all rewards above 0 as correct ones; it is compared with that of the highest alone.
    """
    rewards, xp = rollouts.rewards, array_namespace(rollouts.rewards)
    positive = rewards > 0 if rollouts.mask is None else (rewards > 0) & rollouts.mask
    if rollouts.correct is not None or not bool(xp.any(positive)):
        return
    low, high = xp.min(rewards[positive]), xp.max(rewards[positive])
    if bool(low == high):
        return
    other, _ = chosen.update(rollouts._replace(correct=positive & (rewards >= high)), chosen.init())
    if bool(xp.any(other != result)):
        raise InputError(
            f"rewards hold {float(low):g} and {float(high):g}; {name} asks which rollouts are correct; allowed: "
            "rewards 0 and 1, or correct= beside graded ones"
        )


def _from_lists(name: str, values: Any, dtype: type) -> Array:
    """Lists become NumPy arrays; arrays and None stay as they are, but NumPy's masked ones, which lose their mask."""
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{name}: a masked array; allowed: an array, and mask= true where a rollout exists")
    if not isinstance(values, (list, tuple)):
        return values
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError):
        raise InputError(f"{name} given as ragged lists, or not numbers; allowed: equal groups, or a mask") from None


def _as_float_array(name: str, values: Array) -> Array:
    """Integers and booleans become the library's default float."""
    if not hasattr(values, "dtype"):
        raise InputError(f"{name} are of type {type(values).__name__}; allowed: lists or arrays of numbers")
    xp = array_namespace(values)
    if not xp.isdtype(values.dtype, ("bool", "integral", "real floating")):
        raise InputError(
            f"{name} have dtype {values.dtype}; allowed: real numbers, and mask= false where one is missing"
        )
    if xp.isdtype(values.dtype, "real floating"):
        return values
    return xp.astype(values, xp.asarray(0.0).dtype)

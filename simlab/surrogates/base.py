"""Surrogates: objectives J(ratio, A) that are ascended along (ratio dJ/d(ratio)) grad log pi, by a coefficient."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Shaped

from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.rollouts import (
    FIELDS,
    Array,
    Rollouts,
    Scalar,
    check_made,
    masked,
    needed,
    or_one,
    select_fields,
    sequence_mean,
)

Coefficients = Shaped[Array, "P G T"] | Shaped[Array, "P G T C"]
State = Any


@dataclass(frozen=True)
class Schedule:
    """Change of a surrogate from batch to batch.

    Attributes:
        init: ``() -> state``, a tuple of floats: the memory before the first batch.
        follow: ``(rollouts, state) -> state``: the memory after a batch, before the first gradient step on it.
        at: ``state -> surrogate``, for all gradient steps on that batch; always with the same ``candidates``.
        needs: fields of ``Rollouts`` that ``follow`` reads.
    """

    init: Callable[[], State]
    follow: Callable[[Rollouts, State], State]
    at: Callable[[State], "Surrogate"]
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Surrogate:
    """A surrogate: it turns a ratio and an advantage into a coefficient.

    Attributes:
        coefficient: ``(ratio, advantages, rollouts) -> coefficients``. ``ratio`` is (P, G, T), pi over the sampling
            policy at each sampled token; ``advantages`` broadcasts against it. The coefficients are those of grad log
            pi of the sampled token, (P, G, T), or, where ``candidates`` is above 0, (P, G, T, 1 + candidates): the
            sampled token's first, then those of the likeliest candidates in the order of ``Rollouts.topn_logp``.
        needs: fields of ``Rollouts`` that it reads.
        candidates: how many candidate tokens it moves beside the sampled one.
        exchangeable: as of a ``Link``: true if absent rollouts and tokens change no coefficient, and reordering the
            rollouts of a group only reorders theirs. Any other surrogate gets full groups and full rollouts.
        schedule: change from batch to batch; None if there is none. ``coefficient`` is that of the start.
    """

    coefficient: Callable[[Array, Array, Rollouts], Coefficients]
    needs: frozenset[str] = frozenset()
    candidates: int = 0
    exchangeable: bool = False
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        if unknown := self.needs - FIELDS:
            raise InputError(f"a surrogate needs {sorted(unknown)}; allowed: {sorted(FIELDS)}")
        check_whole("candidates", self.candidates, 0)

    @property
    def name(self) -> str:
        """Name of its function, for messages."""
        return f"surrogate {getattr(self.coefficient, '__name__', type(self.coefficient).__name__)}"

    def init(self) -> State:
        """Memory before the first batch: a tuple of floats, () if the surrogate does not change."""
        return () if self.schedule is None else self.schedule.init()

    def follow(self, rollouts: Rollouts, state: State) -> State:
        """Memory after a batch, before its first gradient step; ``InputError`` for absent rollouts that matter."""
        if self.schedule is None:
            return state
        return self.schedule.follow(select_fields(self, rollouts, of_tokens=True), state)

    def at(self, state: State) -> "Surrogate":
        """Surrogate for a batch, from the memory after that batch."""
        return self if self.schedule is None else self.schedule.at(state)

    def __call__(self, ratio: Array, advantages: Array, rollouts: Rollouts) -> Coefficients:
        """Compute coefficients from the fields it may see; ``InputError`` for unfit rollouts or results."""
        coefficients = self.coefficient(ratio, advantages, select_fields(self, rollouts, of_tokens=True))
        allowed = (*ratio.shape, 1 + self.candidates) if self.candidates else tuple(ratio.shape)
        fits = getattr(coefficients, "shape", ()) == allowed
        check_made(f"{self.name} gave coefficients", coefficients, ratio, fits, allowed)
        return coefficients


def add(*surrogates: Surrogate) -> Surrogate:
    """Add the objectives of surrogates: an objective with its penalties and bonuses."""
    if not surrogates:
        raise InputError("add() got no surrogate; allowed: one or more")
    candidates = max(surrogate.candidates for surrogate in surrogates)

    def widen(surrogate: Surrogate, coefficients: Array) -> Array:
        """Append a coefficient of 0 for each candidate that the surrogate does not move."""
        if not candidates:
            return coefficients
        xp = array_namespace(coefficients)
        wide = coefficients if surrogate.candidates else coefficients[..., None]
        missing = xp.zeros_like(wide[..., :1])
        return xp.concat([wide] + [missing] * (candidates - surrogate.candidates), axis=-1)

    def follow(rollouts: Rollouts, state: State) -> State:
        return tuple(each.follow(rollouts, memory) for each, memory in zip(surrogates, state, strict=True))

    def at(state: State) -> Surrogate:
        return add(*(each.at(memory) for each, memory in zip(surrogates, state, strict=True)))

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        first, *others = (widen(each, each.coefficient(ratio, advantages, rollouts)) for each in surrogates)
        for other in others:
            first = first + other
        return first

    needs = frozenset().union(*(surrogate.needs for surrogate in surrogates))
    exchangeable = all(surrogate.exchangeable for surrogate in surrogates)
    schedule = Schedule(lambda: tuple(each.init() for each in surrogates), follow, at)
    changes = any(surrogate.schedule is not None for surrogate in surrogates)
    return Surrogate(coefficient, needs, candidates, exchangeable, schedule if changes else None)


def scheduled(schedule: Schedule) -> Surrogate:
    """Make a surrogate that changes by a schedule."""
    first = schedule.at(schedule.init())
    return replace(first, needs=first.needs | schedule.needs, schedule=schedule)


def log_ratio(ratio: Array) -> Array:
    """Compute log(ratio), finite also where the ratio has underflowed or overflowed."""
    xp = array_namespace(ratio)
    limits = xp.finfo(ratio.dtype)
    ratio = xp.where(ratio > 0, ratio, xp.full_like(ratio, float(limits.smallest_normal)))
    return xp.log(xp.where(xp.isfinite(ratio), ratio, xp.full_like(ratio, float(limits.max))))


def mean_log_ratio(ratio: Array, rollouts: Rollouts) -> Array:
    """Mean over the tokens of each rollout of log(ratio), (P, G, 1)."""
    return sequence_mean(log_ratio(ratio), rollouts)[..., None]


def current_logp(ratio: Array, rollouts: Rollouts) -> Array:
    """log pi of each sampled token under the policy being updated, (P, G, T)."""
    return needed(rollouts, "old_logp") + log_ratio(ratio)


# Aggregation

AGGREGATIONS = ("token_mean", "sequence_mean", "constant")


def aggregation_weights(
    token_mask: Shaped[Array, "P G T"], aggregation: str = "token_mean", normaliser: Scalar = 1.0, dtype: Any = None
) -> Shaped[Array, "P G T"]:
    """The weight of each token's term in the loss.

    ``"token_mean"``: 1 / (all tokens) (DAPO). ``"sequence_mean"``: 1 / (rollouts) 1 / (tokens of the rollout)
    (GRPO ``[f-grpo:eq-14]``). ``"constant"``: 1 / (rollouts * ``normaliser``) (Dr. GRPO). Rollouts without a token
    count for nothing; weights where ``token_mask`` is false are 0. ``dtype`` is by default the library's float.
    """
    check_choice("aggregation", aggregation, AGGREGATIONS)
    check_range("normaliser", normaliser, 0, open_low=True)
    xp = array_namespace(token_mask)
    present = xp.astype(token_mask, xp.asarray(0.0).dtype if dtype is None else dtype)
    length = xp.sum(present, axis=-1, keepdims=True)
    rollouts = or_one(xp.sum(masked(xp.ones_like(length), length > 0)))
    if aggregation == "token_mean":
        return present / or_one(xp.sum(present))
    if aggregation == "sequence_mean":
        return present / or_one(length) / rollouts
    return present / (rollouts * normaliser)

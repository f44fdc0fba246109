"""Define a surrogate: a map from importance ratio and advantage to the coefficient of grad log pi."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Shaped

from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.rollouts import FIELDS, Array, Rollouts, Scalar, needed
from simlab.shown import shown

Coefficients = Shaped[Array, "P G T"] | Shaped[Array, "P G T C"]


State = Any


@dataclass(frozen=True)
class Schedule:
    """How a surrogate changes from batch to batch.

    Attributes:
        init: ``() -> state``, a tuple of floats: what it remembers before the first batch.
        follow: ``(rollouts, state) -> state``: what it remembers after seeing a batch, before the first gradient step
            on it.
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
        exchangeable: as of a ``Link``: whether what is absent changes no coefficient, and the order of the rollouts of
            a group nothing but theirs. A surrogate that is not declared so gets whole groups and whole rollouts only.
        schedule: how it changes from batch to batch; None if it does not. ``coefficient`` is that of the start.
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
        """What a message calls it: the name of its function."""
        return f"surrogate {getattr(self.coefficient, '__name__', type(self.coefficient).__name__)}"

    def init(self) -> State:
        """What it remembers before the first batch: a tuple of floats, () if it does not change."""
        return () if self.schedule is None else self.schedule.init()

    def follow(self, rollouts: Rollouts, state: State) -> State:
        """What it remembers after seeing a batch, before the first gradient step on it.

        Raises:
            InputError: for what is absent from the batch of a surrogate that is not exchangeable.
        """
        if self.schedule is None:
            return state
        return self.schedule.follow(shown(self, rollouts, of_tokens=True), state)

    def at(self, state: State) -> "Surrogate":
        """The surrogate for a batch, given what it remembers after seeing that batch."""
        return self if self.schedule is None else self.schedule.at(state)

    def __call__(self, ratio: Array, advantages: Array, rollouts: Rollouts) -> Coefficients:
        """The coefficients, as engines ask for them: of a batch as far as the surrogate may see it, and checked.

        Raises:
            InputError: for what is absent from the batch of a surrogate that is not exchangeable, and for anything but
                a coefficient of each token, and of each of its candidates.
        """
        found = self.coefficient(ratio, advantages, shown(self, rollouts, of_tokens=True))
        self._check(found, ratio)
        return found

    def _check(self, found: Array, ratio: Array) -> None:
        if not hasattr(found, "shape") or not hasattr(found, "dtype"):
            raise InputError(f"{self.name} gave a {type(found).__name__}; allowed: an array like the ratio")
        allowed = (*ratio.shape, 1 + self.candidates) if self.candidates else tuple(ratio.shape)
        xp = array_namespace(ratio)
        exact = xp.isdtype(found.dtype, "real floating")
        if tuple(found.shape) != allowed or not exact or xp.finfo(found.dtype).bits < xp.finfo(ratio.dtype).bits:
            raise InputError(
                f"{self.name} gave coefficients of shape {tuple(found.shape)} and dtype {found.dtype}; allowed: "
                f"{allowed}, in {ratio.dtype} or more precise"
            )


def add(*surrogates: Surrogate) -> Surrogate:
    """The surrogate whose objective is the sum of theirs: an objective with its penalties and bonuses.

    Raises:
        InputError: for nothing to add.
    """
    if not surrogates:
        raise InputError("add() got no surrogate; allowed: one or more")
    candidates = max(surrogate.candidates for surrogate in surrogates)

    def widened(surrogate: Surrogate, coefficients: Array) -> Array:
        """A coefficient for every candidate, 0 for those that the surrogate does not move."""
        if not candidates:
            return coefficients
        xp = array_namespace(coefficients)
        wide = coefficients if surrogate.candidates else coefficients[..., None]
        missing = xp.zeros_like(wide[..., :1])
        return xp.concat([wide] + [missing] * (candidates - surrogate.candidates), axis=-1)

    def follow(rollouts: Rollouts, state: State) -> State:
        return tuple(each.follow(rollouts, own) for each, own in zip(surrogates, state, strict=True))

    def at(state: State) -> Surrogate:
        return add(*(each.at(own) for each, own in zip(surrogates, state, strict=True)))

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        first, *others = (widened(each, each.coefficient(ratio, advantages, rollouts)) for each in surrogates)
        for other in others:
            first = first + other
        return first

    needs = frozenset().union(*(surrogate.needs for surrogate in surrogates))
    exchangeable = all(surrogate.exchangeable for surrogate in surrogates)
    schedule = Schedule(lambda: tuple(each.init() for each in surrogates), follow, at)
    changes = any(surrogate.schedule is not None for surrogate in surrogates)
    return Surrogate(coefficient, needs, candidates, exchangeable, schedule if changes else None)


def scheduled(schedule: Schedule) -> Surrogate:
    """The surrogate that changes by a schedule."""
    first = schedule.at(schedule.init())
    return replace(first, needs=first.needs | schedule.needs, schedule=schedule)


def log_ratio(ratio: Array) -> Array:
    """log(ratio), finite also where the ratio was lost to underflow or overflow."""
    xp = array_namespace(ratio)
    limits = xp.finfo(ratio.dtype)
    ratio = xp.where(ratio > 0, ratio, xp.full_like(ratio, float(limits.smallest_normal)))
    return xp.log(xp.where(xp.isfinite(ratio), ratio, xp.full_like(ratio, float(limits.max))))


def current_logp(ratio: Array, rollouts: Rollouts) -> Array:
    """log pi of each sampled token under the policy being updated, (P, G, T)."""
    return needed(rollouts, "old_logp") + log_ratio(ratio)


AGGREGATIONS = ("token_mean", "sequence_mean", "constant")


def aggregation_weights(
    token_mask: Shaped[Array, "P G T"], aggregation: str = "token_mean", normaliser: Scalar = 1.0, dtype: Any = None
) -> Shaped[Array, "P G T"]:
    """The weight of each token's term in the loss.

    ``"token_mean"``: 1 / (all tokens) (DAPO). ``"sequence_mean"``: 1 / (rollouts) 1 / (tokens of the rollout)
    (GRPO ``[f-grpo:eq-14]``). ``"constant"``: 1 / (rollouts * ``normaliser``) (Dr. GRPO). Rollouts without a token
    count for nothing; weights where ``token_mask`` is false are 0. ``dtype`` is by default the
    library's float.

    Raises:
        InputError: for an unknown aggregation or a ``normaliser`` that is not above 0.
    """
    check_choice("aggregation", aggregation, AGGREGATIONS)
    check_range("normaliser", normaliser, 0, open_low=True)
    xp = array_namespace(token_mask)
    kept = xp.astype(token_mask, xp.asarray(0.0).dtype if dtype is None else dtype)
    length = xp.sum(kept, axis=-1, keepdims=True)
    one = xp.ones_like(length)
    rollouts = xp.sum(xp.where(length > 0, one, 0 * one))
    rollouts = xp.where(rollouts > 0, rollouts, xp.ones_like(rollouts))
    if aggregation == "token_mean":
        tokens = xp.sum(kept)
        return kept / xp.where(tokens > 0, tokens, xp.ones_like(tokens))
    if aggregation == "sequence_mean":
        return kept / xp.where(length > 0, length, one) / rollouts
    return kept / (rollouts * normaliser)

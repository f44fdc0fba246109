"""Surrogates: from importance ratio and advantage to the coefficient of grad log pi, and loss aggregation.

A surrogate objective J(ratio, A) is ascended along coefficient * grad log pi, with
coefficient = ratio * dJ/d(ratio), everything under a stop-gradient held fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Shaped

from simlab.errors import InputError, build, check_choice, check_range
from simlab.rollouts import FIELDS, Array, Rollouts, Scalar

Coefficients = Shaped[Array, "P G T"] | Shaped[Array, "P G T C"]


@dataclass(frozen=True)
class Surrogate:
    """How a ratio and an advantage become a coefficient.

    Attributes:
        coefficient: ``(ratio, advantages, rollouts) -> coefficients``. ``ratio`` is (P, G, T), pi over the sampling
            policy at each token, or (P, G, T, C) over candidates; ``advantages`` broadcasts against it.
        needs: fields of ``Rollouts`` that it reads.
    """

    coefficient: Callable[[Array, Array, Rollouts], Coefficients]
    needs: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := self.needs - FIELDS:
            raise InputError(f"a surrogate needs {sorted(unknown)}; allowed: {sorted(FIELDS)}")


def reinforce() -> Surrogate:
    """J = A log pi: the coefficient is A, whatever the ratio ``[fade:eq-1]``."""
    return Surrogate(lambda ratio, advantages, rollouts: array_namespace(ratio).ones_like(ratio) * advantages)


def ppo_clip(eps_low: Scalar = 0.2, eps_high: Scalar = 0.2) -> Surrogate:
    """J = min(ratio A, clip(ratio, 1 - eps_low, 1 + eps_high) A) ``[f-grpo:eq-14]``.

    The coefficient is ratio A, and 0 where clipping has taken over: A > 0 above 1 + eps_high, A < 0 below
    1 - eps_low. ``eps_high`` above ``eps_low`` is DAPO's clip-higher.

    Raises:
        InputError: for a negative bound, or ``eps_low`` above 1.
    """
    check_range("eps_low", eps_low, 0, 1)
    check_range("eps_high", eps_high, 0)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        clipped = ((advantages > 0) & (ratio > 1 + eps_high)) | ((advantages < 0) & (ratio < 1 - eps_low))
        return xp.where(clipped, xp.zeros_like(ratio), ratio * advantages)

    return Surrogate(coefficient)


def cispo(eps_low: Scalar = 1.0, eps_high: Scalar = 5.0) -> Surrogate:
    """J = sg(clip(ratio, 1 - eps_low, 1 + eps_high)) A log pi ``[f-grpo:eq-16]``.

    The coefficient is the clipped ratio times A; the defaults clip to [0, 6].

    Raises:
        InputError: for a negative bound, or ``eps_low`` above 1.
    """
    check_range("eps_low", eps_low, 0, 1)
    check_range("eps_high", eps_high, 0)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        one = xp.ones_like(ratio)
        ratio = xp.where(ratio < 1 - eps_low, one * (1 - eps_low), ratio)
        return xp.where(ratio > 1 + eps_high, one * (1 + eps_high), ratio) * advantages

    return Surrogate(coefficient)


SURROGATES: dict[str, Callable[..., Surrogate]] = {
    "reinforce": reinforce,
    "ppo_clip": ppo_clip,
    "cispo": cispo,
}

AGGREGATIONS = ("token_mean", "sequence_mean", "constant")


def aggregation_weights(
    token_mask: Shaped[Array, "P G T"], aggregation: str = "token_mean", normaliser: float = 1.0
) -> Shaped[Array, "P G T"]:
    """The weight of each token's term in the loss.

    ``"token_mean"``: 1 / (all tokens) (DAPO). ``"sequence_mean"``: 1 / (rollouts) 1 / (tokens of the rollout)
    (GRPO ``[f-grpo:eq-14]``). ``"constant"``: 1 / (rollouts * ``normaliser``) (Dr. GRPO). Rollouts without a token
    count for nothing; weights where ``token_mask`` is false are 0.

    Raises:
        InputError: for an unknown aggregation or a ``normaliser`` that is not above 0.
    """
    check_choice("aggregation", aggregation, AGGREGATIONS)
    check_range("normaliser", normaliser, 0, open_low=True)
    xp = array_namespace(token_mask)
    kept = xp.astype(token_mask, xp.asarray(0.0).dtype)
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


def surrogate(name: str, **parameters: Any) -> Surrogate:
    """Build a surrogate by name.

    Raises:
        InputError: for an unknown name or parameter, or a parameter outside its range.
    """
    built: Surrogate = build("surrogate", name, SURROGATES, parameters)
    return built

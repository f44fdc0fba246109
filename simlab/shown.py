"""Choose what a link or a surrogate sees of a batch: the fields that it needs, and padding only if it may have it."""

from typing import Any, Protocol, runtime_checkable

from array_api_compat import array_namespace

from simlab.errors import InputError
from simlab.rollouts import FIELDS, TOKEN_FIELDS, Array, Rollouts


@runtime_checkable
class Stage(Protocol):
    """A link or a surrogate, as far as it matters here."""

    @property
    def name(self) -> str:
        """Return its name in messages."""

    @property
    def needs(self) -> frozenset[str]:
        """Return the fields of ``Rollouts`` that it reads."""

    @property
    def exchangeable(self) -> bool:
        """Return True if its result depends neither on what is absent nor on the order of a group's rollouts."""


def shown(stage: Stage, rollouts: Rollouts, *, of_tokens: bool) -> Rollouts:
    """Return the batch with the fields that the stage needs, and with nothing absent unless it is exchangeable.

    Rewards and masks are always there, but a stage that is not exchangeable gets no ``mask``: all rollouts exist. If it
    deals with tokens (``of_tokens``, or by its needs), all tokens exist too.

    Raises:
        InputError: for rollouts or tokens that are absent, or may be since JAX traces their mask, before a stage that
            is not exchangeable.
    """
    needed = rollouts._replace(**{name: None for name in FIELDS - {"rewards"} - stage.needs})
    if stage.exchangeable:
        return needed
    if not _is_full(rollouts.mask):
        raise InputError(_refusal("mask", "rollouts", stage, "groups of equal size"))
    if (of_tokens or stage.needs & set(TOKEN_FIELDS)) and not _is_full(rollouts.token_mask):
        raise InputError(_refusal("token_mask", "tokens", stage, "rollouts of equal length"))
    return needed._replace(mask=None)


def _is_full(mask: Array | None) -> bool:
    """Return True if nothing is absent, for certain."""
    if mask is None:
        return True
    try:
        return bool(array_namespace(mask).all(mask))
    except TypeError:  # JAX traces it
        return False


def _refusal(mask: str, absent: str, stage: Any, equal: str) -> str:
    return (
        f"{mask} leaves out {absent}, and {stage.name} is not declared to heed that; "
        f"allowed: {equal}, or exchangeable=True where it is made, if it neither reads what is absent nor the order"
    )

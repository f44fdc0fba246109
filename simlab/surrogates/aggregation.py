"""Loss aggregation: how much the term of each token counts."""

from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Shaped

from simlab.errors import check_choice, check_range
from simlab.rollouts import Array, Scalar

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

"""Describe the tokens of a batch under the policy that sampled them."""

import numpy as np
from jaxtyping import Bool, Float, Num

from simlab.errors import InputError, check_choice
from simlab.estimators.tokens import SCOPES, covariance_terms
from simlab.llm.instruments.groups import Values
from simlab.rollouts import Rollouts, sequence_mean
from simlab.theory.covariance import covariance_thresholds


def token_metrics(
    logp: Float[np.ndarray, "P G T"],
    entropy: Float[np.ndarray, "P G T"],
    advantages: Num[np.ndarray, "..."],
    *,
    mask: Bool[np.ndarray, "P G T"],
    topn_logp: Float[np.ndarray, "P G T N"] | None = None,
    scope: str = "group",
) -> Values:
    """The metrics of the tokens of a batch.

    - ``entropy``, ``logp``: means over all tokens, in nats.
    - ``covariance``: mean over all tokens of c = (log pi - its mean)(A - its mean) ``[cw-grpo:covariance]``, the means
      over the tokens of the group, or of the batch. Under the natural policy gradient the entropy of a state changes
      by minus the learning rate times this covariance in the state ``[cw-grpo:entropy-covariance]``; what that misses
      is measured by ``simlab.llm.instruments.entropy_change``.
    - ``positive_covariance``, ``negative_covariance``: which c the first .01, 1, 20, 40 and 100 % of the tokens with a
      positive, or negative, c reach or pass, the rows of Table 1 ``[cw-grpo:table-1-dominance]``.
    - ``sample_logp``, ``rank_logp``: Lambda(sample), the mean over rollouts of the mean over tokens of log pi, and
      Lambda(n), that of the candidate of rank n, for n = 1 to N ``[casp:eq-2-sample]``.

    Args:
        logp: log-probability of each sampled token.
        entropy: the entropy of the distribution that it was drawn from.
        advantages: (P, G), or (P, G, T) for methods of tokens.
        mask: true where there is a token; what the other arrays hold elsewhere is not read.
        topn_logp: those of the N likeliest tokens, the likeliest first; without it there is no ``rank_logp``.
        scope: group or batch.

    Raises:
        InputError: for arrays that do not fit together, no token at all, or an unknown scope.
    """
    check_choice("scope", scope, SCOPES)
    check_advantages(advantages, logp.shape)
    if not mask.any():
        raise InputError("mask holds no token; allowed: one or more")
    exact = np.where(mask, logp, 0).astype(float)
    terms = covariance_terms(advantages.astype(float), exact, mask.astype(float), scope)[mask]
    positive, negative = covariance_thresholds(terms)
    values: Values = {
        "entropy": float(entropy[mask].mean(dtype=float)),
        "logp": float(exact[mask].mean()),
        "covariance": float(terms.mean()),
        "positive_covariance": positive.tolist(),
        "negative_covariance": negative.tolist(),
        "sample_logp": mean_over_rollouts(exact, mask),
    }
    if topn_logp is not None:
        by_rank = np.moveaxis(topn_logp.astype(float), -1, 0)
        values["rank_logp"] = [mean_over_rollouts(of_rank, mask) for of_rank in by_rank]
    return values


def check_advantages(advantages: Num[np.ndarray, "..."], shape: tuple[int, ...]) -> None:
    """Raise ``InputError`` unless there is an advantage for each rollout, or each token, of (P, G, T)."""
    if advantages.shape not in (shape, shape[:2]):
        raise InputError(f"advantages have shape {advantages.shape}; allowed: {shape[:2]} or {shape}")


def mean_over_rollouts(values: Float[np.ndarray, "P G T"], mask: Bool[np.ndarray, "P G T"]) -> float:
    """The mean over rollouts of the mean over their tokens; a rollout without tokens is left out."""
    means = sequence_mean(values, Rollouts(values[..., 0], token_mask=mask))
    return float(means[mask.any(axis=-1)].mean())

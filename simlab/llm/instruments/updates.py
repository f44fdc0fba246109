"""Describe the updates by one batch: their gradients, what the surrogate clips, how far the policy has gone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Num

from simlab.estimators.tokens import of_tokens

Values = dict[str, float]


def update_values(
    ratio: Float[np.ndarray, "P G T"],
    coefficients: Num[np.ndarray, "..."],
    advantages: Num[np.ndarray, "..."],
    mask: Bool[np.ndarray, "P G T"],
) -> Values:
    """What is seen of one update before the policy moves.

    - ``clipped_share``: share of the tokens whose coefficient the surrogate sets to 0 although their advantage is not.
    - ``ratio_drift``: mean |log ratio| of the tokens.
    - ``policy_kl``: ``kl_of`` that log ratio, of KL(old || new).

    Args:
        ratio: for each sampled token, the probability now over the one that it is measured against.
        coefficients: (P, G, T), or (P, G, T, 1 + C) with candidates.
        advantages: (P, G) or (P, G, T).
        mask: true where there is a token; without one at all every value is 0.
    """
    if not mask.any():
        return dict.fromkeys(("clipped_share", "ratio_drift", "policy_kl"), 0.0)
    silent = ~np.any(coefficients.reshape(*mask.shape, -1), axis=-1)
    log_ratio = np.log(ratio[mask].astype(float))
    return {
        "clipped_share": float((silent & (of_tokens(advantages) != 0))[mask].mean()),
        "ratio_drift": float(np.abs(log_ratio).mean()),
        "policy_kl": kl_of(log_ratio),
    }


def kl_of(log_ratio: Float[np.ndarray, "..."]) -> float:
    """KL(p || q) in nats from log q / p of samples of p: the mean of q/p - 1 - log q/p, k3 ``[cw-grpo:kl]``."""
    return float((np.expm1(log_ratio) - log_ratio).mean())


def batch_values(updates: Sequence[Values], learning_rate: float) -> Values:
    """What is recorded of the updates by one batch.

    ``grad_norm``, before it is cut to ``max_norm``, and ``clipped_share`` are means over the updates, ``ratio_drift``
    and ``policy_kl`` the last one's.

    >>> first = {"grad_norm": 1.0, "clipped_share": 0.0, "ratio_drift": 0.0, "policy_kl": 0.0}
    >>> last = {"grad_norm": 3.0, "clipped_share": 0.5, "ratio_drift": 0.2, "policy_kl": 0.1}
    >>> batch_values([first, last], 1e-3)["grad_norm"]
    2.0
    """
    means = {name: float(np.mean([update[name] for update in updates])) for name in ("grad_norm", "clipped_share")}
    last = {name: updates[-1][name] for name in ("ratio_drift", "policy_kl")}
    return means | last | {"learning_rate": learning_rate}

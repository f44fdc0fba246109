"""The overlap beyond which the first expected step harms a hard prompt of ``interference``, by first-order theory."""

from typing import Any

import numpy as np
from scipy.special import softmax

from simlab.estimators import Estimator
from simlab.problems.interference import interference
from simlab.theory.interference import expected_speed, log_odds_drift, transfer

TRIED = 0.5  # at any overlap the theory gives the same: what other prompts do is proportional to it


def overlap_edge(
    sign: int, estimator: str | Estimator = "grpo", *, group_size: int = 8, temperature: float = 1.0, **problem: Any
) -> float:
    """The least size of an overlap of one sign at which a hard prompt falls ``[simlab:interference-threshold]``.

    The learning rate does not matter: both parts of the drift are proportional to it.

    Args:
        sign: 1 or -1, of the overlap.
        estimator: under plain steps on all prompts.
        group_size: G, at least 1.
        temperature: the temperature of the sampled policy.
        problem: arguments of ``interference``, but ``overlap``.

    Returns:
        The edge, which may lie beyond 1, or infinity where overlap of this sign harms no hard prompt.

    Raises:
        InputError: for arguments that ``interference`` refuses, and an estimator that ``masses`` refuses.

    >>> round(overlap_edge(1), 4), overlap_edge(-1)
    (0.0143, inf)
    """
    tried = interference(overlap=sign * TRIED, **problem)
    bank = tried.tabular
    counts, correct = np.asarray(bank.counts), np.asarray(bank.correct)
    policies = softmax(np.asarray(bank.logits) / temperature + np.log(counts), axis=1) / counts
    rates = np.where(correct, policies, 0) @ counts
    speeds = expected_speed(estimator, group_size, rates)
    effects = transfer(
        policies, correct, tried.kernel, speeds, learning_rate=1.0, temperature=temperature, counts=counts
    )
    turned = log_odds_drift(effects, rates).threshold[tried.hard]
    return float(TRIED * np.min(turned[np.isfinite(turned)], initial=np.inf))

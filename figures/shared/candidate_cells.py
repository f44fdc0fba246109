"""Examples of tokens with all their candidates, and what a method does to each candidate of each token."""

import numpy as np

from simlab.arms import parse
from simlab.rollouts import Rollouts

Cells = np.ndarray  # (G, T, C) coefficients of grad log pi by rollout, token and rank of the candidate


def example(policies: np.ndarray, ranks: np.ndarray, rewards: np.ndarray) -> Rollouts:
    """One group from the policies (G, T, C), the likeliest candidate first, and the rank sampled at each (G, T)."""
    logp = np.log(policies)
    sampled = np.take_along_axis(logp, ranks[..., None], axis=-1)[..., 0]
    entropy = -(policies * logp).sum(axis=-1)
    return Rollouts(rewards[None], old_logp=sampled[None], entropy=entropy[None], topn_logp=logp[None])


def coefficients(method: str, rollouts: Rollouts, ranks: np.ndarray) -> Cells:
    """Return the factor of each candidate's grad log pi under a method, written as an arm, on-policy, times G T."""
    assert rollouts.topn_logp is not None
    _, size, tokens, candidates = rollouts.topn_logp.shape
    built = parse(method).build()
    values, _ = built.coefficients(np.ones((1, size, tokens)), rollouts, built.estimator.init())
    values = np.asarray(values)[0].reshape(size, tokens, -1)
    cells = np.zeros((size, tokens, candidates))
    cells[..., : values.shape[-1] - 1] = values[..., 1:]
    np.put_along_axis(cells, ranks[..., None], np.take_along_axis(cells, ranks[..., None], -1) + values[..., :1], -1)
    scaled: Cells = cells * size * tokens
    return scaled


def logit_change(policy: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """(C,) the gradient of sum_c coefficient_c log pi_c in the logits of a softmax, all candidates listed."""
    change: np.ndarray = cell - cell.sum() * policy
    return change

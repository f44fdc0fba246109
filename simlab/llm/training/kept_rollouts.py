"""Keep some of the rollouts of each step: what was asked, answered, rewarded and weighed, token by token."""

from typing import Any

import numpy as np

from simlab.estimators.tokens import of_tokens
from simlab.llm.training.groups import Groups, Reader

DIGITS = 5  # of log-probabilities and advantages


def kept_rollouts(groups: Groups, advantages: np.ndarray, reader: Reader, most: int) -> list[dict[str, Any]]:
    """The first groups of a batch, as plain data, that have ``most`` rollouts together at most.

    A group has its ``prompt`` and its ``rollouts``; a rollout has its ``text``, the texts of its tokens (``tokens``),
    its ``reward``, the canonical form of a correct answer (``solution``, null for a wrong one), and of each token the
    log-probability that it was drawn with (``logp``) and its ``advantages``.
    """
    mask, of_each = groups.sampled.mask, np.broadcast_to(of_tokens(np.asarray(advantages)), groups.sampled.mask.shape)
    size = groups.rewards.shape[1]

    def rollout(place: int, member: int) -> dict[str, Any]:
        own = mask[place, member]
        tokens = groups.sampled.tokens[place, member][own]
        return {
            "text": reader.text(tokens),
            "tokens": [reader.vocabulary.decode([int(token)]) for token in tokens],
            "reward": float(groups.rewards[place, member]),
            "solution": groups.solutions[place][member],
            "logp": groups.sampled.logp[place, member][own].astype(float).round(DIGITS).tolist(),
            "advantages": of_each[place, member][own].astype(float).round(DIGITS).tolist(),
        }

    return [
        {"prompt": problem.prompt, "rollouts": [rollout(place, member) for member in range(size)]}
        for place, problem in enumerate(groups.problems[: most // size])
    ]

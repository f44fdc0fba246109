"""What is recorded of the gradient steps of a batch once more, token by token in float64.

It shares nothing with the library.
"""

import math
from typing import Any

import numpy as np
from naive_steps import Ascent, Naive, Taken
from naive_tokens import tokens_logp

BOUNDS = (0.001, 0.01, 0.1)


def ascent_record(naive: Naive, taken: Taken) -> dict[str, Any]:
    """Sums over the gradient steps of a batch, of means over its prompts; no split of what is on-policy."""
    row: dict[str, Any] = {"ratio_drift": drift(taken.ascents[-1])}
    names = [f"{what}_{outcome}" for what in ("clipped", "drawn") for outcome in ("correct", "wrong")]
    row |= {name: np.zeros(len(BOUNDS) + 1) for name in names}
    for ascent in taken.ascents:
        for m, moves in ascent.moves.items():
            tokens = len(moves) * naive.depth * len(ascent.moves) * len(taken.ascents)
            rollouts = zip(taken.groups[m], moves, taken.advantages[m], ascent.left_out[m], strict=True)
            for word, of_rollout, advantages, left_out in rollouts:
                outcome = "correct" if naive.words.index(word) in naive.correct[m] else "wrong"
                chances = [math.exp(logp) for logp in tokens_logp(taken.samplers[m], word)]
                for chance, of_token, advantage, out in zip(chances, of_rollout, advantages, left_out, strict=True):
                    decade = sum(chance >= bound for bound in BOUNDS)
                    row[f"drawn_{outcome}"][decade] += 1 / tokens
                    if advantage and not out and not any(coefficient for _, coefficient in of_token):
                        row[f"clipped_{outcome}"][decade] += 1 / tokens
    row["clipped_share"] = sum(row["clipped_correct"]) + sum(row["clipped_wrong"])
    is_on_policy = len(taken.ascents) == 1 and naive.setting.lag == 0 and naive.setting.sampler == "exact"
    return row | (dict.fromkeys(names, np.full(len(BOUNDS) + 1, np.nan)) if is_on_policy else {})


def drift(ascent: Ascent) -> float:
    """The mean |log ratio| of the tokens of a gradient step."""
    return float(np.mean([abs(value) for rows in ascent.log_ratio.values() for row in rows for value in row]))

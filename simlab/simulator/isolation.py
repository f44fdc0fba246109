"""Learn from unlikely tokens first, and from the others in gradient steps of their own: Lopti.

Lopti (low-probability token isolation, arXiv 2505.12929; ``verl/trainer/ppo/ray_trainer.py`` of zhyang2226/AR-Lopti,
``seperate_prob``, by default .5) goes through a batch twice. All gradient steps of the first turn take the tokens whose
probability on record is below the threshold, those of the second the others, at the policy that the first has left.
The advantages, the ratio's denominator and the divisor of the loss are those of the whole batch in both.

Differences: a run's own penalties (``kl``, ``entropy_bonus``) and ``supervised`` are no token's, and act in every
gradient step, as they do in epochs; penalties that are part of the arm go with their tokens, as in the paper's code,
whose other threshold, a quantile of the batch's probabilities, is left out.
"""

from typing import Any

from array_api_compat import array_namespace

from simlab.rollouts import Array, Scalar

TIE = 1e-6  # nats, the rounding of a log-probability that was computed twice


def takes_part(logp: Array, isolation: Scalar, is_first_turn: Any) -> Array:
    """Which tokens of a batch a gradient step of one of the two turns learns from, by their log-probability on record.

    What differs from the threshold by rounding alone counts as likely.
    """
    return (array_namespace(logp).exp(logp + TIE) < isolation) == is_first_turn

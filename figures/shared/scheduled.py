"""FADE's alpha and delta at a solve rate and an entropy, read off the advantages that the estimator gives."""

import numpy as np

import simlab

_OTHERS = 100  # groups that set the batch's solve rate, beside the one that is read


def scheduled(solve_rate: float, entropy: float, target_entropy: float) -> tuple[float, float]:
    """alpha and delta of FADE's estimator ``[fade:eq-11]`` once its averages are at a solve rate and an entropy.

    A group of one success and one failure gets (1/2)^alpha and -(1/2)^alpha / delta; groups of equal rewards bring the
    batch to the solve rate, so that it has to lie from .005 to .995.
    """
    rest = ((_OTHERS + 1) * solve_rate - 0.5) / _OTHERS
    rewards = np.array([[1.0, 0.0]] + [[rest, rest]] * _OTHERS)
    logp = np.full((*rewards.shape, 1), -entropy)
    advantages = simlab.advantages("fade", rewards, old_logp=logp, beta=0.0, target_entropy=target_entropy)
    success, failure = np.asarray(advantages).reshape(rewards.shape)[0]
    return float(-np.log2(success)), float(-success / failure)

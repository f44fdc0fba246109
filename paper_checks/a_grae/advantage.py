"""The advantages of this paper from their definition, and the logit change they produce, for all its checks."""

from fractions import Fraction

import numpy as np
from mpmath import mp, mpf

import simlab
from paper_checks.evidence import Estimate, grid, number
from paper_checks.simulated import drawn

BETA = 10  # of Control Experiment I
GAMMA = Fraction(1, 2)  # of Control Experiment II
SIZES = [2, 3, 5, 8]  # 8 is the paper's own group size
FACTORS = {"grpo": Fraction(1), "positive_dominant": Fraction(BETA), "negative_dominant": Fraction(1, BETA)}
MIXED = grid(lambda G, s: 0 < s < G, G=SIZES, s=range(9))
GROUPS = grid(lambda G, s: s <= G, G=SIZES, s=range(9))


def grae(rewards, ddof=0):
    """Eq. 3: rewards less their mean over their standard deviation; 0 in a group of equal rewards, as Section 4.1."""
    size = len(rewards)
    mean = Fraction(sum(rewards), size)
    variance = sum((reward - mean) ** 2 for reward in rewards) / Fraction(size - ddof)
    if variance == 0:
        return (mpf(0),) * size
    return tuple(number(reward - mean) / mp.sqrt(number(variance)) for reward in rewards)


def binary_group(G, s):
    """Rewards of a group of G of which s are correct."""
    return (Fraction(1),) * s + (Fraction(0),) * (G - s)


def tilted(advantages, factor):
    """Control Experiment I: positive advantages times a factor."""
    return tuple(number(factor) * value if value > 0 else value for value in advantages)


def action_weights(counts, correct, factor=1):
    """Per action, the sum of the advantages of its rollouts: how often it was drawn times its advantage."""
    G, s = sum(counts), sum(count for count, right in zip(counts, correct, strict=True) if right)
    values = tilted(grae(binary_group(G, s)), factor)
    return [count * (values[0] if right else values[-1]) for count, right in zip(counts, correct, strict=True)]


def probability_change(policy, direction):
    """First-order change of the probabilities: p_b (dz_b - sum_j p_j dz_j)."""
    p = [number(value) for value in policy]
    drift = mp.fsum(value * change for value, change in zip(p, direction, strict=True))
    return [value * (change - drift) for value, change in zip(p, direction, strict=True)]


def drawn_with(G, s, estimator, measure, **parameters) -> Estimate:
    """A function of the advantages that simlab gives to the drawn groups with s correct rollouts, and its spread."""
    rewards = (drawn((0.5, 0.5), G) == 0).astype(float)
    chosen = rewards[rewards.sum(axis=1) == s]
    values = measure(np.asarray(simlab.advantages(estimator, chosen, eps=0.0, **parameters)))
    return Estimate(float(np.mean(values)), float(np.std(values)))

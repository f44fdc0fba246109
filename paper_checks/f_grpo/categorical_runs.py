"""Appendix J in small: its categorical simulation at a hundredth or a tenth of the 128,000 actions.

It shares no code with the laboratory's own simulator, which draws the figures.
"""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from mpmath import exp, mpf

STEPS = 1000
SMALL, TENTH, FULL = 1280, 12_800, 128_000
DECAY = 0.01
LOGITS = (5, 3, 0)  # of the anchor, of the other correct actions, of the incorrect ones


class Course(NamedTuple):
    """The seeds' course in one setting.

    Attributes:
        correct: correct mass after each step.
        retained: retained mass, Eq. 26, after each step.
        start: correct mass before the first step.
    """

    correct: Float[np.ndarray, "steps seeds"]
    retained: Float[np.ndarray, "steps seeds"]
    start: float


def sizes(actions: int) -> tuple[int, int, int]:
    """The numbers of anchors, other correct actions and incorrect actions, in the paper's proportion."""
    correct = actions * 5 // 64
    return 1, correct - 1, actions - correct


def masses(actions: int) -> tuple[mpf, mpf]:
    """The correct mass at the start, and that of one correct action other than the anchor."""
    weights = [count * exp(mpf(logit)) for count, logit in zip(sizes(actions), LOGITS, strict=True)]
    return (weights[0] + weights[1]) / sum(weights), weights[1] / sizes(actions)[1] / sum(weights)


@functools.cache
def simulated(
    group_size: int,
    gamma: float = 0.0,
    *,
    actions: int = SMALL,
    ratio: bool = True,
    optimiser: str = "Adam",
    rate: float = 0.01,
    seeds: int = 3,
) -> Course:
    """Centred rewards 1 and -1 times the focal weight, ascended for 1000 steps.

    Args:
        group_size: G.
        gamma: the focal exponent.
        actions: their number.
        ratio: whether the objective is (1/G) sum A_i p_i / stopgrad(p_i), and not (1/G) sum A_i p_i as printed.
        optimiser: "gradient ascent", "Adam", or "AdamW" with the usual weight decay of 0.01.
        rate: the learning rate.
        seeds: their number.
    """
    generator = np.random.default_rng(group_size)
    logits = np.tile(np.repeat(np.array(LOGITS, float), sizes(actions)), (seeds, 1))
    correct = logits[0] > 0
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    policy = before = _softmax(logits)
    whole = before[:, correct].sum(axis=1)
    course = np.empty((2, STEPS, seeds))
    for step in range(1, STEPS + 1):
        counts = generator.multinomial(group_size, policy)
        solved = counts[:, correct].sum(axis=1, keepdims=True) / group_size
        advantages = np.where(correct, 2 * (1 - solved), -2 * solved) * (1 - solved) ** gamma
        gradient = counts * advantages / group_size
        if not ratio:
            gradient = gradient * policy
            gradient = gradient - policy * gradient.sum(axis=1, keepdims=True)
        if optimiser != "gradient ascent":
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            gradient = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        if optimiser == "AdamW":
            logits *= 1 - rate * DECAY
        logits += rate * gradient
        policy = _softmax(logits)
        share = np.minimum(policy, before)[:, correct].sum(axis=1) / whole
        course[:, step - 1] = policy[:, correct].sum(axis=1), share
    return Course(course[0], course[1], float(whole[0]))


def _softmax(logits: Float[np.ndarray, "seeds N"]) -> Float[np.ndarray, "seeds N"]:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))

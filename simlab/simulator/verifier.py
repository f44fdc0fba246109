"""Judge rollouts by a verifier that errs: what it accepts, and how rewards are corrected for its error rates.

With rates .1 and .2 the verifier accepts a correct rollout with probability .8 and a wrong one with .1. The backward
correction makes of "accepted" (1 - .1) / .7 = 1.286, and of "rejected" (0 - .1) / .7 = -.143: on average a correct
rollout gets .8 x 1.286 - .2 x .143 = 1, and a wrong one 0.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from simlab.errors import InputError, check_choice, check_range
from simlab.simulator.sampling import Words, threefry

VERIFIER_STREAM = 2  # folded into a key, that of a step or of the run, which itself draws groups and prompts
ERRORS_OF = ("rollout", "answer", "prompt")
CORRECTIONS = ("none", "backward", "forward")


def check_errors(false_positive: float, false_negative: float, errors_of: str, correction: str) -> None:
    """Raise ``InputError`` for rates, kinds of errors or corrections that no verifier has."""
    check_choice("errors_of", errors_of, ERRORS_OF)
    check_choice("verifier_correction", correction, CORRECTIONS)
    check_range("false_positive", false_positive, 0, 1)
    check_range("false_negative", false_negative, 0, 1)
    if correction == "backward" and false_positive + false_negative >= 1:
        rates = f"false_positive = {false_positive} and false_negative = {false_negative}"
        raise InputError(f"{rates} with the backward correction; allowed: rates whose sum is below 1")


def check_accepted(reward: float, correction: str, false_positive: float, false_negative: float) -> None:
    """Raise ``InputError`` if a correction leaves accepted rollouts a reward that estimators count as incorrect."""
    if correction != "none" and reward <= 0:
        rates = f"false_positive = {false_positive} and false_negative = {false_negative}"
        raise InputError(
            f"the {correction} correction with {rates} gives accepted rollouts the reward {reward:g}; "
            "allowed: above 0, for that is what estimators count as correct"
        )


def verdicts(
    correct: Bool[Array, "P G"], chances: Float[Array, "P G"], false_positive: Any, false_negative: Any
) -> Bool[Array, "P G"]:
    """Return True for what is accepted, by a uniform number in [0, 1) for each rollout."""
    return jnp.where(correct, chances >= false_negative, chances < false_positive)


def shared_chances(run_key: PRNGKeyArray, prompts: Words, judged: Words, dtype: Any) -> Float[Array, "..."]:
    """Return a uniform number in [0, 1) for each prompt and judged answer, the same one for the same pair."""
    words, _ = threefry(run_key, prompts, judged)
    return (words >> 8).astype(dtype) / 2**24


def correct_rewards(accepted: Any, correction: str, false_positive: Any, false_negative: Any) -> Any:
    """Return the share of the way from the reward of a wrong rollout to that of a correct one that a rollout gets.

    It is 1 for accepted rollouts and 0 for others unless there is a correction (arXiv 2510.00915), for rates f of false
    positives and n of false negatives: backward, (accepted - f) / (1 - f - n); forward, n if accepted and n - 1 if not.
    """
    if correction == "backward":
        return (accepted - false_positive) / (1 - false_positive - false_negative)
    return accepted + false_negative - 1 if correction == "forward" else accepted

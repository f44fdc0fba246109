"""Prompts that share one linear head: logits W h, so that what one prompt teaches moves the others."""

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.problems.classes import Classes, hashed
from simlab.problems.prompt_bank import LARGEST_BANK, PromptBank
from simlab.problems.solve_rates import Rates

ANSWERS = ("shared", "own")
LARGEST_SHARED = 100.0  # 1 + its square is about how much the weights enlarge rounding


@dataclass(frozen=True, eq=False)
class LinearSoftmax:
    """M prompts with features of their own and one head for all: the policy of prompt i is softmax(W h_i).

    Attributes:
        weights: (A, d) the initial head W.
        features: (M, d) the feature h_i of each prompt, which is not learned.
        correct: (M, A) true for correct actions.
        target: (M, A) true for the target set of the tail-miss rate, of each prompt a subset of its correct actions.
        reward_correct: reward of a correct action, above 0.
        reward_incorrect: reward of an incorrect action, at most 0.

    Raises:
        InputError: for weights and features that do not fit one another, features that are not finite, and what
            ``PromptBank`` refuses.
    """

    weights: Float[np.ndarray, "A d"]
    features: Float[np.ndarray, "M d"]
    correct: Bool[np.ndarray, "M A"]
    target: Bool[np.ndarray, "M A"]
    reward_correct: float = 1.0
    reward_incorrect: float = 0.0

    def __post_init__(self) -> None:
        shapes = {name: getattr(self, name).shape for name in ("weights", "features")}
        fitting = all(len(shape) == 2 and 0 not in shape for shape in shapes.values())
        if not fitting or self.weights.shape[1] != self.features.shape[1]:
            raise InputError(f"arrays have shapes {shapes}; allowed: (actions, d) and (prompts, d), with one d")
        for name in shapes:
            if not np.isfinite(getattr(self, name)).all():
                raise InputError(f"{name} hold a number that is not finite; allowed: finite numbers")
        _ = self.tabular

    @functools.cached_property
    def tabular(self) -> PromptBank:
        """The bank of the same policies, but with logits of its own for each prompt."""
        return PromptBank(
            self.features @ self.weights.T, self.correct, self.target, self.reward_correct, self.reward_incorrect
        )

    @property
    def logits(self) -> Float[np.ndarray, "M A"]:
        """(M, A) initial logits, W h_i."""
        return self.tabular.logits

    @property
    def prompts(self) -> int:
        """M."""
        return self.tabular.prompts

    @property
    def actions(self) -> int:
        """A, the actions of one prompt."""
        return self.tabular.actions

    @property
    def shape(self) -> tuple[int, ...]:
        """(M, A), the shape of the logits."""
        return self.tabular.shape

    @property
    def solve_rates(self) -> Rates:
        """(M,) the initial probability of a correct action of each prompt."""
        return self.tabular.solve_rates

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of everything that the problem is."""
        rewards, arrays = (self.reward_correct, self.reward_incorrect), (self.weights, self.features)
        return hashed(rewards, np.array([*self.shape, self.features.shape[1]]), *arrays, self.correct, self.target)

    @property
    def classes(self) -> Classes:
        """What the lumped engine would carry.

        Raises:
            InputError: always.
        """
        return self.tabular.classes


def linear_softmax(
    prompts: int = 32,
    actions: int = 64,
    *,
    success_modes: int = 1,
    failure_modes: int = 8,
    shared: float = 1.0,
    easy_share: float = 0.5,
    easy_rate: float = 0.8,
    hard_rate: float = 0.2,
    answers: str = "shared",
    wrong_answers: int = 4,
    stray: float = 0.1,
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
) -> LinearSoftmax:
    """Easy prompts, where most successes happen, and hard ones, where most failures do, each kind of so many modes.

    The single-token reading of the tokens of ``[fade:prop-15.1]``. The feature of a prompt of mode k is
    h = (s u + f_k) / sqrt(1 + s^2), with s = ``shared`` and orthonormal u, f_1, ..., f_K: the cosine of two modes is
    s^2 / (1 + s^2). Easy prompts take turns at the first ``success_modes`` modes, hard ones at the ``failure_modes``
    others. So the diversity of failures is set against that of successes; exchange the two for the control in which
    successes are the diverse ones, among as many modes, features and actions.

    Each mode has one correct action, its own, and ``wrong_answers`` plausible wrong ones, which share 1 - ``stray`` of
    the probability of failing alike; the other actions share the rest alike. Prompts of one mode are the same question
    asked again. The head that gives these probabilities exists, as the features of different modes are linearly
    independent; it is the one of the smallest norm with logits that sum to 0. Nothing is random.

    Args:
        prompts: M, the easy ones first.
        actions: A; action k is the correct one of mode k, and wrong answers come after these.
        success_modes: modes of the easy prompts.
        failure_modes: modes of the hard prompts.
        shared: length of the part of the features that all prompts share, over that of the part of a mode.
        easy_share: share of the prompts that are easy; their number is rounded.
        easy_rate: initial solve rate of the easy prompts.
        hard_rate: initial solve rate of the hard prompts.
        answers: "shared" for plausible wrong answers common to all modes, which gives failures a common error
            direction, "own" for those of each mode.
        wrong_answers: plausible wrong answers of a mode.
        stray: share of the probability of failing that is on no plausible answer.
        reward_correct, reward_incorrect: see ``LinearSoftmax``.

    Raises:
        InputError: for a number outside its range, fewer prompts of a kind than it has modes, or fewer actions than
            there are answers.

    >>> problem = linear_softmax(prompts=4, success_modes=1, failure_modes=2)
    >>> problem.features.shape, problem.solve_rates.round(12)
    ((4, 4), array([0.8, 0.8, 0.2, 0.2]))
    """
    check_whole("prompts", prompts, 1, LARGEST_BANK)
    check_whole("success_modes", success_modes, 1)
    check_whole("failure_modes", failure_modes, 1)
    check_whole("wrong_answers", wrong_answers, 1)
    check_choice("answers", answers, ANSWERS)
    check_range("shared", shared, 0, LARGEST_SHARED)
    check_range("easy_share", easy_share, 0, 1)
    kinds = success_modes + failure_modes
    answered = kinds + wrong_answers * (1 if answers == "shared" else kinds)
    check_whole("actions", actions, answered, LARGEST_BANK)
    check_range("prompts x actions", prompts * actions, 1, LARGEST_BANK)
    mode = np.array(_modes(prompts, round(easy_share * prompts), success_modes, failure_modes))
    rates = np.where(np.arange(kinds) < success_modes, easy_rate, hard_rate)
    for name, value in (("easy_rate", easy_rate), ("hard_rate", hard_rate), ("stray", stray)):
        check_range(name, value, 1e-6, 1 - 1e-6)
    features = np.hstack([np.full((kinds, 1), shared), np.eye(kinds)]) / np.sqrt(1 + shared**2)
    logits = np.log(_policies(rates, actions, wrong_answers, answers, stray))
    weights = np.linalg.pinv(features) @ (logits - logits.mean(axis=1, keepdims=True))
    correct = np.arange(actions) == mode[:, None]
    return LinearSoftmax(weights.T, features[mode], correct, correct, reward_correct, reward_incorrect)


def _modes(prompts: int, easy: int, success_modes: int, failure_modes: int) -> list[int]:
    """The mode of each prompt, those of the easy ones first."""
    for kind, count, modes in (("easy", easy, success_modes), ("hard", prompts - easy, failure_modes)):
        if count < modes:
            raise InputError(f"{kind} prompts = {count} are fewer than their modes; allowed: {modes} or more")
    successes = [place % success_modes for place in range(easy)]
    return successes + [success_modes + place % failure_modes for place in range(prompts - easy)]


def _policies(
    rates: Float[np.ndarray, " K"], actions: int, wrong_answers: int, answers: str, stray: float
) -> Float[np.ndarray, "K A"]:
    """The initial policy of each mode."""
    kinds = len(rates)
    mode, place = np.arange(kinds)[:, None], np.arange(actions)
    first: Int[np.ndarray, "K 1"] = kinds + mode * (wrong_answers if answers == "own" else 0)
    right, plausible = place == mode, (place >= first) & (place < first + wrong_answers)
    failing = (1 - rates)[:, None]
    elsewhere = failing * stray / (actions - 1 - wrong_answers)
    return np.where(right, rates[:, None], np.where(plausible, failing * (1 - stray) / wrong_answers, elsewhere))

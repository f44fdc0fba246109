"""Prompts that share one linear head: logits W h, so that what one prompt teaches moves the others."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.problems.base import LARGEST_COUNT, AnyArray, Problem
from simlab.problems.prompt_bank import LARGEST_BANK, PromptBank, Rates, check_prompts

ANSWERS = ("shared", "own")
LARGEST_SHARED = 100.0  # 1 + its square is about how much the weights enlarge rounding


class HeadHistory(NamedTuple):
    """Gradients and weights of the last steps that the records read, each array with a first axis of actions."""

    gradients: Float[Array, "A P"]  # of each prompt's objective at the policy that drew its group
    gradient: Float[Array, "A d"]  # of W, the mean over the prompts of the batch
    gradient_before: Float[Array, "A d"]  # of W, of the previous batch
    weights_before: Float[Array, "A d"]  # before the last step
    weights_earlier: Float[Array, "A d"]  # before the step before that
    weights_recorded: Float[Array, "A d"]  # at the last record


@dataclass(frozen=True, eq=False)
class LinearSoftmax(Problem):
    """M prompts with features of their own and one head for all: the policy of prompt i is softmax(W h_i).

    W is learned, by the sum of dz_i h_i^T ``[fade:app-15-token-gradient]``. Under zero-sum weights the row of W of an
    action that no rollout of the batch drew stays exactly as it is. ``InputError`` for arrays that do not fit.

    Attributes:
        weights: (A, d) the initial head W, or a row for each class of actions where there are ``counts``.
        features: (M, d) the feature h_i of each prompt, which is not learned.
        correct: (M, A) true for correct actions.
        target: (M, A) true for the target set of the tail-miss rate, of each prompt a subset of its correct actions.
    """

    weights: Float[np.ndarray, "A d"]
    features: Float[np.ndarray, "M d"]
    correct: Bool[np.ndarray, "M A"]
    target: Bool[np.ndarray, "M A"]

    over_actions: ClassVar[Mapping[str, int]] = {"weights": 0, "correct": 1, "target": 1}
    metrics_at = "simlab.simulator.head_metrics:HEAD_METRICS"
    histories = 6

    def __post_init__(self) -> None:
        shapes = {name: getattr(self, name).shape for name in ("weights", "features")}
        fitting = all(len(shape) == 2 and 0 not in shape for shape in shapes.values())
        if not fitting or self.weights.shape[1] != self.features.shape[1]:
            raise InputError(f"arrays have shapes {shapes}; allowed: (actions, d) and (prompts, d), with one d")
        for name in shapes:
            if not np.isfinite(getattr(self, name)).all():
                raise InputError(f"{name} hold a number that is not finite; allowed: finite numbers")
        check_prompts(self.features @ self.weights.T, self.correct, self.target)
        super().__post_init__()

    @functools.cached_property
    def tabular(self) -> PromptBank:
        """The bank of the same policies, but with logits of its own for each prompt."""
        logits = self.features @ self.weights.T
        return PromptBank(logits, self.correct, self.target, counts=self.counts, **self.stated_rewards)

    @property
    def prompts(self) -> int:
        """M."""
        return len(self.features)

    @property
    def solve_rates(self) -> Rates:
        """(M,) the initial probability of a correct action of each prompt."""
        return self.tabular.solve_rates

    @property
    def parameters(self) -> Float[AnyArray, "A d"]:
        """The head."""
        return self.weights

    @property
    def teaching(self) -> Float[AnyArray, "M d"]:
        """The features by which a prompt's gradient moves the head: all of them."""
        return self.features

    def logits_of(self, parameters: Any, prompts: Int[Array, " P"] | None = None) -> Float[Array, "P A"]:
        """The logits W h of some prompts, or of all."""
        return product(jnp.asarray(self.features if prompts is None else self.features[prompts]), parameters.T)

    def pullback(
        self, gradients: Float[Array, "P A"], parameters: Any, prompts: Int[Array, " P"]
    ) -> Float[Array, "A d"]:
        """The sum of dz_i h_i^T over the prompts of the batch."""
        return product(gradients.T, self.teaching[prompts])

    def moved_logits(
        self, parameters: Any, direction: Float[Array, "A d"], length: Float[Array, ""]
    ) -> tuple[Float[Array, "M A"], Float[Array, "M A"]]:
        """The derivative of the logits along a direction of the head, and the logits after so long a way."""
        derivative = self.logits_of(direction)
        return derivative, self.logits_of(parameters) + length * derivative

    def drawn_logits(self, parameters: Any, prompts: Any, groups: Any, look_up: Any) -> Float[Array, " P"]:
        """The largest weight of the head, for each prompt of the batch: their logits all come from these."""
        return jnp.broadcast_to(jnp.max(jnp.abs(parameters)), prompts.shape)

    @property
    def numbers(self) -> int:
        """Size of the head, of the features, and of the logits of all prompts."""
        size: int = self.actions * (self.weights.shape[1] + self.prompts) + np.size(self.features)
        return size

    def step_numbers(self, batch: int) -> tuple[int, int]:
        """Count the head and the logits of a batch, and the products that make these and take the gradient back."""
        head = self.actions * self.weights.shape[1]
        return head + batch * self.actions, 2 * batch * head

    def first_history(self, parameters: Array, prompts_per_step: int) -> HeadHistory:
        """Return gradients of 0, and the first weights."""
        gradients = jnp.zeros((len(parameters), prompts_per_step), parameters.dtype)
        zeros = jnp.zeros_like(parameters)
        return HeadHistory(gradients, zeros, zeros, parameters, parameters, parameters)

    def next_history(
        self, history: HeadHistory, prompts: Int[Array, " P"], gradients: Float[Array, "P A"], parameters: Any
    ) -> HeadHistory:
        """Remember the gradients of a batch, and the weights from which its step started."""
        mean = self.pullback(gradients / len(gradients), parameters, prompts)
        now = HeadHistory(gradients.T, mean, history.gradient, parameters, history.weights_before, parameters)
        return now._replace(weights_recorded=history.weights_recorded)

    def recorded_history(self, history: HeadHistory, parameters: Any) -> HeadHistory:
        """Remember the weights at which a window between two records starts."""
        return history._replace(weights_recorded=parameters)

    def labels(self) -> Mapping[str, Sequence[Any]]:
        """Labels of a bank, and the numbers of the singular values from the largest on."""
        from simlab.simulator.head_metrics import SINGULAR_VALUES  # noqa: PLC0415

        return {**self.tabular.labels(), "singular": range(1, SINGULAR_VALUES + 1)}


def product(first: Float[Array, "n k"], second: Float[Array, "k m"]) -> Float[Array, "n m"]:
    """Multiply matrices in full precision, on a GPU too."""
    return jnp.matmul(first, second, precision=jax.lax.Precision.HIGHEST)


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
    """Easy prompts, where most successes happen, and hard ones, where most failures do; each kind has several modes.

    The single-token reading of the tokens of ``[fade:prop-15.1]``. The feature of a prompt of mode k is
    h = (s u + f_k) / sqrt(1 + s^2), with s = ``shared`` and orthonormal u, f_1, ..., f_K: the cosine of two modes is
    s^2 / (1 + s^2). Easy prompts take turns at the first ``success_modes`` modes, hard ones at the ``failure_modes``
    others; exchange the two numbers for the control in which successes are the diverse ones.

    Each mode has one correct action, its own, and ``wrong_answers`` plausible wrong ones, which share 1 - ``stray`` of
    the probability of failing alike; the other actions share the rest alike. The head is the one of the smallest norm
    that gives these probabilities, with logits that sum to 0. Nothing is random.

    Args:
        prompts: M, the easy ones first.
        actions: A; action k is the correct one of mode k, and wrong answers come after these.
        shared: length of the part of the features that all prompts share, over that of the part of a mode.
        easy_share: share of the prompts that are easy; their number is rounded.
        easy_rate, hard_rate: initial solve rates.
        answers: "shared" for plausible wrong answers common to all modes, which gives failures a common error
            direction, "own" for those of each mode.
        stray: share of the probability of failing that is on no plausible answer.

    >>> problem = linear_softmax(prompts=4, success_modes=1, failure_modes=2)
    >>> problem.features.shape, problem.solve_rates.round(12)
    ((4, 4), array([0.8, 0.8, 0.2, 0.2]))
    """
    check_whole("prompts", prompts, 1, LARGEST_BANK)
    modes = {"success_modes": success_modes, "failure_modes": failure_modes, "wrong_answers": wrong_answers}
    for name, count in modes.items():
        check_whole(name, count, 1)
    check_choice("answers", answers, ANSWERS)
    check_range("shared", shared, 0, LARGEST_SHARED)
    check_range("easy_share", easy_share, 0, 1)
    kinds = success_modes + failure_modes
    answered = kinds + wrong_answers * (1 if answers == "shared" else kinds)
    check_whole("actions", actions, answered, LARGEST_COUNT)
    check_range("prompts x answers", prompts * answered, 1, LARGEST_BANK)
    easy = round(easy_share * prompts)
    for kind, count, least in (("easy", easy, success_modes), ("hard", prompts - easy, failure_modes)):
        if count < least:
            raise InputError(f"{kind} prompts = {count} are fewer than their modes; allowed: {least} or more")
    hard = np.arange(prompts - easy) % failure_modes
    mode = np.concatenate([np.arange(easy) % success_modes, success_modes + hard])
    rates = np.where(np.arange(kinds) < success_modes, easy_rate, hard_rate)
    for name, value in (("easy_rate", easy_rate), ("hard_rate", hard_rate), ("stray", stray)):
        check_range(name, value, 1e-6, 1 - 1e-6)
    features = np.hstack([np.full((kinds, 1), shared), np.eye(kinds)]) / np.sqrt(1 + shared**2)
    counts = np.array([1] * answered + [actions - answered] * (actions > answered))
    logits = np.log(_policies(rates, actions, wrong_answers, answers, stray)[:, : len(counts)])
    weights = np.linalg.pinv(features) @ (logits - (logits @ counts / actions)[:, None])
    correct = np.arange(len(counts)) == mode[:, None]
    rewards: dict[str, Any] = {"reward_correct": reward_correct, "reward_incorrect": reward_incorrect}
    return LinearSoftmax(weights.T, features[mode], correct, correct, counts=counts, **rewards)


def _policies(
    rates: Float[np.ndarray, " K"], actions: int, wrong_answers: int, answers: str, stray: float
) -> Float[np.ndarray, "K C"]:
    """Initial probability, in each mode, of every answer, and of each of the other actions, which are alike."""
    kinds = len(rates)
    answered = kinds + wrong_answers * (1 if answers == "shared" else kinds)
    mode, action = np.arange(kinds)[:, None], np.arange(answered + 1)
    first: Int[np.ndarray, "K 1"] = kinds + mode * (wrong_answers if answers == "own" else 0)
    right, plausible = action == mode, (action >= first) & (action < first + wrong_answers)
    failing = (1 - rates)[:, None]
    elsewhere = failing * stray / (actions - 1 - wrong_answers)
    return np.where(right, rates[:, None], np.where(plausible, failing * (1 - stray) / wrong_answers, elsewhere))

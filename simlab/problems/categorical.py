"""One prompt with one softmax policy over N actions: anchors and rare correct actions, or logits of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from simlab.errors import InputError, check_range, check_whole
from simlab.problems.base import LARGEST_COUNT, Problem, check_logits, check_sets, members, numbers


@dataclass(frozen=True, eq=False)
class Categorical(Problem):
    """A softmax policy over N actions with verifiable rewards; ``InputError`` for arrays that make no problem.

    Attributes:
        logits: (N,) initial logits, or of each class of actions where there are ``counts``; the others likewise.
        correct: (N,) true for correct actions.
        target: (N,) true for the target set of the tail-miss rate, a subset of the correct actions.
    """

    logits: Float[np.ndarray, " N"]
    correct: Bool[np.ndarray, " N"]
    target: Bool[np.ndarray, " N"]

    over_actions: ClassVar[Mapping[str, int]] = {"logits": 0, "correct": 0, "target": 0}
    parameters_are_logits = True

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in self.over_actions}
        if len(set(lengths.values())) > 1:
            raise InputError(f"arrays have different lengths {lengths}; allowed: one length, the number of actions")
        super().__post_init__()
        check_logits(self.logits)
        check_sets(self.correct, self.target)


def anchored(
    actions: int = 128_000,
    correct: int = 10_000,
    *,
    anchor_logit: float = 5.0,
    correct_logit: float = 3.0,
    incorrect_logit: float = 0.0,
    target: int = 1,
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
) -> Categorical:
    """One likely correct action (the anchor, action 0), many rare ones, and the rest incorrect ``[f-grpo:app-j]``.

    Actions 0 to ``correct`` - 1 are correct, the ``target`` last of them the target set. The paper's rewards are 1 and
    -1; 1 and 0 differ from them, after centring, by a factor of 2. ``InputError`` unless 1 <= target <= correct <=
    actions.
    """
    check_whole("actions", actions, 1, LARGEST_COUNT)
    if correct > actions:
        raise InputError(
            f"correct = {correct} is outside its range [1, {actions}], as actions = {actions}; "
            f"allowed: both together, such as actions={actions} and correct={max(1, actions // 10)}"
        )
    check_whole("correct", correct, 1, actions)
    check_whole("target", target, 1, correct)
    for name, logit in (("anchor", anchor_logit), ("correct", correct_logit), ("incorrect", incorrect_logit)):
        check_range(f"{name}_logit", logit)
    counts = np.array([1, correct - 1 - target, target, actions - correct])
    if target == correct:
        counts[1:3] = 0, correct - 1
    present = counts > 0
    return Categorical(
        np.array([anchor_logit, correct_logit, correct_logit, incorrect_logit], dtype=float)[present],
        np.array([True, True, True, False])[present],
        np.array([target == correct, False, True, False])[present],
        counts=counts[present],
        reward_correct=reward_correct,
        reward_incorrect=reward_incorrect,
    )


def custom(
    logits: Sequence[float] | str = (0.0, 0.0),
    correct: Sequence[float] | str = (0,),
    target: Sequence[float] | str = (),
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
    *,
    rewards: Sequence[float] | np.ndarray | str = (),
    correct_above: float | None = None,
) -> Categorical:
    """Any logits and any correct set; ``InputError`` for what ``Categorical`` refuses, and an unreadable file.

    Args:
        logits: N numbers, or the path of a ``.npy`` file or of a text file of numbers.
        correct: indices of the correct actions, or the path of such a file.
        target: indices of the target set; by default the least likely correct action.
        rewards: the reward of each action, where that is more than right or wrong: N numbers, such a file, or (R, N).
        correct_above: the correct actions are those whose reward, the sum of its parts, is above it.

    >>> custom([0.0, 0.0, 0.0], rewards=[0.2, 0.7, 1.0], correct_above=0.5).correct
    array([False,  True,  True])
    """
    values = numbers("logits", logits)
    if values.size == 0:
        raise InputError("logits are empty; at least one action is needed")
    is_correct = members("correct", numbers("correct", correct), values.size)
    graded = numbers("rewards", rewards) if isinstance(rewards, str) else np.asarray(rewards, dtype=float)
    if correct_above is not None:
        check_range("correct_above", correct_above)
        if graded.shape[-1] != values.size:
            raise InputError(
                f"correct_above = {correct_above} of rewards of shape {graded.shape}; allowed: (N,), (R, N)"
            )
        is_correct = np.atleast_2d(graded).sum(axis=0) > correct_above
    chosen = numbers("target", target)
    if chosen.size == 0 and is_correct.any():
        chosen = np.array([np.argmin(np.where(is_correct, values, np.inf))])
    is_target = members("target", chosen, values.size)
    paid: dict[str, Any] = {"reward_correct": reward_correct, "reward_incorrect": reward_incorrect}
    return Categorical(values, is_correct, is_target, rewards=graded if graded.size else None, **paid)

"""Problems whose rewards are graded or come in parts: format, tests passed, length, a rubric, and a check to hack."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from simlab.errors import InputError, check_range, check_whole
from simlab.problems.base import Problem
from simlab.problems.categorical import Categorical
from simlab.problems.tree import Tree, tree
from simlab.problems.tree_paths import paths

MOST_ITEMS = 10


class AnswerKind(NamedTuple):
    """Actions that are alike: how likely they are together, their parts of the reward, whether correct, how many."""

    chance: float
    parts: tuple[float, ...]
    correct: bool
    actions: int = 1


def of_kinds(kinds: dict[str, AnswerKind], target: str, **rewards: Any) -> Categorical:
    """One prompt whose actions are of these kinds, of which one that is correct is the target set."""
    shares, counts = (np.array([getattr(kind, name) for kind in kinds.values()]) for name in ("chance", "actions"))
    correct = np.array([kind.correct for kind in kinds.values()])
    names = np.array(list(kinds))
    parts = np.array([kind.parts for kind in kinds.values()], dtype=float).T
    return Categorical(np.log(shares / counts), correct, names == target, counts=counts, rewards=parts, **rewards)


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        check_range(name, share, 0, 1, open_low=True)
        if share == 1:
            raise InputError(f"{name} = {share} is outside its range (0, 1)")


def format_reward(
    right: float = 0.1, formatted: float = 0.3, format_weight: float = 0.2, *, rare: int = 8, wrong: int = 64
) -> Categorical:
    """Correctness, and a format that is as likely in right answers as in wrong ones.

    One right answer is formatted. The ``rare`` others, the target set, are not: the format is what they lack.

    Args:
        right: probability of a right answer.
        formatted: probability of an answer in the format.
        format_weight: weight of the format beside 1 for correctness.
    """
    _check_shares(right=right, formatted=formatted)
    check_range("format_weight", format_weight)
    kinds = {
        "right": AnswerKind(right * formatted, (1, 1), True),
        "rare": AnswerKind(right * (1 - formatted), (1, 0), True, rare),
        "wrong in the format": AnswerKind((1 - right) * formatted, (0, 1), False, wrong),
        "wrong": AnswerKind((1 - right) * (1 - formatted), (0, 0), False, wrong),
    }
    return of_kinds(kinds, "rare", reward_parts=("correct", "format"), reward_weights=np.array([1, format_weight]))


def length_penalty(
    right: float = 0.2, rare_share: float = 0.3, penalty: float = 0.3, *, rare: int = 8, wrong: int = 64
) -> Categorical:
    """Correctness, and a penalty on length that rare right answers pay more of: they are long.

    Args:
        right: probability of a right answer.
        rare_share: share of it that the ``rare`` answers have together; they are the target set.
        penalty: what an answer of length 1 pays. The common right answer has length .2, rare ones 1, wrong ones either.
    """
    _check_shares(right=right, rare_share=rare_share)
    check_range("penalty", penalty, 0)
    kinds = {
        "right": AnswerKind(right * (1 - rare_share), (1, 0.2), True),
        "rare": AnswerKind(right * rare_share, (1, 1), True, rare),
        "short": AnswerKind((1 - right) / 2, (0, 0.2), False, wrong),
        "long": AnswerKind((1 - right) / 2, (0, 1), False, wrong),
    }
    return of_kinds(kinds, "rare", reward_parts=("correct", "length"), reward_weights=np.array([1, -penalty]))


def rubric(rates: tuple[float, ...] = (0.9, 0.6, 0.3, 0.1), constant: int = 1, share: float = 0.2) -> Categorical:
    """A rubric whose items are met independently, each an equal part of the reward; correct is what meets all.

    Args:
        rates: how many answers meet each item that varies.
        constant: items beside them that all answers meet.
        share: weight of each item.
    """
    items = len(rates)
    check_whole("rates", items, 1, MOST_ITEMS)
    check_whole("constant", constant, 0, MOST_ITEMS)
    check_range("share", share)
    _check_shares(**{f"rate {number}": rate for number, rate in enumerate(rates, 1)})
    kinds = {}
    for outcome in itertools.product((1, 0), repeat=items):
        chance = float(np.prod([rate if is_met else 1 - rate for rate, is_met in zip(rates, outcome, strict=True)]))
        kinds["".join(map(str, outcome))] = AnswerKind(chance, (*outcome, *[1] * constant), all(outcome), 2)
    names = tuple(f"item {number}" for number in range(1, items + constant + 1))
    weights = np.full(items + constant, share)
    return of_kinds(kinds, "1" * items, reward_parts=names, reward_weights=weights)


def reward_hack(right: float = 0.05, hack: float = 0.3, hack_weight: float = 0.5, *, wrong: int = 64) -> Categorical:
    """Correctness, and a part that is easy and wrong: answers that satisfy a check without being right.

    Args:
        right: probability of a right answer, which does not satisfy the check.
        hack: probability of a wrong answer that does.
        hack_weight: weight of the check beside 1 for correctness; above 1 the hack is what pays most.
    """
    _check_shares(right=right, hack=hack, both=right + hack)
    check_range("hack_weight", hack_weight)
    kinds = {
        "right": AnswerKind(right, (1, 0), True, 2),
        "hack": AnswerKind(hack, (0, 1), False),
        "wrong": AnswerKind(1 - right - hack, (0, 0), False, wrong),
    }
    return of_kinds(kinds, "right", reward_parts=("correct", "check"), reward_weights=np.array([1, hack_weight]))


def partial_credit(
    tests: int = 4, choices: int = 4, credit: float = 1.0, *, lead: float = 0.5, by_token: bool = True
) -> Problem:
    """Programs of ``tests`` steps, of which two pass all tests; the reward is the share passed, or all or nothing.

    Each step has ``choices``. A program passes a test where its step is that of the first solution, or, counted apart,
    of the second; the larger number counts. The first solution is the likelier one, the second the target.

    Args:
        credit: the share of the reward that is partial: at 0 it is all or nothing, at 1 the share of tests passed.
        lead: added to the logit of each step of the first solution.
        by_token: a tree, in which programs share their first steps; else all are actions of one softmax, as likely at
            the start as in the tree.
    """
    check_whole("tests", tests, 1)
    check_whole("choices", choices, 2)
    check_range("credit", credit, 0, 1)
    first, second = 0, choices**tests - 1  # all steps 0, all steps the last
    base = tree(tests, choices, rewarded=(first, second), target=(second,), anchor=str(first), anchor_logit=lead)
    _, steps = paths(np.arange(choices**tests), tests, choices)
    passed = np.maximum((steps == 0).sum(axis=1), (steps == choices - 1).sum(axis=1)) / tests
    rewards: dict[str, Any] = {
        "rewards": np.stack([passed, base.correct]),
        "reward_parts": ("tests passed", "all passed"),
        "reward_weights": np.array([credit, 1 - credit]),
    }
    if by_token:
        return Tree(base.logits, base.correct, base.target, **rewards)
    return Categorical(base.leaf_logp, base.correct, base.target, **rewards)

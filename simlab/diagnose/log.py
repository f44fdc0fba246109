"""Hold what a diagnosis reads of a training run: groups, correct answers, and log-probabilities of rollouts.

Readers (``simlab.diagnose.reading``) make a ``Log`` of files; estimates (``simlab.diagnose``) read nothing else. It
holds a few numbers a group and one row a distinct correct answer of a group, whatever the length of the texts.
"""

import dataclasses
from typing import TypeVar

import numpy as np


@dataclasses.dataclass(frozen=True)
class AnswerCounts:
    """Count the draws of each distinct correct answer: one row an answer of a group.

    Attributes:
        group: index of the group, shape (rows,).
        answer: number of the answer, shape (rows,); one canonical answer of one prompt has one number in all groups.
        count: rollouts of that group with that answer, shape (rows,).
    """

    group: np.ndarray
    answer: np.ndarray
    count: np.ndarray


@dataclasses.dataclass(frozen=True)
class RolloutLogProbs:
    """Log-probabilities of rollouts under the policy that drew them: a uniform sample of bounded size.

    Attributes:
        group: index of the group, shape (rollouts,).
        correct: true for a correct rollout, shape (rollouts,).
        log_probability: of the whole rollout, in nats, shape (rollouts,).
        length: tokens of the rollout, shape (rollouts,); 0 where the log does not say.
    """

    group: np.ndarray
    correct: np.ndarray
    log_probability: np.ndarray
    length: np.ndarray


@dataclasses.dataclass(frozen=True)
class RefusedRows:
    """Rows that could not be read: their number, and the first of them as ``file:line: why``."""

    count: int = 0
    first: tuple[str, ...] = ()


Rows = TypeVar("Rows", AnswerCounts, RolloutLogProbs)


@dataclasses.dataclass(frozen=True)
class Log:
    """The groups of a training run; a group is the rollouts of one prompt at one step.

    Attributes:
        format: the trainer that wrote the files: ``trl``, ``verl``, ``simlab`` or ``table``.
        prompt: number of the prompt, from 0, shape (groups,).
        step: training step, shape (groups,), in ascending order; all 0 where the log has no steps.
        group_size: rollouts of the group G, shape (groups,).
        correct: rollouts whose reward reaches the threshold X, shape (groups,).
        prompts: the first characters of each prompt, for people.
        answers: distinct correct answers; None where the log has none.
        log_probs: log-probabilities; None where the log has none.
        refused: rows that were left out.
    """

    format: str
    prompt: np.ndarray
    step: np.ndarray
    group_size: np.ndarray
    correct: np.ndarray
    prompts: tuple[str, ...]
    answers: AnswerCounts | None = None
    log_probs: RolloutLogProbs | None = None
    refused: RefusedRows = RefusedRows()

    def select(self, mask: np.ndarray) -> "Log":
        """Return the log of the groups where ``mask``, (groups,), is true; prompts and answers keep their numbers."""
        number = np.cumsum(mask) - 1
        return dataclasses.replace(
            self,
            prompt=self.prompt[mask],
            step=self.step[mask],
            group_size=self.group_size[mask],
            correct=self.correct[mask],
            answers=_select_rows(self.answers, mask, number),
            log_probs=_select_rows(self.log_probs, mask, number),
        )


def _select_rows(rows: Rows | None, mask: np.ndarray, number: np.ndarray) -> Rows | None:
    if rows is None:
        return None
    inside = mask[rows.group]
    columns = {field.name: getattr(rows, field.name)[inside] for field in dataclasses.fields(rows)}
    return dataclasses.replace(rows, **columns | {"group": number[columns["group"]]})

"""What a diagnosis knows of a training run: its groups, their correct answers, and the log-probabilities of rollouts.

Readers (``simlab.diagnose.reading``) make a ``Log`` of files; estimates (``simlab.diagnose``) read nothing else. It
holds a few numbers a group and one row a distinct correct answer of a group, whatever the length of the texts.
"""

import dataclasses
from typing import TypeVar

import numpy as np


@dataclasses.dataclass(frozen=True)
class Answers:
    """How often each distinct correct answer was drawn: one row an answer of a group.

    Attributes:
        group: which group, shape (rows,).
        answer: which answer, shape (rows,); one number is one canonical answer of one prompt, in all its groups.
        count: rollouts of that group with that answer, shape (rows,).
    """

    group: np.ndarray
    answer: np.ndarray
    count: np.ndarray


@dataclasses.dataclass(frozen=True)
class Confidence:
    """Log-probabilities of rollouts under the policy that drew them: a uniform sample of bounded size.

    Attributes:
        group: which group, shape (rollouts,).
        correct: whether the rollout is right, shape (rollouts,).
        log_probability: the log probability of the whole rollout, in nats, shape (rollouts,).
        length: tokens of the rollout, shape (rollouts,); 0 where the log does not tell it.
    """

    group: np.ndarray
    correct: np.ndarray
    log_probability: np.ndarray
    length: np.ndarray


@dataclasses.dataclass(frozen=True)
class Refused:
    """Rows that could not be read: how many, and the first of them as ``file:line: why``."""

    count: int = 0
    first: tuple[str, ...] = ()


Rows = TypeVar("Rows", Answers, Confidence)


@dataclasses.dataclass(frozen=True)
class Log:
    """The groups of a training run; a group is the rollouts of one prompt at one step.

    Attributes:
        format: what wrote the files: ``trl``, ``verl``, ``simlab`` or ``table``.
        prompt: which prompt, from 0, shape (groups,).
        step: training step, shape (groups,), in ascending order; all 0 where the log does not tell it.
        group_size: rollouts of the group G, shape (groups,).
        correct: rollouts whose reward reaches the threshold X, shape (groups,).
        prompts: the first characters of each prompt, for people.
        answers: distinct correct answers; None where the log has none.
        confidence: log-probabilities; None where the log has none.
        refused: rows that were left out.
    """

    format: str
    prompt: np.ndarray
    step: np.ndarray
    group_size: np.ndarray
    correct: np.ndarray
    prompts: tuple[str, ...]
    answers: Answers | None = None
    confidence: Confidence | None = None
    refused: Refused = Refused()

    def where(self, kept: np.ndarray) -> "Log":
        """The log of some groups alone; prompts and answers keep their numbers.

        Args:
            kept: whether each group stays, shape (groups,), bool.
        """
        number = np.cumsum(kept) - 1
        return dataclasses.replace(
            self,
            prompt=self.prompt[kept],
            step=self.step[kept],
            group_size=self.group_size[kept],
            correct=self.correct[kept],
            answers=_rows_of(self.answers, kept, number),
            confidence=_rows_of(self.confidence, kept, number),
        )


def _rows_of(rows: Rows | None, kept: np.ndarray, number: np.ndarray) -> Rows | None:
    if rows is None:
        return None
    stay = kept[rows.group]
    columns = {field.name: getattr(rows, field.name)[stay] for field in dataclasses.fields(rows)}
    return dataclasses.replace(rows, **columns | {"group": number[columns["group"]]})

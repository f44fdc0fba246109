"""Hold what a diagnosis reads of a training run: groups and correct answers."""

import dataclasses
from os import PathLike

import numpy as np

from simlab.errors import one_line

COMPLAINTS = 5  # refused rows that are named
NO_ANSWER = 0  # in place of the hash of an answer


@dataclasses.dataclass(frozen=True)
class AnswerCounts:
    """Rollouts of each distinct correct answer of each group; an answer of a prompt has one number in all groups."""

    group: np.ndarray
    answer: np.ndarray
    count: np.ndarray


@dataclasses.dataclass
class RefusedRows:
    """Rows and files that could not be read: their number, and the first of them as ``file:line: why``.

    ``notes`` says what was read as it may not be meant, by the last file in which it was.
    """

    count: int = 0
    first: list[str] = dataclasses.field(default_factory=list)
    notes: dict[str, str] = dataclasses.field(default_factory=dict)

    def add(self, path: str | PathLike, line: int | None, why: str) -> None:
        """Count one; ``line`` is None where a file is left out."""
        self.count += 1
        if len(self.first) < COMPLAINTS:
            self.first.append(one_line(f"{path}: {why}" if line is None else f"{path}:{line}: {why}"))


@dataclasses.dataclass(frozen=True)
class Log:
    """The groups of a training run, (groups,) each; a group is the rollouts of one prompt at one step, or of one id.

    Attributes:
        format: the trainer that wrote the files: ``trl``, ``verl``, ``simlab`` or ``table``.
        prompt: number of the prompt, from 0.
        step: training step, in ascending order; all 0 where the log has no steps.
        group_size: rollouts of the group G.
        correct: rollouts whose reward reaches the threshold X.
        prompts: the first characters of each prompt, for people.
        equal: true for groups whose rewards are all equal, so that they teach nothing; None where that is not known.
    """

    format: str
    prompt: np.ndarray
    step: np.ndarray
    group_size: np.ndarray
    correct: np.ndarray
    prompts: tuple[str, ...]
    answers: AnswerCounts | None = None
    refused: RefusedRows = dataclasses.field(default_factory=RefusedRows)
    equal: np.ndarray | None = None

    def select(self, mask: np.ndarray) -> "Log":
        """Return the log of the groups where ``mask``, (groups,), is true; prompts and answers keep their numbers."""
        columns = {name: getattr(self, name)[mask] for name in ("prompt", "step", "group_size", "correct")}
        equal, answers = None if self.equal is None else self.equal[mask], None
        if self.answers is not None:
            group, answer, count = (column[mask[self.answers.group]] for column in vars(self.answers).values())
            answers = AnswerCounts((np.cumsum(mask) - 1)[group], answer, count)
        return dataclasses.replace(self, **columns, equal=equal, answers=answers)


def gather(
    form: str,
    step: np.ndarray,
    prompt: np.ndarray,
    correct: np.ndarray,
    answer: np.ndarray | None,
    *,
    reward: np.ndarray,
    key: np.ndarray | None = None,
) -> tuple[Log, np.ndarray]:
    """Return the groups of rollouts, and the group of each.

    Args:
        form: of the log.
        step, prompt, correct: of each rollout.
        answer: hashes, ``NO_ANSWER`` for none.
        reward: by which groups are ``equal``.
        key: ids that tell groups of one prompt and step apart.
    """
    prompts, prompt_index = np.unique(prompt, return_inverse=True)
    steps, step_index = np.unique(step, return_inverse=True)
    pair = step_index * len(prompts) + prompt_index
    if key is not None:
        keys, key_index = np.unique(key, return_inverse=True)
        pair = pair * len(keys) + key_index if len(steps) * len(prompts) < 2**62 // len(keys) else pair
    _, first, group = np.unique(pair, return_index=True, return_inverse=True)
    answers = None
    if answer is not None:
        mask = (answer != NO_ANSWER) & (correct > 0)
        hashes, index = np.unique(answer[mask], return_inverse=True)
        different, number = np.unique(prompt_index[mask] * len(hashes) + index, return_inverse=True)
        rows, times = np.unique(group[mask] * len(different) + number, return_counts=True)
        answers = AnswerCounts(*np.divmod(rows, max(len(different), 1)), times)
    size, right = np.bincount(group), np.bincount(group, correct).astype(int)
    equal = np.ones(len(first), bool)
    equal[group[reward != reward[first][group]]] = False
    return Log(form, prompt[first], step[first], size, right, (), answers, equal=equal), group

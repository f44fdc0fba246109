"""Answer the questions that people ask of a log, each in a sentence with its numbers, most important first."""

from collections.abc import Callable
from typing import NamedTuple

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import IntervalEstimate
from simlab.diagnose.reading import Reading


class Finding(NamedTuple):
    """The answer to one question about a log.

    Attributes:
        question: as people ask it, such as "is the loss broken?".
        sentence: the answer in plain words: what is wrong or fine, why, what to do, how sure.
        concern: from 0, fine, to 1, the run is broken; it orders the answers.
        rows: label and value of each number behind the sentence, for the table.
    """

    question: str
    sentence: str
    concern: float
    rows: tuple[tuple[str, IntervalEstimate | str], ...] = ()


# Each question returns None where the log does not tell, or where there is nothing to say.
QUESTIONS: tuple[Callable[[Reading, Diagnosis], Finding | None], ...] = ()


def list_findings(reading: Reading, result: Diagnosis) -> list[Finding]:
    """Return the answers to all questions, those of the greatest concern first."""
    answers = (question(reading, result) for question in QUESTIONS)
    return sorted((answer for answer in answers if answer is not None), key=lambda answer: -answer.concern)

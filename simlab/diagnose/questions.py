"""Answer the questions that people ask of a log, each in a sentence with its numbers, most important first."""

from collections.abc import Callable

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.findings import Finding
from simlab.diagnose.reading import Reading

# Each question returns None where the log does not tell, or where there is nothing to say.
QUESTIONS: tuple[Callable[[Reading, Diagnosis], Finding | None], ...] = ()


def list_findings(reading: Reading, result: Diagnosis) -> list[Finding]:
    """Return the answers to all questions, those of the greatest concern first."""
    answers = (question(reading, result) for question in QUESTIONS)
    return sorted((answer for answer in answers if answer is not None), key=lambda answer: -answer.concern)

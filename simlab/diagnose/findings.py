"""Hold the answer to a question that people ask of a log."""

from typing import NamedTuple

from simlab.diagnose.estimate import IntervalEstimate


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

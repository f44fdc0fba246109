"""Make a rollout of a row of a file, by a layout that says what its columns mean."""

from collections.abc import Mapping
from typing import Any

from simlab.diagnose.reading.answers import answer_column
from simlab.diagnose.reading.gather import Row
from simlab.diagnose.reading.layouts import MAY_LACK, Layout
from simlab.diagnose.reading.rewards import Rewards
from simlab.diagnose.reading.values import Unreadable, as_json, message_text, optional_number, prompt_text, whole

ROUNDING = 1e-2  # nats by which the rounded log-probability of a sure rollout may lie above 0


class Rollouts:
    """Makes a ``Row`` of each row of a log.

    Args:
        layout: the layout of the log.
        threshold: see ``Rewards``.
        canonical: ``FILE.py:NAME`` of a function that gives the canonical form of a completion, or None.

    Raises:
        InputError: for a function that there is not, or that has no completions to read.
    """

    def __init__(self, layout: Layout, threshold: float | None, canonical: str | None):
        self.layout, self.rewards = layout, Rewards(threshold, layout.rewards)
        self.answers = answer_column(layout.columns, canonical)
        self.unseen = {name for role, name in layout.columns.items() if role in MAY_LACK}  # columns

    def row(self, row: Mapping[str, Any]) -> Row:
        """One rollout.

        Raises:
            Unreadable: for a row that lacks a column, or holds what its columns do not allow.
            InputError: for graded rewards without a threshold, and what the user's function does wrong.
        """
        self.layout.check(row)
        if self.unseen:
            self.unseen -= row.keys()
        asked = self._cell(row, "prompt")
        prompt = prompt_text(asked, "prompt")
        shown = prompt if asked is prompt else message_text(asked, "prompt")
        step = whole(self._cell(row, "step"), "step") if "step" in self.layout.columns else 0
        reward = self.layout.reward(row)
        log_probability, length = self._log_probability(row), self._length(row)
        text = None if self.answers is None else self.answers.text(row.get(self.answers.column))
        content = _content(row, self.layout.columns["step"]) if self.layout.format.repeats else ""
        self.rewards.count(reward)
        correct = self.rewards.reach(reward)
        answer = None
        if correct and text is not None and self.answers is not None:
            answer = self.answers.canonical(text)
        return Row(prompt, shown, step, reward, correct, answer, log_probability, length, content)

    def _cell(self, row: Mapping[str, Any], role: str) -> Any:
        return row.get(self.layout.columns[role]) if role in self.layout.columns else None

    def _log_probability(self, row: Mapping[str, Any]) -> float | None:
        found = optional_number(self._cell(row, "log_probability"), "log_probability")
        if found is not None and found > ROUNDING:
            raise Unreadable(f"log_probability is {found:g}; allowed: up to 0, in nats")
        return found

    def _length(self, row: Mapping[str, Any]) -> int:
        cell = self._cell(row, "length")
        return 0 if cell is None or cell == "" else whole(cell, "length")


def _content(row: Mapping[str, Any], step: str) -> str:
    """What of a row a later step may repeat: all but the step."""
    return as_json({name: value for name, value in row.items() if name != step}, "the row")

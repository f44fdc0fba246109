r"""Answers in LaTeX, in the last ``\boxed{...}`` of a completion, compared by math-verify."""

import re
import threading
from collections.abc import Sequence
from typing import Any

from simlab.errors import InputError, check_whole
from simlab.llm.extra import package
from simlab.llm.tasks.from_callable import CallableTask, from_callable, shown

LONGEST_ANSWER = 200  # characters
DEEPEST_BRACKETS = 8  # its parser takes exponential time on nested ones
OPENING = r"\boxed{"
DECIMAL = re.compile(r"-?[0-9]+\.?[0-9]*(e[+-]?[0-9]{1,3})?")  # no exponent that would make a number of any size


def boxed_answers(
    training: Sequence[tuple[str, str]],
    evaluation: Sequence[tuple[str, str]],
    max_new_tokens: int,
    *,
    timeout: int = 2,
) -> CallableTask:
    r"""Make a task of prompts and LaTeX answers: a completion is correct if math-verify finds it equal to the answer.

    Judged is the content of the last ``\boxed{...}``, and only by math-verify's LaTeX grammar: its other parser, for
    plain expressions, evaluates what it reads as Python. Equal contents are equal without it. A decimal is the fraction
    that it says: 0.5 is 1/2, but 0.50000000001 is not, and 0.333333 is not 1/3; left to itself, math-verify rounds
    decimals to six places. An answer past the limits of length and depth is wrong, and so is one whose comparison takes
    too long; as this is a matter of seconds, such an answer may be judged differently on another machine.

    Args:
        training: pairs of a prompt and its answer, without the box.
        evaluation: other pairs.
        max_new_tokens: the longest completion in tokens, the end token included.
        timeout: seconds that reading and that comparing may take.

    Raises:
        InputError: without math-verify, for an answer that it cannot read, one prompt with two answers, and for what
            ``from_callable`` refuses. The task's rewards refuse to be computed outside the main thread, where
            math-verify cannot stop.
    """
    comparison = Comparison(timeout)
    answers: dict[str, str] = {}
    for prompt, answer in (*training, *evaluation):
        if answers.setdefault(prompt, answer) != answer:
            raise InputError(f"the prompt {shown(prompt)} has two answers; allowed: one")
    for prompt, answer in answers.items():
        if not comparison.can_read(answer):
            raise InputError(f"the answer {shown(answer)} of the problem {shown(prompt)} is no LaTeX that can be read")

    def reward(prompt: str, completion: str) -> bool:
        comparison.check_thread()
        answer = boxed(completion)
        return answer is not None and comparison.equal(answers[prompt], answer)

    return from_callable(
        reward,
        [prompt for prompt, _ in training],
        [prompt for prompt, _ in evaluation],
        max_new_tokens,
        name="boxed",
        demonstration=lambda prompt: f"{OPENING}{answers[prompt]}}}",
        solution=lambda prompt, completion: answers[prompt],
    )


class Comparison:
    """Compare LaTeX without a box around it by math-verify; see ``boxed_answers``."""

    def __init__(self, timeout: int = 2) -> None:
        self._math_verify, self._sympy = package("math_verify", "math-verify"), package("sympy", "math-verify")
        check_whole("timeout", timeout, 1)
        self._timeout, self._extraction = timeout, [self._math_verify.LatexExtractionConfig()]

    def can_read(self, answer: str) -> bool:
        """Return True if an answer fits into a box and is LaTeX that math-verify reads."""
        return boxed(f"{OPENING}{answer}}}") == answer and bool(self._read(answer))

    def equal(self, right: str, answer: str) -> bool:
        """Return True if two answers are equal; equal texts are without being read."""
        self.check_thread()
        if answer == right:
            return True
        return bool(self._math_verify.verify(self._read(right), self._read(answer), timeout_seconds=self._timeout))

    def check_thread(self) -> None:
        """Raise ``InputError`` outside of the main thread, where math-verify cannot stop."""
        if threading.current_thread() is not threading.main_thread():
            raise InputError("math-verify works in the main thread alone")

    def _read(self, answer: str) -> list[Any]:
        parsed = self._math_verify.parse(f"{OPENING}{answer}}}", self._extraction, parsing_timeout=self._timeout)
        return [self._with_fractions(expression) for expression in parsed]

    def _with_fractions(self, parsed: Any) -> Any:
        """Replace each decimal that math-verify read by the fraction that it writes; texts stay as they are."""
        if not isinstance(parsed, self._sympy.Basic | self._sympy.MatrixBase):
            return parsed
        written = {number: str(number) for number in parsed.atoms(self._sympy.Float) if DECIMAL.fullmatch(str(number))}
        return parsed.xreplace({number: self._sympy.Rational(text) for number, text in written.items()})


def boxed(completion: str) -> str | None:
    r"""Return the content of the last ``\boxed{...}``; None without one, and for content past the limits.

    >>> boxed(r"so it is \boxed{1}, no, \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    start = completion.rfind(OPENING)
    if start < 0:
        return None
    start, depth, brackets = start + len(OPENING), 0, 0
    for position in range(start, min(len(completion), start + LONGEST_ANSWER + 1)):
        character = completion[position]
        brackets += (character in "([{") - (character in ")]}")
        if character == "}" and depth == 0:
            return completion[start:position]
        depth += (character == "{") - (character == "}")
        if brackets > DEEPEST_BRACKETS:
            return None
    return None

r"""Verifiers by name: what in a completion is the answer, and when it is right. They parse it and evaluate nothing.

========================  ==============================================  ======================================
name                      the answer in a completion                      it is right if
========================  ==============================================  ======================================
``exact``                 all of it, without the space around it          it is the right answer's text
``number``                the last decimal number                         it is the same number: 1,200.0 is 1200
``boxed``                 the content of the last ``\boxed{...}``         it is the same text, up to spaces
``math-verify``           the content of the last ``\boxed{...}``         math-verify says so
``regex:PATTERN``         the first group of the last place that matches  it is the same text, up to space around
========================  ==============================================  ======================================

A right answer in a data file is read like a completion, so that one of GSM8K's, with its calculation, is the number
behind it, and one of MATH's is what its box holds. Where it has no box or match, all of it is the answer.

A pattern is followed by RE2, which finds one place in time linear in the length of the text, whatever the pattern. All
places may take the square of that, as each may be looked for up to the end; so only the last ``LONGEST_READ``
characters are read, for numbers too. RE2 knows no look-around and no reference back to a group; such a pattern is
refused.
"""

import re
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from simlab.errors import InputError, check_choice, package
from simlab.text import shortened

LONGEST_ANSWER = 200  # characters in a box
DEEPEST_BRACKETS = 8  # math-verify's parser takes exponential time on nested ones
OPENING = r"\boxed{"
DECIMAL = re.compile(r"-?[0-9]+\.?[0-9]*(e[+-]?[0-9]{1,3})?")  # no exponent that would make a number of any size
LONGEST_NUMBER = 64  # characters
LONGEST_PATTERN = 1000  # characters
LONGEST_READ = 2**13  # characters of a completion that a number or pattern is looked for in, the last ones
# A sign counts where a number may begin: not in 5-3. Only ASCII digits.
NUMBER = re.compile(r"(?:(?<![0-9A-Za-z)\]}.,])[-+])?[0-9][0-9,]*(?:\.[0-9]+)?(?P<exponent>[eE][-+]?[0-9]+)?")
LONGEST_EXPONENT = 3  # digits
GROUPED = re.compile(r"[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?([eE].*)?")


class Verifier(ABC):
    """Find the answer in a completion, and compare it with the right one; here the right one's text."""

    @abstractmethod
    def answer(self, text: str) -> str | None:
        """Return the answer that a completion gives, in a form in which equal answers are equal; None without one."""

    def right_answer(self, text: str) -> str | None:
        """Return the answer that a data file's text stands for; None if this verifier can read none."""
        return self.answer(text)

    def agree(self, right: str, answer: str) -> bool:
        """Return True if two answers are the same."""
        return right == answer

    def demonstration(self, text: str) -> str:
        """Return a correct completion, made of a data file's answer; ``InputError`` if none can be made."""
        return text

    def solution(self, right: str, completion: str) -> str | None:
        """Return the canonical form of a correct completion, which is the right answer; None for a wrong one."""
        answer = self.answer(completion)
        return right if answer is not None and self.agree(right, answer) else None


class Exact(Verifier):
    """All of the completion."""

    def answer(self, text: str) -> str | None:
        """Return the text without the space around it; None if nothing is left.

        >>> Exact().solution("Paris", " Paris\\n")
        'Paris'
        """
        return text.strip() or None


class Number(Verifier):
    """The last decimal number, as an exact fraction."""

    def answer(self, text: str) -> str | None:
        """Return the last number of a text; None if there is none, or one that is too long or too far from the end.

        Commas may stand between groups of three digits. Fractions and percentages are not read: 1/2 ends with a 2.

        >>> [Number().answer(text) for text in ("1,200.50 or so", "5-3", "about -0.5.", "1,2", "2e-1", "none")]
        ['2401/2', '3', '-1/2', '2', '1/5', None]
        """
        read = text[-LONGEST_READ:]
        match = _last(NUMBER.finditer(read))
        if match is None or (match.start() == 0 and len(text) > len(read)):  # it may begin before
            return None
        exponent = (match["exponent"] or "").lstrip("eE+-")
        if len(match[0]) > LONGEST_NUMBER or len(exponent) > LONGEST_EXPONENT:
            return None
        written = match[0].rstrip(",")
        if "," in written:
            written = written.replace(",", "") if GROUPED.fullmatch(written) else written.rpartition(",")[2]
        return str(Fraction(written))


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


class Boxed(Verifier):
    """The content of the last box, compared as text without spaces."""

    def answer(self, text: str) -> str | None:
        r"""Return the content of the last box; None without a box, or with one that ``boxed`` refuses.

        >>> Boxed().solution(r"\\frac{1}{2}", r"It is \\boxed{\\frac{1} {2}}.")
        '\\\\frac{1}{2}'
        """
        content = boxed(text)
        return "".join(content.split()) or None if content is not None else None

    def right_answer(self, text: str) -> str | None:
        """Return the content of the text's last box, or all of the text where it has none."""
        return self.answer(self.demonstration(text))

    def demonstration(self, text: str) -> str:
        """Return the answer in a box, or the text itself where it has one."""
        return text if boxed(text) is not None else rf"\boxed{{{text.strip()}}}"


class MathVerify(Boxed):
    """The content of the last box, compared by math-verify; ``InputError`` without the package.

    Only its LaTeX grammar is used: its other parser, for plain expressions, evaluates what it reads as Python. Equal
    contents are equal without it. A decimal is the fraction that it says: 0.5 is 1/2, but 0.50000000001 is not, and
    0.333333 is not 1/3; left to itself, math-verify rounds decimals to six places. An answer whose comparison takes too
    long is wrong; as this is a matter of seconds, such an answer may be judged differently on another machine.
    """

    timeout = 2  # seconds that reading and that comparing may take

    def __init__(self) -> None:
        self._math_verify, self._sympy = package("math_verify", "math-verify"), package("sympy", "math-verify")

    def answer(self, text: str) -> str | None:
        """Return the content of the last box."""
        return boxed(text)

    def right_answer(self, text: str) -> str | None:
        """Return the content of the last box or the text, if it is LaTeX that math-verify reads."""
        content = super().right_answer(text)
        return content if content is not None and self._read(content) else None

    def agree(self, right: str, answer: str) -> bool:
        """Compare two answers; ``InputError`` outside of the main thread, where math-verify cannot stop."""
        if threading.current_thread() is not threading.main_thread():
            raise InputError("math-verify works in the main thread alone")
        if answer == right:
            return True
        return bool(self._math_verify.verify(self._read(right), self._read(answer), timeout_seconds=self.timeout))

    def _read(self, answer: str) -> list[Any]:
        grammar = [self._math_verify.LatexExtractionConfig()]
        parsed = self._math_verify.parse(f"{OPENING}{answer}}}", grammar, parsing_timeout=self.timeout)
        return [self._with_fractions(expression) for expression in parsed]

    def _with_fractions(self, parsed: Any) -> Any:
        """Replace each decimal that math-verify read by the fraction that it writes; texts stay as they are."""
        if not isinstance(parsed, self._sympy.Basic | self._sympy.MatrixBase):
            return parsed
        written = {number: str(number) for number in parsed.atoms(self._sympy.Float) if DECIMAL.fullmatch(str(number))}
        return parsed.xreplace({number: self._sympy.Rational(text) for number, text in written.items()})


class Pattern(Verifier):
    """The last match of a regular expression of RE2: its first group, or all that matched where it has none."""

    def __init__(self, pattern: str) -> None:
        re2 = package("re2", "regex")
        if not pattern or len(pattern) > LONGEST_PATTERN:
            raise InputError(f"verifier = 'regex:...' of {len(pattern)} characters; allowed: 1 to {LONGEST_PATTERN}")
        options = re2.Options()
        options.log_errors = False
        try:
            self.pattern: Any = re2.compile(pattern, options)
        except (re2.error, UnicodeError) as error:
            complaint = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
            raise InputError(f"verifier = {shortened(f'regex:{pattern}')} is no pattern of RE2: {complaint}") from None

    def answer(self, text: str) -> str | None:
        """Return the last match without the space around it; None if there is none, or its group is empty."""
        read = text[-LONGEST_READ:].encode(errors="replace").decode()  # RE2 takes no half of a character
        match = _last(self.pattern.finditer(read))
        return None if match is None else (match[min(1, self.pattern.groups)] or "").strip() or None

    def right_answer(self, text: str) -> str | None:
        """Return the last match in the text, or all of the text where there is none."""
        return self.answer(text) or text.strip() or None

    def demonstration(self, text: str) -> str:
        """Return the text itself; ``InputError`` if the pattern does not find its answer there."""
        if self.answer(text) is None:
            raise InputError(f"the answer {shortened(text)} does not match the verifier's pattern, so that it is no")
        return text


def _last(matches: Iterable[Any]) -> Any:
    """Return the last of some matches, None if there are none; the others are not kept."""
    return next(iter(deque(matches, maxlen=1)), None)


VERIFIERS: dict[str, Callable[[], Verifier]] = {
    "exact": Exact,
    "number": Number,
    "boxed": Boxed,
    "math-verify": MathVerify,
}


def verifier(name: str) -> Verifier:
    """Return the verifier of a name, or of ``regex:PATTERN``; ``InputError`` for an unknown or refused one."""
    kind, colon, pattern = name.partition(":")
    if kind == "regex" and colon:
        return Pattern(pattern)
    check_choice("verifier", name, (*VERIFIERS, "regex:PATTERN"))
    return VERIFIERS[name]()

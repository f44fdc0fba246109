"""Canonical forms of answers: equal for answers that count as one solution."""

import hashlib
import re
from collections.abc import Callable

from simlab.diagnose.log import NO_ANSWER
from simlab.errors import InputError
from simlab.llm.tasks.verifiers import boxed
from simlab.own_files import failure, file_of, load

NUMBER = re.compile(r"(?<![\w.])[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?(?![\w])")
NUMBER_WITHIN = 1000  # characters at the end of a completion; searching longer ones could take hours
SPACES = re.compile(r"\\[!,;: ]|~")  # of TeX
FROM_COMPLETIONS = r"the last \boxed{} of a completion, else its last number, else the whole"


def from_completion(completion: str) -> str:
    r"""Return the canonical form of the answer in a completion.

    >>> from_completion(r"so \boxed{ 1{,}000 } it is"), from_completion("first 3, then 1,004.50.")
    ('1000', '1004.5')
    """
    content = boxed(completion)
    if content is not None:
        return plain_answer(content)
    numbers = [match[0] for match in NUMBER.finditer(completion[-NUMBER_WITHIN:])]
    return plain_number(numbers[-1]) if numbers else completion.strip()


def plain_answer(answer: str) -> str:
    r"""Return an answer without space around it; a number without currency, percent, thin spaces and commas.

    >>> [plain_answer(text) for text in (r"\$90", r"15,\!400", r"50\%", "7.0", r" \frac{1}{2}", "a, b")]
    ['90', '15400', '50', '7', '\\frac{1}{2}', 'a, b']
    """
    plain = SPACES.sub("", answer.strip()).replace("{,}", ",").strip("$%\\ ").removeprefix("\\$").strip()
    return plain_number(plain) if NUMBER.fullmatch(plain) else answer.strip()


def plain_number(text: str) -> str:
    """Write a decimal without what does not change it: commas, a plus, zeros at its ends.

    >>> plain_number("+1,000.250"), plain_number("-0.0"), plain_number("0012")
    ('1000.25', '0', '12')
    """
    integer, _, fraction = text.lstrip("+-").replace(",", "").partition(".")
    plain = f"{integer.lstrip('0') or '0'}.{fraction.rstrip('0')}".removesuffix(".")
    return f"-{plain}" if text.startswith("-") and plain != "0" else plain


def load_function(reference: str) -> Callable[[str], str | None]:
    """Return the user's function ``FILE.py:NAME``; its errors become ``InputError``."""
    function = load(reference)
    if not callable(function):
        raise InputError(f"--answer {reference} is {function!r}; allowed: a function of a completion")

    def canonical(completion: str) -> str | None:
        try:
            answer = function(completion)
        except Exception as error:
            raise failure(f"--answer {reference}", file_of(reference), error) from None
        if answer is not None and not isinstance(answer, str):
            raise InputError(f"--answer {reference} returned {answer!r}; allowed: a text, or None for no answer")
        return answer

    return canonical


def digest(text: str, size: int) -> int:
    """Hash a text to so many bytes."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest(), "big")


def answer_hash(answer: str | None) -> int:
    """Return 63 bits and a lowest bit that is 1, so that no hash is ``NO_ANSWER``, which None has."""
    return NO_ANSWER if answer is None else digest(answer, 8) | 1

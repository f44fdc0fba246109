r"""The canonical form of an answer: equal for answers that count as one solution.

A column of the log may say it, or a function of the user's. Otherwise it is taken from the completion: what the last
``\boxed{...}`` holds, else the last number, else the whole completion without the space around it.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from simlab.diagnose.reading.values import as_json, message_text
from simlab.errors import InputError
from simlab.llm.tasks.boxed import boxed
from simlab.own_files import failure, file_of, load

NUMBER = re.compile(r"(?<![\w.])[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?(?![\w])")
NUMBER_WITHIN = 1000  # characters at the end of a completion; searching longer ones could take hours
FROM_COMPLETIONS = r"the last \boxed{} of a completion, else its last number, else the whole"


def from_completion(completion: str) -> str:
    r"""The canonical form of what a completion answers.

    >>> from_completion(r"so \boxed{ 1{,}000 } it is"), from_completion("first 3, then 1,004.50.")
    ('1{,}000', '1004.5')
    >>> from_completion(r"\boxed{007}"), from_completion(" up, left ")
    ('7', 'up, left')
    """
    content = boxed(completion)
    if content is not None:
        content = content.strip()
        return plain_number(content) if NUMBER.fullmatch(content) else content
    numbers = [found[0] for found in NUMBER.finditer(completion[-NUMBER_WITHIN:])]
    return plain_number(numbers[-1]) if numbers else completion.strip()


def plain_number(text: str) -> str:
    """A decimal without what does not change it: commas, a plus, zeros at its ends.

    >>> plain_number("+1,000.250"), plain_number("-0.0"), plain_number("0012")
    ('1000.25', '0', '12')
    """
    sign = "-" if text.startswith("-") else ""
    whole, _, fraction = text.lstrip("+-").replace(",", "").partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    plain = f"{whole}.{fraction}" if fraction else whole
    return plain if plain == "0" else sign + plain


@dataclasses.dataclass(frozen=True)
class AnswerColumn:
    """Where the answers of a log stand, and how they are read.

    Attributes:
        column: the column of the completion, or of the answer itself.
        text: a cell of it as text, None for no answer; it raises ``Unreadable``.
        canonical: the canonical form of such a text, None for no answer.
        in_words: what that is.
    """

    column: str
    text: Callable[[Any], str | None]
    canonical: Callable[[str], str | None]
    in_words: str


def answer_column(columns: Mapping[str, str], canonical: str | None) -> AnswerColumn | None:
    """Where answers are: in their own column, or in the completions; None if a log has neither.

    Args:
        columns: the columns of a log, by their roles.
        canonical: ``FILE.py:NAME``, a function of a completion, in place of both.

    Raises:
        InputError: for a reference that names no function, and where there are no completions for it.
    """
    completion, answer = columns.get("completion"), columns.get("answer")
    if canonical is not None and completion is None:
        raise InputError(f"--answer {canonical} needs completions; name their column: --columns completion=NAME")
    if canonical is None and answer is not None:
        return AnswerColumn(answer, lambda value: _cell_text(value, answer), _own_form, "as it stands")
    if completion is None:
        return None
    function = from_completion if canonical is None else own_function(canonical)
    what = FROM_COMPLETIONS if canonical is None else canonical
    return AnswerColumn(completion, lambda value: message_text(value, completion), function, what)


def _own_form(text: str) -> str | None:
    return text.strip() or None  # an empty cell


def _cell_text(value: Any, name: str) -> str | None:
    return value if value is None or isinstance(value, str) else as_json(value, name)


def own_function(reference: str) -> Callable[[str], str | None]:
    """The function ``FILE.py:NAME`` of the user's.

    Raises:
        InputError: for a reference that names no function; the function, for what it does wrong.
    """
    own = load(reference)
    if not callable(own):
        raise InputError(f"--answer {reference} is {own!r}; allowed: a function of a completion")

    def canonical(completion: str) -> str | None:
        try:
            found = own(completion)
        except Exception as error:
            raise failure(f"--answer {reference}", file_of(reference), error) from None
        if found is not None and not isinstance(found, str):
            raise InputError(f"--answer {reference} returned {found!r}; allowed: a text, or None for no answer")
        return found

    return canonical

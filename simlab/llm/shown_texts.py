"""Show texts of a model in a terminal: on one line, cut to a width, and with nothing that could command it."""

from simlab.text import aligned

MARKS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """A text on one line: control characters as escapes, so that a completion cannot command the terminal."""
    return "".join(
        MARKS.get(sign, sign if sign.isprintable() else sign.encode("unicode_escape").decode()) for sign in text
    )


def cut(text: str, width: int) -> str:
    """A text on one line, without its end where that is too long."""
    shown = visible(text)
    return shown if len(shown) <= width else f"{shown[: width - 3]}..."


def end_of(text: str, width: int) -> str:
    """A text on one line, without its beginning where that is too long: prompts of one kind differ at their ends."""
    shown = visible(text)
    return shown if len(shown) <= width else f"...{shown[3 - width :]}"


def solution(entry: dict[str, object]) -> str:
    """The canonical form of a correct answer; what is not correct has none."""
    return "-" if entry["solution"] is None else visible(str(entry["solution"]))


def left_aligned(rows: list[dict[str, str]]) -> list[str]:
    """Aligned rows whose last column, the texts, begins at one place."""
    numbers = aligned([{head: cell for head, cell in row.items() if head != "text"} for row in rows])
    return [f"{row}  {text}" for row, text in zip(numbers, ["text", *(row["text"] for row in rows)], strict=True)]

"""Count the rows of a file that are left out, by reason, with the lines that they stand in."""

from dataclasses import dataclass, field

LINES_SHOWN = 5
REASONS_SHOWN = 8


@dataclass
class LeftOut:
    """Rows of a file that are left out.

    Attributes:
        file: its name, as the user wrote it.
        rows: how many it has.
        lines: the lines of the rows that were left out, by reason.
    """

    file: str
    rows: int = 0
    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, reason: str, line: int) -> None:
        """Leave one more row out."""
        self.lines.setdefault(reason, []).append(line)

    def copy(self) -> "LeftOut":
        """The same, to be added to."""
        return LeftOut(self.file, self.rows, {reason: [*lines] for reason, lines in self.lines.items()})

    def in_words(self) -> str:
        """Summarise in words: the number of rows that are used, and the reasons and lines of the others.

        >>> LeftOut("x.jsonl", 9, {"empty prompt": [2, 7]}).in_words()
        'x.jsonl: 7 of 9 rows; left out: 2 (empty prompt: lines 2, 7)'
        """
        lost = sum(map(len, self.lines.values()))
        summary = f"{self.file}: {self.rows - lost} of {self.rows} rows"
        if not lost:
            return summary
        reasons = [f"{reason}: {_lines(lines)}" for reason, lines in [*self.lines.items()][:REASONS_SHOWN]]
        more = ["and other reasons"] if len(self.lines) > REASONS_SHOWN else []
        return f"{summary}; left out: {lost} ({'; '.join(reasons + more)})"


def _lines(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:LINES_SHOWN]))
    more = f" and {len(lines) - LINES_SHOWN} more" if len(lines) > LINES_SHOWN else ""
    return f"line{'s' if len(lines) > 1 else ''} {shown}{more}"

"""Append lines of JSON to a file, each with a checksum of itself and of the line before.

A line that is changed, missing, doubled or moved is therefore noticed. The first line's checksum covers the name of the
file, so that the lines of another arm or seed are noticed too.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from simlab.seals import Damaged, json_checksum, sealed_json, unsealed_json


class Lines(NamedTuple):
    """The lines of a file, as far as they are whole.

    Attributes:
        lines: in their order.
        end: what the next line's checksum covers beside that line.
        damage: what is wrong with the line after them, which is named; "" if there is none, or one that is cut off.
        rest: whether anything stands behind them.
    """

    lines: list[dict[str, Any]]
    end: str
    damage: str
    rest: bool


def name_of(path: Path) -> str:
    """The name that a file of lines was written for: arm, seed and file."""
    return "/".join(path.absolute().parts[-3:])


def as_line(line: Mapping[str, Any], end: str) -> bytes:
    """A line that goes behind others, of which ``Lines.end`` is given."""
    return sealed_json(line, end, indent=None)


def as_lines(lines: Iterable[Mapping[str, Any]], name: str) -> tuple[bytes, str]:
    """All lines of a file, and their ``Lines.end``."""
    end, content = name, b""
    for line in lines:
        content += as_line(line, end)
        end = json_checksum(line, end)
    return content, end


def read_lines(path: Path) -> Lines:
    """The lines of a file; none if it is not there.

    Raises:
        OSError: if it cannot be read.
    """
    *whole, cut = path.read_bytes().split(b"\n") if path.exists() else [b""]
    lines: list[dict[str, Any]] = []
    end = name_of(path)
    for number, text in enumerate(whole, 1):
        try:
            lines.append(unsealed_json(text, end))
        except Damaged as reason:
            return Lines(lines, end, f"{path} line {number} is damaged ({reason})", rest=True)
        end = json_checksum(lines[-1], end)
    return Lines(lines, end, "", rest=bool(cut))

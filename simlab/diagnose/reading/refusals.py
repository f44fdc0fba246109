"""Count what could not be read, and keep the first complaints for people."""

import os

from simlab.diagnose.log import Refused
from simlab.errors import one_line

KEPT = 5  # complaints that are kept


class Refusals:
    """Rows and files that were left out."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, path: str | os.PathLike, line: int | None, why: str) -> None:
        """Count one; ``line`` is that of the row, counted from 1, or None where a whole file is left out."""
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(one_line(f"{path}: {why}" if line is None else f"{path}:{line}: {why}"))

    def found(self) -> Refused:
        """What a ``Log`` keeps of them."""
        return Refused(self.count, tuple(self.first))

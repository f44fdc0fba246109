"""Write rows of cells as the columns of a plain table."""

from collections.abc import Sequence


def aligned(rows: Sequence[dict[str, str]]) -> list[str]:
    """Write the heads, which are the keys of every row, and the rows: the first column left, the others right.

    >>> aligned([{"arm": "grpo", "k": "1"}, {"arm": "f_grpo", "k": "16"}])
    ['arm      k', 'grpo     1', 'f_grpo  16']
    """
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    first, *others = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join([row[0].ljust(first), *(text.rjust(width) for text, width in zip(row[1:], others, strict=True))])
        for row in table
    ]

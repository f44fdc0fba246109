"""Find where in its paper a claim stands, to list claims in the paper's own order."""

import re

START = re.compile(r"(Abstract)|Sections? ([\d.]+)|Appendi(?:x|ces) ([A-Z]?)\.?([\d.]*)")
NUMBER = re.compile(r"(\d+)")


def place_of(where: str) -> tuple[tuple[int, str, tuple[int, ...]], tuple[tuple[int, str], ...]]:
    """A key to sort by: the abstract, sections, then appendices; in each, the rest of the text with numbers as numbers.

    Numbered appendices count as sections: FADE's go on where its sections end.

    Raises:
        ValueError: for a text that does not begin with the abstract, a section or an appendix.

    >>> sorted(["Section 5.6", "Appendix B", "Section 5, Eq. 10", "Section 5, Eq. 9", "Abstract"], key=place_of)
    ['Abstract', 'Section 5, Eq. 9', 'Section 5, Eq. 10', 'Section 5.6', 'Appendix B']
    """
    match = START.match(where)
    if not match:
        raise ValueError(f"where = {where!r}; allowed: a text that begins with Abstract, Section N or Appendix X")
    abstract, section, letter, rest = match.groups()
    numbers = tuple(int(number) for number in (section or rest or "").split(".") if number)
    rank = 0 if abstract else 2 if letter else 1
    pieces = NUMBER.split(where[match.end() :])
    return (rank, letter or "", numbers), tuple((int(text), "") if text.isdigit() else (-1, text) for text in pieces)

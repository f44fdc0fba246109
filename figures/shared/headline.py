"""Write what a figure shows above it, as its title."""

import textwrap

from matplotlib.figure import Figure

SIZE = 9.5  # points
LETTERS = 12.4  # of an inch, in bold at this size
LINE, GAP = 0.165, 0.06  # inches of a line of it, and below it


def balanced(text: str, width: int) -> list[str]:
    """A text in as few lines as fit a width in letters, and these of much the same length.

    >>> balanced("one two three four five", 20)
    ['one two three', 'four five']
    """
    lines = textwrap.wrap(text, width)
    while len(narrower := textwrap.wrap(text, width - 1)) == len(lines):
        lines, width = narrower, width - 1
    return lines


def headline(figure: Figure, message: str) -> None:
    """Make a figure higher by its message and write that on top; a figure that is placed by hand writes its own."""
    if figure.get_layout_engine() is None:
        return
    width, height = figure.get_size_inches()
    lines = balanced(message, int(LETTERS * width))
    figure.set_size_inches(width, height + LINE * len(lines) + GAP)
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=SIZE, fontweight="bold")

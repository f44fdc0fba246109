"""Measure how a figure looks at the width of a page: how wide it is, how small its text, how many lines a panel has."""

from typing import Any

import matplotlib.colors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

BACKGROUND = 0.5  # greys as light as this are background


def look(figure: Figure) -> dict[str, Any]:
    """The width in inches, the smallest text in points, and how many lines of their own look each panel has."""
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    sizes = [float(text.get_fontsize()) for text in texts]
    return {
        "width": round(float(figure.get_size_inches()[0]), 2),
        "smallest_text": round(min(sizes), 2) if sizes else None,
        "lines": [len(_styles(axes)) for axes in figure.axes],
    }


def _styles(axes: Axes) -> set[tuple[str, str]]:
    """The colour and dashes of each line that is to be told from the others."""
    return {
        (matplotlib.colors.to_hex(line.get_color()), str(line.get_linestyle()))
        for line in axes.get_lines()
        if _is_followed(line, axes)
    }


def _is_followed(line: Line2D, axes: Axes) -> bool:
    """Return True if a line joins numbers: no lone mark, line of reference across the panel, or light grey line."""
    red, green, blue = matplotlib.colors.to_rgb(line.get_color())
    grey = max(red, green, blue) - min(red, green, blue) < 0.02 and red >= BACKGROUND
    joined = line.get_linestyle() not in ("None", "none", "", " ") and np.size(line.get_xdata()) > 1
    return joined and not grey and line.get_transform().contains_branch(axes.transData)

"""Write the names of lines at their right ends, in their colours, in place of a legend."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

SIZE = 8.0  # points
LINE = 1.25  # height of a name in its own letters


def spread(heights: np.ndarray, gap: float, low: float = 0.03, high: float = 0.97) -> np.ndarray:
    """Move heights apart until neighbours differ by ``gap``, in their order and as near to their places as that allows.

    >>> spread(np.array([0.5, 0.52, 0.1]), 0.1).round(2).tolist()
    [0.46, 0.56, 0.1]
    """
    order = np.argsort(heights, kind="stable")
    targets = [[float(heights[index])] for index in order]  # blocks of touching names: where each name belongs
    blocks: list[list[float]] = []
    for target in targets:
        blocks.append(target)
        while len(blocks) > 1 and _bottom(blocks[-1], gap) < _top(blocks[-2], gap) + gap:
            last = blocks.pop()
            blocks[-1] = blocks[-1] + last
    spaced = np.concatenate([_bottom(block, gap) + gap * np.arange(len(block)) for block in blocks])
    ceiling = high - gap * np.arange(len(spaced))[::-1]
    floor = low + gap * np.arange(len(spaced))
    result = np.empty_like(spaced)
    result[order] = np.maximum(np.minimum(spaced, ceiling), floor)
    return result


def _bottom(block: list[float], gap: float) -> float:
    """The lowest name of a block, which is centred on where its names belong."""
    return float(np.mean(block)) - gap * (len(block) - 1) / 2


def _top(block: list[float], gap: float) -> float:
    return _bottom(block, gap) + gap * (len(block) - 1)


def end_labels(axes: Axes, names: Mapping[str, str] | None = None, size: float = SIZE) -> None:
    """Write each labelled line's name to the right of the panel, at the height at which the line ends.

    Call it when all is drawn and the limits stand. ``names`` says what is written in place of some labels.
    """
    axes.get_xlim(), axes.get_ylim()  # asking brings the limits up to date with what is drawn
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    ends = np.array([_end(line) for line in lines])
    heights = axes.transAxes.inverted().transform(axes.transData.transform(ends))[:, 1].clip(0, 1)
    inches = axes.get_window_extent().height / axes.figure.dpi
    for line, height in zip(lines, spread(heights, LINE * size / 72 / inches), strict=True):
        text = str(line.get_label())
        axes.annotate(
            (names or {}).get(text, text), (1.02, height), xycoords="axes fraction", annotation_clip=False,
            color=line.get_color(), fontsize=size, va="center", ha="left",
        )  # fmt: skip


def _end(line: Line2D) -> np.ndarray:
    """(2,) the last point of a line that has a height."""
    points = np.asarray(line.get_xydata(), dtype=float)
    last: np.ndarray = points[np.isfinite(points[:, 1])][-1]
    return last

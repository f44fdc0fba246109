"""Read the numbers of a figure from what was drawn, so that they cannot differ from it."""

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PathCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.spines import Spine

from figures.shared.condensed import rounded


def plotted(figure: Figure) -> list[dict[str, Any]]:
    """Return every panel: its title, labels and scales, and what is in it, in the units of its axes."""
    return [_panel(axes) for axes in figure.axes]


def _panel(axes: Axes) -> dict[str, Any]:
    words = {
        "title": axes.get_title(loc="left") or axes.get_title(),
        "x": axes.get_xlabel(),
        "y": axes.get_ylabel(),
        "x_scale": axes.get_xscale(),
        "y_scale": axes.get_yscale(),
        "x_ticks": [label.get_text() for label in axes.get_xticklabels()] if _named(axes.xaxis) else None,
        "y_ticks": [label.get_text() for label in axes.get_yticklabels()] if _named(axes.yaxis) else None,
    }
    drawn = [entry for artist in axes.get_children() if (entry := _numbers(artist, axes))]
    return {name: word for name, word in words.items() if word} | {"drawn": drawn}


def _named(axis: Any) -> bool:
    """Return True if the ticks of an axis have names rather than numbers."""
    return type(axis.get_major_formatter()).__name__ == "FixedFormatter"


def _numbers(artist: Artist, axes: Axes) -> dict[str, Any] | None:
    """Return the numbers of an artist; None for frames, texts, and artists not in the units of the axes."""
    if artist is axes.patch or isinstance(artist, Spine):
        return None
    entry: dict[str, Any] | None = None
    if isinstance(artist, Line2D):
        entry = {"kind": "line", "x": rounded(_floats(artist.get_xdata())), "y": rounded(_floats(artist.get_ydata()))}
    elif isinstance(artist, Rectangle):
        corners = (artist.get_x(), artist.get_y(), artist.get_width(), artist.get_height())
        entry = {"kind": "bar", "x_y_width_height": rounded(corners)}
    elif isinstance(artist, PathCollection):
        entry = {"kind": "points", "x_y": rounded(np.ma.filled(artist.get_offsets(), np.nan))}
    elif isinstance(artist, QuadMesh):
        entry = {"kind": "mesh", "corners": rounded(artist.get_coordinates()), "values": _values(artist.get_array())}
    elif isinstance(artist, AxesImage):
        entry = {"kind": "image", "extent": rounded(artist.get_extent()), "values": _values(artist.get_array())}
    elif isinstance(artist, Collection):
        entry = {"kind": "area", "outlines": [rounded(path.vertices) for path in artist.get_paths()]}
    elif isinstance(artist, Patch):
        entry = {"kind": "shape", "outline": rounded(artist.get_path().vertices)}
    label = str(artist.get_label())
    return entry and entry | ({"label": label} if label and not label.startswith("_") else {})


def _floats(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=float)


def _values(values: Any) -> Any:
    return None if values is None else rounded(np.ma.filled(values.astype(float), np.nan))

"""Write the files of a figure: SVG, PDF and PNG, and a JSON of what was drawn and what it came from."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import figures
from figures.shared.headline import headline
from figures.shared.look import look
from figures.shared.plotted import plotted
from figures.shared.registry import Script
from simlab.errors import InputError
from simlab.files import WRITER, check_replaceable, write_whole
from simlab.identity import commit, versions
from simlab.plotting import METADATA, STYLE, write_figure

FIGURES = Path(figures.__file__).parent
LIBRARIES = ("simlab", "jax", "numpy", "scipy", "matplotlib")
RESOLUTION = 150  # dots an inch: 1080 across a page, where pages of the site show 800
COLOURS = 128  # of a PNG
ORIGIN = "simlab"  # the text in a PNG that says where it is from


def write(script: Script, folder: Path) -> None:
    """Draw a figure into ``folder``: NAME.svg, .pdf, .png and .json.

    Two runs give the same bytes. The JSON has the configuration, the commit of the script, the versions, the
    figure's look, and the plotted numbers as read from it. The PNG, which alone is committed, carries the commit, the
    versions, the look, and the checksum of the numbers.

    Raises:
        InputError: for a folder that cannot be written.
    """
    figure = script.draw()
    headline(figure, script.message)
    stem = folder / script.name
    origin = {
        "message": script.message,
        "commit": commit(Path(str(script.module.__file__)), *(FIGURES / name for name in ("shared", "data"))),
        "versions": versions(LIBRARIES),
        "look": look(figure),
    }
    content = {
        "writer": WRITER,
        "figure": script.name,
        "title": script.title,
        "tags": script.tags,
        "differs": script.differs,
        "configuration": script.configuration,
        **origin,
        "panels": plotted(figure),
    }
    check_replaceable(stem.with_suffix(".json"))
    try:
        with mpl.rc_context({"savefig.dpi": RESOLUTION}):
            save_everywhere(figure, stem)
        origin["panels"] = checksum(content["panels"])
        write_whole(stem.with_suffix(".png"), reduced(stem.with_suffix(".png").read_bytes(), origin))
        write_whole(stem.with_suffix(".json"), (json.dumps(content, separators=(",", ":")) + "\n").encode())
    except OSError as error:
        raise InputError(f"cannot write {stem}: {error.strerror}; figures already drawn are kept") from None


def checksum(panels: Any) -> str:
    """Return the SHA-256 of plotted numbers."""
    return hashlib.sha256(json.dumps(panels, separators=(",", ":")).encode()).hexdigest()


def reduced(png: bytes, origin: dict[str, Any]) -> bytes:
    """Return a PNG with a palette of ``COLOURS``, which takes a third of the bytes, and with a text on its origin."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    # A cut at the median loses the colours of a few small marks.
    palette = image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    text, written = PngInfo(), io.BytesIO()
    text.add_text(ORIGIN, json.dumps(origin))
    palette.save(written, "PNG", optimize=True, pnginfo=text)
    return written.getvalue()


def read_origin(path: Path) -> dict[str, Any]:
    """Return what a PNG that ``write`` drew says of itself."""
    with Image.open(path) as image:
        return dict(json.loads(image.info[ORIGIN]))


def save_everywhere(figure: Figure, stem: Path) -> None:
    """Write ``stem``.svg, .pdf and .png; two runs give identical bytes, since no date is written."""
    with matplotlib.style.context(STYLE):
        settle(figure)
        for suffix in METADATA:
            write_figure(figure, stem.with_suffix(suffix))


def settle(figure: Figure) -> None:
    """Place the axes once and in round numbers: a constrained layout may differ in the last digit in another run."""
    figure.set_dpi(mpl.rcParams["savefig.dpi"])  # at another resolution letters have other widths
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position(Bbox(axes.get_position(original=True).get_points().round(4)))

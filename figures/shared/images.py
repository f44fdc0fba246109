"""The files of a figure: SVG, PDF and PNG, and a JSON of what was drawn and what it came from."""

import json
from pathlib import Path

import figures
from figures.shared.headline import headline
from figures.shared.look import look
from figures.shared.plotted import plotted
from figures.shared.registry import Script
from simlab.errors import InputError
from simlab.files import write_whole
from simlab.identity import commit, versions
from simlab.plotting import save_everywhere

FIGURES = Path(figures.__file__).parent
LIBRARIES = ("simlab", "jax", "numpy", "scipy", "matplotlib")


def write(script: Script, folder: Path) -> None:
    """Draw a figure into ``folder``: NAME.svg, .pdf, .png and .json.

    Two runs give the same bytes. The JSON has the configuration, the commit of the script, the versions, the
    figure's look, and the plotted numbers as read from it.

    Raises:
        InputError: for a folder that cannot be written.
    """
    figure = script.draw()
    headline(figure, script.message)
    stem = folder / script.name
    content = {
        "figure": script.name,
        "title": script.title,
        "message": script.message,
        "tags": script.tags,
        "differs": script.differs,
        "configuration": script.configuration,
        "commit": commit(Path(str(script.module.__file__)), *(FIGURES / name for name in ("shared", "data"))),
        "versions": versions(LIBRARIES),
        "look": look(figure),
        "panels": plotted(figure),
    }
    try:
        save_everywhere(figure, stem)
        write_whole(stem.with_suffix(".json"), (json.dumps(content, separators=(",", ":")) + "\n").encode())
    except OSError as error:
        raise InputError(f"cannot write {stem}: {error.strerror}; figures already drawn are kept") from None

"""Read the files of the page: its own, and plotly's JavaScript from the installed Python package."""

import functools
import importlib.util
from pathlib import Path

from simlab.errors import InputError

PAGE = Path(__file__).with_name("page")
KINDS = {".js": "text/javascript", ".css": "text/css"}


def page_file(name: str) -> tuple[str, str] | None:
    """The text and media type of a file of the page; None where there is none of this name."""
    path = PAGE / name
    if path.parent != PAGE or path.suffix not in KINDS or not path.is_file():
        return None
    return path.read_text(encoding="utf-8"), KINDS[path.suffix]


def modules() -> dict[str, str]:
    """The JavaScript modules of the page, by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(PAGE.glob("*.js"))}


@functools.cache
def plotly_script() -> str:
    """plotly's JavaScript.

    Raises:
        InputError: where the package is not installed.
    """
    found = importlib.util.find_spec("plotly")
    if found is None or found.origin is None:
        raise InputError('explore needs plotly; install it with: pip install "simlab[explore]"')
    return (Path(found.origin).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")

"""Tell whether a module is Python's, an installed package's, this library's or the user's."""

import functools
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

from simlab.identity.versions import PACKAGE

INSTALLED = {"site-packages", "dist-packages"}
OWN_FILE = "own_file_"  # begins the names of modules that ``simlab.own_files`` makes, the user's wherever they lie


def home(module: str) -> str | None:
    """What a module that is not the user's own belongs to, with its version; None for one that is the user's."""
    top = module.partition(".")[0]
    if top.startswith(OWN_FILE):
        return None
    if top in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    if is_of_library(module):
        return top
    file = source_file(top)
    # What a wheel bundles (see simlab.bundled) counts by its content, as it does in a checkout.
    if file is None or not INSTALLED & {*file.parts} or file.is_relative_to(PACKAGE):
        return None
    return f"{top} {_version(top)}"


def is_of_library(module: str) -> bool:
    """Whether a module is of this library."""
    return module.partition(".")[0] == PACKAGE.name


def source_file(module: str) -> Path | None:
    """The file of a module, whether it is loaded or not; None where it has none, or is not there."""
    if module in sys.modules:
        loaded = sys.modules[module]
        # A package without an ``__init__`` has a folder alone.
        found = getattr(loaded, "__file__", None) or next(iter(getattr(loaded, "__path__", ())), None)
        return Path(found) if found else None
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


@functools.cache
def _version(top: str) -> str:
    """The version of the distribution that a package is from, which as a rule has its name."""
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        found = importlib.metadata.packages_distributions().get(top, [])
        own = getattr(sys.modules.get(top), "__version__", "of unknown version")
        return " ".join(f"{name} {importlib.metadata.version(name)}" for name in found) or str(own)

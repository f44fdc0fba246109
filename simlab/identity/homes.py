"""Where a module is from: Python, an installed package, this library, or the user."""

import functools
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

from simlab.identity.code import closure, sources_fingerprint

INSTALLED = {"site-packages", "dist-packages"}


def home(module: str) -> str | None:
    """What identifies all of a module that is not the user's own; None for one that is.

    Python goes by its version, an installed package by its version, and a module of this library by its import closure.
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    if top == "simlab":
        return f"simlab {_library(module)}"
    file = source_file(top)
    return f"{top} {_version(top)}" if file is not None and INSTALLED & {*file.parts} else None


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
def _library(module: str) -> str:
    return sources_fingerprint(closure((module,)))[:16]


@functools.cache
def _version(top: str) -> str:
    """The version of the distribution that a package is from."""
    names = [top, *importlib.metadata.packages_distributions().get(top, [])]
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return str(getattr(sys.modules.get(top), "__version__", "of unknown version"))

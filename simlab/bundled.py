"""Find what comes with the package: a sample of a log, and the folders ``figures``, ``paper_checks`` and notebooks."""

import importlib
import sys
from pathlib import Path

from simlab.errors import InputError

PACKAGE = Path(__file__).resolve().parent
SAMPLE_LOG = PACKAGE / "diagnose" / "sample.jsonl.gz"  # figures/diagnose.py made it
IMPORTABLE = ("figures", "paper_checks")


def is_checkout() -> bool:
    """Return True if the package is used from a checkout, and not from where a wheel was installed."""
    return not (PACKAGE / "bundled_files").is_dir()


def bundled_folder(name: str) -> Path:
    """Return the folder of ``figures``, ``paper_checks`` or ``notebooks``; ``InputError`` if it is missing."""
    folder = (PACKAGE.parent if is_checkout() else PACKAGE / "bundled_files") / name
    if not folder.is_dir():
        raise InputError(f"{folder} is missing; install simlab again")
    return folder


def make_importable() -> None:
    """Let this process and its children import ``figures`` and ``paper_checks``; ``InputError`` if they are missing."""
    for name in IMPORTABLE:
        folder = bundled_folder(name)
        if sys.path[:1] != [str(folder.parent)]:
            sys.path.insert(0, str(folder.parent))
        path = importlib.import_module(name).__file__ or ""
        if not Path(path).resolve().is_relative_to(folder):
            raise InputError(f"this process has imported another {name}, {path}; allowed: a process that has not")

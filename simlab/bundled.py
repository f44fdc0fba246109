"""Find what comes with the package: a sample of a log, and the folders ``figures``, ``paper_checks`` and notebooks."""

import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
SAMPLE_LOG = PACKAGE / "diagnose" / "sample.jsonl.gz"  # figures/diagnose.py made it


def is_checkout() -> bool:
    """Return True if the package is used from a checkout, and not from where a wheel was installed."""
    return not (PACKAGE / "bundled_files").is_dir()


def bundled_folder(name: str) -> Path:
    """Return the folder of ``figures``, ``paper_checks`` or ``notebooks``."""
    return (PACKAGE.parent if is_checkout() else PACKAGE / "bundled_files") / name


def make_importable() -> None:
    """Let this process and its children import ``figures`` and ``paper_checks``, whatever else has these names."""
    root = str(bundled_folder("figures").parent)
    if sys.path[:1] != [root]:
        sys.path.insert(0, root)

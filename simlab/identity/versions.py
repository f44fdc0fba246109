"""Say which versions of Python and of the libraries take part, and which git commit."""

import functools
import importlib.metadata
import platform
import subprocess
from pathlib import Path

import simlab

PACKAGE = Path(simlab.__file__).parent
# Git says nothing of another user's checkout unless it is told to trust it, and this one's code runs already.
TRUSTED = ("-c", f"safe.directory={PACKAGE.parent.resolve()}", "-c", "core.fsmonitor=false")
NUMERIC = ("jax", "jaxlib", "numpy", "scipy", "optax", "array-api-compat", "ml-dtypes")  # those that compute


@functools.cache
def versions(
    names: tuple[str, ...] = ("simlab", "jax", "jaxlib", "optax", "numpy", "xarray", "array-api-compat"),
) -> dict[str, str]:
    """Versions of Python and of the libraries that take part."""
    return {"python": platform.python_version()} | {name: _version(name) for name in names}


def numeric_versions() -> dict[str, str]:
    """Versions of what computes: of Python, whose ``sum`` has changed, the first two numbers."""
    found = versions(NUMERIC)
    return found | {"python": found["python"].rpartition(".")[0]}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return simlab.__version__ if name == "simlab" else "not installed"


@functools.cache
def commit(*places: Path) -> str:
    """The git commit of the source tree, "unknown" for an installed package.

    With "+changes" where the library differs from it, or a file or folder of ``places``.
    """

    def git(*arguments: str) -> str:
        command = ["git", *TRUSTED, "-C", str(PACKAGE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if not (PACKAGE.parent / ".git").exists():
            return "unknown"
        changed = git("status", "--porcelain", "--", *map(str, (PACKAGE, *places)))
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"

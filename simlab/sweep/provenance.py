"""Which code, which versions and which machine made a number."""

import functools
import hashlib
import importlib.metadata
import platform
import subprocess
from pathlib import Path

import simlab

_PACKAGE = Path(simlab.__file__).parent
# What a number can depend on; the command line or a figure's style cannot change one.
_NUMERIC = ("rollouts.py", "order.py", "estimators", "surrogates", "problems", "simulate")


@functools.cache
def code_fingerprint() -> str:
    """A hash of the sources and library versions that simulated numbers depend on."""
    digest = hashlib.sha256()
    for name in _NUMERIC:
        place = _PACKAGE / name
        for source in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(source.relative_to(_PACKAGE).as_posix().encode() + b"\0" + source.read_bytes())
    for library in ("jax", "jaxlib", "optax"):
        digest.update(f"{library}={versions()[library]}".encode())
    return digest.hexdigest()[:16]


@functools.cache
def versions(
    names: tuple[str, ...] = ("simlab", "jax", "jaxlib", "optax", "numpy", "xarray", "array-api-compat"),
) -> dict[str, str]:
    """Versions of Python and of the libraries that take part."""
    return {"python": platform.python_version()} | {name: _version(name) for name in names}


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
        command = ["git", "-C", str(_PACKAGE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if not (_PACKAGE.parent / ".git").exists():
            return "unknown"
        changed = git("status", "--porcelain", "--", *map(str, (_PACKAGE, *places)))
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"

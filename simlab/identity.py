"""Identify what makes a number: the library's code, the versions of libraries, and the processor. Imports no JAX."""

import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
BUNDLED = PACKAGE / "bundled_files"  # figures and checks in a wheel, which are not the library's code
# Git refuses another user's checkout unless it is told to trust it, and this one's code runs already.
TRUSTED = ("-c", f"safe.directory={PACKAGE.parent}", "-c", "core.fsmonitor=false")
NUMERIC = ("jax", "jaxlib", "numpy", "scipy", "optax", "array-api-compat", "ml-dtypes")  # libraries that compute
LEVELS = {"sse4_2": "SSE4.2", "avx": "AVX", "avx2": "AVX2", "avx512f": "AVX512"}  # x86-64's, by flag, narrowest first


@functools.cache
def versions(
    names: tuple[str, ...] = ("simlab", "jax", "jaxlib", "optax", "numpy", "xarray", "array-api-compat"),
) -> dict[str, str]:
    """Return the versions of Python and of some libraries."""
    return {"python": platform.python_version()} | {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return sys.modules["simlab"].__version__ if name == "simlab" else "not installed"


@functools.cache
def code_fingerprint(package: Path = PACKAGE) -> str:
    """Hash all sources of the library, the versions of what computes and the minor version of Python."""
    paths = sorted(path for path in package.rglob("*.py") if BUNDLED not in path.parents)
    sources = {path.relative_to(package).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    libraries = versions(NUMERIC) | {"python": platform.python_version().rpartition(".")[0]}
    return hashlib.sha256(repr((sources, sorted(libraries.items()))).encode()).hexdigest()[:16]


@functools.cache
def commit(*paths: Path) -> str:
    """Return the checkout's git commit, with "+changes" if the library or one of ``paths`` differs; or "unknown"."""

    def git(*arguments: str) -> str:
        command = ["git", *TRUSTED, "-C", str(PACKAGE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if not (PACKAGE.parent / ".git").exists():
            return "unknown"
        changed = git("status", "--porcelain", "--", *map(str, (PACKAGE, *paths)))
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def processor(device: str) -> dict[str, str]:
    """Describe what computes here, down to last digits: ``device`` (as in JAX), CPU ``instructions``, ``XLA_FLAGS``."""
    flags = re.sub(r"--xla_force_host_platform_device_count=\S*", "", os.environ.get("XLA_FLAGS", ""))
    described = {"device": device, "instructions": _instructions(flags)}
    return described | ({"XLA_FLAGS": " ".join(flags.split())} if flags.strip() else {})


def _instructions(flags: str) -> str:
    """Name the widest instructions that XLA compiles for: on x86-64 their level, elsewhere the machine alone."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return platform.machine()
    levels = list(LEVELS)
    for isa in re.findall(r"--xla_cpu_max_isa=(\w+)", flags)[-1:]:  # the last one counts
        allowed = [name for name in LEVELS if isa.lower().startswith(name.removesuffix("f"))]
        levels = levels[: levels.index(allowed[-1]) + 1] if allowed else levels
    names = [LEVELS[name] for name in levels if name in processor_features()]
    return f"x86-64 {names[-1]}" if names else "x86-64, of unknown instructions"


@functools.cache
def processor_features() -> frozenset[str]:
    """Return the features that Linux lists of the processor; none on another system."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    listed = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(listed.partition(":")[2].split())

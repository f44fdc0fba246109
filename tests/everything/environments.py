"""The environments that the tests run in, and how each is made."""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "pyproject.toml"
MAKING = 3600  # seconds in which an environment has to be made

ENGINES = ["torch", "transformers", "trl", "peft", "verl", "distributed"]
TOLD = ["jax", "numpy", "scipy", "xarray", *ENGINES, "marimo", "playwright", "pytest"]  # whose versions the table gives


class Unusable(Exception):
    """Why an environment cannot be had on this machine."""


@dataclass(frozen=True)
class Environment:
    """A Python with simlab and some of its extras, and the tests that can run there.

    Markers name the tests that need more than the extra ``test``; ``unmarked`` are those that do not. Of both, ``slow``
    says whether those marked so run here too. Pins are requirements that narrow what ``pyproject.toml`` allows.
    """

    name: str
    python: str
    extras: tuple[str, ...]
    markers: tuple[str, ...] = ()
    unmarked: bool = True
    slow: bool = True
    pins: tuple[str, ...] = ()


def oldest(package: str) -> str:
    """The oldest version of a dependency that ``pyproject.toml`` allows, as a pin.

    >>> oldest("numpy")
    'numpy==2.1'
    """
    for requirement in tomllib.loads(PROJECT.read_text())["project"]["dependencies"]:
        if found := re.match(rf"{re.escape(package)}>=([\d.]+)", requirement):
            return f"{package}=={found[1]}"
    raise KeyError(package)


WITHOUT_TORCH = ("test", "dask", "browser", "docs", "jupyter", "math-verify", "reasoning-gym", "tensorboard", "wandb")
# Slow tests take hours, and differ from the others in how long they simulate, not in what they need of Python or JAX:
# each runs in one environment.
ENVIRONMENTS = (
    Environment(
        "python3.11",
        "3.11",
        (*WITHOUT_TORCH, "torch", "transformers", "trl"),
        ("dask", "browser", "docs", "notebooks", "fresh", "torch", "transformers", "trl"),
    ),
    Environment("python3.11-verl", "3.11", ("test", "torch", "verl"), ("verl",), unmarked=False),
    Environment("python3.12", "3.12", WITHOUT_TORCH, ("dask", "browser", "docs", "notebooks"), slow=False),
    Environment("python3.12-oldest-jax", "3.12", ("test",), slow=False, pins=(oldest("jax"),)),
    Environment("python3.13", "3.13", WITHOUT_TORCH, ("dask", "browser", "docs", "notebooks"), slow=False),
)


def named_interpreter(text: str) -> tuple[str, str]:
    """A version and the path of an interpreter, of ``VERSION=PATH``; for argparse."""
    version, _, path = text.partition("=")
    if version not in {one.python for one in ENVIRONMENTS} or not Path(path).is_file():
        allowed = ", ".join(sorted({one.python for one in ENVIRONMENTS}))
        raise argparse.ArgumentTypeError(f"{text!r} is not VERSION=PATH with one of {allowed} and the path of a Python")
    return version, path


def interpreter(version: str, given: dict[str, str]) -> tuple[str, str]:
    """The path of a Python of this version and its full version: as given, else from the PATH.

    Raises: Unusable: there is none, it does not start, or it is another version.
    """
    path = given.get(version) or shutil.which(f"python{version}")
    if path is None:
        raise Unusable(f"no python{version} on the PATH; name one by --python {version}=PATH")
    try:
        told = subprocess.run(
            [path, "-c", "import platform; print(platform.python_version())"],
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        raise Unusable(f"python{version} does not start; name another by --python {version}=PATH") from None
    if not told.startswith(f"{version}."):
        raise Unusable(f"the interpreter given for Python {version} is Python {told}")
    return path, told


def made(environment: Environment, given: dict[str, str], folder: Path) -> tuple[Path, dict[str, str]]:
    """The environment's own interpreter, and the versions of what is in it; it is made unless it is there.

    It is made anew when its definition, its interpreter's version or ``pyproject.toml`` has changed. For another
    checkout simlab alone is installed again.

    Raises: Unusable: there is no such interpreter, or packages cannot be installed.
    """
    path, version = interpreter(environment.python, given)
    wanted = json.dumps([asdict(environment), version, hashlib.sha256(PROJECT.read_bytes()).hexdigest()])
    home, record = folder / environment.name, folder / f"{environment.name}.json"
    own = home / "bin" / "python"
    install = [str(own), "-m", "pip", "install", "-e"]
    found = json.loads(record.read_text()) if record.is_file() and own.exists() else {}
    if found.get("wanted") != wanted:
        print(f"making {environment.name} ({version}, {', '.join(environment.extras)})", file=sys.stderr, flush=True)
        shutil.rmtree(home, ignore_errors=True)
        packages = f"{ROOT}[{','.join(environment.extras)}]"
        commands = [[path, "-m", "venv", str(home)], [*install, packages, *environment.pins]]
    elif found["root"] != str(ROOT):
        commands = [[*install, str(ROOT), "--no-deps"]]
    else:
        return own, found["versions"]
    record.unlink(missing_ok=True)
    _succeed(commands, environment.name, folder)
    versions = _versions(own)
    record.write_text(json.dumps({"wanted": wanted, "root": str(ROOT), "versions": versions}))
    return own, versions


def _succeed(commands: list[list[str]], name: str, folder: Path) -> None:
    """Run commands that have to succeed; where one does not, its own last words say why."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.log"
    with path.open("w") as log:
        for command in commands:
            try:
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=MAKING, check=True
                )
            except (OSError, subprocess.SubprocessError):
                lines = [line for line in path.read_text().splitlines() if line.startswith("ERROR: ")]
                why = lines[-1].removeprefix("ERROR: ") if lines else "see its log"
                raise Unusable(f"{name} cannot be made: {why}") from None


def _versions(python: Path) -> dict[str, str]:
    """Versions of Python and of the packages that the table tells of."""
    program = (
        "import importlib.metadata as m, json, platform, sys\n"
        "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({'python': platform.python_version(), **{n: found[n] for n in sys.argv[1:] if n in found}}))"
    )
    told = subprocess.run([python, "-c", program, *TOLD], capture_output=True, text=True, timeout=120, check=True)
    return dict(json.loads(told.stdout))

"""The environments that the tests run in, and how each is made."""

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

    Markers name the tests that need more than the extra ``test``; ``unmarked`` are those that do not. Pins are
    requirements that narrow what ``pyproject.toml`` allows.
    """

    name: str
    python: str
    extras: tuple[str, ...]
    markers: tuple[str, ...] = ()
    unmarked: bool = True
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


WITHOUT_TORCH = ("test", "dask", "browser", "jupyter", "math-verify", "reasoning-gym", "tensorboard")
ENVIRONMENTS = (
    Environment(
        "python3.11",
        "3.11",
        (*WITHOUT_TORCH, "torch", "transformers", "trl"),
        ("dask", "browser", "notebooks", "torch", "transformers", "trl"),
    ),
    Environment("python3.11-verl", "3.11", ("test", "torch", "verl"), ("verl",), unmarked=False),
    Environment("python3.12", "3.12", WITHOUT_TORCH, ("dask", "browser", "notebooks")),
    Environment("python3.12-oldest-jax", "3.12", ("test",), pins=(oldest("jax"),)),
    Environment("python3.13", "3.13", WITHOUT_TORCH, ("dask", "browser", "notebooks")),
)


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

    It is made anew when its definition, its interpreter's version or ``pyproject.toml`` has changed.

    Raises: Unusable: there is no such interpreter, or packages cannot be installed.
    """
    path, version = interpreter(environment.python, given)
    wanted = json.dumps([asdict(environment), version, hashlib.sha256(PROJECT.read_bytes()).hexdigest(), str(ROOT)])
    home, record = folder / environment.name, folder / f"{environment.name}.json"
    own = home / "bin" / "python"
    if record.is_file():
        found = json.loads(record.read_text())
        if found["wanted"] == wanted and own.exists():
            return own, found["versions"]
    record.unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"making {environment.name} ({version}, {', '.join(environment.extras)})", file=sys.stderr, flush=True)
    with (folder / f"{environment.name}.log").open("w") as log:
        for command in (
            [path, "-m", "venv", str(home)],
            [str(own), "-m", "pip", "install", "-e", f"{ROOT}[{','.join(environment.extras)}]", *environment.pins],
        ):
            _run(command, log.name, environment.name, stdout=log, stderr=subprocess.STDOUT)
    versions = _versions(own)
    record.write_text(json.dumps({"wanted": wanted, "versions": versions}))
    return own, versions


def _run(command: list[str], log: str, name: str, **output: object) -> None:
    """A command that has to succeed; its own last words say why it did not."""
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=MAKING, check=True, **output)  # type: ignore[call-overload]
    except (OSError, subprocess.SubprocessError):
        lines = [line.strip() for line in Path(log).read_text().splitlines() if line.startswith("ERROR")]
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

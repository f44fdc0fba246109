"""Parts: what of an environment's tests one pytest runs."""

import os
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .environments import PROJECT, ROOT, Environment, Unusable

COLLECTING = 600  # seconds


@dataclass(frozen=True)
class Part:
    """One call of pytest: its arguments, and how many processes it keeps busy."""

    name: str
    environment: str
    command: tuple[str, ...]
    processes: int = 1
    variables: dict[str, str] = field(default_factory=dict)


def markers() -> list[str]:
    """The markers of ``pyproject.toml`` that an environment must be able to run: all but ``slow``."""
    told = tomllib.loads(PROJECT.read_text())["tool"]["pytest"]["ini_options"]["markers"]
    return [name for line in told if (name := line.partition(":")[0]) != "slow"]


def slow_tests(environment: Environment) -> str:
    """The expression of the slow tests that can run in an environment."""
    if environment.unmarked:
        return " and ".join(["slow", *(f"not {name}" for name in markers() if name not in environment.markers)])
    return f"slow and ({' or '.join(environment.markers)})"


def parts(environment: Environment, python: Path) -> Iterator[Part]:
    """The parts of an environment: unmarked tests, each marker's, and each file's slow ones, which take minutes each.

    Raises: Unusable: pytest cannot collect there.
    """
    pytest: tuple[str, ...] = (str(python), "-m", "pytest")
    if environment.unmarked:
        yield Part(f"{environment.name}/unmarked", environment.name, pytest, processes=2)
    for marker in environment.markers:
        command = (*pytest, "-m", f"{marker} and not slow", "--dist", "load")
        yield Part(f"{environment.name}/{marker}", environment.name, command, processes=2)
    for name in _files(python, slow_tests(environment)) if environment.slow else ():
        command = (*pytest, "-n", "0", "-m", slow_tests(environment), name)
        yield Part(f"{environment.name}/slow/{name}", environment.name, command)


def _files(python: Path, expression: str) -> list[str]:
    """The files that have tests which an expression of markers selects."""
    collected = subprocess.run(
        [python, "-m", "pytest", "--collect-only", "-q", "-q", "-n", "0", "-m", expression],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=COLLECTING,
        check=False,
    )
    if collected.returncode not in {0, 5}:  # 5: there are none
        said = [*collected.stdout.splitlines(), *collected.stderr.splitlines()][-1:]
        raise Unusable(f"pytest cannot collect {expression}: exit code {collected.returncode} {said}")
    # pytest's shortest list: a file and its number of tests on each line
    return sorted(
        line.rpartition(": ")[0] for line in collected.stdout.splitlines() if line.rpartition(": ")[2].isdigit()
    )

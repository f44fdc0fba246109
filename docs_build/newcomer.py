"""``python -m docs_build.newcomer``: time what docs/start.md has a newcomer type, from nothing; write docs/newcomer.md.

Everything is fresh: the folder, the clone, the virtual environment, pip's cache and that of compiled programs. Beside
the seconds on the clock stand those of the processor, which do not grow where other programs share it.
"""

import itertools
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import describe, in_words
from docs_build.pages import ROOT
from docs_build.shown_blocks import script

PAGE, REPORT = ROOT / "docs" / "start.md", ROOT / "docs" / "newcomer.md"
# A stage ends with the first line that begins so.
STAGES = {
    "the clone": "git clone",
    "a virtual environment": "python3 -m venv",
    "the installation": "pip install",
    "**a first figure**": "simlab sweep",
    "**a first weight of your own**": "simlab sweep",
    "**a first answer about your own logs**": "simlab diagnose rollouts",
}
FOREIGN = ("XLA_", "JAX_", "SIMLAB_", "PYTEST_", "PYTHON", "VIRTUAL_ENV")  # variables that a newcomer has not set
_TIMES = re.compile(r"(\d+)m([\d.]+)s (\d+)m([\d.]+)s")  # of users and of the system, as Bash prints them
SHARED = 0.25  # a load per core from which on others are said to have been at work


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process of somebody who has not used simlab before; caches go into ``folder``."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    there = own["PATH"].split(os.pathsep)
    if "VIRTUAL_ENV" in os.environ:
        there = [path for path in there if path != f"{os.environ['VIRTUAL_ENV']}/bin"]
    return own | {"PATH": os.pathsep.join(there), "XDG_CACHE_HOME": str(folder)}


class Mark(NamedTuple):
    """A line of the page, and the seconds before it began, on the clock and of the processor."""

    line: str
    clock: float
    processor: float


def timed(folder: Path) -> list[Mark]:
    """Each line of the page; last the end, as an empty line.

    Raises: subprocess.CalledProcessError: a line fails.
    """
    for name in ("empty", "beside", "cache"):
        (folder / name).mkdir()
    text = script(PAGE, folder / "beside", {}) + "cat <<'END'\n== \nEND\n"
    telling = text.replace("cat <<'END'\n", "times\ncat <<'END'\n")
    command = ["bash", "-c", telling]
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder / "empty", env=environment(folder / "cache"), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = list(marks(process.stdout, lambda: time.monotonic() - began))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return found


def marks(printed: Iterable[str], clock: Callable[[], float]) -> Iterator[Mark]:
    """What a script tells of its lines, as it tells it: before each, Bash's ``times`` of itself and of its children."""
    processor = 0.0
    told: list[float] = []
    for line in printed:
        if found := _TIMES.fullmatch(line.strip()):
            user, system = (60 * int(found[at]) + float(found[at + 1]) for at in (1, 3))
            told.append(user + system)
        elif line.startswith("== "):
            processor, told = sum(told), []
            yield Mark(line.removeprefix("== ").strip(), clock(), processor)


def stages(found: Iterable[Mark]) -> dict[str, Mark]:
    """The line with which the next thing begins, for each stage."""
    ends = {}
    pairs = itertools.pairwise(found)
    for stage, beginning in STAGES.items():
        ends[stage] = next(after for before, after in pairs if before.line.startswith(beginning))
    return ends


def report(ends: Mapping[str, Mark], machine: Mapping[str, object]) -> str:
    """The page."""
    rows, before = [], Mark("", 0.0, 0.0)
    for stage, end in ends.items():
        took = f"{end.clock - before.clock:.0f} | {end.processor - before.processor:.0f} | {end.clock:.0f}"
        rows.append(f"| {stage} | {took} |")
        before = end
    load, cores = float(str(machine["load_average"])), int(str(machine["cores"]))
    shared = (
        f"Other programs were at work on the same cores (a load of {load} on {cores} before the start). "
        "Seconds on the clock\n"
        "are upper bounds; those of the processor say what an idle core takes, without the downloads."
        if load > SHARED * cores
        else "Nothing else was at work."
    )
    return f"""# How long the ten minutes take

A program did what [Ten minutes](start.md) says, from an empty folder. `python -m docs_build.newcomer` wrote this page.
What you read and type comes on top.

| what you have | seconds for it | of a processor | from the start |
|---|---:|---:|---:|
{chr(10).join(rows)}

pip's cache and the cache of compiled programs were empty. {shared}

{in_words(dict(machine))}.
"""


def main() -> None:
    """Time the page, and write the report."""
    machine = describe()
    with tempfile.TemporaryDirectory() as folder:
        ends = stages(timed(Path(folder)))
    REPORT.write_text(report(ends, machine), encoding="utf-8")
    print(REPORT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()

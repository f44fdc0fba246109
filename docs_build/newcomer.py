"""``python -m docs_build.newcomer``: time what docs/start.md has a newcomer type, from nothing; write docs/newcomer.md.

Everything is fresh: the folder, the clone, the virtual environment, pip's cache and that of compiled programs.
"""

import itertools
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

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
    "**a first answer about your own logs**": "simlab diagnose",
}
FOREIGN = ("XLA_", "JAX_", "SIMLAB_", "PYTEST_", "PYTHON", "VIRTUAL_ENV")  # variables that a newcomer has not set
SHARED = 0.25  # a load per core from which on others are said to have been at work


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process of somebody who has not used simlab before; caches go into ``folder``."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    there = own["PATH"].split(os.pathsep)
    if "VIRTUAL_ENV" in os.environ:
        there = [path for path in there if path != f"{os.environ['VIRTUAL_ENV']}/bin"]
    return own | {"PATH": os.pathsep.join(there), "XDG_CACHE_HOME": str(folder)}


def timed(folder: Path) -> Iterator[tuple[str, float]]:
    """Each line of the page, and after how many seconds it begins; last the end, as an empty line.

    Raises: subprocess.CalledProcessError: a line fails.
    """
    for name in ("empty", "beside", "cache"):
        (folder / name).mkdir()
    command = ["bash", "-c", script(PAGE, folder / "beside", {})]
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder / "empty", env=environment(folder / "cache"), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("== "):
                yield line.removeprefix("== ").rstrip(), time.monotonic() - began
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    yield "", time.monotonic() - began


def stages(found: list[tuple[str, float]]) -> dict[str, float]:
    """After how many seconds each stage is over, of the lines and when each begins."""
    ends = {}
    lines = iter(itertools.pairwise(found))
    for stage, beginning in STAGES.items():
        ends[stage] = next(end for (line, _), (_, end) in lines if line.startswith(beginning))
    return ends


def report(ends: Mapping[str, float], machine: Mapping[str, object]) -> str:
    """The page."""
    rows, before = [], 0.0
    for stage, end in ends.items():
        rows.append(f"| {stage} | {end - before:.0f} | {end:.0f} |")
        before = end
    load, cores = float(str(machine["load_average"])), int(str(machine["cores"]))
    shared = (
        f"Other programs were at work on the same cores (a load of {load} on {cores} before the start): these are\n"
        "upper bounds."
        if load > SHARED * cores
        else "Nothing else was at work."
    )
    return f"""# How long the ten minutes take

A program did what [Ten minutes](start.md) says, from an empty folder. `python -m docs_build.newcomer` wrote this page.
What you read and type comes on top.

| what you have | seconds for it | seconds from the start |
|---|---:|---:|
{chr(10).join(rows)}

pip's cache and the cache of compiled programs were empty. {shared}

{in_words(dict(machine))}.
"""


def main() -> None:
    """Time the page, and write the report."""
    machine = describe()
    with tempfile.TemporaryDirectory() as folder:
        ends = stages(list(timed(Path(folder))))
    REPORT.write_text(report(ends, machine), encoding="utf-8")
    print(REPORT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()

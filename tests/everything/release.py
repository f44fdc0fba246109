"""``python -m tests.everything.release``: build what a release consists of, install it elsewhere, and try it.

It prints a table, one column a Python, and writes it to docs/release.md. The Pythons are those on the PATH, or named by
``--python 3.13=PATH``; one that cannot be had is named in the table.
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from .environments import ENVIRONMENTS, ROOT, Unusable, interpreter, named_interpreter

VERSIONS = sorted({one.python for one in ENVIRONMENTS})
PAGE = ROOT / "docs" / "release.md"
SWEEP = ("sweep", "--seeds", "2", "--steps", "20", "--out", "two.nc")
TIMES = 5
HEAD = """# What a release consists of

`python -m tests.everything.release` wrote this page. It builds wheel and sdist, has `twine check` read them, and
installs both in fresh environments, outside of the checkout. A release needs a column for every Python. Times are the
processor's, which other programs on the machine hardly change, and the least of five processes.
"""


class Failed(Exception):
    """What did not work."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, install, try, and write the table; 0 if all Pythons were there and everything worked, else 1."""
    given = _parser().parse_args(arguments)
    columns: dict[str, dict[str, str]] = {}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            wheel, sdist = built(folder)
            for version in VERSIONS:
                try:
                    path, full = interpreter(version, dict(given.python))
                except Unusable as why:
                    missing[version] = str(why)
                    continue
                print(f"Python {full}", file=sys.stderr, flush=True)
                columns[full] = tried(Path(path), wheel, sdist, folder / version)
        except Failed as why:
            print(why, file=sys.stderr)
            return 1
    text = page(wheel.name, sdist.name, columns, missing)
    given.page.write_text(text, encoding="utf-8")
    print(text)
    return int(bool(missing))


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, which ``twine`` has checked.

    Raises: Failed: a tool of the packager's complains.
    """
    tools = folder / "tools"
    _run([sys.executable, "-m", "venv", tools], folder)
    _run([tools / "bin/pip", "install", "--quiet", "build", "twine"], folder)
    _run([tools / "bin/python", "-m", "build", "--outdir", folder / "dist", ROOT], folder)
    (wheel,), (sdist,) = ((folder / "dist").glob(pattern) for pattern in ("*.whl", "*.tar.gz"))
    _run([tools / "bin/twine", "check", "--strict", wheel, sdist], folder)
    return wheel, sdist


def tried(python: Path, wheel: Path, sdist: Path, folder: Path) -> dict[str, str]:
    """What a Python makes of the wheel, and then of the sdist, by the name of the row; it works in an empty folder.

    Raises: Failed: something ends with another exit code than 0, or says another version than the wheel's.
    """
    empty, own = folder / "empty", folder / "environment"
    empty.mkdir(parents=True)
    _run([python, "-m", "venv", own], empty)
    simlab = own / "bin" / "simlab"
    _run([own / "bin/pip", "install", "--quiet", wheel], empty)
    found = {
        "`simlab --version`": _run([simlab, "--version"], empty).strip(),
        "`simlab estimators`": f"{_estimators(_run([simlab, 'estimators'], empty))} estimators",
        f"`simlab {' '.join(SWEEP)}`": _takeaway(_run([simlab, *SWEEP], empty)),
        "`import simlab`, s": _least_time([own / "bin/python", "-c", "import simlab"], empty),
        "`simlab --help`, s": _least_time([simlab, "--help"], empty),
    }
    _run([own / "bin/pip", "install", "--quiet", "--force-reinstall", "--no-deps", sdist], empty)
    found["`simlab --version` of the sdist"] = _run([simlab, "--version"], empty).strip()
    version = wheel.name.split("-")[1]
    if wrong := [told for row, told in found.items() if "--version" in row and version not in told]:
        raise Failed(f"{wheel.name} says that it is {wrong[0]}")
    return found


def page(wheel: str, sdist: str, columns: Mapping[str, Mapping[str, str]], missing: Mapping[str, str]) -> str:
    """The page: what was built, one column a Python, and the Pythons that could not be had."""
    rows = list(next(iter(columns.values()), {}))
    lines = [
        f"| | {' | '.join(f'Python {version}' for version in columns)} |",
        f"|---|{'---|' * len(columns)}",
        *(f"| {row} | {' | '.join(own[row] for own in columns.values())} |" for row in rows),
    ]
    absent = [f"Not tried, Python {version}: {why}." for version, why in missing.items()]
    day = datetime.now(UTC).date().isoformat()
    return "\n".join([HEAD, f"`{wheel}` and `{sdist}`, {day}:", "", *lines, *("" for _ in absent[:1]), *absent, ""])


def _estimators(listed: str) -> int:
    """How many estimators a list names; its other lines are indented."""
    return len(re.findall(r"^\w+\(", listed, re.MULTILINE))


def _takeaway(printed: str) -> str:
    """The sentence that a sweep ends with.

    Raises: Failed: there is none.
    """
    if not (found := re.search(r"^in short: (.*)$", printed, re.MULTILINE)):
        raise Failed(f"the sweep says nothing in short: {printed[-500:]}")
    return found[1]


def _least_time(command: Sequence[str | Path], folder: Path) -> str:
    """The processor time of a command in seconds, the least of some."""
    seconds = []
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _run(command, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return f"{min(seconds):.2f}"


def _run(command: Sequence[str | Path], folder: Path) -> str:
    """What a command prints.

    Raises: Failed: it ends with another exit code than 0.
    """
    ran = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Failed(f"{' '.join(map(str, command))} ends with {ran.returncode}: {(ran.stderr or ran.stdout)[-2000:]}")
    return ran.stdout


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.everything.release")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        type=named_interpreter,
        metavar="VERSION=PATH",
        help="an interpreter, if it is not on the PATH; repeatable",
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="where the table is written (default docs/release.md)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

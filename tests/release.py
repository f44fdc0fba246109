"""Build wheel and sdist, install both elsewhere on every Python, try them, and write docs/release.md.

``python -m tests.release``; ``--python 3.13=PATH`` names an interpreter that is not on the PATH.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.everything import ENVIRONMENTS, ROOT, Unusable, add_interpreters, interpreter

PAGE = ROOT / "docs" / "release.md"
SWEEP = ("sweep", "--seeds", "2", "--steps", "20", "--out", "two.nc")
LARGEST_WHEEL = 2_000_000  # bytes


class Failed(Exception):
    """Name what did not work."""


def main() -> int:
    """Build, install, try, and write the page; return 0 if every Python was there and everything worked."""
    parser = argparse.ArgumentParser(prog="python -m tests.release")
    add_interpreters(parser)
    paths = dict(parser.parse_args().python)
    columns, missing = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            wheel, sdist = build(folder)
            for version in sorted({environment.python for environment in ENVIRONMENTS}):
                try:
                    columns[version] = try_out(interpreter(version, paths), wheel, sdist, folder / version)
                except Unusable as reason:
                    missing[version] = str(reason)
        except Failed as reason:
            print(reason, file=sys.stderr)
            return 1
        size = wheel.stat().st_size / 1e6
    PAGE.write_text(page(f"`{wheel.name}` ({size:.1f} MB) and `{sdist.name}`", columns, missing))
    return int(bool(missing))


def build(folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist, and have ``twine`` check both; the wheel stays below ``LARGEST_WHEEL``."""
    run([sys.executable, "-m", "venv", folder / "tools"], folder)
    run([folder / "tools/bin/pip", "install", "--quiet", "build", "twine"], folder)
    run([folder / "tools/bin/python", "-m", "build", "--outdir", folder / "dist", ROOT], folder)
    (wheel,), (sdist,) = ((folder / "dist").glob(pattern) for pattern in ("*.whl", "*.tar.gz"))
    run([folder / "tools/bin/twine", "check", "--strict", wheel, sdist], folder)
    if wheel.stat().st_size > LARGEST_WHEEL:
        raise Failed(f"{wheel.name} has {wheel.stat().st_size} bytes; allowed: {LARGEST_WHEEL}")
    return wheel, sdist


def try_out(python: str, wheel: Path, sdist: Path, folder: Path) -> dict[str, str]:
    """Install the wheel, run three commands in an empty folder, then install the sdist; return a row each."""
    empty, environment = folder / "empty", folder / "environment"
    empty.mkdir(parents=True)
    run([python, "-m", "venv", environment], empty)
    simlab, pip = environment / "bin/simlab", environment / "bin/pip"
    run([pip, "install", "--quiet", wheel], empty)
    listed = run([simlab, "estimators"], empty)
    ending = re.search(r"^in short: (.*)$", run([simlab, *SWEEP], empty), re.MULTILINE)
    names = re.findall(r"^\w+\(", listed, re.MULTILINE)
    rows = {
        "`simlab --version`": run([simlab, "--version"], empty).strip(),
        "`simlab estimators`": f"{len(names)} estimators",
        f"`simlab {' '.join(SWEEP)}`": ending[1] if ending else "",
    }
    run([pip, "install", "--quiet", "--force-reinstall", "--no-deps", sdist], empty)
    rows["the sdist's `simlab --version`"] = run([simlab, "--version"], empty).strip()
    version = wheel.name.split("-")[1]
    if not ending or any(version not in text for row, text in rows.items() if "--version" in row):
        raise Failed(f"{wheel.name} on {python}: {rows}")
    return rows


def page(built: str, columns: Mapping[str, Mapping[str, str]], missing: Mapping[str, str]) -> str:
    """Return the page: what was built, a column a Python, and the Pythons that could not be had."""
    rows = list(next(iter(columns.values()), {}))
    lines = [
        "# What a release consists of\n",
        "`python -m tests.release` wrote this page: it builds wheel and sdist, checks them with twine, and installs "
        "both in fresh environments outside of the checkout. A release needs a column for every Python.\n",
        f"{built}, {datetime.now(UTC).date()}:\n",
        f"| | {' | '.join(f'Python {version}' for version in columns)} |",
        f"|---|{'---|' * len(columns)}",
        *(f"| {row} | {' | '.join(column[row] for column in columns.values())} |" for row in rows),
        *(f"\nNot tried, Python {version}: {reason}." for version, reason in missing.items()),
    ]
    return "\n".join(lines) + "\n"


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command and return what it prints; raise ``Failed`` if it ends with another exit code than 0."""
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(
            f"{' '.join(map(str, command))} ends with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}"
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

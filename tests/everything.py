"""Run every test in every environment, and write what ran to tests/everything.md: ``python -m tests.everything``.

Each part is one call of pytest: the unmarked tests, those of one marker, or the slow tests of one file. A part that has
finished on the same files is not run again, so an interrupted command goes on where it stopped. With ``--mended`` one
that passed by the page is not run again either: mends are tried on the parts that failed, and the page says on
which commit each part ran.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "pyproject.toml"
TABLE = "tests/everything.md"
PACKAGES = (
    "jax",
    "numpy",
    "scipy",
    "xarray",
    "torch",
    "transformers",
    "trl",
    "verl",
    "distributed",
    "marimo",
    "pytest",
)


class Unusable(Exception):
    """Say why an environment cannot be had on this machine."""


@dataclass(frozen=True)
class Environment:
    """A Python with some extras of simlab, and the tests that run there.

    Attributes:
        markers: the markers whose tests run there, beside the unmarked tests.
        unmarked: False if only the tests of ``markers`` run there.
        slow: False if the slow tests do not run there; each runs in one environment, since they take hours.
        pins: requirements that narrow what pyproject.toml allows.
    """

    name: str
    python: str
    extras: tuple[str, ...]
    markers: tuple[str, ...] = ()
    unmarked: bool = True
    slow: bool = True
    pins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The result of a part on a commit; ``ended`` is empty if pytest ended by itself."""

    part: str
    passed: int
    failed: tuple[str, ...]
    skipped: int
    seconds: float
    ended: str = ""
    commit: str = ""


def oldest(package: str) -> str:
    """Return the oldest version of a dependency that pyproject.toml allows, as a pin.

    >>> oldest("numpy")
    'numpy==2.1'
    """
    requirements = "\n".join(tomllib.loads(PROJECT.read_text())["project"]["dependencies"])
    return f"{package}=={re.search(rf'^{package}>=([0-9.]+)', requirements, re.MULTILINE)[1]}"


WITHOUT_TORCH = ("test", "dask", "browser", "docs", "jupyter", "math-verify", "reasoning-gym", "tensorboard", "wandb")
WITH_PAGES = ("dask", "browser", "docs", "notebooks")
ENGINES = ("torch", "transformers", "trl")
ENVIRONMENTS = (
    Environment("python3.11", "3.11", (*WITHOUT_TORCH, *ENGINES), (*WITH_PAGES, "proofs", "fresh", *ENGINES)),
    Environment("python3.11-verl", "3.11", ("test", "torch", "verl"), ("verl",), unmarked=False),
    Environment("python3.12", "3.12", WITHOUT_TORCH, WITH_PAGES, slow=False),
    Environment("python3.12-oldest-jax", "3.12", ("test",), slow=False, pins=(oldest("jax"),)),
    Environment("python3.13", "3.13", WITHOUT_TORCH, WITH_PAGES, slow=False),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts and write the table; return 0 if all that was asked for ran and passed, else 1."""
    options = _parser().parse_args(arguments)
    tree = checkout()
    results = options.folder / "results" / tree
    results.mkdir(parents=True, exist_ok=True)
    outcomes, versions = read_page(options.table) if options.mended else ({}, {})
    passed = {name for name, outcome in outcomes.items() if not outcome.failed and not outcome.ended}
    chosen, missing = [], {}
    for environment in ENVIRONMENTS:
        patterns = options.only or ["*"]
        if not any(fnmatch(environment.name, pattern.split("/")[0]) for pattern in patterns):
            continue
        try:
            python = make(environment, dict(options.python), options.folder / "environments")
        except Unusable as reason:
            missing[environment.name] = str(reason)
            print(f"{environment.name} did not run: {reason}", file=sys.stderr, flush=True)
            continue
        versions[environment.name] = package_versions(python)
        for name, pytest_arguments in list_parts(environment, python):
            if not any(fnmatch(name, pattern) or fnmatch(name, f"{pattern}/*") for pattern in patterns):
                continue
            chosen.append(name)
            if name in passed:
                continue
            outcomes[name] = run(name, python, pytest_arguments, results, options.limit)
            if checkout() != tree:
                print("the checkout changed: this part does not count; start again", file=sys.stderr)
                return 1
            options.table.write_text(table(outcomes.values(), missing, versions))
    if not options.only:  # leave out parts that are no more
        outcomes = {name: outcomes[name] for name in chosen}
    options.table.write_text(table(outcomes.values(), missing, versions))
    return int(not chosen or bool(missing) or any(outcomes[name].failed or outcomes[name].ended for name in chosen))


def checkout(root: Path = ROOT) -> str:
    """Return git's hash of the files as they are, without the table; untracked files count unless they are ignored."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        for command in (["read-tree", "HEAD"], ["add", "--all"], ["rm", "--cached", "-q", "--ignore-unmatch", TABLE]):
            subprocess.run(["git", *command], cwd=root, env=environment, check=True, capture_output=True)
        written = subprocess.run(
            ["git", "write-tree"], cwd=root, env=environment, check=True, capture_output=True, text=True
        )
    return written.stdout.strip()


def interpreter(version: str, paths: dict[str, str]) -> str:
    """Return the path of a Python of this version, from ``paths`` or the PATH; raise ``Unusable`` if there is none."""
    path = paths.get(version) or shutil.which(f"python{version}")
    if path is None:
        raise Unusable(f"no python{version} on the PATH; name one by --python {version}=PATH")
    try:
        printed = subprocess.run([path, "-V"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        raise Unusable(f"python{version} does not start; name another by --python {version}=PATH") from None
    if not printed.startswith(f"Python {version}."):
        raise Unusable(f"{path} is {printed.strip()}, not Python {version}")
    return path


def make(environment: Environment, paths: dict[str, str], folder: Path) -> Path:
    """Make an environment, or take the one that an earlier call made of the same requirements and checkout."""
    base = interpreter(environment.python, paths)
    definition = f"{environment}{ROOT}{PROJECT.read_text()}"
    home, record = folder / environment.name, folder / f"{environment.name}.hash"
    python, digest = home / "bin" / "python", hashlib.sha256(definition.encode()).hexdigest()
    if python.exists() and record.exists() and record.read_text() == digest:
        return python
    print(f"making {environment.name}", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    packages = [f"{ROOT}[{','.join(environment.extras)}]", *environment.pins]
    for command in ([base, "-m", "venv", home], [python, "-m", "pip", "install", "-q", "-e", *packages]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unusable(f"{environment.name} cannot be made: {(done.stderr.splitlines() or ['?'])[-1]}")
    record.write_text(digest)
    return python


def package_versions(python: Path) -> str:
    """List the versions of Python and of the packages that decide what a test does."""
    program = (
        "import importlib.metadata as m, platform, sys\n"
        "versions = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print('python', platform.python_version(), *(f', {n} {versions[n]}' for n in sys.argv[1:] if n in versions))"
    )
    printed = subprocess.run([python, "-c", program, *PACKAGES], capture_output=True, text=True, check=True).stdout
    return printed.strip().replace(" ,", ",")


def list_parts(environment: Environment, python: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and pytest's arguments of each part of an environment."""
    markers = tomllib.loads(PROJECT.read_text())["tool"]["pytest"]["ini_options"]["markers"]
    others = [name for line in markers if (name := line.partition(":")[0]) not in {"slow", *environment.markers}]
    if environment.unmarked:
        yield f"{environment.name}/unmarked", []
    for marker in environment.markers:
        yield f"{environment.name}/{marker}", ["-m", f"{marker} and not slow", "--dist", "load"]
    if environment.slow:
        allowed = " and ".join(["slow", *(f"not {name}" for name in others)])
        chosen = allowed if environment.unmarked else f"slow and ({' or '.join(environment.markers)})"
        for path in _files(python, chosen):
            yield f"{environment.name}/slow/{path}", ["-m", chosen, path, "--dist", "load"]


def _files(python: Path, expression: str) -> list[str]:
    """List the files that have tests which an expression of markers selects."""
    command = [python, "-m", "pytest", "--collect-only", "-qq", "-n", "0", "-m", expression]
    printed = subprocess.run(command, cwd=ROOT, env=_variables(), capture_output=True, text=True, check=False).stdout
    return sorted(match[1] for match in re.finditer(r"^(\S+\.py): \d+$", printed, re.MULTILINE))


def _variables() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def head() -> str:
    """Return the short name of the commit that is checked out."""
    git = ["git", "log", "-1", "--format=%h"]
    return subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def read_page(page: Path) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Read the outcome of each part and the versions of each environment off a page that ``table`` wrote."""
    text = page.read_text() if page.exists() else ""
    failures = re.findall(r"^- failed in (\S+): `(.*)`$", text, re.MULTILINE)
    outcomes = {}
    for row in re.findall(r"^\| (\S+/\S+) \|(.*)\|$", text, re.MULTILINE):
        passed, _, skipped, seconds, commit, ended = (cell.strip() for cell in row[1].split("|"))
        failed = tuple(test for part, test in failures if part == row[0])
        outcomes[row[0]] = Outcome(row[0], int(passed), failed, int(skipped), float(seconds), ended, commit)
    return outcomes, dict(re.findall(r"^- (\S+): (python .*)$", text, re.MULTILINE))


def _record(name: str) -> str:
    return f"{name.replace('/', '--')}.json"


def run(name: str, python: Path, arguments: Sequence[str], results: Path, limit: float) -> Outcome:
    """Run a part, or return its earlier outcome on the same files."""
    record = results / _record(name)
    if record.exists():
        return Outcome(**json.loads(record.read_text()))
    report, began = record.with_suffix(".xml"), time.monotonic()
    command = [python, "-m", "pytest", *arguments, f"--junitxml={report}"]
    with record.with_suffix(".log").open("w") as log:
        try:
            code = subprocess.run(
                command, cwd=ROOT, env=_variables(), stdout=log, stderr=log, timeout=limit, check=False
            ).returncode
            ended = "" if code in {0, 1, 5} else f"ended with exit code {code}"  # passed, failed, no tests
        except subprocess.TimeoutExpired:
            ended = f"ended after {limit:.0f} s, its limit"
    passed, failed, skipped = (0, (), 0) if ended else count(report)
    outcome = Outcome(name, passed, failed, skipped, time.monotonic() - began, ended, head())
    if not ended:
        record.write_text(json.dumps(asdict(outcome)))
    print(f"{name}: {ended or f'{passed} passed, {len(failed)} failed'}", file=sys.stderr, flush=True)
    return outcome


def count(report: Path) -> tuple[int, tuple[str, ...], int]:
    """Count the tests of pytest's report: passed, the names of those that failed, skipped."""
    passed, failed, skipped = 0, [], 0
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        tags = {child.tag for child in case}
        if tags & {"failure", "error"}:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in tags:
            skipped += 1
        else:
            passed += 1
    return passed, tuple(failed), skipped


def table(outcomes: Collection[Outcome], missing: dict[str, str], versions: dict[str, str]) -> str:
    """Return the Markdown page: what ran, on which commit, what failed, and what could not be had."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"
    passed, failed = sum(outcome.passed for outcome in outcomes), sum(len(outcome.failed) for outcome in outcomes)
    lines = [
        "# Every test, in every environment\n",
        f"Written by `python -m tests.everything` on {datetime.now(UTC):%Y-%m-%d}, commit {head()}, on "
        f"{machine}: {passed} passed, {failed} failed in {len(outcomes)} parts.\n",
        *(f"- {name}: {text}" for name, text in versions.items()),
        *(f"- {name}: **did not run**: {reason}" for name, reason in missing.items()),
        "\n| part | passed | failed | skipped | seconds | commit | |\n|---|---|---|---|---|---|---|",
        *(
            f"| {outcome.part} | {outcome.passed} | {len(outcome.failed)} | {outcome.skipped} "
            f"| {outcome.seconds:.0f} | {outcome.commit} | {outcome.ended} |"
            for outcome in outcomes
        ),
        "",
        *(f"- failed in {outcome.part}: `{test}`" for outcome in outcomes for test in outcome.failed),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.everything", description="Run every test.")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="environments or parts, * for any")
    add_interpreters(parser)
    parser.add_argument("--mended", action="store_true", help="run only parts that have not passed by the page")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="for each part (3600)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".everything", help="environments and results")
    parser.add_argument("--table", type=Path, default=ROOT / TABLE, help=f"the page to write ({TABLE})")
    return parser


def add_interpreters(parser: argparse.ArgumentParser) -> None:
    """Add the option that names interpreters which are not on the PATH."""

    def named(text: str) -> tuple[str, str]:
        version, _, path = text.partition("=")
        return version, path

    parser.add_argument("--python", action="append", default=[], type=named, metavar="VERSION=PATH")


if __name__ == "__main__":
    sys.exit(main())

"""The command: ``python -m tests.everything``."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from .environments import ENVIRONMENTS, ROOT, Environment, Unusable, made, named_interpreter
from .parts import Part, parts
from .running import ending_on_signals, outcome_of, run_all
from .table import table

TABLE = "tests/everything.md"


def main(arguments: Sequence[str] | None = None, environments: Sequence[Environment] = ENVIRONMENTS) -> int:
    """Make the environments, run their parts, write the table; 0 if all that was asked for ran and passed, else 1."""
    given = _parser().parse_args(arguments)
    wanted = _chosen(environments, given.only)
    tree = checkout()
    results = given.folder / "results" / tree
    versions: dict[str, dict[str, str]] = {}
    missing: dict[str, str] = {}
    found: list[Part] = []
    for environment in wanted:
        try:
            python, versions[environment.name] = made(environment, dict(given.python), given.folder / "environments")
            found += parts(environment, python)
        except Unusable as why:
            missing[environment.name] = str(why)
            print(f"{environment.name}: {why}", file=sys.stderr)
    chosen = [part for part in found if _matches(part.name, given.only)]
    if given.list:
        print("\n".join(f"{part.name}  {_state(part.name, results)}" for part in chosen))
        return 0
    try:
        with ending_on_signals():
            run_all(chosen, results, given.limit, given.jobs, unchanged=lambda: checkout() == tree)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
    outcomes = [told for part in found if (told := outcome_of(part.name, results))]
    ran = {one.part for one in outcomes}
    waiting = [part.name for part in found if part.name not in ran]
    given.table.write_text(table(_commit(), versions, missing, outcomes, waiting))
    print(f"wrote {given.table}", file=sys.stderr)
    asked = {part.name for part in chosen}
    passed = {one.part for one in outcomes if one.done and not one.failed}
    return int(bool(missing) or not asked <= passed)


def checkout(root: Path = ROOT) -> str:
    """The name that git gives to the files of a checkout as they are, but for the table.

    Tracked files and untracked ones that are not ignored count; a commit of other words and the same files does not.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        _git(root, "read-tree", "HEAD", **index)
        _git(root, "add", "--all", **index)
        _git(root, "rm", "--cached", "--quiet", "--ignore-unmatch", TABLE, **index)
        return _git(root, "write-tree", **index)


def _commit() -> str:
    """The commit as a person names it."""
    changed = _git(ROOT, "status", "--porcelain", "--", ".", f":!{TABLE}")
    return f"commit {_git(ROOT, 'rev-parse', '--short=12', 'HEAD')}" + (" with uncommitted changes" if changed else "")


def _git(root: Path, *arguments: str, **variables: str) -> str:
    told = subprocess.run(
        ["git", *arguments], cwd=root, env=os.environ | variables, capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def _chosen(environments: Sequence[Environment], patterns: list[str]) -> list[Environment]:
    """The environments of which some part may match; a name that matches none is an error."""
    for pattern in patterns:
        if not any(fnmatch(one.name, pattern.split("/")[0]) for one in environments):
            names = ", ".join(one.name for one in environments)
            _refuse(f"--only {pattern} names no environment; there are {names}")
    return [one for one in environments if not patterns or any(fnmatch(one.name, p.split("/")[0]) for p in patterns)]


def _matches(part: str, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch(part, pattern) or fnmatch(part, f"{pattern}/*") for pattern in patterns)


def _state(part: str, results: Path) -> str:
    told = outcome_of(part, results)
    if told is None:
        return "has not run"
    return told.ended or ("failed" if told.failed else "passed")


def _parser() -> argparse.ArgumentParser:
    purpose = "Run every test: the slow ones once, the others on every Python."
    parser = _Parser(prog="python -m tests.everything", description=purpose)
    parser.add_argument("--list", action="store_true", help="say which parts there are, and what each came to")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PART",
        help="environments or parts, with * for any; repeatable",
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        type=named_interpreter,
        metavar="VERSION=PATH",
        help="an interpreter; repeatable",
    )
    parser.add_argument("--jobs", type=_at_least_one, default=os.cpu_count(), metavar="N", help="processes at a time")
    parser.add_argument("--limit", type=_at_least_one, default=3600, metavar="SECONDS", help="for each part (3600)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".everything", help="what it keeps (.everything)")
    parser.add_argument("--table", type=Path, default=ROOT / TABLE, help=f"the table to write ({TABLE})")
    return parser


class _Parser(argparse.ArgumentParser):
    """One line for bad input, as simlab's own command has it."""

    def error(self, message: str) -> None:  # type: ignore[override]
        _refuse(message)


def _refuse(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def _at_least_one(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())

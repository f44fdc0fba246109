"""Break the library line by line, and count how many breaks its tests notice: ``python -m benchmarks.mutants``.

Each mutant changes one operator, comparison or number on one line, and the tests of its subject run until one fails.
Lines are chosen by a seeded hash of their text, so two versions of the library that share a line share its mutant.
"""

import argparse
import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIMIT = 3600  # seconds for the tests of one mutant; one that makes them hang counts as noticed
OPERATORS = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.And: (" and ", " or "), ast.Or: (" or ", " and "),
}  # fmt: skip


class Subject(NamedTuple):
    """A part of the library: how many mutants it gets, its files, and the tests that should notice them."""

    count: int
    sources: tuple[str, ...]
    tests: tuple[str, ...]


class Mutant(NamedTuple):
    """A change of one line of a file."""

    path: str
    line: int
    before: str
    after: str


SIMULATOR_TESTS = (
    "test_update.py", "test_simulator_enumeration.py", "test_lumped.py", "test_sampling.py", "test_counts.py",
    "test_storage*.py", "test_off_policy.py", "test_allocation.py", "test_verifier.py", "test_problem_contract.py",
)  # fmt: skip
STORAGE = ("lumped", "storage", "sampling")
LEARNER = ("learner", "draw", "weigh", "ascend", "allocation")
SUBJECTS = {
    "estimators": Subject(5, ("simlab/estimators/*.py",), ("test_estimators_*.py",)),
    "storage": Subject(5, tuple(f"simlab/simulator/{name}.py" for name in STORAGE), SIMULATOR_TESTS),
    "learner": Subject(5, tuple(f"simlab/simulator/{name}.py" for name in LEARNER), SIMULATOR_TESTS),
    "masses": Subject(
        4, ("simlab/theory/masses.py", "simlab/theory/closed_forms.py", "simlab/theory/tail_miss.py"),
        ("test_masses.py", "test_tail_miss.py", "test_redistribution.py"),
    ),
    "statistics": Subject(
        4, ("simlab/diagnose/*.py", "simlab/llm/instruments/significance.py"),
        ("test_diagnose_*.py", "test_instruments*.py"),
    ),
    "resume": Subject(
        3, ("simlab/sweeps/run.py", "simlab/llm/training/folder.py"),
        ("test_sweep*.py", "test_llm_training_*.py"),
    ),
    "trainer's gradient": Subject(
        4, ("simlab/llm/training/gradient.py", "simlab/llm/training/policy_gradient.py"),
        ("test_llm_training_gradient.py", "test_llm_training_step.py"),
    ),
}  # fmt: skip


def changes(path: Path, name: str) -> Iterator[Mutant]:
    """Yield the mutants of a file: of code that runs, not of annotations, messages or module constants."""
    text = path.read_text()
    lines = text.splitlines()
    for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)):
        skipped = {
            id(inner)
            for node in ast.walk(function)
            for field in ("annotation", "returns", "exc", "msg")
            if isinstance(child := getattr(node, field, None), ast.AST)
            for inner in ast.walk(child)
        }
        for node in ast.walk(function):
            if id(node) not in skipped and (mutant := _change(node, lines, name)):
                yield mutant


def _change(node: ast.AST, lines: list[str], name: str) -> Mutant | None:
    """Return the mutant of a node, if it is an operation or a number on one line."""
    if isinstance(node, ast.BinOp):
        before, after, kind = node.left, node.right, type(node.op)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        before, after, kind = node.left, node.comparators[0], type(node.ops[0])
    elif isinstance(node, ast.BoolOp):
        before, after, kind = node.values[0], node.values[1], type(node.op)
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.end_col_offset is not None:
        line = lines[node.lineno - 1]
        after_text = line[: node.col_offset] + str(node.value + 1) + line[node.end_col_offset :]
        return Mutant(name, node.lineno, line, after_text)
    else:
        return None
    if kind not in OPERATORS or before.end_lineno != after.lineno or before.end_col_offset is None:
        return None
    line, (old, new) = lines[after.lineno - 1], OPERATORS[kind]
    between = line[before.end_col_offset : after.col_offset]
    if not line.isascii() or old not in between:
        return None
    changed = line[: before.end_col_offset] + between.replace(old, new, 1) + line[after.col_offset :]
    return Mutant(name, after.lineno, line, changed)


def chosen(checkout: Path, subject: Subject, seed: int) -> list[Mutant]:
    """Choose the mutants of a subject: one a line, in the order of seeded hashes of their text."""
    paths = sorted({path for pattern in subject.sources for path in checkout.glob(pattern)})
    files = [file for path in paths for file in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    mutants = [mutant for file in files for mutant in changes(file, str(file.relative_to(checkout)))]

    def order(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed}{mutant.before.strip()}{mutant.after.strip()}".encode()).hexdigest()

    by_line = {}
    for mutant in sorted(mutants, key=order):
        by_line.setdefault((mutant.path, mutant.line), mutant)
    return list(by_line.values())[: subject.count]


def is_noticed(checkout: Path, mutant: Mutant, tests: list[str]) -> bool:
    """Return True if a test fails with the mutant in place."""
    path = checkout / mutant.path
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    lines[mutant.line - 1] = mutant.after + "\n"
    path.write_text("".join(lines))
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(text)
    return done.returncode != 0


def main() -> int:
    """Print each mutant and whether it was noticed, and the count of those that were."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--subject", choices=SUBJECTS, action="append")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    options = parser.parse_args()
    noticed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(options.checkout, copy, ignore=shutil.ignore_patterns(".git", ".everything", "__pycache__"))
        for name in options.subject or SUBJECTS:
            subject = SUBJECTS[name]
            # In the order of the patterns, since a test that is likely to notice should come first.
            tests = [str(path) for pattern in subject.tests for path in sorted((copy / "tests").glob(pattern))]
            for mutant in chosen(copy, subject, options.seed):
                began = time.monotonic()
                result = None if options.list else is_noticed(copy, mutant, list(dict.fromkeys(tests)))
                noticed, total = noticed + bool(result), total + 1
                verdict = {None: "", True: "noticed", False: "SURVIVES"}[result]
                print(f"{name}: {mutant.path}:{mutant.line} {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
                print(f"    {mutant.before.strip()}\n    {mutant.after.strip()}", flush=True)
    print(f"{noticed} of {total} mutants noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

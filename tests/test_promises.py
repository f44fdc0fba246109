"""Each sentence of docs/promises.md names the tests that hold it, and they are there."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "promises.md").read_text()
NAMED = re.findall(r"`((?:attacks/)?test_\w+\.py)::(test_\w+)`", PAGE)


def test_every_test_that_is_named_exists():
    assert len(NAMED) > 50
    functions = {
        name: {node.name for node in ast.parse((TESTS / name).read_text()).body if isinstance(node, ast.FunctionDef)}
        for name, _ in NAMED
    }
    assert [(name, test) for name, test in NAMED if test not in functions[name]] == []


def test_every_statement_names_a_test():
    statements = re.split(r"^- ", PAGE.split("## What is not promised")[0], flags=re.MULTILINE)[1:]
    assert [text for text in statements if "::test_" not in text and "slurm.md" not in text] == []


def test_every_file_of_attacks_is_named():
    files = {f"attacks/{path.name}" for path in (TESTS / "attacks").glob("test_*.py")}
    assert files == {name for name, _ in NAMED if name.startswith("attacks/")}

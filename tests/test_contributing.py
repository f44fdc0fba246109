"""Files, names, links and commands in CONTRIBUTING.md, docs/architecture.md and docs/promises.md exist."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from simlab import cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md", ROOT / "docs" / "promises.md"]
FILE = re.compile(r"[\w.-]+(/[\w.-]*)*\.(py|md|toml|json)(::[\w.]+)?|[\w.-]+/([\w.-]+/?)*")
MODULE = re.compile(r"simlab(\.\w+)+")
KINDS = [
    "estimator",
    "surrogate",
    "metric",
    "problem",
    "figure",
    "claim",
    "proof",
    "language task",
    "option of a sweep",
]


def names(text: str) -> list[str]:
    """Return the files and modules in backticks outside of code blocks; the rest are commands, options and words."""
    quoted = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    joined = [" ".join(words.split()) for words in quoted]
    return [
        name for name in joined if not name.startswith("mine.py") and (FILE.fullmatch(name) or MODULE.fullmatch(name))
    ]


def exists(name: str) -> bool:
    """Return True if a file defines the names after ``::``, or a module can be imported."""
    if MODULE.fullmatch(name):
        module, _, attribute = name.rpartition(".")
        try:
            return hasattr(importlib.import_module(module), attribute) or bool(importlib.import_module(name))
        except ModuleNotFoundError:
            return False
    path, _, inside = name.partition("::")
    if not (ROOT / path).exists():
        return False
    body = ast.parse((ROOT / path).read_text()).body if inside else []
    for word in filter(None, inside.split(".")):
        nodes = [node for node in body if word in defined(node)]
        if not nodes:
            return False
        body = getattr(nodes[0], "body", [])
    return True


def defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_name_and_link_of_a_page_exists(page):
    text = page.read_text()
    assert len(names(text)) > 10
    assert [name for name in names(text) if not exists(name)] == []
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not link.startswith("http")]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "name", ["simlab/nowhere.py", "simlab/problems/base.py::Problem.nothing", "simlab.nowhere.Nothing"]
)
def test_a_name_that_does_not_exist_is_noticed(name):
    assert names(f"See `{name}`.") == [name]
    assert not exists(name)


def test_there_is_a_recipe_for_each_kind_of_change_and_its_commands_are_understood():
    text = PAGES[0].read_text()
    assert re.findall(r"^### An? ([^\n]+)$", text, re.MULTILINE) == KINDS
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("simlab ")]
    assert len(commands) >= 3
    for command in commands:
        assert cli.build_parser()[0].parse_args(command).run

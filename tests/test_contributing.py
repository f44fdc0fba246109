"""CONTRIBUTING.md has a recipe for each kind of change, and what its recipes and the architecture name is there."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from simlab import cli

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
KINDS = ["estimator", "surrogate", "metric", "problem", "figure", "claim", "language task", "option of a sweep"]
RECIPES = dict(re.findall(r"^### An? ([^\n]+)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PATH = re.compile(r"[\w.-]+(/[\w.-]*)*\.(py|md|toml|json)(::[\w.]+)?|[\w.-]+/([\w.-]+/?)*")
DOTTED = re.compile(r"simlab(\.\w+)+")


def quoted(text: str) -> list[str]:
    """What stands in backticks outside of code blocks, perhaps over the end of a line."""
    return [" ".join(one.split()) for one in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))]


def named(text: str) -> list[str]:
    """The files, folders and names among what is quoted; others are commands, options and words."""
    return [
        one for one in quoted(text) if not one.startswith("mine.py") and (PATH.fullmatch(one) or DOTTED.fullmatch(one))
    ]


def fault(name: str) -> str:
    """What is wrong with a name; empty if it exists."""
    if DOTTED.fullmatch(name):
        return "" if imported(name) else f"{name} cannot be imported"
    path, _, inside = name.partition("::")
    if not (ROOT / path).exists():
        return f"{path} does not exist"
    body = ast.parse((ROOT / path).read_text()).body if inside else []
    for part in filter(None, inside.split(".")):
        found = [node for node in body if part in defined(node)]
        if not found:
            return f"{path} defines no {inside}"
        body = getattr(found[0], "body", [])
    return ""


def imported(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute) or bool(importlib.import_module(name))
    except ModuleNotFoundError:
        return False


def defined(node: ast.stmt) -> set[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def line_of(recipe: str, label: str) -> str:
    """The item of a recipe with this label."""
    found = re.search(rf"^- \*\*{label}\*\*: (.*?)(?=^- |^$)", recipe, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def test_there_is_a_recipe_for_each_kind_of_change():
    assert list(RECIPES) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_recipe_touches_at_most_three_files_and_has_an_example(kind):
    touched = {name.partition("::")[0] for name in named(line_of(RECIPES[kind], "Touch"))}
    assert 1 <= len(touched) <= 3
    assert named(line_of(RECIPES[kind], "Test"))
    assert named(line_of(RECIPES[kind], "Example"))


def test_all_that_the_recipes_name_is_there():
    names = named(PAGE)
    assert len(names) > 50
    assert [fault(name) for name in names if fault(name)] == []


def test_all_that_the_architecture_names_is_there():
    names = named(ARCHITECTURE)
    assert len(names) > 20
    assert [fault(name) for name in names if fault(name)] == []


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("simlab/estimators/nowhere.py", "simlab/estimators/nowhere.py does not exist"),
        ("figures/nowhere/", "figures/nowhere/ does not exist"),
        ("simlab/problems/base.py::Nothing", "simlab/problems/base.py defines no Nothing"),
        ("simlab/problems/base.py::Problem.nothing", "simlab/problems/base.py defines no Problem.nothing"),
        ("simlab.errors.Nothing", "simlab.errors.Nothing cannot be imported"),
        ("simlab.nowhere.Nothing", "simlab.nowhere.Nothing cannot be imported"),
    ],
)
def test_what_is_not_there_is_found(name, complaint):
    assert named(f"See `{name}`.") == [name]
    assert fault(name) == complaint


def test_links_lead_to_files():
    for text, folder in ((PAGE, ROOT), (ARCHITECTURE, ROOT / "docs")):
        links = re.findall(r"\]\(([^)#]+)\)", text)
        assert links
        assert [link for link in links if not (folder / link).exists()] == []


def test_the_commands_are_understood():
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("simlab ")]
    assert len(commands) == 3
    for command in commands:
        assert cli._parser().parse_args(command).run

"""Imports that the library makes."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OFFERED = [
    *("InputError", "Method", "Rollouts", "Settings", "advantages", "arms", "chain", "estimator", "estimators"),
    *("method", "problems", "simulate", "surrogates", "sweep", "theory"),
]
MODULES = ["simlab", "simlab.arms", "simlab.estimators", "simlab.surrogates", "simlab.theory", "simlab.llm.tasks"]


@pytest.mark.parametrize("module", MODULES)
def test_neither_jax_nor_torch_is_imported(module: str) -> None:
    program = f"import sys, {module}; print(sorted({{'jax', 'torch', 'simlab.llm.model'}} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.slow
def test_simulate_and_sweep_are_functions_of_the_library_whatever_is_imported_before() -> None:
    program = (
        "import inspect, sys, simlab;"
        "print(sorted({'jax', 'torch'} & set(sys.modules)), end=' ');"
        "first = simlab.simulate, simlab.sweep;"
        "import simlab.simulator.runner, simlab.sweeps.run;"
        "assert first == (simlab.simulate, simlab.sweep) and 'optax' not in sys.modules;"
        "print(*(next(iter(inspect.signature(function).parameters)) for function in first))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[] problem arms\n"


def test_the_library_lists_what_it_offers_and_offers_what_it_lists() -> None:
    program = (
        "import sys, simlab;"
        "listed = set(dir(simlab)) - {'__doc__', '__version__'};"
        "assert listed == set(simlab.__all__) and 'jax' not in sys.modules;"
        "assert all(getattr(simlab, name) is not None for name in listed);"
        "from simlab import *;"
        "print(sorted(listed), simulate.__name__.rpartition('.')[2], problems.anchored(9, 2).actions)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == f"{OFFERED} simulate 9\n"


LIBRARY = Path(__file__).parent.parent / "simlab"
LAYERS = (LIBRARY.parent / "docs" / "architecture.md").read_text().partition("## Who may import whom")[2]
LAYER = {
    name: int(number)
    for number, names in re.findall(r"^(\d)\. ([^\n]+)", LAYERS.partition("## Words")[0], re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
}


def imported_at_once(body: list[ast.stmt]) -> Iterator[str]:
    """The part of the library, such as ``estimators``, of each import that runs when a module is loaded."""
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "simlab":
            whole = [node.module] if "." in node.module else [f"simlab.{alias.name}" for alias in node.names]
            yield from (name.split(".")[1] for name in whole)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if not isinstance(node, ast.FunctionDef):
            yield from imported_at_once([inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)])


def upward(uses: dict[str, set[str]]) -> list[str]:
    """List imports of a part from a part on a lower line; a part that the page does not name is groundwork."""
    return [f"{user} imports {base}" for user in uses for base in uses[user] if LAYER.get(base, 1) > LAYER.get(user, 1)]


def test_no_module_imports_from_a_line_further_down_in_the_architecture() -> None:
    uses: dict[str, set[str]] = {}
    for path in LIBRARY.rglob("*.py"):
        user = path.relative_to(LIBRARY).parts[0].removesuffix(".py")
        if user != "__init__":
            uses.setdefault(user, set()).update(imported_at_once(ast.parse(path.read_text()).body))
    assert len(LAYER) > 15
    assert set(LAYER) <= set(uses)
    assert LAYER["llm"] > LAYER["simulator"] > LAYER["arms"] > LAYER["surrogates"] > LAYER["estimators"]
    assert "estimators" in uses["surrogates"]
    assert upward(uses) == []
    assert upward({"estimators": {"simulator"}, "errors": {"arms"}}) == [
        "estimators imports simulator",
        "errors imports arms",
    ]


def test_the_base_of_problems_knows_no_simulator_and_the_simulator_no_problem() -> None:
    base = ast.parse((LIBRARY / "problems" / "base.py").read_text()).body
    assert "simulator" not in set(imported_at_once(base))
    known = {
        node.module
        for path in (LIBRARY / "simulator").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("simlab.problems")
    }
    assert "simlab.problems.base" in known
    assert known <= {"simlab.problems.base", "simlab.problems.exact", "simlab.problems.tree_paths"}

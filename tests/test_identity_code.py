"""The fingerprint of the library's code: every module that makes a number counts, and no other."""

import ast
import shutil
import subprocess
import sys

import pytest
from sweep_cases import TINY, command

from simlab.identity import versions
from simlab.identity.code import SWEEP, TRAINING, closure, code_fingerprint, read, sources_fingerprint
from simlab.identity.versions import NUMERIC, PACKAGE
from simlab.sweeps.result import read as read_result
from simlab.sweeps.run import parts_folder

REACHED = {"sweep": closure(SWEEP), "training": closure(TRAINING)}
ENTRIES = {"sweep": SWEEP, "training": TRAINING}
# Of what the closures import, what only writes, shows or describes numbers; packages of simlab's extras name themselves
# in ``run.json``.
NOT_NUMERIC = {"h5py", "xarray", "tqdm", "jaxtyping", "simlab"}
OF_TRL = {"datasets", "torch", "transformers", "trl"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package, to be edited."""
    folder = tmp_path_factory.mktemp("copied") / "simlab"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def fingerprint(folder, entries=SWEEP):
    return sources_fingerprint(closure(entries, folder))


def path_of(folder, name):
    place = folder.joinpath(*name.split(".")[1:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def edited(folder, name, edit, entries=SWEEP):
    """The fingerprint while a module of the copy has another source."""
    path = path_of(folder, name)
    before = path.read_text()
    path.write_text(edit(before))
    try:
        return fingerprint(folder, entries)
    finally:
        path.write_text(before)


def other_constant(source):
    """The source with another value of its last number or text, or with one more where it has none."""

    class Change(ast.NodeTransformer):
        changed = False

        def visit(self, node):
            for child in reversed([*ast.iter_child_nodes(node)]):
                self.visit(child)
            is_other = isinstance(node, ast.Constant) and type(node.value) in (int, float, str)
            if is_other and not self.changed and not (isinstance(node.value, str) and " " in node.value):
                node.value = node.value * 2 + type(node.value)(1)
                self.changed = True
            return node

    tree, change = ast.parse(source), Change()
    change.visit(tree)
    return ast.unparse(tree) + ("" if change.changed else "\nONE = 1")


@pytest.mark.slow
def test_every_module_of_the_closure_counts(copy):
    before = fingerprint(copy)
    assert before == sources_fingerprint(REACHED["sweep"])
    for name in sorted(REACHED["sweep"]):
        assert edited(copy, name, lambda source: source + "\nONE_MORE = 1\n") != before, name


@pytest.mark.parametrize(
    "name",
    [
        "theory.masses", "theory.covariance", "sweeps.grid", "sweeps.run", "sweeps.plan", "sweeps.executor",
        "sweeps.store", "order_statistics", "rollouts", "estimators.difficulty", "simulator.sampling",
        "problems.categorical", "surrogates.clip", "simulator.head_metrics", "simulator.lumped", "simulator.recording",
        "simulator.costs", "arms",
    ],
)  # fmt: skip
def test_another_constant_is_other_code(copy, name):
    assert edited(copy, f"simlab.{name}", other_constant) != fingerprint(copy)


@pytest.mark.parametrize(
    "name",
    ["llm.training.optimizer", "llm.training.run", "llm.model", "llm.tasks.addition", "methods", "surrogates.clip"],
)
def test_so_it_is_in_training(copy, name):
    assert edited(copy, f"simlab.{name}", other_constant, TRAINING) != fingerprint(copy, TRAINING)


@pytest.mark.parametrize(
    "name", ["cli", "plotting", "sweeps.table", "sweeps.presets.fade", "explore.server", "find_tag"]
)
def test_what_cannot_change_a_number_does_not_count(copy, name):
    for entries in (SWEEP, TRAINING):
        assert edited(copy, f"simlab.{name}", other_constant, entries) == fingerprint(copy, entries)


def test_nor_does_a_style(copy):
    before = fingerprint(copy)
    (copy / "simlab.mplstyle").write_text("lines.linewidth: 9")
    assert fingerprint(copy) == before


def test_nor_does_what_only_type_checkers_import():
    for condition in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        source = f"if {condition}:\n    import simlab.plotting\nelse:\n    import simlab.shown"
        assert read(source.encode(), "simlab.new", False).imports == {"simlab.shown"}
    assert not [name for name in REACHED["training"] if name.startswith("simlab.sweeps")]


def test_nor_do_comments_docstrings_and_layout():
    one, other = (
        read(source, "simlab.new", False).meaning
        for source in (
            b"def f(x):\n    return (x,\n        1)",
            b'"""New."""\ndef f(x):  # so\n    "One."\n    return (x, 1)',
        )
    )
    assert one == other


@pytest.mark.parametrize(
    ("statement", "reached"),
    [
        ("import simlab.plotting", "simlab.plotting"),
        ("from simlab import plotting", "simlab.plotting"),
        ("from .. import plotting", "simlab.plotting"),
        ("from ..explore.html import of_table", "simlab.explore.html"),
        ("from . import table", "simlab.sweeps.table"),
        ("from .table import final_table", "simlab.sweeps.table"),
        ("def f():\n    from simlab.explore.html import of_table", "simlab.explore"),
        ("try:\n    import simlab.explore.html as html\nexcept ImportError:\n    pass", "simlab.explore.html"),
    ],
)
def test_a_module_counts_once_it_is_imported_in_whatever_way(copy, statement, reached):
    path = path_of(copy, "simlab.sweeps.grid")
    before = path.read_text()
    assert reached not in closure(SWEEP, copy)
    path.write_text(f"{before}\n{statement}\n")
    try:
        assert reached in closure(SWEEP, copy)
    finally:
        path.write_text(before)


def test_relative_imports_of_a_package_are_those_of_the_package():
    assert "simlab.sweeps.table" in read(b"from .table import final_table", "simlab.sweeps", True).imports
    assert "simlab.plotting" in read(b"from ..plotting import STYLE", "simlab.sweeps", True).imports


def test_all_that_a_sweep_loads_of_the_library_is_in_the_closure(tmp_path):
    """As Python sees it, not as the sources say: no import hides behind a name that is computed."""
    program = (
        "import sys; from pathlib import Path\n"
        "from simlab.sweeps.grid import Sweep; from simlab.sweeps.run import run\n"
        "from simlab.problems import PROBLEMS; assert all(make().metrics for make in PROBLEMS.values())\n"
        f"run(Sweep(seeds=1, steps=1, top_n=1, pass_at_k=(1,), parameters={{'problem.actions': (9,), "
        f"'problem.correct': (2,)}}), Path({str(tmp_path / 'sweep.nc')!r}))\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] == 'simlab'))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"simlab.simulator.lumped", "simlab.simulator.head_metrics", "simlab.simulator.tree_metrics"} <= {*found}
    assert not set(found) - REACHED["sweep"].keys()


@pytest.mark.parametrize("made", ENTRIES)
def test_every_library_that_computes_has_its_version_in_it(made):
    names = {name.partition(".")[0] for source in REACHED[made].values() for name in source.imports}
    foreign = names - set(sys.stdlib_module_names) - NOT_NUMERIC - (OF_TRL if made == "training" else set())
    unused = {"jaxlib"} | ({"ml_dtypes", "optax"} if made == "sweep" else {"scipy"})
    assert foreign == {name.replace("-", "_") for name in NUMERIC} - unused


@pytest.mark.parametrize("library", ["python", *NUMERIC])
def test_another_version_of_a_library_that_computes_is_other_code(monkeypatch, library):
    before, found = code_fingerprint(), versions.versions(NUMERIC)
    monkeypatch.setattr(versions, "versions", lambda names: found | {library: "0.0.0"})
    assert code_fingerprint.__wrapped__() != before


def test_the_same_code_has_the_same_fingerprint_in_any_process():
    program = "import sys; from simlab.identity.code import *; print(code_fingerprint(), 'jax' in sys.modules)"
    for seed in "01":
        run = [sys.executable, "-c", program]
        found = subprocess.run(
            run,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(PACKAGE.parent), "PYTHONHASHSEED": seed},
        )
        assert found.stdout.split() == [code_fingerprint(), "False"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["theory.covariance", "sweeps.grid"])
def test_a_sweep_goes_on_with_other_code_from_the_beginning_and_nothing_is_mixed(copy, tmp_path, name):
    """Half of the parts are there when a module gets one more constant: all of them are computed again."""
    out, path = tmp_path / "sweep.nc", path_of(copy, f"simlab.{name}")
    arguments = ("sweep", "--out", out, *TINY, "--group-size", 2, "--seeds", 32)
    assert command(*arguments, cwd=copy.parent)[::2] == (0, "")
    code, parts = read_result(out).attrs["code"], sorted(parts_folder(out).glob("*.npz"))
    for part in parts[2:]:
        part.unlink()
    assert command(*arguments, cwd=copy.parent)[::2] == (0, "2 of 4 units are finished already\n")
    before = path.read_text()
    path.write_text(before + "\nONE_MORE = 1\n")
    try:
        said = f"4 parts in {parts_folder(out)} are of other sweeps or code versions: left alone\n"
        assert command(*arguments, cwd=copy.parent)[::2] == (0, said)
    finally:
        path.write_text(before)
    assert read_result(out).attrs["code"] != code
    assert len([*parts_folder(out).glob("*.npz")]) == 8

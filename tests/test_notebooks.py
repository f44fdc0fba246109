"""The notebooks: the command that opens them, and what they say, in marimo and in Jupyter."""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import simlab.pages
from simlab.cli import main
from simlab.pages import notebooks, open_in_marimo, place_outputs, working_folder

ROOT = Path(__file__).parent.parent
CHECKOUT = ROOT / "notebooks"
FILES = sorted(notebooks(CHECKOUT))
IN_SHORT = {"07_to_trl_or_verl.py"}  # the others run in Jupyter by hand
LONG = {"05_bank.py"}  # whose sliders move what takes half a minute
# Each change makes its notebook wrong, and one of its assertions has to notice.
MUTATIONS = {
    "01_tour.py": ('"f_grpo", rewards, gamma=gamma.value)', '"f_grpo", rewards, gamma=gamma.value + 1)'),
    "02_group_size.py": ("(1 - mu) ** sizes,", "(1 - mu) ** (sizes + 1),"),
    "03_weights.py": ("closed_form(name, rate, size.value)", "closed_form('psr', rate, size.value)"),
    "04_referee_report.py": ("known = recorded()", "known = recorded() | {'f-grpo:lemma-3.1': 'fails'}"),
    "05_bank.py": ('run("asym_grpo(delta=1)")', 'run("asym_grpo(delta=1.1)")'),
    "06_train.py": ("math.comb(64 - int(c), k)", "math.comb(63 - int(c), k)"),
    "07_to_trl_or_verl.py": ("ddof=1, eps=1e-4", "ddof=0, eps=1e-4"),
    "08_diagnose.py": ("own.dead for own", "own.all_right for own"),
}


class Become(Exception):
    """Stands for the program that would replace this process."""


def test_the_notebooks_are_listed_with_what_they_are_about(capsys):
    assert main(["notebooks", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == FILES
    assert [name[:2] for name in FILES] == [f"{number:02d}" for number in range(1, 9)]
    assert all(len(line.split()) > 3 for line in lines)


def test_the_readme_of_the_folder_lists_them_all():
    listed = re.findall(r"^\| \[(\w+\.py)\]", (CHECKOUT / "README.md").read_text(), re.MULTILINE)
    assert listed == FILES


def test_without_marimo_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["notebooks"]) == 2
    assert (
        capsys.readouterr().err == 'simlab: notebooks needs marimo; install it with: pip install "simlab[notebooks]"\n'
    )


def test_an_installed_package_gives_copies_and_never_writes_over_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(simlab.pages, "is_checkout", lambda: False)
    folder = working_folder()
    assert folder == Path("simlab-notebooks")
    assert sorted(path.name for path in folder.iterdir()) == FILES
    (folder / FILES[0]).write_text("mine")
    (folder / FILES[1]).unlink()
    working_folder()
    assert (folder / FILES[0]).read_text() == "mine"
    assert (folder / FILES[1]).read_bytes() == (CHECKOUT / FILES[1]).read_bytes()


SESSIONS = sorted((CHECKOUT / "sessions").glob("*.json"))


def test_every_notebook_has_what_it_showed_when_it_was_run_without_an_error_in_a_megabyte():
    assert [f"{path.stem}.py" for path in SESSIONS] == FILES
    outputs = [
        output for path in SESSIONS for cell in json.loads(path.read_text())["cells"] for output in cell["outputs"]
    ]
    assert {output["type"] for output in outputs} == {"data"}
    assert sum(path.stat().st_size for path in SESSIONS) < 2**20


def test_what_they_showed_is_placed_for_the_marimo_that_is_here_unless_something_newer_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", {"marimo": "0.25.9"}.get)
    place_outputs(tmp_path)
    placed = sorted((tmp_path / "__marimo__" / "session").iterdir())
    assert [path.name for path in placed] == [f"{name}.json" for name in FILES]
    sessions = [json.loads(path.read_text()) for path in placed]
    assert {session["metadata"]["marimo_version"] for session in sessions} == {"0.25.9"}
    assert [session["cells"] for session in sessions] == [json.loads(path.read_text())["cells"] for path in SESSIONS]
    placed[0].write_text("newer")
    placed[1].write_text("older")
    os.utime(placed[1], (0, 0))
    place_outputs(tmp_path)
    assert placed[0].read_text() == "newer"
    assert json.loads(placed[1].read_text()) == sessions[1]


def test_the_tour_leads_to_every_other_notebook():
    text = (CHECKOUT / "01_tour.py").read_text()
    assert re.findall(r"- \*\*(\d\d)\*\* ", text) == [name[:2] for name in FILES[1:]]


@pytest.mark.notebooks
@pytest.mark.parametrize("name", FILES)
def test_marimo_takes_what_it_showed_for_that_of_its_present_code(name, tmp_path):
    """It would run the notebook for the export unless the stored outputs are up to date."""
    shutil.copy(CHECKOUT / name, tmp_path)
    place_outputs(tmp_path)
    command = [sys.executable, "-m", "marimo", "-y", "export", "session", name]
    exported = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "skip" in exported.stdout + exported.stderr


def test_marimo_is_started_on_the_loopback_interface_without_its_update_check(monkeypatch):
    def become(*arguments):
        raise Become(arguments)

    monkeypatch.setattr(os, "execve", become)
    with pytest.raises(Become) as started:
        open_in_marimo(Path("here"), 2750, browser=False)
    ((program, command, environment),) = started.value.args
    assert program == command[0] == sys.executable
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "2750"
    assert {"--headless", "--skip-update-check"} <= set(command)
    assert environment["MARIMO_SKIP_UPDATE_CHECK"] == "1"


def run_alone(*command):
    """Python in a process of its own, which compiles as for users: notebooks do work that is worth optimising for."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    python = [sys.executable, "-W", "error::UserWarning", *map(str, command)]
    return subprocess.run(python, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.notebooks
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in FILES])
def test_it_runs_with_its_assertions_at_every_end_of_its_sliders(name):
    ran = run_alone(ROOT / "tests" / "run_notebook.py", CHECKOUT / name)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()[-1].split()) == (CHECKOUT / name).read_text().count("mo.ui.slider(")


@pytest.mark.notebooks
@pytest.mark.parametrize("name", FILES)
def test_a_wrong_statement_is_noticed(name, tmp_path):
    right, wrong = MUTATIONS[name]
    text = (CHECKOUT / name).read_text()
    assert text.count(right) == 1
    (tmp_path / name).write_text(text.replace(right, wrong))
    ran = run_alone(tmp_path / name)
    assert ran.returncode == 1
    assert "AssertionError" in ran.stderr


@pytest.mark.notebooks
def test_marimo_finds_nothing_to_complain_about():
    check = [sys.executable, "-m", "marimo", "check", "--strict", *(str(CHECKOUT / name) for name in FILES)]
    result = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.notebooks
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in IN_SHORT)) for name in FILES]
)
def test_it_opens_and_runs_in_jupyter(name, tmp_path):
    import nbclient  # noqa: PLC0415
    import nbformat  # noqa: PLC0415

    out = tmp_path / "notebook.ipynb"
    export = [sys.executable, "-m", "marimo", "export", "ipynb", str(CHECKOUT / name), "-o", str(out)]
    subprocess.run(export, capture_output=True, check=True)
    notebook = nbformat.read(out, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pictures = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == len(re.findall(r"Figure\(figsize|\bdraw_map\(", (CHECKOUT / name).read_text()))
    assert [cell.cell_type for cell in notebook.cells][:2] == ["code", "markdown"], "the setup, and the opening text"

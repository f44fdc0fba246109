"""``figures``, ``paper_checks`` and the notebooks: in a checkout and in a wheel, and never a user's own instead."""

import os
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest

import simlab.bundled
from simlab import fingerprint
from simlab.bundled import make_importable

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def path(monkeypatch):
    """Python's path, as the test finds it afterwards too."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    return sys.path


def test_the_folder_comes_first_on_the_path_and_once(path):
    make_importable()
    assert path[0] == str(ROOT)
    length = len(path)
    make_importable()
    assert len(path) == length


def test_installed_their_code_counts_by_its_content_as_in_a_checkout(tmp_path, monkeypatch):
    site_packages, module = tmp_path / "site-packages", types.ModuleType("figures")
    monkeypatch.setattr(fingerprint, "BUNDLED", site_packages / "simlab" / "bundled_files")
    monkeypatch.setitem(sys.modules, "figures", module)
    module.__file__ = str(site_packages / "simlab" / "bundled_files" / "figures" / "__init__.py")
    assert fingerprint.owner.__wrapped__("figures.shared") is None
    module.__file__ = str(site_packages / "figures" / "__init__.py")
    assert fingerprint.owner.__wrapped__("figures.shared") == "figures"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of this checkout, built without the network."""
    for needed in ("hatchling", "pip"):
        pytest.importorskip(needed, reason=f"building a wheel needs {needed}")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-q"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*command, "-w", str(folder), str(ROOT)], check=True, env=environment)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site_packages(wheel, tmp_path_factory):
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """A user's folder, with modules of their own that have the same names, and end who imports them."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "figures").mkdir()
    for module in ("figures/__init__.py", "paper_checks.py"):
        (folder / module).write_text("raise SystemExit('the user's own was imported')\n", encoding="utf-8")
    return folder


def run_installed(site_packages, folder, *arguments):
    """Return what the installed ``simlab`` prints. With ``-m`` Python looks into the present folder first."""
    environment = os.environ | {"PYTHONPATH": str(site_packages)}
    command = [sys.executable, "-m", "simlab.cli", *arguments]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_a_wheel_adds_one_name_to_site_packages(wheel):
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert names == {"simlab", f"simlab-{simlab.__version__}.dist-info"}
    assert wheel.stat().st_size < 2e6
    assert "simlab/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_a_wheel_has_every_module_check_and_figure_of_the_checkout_and_no_image(site_packages):
    def modules(folder):
        return {path.relative_to(folder) for path in folder.rglob("*") if path.suffix in {".py", ".v"}}

    inside = site_packages / "simlab" / "bundled_files"
    for name in ("figures", "paper_checks", "notebooks"):
        assert modules(inside / name) == modules(ROOT / name)
    bundled = {path for path in modules(site_packages / "simlab") if path.parts[0] == inside.name}
    assert modules(site_packages / "simlab") - bundled == modules(ROOT / "simlab")
    assert not [*inside.rglob("*.png")]


def test_installed_it_finds_the_lines_of_a_tag_inside_itself(site_packages, users):
    lines = [line.split()[:2] for line in run_installed(site_packages, users, "where", "fade", "eq-7").splitlines()]
    assert ["check", "simlab/bundled_files/paper_checks/fade"] in [
        [kind, line.rpartition("/")[0]] for kind, line in lines
    ]
    assert all((site_packages / line.partition(":")[0]).is_file() for _, line in lines)


@pytest.mark.slow
def test_the_processes_of_an_installed_check_judge_too(site_packages, users):
    """Standard error, where a process that ended would complain, stays empty, and all verdicts are as recorded."""
    assert " claims: " in run_installed(site_packages, users, "check", "--paper", "casp", "--jobs", "2")

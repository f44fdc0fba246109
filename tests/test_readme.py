"""The examples of the README and the documentation work: Python runs, and commands mean what they say."""

import os.path
import re
import shlex
import subprocess

import pytest

from docs_build.shown_blocks import ROOT, blocks, commands, named
from simlab import cli
from simlab.estimators import REGISTRY, registry
from simlab.llm.training.options import build_settings
from simlab.sweeps.options import build_sweeps

pytestmark = pytest.mark.usefixtures("library_alone")  # a command names a file that registers an estimator
TUTORIALS = ROOT / "docs" / "tutorials"  # test_docs_build.py has these
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent != TUTORIALS)]
OWN_TESTS = ("train.md", "trl.md", "verl.md", "slurm.md")  # their examples run elsewhere, or need a cluster
FINDING = ["What the papers say", "What was done", "What came out", "What it cannot show", "How to repeat it"]
OTHER_LINKS = ("http", "#", "mailto:")


ALL = [(named(page), command) for page in PAGES if page.name not in OWN_TESTS for command in commands(page)]


def of(subcommand: str) -> list[str]:
    """All commands of one kind, each once."""
    return sorted({command for _, command in ALL if command.startswith(f"simlab {subcommand}")})


def options(command: str):
    return cli.build_parser()[0].parse_args(shlex.split(command)[1:])


@pytest.fixture
def registry_of_its_own(monkeypatch):
    """Forget the registrations of an example after it."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder to write into, with the tests' files as in a checkout, and the file that ``start.md`` asks for."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "mine.py").write_text(blocks(ROOT / "docs" / "start.md", "python")[0])
    monkeypatch.chdir(tmp_path)


SHOWN = [page for page in PAGES if blocks(page, "python") and page.name not in OWN_TESTS]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page.name == "sweeps.md")) for page in SHOWN], ids=named
)
def test_the_python_examples_of_a_page_run_one_after_the_other(page, beside, registry_of_its_own):
    namespace: dict[str, object] = {"__name__": "shown"}
    for block in blocks(page, "python"):
        exec(block, namespace)


def test_the_own_estimator_that_is_shown_is_the_one_that_is_tested():
    shown = blocks(ROOT / "docs" / "how-to" / "own-estimator.md", "python")[1]
    assert (ROOT / "tests" / "own_estimator.py").read_text().endswith(shown)


def test_the_readme_counts_the_estimators_that_there_are():
    assert f"`simlab estimators` lists {len(REGISTRY)} weights" in " ".join((ROOT / "README.md").read_text().split())


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "start.md"], ids=named)
def test_no_line_that_a_newcomer_reads_or_copies_is_wider_than_the_page(page):
    assert [line for line in page.read_text().splitlines() if len(line) > 100] == []


@pytest.mark.parametrize("command", of("sweep"))
def test_each_sweep_command_describes_a_sweep(command, beside):
    for sweep in build_sweeps(options(command)).values():
        assert all(cell.group_size in sweep.group_sizes for _, cell in sweep.cells())


@pytest.mark.slow
@pytest.mark.parametrize("command", of("where"))
def test_each_where_command_finds_something(command, capsys):
    assert cli.main(shlex.split(command)[1:]) == 0
    assert "simlab/" in capsys.readouterr().out


@pytest.mark.parametrize("command", [command for command in of("train") if "--data" not in command])
def test_each_training_command_describes_a_run(command, beside):
    settings = build_settings(options(command))
    assert settings == type(settings).from_data(settings.as_data())


@pytest.mark.parametrize("command", sorted({command for _, command in ALL if command not in of("sweep") + of("where")}))
def test_each_other_command_is_understood(command):
    assert options(command).run


@pytest.mark.parametrize(
    ("page", "command"), [(page, command) for page in PAGES if page.name in OWN_TESTS for command in commands(page)]
)
def test_so_is_each_command_that_runs_elsewhere(page, command, monkeypatch):
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "4")
    assert options(os.path.expandvars(command)).run


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=named)
def test_each_block_for_a_shell_is_one_that_a_shell_can_read(page):
    for block in blocks(page, "sh"):
        read = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, check=False)
        assert (read.returncode, read.stderr) == (0, ""), block


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_link_between_files_leads_to_one(page):
    links = re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    here = [link for link in links if not link.startswith(OTHER_LINKS) and not link.startswith("estimators/")]
    assert [link for link in here if not os.path.exists(page.parent / link)] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "findings").glob("[!i]*.md")), ids=named)
def test_a_finding_begins_with_its_answer_and_has_the_same_parts_as_all(page):
    title, answer, *_ = [paragraph for paragraph in page.read_text().split("\n\n") if paragraph]
    assert title.startswith("# ")
    assert title.endswith("?")
    assert answer.startswith("**")
    assert re.findall(r"^## (.*)", page.read_text(), re.MULTILINE) == FINDING
    assert "figures/README.md#" in page.read_text().split("## How to repeat it")[1]

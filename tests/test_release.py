"""What stands in the files of a release: one version, one license, templates that can be read."""

import re
import tomllib
from pathlib import Path

import pytest

import simlab
from simlab.identity import versions

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))


def test_every_file_names_the_same_version_and_license():
    assert simlab.__version__ == PROJECT["version"] == CITATION["version"]
    assert PROJECT["license"] == CITATION["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_the_commit_of_a_checkout_of_another_user_is_known(monkeypatch):
    known = versions.commit.__wrapped__()
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert versions.commit.__wrapped__() == known != "unknown"


def test_a_citation_has_what_the_format_asks_for():
    assert {"cff-version", "message", "title"} <= set(CITATION)
    assert "authors:\n  - name: " in (ROOT / "CITATION.cff").read_text()


def test_every_template_of_an_issue_names_itself():
    templates = list((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) == 3
    for path in templates:
        head = path.read_text().split("---\n")[1]
        assert re.search(r"^name: .+\nabout: .+\nlabels: \w+$", head, re.MULTILINE)


def test_the_files_that_people_look_for_are_short_and_lead_to_files_that_there_are():
    for name in ("CODE_OF_CONDUCT.md", "SECURITY.md"):
        text = (ROOT / name).read_text()
        assert len(text.split()) < 300
        assert [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not (ROOT / link).exists()] == []


def test_the_container_installs_extras_that_there_are():
    (extras,) = re.findall(r"/source\[([\w,]+)\]", (ROOT / "Containerfile").read_text())
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])

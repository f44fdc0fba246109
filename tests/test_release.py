"""What stands in the files of a release: one version, one license, templates that can be read."""

import re
import tomllib
from pathlib import Path

import pytest
from everything import release

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


# What a release consists of


def stand_in(folder, told):
    """A Python whose environments have a pip that does nothing and a simlab that says ``told``."""
    path = folder / "python"
    path.write_text(f"""#!/bin/sh
case "$1" in
-m) mkdir -p "$3/bin"
    printf '#!/bin/sh\\n' > "$3/bin/pip"
    cp "$0" "$3/bin/python"
    cp "$0" "$3/bin/simlab"
    chmod +x "$3"/bin/* ;;
--version) echo "simlab {told}" ;;
estimators) printf 'grpo(eps=1)  [x:y]\\n    GRPO: A.\\nrloo()  [x:z]\\n' ;;
sweep) echo "in short: q_pos went from 0.1 to 0.2" ;;
esac
""")
    path.chmod(0o755)
    return path


def test_what_an_installed_wheel_says_is_in_the_table(tmp_path):
    wheel = Path("simlab-1.2.3-py3-none-any.whl")
    found = release.tried(stand_in(tmp_path, "1.2.3"), wheel, Path("x.tar.gz"), tmp_path / "try")
    assert found["`simlab estimators`"] == "2 estimators"
    assert "q_pos went from 0.1 to 0.2" in found.values()
    text = release.page("a.whl", "b.tar.gz", {"3.11.7": found}, {"3.13": "no python3.13 on the PATH"})
    assert "| `simlab --version` | simlab 1.2.3 |" in text
    assert "Not tried, Python 3.13: no python3.13 on the PATH." in text


def test_a_wheel_that_says_another_version_is_no_release(tmp_path):
    with pytest.raises(release.Failed, match="says that it is simlab 1\\.2\\.2"):
        release.tried(stand_in(tmp_path, "1.2.2"), Path("simlab-1.2.3-py3.whl"), Path("x.tar.gz"), tmp_path / "try")


def test_the_command_that_fails_is_named_with_what_it_said(tmp_path):
    with pytest.raises(release.Failed, match="sh -c echo no; exit 3 ends with 3: no"):
        release._run(["sh", "-c", "echo no; exit 3"], tmp_path)

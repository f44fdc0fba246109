"""The documentation site: built strictly, whole, without a request to another machine, and with a search."""

import json
import re
from html.parser import HTMLParser

import pytest

import simlab
from simlab.bundled import PACKAGE
from simlab.docs_site import build_site, check_docs
from simlab.errors import InputError

# What a browser loads with a page, by tag and attribute; a link to follow is none.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Requests(HTMLParser):
    """Collects what a page makes a browser load."""

    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.found += [value for name, value in attrs if (tag, name) in LOADED and value]
        if tag == "link" and values.get("rel") in {"stylesheet", "preconnect", "preload", "icon"}:
            self.found.append(values.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


@pytest.mark.docs
def test_the_site_is_built_strictly_with_a_page_for_every_estimator(site):
    check_docs()
    pages = {path.stem for path in (site / "reference" / "estimators").glob("*.html")}
    assert pages == set(simlab.estimators.REGISTRY)


@pytest.mark.docs
def test_no_page_loads_anything_from_another_machine_and_all_formulas_are_typeset(site):
    for page in site.rglob("*.html"):
        parser = Requests()
        parser.feed(page.read_text(encoding="utf-8"))
        assert [address for address in parser.found if re.match(r"(https?:)?//", address)] == []
        assert 'class="arithmatex"' not in page.read_text(encoding="utf-8")  # formulas are typeset


@pytest.mark.docs
def test_every_public_name_has_an_entry(site):
    reference = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    shown = set(re.findall(r'id="simlab\.[\w.]*?(\w+)"', reference))
    for module in (simlab.surrogates, simlab.problems, simlab.theory, simlab.estimators):
        assert {name for name in module.__all__ if name[0] != "_"} - shown == set(), module.__name__


@pytest.mark.docs
@pytest.mark.parametrize("sought", ["tail miss", "f_grpo", "retained mass", "false positives", "SLURM"])
def test_the_search_has_what_readers_look_for(site, sought):
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert any(sought.lower() in f"{entry['title']} {entry['text']}".lower() for entry in entries)


@pytest.mark.docs
def test_a_broken_link_ends_the_build(tmp_path, monkeypatch, capfd):
    broken = tmp_path / "checkout"
    broken.mkdir()
    (broken / "mkdocs.yml").write_text("site_name: broken\nvalidation: {links: {not_found: warn}}\n")
    (broken / "docs").mkdir()
    (broken / "docs" / "index.md").write_text("[nowhere](nowhere.md)\n")
    monkeypatch.setattr("simlab.docs_site.PACKAGE", broken / PACKAGE.name)
    with pytest.raises(InputError, match="cannot be built"):
        build_site(tmp_path / "site")
    assert "nowhere.md" in capfd.readouterr().err


def test_what_is_missing_is_named_in_one_line(monkeypatch):
    monkeypatch.setattr("simlab.docs_site.NEEDED", ("no_such_package",))
    with pytest.raises(InputError, match=r"pip install -e "):
        check_docs()
    monkeypatch.setattr("simlab.docs_site.is_checkout", lambda: False)
    with pytest.raises(InputError, match="install from a clone"):
        check_docs()

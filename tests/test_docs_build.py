"""The documentation site: links, formulas, tutorials; built strictly, without a request elsewhere, with a search."""

import ast
import re
import struct
from html.parser import HTMLParser

import pytest
from refusals import refusal

import simlab
from docs_build import pages, screenshots
from docs_build.formulas import in_tex, typeset_all
from docs_build.tutorials import written
from simlab.bundled import PACKAGE
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.pages import build_site, check_docs, claim_folder
from simlab.theory import CLOSED_FORMS


def test_a_link_leads_from_page_to_page_wherever_the_files_lie():
    text = "[a](../CONTRIBUTING.md#recipes), [b](https://x.org/y.md), [c](#here), ![d](../figures/images/league.png)"
    assert pages.for_the_site(text, "docs/trl.md", "trl.md") == (
        "[a](contributing.md#recipes), [b](https://x.org/y.md), [c](#here), ![d](figures/images/league.png)"
    )
    assert pages.for_the_site("[e](claim.py)", "paper_checks/INDEX.md", "referee/claims.md") == (
        "[e](../source/paper_checks/claim.py.txt)"
    )


def test_a_link_to_nothing_and_what_is_code_stay_as_they_are():
    text = "[a](nowhere.md)\n\n```python\nf[0](docs/trl.md)\n```\n"
    assert pages.for_the_site(text, "README.md", "index.md") == text


def test_links_of_a_page_are_found_by_the_files_that_they_name():
    text = "[a](../README.md) and [b](images/x.png)\n\n```\n[c](d.md)\n```\n[e](mailto:f@g.h)"
    assert list(pages.linked(text, "figures/README.md")) == ["README.md", "figures/images/x.png"]


@pytest.mark.parametrize(
    ("plain", "tex"),
    [
        ("r_i - mean(r)", r"r_{i} - \operatorname{mean}(r)"),
        ("(p q)^(1 - gamma)", r"(p q)^{1 - \gamma}"),
        ("sqrt(p (1 - p))", r"\sqrt{p (1 - p)}"),
        ("A_base where p <= 1/2, else 0", r"A_{\mathrm{base}} \text{ where }p \le  1/2, \text{ else }0"),
        ("b a running mean", r"b \text{ a running mean }"),
        ("A_pass@1", r"A_{\mathrm{pass@1}}"),
    ],
)
def test_plain_formulas_become_tex(plain, tex):
    assert in_tex(plain).replace("} p", "}p").replace("} 0", "}0") == tex


@pytest.mark.parametrize("name", REGISTRY)
def test_every_formula_of_the_registry_can_be_typeset(name):
    formulas = [REGISTRY[name].formula]
    if name in CLOSED_FORMS:
        formulas += [CLOSED_FORMS[name].success, CLOSED_FORMS[name].failure]
    for formula in formulas:
        html = typeset_all(rf'<div class="arithmatex">\[{in_tex(formula)}\]</div>', name)
        assert html.startswith("<math")


def test_a_formula_that_cannot_be_typeset_names_its_page():
    with pytest.raises(ValueError, match=r"start\.md: "):
        typeset_all(r'<span class="arithmatex">\(\nosuchcommand\)</span>', "start.md")


def test_the_page_of_screenshots_is_what_its_script_writes_around_pictures_that_are_there():
    assert screenshots.PAGE.read_text(encoding="utf-8") == screenshots.page()
    for name in screenshots.SHOWN:
        for suffix in screenshots.SCHEMES.values():
            head = (screenshots.PICTURES / screenshots.picture(name, suffix)).read_bytes()[:24]
            assert head[:4] == b"\x89PNG"
            assert struct.unpack(">II", head[16:24]) == (screenshots.WIDTH, screenshots.HEIGHT)


CHECKOUT = pages.ROOT
NOTEBOOKS = sorted(path.stem for path in (CHECKOUT / "notebooks").glob("[0-9]*.py"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_page_of_a_tutorial_has_the_code_and_the_texts_of_its_notebook(name):
    """A notebook that was edited is run again by ``python -m docs_build.tutorials NAME``."""
    page = (CHECKOUT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    notebook = (CHECKOUT / "notebooks" / f"{name}.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)\n```", page, re.DOTALL)
    shown = {plain(statement) for block in blocks for statement in ast.parse(block).body}
    written_there = {plain(node) for node in ast.walk(ast.parse(notebook)) if isinstance(node, ast.stmt)}
    assert len(shown) > 10
    assert shown - written_there == set()
    headings = re.findall(r"^ *(##? [^#\n]+)$", notebook, re.MULTILINE)
    assert [heading for heading in headings if heading not in page] == []


def plain(statement):
    """A statement without its layout, and without what marimo puts over a function."""
    if isinstance(statement, ast.FunctionDef):
        statement.decorator_list = []
    return ast.unparse(statement)


PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"  # of one pixel


def test_a_tutorial_shows_text_pictures_and_tables_but_no_widgets():
    cells = [
        {"cell_type": "code", "metadata": {"marimo": {"name": "setup"}}, "source": ["import simlab"], "outputs": []},
        {"cell_type": "markdown", "metadata": {}, "source": ["# A title"]},
        {
            "cell_type": "code",
            "metadata": {},
            "source": "slider",
            "outputs": [
                {
                    "output_type": "display_data",
                    "data": {"text/markdown": ["&lt;marimo-slider data-initial-value='1'"]},
                },
                {"output_type": "display_data", "data": {"image/png": PICTURE}},
                {"output_type": "display_data", "data": {"text/plain": ["0.5"]}},
            ],
        },
        {
            "cell_type": "code",
            "metadata": {"marimo": {"config": {"hide_code": True}}},
            "source": "hidden",
            "outputs": [{"output_type": "display_data", "data": {"text/html": "<table></table>"}}],
        },
    ]
    text, pictures = written("02_sizes", {"cells": cells})
    assert [name for name, content in pictures.items() if content.startswith(b"\x89PNG")] == ["02_sizes-1.png"]
    title, where, *rest = text.strip().split("\n\n")
    assert title == "# A title"
    assert "notebooks/02_sizes.py" in where
    assert rest == [
        '<details markdown="1"><summary>Imports</summary>',
        "```python\nimport simlab\n```",
        "</details>",
        "```python\nslider\n```",
        "![What the cell above shows](02_sizes-1.png)",
        "```text\n0.5\n```",
        "<table></table>",
    ]


def test_the_site_takes_a_new_folder_or_its_former_one_and_no_other(tmp_path):
    for _ in range(2):
        claim_folder(tmp_path / "new")
        (tmp_path / "new" / "index.html").write_text("x")
    (tmp_path / "sitemap.xml").write_text("of another site")
    assert "holds something else than a built site; allowed: a new folder" in refusal(claim_folder, tmp_path)
    assert "it is not a folder" in refusal(claim_folder, tmp_path / "sitemap.xml")


# The site

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
def test_a_broken_link_ends_the_build(tmp_path, monkeypatch, capfd):
    broken = tmp_path / "checkout"
    broken.mkdir()
    (broken / "mkdocs.yml").write_text("site_name: broken\nvalidation: {links: {not_found: warn}}\n")
    (broken / "docs").mkdir()
    (broken / "docs" / "index.md").write_text("[nowhere](nowhere.md)\n")
    monkeypatch.setattr("simlab.pages.PACKAGE", broken / PACKAGE.name)
    with pytest.raises(InputError, match="cannot be built"):
        build_site(tmp_path / "site")
    assert "nowhere.md" in capfd.readouterr().err


def test_what_is_missing_is_named_in_one_line(monkeypatch):
    monkeypatch.setattr("simlab.pages.NEEDED", ("no_such_package",))
    with pytest.raises(InputError, match=r"pip install -e "):
        check_docs()
    monkeypatch.setattr("simlab.pages.is_checkout", lambda: False)
    with pytest.raises(InputError, match="a wheel has none"):
        check_docs()

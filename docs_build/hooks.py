"""What MkDocs calls while it builds the site: add pages from elsewhere, rewrite links, typeset formulas."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this checkout, however MkDocs was started

from mkdocs.structure.files import File, Files

from docs_build import estimator_pages, pages
from docs_build.formulas import typeset_all

# Of pages in the search, by their section: a question is to find the page that says how, not each name that is like it.
BOOSTS = {"Start": 30, "How-to": 20, "Concepts": 5, "Findings": 5}


def on_config(config: Any) -> Any:
    """List a page for each estimator in the navigation."""
    for section in config.nav:
        for entry in section.get("Reference", []):
            if isinstance(entry, dict) and "Estimators" in entry:
                entry["Estimators"] += estimator_pages.navigation()
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie elsewhere, those of the estimators, and the pictures and code that pages link to."""
    for page, file in pages.ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(pages.ROOT / file)))
    for page, text in estimator_pages.texts().items():
        files.append(File.generated(config, page, content=text))
    wanted = set()
    for entry in files.documentation_pages():
        if entry.src_uri not in estimator_pages.texts():
            wanted |= set(pages.linked(entry.content_string, pages.file_of(entry.src_uri)))
    for path in sorted(wanted):
        place = pages.place_of(path)
        if place is not None and files.get_file_from_path(place) is None and (pages.ROOT / path).is_file():
            files.append(File.generated(config, place, abs_src_path=str(pages.ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between files of the repository become links between pages; the search learns how far up a page belongs."""
    page.meta["search"] = {"boost": BOOSTS.get(page.ancestors[-1].title, 1) if page.ancestors else 1}
    if page.file.src_uri in estimator_pages.texts():
        return markdown
    if page.file.src_uri == estimator_pages.TABLE:
        markdown = estimator_pages.with_links(markdown)
    return pages.for_the_site(markdown, pages.file_of(page.file.src_uri), page.file.src_uri)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Formulas become MathML, which browsers show without the network."""
    return typeset_all(html, page.file.src_uri)

"""Say which files of the repository are pages of the site, and turn links between files into links between pages."""

import os.path
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
DOCS, TUTORIALS, NOTEBOOKS = "docs", "tutorials", "notebooks"
# Pages of the site that lie elsewhere in the repository, where people who read its files look for them.
ELSEWHERE = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "referee/index.md": "paper_checks/README.md",
    "referee/claims.md": "paper_checks/INDEX.md",
    "figures.md": "figures/README.md",
    "notebooks.md": "notebooks/README.md",
    "benchmarks.md": "benchmarks/README.md",
    "tests.md": "tests/everything.md",
}
SOURCES = "source"  # the folder of the site with the text of linked code
COPIED = (".png", ".svg")  # what is shown as it is
FENCE = re.compile(r"^(```|~~~).*?^\1[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s#]*)(#[^)\s]*)?(?=\))")


def page_of(path: str) -> str | None:
    """The page that shows a file of the repository, both by their paths; None if no page does.

    >>> page_of("CHANGELOG.md"), page_of("docs/trl.md"), page_of("simlab/files.py")
    ('changelog.md', 'trl.md', None)
    """
    shown = {file: page for page, file in ELSEWHERE.items()}
    if path in shown:
        return shown[path]
    parts = PurePosixPath(path)
    if str(parts.parent) == NOTEBOOKS and (ROOT / DOCS / TUTORIALS / f"{parts.stem}.md").is_file():
        return f"{TUTORIALS}/{parts.stem}.md"
    return str(parts.relative_to(DOCS)) if parts.suffix == ".md" and parts.parts[0] == DOCS else None


def file_of(page: str) -> str:
    """The file of the repository that a page shows.

    >>> file_of("changelog.md"), file_of("trl.md")
    ('CHANGELOG.md', 'docs/trl.md')
    """
    return ELSEWHERE.get(page, f"{DOCS}/{page}")


def place_of(path: str) -> str | None:
    """Where the site has a file or folder of the repository: a page, a picture, or the text of code; else None."""
    if (ROOT / path).is_dir():
        path = f"{path}/README.md".removeprefix("./")
    if (page := page_of(path)) is not None:
        return page
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    if not (ROOT / path).is_file():
        return None
    return path if path.endswith(COPIED) else f"{SOURCES}/{path}.txt"


def linked(text: str, file: str) -> Iterator[str]:
    """The files of the repository to which a Markdown file links, by their paths from the root."""
    for match in LINK.finditer(FENCE.sub("", text)):
        if match[1] and ":" not in match[1]:
            yield _resolved(match[1], file)


def for_the_site(text: str, file: str, page: str) -> str:
    """The text of a Markdown file with its links as the site needs them; code blocks stay as they are.

    A link to what the site does not have stays as it is, so that a strict build complains of it.
    """
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [_relinked(text[end : fence.start()], file, page), fence[0]]
        end = fence.end()
    return "".join([*parts, _relinked(text[end:], file, page)])


def _relinked(text: str, file: str, page: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if not match[1] or ":" in match[1]:
            return match[0]
        place = place_of(_resolved(match[1], file))
        if place is None:
            return match[0]
        return os.path.relpath(place, os.path.dirname(page) or ".") + (match[2] or "")

    return LINK.sub(replaced, text)


def _resolved(link: str, file: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(file), link))

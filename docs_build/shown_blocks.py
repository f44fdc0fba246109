"""The code that pages of Markdown show: block by block, command by command, and as one script that runs it all."""

import re
from collections.abc import Mapping
from pathlib import Path

from docs_build.pages import ROOT

HERE = "<this repository>"  # what a page calls the address of a clone
_OF_LANGUAGE = r"^ *```{language}\n(.*?)^ *```"
_BLOCK = re.compile(
    r"(?:into `(?P<file>[\w.]+)`:\n\n)?^```(?P<language>sh|python)\n(?P<code>.*?)^```", re.M | re.DOTALL
)


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language, also those inside of lists."""
    found: list[str] = re.findall(_OF_LANGUAGE.format(language=language), page.read_text(), re.DOTALL | re.MULTILINE)
    return found


def lines(page: Path) -> list[str]:
    """The lines of a page's shell blocks, with continued ones joined."""
    return [line.strip() for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]


def commands(page: Path) -> list[str]:
    """The commands of simlab that a page shows, without their remarks; a line may have several, joined by ``&&``."""
    parts = [part.strip().removeprefix("venv/bin/") for line in lines(page) for part in line.split(" #")[0].split("&&")]
    return [part for part in parts if part.startswith("simlab ")]


def named(page: Path) -> str:
    """A page by its path in the repository."""
    return str(page.relative_to(ROOT))


def script(page: Path, beside: Path, instead: Mapping[str, str]) -> str:
    """A page as one script of Bash, so that a block finds what those before it have changed and made.

    The script says each line before it runs, after ``== ``, with those that continue it. Python that the page wants in
    a file is put there, other Python is run; both is kept in the folder ``beside``. A line that ``instead`` has is
    replaced.
    """
    steps = ["set -euo pipefail"]
    for number, block in enumerate(_BLOCK.finditer(page.read_text()), 1):
        if block["language"] == "sh":
            code = re.findall(r"(?:.*\\\n)*.+", block["code"])
        else:
            kept = beside / f"{page.stem}-{number}.py"
            kept.write_text(block["code"])
            code = [f"cp '{kept}' {block['file']}" if block["file"] else f"python '{kept}'"]
        for line in code:
            said = line.replace("\\\n", " ")
            steps += [f"cat <<'END'\n== {said}\nEND", instead.get(line, line)]
    return "\n".join(steps).replace(HERE, f"'{ROOT}'") + "\n"

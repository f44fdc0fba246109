"""Find the lines that carry the tag of a paper's equation, lemma or claim: in code, checks, proofs, figures and tests.

A tag, ``paper:label``, counts in square brackets in a docstring or a comment, and bare as an argument of a decorator,
such as ``register``, or of a call that stands alone at the top of a module, such as ``undecided``. In a file of Coq it
counts in square brackets, and names the theorem that follows.
"""

import ast
import functools
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from simlab import bundled
from simlab.errors import InputError, check_choice

PAPERS = ("f-grpo", "a-grae", "cw-grpo", "fade", "casp", "simlab")  # the last: what the laboratory finds
# The last: of methods whose papers are not judged, which a number stands for, and of code without a paper.
SOURCES = (*PAPERS, "arxiv", "github")
BUNDLED = {"check": "paper_checks", "proof": "paper_checks/proofs", "figure": "figures", "notebook": "notebooks"}
OF_CHECKOUT = {"test": "tests", "benchmark": "benchmarks"}

_BARE = re.compile(r"[a-z][a-z0-9-]*:[a-z0-9]+(?:[.-][a-z0-9]+)*")
_BRACKETED = re.compile(rf"(?<![\w)\]])\[({_BARE.pattern})\]")  # after a name or a bracket it is a slice, x[low:high]
_THEOREM = re.compile(r"Theorem (\w+)")
_WRITTEN = re.compile(rf"""[\["']{_BARE.pattern}[\]"']""")  # what a file must hold; looking for it spares most of them


class TaggedLine(NamedTuple):
    """One line that carries a tag, ``"paper:label"``."""

    tag: str
    kind: str  # of file: code, check, proof, figure, test, notebook or benchmark
    path: str  # from the folder that holds its root, or that root in which its root lies
    line: int
    name: str  # of the enclosing function or class, ``"outer.inner"`` when nested, empty at the top; of the theorem


def roots() -> dict[str, Path]:
    """Return the folders to read, by kind: the package, what is bundled, and in a checkout tests and benchmarks.

    >>> roots()["code"].name
    'simlab'
    """
    package = bundled.PACKAGE
    checkout = OF_CHECKOUT if bundled.is_checkout() else {}
    return (
        {"code": package}
        | {kind: bundled.bundled_folder(name) for kind, name in BUNDLED.items()}
        | {kind: package.parent / name for kind, name in checkout.items()}
    )


def tagged_lines(roots: Mapping[str, Path]) -> list[TaggedLine]:
    """List every line that carries a tag, by root, path and line; a file in two roots counts for the inner one."""
    lines = []
    for kind, folder in roots.items():
        inner = [root for root in roots.values() if folder in root.parents]
        outermost = next((root for root in roots.values() if root in folder.parents), folder)
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.v")]):
            if not any(root in path.parents for root in inner):
                tags_in = _tags if path.suffix == ".py" else _tags_of_theorems
                shown, text = path.relative_to(outermost.parent).as_posix(), path.read_text(encoding="utf-8")
                lines += [TaggedLine(tag, kind, shown, line, name) for line, tag, name in tags_in(text)]
    return lines


def find(paper: str, tag: str, roots: Mapping[str, Path]) -> list[TaggedLine]:
    """List every line that carries the tag, capitals aside; where none does, those of tags that begin with it.

    ``fig-4`` begins ``fig-4-c``, not ``fig-40``; ``figure-4`` is the same, and finds ``figures/f_grpo_fig4.py`` too.
    ``InputError`` if there are none either.

    >>> "focal" in {tagged.name for tagged in find("f-grpo", "eq-12", roots())}
    True
    """
    paper, tag = paper.lower(), tag.lower()
    check_choice("paper", paper, SOURCES)
    everything = tagged_lines(roots)
    lines = [tagged for tagged in everything if tagged.tag == f"{paper}:{tag}"]
    lines = lines or [tagged for tagged in everything if _begins(paper, tag).match(tagged.tag)]
    lines += [script for script in _scripts(paper, tag, roots) if script.path not in {line.path for line in lines}]
    if not lines:
        raise _no_tag(paper, tag, everything)
    return lines


def labels(paper: str, roots: Mapping[str, Path], beginning: str = "") -> list[str]:
    """List the tags of a paper that begin so, capitals aside, without its name.

    Raises: InputError: for a paper that is not known, and where it has no such tag.
    """
    paper, beginning = paper.lower(), beginning.lower()
    check_choice("paper", paper, SOURCES)
    everything = tagged_lines(roots)
    begins = _begins(paper, beginning)
    if not (matching := [label for label in _labels(paper, everything) if begins.match(f"{paper}:{label}")]):
        raise _no_tag(paper, beginning, everything)
    return matching


def _begins(paper: str, tag: str) -> re.Pattern[str]:
    """Return what the tags match that begin with one; a number is not the beginning of a longer one."""
    either_name = re.escape(tag).replace("figure", "fig").replace("fig", "fig(ure)?")
    return re.compile(rf"{paper}:{either_name}{'(?![0-9])' if tag[-1:].isdigit() else ''}")


def _no_tag(paper: str, tag: str, lines: list[TaggedLine]) -> InputError:
    """Say that a paper has no such tag, with the closest that it has."""
    closest = ", ".join(get_close_matches(tag, _labels(paper, lines), n=5, cutoff=0.0))
    return InputError(f"no tag {tag!r} in {paper}; closest known: {closest}")


def _labels(paper: str, lines: list[TaggedLine]) -> list[str]:
    return sorted({label for source, _, label in (line.tag.partition(":") for line in lines) if source == paper})


def _scripts(paper: str, tag: str, roots: Mapping[str, Path]) -> list[TaggedLine]:
    """List the scripts that are named after a figure or a table of a paper, as ``f_grpo_fig1a`` after ``fig-1``."""
    kind, _, number = tag.replace("figure", "fig").partition("-")
    if kind not in ("fig", "table") or "figure" not in roots:
        return []
    paths = sorted(roots["figure"].glob(f"{paper.replace('-', '_')}_{kind}*.py"))
    digits = re.split(r"[^0-9]", number)[0]
    named = [path for path in paths if not digits or digits in re.findall(r"[0-9]+", path.stem)]
    return [TaggedLine(f"{paper}:{tag}", "figure", f"{path.parent.name}/{path.name}", 1, "") for path in named]


def describe(lines: list[TaggedLine]) -> str:
    """Write a line of text for each, in columns: kind, path and number, name.

    >>> print(describe([TaggedLine("f-grpo:eq-12", "code", "simlab/estimators/links.py", 11, "focal")]))
    code  simlab/estimators/links.py:11  focal
    """
    rows = [(tagged.kind, f"{tagged.path}:{tagged.line}", tagged.name) for tagged in lines]
    kind_width, spot_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{kind:<{kind_width}}  {spot:<{spot_width}}  {name}".rstrip() for kind, spot, name in rows)


@functools.cache
def _tags(source: str) -> list[tuple[int, str, str]]:
    """List line, tag and enclosing name of each tag in a module; cached, for tests that ask again."""
    if not _WRITTEN.search(source):
        return []
    tree, lines = ast.parse(source), source.split("\n")
    comments = ((number, line.partition("#")[2]) for number, line in enumerate(lines, 1))
    tags = {(number, tag) for number, comment in comments for tag in _BRACKETED.findall(comment)}
    calls = [call for node in tree.body if isinstance(node, ast.Expr) for call in ast.walk(node)]
    definitions = []  # first line, last line and name
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            definitions.append((first, node.end_lineno or node.lineno, node.name))
            calls += node.decorator_list
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            numbers = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            tags |= {(number, tag) for number in numbers for tag in _BRACKETED.findall(lines[number - 1])}
    for call in calls:
        if isinstance(call, ast.Call):
            arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
            texts = [(each.lineno, each.value) for each in arguments if isinstance(each, ast.Constant)]
            tags |= {(number, text) for number, text in texts if _BARE.fullmatch(str(text))}
    definitions.sort()  # the outer ones first
    return [
        (line, tag, ".".join(name for first, last, name in definitions if first <= line <= last))
        for line, tag in sorted(tags)
    ]


def _tags_of_theorems(source: str) -> list[tuple[int, str, str]]:
    tags, theorem = [], ""
    for number, line in reversed([*enumerate(source.split("\n"), 1)]):
        theorem = match[1] if (match := _THEOREM.match(line)) else theorem
        tags += [(number, tag, theorem) for tag in _BRACKETED.findall(line)]
    return sorted(tags)

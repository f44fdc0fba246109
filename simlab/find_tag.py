"""Find the lines that carry the tag of a paper's equation, lemma or claim: in code, checks, figures and tests.

A tag is a paper's id and a label joined by a colon, ``paper:label``. It counts where it stands in square brackets in
a docstring or a comment, and bare as an argument of a decorator, such as ``register``, or of a call that stands alone
at the top of a module, such as ``undecided``.
"""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from simlab import bundled
from simlab.errors import InputError, check_choice

PAPERS = ("f-grpo", "a-grae", "cw-grpo", "fade", "casp", "brorl", "simlab")  # the last: what the laboratory finds
SOURCES = (*PAPERS, "arxiv")  # the last: of methods whose papers are not judged, which a number stands for
BUNDLED = {"check": "paper_checks", "figure": "figures", "notebook": "notebooks"}
OF_CHECKOUT = {"test": "tests", "benchmark": "benchmarks"}

_BARE = re.compile(r"[a-z][a-z0-9-]*:[a-z0-9]+(?:[.-][a-z0-9]+)*")
_BRACKETED = re.compile(rf"(?<![\w)\]])\[({_BARE.pattern})\]")  # after a name or a bracket it is a slice, x[low:high]
# What a file must hold to carry a tag at all, or one in a comment; looking for it spares most files the search.
_WRITTEN = re.compile(rf"""[\["']{_BARE.pattern}[\]"']""")
_COMMENTED = re.compile(rf"#.*{_BRACKETED.pattern}")


@dataclass(frozen=True)
class TaggedLine:
    """One line that carries a tag.

    Attributes:
        tag: ``"paper:label"``.
        kind: what the file is: code, check, figure, test, notebook or benchmark.
        path: the file, from the folder that holds its root, or that root in which its root lies.
        line: its number, from 1.
        name: the enclosing function or class, ``"outer.inner"`` when nested, empty at the top of a module.
    """

    tag: str
    kind: str
    path: str
    line: int
    name: str


def roots() -> dict[str, Path]:
    """The folders to read, by kind: the package, what comes with it, and in a checkout its tests and benchmarks.

    Raises:
        InputError: if what comes with the package is missing.

    >>> roots()["code"].name
    'simlab'
    """
    package = bundled.PACKAGE
    found = {"code": package} | {kind: bundled.bundled_folder(name) for kind, name in BUNDLED.items()}
    if bundled.is_checkout():
        found |= {kind: package.parent / name for kind, name in OF_CHECKOUT.items()}
    return found


def tagged_lines(roots: Mapping[str, Path]) -> list[TaggedLine]:
    """Every line that carries a tag, in the order of ``roots``, then by path and line.

    Raises:
        InputError: for a file that is not Python.
    """
    return [
        tagged
        for kind, folder in roots.items()
        for path in _files(folder, roots.values())
        for tagged in _tagged_lines_in(path, kind, _outermost(folder, roots.values()))
    ]


def find(paper: str, tag: str, roots: Mapping[str, Path]) -> list[TaggedLine]:
    """Every line that carries the tag, in the order of ``roots``, then by path and line.

    Args:
        paper: its id, such as ``"f-grpo"``, or ``"arxiv"`` for one that is not judged.
        tag: the label, such as ``"eq-12"``, or its number. Capitals do not count, in either.
        roots: folders to read, by kind.

    Raises:
        InputError: for an unknown paper, a tag that is written nowhere, or a file that is not Python.

    >>> "focal" in {tagged.name for tagged in find("f-grpo", "eq-12", roots())}
    True
    """
    paper, tag = paper.lower(), tag.lower()
    check_choice("paper", paper, SOURCES)
    everything = tagged_lines(roots)
    found = [tagged for tagged in everything if tagged.tag == f"{paper}:{tag}"]
    if not found:
        prefix = f"{paper}:"
        known = sorted({tagged.tag.removeprefix(prefix) for tagged in everything if tagged.tag.startswith(prefix)})
        closest = ", ".join(get_close_matches(tag, known, n=5, cutoff=0.0)) or "none, this paper has no tag yet"
        raise InputError(f"no tag {tag!r} in {paper}; closest known: {closest}")
    return found


def known_tags(roots: Mapping[str, Path]) -> list[str]:
    """Every tag written under the roots, as sorted ``"paper:label"``, whether or not the paper is known.

    Raises:
        InputError: for a file that is not Python.
    """
    return sorted({tagged.tag for tagged in tagged_lines(roots)})


def describe(found: list[TaggedLine]) -> str:
    """One line of text for each, in columns: kind, path and number, name.

    >>> print(describe([TaggedLine("f-grpo:eq-12", "code", "simlab/estimators/difficulty.py", 11, "focal")]))
    code  simlab/estimators/difficulty.py:11  focal
    """
    rows = [(tagged.kind, f"{tagged.path}:{tagged.line}", tagged.name) for tagged in found]
    kind_width = max((len(kind) for kind, _, _ in rows), default=0)
    spot_width = max((len(spot) for _, spot, _ in rows), default=0)
    return "\n".join(f"{kind:<{kind_width}}  {spot:<{spot_width}}  {name}".rstrip() for kind, spot, name in rows)


def _files(folder: Path, roots: Iterable[Path]) -> list[Path]:
    """The modules of a root, without those of a root that lies in it, as the checks do in an installed package."""
    inner = [root for root in roots if folder in root.parents]
    return [path for path in sorted(folder.rglob("*.py")) if not any(root in path.parents for root in inner)]


def _outermost(folder: Path, roots: Iterable[Path]) -> Path:
    return next((root for root in roots if root in folder.parents), folder)


def _tagged_lines_in(path: Path, kind: str, folder: Path) -> Iterator[TaggedLine]:
    try:
        written = _written_in(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:  # ValueError: not UTF-8
        raise InputError(f"{path} cannot be read as Python: {error}") from None
    shown = path.relative_to(folder.parent).as_posix()
    for line, tag, name in written:
        yield TaggedLine(tag, kind, shown, line, name)


@functools.cache
def _written_in(source: str) -> list[tuple[int, str, str]]:
    """Lines, tags and enclosing names of a module; who asks again for the same text does not wait again."""
    tree = ast.parse(source)
    if not _WRITTEN.search(source):
        return []
    definitions = list(_definitions(tree))
    return [(line, tag, _enclosing(definitions, line)) for line, tag in sorted(set(_tags(source, tree)))]


def _tags(source: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line number and the name of each tag in the docstrings, decorators, lone calls and comments of a file."""
    lines = source.split("\n")
    for statement in tree.body:
        if isinstance(statement, ast.Expr):
            yield from _argument_tags(ast.walk(statement))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    yield from ((number, tag) for tag in _BRACKETED.findall(lines[number - 1]))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from _argument_tags(node.decorator_list)
    if not _COMMENTED.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from ((token.start[0], tag) for tag in _BRACKETED.findall(token.string))


def _argument_tags(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Call):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                match argument:
                    case ast.Constant(value=str(text)) if _BARE.fullmatch(text):
                        yield argument.lineno, text


def _definitions(node: ast.AST, outer: str = "") -> Iterator[tuple[int, int, str]]:
    """First line (of the decorators), last line and dotted name of every function and class below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield first, child.end_lineno or child.lineno, outer + child.name
            yield from _definitions(child, f"{outer}{child.name}.")
        else:
            yield from _definitions(child, outer)


def _enclosing(definitions: list[tuple[int, int, str]], line: int) -> str:
    """Name of the innermost definition around a line."""
    around = [(first, name) for first, last, name in definitions if first <= line <= last]
    return max(around)[1] if around else ""

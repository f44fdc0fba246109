"""Where a numbered equation, lemma or claim of a paper is implemented, checked, shown and tested.

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

from simlab.errors import InputError, check_choice

PAPERS = ("f-grpo", "a-grae", "cw-grpo", "fade", "casp", "brorl", "simlab")  # the last: what the laboratory finds
CHECKOUT_FOLDERS = {
    "figure": "figures",
    "test": "tests",
    "notebook": "notebooks",
    "benchmark": "benchmarks",
}

_BARE = re.compile(r"[a-z][a-z0-9-]*:[a-z0-9]+(?:[.-][a-z0-9]+)*")
_BRACKETED = re.compile(rf"(?<![\w)\]])\[({_BARE.pattern})\]")  # after a name or a bracket it is a slice, x[low:high]
# What a file must hold to carry a tag at all, or one in a comment; looking for it spares most files the search.
_WRITTEN = re.compile(rf"""[\["']{_BARE.pattern}[\]"']""")
_COMMENTED = re.compile(rf"#.*{_BRACKETED.pattern}")


@dataclass(frozen=True)
class Place:
    """One line that carries a tag.

    Attributes:
        tag: ``"paper:label"``.
        kind: what the file is: code, check, figure, test, notebook or benchmark.
        path: the file, from the folder that holds its root.
        line: its number, from 1.
        name: the enclosing function or class, ``"outer.inner"`` when nested, empty at the top of a module.
    """

    tag: str
    kind: str
    path: str
    line: int
    name: str


def roots() -> dict[str, Path]:
    """The folders to read, by kind: package and checks as installed, and the folders of its checkout, if any.

    >>> roots()["code"].name
    'simlab'
    """
    package = Path(__file__).resolve().parent
    folders = {"check": "paper_checks"}  # installed beside it
    if (package.parent / "pyproject.toml").is_file():
        folders |= CHECKOUT_FOLDERS
    beside = {kind: package.parent / folder for kind, folder in folders.items()}
    return {"code": package} | {kind: folder for kind, folder in beside.items() if folder.is_dir()}


def places(roots: Mapping[str, Path]) -> list[Place]:
    """Every place that carries a tag, in the order of ``roots``, then by path and line.

    Raises:
        InputError: for a file that is not Python.
    """
    return [
        place
        for kind, folder in roots.items()
        for path in sorted(folder.rglob("*.py"))
        for place in _places_in(path, kind, folder)
    ]


def find(paper: str, tag: str, roots: Mapping[str, Path]) -> list[Place]:
    """Every place that carries the tag, in the order of ``roots``, then by path and line.

    Args:
        paper: its id, such as ``"f-grpo"``.
        tag: the label, such as ``"eq-12"``.
        roots: folders to read, by kind.

    Raises:
        InputError: for an unknown paper, a tag that is written nowhere, or a file that is not Python.

    >>> "focal" in {place.name for place in find("f-grpo", "eq-12", roots())}
    True
    """
    check_choice("paper", paper, PAPERS)
    everything = places(roots)
    found = [place for place in everything if place.tag == f"{paper}:{tag}"]
    if not found:
        prefix = f"{paper}:"
        known = sorted({place.tag.removeprefix(prefix) for place in everything if place.tag.startswith(prefix)})
        closest = ", ".join(get_close_matches(tag, known, n=5, cutoff=0.0)) or "none, this paper has no tag yet"
        raise InputError(f"tag = {tag!r} of {paper} is written nowhere; closest known: {closest}")
    return found


def known_tags(roots: Mapping[str, Path]) -> list[str]:
    """Every tag written under the roots, as sorted ``"paper:label"``, whether or not the paper is known.

    Raises:
        InputError: for a file that is not Python.
    """
    return sorted({place.tag for place in places(roots)})


def describe(found: list[Place]) -> str:
    """One line a place, in columns: kind, path and line, name.

    >>> print(describe([Place("f-grpo:eq-12", "code", "simlab/estimators/difficulty.py", 11, "focal")]))
    code  simlab/estimators/difficulty.py:11  focal
    """
    rows = [(place.kind, f"{place.path}:{place.line}", place.name) for place in found]
    kind_width = max((len(kind) for kind, _, _ in rows), default=0)
    spot_width = max((len(spot) for _, spot, _ in rows), default=0)
    return "\n".join(f"{kind:<{kind_width}}  {spot:<{spot_width}}  {name}".rstrip() for kind, spot, name in rows)


def _places_in(path: Path, kind: str, folder: Path) -> Iterator[Place]:
    try:
        written = _written_in(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:  # ValueError: not UTF-8
        raise InputError(f"{path} cannot be read as Python: {error}") from None
    shown = path.relative_to(folder.parent).as_posix()
    for line, tag, name in written:
        yield Place(tag, kind, shown, line, name)


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

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
Definition = tuple[int, int, str]  # first line, last line and dotted name of a function or class


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
    """Return the folders to read, by kind: the package, what is bundled, and in a checkout tests and benchmarks.

    Raises:
        InputError: if what comes with the package is missing.

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
    """List every line that carries a tag, in the order of ``roots``, then by path and line.

    A file in a root that lies in another root, as the checks do in an installed package, counts for the inner one.

    Raises:
        InputError: for a file that is not Python.
    """
    lines = []
    for kind, folder in roots.items():
        inner = [root for root in roots.values() if folder in root.parents]
        outermost = next((root for root in roots.values() if root in folder.parents), folder)
        for path in sorted(folder.rglob("*.py")):
            if not any(root in path.parents for root in inner):
                try:
                    tags = _tags(path.read_text(encoding="utf-8"))
                except (SyntaxError, ValueError) as error:  # ValueError: not UTF-8
                    raise InputError(f"{path} cannot be read as Python: {error}") from None
                shown = path.relative_to(outermost.parent).as_posix()
                lines += [TaggedLine(tag, kind, shown, line, name) for line, tag, name in tags]
    return lines


def find(paper: str, tag: str, roots: Mapping[str, Path]) -> list[TaggedLine]:
    """List every line that carries the tag, in the order of ``roots``, then by path and line.

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
    lines = [tagged for tagged in everything if tagged.tag == f"{paper}:{tag}"]
    if not lines:
        prefix = f"{paper}:"
        labels = sorted({tagged.tag.removeprefix(prefix) for tagged in everything if tagged.tag.startswith(prefix)})
        closest = ", ".join(get_close_matches(tag, labels, n=5, cutoff=0.0)) or "none, this paper has no tag yet"
        raise InputError(f"no tag {tag!r} in {paper}; closest known: {closest}")
    return lines


def known_tags(roots: Mapping[str, Path]) -> list[str]:
    """List every tag written under the roots, as sorted ``"paper:label"``, whether or not the paper is known.

    Raises:
        InputError: for a file that is not Python.
    """
    return sorted({tagged.tag for tagged in tagged_lines(roots)})


def describe(lines: list[TaggedLine]) -> str:
    """Write a line of text for each, in columns: kind, path and number, name.

    >>> print(describe([TaggedLine("f-grpo:eq-12", "code", "simlab/estimators/links.py", 11, "focal")]))
    code  simlab/estimators/links.py:11  focal
    """
    rows = [(tagged.kind, f"{tagged.path}:{tagged.line}", tagged.name) for tagged in lines]
    kind_width = max((len(kind) for kind, _, _ in rows), default=0)
    spot_width = max((len(spot) for _, spot, _ in rows), default=0)
    return "\n".join(f"{kind:<{kind_width}}  {spot:<{spot_width}}  {name}".rstrip() for kind, spot, name in rows)


@functools.cache
def _tags(source: str) -> list[tuple[int, str, str]]:
    """List line, tag and enclosing name of each tag in a module; cached, for tests that ask again."""
    tree = ast.parse(source)
    if not _WRITTEN.search(source):
        return []
    definitions = list(_definitions(tree))
    tags = {*_tags_of_code(tree, source.split("\n"))}
    if _COMMENTED.search(source):
        tags |= {*_tags_of_comments(source)}
    # The innermost definition around a line is the one that begins last.
    return [
        (line, tag, max([(first, name) for first, last, name in definitions if first <= line <= last] or [(0, "")])[1])
        for line, tag in sorted(tags)
    ]


def _tags_of_code(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield line and tag of each tag in docstrings, decorators and lone calls."""
    for statement in tree.body:
        if isinstance(statement, ast.Expr):
            yield from _tags_of_arguments(ast.walk(statement))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    yield from ((number, tag) for tag in _BRACKETED.findall(lines[number - 1]))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from _tags_of_arguments(node.decorator_list)


def _tags_of_arguments(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Call):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                match argument:
                    case ast.Constant(value=str(text)) if _BARE.fullmatch(text):
                        yield argument.lineno, text


def _tags_of_comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from ((token.start[0], tag) for tag in _BRACKETED.findall(token.string))


def _definitions(node: ast.AST, outer: str = "") -> Iterator[Definition]:
    """Yield every function and class below a node, from the line of its first decorator on."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield first, child.end_lineno or child.lineno, outer + child.name
            yield from _definitions(child, f"{outer}{child.name}.")
        else:
            yield from _definitions(child, outer)

"""Measure how heavy and how plain the code is: ``python -m benchmarks.house [CHECKOUT]``.

It prints lines and files, the share of odd names and of docstrings that begin with a question word, comments, class
names that stand in several files, circles of imports, and how often a reader of one command returns to a file.
"""

import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

# Names that do not say what they hold.
ODD = {
    "found", "own", "one", "part", "place", "given", "held", "left", "told", "kept", "made", "said", "taken", "whole",
    "known", "asked", "wanted", "met", "seen", "rest",
}  # fmt: skip
QUESTIONS = {"What", "Whether", "Of", "Those", "Which", "That", "How", "Where", "Who", "When"}
COMMANDS = {
    "sweep": (
        "sweep --arms grpo --group-size 8 --param actions=100 --param correct=10 --steps 3 --record-every 1 --seeds 2 "
        "--out result.nc"
    ),
    "train": (
        "train --preset countdown --arms grpo --seeds 1 --param warm_start.steps=1 --param rl.steps=1 "
        "--param model.num_layers=1 --out run"
    ),
}
# Runs a command and prints the file of each of the library's functions in the order of their first calls.
FOLLOW = """
import os, sys
seen, files = set(), []
root = os.path.join(sys.argv[1], "simlab") + os.sep
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and code.co_name != "<module>" and code not in seen:
        seen.add(code)
        files.append(code.co_filename)
from simlab.cli import main
sys.setprofile(note)
try:
    ended = main(sys.argv[2:])
finally:
    sys.setprofile(None)
print("\\n".join(files), file=open("files.txt", "w"))
sys.exit(ended)
"""


def bindings(tree: ast.Module) -> Iterator[str]:
    """Yield every name that a module binds: variables, arguments, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield every docstring of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from filter(None, [ast.get_docstring(node)])


def imports(tree: ast.Module, package: str, modules: set[str]) -> set[str]:
    """Return the modules that a module imports at its top level, for type checkers too."""
    names: set[str] = set()
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names}
        elif isinstance(node, ast.If | ast.Try):
            pending += node.body + node.orelse
    return names & modules


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that reach each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in graph[module]:
            if other not in index:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == index[module]:
            group = [stack.pop()]
            while group[-1] != module:
                group.append(stack.pop())
            groups.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for module in graph:
        if module not in index:
            visit(module)
    return [group for group in groups if len(group) > 1]


def returns(checkout: Path, command: str) -> int:
    """Count how often somebody who reads each function where it is first called returns to a file he has left."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        subprocess.run(
            [sys.executable, "-c", FOLLOW, str(checkout), *command.split()],
            cwd=folder, env=environment, capture_output=True, check=True,
        )  # fmt: skip
        files = (Path(folder) / "files.txt").read_text().split()
    count, left, current = 0, set(), files[0]
    for path in files[1:]:
        if path != current:
            left.add(current)
            count += path in left
            current = path
    return count


def main() -> None:
    """Print the measurements of a checkout."""
    checkout = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    paths = sorted((checkout / "simlab").rglob("*.py"))
    page = [path for path in (checkout / "simlab").rglob("*.*") if path.suffix in {".js", ".css"}]
    tests = list((checkout / "tests").rglob("*.py"))
    count = {name: sum(len(p.read_text().splitlines()) for p in s) for name, s in
             (("simlab", paths), ("page", page), ("tests", tests))}  # fmt: skip
    print(f"simlab/: {len(paths)} files of Python, {count['simlab']} lines; JavaScript and CSS: {count['page']} lines")
    print(f"tests/: {len(tests)} files, {count['tests']} lines")
    trees = {path: ast.parse(path.read_text()) for path in paths}
    names = [name.strip("_") for tree in trees.values() for name in bindings(tree)]
    odd = Counter(name for name in names if name in ODD)
    share = sum(odd.values()) / len(names)
    print(f"odd names: {sum(odd.values())} of {len(names)} bindings, {share:.2%}; {dict(odd.most_common(5))}")
    texts = [text for tree in trees.values() for text in docstrings(tree)]
    questions = sum(text.split()[0].strip(",:") in QUESTIONS for text in texts)
    print(f"docstrings that begin with a question word: {questions} of {len(texts)}, {questions / len(texts):.1%}")
    tokens = (t for path in paths for t in tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
    comments = sum(token.type == tokenize.COMMENT for token in tokens)
    print(f"comments: {comments}, {comments / count['simlab']:.1%} of lines")
    classes = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(str(path.relative_to(checkout)))
    for name, files in sorted(classes.items()):
        if len(files) > 1:
            print(f"class {name} stands in {', '.join(files)}")
    modules = {
        path: ".".join(path.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__") for path in paths
    }
    graph = {
        name: imports(trees[path], name if path.stem == "__init__" else name.rpartition(".")[0], set(modules.values()))
        for path, name in modules.items()
    }
    for circle in circles(graph):
        print(f"circle of imports: {', '.join(circle)}")
    for name, command in COMMANDS.items():
        print(f"simlab {name}: a reader returns {returns(checkout, command)} times")


if __name__ == "__main__":
    main()

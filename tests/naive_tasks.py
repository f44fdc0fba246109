"""Answers of the tasks judged once more: by brute force, and by Python's own reading of expressions.

It shares nothing with the library.
"""

import ast
import itertools
from fractions import Fraction

OPERATIONS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def apply(operator, a, b):
    if operator == "/":
        return None if a is None or b in (None, 0) else a / b
    if a is None or b is None:
        return None
    return {"+": a + b, "-": a - b, "*": a * b}[operator]


def python_value(text):
    """Leaves and value of what Python reads as an expression of plain numbers; None for anything else."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    leaves = []

    def walk(node):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            leaves.append(node.value)
            return Fraction(node.value)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            return apply(OPERATIONS[type(node.op)], walk(node.left), walk(node.right))
        raise TypeError

    try:
        value = walk(tree)
    except (TypeError, RecursionError):
        return None
    return sorted(leaves), value


def is_countdown_answer(numbers, target, text):
    """Return True if the text, all digits, operators and round brackets, uses each number once and has the value."""
    return set(text) <= set("0123456789+-*/()") and python_value(text) == (sorted(numbers), target)


def trees(leaves):
    """Every ordered way to join the leaves in this order, as nested tuples."""
    if len(leaves) == 1:
        yield leaves[0]
    for cut in range(1, len(leaves)):
        for left, right in itertools.product(trees(leaves[:cut]), trees(leaves[cut:])):
            for operator in "+-*/":
                yield operator, left, right


def all_trees(numbers):
    """Every binary tree over every order of the numbers: n! Catalan(n - 1) 4^(n - 1) of them."""
    return itertools.chain.from_iterable(trees(order) for order in set(itertools.permutations(numbers)))


def tree_value(tree, at=Fraction):
    if not isinstance(tree, tuple):
        return at(tree)
    return apply(tree[0], tree_value(tree[1], at), tree_value(tree[2], at))


def tree_text(tree):
    """The tree with brackets around every operation."""
    return f"({tree_text(tree[1])}{tree[0]}{tree_text(tree[2])})" if isinstance(tree, tuple) else str(tree)


def flood(grid):
    """The open cells of rows of words, and the number of moves to each that can be reached from the start."""
    cells = {(r, c): word for r, row in enumerate(grid) for c, word in enumerate(row) if word != "WALL"}
    (start,) = (cell for cell, word in cells.items() if word == "START")
    distance, frontier = {start: 0}, [start]
    for r, c in frontier:
        for near in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            if near in cells and near not in distance:
                distance[near] = distance[r, c] + 1
                frontier.append(near)
    return cells, distance


def walks_to_goal(grid, words):
    """Return True if an answer is moves and then DONE, and a walk along these gets to the goal before a wall."""
    if "DONE" not in words:
        return False
    moves = list(itertools.takewhile(lambda word: word != "DONE", words))
    if any(move not in ("UP", "DOWN", "LEFT", "RIGHT") for move in moves):
        return False
    row, column = 1, 1
    for move in moves:
        row += (move == "DOWN") - (move == "UP")
        column += (move == "RIGHT") - (move == "LEFT")
        if grid[row][column] == "WALL":
            return False
        if grid[row][column] == "GOAL":
            return True
    return False

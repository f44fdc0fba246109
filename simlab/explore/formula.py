"""Weights written as formulas, such as ``=(1 - p)^g * (r - p)/s``: read into a tree and walked, never run as code.

A formula gives the weight of a rollout, for rewards 0 and 1::

    text     = formula [@g=number]
    formula  sum of products of powers, with + - * / ^, brackets, numbers, the names below and FUNCTIONS
    r        the rollout's reward, 0 or 1        p, q   the group's solve rate, and 1 - p
    G        the group size                      s      the standard deviation of the group's rewards, sqrt(p q)
    g        a number of one's own, the slider gamma

A value that is not finite counts as 0, as in groups whose rewards are all alike where it is divided by s. Python's
parser reads the text (``ast``), with ^ for its **; only the nodes of ``_OPERATIONS`` are walked.
"""

import ast
import hashlib
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from jaxtyping import Float

from simlab.errors import InputError
from simlab.estimators.base import Estimator, chain, stateless
from simlab.estimators.registry import REGISTRY, register
from simlab.rollouts import Array, Rollouts, Scalar, group_count, is_correct, remainder, solve_rate
from simlab.text import NUMBER, parse_python, read_number, shortened

SIGN = "="  # a weight that begins with it is a formula
G_SIGN = "@g="
TAG = "formula"
LARGEST_G = 8.0
LONGEST = 200  # characters
NAMES = ("p", "q", "r", "s", "G", "g")
FUNCTIONS = ("sqrt", "exp", "log", "abs", "min", "max")  # the last two of two arguments
ALLOWED = f"allowed: {', '.join(NAMES)}, numbers, + - * / ^ ( ), {', '.join(FUNCTIONS)}"
_TOKENS = re.compile(
    rf"(?: |{NUMBER.pattern.removeprefix('[+-]?')}|\b(?:{'|'.join([*NAMES, *FUNCTIONS])})\b|[-+*/^(),])*"
)
_OPERATIONS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


def is_formula(weight: str) -> bool:
    """Return True if a weight is written as a formula."""
    return weight.startswith(SIGN)


def read(text: str) -> ast.expr:
    """Return the tree of a formula.

    >>> ast.unparse(read("1 - p^2"))
    '1 - p ** 2'
    """
    if len(text) > LONGEST:
        raise InputError(f"formula {shortened(text)} is too long; allowed: up to {LONGEST} characters")
    match = _TOKENS.match(text)
    end = match.end() if match else 0
    if end < len(text):
        raise InputError(f"formula {shortened(text)} cannot be read at character {end + 1}; {ALLOWED}")
    half = np.array(0.5)
    try:
        tree: ast.expr = parse_python(text.strip(" ").replace("^", "**"), "eval").body
        with np.errstate(all="ignore"):
            evaluate(tree, half, half, 2.0, 1.0)
    except (SyntaxError, ValueError, ArithmeticError, LookupError, RecursionError, MemoryError):
        raise InputError(f"formula {shortened(text)} cannot be read; {ALLOWED}") from None
    return tree


def evaluate(tree: ast.expr, p: Array, r: Array, group_size: Array | float, g: Scalar) -> Array:
    """Return a formula of solve rates p and rewards r; 0 where not finite. A node that no formula has is an error."""
    xp = array_namespace(r)
    q = remainder(p)
    values = {"p": p, "q": q, "r": r, "s": xp.sqrt(p * q), "G": xp.zeros_like(r) + group_size, "g": g + 0 * r}

    def walk(node: ast.expr) -> Array:
        match node:
            case ast.Constant(value=int() | float() as number) if math.isfinite(number):
                return float(number) + 0 * r
            case ast.Name(id=name):
                return values[name]
            case ast.BinOp(op=operation):
                return _OPERATIONS[type(operation)](walk(node.left), walk(node.right))
            case ast.UnaryOp(op=operation, operand=operand):
                return _OPERATIONS[type(operation)](walk(operand))
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, second]):
                a, b = walk(first), walk(second)
                return xp.where(a < b if name == "min" else a > b, a, b)
            case ast.Call(func=ast.Name(id="sqrt" | "exp" | "log" | "abs" as name), args=[argument]):
                return getattr(xp, name)(walk(argument))
        raise ValueError(node)

    result = walk(tree) + 0 * r
    return xp.where(xp.isfinite(result), result, xp.zeros_like(result))


def has_g(tree: ast.expr) -> bool:
    """Return True if a formula reads g."""
    return any(isinstance(node, ast.Name) and node.id == "g" for node in ast.walk(tree))


def formula_masses(
    text: str, g: float, rates: Float[np.ndarray, " N"], group_size: float
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Return m_S = p W(1) and m_F = -(1 - p) W(0) of a formula W at solve rates; the group size may be infinite."""
    p, tree = np.asarray(rates, float), read(text)
    with np.errstate(all="ignore"):
        success, failure = (evaluate(tree, p, np.full_like(p, reward), group_size, g) for reward in (1.0, 0.0))
    return p * success + 0.0, -(1 - p) * failure + 0.0


def formula_estimator(text: str, g: Scalar) -> Estimator:
    """Return the estimator of a formula."""
    tree = read(text)

    def weight(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        r = xp.where(is_correct(rollouts), xp.ones_like(advantages), xp.zeros_like(advantages))
        return evaluate(tree, solve_rate(rollouts) + 0 * advantages, r, group_count(rollouts), g)

    return chain(stateless(weight, domain="binary", exchangeable=True))


def split(weight: str) -> tuple[str, float | None]:
    """Return the formula and the g of a weight, such as ``=(1 - p)^g@g=0.5``; None if it names no g."""
    text, sign, number = weight.removeprefix(SIGN).partition(G_SIGN)
    if not sign:
        return text.strip(" "), None
    if not NUMBER.fullmatch(number) or not 0 <= (g := float(read_number(number))) <= LARGEST_G:
        raise InputError(f"g = {shortened(number)} is not allowed; allowed: [0, {LARGEST_G:g}]")
    return text.strip(" "), g


def register_formula(weight: str) -> tuple[str, dict[str, Any]]:
    """Register a formula's estimator; return its name and its parameters: ``g``, if it reads it."""
    text, g = split(weight)
    reads_g = has_g(read(text))
    name = f"formula_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if name not in REGISTRY:

        def with_g(g: Scalar = 1.0) -> Estimator:
            """A weight of one's own."""
            return formula_estimator(text, g)

        def without_g() -> Estimator:
            """A weight of one's own."""
            return formula_estimator(text, 0.0)

        build = with_g if reads_g else without_g
        build.__name__ = name
        register(TAG, text)(build)
    return name, {"g": 1.0 if g is None else g} if reads_g else {}


PYTHON_FILE = """from array_api_compat import array_namespace
from simlab.rollouts import group_count, is_correct, solve_rate


def weight(advantages, rollouts):
    xp = array_namespace(advantages)
    r = xp.astype(is_correct(rollouts), advantages.dtype)
    p = solve_rate(rollouts) + 0 * r
    q = 1 - p
    s = xp.sqrt(p * q)
    G = group_count(rollouts) + 0 * r
{g_line}    weighed = {formula} + 0 * r
    return xp.where(xp.isfinite(weighed), weighed, xp.zeros_like(r))
"""


def python_lines(weight: str) -> str:
    """Return a Python file that makes the estimator of a formula, for ``--arms "mine.py:weight"``."""
    text, g = split(weight)
    tree = read(text)
    spelled = {"min": "minimum", "max": "maximum"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            node.func.id = f"xp.{spelled.get(node.func.id, node.func.id)}"
    g_line = f"    g = {1.0 if g is None else g:.12g}\n" if has_g(tree) else ""
    return PYTHON_FILE.format(formula=ast.unparse(tree), g_line=g_line)

"""Countdown: reach a target from some numbers; most problems have several solutions, so diversity can be lost.

An answer is an arithmetic expression, without spaces, unary signs or leading zeros::

    sum     = product, { ("+" | "-"), product }
    product = factor,  { ("*" | "/"), factor }
    factor  = number | "(", sum, ")"

Python's own parser makes the tree of a text of these characters; nothing is evaluated as code.
"""

import ast
import functools
import hashlib
import itertools
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from simlab.errors import InputError, check_whole
from simlab.llm.tasks.base import DRAWS_WITHOUT_NEWS, DrawnTask, TaskProblem
from simlab.llm.vocabulary import Vocabulary, characters

LONGEST_TEXT = 256
DEEPEST_BRACKETS = 32
WRITTEN = re.compile(r"(?:[-+*/()]|(?:0|[1-9][0-9]{0,8})(?![0-9]))+")  # numbers have up to 9 digits
OPERATIONS: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
NODES = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@dataclass(frozen=True)
class Operation:
    """Two expressions, whole numbers from 0 up among them, and what joins them: one of ``+ - * /``."""

    operator: str
    left: "Expression"
    right: "Expression"


Expression = int | Operation


def parse(text: str) -> Expression | None:
    """Return the expression that the whole text is; None for any other text, or one past the limits.

    >>> parse("2*(3+4)")
    Operation(operator='*', left=2, right=Operation(operator='+', left=3, right=4))
    >>> parse("2*(3+4") is None
    True
    """
    if len(text) > LONGEST_TEXT or not WRITTEN.fullmatch(text):
        return None
    if max(itertools.accumulate((sign == "(") - (sign == ")") for sign in text)) > DEEPEST_BRACKETS:
        return None
    try:
        return _of_node(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError):
        return None


def _of_node(node: ast.expr) -> Expression:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in NODES:
        return Operation(NODES[type(node.op)], _of_node(node.left), _of_node(node.right))
    raise TypeError("a sign, power, call or empty bracket, which the grammar has not")


def numbers_in(expression: Expression) -> Iterator[int]:
    """Yield the numbers of the expression from left to right."""
    if isinstance(expression, Operation):
        yield from numbers_in(expression.left)
        yield from numbers_in(expression.right)
    else:
        yield expression


def value(expression: Expression) -> Fraction | None:
    """Return the exact value; None where something is divided by zero.

    >>> value(parse("1/(3-8/3)"))
    Fraction(3, 1)
    """
    if not isinstance(expression, Operation):
        return Fraction(expression)
    left, right = value(expression.left), value(expression.right)
    if left is None or right is None or (expression.operator == "/" and right == 0):
        return None
    result: Fraction = OPERATIONS[expression.operator](left, right)
    return result


def written(expression: Expression) -> str:
    """Write the expression with no more brackets than its order of operations needs.

    >>> written(Operation("-", 9, Operation("-", 4, Operation("*", 2, 3))))
    '9-(4-2*3)'
    """
    if not isinstance(expression, Operation):
        return str(expression)
    left, right = written(expression.left), written(expression.right)
    if expression.operator in "*/" and _is_sum(expression.left):
        left = f"({left})"
    in_brackets = {"+": "", "-": "+-", "*": "+-", "/": "+-*/"}[expression.operator]
    if isinstance(expression.right, Operation) and expression.right.operator in in_brackets:
        right = f"({right})"
    return f"{left}{expression.operator}{right}"


def _is_sum(expression: Expression) -> bool:
    return isinstance(expression, Operation) and expression.operator in "+-"


# Canonical forms

Signed = tuple[int, str]  # 1 or -1, and a form; 0 for a form that is its own negation, such as 3-3


def canonical(expression: Expression) -> str:
    """Return a text that is equal for two expressions which differ only in the order and grouping of operations.

    A sum is the multiset of its terms with their signs. A product is the multiset of its factors, each of which
    multiplies or divides. Brackets that only group vanish: a - (b - c) is a + c - b. Signs move between the factors of
    a product and out of it: (a - b) * (c - d) is (b - a) * (d - c). Two forms then differ only if they are different
    functions of the numbers.

    >>> canonical(parse("(3+1)*7-2")), canonical(parse("7*((1)+3)-2"))
    ('(1+3)*7-2', '(1+3)*7-2')
    >>> canonical(parse("6-(5-4)")) == canonical(parse("4+6-5"))
    True
    """
    return _sum_text(_terms(expression, 1))


def _terms(expression: Expression, sign: int) -> list[Signed]:
    """Return the terms of ``sign`` times the expression: itself alone, if it is no sum."""
    if isinstance(expression, Operation) and _is_sum(expression):
        second = sign if expression.operator == "+" else -sign
        return _terms(expression.left, sign) + _terms(expression.right, second)
    inner_sign, text = _product(expression)
    return [(sign * inner_sign, text)]


def _product(expression: Expression) -> Signed:
    """Return sign and form of an expression that is no sum: factors in order, then divisors in order."""
    sign, texts = 1, []
    for divides, (inner_sign, text) in _factors(expression, divides=False):
        sign *= inner_sign
        texts.append((divides, text))
    (_, first), *others = sorted(texts)
    return sign, first + "".join(("/" if divides else "*") + text for divides, text in others)


def _factors(expression: Expression, divides: bool) -> list[tuple[bool, Signed]]:
    """Return for each factor True if it divides, its sign and its form."""
    if not isinstance(expression, Operation):
        return [(divides, (1, str(expression)))]
    if not _is_sum(expression):
        second = divides if expression.operator == "*" else not divides
        return _factors(expression.left, divides) + _factors(expression.right, second)
    sign, text = _oriented(_terms(expression, 1))
    return [(divides, (sign, f"({text})"))]


def _oriented(terms: list[Signed]) -> Signed:
    """Return the sum or its negation, whichever comes first in order, and the sign that makes up for it."""
    here = sorted((text, -sign) for sign, text in terms)
    turned = sorted((text, sign) for sign, text in terms)
    if here == turned:
        return 0, _sum_text(terms)
    return (1, _sum_text(terms)) if here < turned else (-1, _sum_text([(-sign, text) for sign, text in terms]))


def _sum_text(terms: list[Signed]) -> str:
    """Write positive terms in order, then negative ones."""
    added = sorted(text for sign, text in terms if sign >= 0)
    subtracted = sorted(text for sign, text in terms if sign < 0)
    return "+".join(added) + "".join(f"-{text}" for text in subtracted)


# All formulas that use each of a few numbers once

MOST_NUMBERS = 5  # of 6 there are 793,002 formulas
LARGEST_NUMBER = 999  # then numerators and denominators stay below 2^4 999^5 < 2^63
PRIME = 2**61 - 1
POINT = tuple(  # a generic one: hashes obey no equation
    int.from_bytes(hashlib.blake2b(bytes([position])).digest()) % PRIME for position in range(MOST_NUMBERS)
)


class Formulas(NamedTuple):
    """The formulas of each set of N places: a row is an operation on two rows before it; row i < N is place i."""

    operators: Int[np.ndarray, " R"]  # places in ``OPERATIONS``
    left: Int[np.ndarray, " R"]
    right: Int[np.ndarray, " R"]
    levels: tuple[slice, ...]  # the rows that use two places, three, and so on; the last are those that use all


@functools.cache
def formulas(count: int) -> Formulas:
    """Return the formulas of all sets of ``count`` places that use each place of their set once.

    Two formulas are one if they are equal as functions. They are told apart by their values at one generic point
    modulo a large prime. Of 1, 2, 3, 4 and 5 numbers there are 1, 6, 68, 1170 and 27142.
    """
    values = list(POINT[:count])
    rows = [(0, 0, 0)] * count
    of_set = {1 << position: range(position, position + 1) for position in range(count)}
    levels = []
    for size in range(2, count + 1):
        start = len(rows)
        for places in (places for places in range(2**count) if places.bit_count() == size):  # bit masks
            first, known_values = len(rows), set[int]()
            subset = (places - 1) & places
            while subset:  # all subsets between the empty one and the whole
                for i, j in itertools.product(of_set[subset], of_set[places ^ subset]):
                    a, b = values[i], values[j]
                    for index, result in enumerate((a + b, a - b, a * b, a * pow(b, -1, PRIME))):
                        if result % PRIME not in known_values:
                            known_values.add(result % PRIME)
                            values.append(result % PRIME)
                            rows.append((index, i, j))
                subset = (subset - 1) & places
            of_set[places] = range(first, len(rows))
        levels.append(slice(start, len(rows)))
    operators, left, right = np.array(rows).T
    return Formulas(operators, left, right, tuple(levels))


def fractions(numbers: Sequence[int]) -> tuple[Int[np.ndarray, " F"], Int[np.ndarray, " F"]]:
    """Return numerators and denominators (0 for a division by 0) of all formulas of 2 to 5 whole numbers to 999."""
    table = formulas(len(numbers))
    above, below = np.ones((2, len(table.operators)), np.int64)
    above[: len(numbers)] = numbers
    for level in table.levels:
        left, right = table.left[level], table.right[level]
        a, b, c, d = above[left], below[left], above[right], below[right]
        above[level] = np.choose(table.operators[level], (a * d + c * b, a * d - c * b, a * c, a * d))
        below[level] = np.choose(table.operators[level], (b * d, b * d, b * d, np.where(d == 0, 0, b * c)))
    return above[table.levels[-1]], below[table.levels[-1]]


def formula(numbers: Sequence[int], index: int) -> Expression:
    """Return the formula at an index of ``fractions``, with the numbers in it."""
    table = formulas(len(numbers))

    def at(row: int) -> Expression:
        if row < len(numbers):
            return numbers[row]
        return Operation([*OPERATIONS][table.operators[row]], at(int(table.left[row])), at(int(table.right[row])))

    return at(table.levels[-1].start + index)


# The task


@dataclass(frozen=True)
class CountdownProblem(TaskProblem):
    """Numbers, each to be used exactly once, and the value to reach."""

    numbers: tuple[int, ...]
    target: int


@dataclass(frozen=True, kw_only=True)
class Countdown(DrawnTask[CountdownProblem]):
    """One answer to ``1,2,3,4=24:`` is ``(1+2+3)*4``: each number must be used exactly once.

    An answer is an expression of ``+ - * /`` and brackets, with exact fractions on the way. Two answers are one
    solution if they differ only in the order and grouping of their operations, see ``canonical``.

    The numbers of a problem are different, drawn uniformly. Its target is uniform among the whole numbers that they
    can make in enough ways. To the division into training and evaluation their order does not matter.

    Attributes:
        numbers: how many numbers a problem has.
        largest: they run from 1 to this.
        largest_target: targets run from 1 to this.
        least_solutions: how many different solutions every problem has at least.

    Raises: InputError: for 1 or more than 5 numbers, fewer different ones than are drawn, ones or targets below 1, and
    for what ``DrawnTask`` refuses.

    >>> task = Countdown()
    >>> problem = CountdownProblem("1,2,3,4=24:", (1, 2, 3, 4), 24)
    >>> task.solution(problem, "4*(3+2+1)"), task.solution(problem, "(1+2+3)*4")
    ('(1+2+3)*4', '(1+2+3)*4')
    >>> sorted(solutions(problem))
    ['(1+2+3)*4', '(1+3)*(2+4)', '1*2*3*4', '2*3*4/1']
    """

    numbers: int = 4
    largest: int = 12
    largest_target: int = 99
    least_solutions: int = 2
    name: str = field(default="countdown", init=False)
    vocabulary: Vocabulary = field(default=characters("0123456789+-*/(),=:"), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("numbers", self.numbers, 2, MOST_NUMBERS)
        check_whole("largest", self.largest, self.numbers, LARGEST_NUMBER)
        check_whole("largest_target", self.largest_target, 1)
        check_whole("least_solutions", self.least_solutions, 1)

    @property
    def max_new_tokens(self) -> int:
        """Numbers, operations, a pair of brackets around each operation but the outermost, and the end token."""
        return self.numbers * len(str(self.largest)) + 3 * (self.numbers - 1) - 2 + 1

    def draw(self, random: Random) -> CountdownProblem:
        """Draw different numbers and a target within their reach; ``InputError`` if none seems to exist."""
        for _ in range(DRAWS_WITHOUT_NEWS):
            numbers = tuple(random.sample(range(1, self.largest + 1), self.numbers))
            reached, ways = within_reach(tuple(sorted(numbers)))
            targets = reached[(reached <= self.largest_target) & (ways >= self.least_solutions)]
            if len(targets):
                target = random.choice(targets.tolist())
                return CountdownProblem(f"{','.join(map(str, numbers))}={target}:", numbers, target)
        raise InputError(
            f"least_solutions = {self.least_solutions}: no {self.numbers} numbers up to {self.largest} make a target "
            f"up to {self.largest_target} in so many ways; allowed: fewer"
        )

    def identity(self, problem: CountdownProblem) -> str:
        """Return the numbers in increasing order, and the target."""
        return f"{sorted(problem.numbers)} {problem.target}"

    def demonstration(self, problem: CountdownProblem) -> str:
        """Return a solution, uniform among them all: a hash of the problem chooses."""
        hits = np.flatnonzero(_hits(problem))
        return written(formula(problem.numbers, int(Random(self.identity(problem)).choice(hits.tolist()))))

    def solution(self, problem: CountdownProblem, completion: str) -> str | None:
        """Return the canonical form of an expression that uses each number exactly once and makes the target."""
        expression = parse(completion)
        if expression is None or sorted(numbers_in(expression)) != sorted(problem.numbers):
            return None
        return canonical(expression) if value(expression) == problem.target else None


def _hits(problem: CountdownProblem) -> np.ndarray:
    """Mark the formulas of the numbers that make the target."""
    above, below = fractions(problem.numbers)
    hits: np.ndarray = (below != 0) & (above == problem.target * below)
    return hits


def solutions(problem: CountdownProblem) -> frozenset[str]:
    """Return the canonical forms of all solutions, exactly."""
    return frozenset(canonical(formula(problem.numbers, int(index))) for index in np.flatnonzero(_hits(problem)))


@functools.lru_cache(maxsize=4096)
def within_reach(numbers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the whole numbers from 1 up that numbers can make, in increasing order, and the number of ways of each."""
    above, below = fractions(numbers)
    above, below = above[below != 0], below[below != 0]
    values = above[above % below == 0] // below[above % below == 0]
    return np.unique(values[values >= 1], return_counts=True)

"""Arithmetic expressions: a small parser that never evaluates code, exact values, and a canonical form.

The grammar, without spaces, unary signs or leading zeros::

    sum     = product, { ("+" | "-"), product }
    product = factor,  { ("*" | "/"), factor }
    factor  = number | "(", sum, ")"
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

LONGEST_TEXT = 256
DEEPEST_BRACKETS = 32
LONGEST_NUMBER = 9  # digits
DIGITS = frozenset("0123456789")  # str.isdigit would take other scripts' digits and superscripts too


@dataclass(frozen=True)
class Operation:
    """Two expressions and what joins them.

    Attributes:
        operator: one of ``+ - * /``.
        left, right: the expressions, whole numbers from 0 up among them.
    """

    operator: str
    left: "Expression"
    right: "Expression"


Expression = int | Operation


class _NotAnExpression(Exception):
    """Raised by the parser for a text that is no expression."""


def parse(text: str) -> Expression | None:
    """The expression that the whole text is; None for any other text, or one past the limits of length and depth.

    >>> parse("2*(3+4)")
    Operation(operator='*', left=2, right=Operation(operator='+', left=3, right=4))
    >>> parse("2*(3+4") is None
    True
    """
    if len(text) > LONGEST_TEXT:
        return None
    parser = _Parser(text)
    try:
        expression = parser.operations("+-")
    except _NotAnExpression:
        return None
    return expression if parser.position == len(text) else None


class _Parser:
    """Recursive descent; a method reads what it is named after and leaves ``position`` after it."""

    def __init__(self, text: str):
        self.text = text
        self.position = 0
        self.depth = 0

    def operations(self, operators: str) -> Expression:
        """A sum for ``"+-"``, a product for ``"*/"``."""
        read = self.factor if operators == "*/" else lambda: self.operations("*/")
        expression = read()
        while self.next in operators:
            operator = self.next
            self.position += 1
            expression = Operation(operator, expression, read())
        return expression

    def factor(self) -> Expression:
        """A number, or a sum in brackets."""
        if self.next != "(":
            return self.number()
        if self.depth == DEEPEST_BRACKETS:
            raise _NotAnExpression
        self.depth, self.position = self.depth + 1, self.position + 1
        expression = self.operations("+-")
        if self.next != ")":
            raise _NotAnExpression
        self.depth, self.position = self.depth - 1, self.position + 1
        return expression

    def number(self) -> int:
        """A whole number, of few digits, without leading zeros."""
        start = self.position
        while self.next in DIGITS:
            self.position += 1
        digits = self.text[start : self.position]
        if not 0 < len(digits) <= LONGEST_NUMBER or (digits[0] == "0" and digits != "0"):
            raise _NotAnExpression
        return int(digits)

    @property
    def next(self) -> str:
        """The next character; at the end a line break, which the grammar has nowhere."""
        return self.text[self.position] if self.position < len(self.text) else "\n"


def numbers_in(expression: Expression) -> Iterator[int]:
    """The numbers of the expression from left to right."""
    if isinstance(expression, Operation):
        yield from numbers_in(expression.left)
        yield from numbers_in(expression.right)
    else:
        yield expression


def value(expression: Expression) -> Fraction | None:
    """The exact value; None where something is divided by zero.

    >>> value(parse("1/(3-8/3)"))
    Fraction(3, 1)
    """
    if not isinstance(expression, Operation):
        return Fraction(expression)
    left, right = value(expression.left), value(expression.right)
    if left is None or right is None or (expression.operator == "/" and right == 0):
        return None
    match expression.operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return left / right


def written(expression: Expression) -> str:
    """The expression with no more brackets than its order of operations needs.

    >>> written(Operation("-", 9, Operation("-", 4, Operation("*", 2, 3))))
    '9-(4-2*3)'
    """
    if not isinstance(expression, Operation):
        return str(expression)
    left, right = written(expression.left), written(expression.right)
    loose = expression.operator in "*/"
    if loose and _is_sum(expression.left):
        left = f"({left})"
    if isinstance(expression.right, Operation) and (
        (loose and (_is_sum(expression.right) or expression.operator == "/"))
        or (expression.operator == "-" and _is_sum(expression.right))
    ):
        right = f"({right})"
    return f"{left}{expression.operator}{right}"


def _is_sum(expression: Expression) -> bool:
    return isinstance(expression, Operation) and expression.operator in "+-"

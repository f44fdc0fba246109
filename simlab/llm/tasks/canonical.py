"""The canonical form of an expression: equal for two that differ only in the order and the grouping of operations.

A sum is the multiset of its terms with their signs. A product is the multiset of its factors, each of which multiplies
or divides. Brackets that only group vanish: a - (b - c) is a + c - b. Signs move between the factors of a product and
out of it: (a - b) * (c - d) is (b - a) * (d - c). Two canonical forms then differ only if they are different functions
of the numbers; of 1, 2, 3 and 4 numbers there are 1, 6, 68 and 1170.
"""

from simlab.llm.tasks.expressions import Expression, Operation

Signed = tuple[int, str]  # 1 or -1, and a form; 0 for a form that is its own negation, such as 3-3


def canonical(expression: Expression) -> str:
    """The canonical form, as readable text; with a sign in front where all terms of a sum are negative.

    >>> from simlab.llm.tasks.expressions import parse
    >>> canonical(parse("(3+1)*7-2")), canonical(parse("7*((1)+3)-2"))
    ('(1+3)*7-2', '(1+3)*7-2')
    >>> canonical(parse("6-(5-4)")) == canonical(parse("4+6-5"))
    True
    """
    return _sum_text(_terms(expression, 1))


def _terms(expression: Expression, sign: int) -> list[Signed]:
    """The terms of ``sign`` times the expression: itself alone, if it is no sum."""
    if isinstance(expression, Operation) and expression.operator in "+-":
        second = sign if expression.operator == "+" else -sign
        return _terms(expression.left, sign) + _terms(expression.right, second)
    inner_sign, text = _product(expression)
    return [(sign * inner_sign, text)]


def _product(expression: Expression) -> Signed:
    """Sign and form of an expression that is no sum: factors in order, then divisors in order."""
    sign, texts = 1, []
    for divides, (inner_sign, text) in _factors(expression, divides=False):
        sign *= inner_sign
        texts.append((divides, text))
    texts.sort()
    first, *others = texts
    return sign, first[1] + "".join(("/" if divides else "*") + text for divides, text in others)


def _factors(expression: Expression, divides: bool) -> list[tuple[bool, Signed]]:
    """Return for each factor whether it divides, its sign and its form."""
    if not isinstance(expression, Operation):
        return [(divides, (1, str(expression)))]
    if expression.operator in "*/":
        second = divides if expression.operator == "*" else not divides
        return _factors(expression.left, divides) + _factors(expression.right, second)
    sign, text = _oriented(_terms(expression, 1))
    return [(divides, (sign, f"({text})"))]


def _oriented(terms: list[Signed]) -> Signed:
    """The sum or its negation, whichever comes first in order, and the sign that makes up for it."""
    here = sorted((text, -sign) for sign, text in terms)
    turned = sorted((text, sign) for sign, text in terms)
    if here == turned:
        return 0, _sum_text(terms)
    if here < turned:
        return 1, _sum_text(terms)
    return -1, _sum_text([(-sign, text) for sign, text in terms])


def _sum_text(terms: list[Signed]) -> str:
    """Positive terms in order, then negative ones."""
    added = sorted(text for sign, text in terms if sign >= 0)
    subtracted = sorted(text for sign, text in terms if sign < 0)
    return "+".join(added) + "".join(f"-{text}" for text in subtracted)

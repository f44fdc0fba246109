"""Evidence for or against a statement, by method.

Derivation, enumeration and simulation are independent methods. They are compared with one another before the statement
is compared with them: where they differ, the mistake is ours (``Disagreement``).

A *point* is a dictionary of arguments, such as ``{"p": Fraction(1, 2), "G": 3}``. A statement is silent, and not
tested, where it returns None.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy
from mpmath import mp, mpf

mp.dps = 50

Point = Mapping[str, Any]
Quantity = Callable[..., Any]

TOLERANCE = mpf("1e-30")
STANDARD_ERRORS = 5  # of a seeded draw; 1 in 10^6 draws would differ so much by chance


class Disagreement(Exception):
    """Two of our own methods differ, or a check has tested nothing: nothing is said about the paper."""


class Estimate(NamedTuple):
    """A Monte Carlo mean and its standard error."""

    mean: float
    standard_error: float


@dataclass(frozen=True)
class Evidence:
    """One method's result.

    Attributes:
        method: ``"symbolic"``, ``"enumerated"``, ``"numerical"`` (50 digits), ``"Monte Carlo"`` or ``"arithmetic"``.
        stands: whether the statement stands; None where the method cannot tell, such as a simulation whose noise
            is larger than the error of a statement that another method refutes.
        figures: the results, in a line.
        counterexample: the first point at which the statement fails.
    """

    method: str
    stands: bool | None
    figures: str
    counterexample: str = ""

    def __post_init__(self) -> None:
        if self.stands is not None:  # the False of NumPy and sympy "is not False"
            object.__setattr__(self, "stands", bool(self.stands))


def grid(such_that: Callable[..., bool] = lambda **_: True, **values: Iterable[Any]) -> list[dict[str, Any]]:
    """All points with these values of the arguments for which ``such_that`` is true, the first argument slowest.

    >>> grid(lambda s, G: s <= G, G=[1, 2], s=[1, 2])
    [{'G': 1, 's': 1}, {'G': 2, 's': 1}, {'G': 2, 's': 2}]
    """
    points = [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]
    return [point for point in points if such_that(**point)]


def shown(point: Point) -> str:
    """A point as text.

    >>> from fractions import Fraction
    >>> shown({"p": Fraction(1, 2), "G": 3})
    'p = 1/2, G = 3'
    """
    return ", ".join(f"{name} = {short(value)}" for name, value in point.items())


def short(value: Any) -> str:
    """A value as text: exact where it is rational with a small denominator, else 6 digits."""
    if isinstance(value, (str, bool, int)) or value is None:
        return str(value)
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(short(entry) for entry in value) + ")"
    if isinstance(value, (sympy.Rational,)) or hasattr(value, "numerator"):
        return str(value) if value.denominator <= 10_000 else f"{float(value):.6g}"
    if isinstance(value, sympy.Expr) and value.free_symbols:
        return str(value)
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):
        return str(value)


def named(value: Any, names: str | Sequence[str]) -> str:
    """A value as text, with its name, or with a name beside each of its parts; alone without names.

    >>> named((0.25, 0.5), ("mean", "variance")), named((0.25, 0.5), "shares"), named(0.25, "")
    ('mean = 0.25, variance = 0.5', 'shares = (0.25, 0.5)', '0.25')
    """
    if not names:
        return short(value)
    return shown({names: value} if isinstance(names, str) else dict(zip(names, value, strict=True)))


def equals(
    statement: Quantity,
    points: Sequence[Point],
    *,
    derived: Quantity | None = None,
    enumerated: Quantity | None = None,
    symbolic_points: Sequence[Point] = (),
    sampled: Quantity | None = None,
    sampled_points: Sequence[Point] = (),
    tolerance: mpf = TOLERANCE,
) -> Iterator[Evidence]:
    """Compare a formula with a quantity, which up to three independent ways give.

    Args:
        statement: the formula: point -> number, tuple of numbers, or None where it says nothing.
        points: compared in order, the smallest first: the first failure is the counterexample.
        derived: the quantity, by derivation: point -> number or sympy expression; it must take ``symbolic_points``.
        enumerated: the quantity, by enumeration in exact or 50-digit arithmetic.
        symbolic_points: points with symbols in them, at which statement and derivation are compared as expressions.
        sampled: the quantity, by simulation: point -> ``Estimate`` (or a tuple of them).
        sampled_points: points to simulate.
        tolerance: of 50-digit arithmetic, relative to the larger of 1 and the quantity.

    Raises:
        Disagreement: if two ways to the quantity differ, or the statement speaks at no point.
    """
    exact = enumerated or derived
    if exact is None:
        raise Disagreement("neither a derivation nor an enumeration was given")
    if derived is not None and enumerated is not None:
        _agree(derived, enumerated, points, tolerance)
    if derived is not None and symbolic_points:
        yield _symbolic(statement, derived, symbolic_points)
    method = "enumerated" if enumerated is not None else "numerical"
    yield _pointwise(method, statement, exact, points, tolerance)
    if sampled is not None:
        yield _simulated(statement, exact, sampled, sampled_points)


def satisfies(
    statement: Callable[..., bool | None],
    points: Sequence[Point],
    quantity: Quantity,
    *,
    method: str = "enumerated",
    derived: Quantity | None = None,
    tolerance: mpf = TOLERANCE,
    names: str | Sequence[str] = "",
) -> Iterator[Evidence]:
    """Test a predicate of a quantity at every point: inequalities, signs, orders, monotonicity.

    Args:
        statement: ``statement(quantity, **point)`` -> bool, or None where it says nothing.
        points: tested in order, the smallest first.
        quantity: point -> number or tuple of numbers, exact or of 50 digits.
        method: the way to the quantity.
        derived: a second way to the quantity, compared with the first.
        tolerance: of that comparison.
        names: of the quantity's parts, which differ, or of the whole, for the counterexample.

    Raises:
        Disagreement: if the two ways differ, or the statement speaks at no point.
    """
    if derived is not None:
        _agree(derived, quantity, points, tolerance)
    spoken = 0
    for point in points:
        value = quantity(**point)
        answer = statement(value, **point)
        spoken += answer is not None
        if answer is not None and not answer:
            yield Evidence(method, False, f"fails at {shown(point)}", f"{shown(point)}: {named(value, names)}")
            return
    _spoke(spoken)
    yield Evidence(method, True, f"true at all {spoken} points")


def proved(statement: bool, figures: str) -> Evidence:
    """The outcome of a derivation that does not fit ``equals``: its answer, and its reason."""
    return Evidence("symbolic", statement, figures, "" if statement else figures)


def vanishes(
    error: Quantity,
    points: Sequence[Point],
    *,
    order: float,
    steps: Sequence[str] = ("1e-3", "1e-4", "1e-5", "1e-6"),
    method: str = "numerical",
) -> Iterator[Evidence]:
    """Test that an error vanishes with a step at this order: error(step) = O(step^order).

    First-order claims are tested with the error of the predicted change at order 2, limits with the distance from the
    limit at the order of approach. The measured order, between the two smallest steps, may fall short by 0.1.

    Args:
        error: ``error(step, **point)`` -> number; None where the statement says nothing.
        points: the smallest first.
        order: the least order.
        steps: the steps, falling.
        method: the way to the error.
    """
    least, spoken = mp.inf, 0
    for point in points:
        errors = [error(mpf(step), **point) for step in steps]
        if errors[0] is None:
            continue
        spoken += 1
        sizes = [abs(mpf(value)) for value in errors]
        if sizes[-1] < mpf("1e-40"):
            continue
        measured = mp.log(sizes[-2] / sizes[-1]) / mp.log(mpf(steps[-2]) / mpf(steps[-1]))
        least = min(least, measured)
        if measured < order - 0.1:
            figures = f"error {short(sizes[-1])} at step {steps[-1]}, of order {short(measured)}"
            yield Evidence(method, False, f"{figures} where {order:g} is claimed", f"{shown(point)}: {figures}")
            return
    _spoke(spoken)
    observed = "exactly zero" if least == mp.inf else f"of order {short(least)} or more in the step"
    yield Evidence(method, True, f"error {observed} at {spoken} points")


class Printed(NamedTuple):
    """A printed number beside what it should be.

    Attributes:
        label: its name.
        printed: as printed.
        computed: from other printed numbers.
        slack: the most that rounding of the numbers explains.
    """

    label: str
    printed: float
    computed: float
    slack: float


def arithmetic(rows: Iterable[Printed]) -> Iterator[Evidence]:
    """Test printed numbers against other printed numbers, up to rounding.

    Raises:
        Disagreement: for no rows.
    """
    compared = list(rows)
    _spoke(len(compared))
    wrong = [row for row in compared if abs(row.printed - row.computed) > row.slack + 1e-9]
    if wrong:
        listed = "; ".join(f"{row.label}: {row.printed:g} printed, {row.computed:.4g} computed" for row in wrong)
        yield Evidence("arithmetic", False, f"{len(wrong)} of {len(compared)} figures differ", listed)
    else:
        worst = max(abs(row.printed - row.computed) for row in compared)
        yield Evidence("arithmetic", True, f"{len(compared)} figures agree, to {worst:.2g} at worst")


def number(value: Any) -> mpf:
    """Any exact or symbolic number as a 50-digit one."""
    if isinstance(value, mpf):
        return value
    if isinstance(value, sympy.Basic):
        return mpf(sympy.N(value, mp.dps + 10))
    if hasattr(value, "numerator") and hasattr(value, "denominator"):
        return mpf(int(value.numerator)) / int(value.denominator)
    return mpf(value)


def _many(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _apart(first: Any, second: Any, tolerance: mpf) -> bool:
    """Tell two values, or tuples of values, apart."""
    lefts, rights = _many(first), _many(second)
    if len(lefts) != len(rights):
        raise Disagreement(f"{len(lefts)} values compared with {len(rights)}")
    pairs = [(number(left), number(right)) for left, right in zip(lefts, rights, strict=True)]
    return any(
        left != right and not abs(left - right) <= tolerance * max(1, abs(left), abs(right)) for left, right in pairs
    )


def _agree(derived: Quantity, enumerated: Quantity, points: Sequence[Point], tolerance: mpf) -> None:
    for point in points:
        left, right = derived(**point), enumerated(**point)
        if _apart(left, right, tolerance):
            raise Disagreement(f"derivation {short(left)} and enumeration {short(right)} differ at {shown(point)}")


def _pointwise(method: str, statement: Quantity, exact: Quantity, points: Sequence[Point], tolerance: mpf) -> Evidence:
    spoken = 0
    for point in points:
        stated = statement(**point)
        if stated is None:
            continue
        spoken += 1
        truth = exact(**point)
        if _apart(stated, truth, tolerance):
            example = f"{shown(point)}: stated {short(stated)}, found {short(truth)}"
            return Evidence(method, False, f"fails at point {spoken}", example)
    _spoke(spoken)
    return Evidence(method, True, f"equal at all {spoken} points")


def _symbolic(statement: Quantity, derived: Quantity, points: Sequence[Point]) -> Evidence:
    """Compare as expressions; where sympy cannot bring a difference to zero, look for values at which it is not."""
    for point in points:
        for stated, truth in zip(_many(statement(**point)), _many(derived(**point)), strict=True):
            difference = sympy.simplify(sympy.sympify(stated) - sympy.sympify(truth))
            if difference == 0:
                continue
            values = {symbol: _sample_value(symbol, index) for index, symbol in enumerate(sorted_symbols(difference))}
            residue = abs(mpf(sympy.N(difference.subs(values), mp.dps)))
            if residue > TOLERANCE:
                example = f"{shown({str(name): value for name, value in values.items()})}: off by {short(residue)}"
                return Evidence("symbolic", False, f"the difference is {_clipped(difference)}", example)
            raise Disagreement(f"sympy cannot decide whether {difference} is zero")
    return Evidence("symbolic", True, f"identical as expressions ({len(points)} cases)")


def sorted_symbols(expression: sympy.Expr) -> list[sympy.Symbol]:
    """The symbols of an expression by name."""
    return sorted(expression.free_symbols, key=str)


def _sample_value(symbol: sympy.Symbol, index: int) -> sympy.Rational:
    """A value of no special meaning: a probability, or for integer symbols a small number."""
    return sympy.Integer(3 + index) if symbol.is_integer else sympy.Rational(3 + 2 * index, 17 + index)


def _clipped(expression: sympy.Expr) -> str:
    text = str(expression)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _simulated(statement: Quantity, exact: Quantity, sampled: Quantity, points: Sequence[Point]) -> Evidence:
    """The exact value must lie within the noise, else we disagree with ourselves; then the stated value is judged."""
    worst, refuted, blurred, spoken = mpf(0), "", False, 0
    for point in points:
        truths, estimates, stated = exact(**point), sampled(**point), statement(**point)
        estimates = [estimates] if isinstance(estimates, Estimate) else list(estimates)
        for truth, estimate in zip(_many(truths), estimates, strict=True):
            if (score := _score(truth, estimate)) > STANDARD_ERRORS:
                raise Disagreement(
                    f"simulation {estimate.mean:.6g} +- {estimate.standard_error:.2g} and exact value {short(truth)} "
                    f"differ by {short(score)} standard errors at {shown(point)}"
                )
        if stated is None:
            continue
        spoken += 1
        for value, truth, estimate in zip(_many(stated), _many(truths), estimates, strict=True):
            score = _score(value, estimate)
            worst = max(worst, score)
            if score > STANDARD_ERRORS:
                refuted = refuted or (
                    f"{shown(point)}: stated {short(value)}, simulated {estimate.mean:.6g} "
                    f"+- {estimate.standard_error:.2g}"
                )
            blurred = blurred or _apart(value, truth, TOLERANCE)
    if spoken == 0:
        return Evidence("Monte Carlo", None, "the statement is silent where it was simulated")
    figures = f"{short(worst)} standard errors away at most, {spoken} settings"
    if refuted:
        return Evidence("Monte Carlo", False, figures, refuted)
    return Evidence("Monte Carlo", None if blurred else True, figures)


def _score(value: Any, estimate: Estimate) -> mpf:
    """A value's distance from an estimate in standard errors; rounding of float64 does not count."""
    gap = abs(number(value) - estimate.mean)
    if gap <= 1e-9 * max(1, abs(estimate.mean)):
        return mpf(0)
    return gap / estimate.standard_error if estimate.standard_error > 0 else mp.inf


def _spoke(count: int) -> None:
    if count == 0:
        raise Disagreement("the statement was tested nowhere")

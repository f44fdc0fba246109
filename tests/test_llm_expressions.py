"""Expressions: reading, values, equality of solutions, and their number."""

import itertools
import random
import time
from fractions import Fraction

import numpy as np
import pytest
from naive_tasks import all_trees, python_value, tree_text, tree_value

from simlab.llm.tasks import countdown
from simlab.llm.tasks.countdown import (
    CountdownProblem,
    canonical,
    formula,
    formulas,
    fractions,
    numbers_in,
    parse,
    solutions,
    value,
    within_reach,
    written,
)

# Reading


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "+", "-3", "+3", "3+", "3++4", "3 + 4", "3+4 ", "3+4\n", "(3", "3)", "()", "3(4)", "(3)(4)", "2**3",
        "7//2", "7%2", "03", "00", "1_0", "1e3", "3.0", ".5", "0x1", "1j", "True", "a", "3=3", "3+4=7", "3,4", "[3]",
        "3+4#", "__import__('os')", "3\x00", "\x00", "3+4\x00+0", "٣+٤", "3+\uff14", "²",
        "3\u22121", "3\u00d74", "3÷1", "½", "1000000000",
        "9" * 100_000, "(" * 100_000, "(" * 33 + "1" + ")" * 33, "1+" * 200 + "1", "((((" * 60,
    ],
)  # fmt: skip
def test_other_texts_are_no_expressions_and_that_is_found_at_once(text):
    start = time.thread_time()
    assert parse(text) is None
    assert time.thread_time() - start < 0.1


def test_the_longest_and_the_deepest_allowed_are_read():
    chain = "+".join("1" * (countdown.LONGEST_TEXT // 2))
    assert value(parse(chain)) == countdown.LONGEST_TEXT // 2
    assert canonical(parse(chain)) == chain
    assert value(parse("(" * 32 + "5" + ")" * 32)) == 5
    assert value(parse("/".join(["999999999"] * 25))) == Fraction(1, 999999999**23)


def test_python_reads_the_same():
    """Readable ones of 5,000 texts of the grammar's characters have Python's leaves and value."""
    draw, read = random.Random(0), 0
    for _ in range(5_000):
        text = "".join(draw.choices("1235+-*/()", k=draw.randrange(1, 10)))
        expression = parse(text)
        if expression is not None:
            read += 1
            assert (sorted(numbers_in(expression)), value(expression)) == python_value(text)
        elif python_value(text) is not None:
            raise AssertionError(text)
    assert read > 250


def test_what_is_written_is_read_as_the_same():
    for tree in itertools.islice(all_trees((2, 3, 5, 7)), 0, None, 101):
        expression = parse(tree_text(tree))
        text = written(expression)
        assert parse(text) is not None
        assert value(parse(text)) == tree_value(tree)
        assert canonical(parse(text)) == canonical(expression)


# When two are one


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(9-4)*(3-8)", "(4-9)*(8-3)"),
        ("5+(3-3)*4", "5-(3-3)*4"),
        ("6/(1-2*(3-4))", "6/(2*(4-3)+1)"),
    ],
)
def test_order_grouping_and_moved_signs_make_no_difference(first, second):
    assert canonical(parse(first)) == canonical(parse(second))


@pytest.mark.parametrize(
    ("numbers", "count"), [((5,), 1), ((5, 7, 11), 68), pytest.param((5, 7, 11, 13), 1170, marks=pytest.mark.slow)]
)
def test_canonical_forms_are_the_functions_of_the_numbers(numbers, count):
    points = [
        dict(zip(numbers, random.Random(s).sample(range(10**6, 10**9), len(numbers)), strict=True)) for s in (1, 2, 3)
    ]
    pairs = {
        (canonical(parse(tree_text(tree))), tuple(tree_value(tree, lambda x, p=p: Fraction(p[x])) for p in points))
        for tree in all_trees(numbers)
    }
    assert len(pairs) == len({form for form, _ in pairs}) == len({values for _, values in pairs}) == count


# All formulas


@pytest.mark.parametrize(
    ("count", "known"), [(2, 6), (3, 68), (4, 1170), pytest.param(5, 27142, marks=pytest.mark.slow)]
)
def test_there_are_as_many_formulas_as_are_known(count, known):
    """OEIS A140606."""
    level = formulas(count).levels[-1]
    assert level.stop - level.start == known
    numbers = (101, 103, 107, 109, 113)[:count]
    assert len({canonical(formula(numbers, index)) for index in range(known)}) == known


LARGEST = tuple(range(countdown.LARGEST_NUMBER - 4, countdown.LARGEST_NUMBER + 1))


@pytest.mark.parametrize(
    "numbers", [(3, 8), (0, 4, 4), (6, 1, 3, 4), LARGEST[1:], pytest.param(LARGEST, marks=pytest.mark.slow)]
)
def test_all_values_at_once_are_the_exact_ones(numbers):
    above, below = fractions(numbers)
    for index in range(0, len(above), 1 if len(numbers) < 4 else 5):
        exact = value(formula(numbers, index))
        assert (None if below[index] == 0 else Fraction(int(above[index]), int(below[index]))) == exact


@pytest.mark.parametrize(
    ("numbers", "target"),
    [((1, 2, 3), 6), ((4, 4, 2), 8), ((1, 5, 9), 500), pytest.param((1, 3, 4, 6), 24, marks=pytest.mark.slow)],
)
def test_all_solutions_are_found(numbers, target):
    naive = {canonical(parse(tree_text(tree))) for tree in all_trees(numbers) if tree_value(tree) == target}
    assert solutions(CountdownProblem("", numbers, target)) == naive


def test_what_is_within_reach_is_counted():
    """(1, 2): 3, 1 and 2 twice, 2 * 1 and 2 / 1; the rest is no whole number from 1 up."""
    reached, ways = within_reach((1, 2))
    np.testing.assert_array_equal(reached, [1, 2, 3])
    np.testing.assert_array_equal(ways, [1, 2, 1])
    reached, ways = within_reach((2, 3, 7))
    for target, count in zip(reached.tolist(), ways.tolist(), strict=True):
        assert len(solutions(CountdownProblem("", (2, 3, 7), target))) == count

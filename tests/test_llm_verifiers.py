"""Verifiers by name: what they hold for the answer, against rules written down differently, and hostile completions."""
# ruff: noqa: E501  # hostile texts

import sys
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from simlab.llm.tasks.verifiers import VERIFIERS, verifier

HOSTILE = [
    "", " ", "\n" * 10**5, "9" * 10**6, "9," * 10**5, "-" * 10**6, "1." * 10**5, ".5" * 10**5, "1e" * 10**5, "e9" * 10**5,
    "1" + "0" * 5000, "1e999999999", "1e-999999999", "-1e9999", "٣", "x²", "nan", "inf", "1_000", "0x10", "\x00", "\ud800",
    "\\boxed{" * 10**5, "\\boxed{" + "{" * 10**6, "(" * 10**6, "\\boxed{__import__('os').system('true')}", "\U0001d7d9", "1\u2028",
    "a" * 10**6 + "b",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "right", "given_answer", "correct"),
    [
        ("exact", "Paris", " Paris\n", True),
        ("exact", " Paris ", "Paris", True),
        ("exact", "Paris", "paris", False),
        ("exact", "Paris", "It is Paris", False),
        ("exact", "1", "1.0", False),
        ("number", "42", "so it is 42.", True),
        ("number", "42", "42.0", True),
        ("number", "42", "$42", True),
        ("number", "42", "42 apples and 43 pears", False),
        ("number", "1200", "1,200", True),
        ("number", "1,200", "1200.00", True),
        ("number", "200", "1,200", False),
        ("number", "200", "1, 200", True),
        ("number", "-3", "x = -3", True),
        ("number", "3", "5-3", True),
        ("number", "-3", "5 -3", True),
        ("number", "-3", "(5)-3", False),
        ("number", "0.1", "1e-1", True),
        ("number", "0.1", "0.10000000000000001", False),
        ("number", "72", "48/2 = 24 in May, 48 + 24 = 72", True),
        ("number", "48 / 2 = 24\n#### 72", "72", True),
        ("number", "0", "-0.0", True),
        ("number", "42", "forty-two", False),
        ("boxed", "42", r"\boxed{42}", True),
        ("boxed", r"thus \boxed{\frac{1}{2}}", r"\boxed{ \frac {1}{2} }", True),
        ("boxed", "42", r"\boxed{42.0}", False),
        ("boxed", "42", "42", False),
        ("boxed", "42", r"\boxed{42} or \boxed{43}", False),
        ("boxed", "42", r"\boxed{42", False),
    ],
)
def test_what_is_right(name, right, given_answer, correct):
    here = verifier(name)
    form = here.right_answer(right)
    assert here.solution(form, given_answer) == (form if correct else None)


@pytest.mark.parametrize(("pattern", "right", "completion", "correct"), [
    (r"#### (-?[0-9]+)", "48/2=24\n#### 24", "first #### 23, no, #### 24 it is", True),
    (r"#### (-?[0-9]+)", "24", "#### 24", True),
    (r"#### (-?[0-9]+)", "24", "#### 24 no #### 25", False),
    (r"#### (-?[0-9]+)", "24", "24", False),
    (r"<answer>(.*?)</answer>", "B", "<think>A</think><answer> B </answer>", True),
    (r"[A-D]", "C", "A, B, or C", True),
    (r"a(x)?b", "y", "ab", False),
])  # fmt: skip
def test_a_pattern_finds_its_answer_in_the_last_place(pattern, right, completion, correct):
    pytest.importorskip("re2")
    here = verifier(f"regex:{pattern}")
    form = here.right_answer(right)
    assert (here.solution(form, completion) is not None) == correct


def test_what_re2_does_not_follow_is_refused_in_one_line(monkeypatch):
    pytest.importorskip("re2")
    for pattern in (r"(a)\1", "(?=a)", "(", "a{1001}", "[", "((a{1000}){1000}){1000}"):
        assert "is no pattern of RE2: " in refusal(verifier, f"regex:{pattern}")
    assert "of 0 characters; allowed: 1 to 1000" in refusal(verifier, "regex:")
    assert "of 1001 characters" in refusal(verifier, "regex:" + "a" * 1001)


@pytest.mark.parametrize(("name", "package", "extra"), [
    ("regex:a", "re2", "regex"), ("math-verify", "math_verify", "math-verify"),
])  # fmt: skip
def test_a_missing_package_is_named_with_its_extra(monkeypatch, name, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    assert f"pip install 'simlab[{extra}]'" in refusal(verifier, name)


def test_verifiers_without_extras_import_none(monkeypatch):
    for package in ("re2", "math_verify", "sympy", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    for name in ("exact", "number", "boxed"):
        assert verifier(name).right_answer("42") == "42"


def test_an_unknown_name_is_refused():
    assert "verifier = 'contains' is unknown; allowed: exact, number, boxed, math-verify, regex:PATTERN" in refusal(
        verifier, "contains"
    )


@pytest.mark.parametrize(
    "name", ["exact", "number", "boxed", "regex:(a+)+b?$", "regex:(.*)(.*)(.*)(.*)x", "regex:.*z|a", "math-verify"]
)
@pytest.mark.parametrize("completion", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_no_completion_is_slow_or_raises(name, completion):
    """The patterns take exponential and polynomial time where an engine goes back."""
    for prefix, package in (("regex", "re2"), ("math-verify", "math_verify")):
        if name.startswith(prefix):
            pytest.importorskip(package)
    here = verifier(name)
    began = time.thread_time()
    found = here.solution("42", completion)
    assert time.thread_time() - began < 3
    assert found is None


def test_a_number_is_looked_for_at_the_end_of_a_long_completion():
    here = verifier("number")
    assert here.answer("1" + " " * 2**12 + "2" + " " * 2**12) == "2"
    assert here.answer("12" + " " * (2**13 - 2)) == "12"
    assert here.answer("12" + " " * (2**13 - 1)) is None, "half of a number is none"


def test_a_pattern_reads_the_end_of_a_long_completion():
    pytest.importorskip("re2")
    here = verifier("regex:#([0-9])")
    assert here.answer("#1" + " " * 2**13 + "#2") == "2"
    assert here.answer("#1" + " " * 2**13) is None


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3), st.text())
def test_a_number_behind_any_text_is_found_and_equal_to_itself_alone(number, before):
    here, other = verifier("number"), number + Decimal("0.001")
    right = here.right_answer(str(number))
    assert here.solution(right, f"{before} = {number}") == right
    assert here.solution(right, f"{before} = {number:,}.") == right
    assert here.solution(right, f"{before} = {other}") is None


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_demonstration_is_right(name):
    if name == "math-verify":
        pytest.importorskip("math_verify")
    here = verifier(name)
    for text in ("42", "7", r"\frac{1}{2}" if name != "number" else "0.5"):
        assert here.solution(here.right_answer(text), here.demonstration(text)) is not None


def test_math_verify_compares_what_the_boxes_say():
    pytest.importorskip("math_verify")
    here = verifier("math-verify")
    right = here.right_answer(r"so \boxed{\frac{1}{2}}")
    assert right == r"\frac{1}{2}"
    assert here.solution(right, r"\boxed{0.5}") == right
    assert here.solution(right, r"\boxed{0.51}") is None
    assert here.solution(right, "0.5") is None
    assert here.right_answer("") is None

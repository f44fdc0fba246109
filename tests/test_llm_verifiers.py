"""Verifiers: which answers are right, by rules written down differently; hostile answers; other packages' judgement."""

import os
import random
import subprocess
import sys
import threading
import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal

from simlab.llm.tasks import from_callable, task
from simlab.llm.tasks.gym import ALLOWED, MOST_ADDED
from simlab.llm.tasks.verifiers import VERIFIERS, boxed, verifier

OF_PACKAGES = {"regex": "re2", "math-verify": "math_verify"}


def verifier_or_skip(name):
    for prefix, package in OF_PACKAGES.items():
        if name.startswith(prefix):
            pytest.importorskip(package)
    return verifier(name)


# Which answers are right


@pytest.mark.parametrize(
    ("name", "right", "completion", "correct"),
    [
        ("exact", " Paris ", "Paris\n", True),
        ("exact", "Paris", "paris", False),
        ("number", "42", "so it is $42.0.", True),
        ("number", "42", "42 apples and 43 pears", False),
        ("number", "1,200", "1200.00", True),
        ("number", "200", "1,200", False),
        ("number", "-3", "x = -3", True),
        ("number", "3", "5-3", True),
        ("number", "-3", "5 -3", True),
        ("number", "-3", "(5)-3", False),
        ("number", "0.1", "1e-1", True),
        ("number", "0.1", "0.10000000000000001", False),
        ("number", "48 / 2 = 24\n#### 72", "72", True),
        ("number", "0", "-0.0", True),
        ("boxed", r"thus \boxed{\frac{1}{2}}", r"\boxed{ \frac {1}{2} }", True),
        ("boxed", "42", r"\boxed{42.0}", False),
        ("boxed", "42", r"\boxed{42} or \boxed{43}", False),
        ("boxed", "42", r"\boxed{42", False),
        (r"regex:#### (-?[0-9]+)", "48/2=24\n#### 24", "first #### 23, no, #### 24 it is", True),
        (r"regex:#### (-?[0-9]+)", "24", "#### 24 no #### 25", False),
        (r"regex:[A-D]", "C", "A, B, or C", True),
        (r"regex:a(x)?b", "y", "ab", False),
        ("math-verify", r"so \boxed{\frac{1}{2}}", r"\boxed{0.5}", True),
        ("math-verify", r"\frac{1}{2}", r"It is \boxed{\frac12}.", True),
        ("math-verify", r"\frac{1}{2}", r"\boxed{1/2} or \boxed{1}", False),
        ("math-verify", r"\frac{1}{2}", "$1/2$", False),
        ("math-verify", r"\frac{1}{2}", r"\boxed{1/2, 3}", False),
        ("math-verify", r"\frac{1}{2}", r"\boxed{__import__('os')}", False),
        ("math-verify", r"\{-2, 2\}", r"\boxed{\{2, -2\}}", True),
        ("math-verify", r"\{-2, 2\}", r"\boxed{2}", False),
    ],
)
def test_what_is_right(name, right, completion, correct):
    here = verifier_or_skip(name)
    form = here.right_answer(right)
    assert here.solution(form, completion) == (form if correct else None)


@settings(max_examples=40)
@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3), st.text())
def test_a_number_behind_any_text_is_found_and_equal_to_itself_alone(number, before):
    here, other = verifier("number"), number + Decimal("0.001")
    right = here.right_answer(str(number))
    assert here.solution(right, f"{before} = {number}") == right
    assert here.solution(right, f"{before} = {number:,}.") == right
    assert here.solution(right, f"{before} = {other}") is None


def test_only_the_end_of_a_long_completion_is_read():
    here = verifier("number")
    assert here.answer("1" + " " * 2**12 + "2" + " " * 2**12) == "2"
    assert here.answer("12" + " " * (2**13 - 2)) == "12"
    assert here.answer("12" + " " * (2**13 - 1)) is None, "half of a number is none"
    here = verifier_or_skip("regex:#([0-9])")
    assert here.answer("#1" + " " * 2**13 + "#2") == "2"
    assert here.answer("#1" + " " * 2**13) is None


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_demonstration_is_right(name):
    here = verifier_or_skip(name)
    for text in ("42", "7", r"\frac{1}{2}" if name != "number" else "0.5"):
        assert here.solution(here.right_answer(text), here.demonstration(text)) is not None


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"first \boxed{1}, then \boxed{\frac{1}{2}} it is", r"\frac{1}{2}"),
        (r"\boxed{}", ""),
        ("1", None),
        (r"\boxed{1} \boxed{2", None),
        (r"\boxed 1", None),
        (r"\boxed{" + "((((" * 5 + "}", None),
        (r"\boxed{" + "1" * 201 + "}", None),
    ],
)
def test_the_last_box_is_the_answer(completion, answer):
    assert boxed(completion) == answer


# Hostile answers

LONG = 10**6
HOSTILE = [
    "", " ", "\n" * LONG, "9" * LONG, "9," * LONG, "-" * LONG, "1." * LONG, "1e" * LONG, "e9" * LONG, "1" + "0" * 5000,
    "1e999999999", "1e-999999999", "٣", "x²", "\uff19", "nan", "inf", "1_000", "0x10", "\x00" * LONG, "\ud800" * LONG,
    "\\boxed{" * 10**5, "\\boxed{" + "{" * LONG, "(" * LONG + ")" * LONG, "\\boxed{__import__('os').system('true')}",
    "9**9**9", "1/0", "1+" * LONG + "1", "UP DOWN " * 10**5 + "DONE", "DONE " * LONG, "a" * LONG + "b", "\u3000" * LONG,
    "\x1b[2J", "1\u2028", "None", "True",
]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["exact", "number", "boxed", "regex:(a+)+b?$", "regex:(.*)(.*)(.*)(.*)x", "regex:.*z|a", "math-verify"]
)
def test_no_completion_is_slow_or_raises(name):
    here = verifier_or_skip(name)
    for completion in HOSTILE:
        began = time.thread_time()
        assert here.solution("42", completion) is None
        assert time.thread_time() - began < 3


def test_a_maze_reads_as_many_words_as_an_answer_has_tokens():
    here = task("maze", size=7, max_new_tokens=40, evaluation_size=4)
    problem = here.training(0)
    first = problem.path[0]
    back = {"UP": "DOWN", "DOWN": "UP", "LEFT": "RIGHT", "RIGHT": "LEFT"}[first]
    for detours in range(30):
        answer = [first, back] * detours + [*problem.path, "DONE"]
        assert here.reward(problem, " ".join(answer)) == (len(answer) <= here.max_new_tokens)
    assert here.reward(problem, " ".join((*problem.path, "DONE", *["anything"] * 10**6))) == 1


# What is refused


def test_what_is_no_verifier_is_refused():
    assert "verifier = 'contains' is unknown" in refusal(verifier, "contains")
    pytest.importorskip("re2")
    for pattern in (r"(a)\1", "(?=a)", "(", "a{1001}"):
        assert "is no pattern of RE2: " in refusal(verifier, f"regex:{pattern}")
    for pattern in ("", "a" * 1001):
        assert "allowed: 1 to 1000" in refusal(verifier, f"regex:{pattern}")


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    assert "pip install 'simlab[regex]'" in refusal(verifier, "regex:a")


# math-verify

HALF, ROOTS = r"\frac{1}{2}", r"\{-2, 2\}"


@pytest.fixture(scope="module")
def latex():
    here = verifier_or_skip("math-verify")
    here.timeout = 1
    return here


@pytest.mark.parametrize("answer", ["9^{9^{9^{9}}}", "99999999!"])
def test_answers_that_take_forever_are_wrong_in_seconds(latex, answer):
    start = time.perf_counter()
    assert latex.solution(HALF, rf"\boxed{{{answer}}}") is None
    assert time.perf_counter() - start < 20


def test_bad_answers_and_other_threads_are_refused(latex):
    assert latex.right_answer("1}") == "1", "the box ends there"
    assert latex.right_answer(r"\boxed{}") is None
    lines = []
    thread = threading.Thread(target=lambda: lines.append(refusal(latex.solution, HALF, r"\boxed{2}")))
    thread.start()
    thread.join()
    assert "main thread" in lines[0]


DECIMALS = {
    HALF: (["0.500", ".5", r"50\%", r"\frac{1.0}{2.0}", r"\sqrt{0.25}"], ["0.50000000001", "0.49999999"]),
    r"\frac{1}{3}": (["2/6"], ["0.333333", "0.3333333333333333", r"33.3333\%"]),
    r"\sqrt{2}": (["2^{1/2}"], ["1.41421356", "1.4142135623730951"]),
    r"\{0.5, 2\}": ([r"\{2, 1/2\}"], [r"\{2, 0.50000000001\}"]),
}


@pytest.mark.parametrize("answer", DECIMALS)
def test_a_decimal_is_the_fraction_that_it_writes(latex, answer):
    equal, near = DECIMALS[answer]
    assert all(latex.solution(answer, rf"\boxed{{{other}}}") for other in equal)
    assert not any(latex.solution(answer, rf"\boxed{{{other}}}") for other in near)


# reasoning-gym


@pytest.mark.parametrize("name", ALLOWED)
def test_the_answers_of_reasoning_gym_win_and_no_others(name):
    pytest.importorskip("reasoning_gym")
    here, draw = task("reasoning_gym", dataset=name, evaluation_size=3), random.Random(0)
    problems = [here.training(index) for index in range(20)]
    assert problems == [task("reasoning_gym", dataset=name).training(index) for index in range(20)]
    for problem in problems:
        right = here.demonstration(problem)
        assert here.reward(problem, right) == here.reward(problem, f"\n {right} ") == 1
        changed = [right + "1", right + " x", "x " + right, right[:-1], right.replace("1", "\u0661")]
        junk = ["".join(draw.choices("0123456789 .-+()[]{}aTF\x00٣é", k=draw.randrange(30))) for _ in range(20)]
        for answer in (*changed, *junk, "9" * 10**4, "(" * 10**4, "nan", "None", "True", "No"):
            if answer.strip().lower() != right.lower():
                assert here.reward(problem, answer) == 0
    began = time.thread_time()
    for piece in ("(", "9", "a ", "\n", "[[", "{", "<", "\\", right):
        for length in (len(right) + MOST_ADDED, 10**6):
            assert here.reward(problem, (piece * (length // len(piece) + 1))[:length] + "x") == 0
    assert time.thread_time() - began < 4


def test_the_problems_of_reasoning_gym_are_the_same_in_every_process():
    pytest.importorskip("reasoning_gym")
    program = (
        "from simlab.llm.tasks import task; from simlab.llm.tasks.gym import ALLOWED;"
        "print([task('reasoning_gym', dataset=name).training(i).prompt for name in ALLOWED for i in range(10)])"
    )
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"]
    outputs = {
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in "12"
    }
    assert len(outputs) == 1


def test_options_go_to_the_data_set_and_questions_are_kept_apart():
    pytest.importorskip("reasoning_gym")
    here = task("reasoning_gym", dataset="gcd", options={"max_value": 50}, evaluation_size=50)
    words = here.training(0).prompt.replace(",", " ").replace(".", " ").split()
    assert max(int(word) for word in words if word.isdigit()) <= 50
    evaluated = {problem.prompt for problem in here.evaluation}
    assert len(evaluated) == 50
    assert evaluated.isdisjoint(here.training(index).prompt for index in range(300))
    assert "colour" in refusal(task, "reasoning_gym", options={"colour": 1})


# Functions of the user's own


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (lambda *_: float("nan"), "returned 'nan'"),
        (lambda *_: None, "returned 'None'"),
        (lambda *_: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_a_reward_that_is_no_finite_number_names_the_problem(function, line):
    here = from_callable(function, ["two\nlines"], ["b"], 4)
    assert f"the reward function of the problem 'two\\nlines' {line}" in refusal(here.reward, here.training(0), "a")

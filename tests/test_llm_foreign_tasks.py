"""Tasks that other packages judge: reasoning-gym and math-verify; skipped where they are missing."""

import os
import random
import subprocess
import sys
import threading
import time

import pytest
from sweep_cases import refusal

from simlab.llm.tasks import boxed_answers, task
from simlab.llm.tasks.boxed import boxed
from simlab.llm.tasks.gym import ALLOWED, LEFT_OUT

# Without them


@pytest.mark.parametrize(
    ("package", "extra", "build"),
    [
        ("reasoning_gym", "reasoning-gym", lambda: task("reasoning_gym", dataset="gcd")),
        ("math_verify", "math-verify", lambda: boxed_answers([("a", "1")], [("b", "2")], max_new_tokens=9)),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, package, extra, build):
    monkeypatch.setitem(sys.modules, package, None)
    assert f"{package} cannot be imported" in refusal(build)
    assert f"pip install 'simlab[{extra}]'" in refusal(build)


@pytest.mark.parametrize(("reason", "names"), LEFT_OUT.items())
def test_a_data_set_that_is_left_out_is_refused_with_the_reason(reason, names):
    for name in names:
        assert name not in ALLOWED
        assert f"dataset = {name!r} is left out ({reason}); allowed: ab, aiw," in refusal(
            task, "reasoning_gym", dataset=name
        )
    assert "dataset = 'chess' is unknown; allowed: ab, aiw," in refusal(task, "reasoning_gym", dataset="chess")


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"\boxed{1}", "1"),
        (r"first \boxed{1}, then \boxed{\frac{1}{2}} it is", r"\frac{1}{2}"),
        (r"\boxed{}", ""),
        ("", None),
        ("1", None),
        (r"\boxed{1", None),
        (r"\boxed{1} \boxed{2", None),
        (r"\boxed 1", None),
        (r"\boxed{" + "((((" * 5 + "}", None),
        (r"\boxed{" + "1" * 201 + "}", None),
        (r"\boxed{" * 10**5, None),
        (r"\boxed{" + "{" * 10**6, None),
    ],
)
def test_the_last_box_is_the_answer(completion, answer):
    start = time.thread_time()
    assert boxed(completion) == answer
    assert time.thread_time() - start < 0.1


# reasoning-gym


@pytest.mark.parametrize("name", ALLOWED)
def test_own_answers_win_and_no_others(name):
    pytest.importorskip("reasoning_gym")
    here, draw = task("reasoning_gym", dataset=name, evaluation_size=3), random.Random(0)
    problems = [here.training(index) for index in range(20)]
    assert problems == [task("reasoning_gym", dataset=name).training(index) for index in range(20)]
    for problem in problems:
        right = here.demonstration(problem)
        assert here.reward(problem, right) == here.reward(problem, f"\n {right} ") == 1
        changed = [
            right + "1",
            right + " x",
            "x " + right,
            right[:-1],
            f"{right}\n{right}",
            right.replace("1", "\u0661"),
        ]
        junk = ["".join(draw.choices("0123456789 .-+()[]{}aTF\x00٣é", k=draw.randrange(30))) for _ in range(20)]
        for answer in (*changed, *junk, "9" * 10**4, "(" * 10**4, "nan", "inf", "None", "True", "No"):
            if answer.strip().lower() != right.lower():
                assert here.reward(problem, answer) == 0


def test_problems_are_the_same_in_every_process():
    """Some data sets draw from Python sets, in whose order strings stand differently in each process."""
    pytest.importorskip("reasoning_gym")
    program = (
        "from simlab.llm.tasks import task; from simlab.llm.tasks.gym import ALLOWED;"
        "print([task('reasoning_gym', dataset=name).training(i).prompt for name in ALLOWED for i in range(10)])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"],
            env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert len(found) == 1


def test_the_questions_of_reasoning_gym_are_kept_apart():
    pytest.importorskip("reasoning_gym")
    here = task("reasoning_gym", dataset="letter_counting", evaluation_size=50)
    held_out = {problem.prompt for problem in here.evaluation}
    assert len(held_out) == 50
    assert held_out.isdisjoint(here.training(index).prompt for index in range(300))


def test_options_go_to_the_data_set_or_are_refused():
    pytest.importorskip("reasoning_gym")
    here = task("reasoning_gym", dataset="gcd", options={"max_value": 50})
    assert (
        max(int(word) for word in here.training(0).prompt.replace(",", " ").replace(".", " ").split() if word.isdigit())
        <= 50
    )
    assert "options = {'colour': 1} are refused by gcd" in refusal(task, "reasoning_gym", options={"colour": 1})


# math-verify

TRAINING = [("A half?", r"\frac{1}{2}"), ("The roots of 4?", r"\{-2, 2\}")]


@pytest.fixture(scope="module")
def latex():
    pytest.importorskip("math_verify")
    return boxed_answers(TRAINING, [("Two?", "2")], max_new_tokens=20, timeout=1)


@pytest.mark.parametrize(
    ("index", "completion", "right"),
    [
        (0, r"It is \boxed{\frac12}.", True),
        (0, r"\boxed{0.5}", True),
        (0, r"\boxed{2/4}", True),
        (0, r"\boxed{1} or \boxed{1/2}", True),
        (0, r"\boxed{1/2} or \boxed{1}", False),
        (0, "1/2", False),
        (0, "$1/2$", False),
        (0, r"\boxed{}", False),
        (0, r"\boxed{1/2, 3}", False),
        (0, r"\boxed{__import__('os')}", False),
        (1, r"\boxed{\{2, -2\}}", True),
        (1, r"\boxed{2}", False),
    ],
)
def test_equal_answers_win_in_any_form(latex, index, completion, right):
    problem = latex.training(index)
    assert latex.reward(problem, completion) == right
    assert latex.solution(problem, completion) == (TRAINING[index][1] if right else None)
    assert latex.reward(problem, latex.demonstration(problem)) == 1


@pytest.mark.parametrize("answer", ["9^{9^{9^{9}}}", "99999999!", "9^" * 90 + "9", r"\prod_{n=1}^{10^9} n", "[" * 8])
def test_answers_that_take_forever_are_wrong_in_seconds(latex, answer):
    start = time.perf_counter()
    assert latex.reward(latex.training(0), rf"\boxed{{{answer}}}") == 0
    assert time.perf_counter() - start < 20


def test_fuzzed_latex_raises_nothing_and_wins_nothing(latex):
    draw, pieces = (
        random.Random(0),
        [*"13456789+-=,()[]^_ x\x00٣", r"\frac", r"\sqrt", "{", "}", r"\text", "$", r"\left"],
    )
    for _ in range(200):
        answer = "".join(draw.choices(pieces, k=draw.randrange(1, 6)))
        assert latex.reward(latex.training(1), rf"\boxed{{{answer}}}") == 0


def test_bad_answers_and_other_threads_are_refused(latex):
    assert "has two answers" in refusal(boxed_answers, [("a", "1")], [("a", "2")], max_new_tokens=9)
    assert "the answer '1}' of the problem 'a' is no LaTeX" in refusal(boxed_answers, [("a", "1}")], [("b", "2")], 9)
    lines = []
    thread = threading.Thread(target=lambda: lines.append(refusal(latex.reward, latex.training(0), r"\boxed{2}")))
    thread.start()
    thread.join()
    assert "math-verify works in the main thread alone" in lines[0]

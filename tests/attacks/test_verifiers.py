"""Hostile answers: every verifier is done with ten megabytes in a moment, raises nothing and gives nothing away.

Time is that of the processor, and its bound some ten times what is needed: what it tells from is work that grows faster
than the answer, or the second that a maze's nine megabytes once took.
"""

import random
import time
from pathlib import Path

import pytest
from sweep_cases import refusal

from simlab.llm.tasks import boxed_answers, from_callable, task
from simlab.llm.tasks.boxed import boxed
from simlab.llm.tasks.expressions import LONGEST_TEXT, parse
from simlab.llm.tasks.gym import ALLOWED, MOST_ADDED

LONG = 10**7  # characters
SECONDS = 0.4
SUMS = str(Path(__file__).parent.parent / "data" / "sums.jsonl")
SMALL = {"evaluation_size": 4}
TASKS = {
    "addition": lambda: task("addition", **SMALL),
    "countdown": lambda: task("countdown", **SMALL),
    "fewshot": lambda: task("fewshot", **SMALL),
    "a maze": lambda: task("maze", size=7, **SMALL),
    "a strict maze": lambda: task("maze", size=7, accept="strict", **SMALL),
    "rows, exactly": lambda: task("data", train=SUMS),
    "rows, by number": lambda: task("data", train=SUMS, verifier="number"),
    "rows, by box": lambda: task("data", train=SUMS, verifier="boxed"),
    "a text of one's own": lambda: from_callable(lambda prompt, answer: answer == "yes", ["a"], ["b"], 4),
}
LONG_ANSWERS = {
    "walking to and fro": "RIGHT LEFT " * (LONG // 11),
    "walking, and done at the end": "RIGHT LEFT " * (LONG // 11) + "DONE",
    "words of one letter": "a " * (LONG // 2),
    "done, and on": "DONE " * (LONG // 5),
    "spaces": " " * LONG,
    "line breaks": "\n" * LONG,
    "spaces of other scripts": "\u3000" * (LONG // 3),
    "brackets": "(" * LONG,
    "brackets that close": "(" * (LONG // 2) + ")" * (LONG // 2),
    "digits": "9" * LONG,
    "zeros": "0" * LONG,
    "signs": "-" * LONG,
    "a long sum": "1+" * (LONG // 2) + "1",
    "a power": "9**" * (LONG // 3) + "9",
    "zero bytes": "\0" * LONG,
    "surrogates": "\ud800" * LONG,
    "one word": "x" * LONG,
}


@pytest.fixture(scope="module", params=TASKS)
def judged(request):
    """A task and one of its problems."""
    here = TASKS[request.param]()
    return here, here.training(0)


@pytest.mark.parametrize("case", LONG_ANSWERS)
def test_ten_megabytes_are_judged_in_a_moment(case, judged):
    here, problem = judged
    answer, start = LONG_ANSWERS[case], time.process_time()
    assert here.reward(problem, answer) == 0
    assert here.solution(problem, answer) is None
    assert time.process_time() - start < 2 * SECONDS


HOSTILE_ANSWERS = (
    "", " ", "\n", "\0", "\ud800", "\udcff", "\ufeff", "\u202e", "٣", "²", "①", "١٢", "\uff19", "1e3", "0x10", "1_0",
    "--1", "nan", "inf", "None", "True", "__import__('os')", "9**9**9", "(" * 10**6 + ")" * 10**6, "9" * 10**6, "1/0",
    "(1)", "\\boxed{1}", "\x1b[2J", "DONE", "DONE DONE", "UP DONE", "\u2028", "é" * 1000, "{0}" * 1000, "%s%n", "$(ls)",
)  # fmt: skip


@pytest.mark.parametrize("answer", HOSTILE_ANSWERS, ids=lambda answer: ascii(answer[:12]))
def test_hostile_answers_raise_nothing_and_win_nothing(answer, judged):
    here, problem = judged
    assert here.reward(problem, answer) == 0
    assert here.solution(problem, answer) is None


def variants(answer, random_numbers):
    """The right answer with something of other scripts, invisible or merely near in a place of it."""
    place = random_numbers.randrange(len(answer) + 1)
    added = random_numbers.choice("\0\ufeff\u200b\u00a0٣\uff19\u202e\x7f\r,.;_'\"`eE+")
    yield answer[:place] + added + answer[place:]
    yield "".join(chr(ord(one) + 0xFEE0) if one.isdigit() else one for one in answer) + "\u200b"


@pytest.mark.parametrize("name", ["addition", "countdown", "a strict maze"])
def test_a_right_answer_with_something_added_is_wrong(name):
    here, random_numbers = TASKS[name](), random.Random(3)
    for index in range(50):
        problem = here.training(index)
        right = here.demonstration(problem)
        assert here.reward(problem, right) == 1
        for answer in variants(right, random_numbers):
            assert here.reward(problem, answer) == 0


def test_a_maze_reads_as_many_words_as_an_answer_has_tokens():
    """A token at least is a word: DONE beyond so many words cannot have been sampled."""
    here = task("maze", size=7, max_new_tokens=40, **SMALL)
    problem = here.training(0)
    first = problem.path[0]
    back = {"UP": "DOWN", "DOWN": "UP", "LEFT": "RIGHT", "RIGHT": "LEFT"}[first]
    for detours in range(30):
        answer = [first, back] * detours + [*problem.path, "DONE"]
        assert here.reward(problem, " ".join(answer)) == (len(answer) <= here.max_new_tokens)
    assert here.reward(problem, " ".join((*problem.path, "DONE", *["anything"] * 10**6))) == 1


def test_expressions_past_their_limit_are_not_parsed(monkeypatch):
    steps = []
    monkeypatch.setattr("simlab.llm.tasks.expressions._Parser", steps.append)
    for answer in ("1" * (LONGEST_TEXT + 1), "(" * 10**6, "1+" * 10**6):
        assert parse(answer) is None
    assert not steps


# Functions of the user's own


@pytest.mark.parametrize(
    ("returned", "line"),
    [
        (lambda *_: 10**400, "raised OverflowError: int too large to convert to float"),
        (lambda *_: 10**5000, "raised OverflowError: int too large to convert to float"),
        (lambda *_: float("nan"), "returned 'nan'; allowed: finite numbers"),
        (lambda *_: None, "returned 'None'; allowed: finite numbers"),
        (lambda *_: 1j, "returned '1j'; allowed: finite numbers"),
        (lambda *_: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_reward_that_is_no_finite_number_names_the_problem(returned, line):
    here = from_callable(returned, ["two\nlines"], ["b"], 4)
    expected = f"the reward function of the problem 'two\\nlines' {line}"
    assert refusal(here.reward, here.training(0), "a") == expected


@pytest.mark.parametrize("kind", ["solution", "demonstration"])
@pytest.mark.parametrize(
    ("function", "line"),
    [(lambda *_: {}["a"], "raised KeyError: 'a'"), (lambda *_: None, "returned 'None'; allowed: texts")],
)
def test_a_function_of_texts_that_fails_names_the_problem(kind, function, line):
    here = from_callable(lambda prompt, answer: 1.0, ["a"], ["b"], 4, **{kind: function})
    call = {"solution": lambda: here.solution(here.training(0), "x"), "demonstration": lambda: here.demonstration(
        here.training(0)
    )}[kind]  # fmt: skip
    assert refusal(call) == f"the {kind} function of the problem 'a' {line}"


# math-verify


@pytest.mark.parametrize("case", LONG_ANSWERS)
def test_ten_megabytes_hold_no_box(case):
    start = time.process_time()
    assert boxed(LONG_ANSWERS[case]) is None
    assert boxed(r"\boxed{" + LONG_ANSWERS[case]) is None
    assert time.process_time() - start < SECONDS


EXACT = {
    r"\frac{1}{2}": (["0.5", "0.500", ".5", "2/4", r"50\%", r"\frac{1.0}{2.0}", r"5\times10^{-1}", r"\sqrt{0.25}"],
                     ["0.50000000001", "0.49999999", "0.50000000000000001", r"\frac{1}{2}+10^{-9}", "0.5000001"]),
    "0.1": (["1/10", r"10\%"], ["0.10000000000000001", "0.1000000000000000055511151231257827"]),
    r"\frac{1}{3}": (["2/6"], ["0.333333", "0.3333333333333333", r"33.3333\%"]),
    r"\sqrt{2}": (["2^{1/2}", "2^{0.5}"], ["1.41421356", "1.4142135623730951"]),
    r"\{0.5, 2\}": ([r"\{2, 1/2\}"], [r"\{2, 0.50000000001\}"]),
    "3": (["3.0", "6/2"], ["3.0000000001", "2.9999999999"]),
    r"\pi": ([], ["3.14159265", "3.141592653589793238"]),
}  # fmt: skip


@pytest.mark.parametrize("answer", EXACT)
def test_decimals_are_the_fractions_that_they_say(answer):
    pytest.importorskip("math_verify")
    here = boxed_answers([("a", answer)], [("b", "7")], max_new_tokens=20)
    equal, near = EXACT[answer]
    assert [other for other in equal if here.reward(here.training(0), rf"\boxed{{{other}}}") != 1] == []
    assert [other for other in near if here.reward(here.training(0), rf"\boxed{{{other}}}") != 0] == []


# reasoning-gym


@pytest.mark.parametrize("name", ALLOWED)
def test_long_answers_to_reasoning_gym_are_judged_in_a_moment(name):
    pytest.importorskip("reasoning_gym")
    here = task("reasoning_gym", dataset=name, **SMALL)
    problem = here.training(0)
    right = here.demonstration(problem)
    starts = ("(", "9", "a", "a ", "\n", "[[", "1/", "{", "<", "\\", right, right[:1] or "x")
    start = time.process_time()
    for piece in starts:
        for length in (len(right) + MOST_ADDED, 10**6):
            assert here.reward(problem, (piece * (length // len(piece) + 1))[:length] + "x") == 0
    assert time.process_time() - start < len(starts) * SECONDS

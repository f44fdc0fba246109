"""Tasks: the promises of all, questions and answers of each, 2,000 fuzzed answers to each, and refusals."""

import itertools
import random

import numpy as np
import pytest
from naive_tasks import all_trees, flood, is_countdown_answer, tree_value, walks_to_goal
from sweep_cases import refusal

from simlab.llm.tasks import from_callable, task
from simlab.llm.tasks.base import is_held_out
from simlab.llm.tasks.countdown import CountdownProblem, solutions
from simlab.llm.tasks.fewshot import FewShotProblem, Question
from simlab.llm.tasks.maze import TOKENS, perfect_maze
from simlab.llm.vocabulary import Words, characters

CASES = {
    "addition": ("addition", {"evaluation_size": 50}),
    "addition, reversed": ("addition", {"digits": 3, "order": "reversed", "evaluation_size": 50}),
    "countdown of three": ("countdown", {"numbers": 3, "largest": 9, "evaluation_size": 40, "least_solutions": 1}),
    "countdown of four": ("countdown", {"largest": 9, "evaluation_size": 20}),
    "few shots": ("fewshot", {"operators": "+-*", "evaluation_size": 20}),
    "maze": ("maze", {"evaluation_size": 5}),
    "maze, strict": ("maze", {"size": 7, "evaluation_size": 20, "accept": "strict"}),
}


def made(case, **others):
    name, parameters = CASES[case]
    return task(name, **parameters | others)


ALL = pytest.mark.parametrize("case", CASES)
DIGITS = characters("0123456789+=")

# Promises of all


@ALL
def test_demonstrations_are_right_and_fit(case):
    here = made(case)
    for problem in (*here.evaluation, *(here.training(index) for index in range(30))):
        answer = here.demonstration(problem)
        assert here.reward(problem, answer) == 1
        assert here.solution(problem, answer)
        if here.vocabulary is None:
            assert len(answer) < here.max_new_tokens  # a token has at least one character
        else:
            assert len(here.vocabulary.encode(answer)) < here.max_new_tokens  # the end token makes it up
            assert here.vocabulary.decode(here.vocabulary.encode(problem.prompt)) == problem.prompt


@ALL
def test_a_problem_depends_on_seed_and_index_alone(case):
    there, here = made(case), made(case)
    backwards = [there.training(index) for index in reversed(range(20))]
    assert [here.training(index) for index in range(20)] == backwards[::-1]
    assert there.evaluation == here.evaluation
    assert len({problem.prompt for problem in backwards}) > 15
    assert backwards[0] != made(case, seed=1).training(19)
    few = made(case, training_size=3)
    assert [few.training(index) for index in range(7)] == [here.training(index % 3) for index in range(7)]
    other = made(case, seed=1)
    assert there.evaluation != other.evaluation
    evaluated = {here.identity(problem) for problem in here.evaluation}
    assert len(evaluated) == len(here.evaluation) == here.evaluation_size
    trained = {task.identity(task.training(index)) for task in (here, other) for index in range(100)}
    assert evaluated.isdisjoint(trained), "no training problem of any seed is evaluated on"


def test_problems_stay_what_they_are():
    prompts = {name: task(name).training(0).prompt for name in ("addition", "countdown", "fewshot")}
    assert prompts == {
        "addition": "21+69=",
        "countdown": "10,3,8,2=36:",
        "fewshot": "36 + 40 = 76\n70 + 20 = 90\n53 + 55 = 108\n34 + 69 = 103\n18 + 34 =",
    }
    assert "".join(move[0] for move in task("maze").training(0).path) == "DDDDDDDDDDDDRRRRRRUURRRRRRDDRRDD"


def test_the_problems_of_a_small_task_are_divided_without_remainder():
    """The evaluation has exactly the held-out sums among the 55 of two digits, and training has the others."""
    held_out = [f"{a}+{b}" for a, b in itertools.combinations_with_replacement(range(10), 2) if is_held_out(f"{a}+{b}")]
    here = task("addition", digits=1, evaluation_size=len(held_out))
    assert sorted(map(here.identity, here.evaluation)) == held_out
    assert {here.identity(here.training(index)) for index in range(1000)}.isdisjoint(held_out)
    assert len({here.identity(here.training(index)) for index in range(1000)}) == 55 - len(held_out)
    more = task("addition", digits=1, evaluation_size=56)
    assert f"evaluation_size = 56 is more than the {len(held_out)} problems" in refusal(lambda: more.evaluation)


# Fuzzed answers


def right_by_arithmetic(problem, answer):
    return answer.isascii() and answer.isdigit() and len(answer) == 3 and int(answer) == problem.first + problem.second


def right_by_first_line(problem, answer):
    line = answer.partition("\n")[0].strip(" \t\r")
    question = problem.question
    value = {"+": question.first + question.second, "-": question.first - question.second}.get(question.operator)
    return line == str(question.first * question.second if value is None else value)


ORACLES = {
    "addition": right_by_arithmetic,
    "countdown of three": lambda problem, answer: is_countdown_answer(problem.numbers, problem.target, answer),
    "few shots": right_by_first_line,
    "maze": lambda problem, answer: walks_to_goal(rows_of(problem.prompt, 17), answer.split()),
    "maze, strict": lambda problem, answer: answer == " ".join((*problem.path, "DONE")),
}
JUNK = [
    *"0123456789+-*/()=,. \n\t\x00٣²½é∞eEjx_'\"[]{}%#\\", "**", "//", "DONE",
    " UP", " LEFT ", "nan", "inf", "True", "-0",
]  # fmt: skip
JUNK += ["<eos>", "<pad>", "__import__('os')", "1e999", "0x1", "\u202e", "\ud800", "\r\n", "9" * 400, "(" * 400]


def fuzzed(draw, right, others):
    answer = list(draw.choice([right, draw.choice(others), ""]))
    for _ in range(draw.choice([0, 1, 1, 2, 5])):
        start = draw.randrange(len(answer) + 1)
        answer[start : start + draw.choice([0, 1, 3])] = draw.choices(JUNK, k=draw.choice([0, 1, 1, 4]))
    if draw.random() < 0.2:
        draw.shuffle(answer)
    return "".join(answer)


@pytest.mark.parametrize("case", ORACLES)
def test_fuzzed_answers_raise_nothing_and_win_nothing(case):
    """Each of the five cases gets 2,000 answers; an answer that wins is right by the test's oracle."""
    here, draw, won, count = made(case), random.Random(0), 0, 2000
    problems = [here.training(index) for index in range(20)]
    answers = [here.demonstration(problem) for problem in problems]
    for number in range(count):
        problem = problems[number % 20]
        answer = fuzzed(draw, answers[number % 20], answers)
        reward = here.reward(problem, answer)
        assert reward == float(ORACLES[case](problem, answer)), answer
        won += answer != answers[number % 20] and reward > 0
    assert won < count / 10


# Addition


def test_sums_are_written_in_a_fixed_width_from_either_end():
    plain, backwards = task("addition", digits=3), task("addition", digits=3, order="reversed")
    for index in range(50):
        problem = plain.training(index)
        assert problem == backwards.training(index)
        first, second = problem.prompt.removesuffix("=").split("+")
        answer = f"{int(first) + int(second):04d}"
        assert (len(first), len(second)) == (3, 3)
        assert plain.demonstration(problem) == answer
        assert backwards.demonstration(problem) == answer[::-1]
        assert plain.reward(problem, answer.lstrip("0")) == float(answer[0] != "0")
        assert plain.reward(problem, answer + " ") == plain.reward(problem, "0" + answer) == 0


# Countdown


def test_countdown_takes_any_expression_of_all_its_numbers():
    here, problem = task("countdown"), CountdownProblem("8,3,8,3=24:", (8, 3, 8, 3), 24)
    assert here.solution(problem, "8/(3-8/3)") == "8/(3-8/3)"
    for wrong in ("8*3", "8*3+8-8", "8*3*3/3", "24", "8/(3-8/3)=24", "3*8+(8-8)*3", "8/(3-3)*8", "(8/(3-8/3)"):
        assert here.reward(problem, wrong) == 0
    assert solutions(problem) == {"8/(3-8/3)"}
    problems = [CountdownProblem("", numbers, 24) for numbers in itertools.permutations((1, 2, 3, 4))]
    assert len(set(map(here.identity, problems))) == 1, "their order makes no new problem"


def test_targets_are_within_reach_in_as_many_ways_as_was_asked_for():
    here = task("countdown", numbers=3, largest=9, largest_target=30, least_solutions=4, evaluation_size=5)
    for index in range(10):
        problem = here.training(index)
        ways = {tree_value(tree, float) for tree in all_trees(problem.numbers)}
        assert problem.target in ways
        assert len(solutions(problem)) >= 4
        assert len(set(problem.numbers)) == 3
        assert max(problem.numbers) <= 9
        assert problem.target <= 30
        assert problem.prompt == f"{problem.numbers[0]},{problem.numbers[1]},{problem.numbers[2]}={problem.target}:"


def test_demonstrations_are_uniform_among_the_solutions():
    """The rank of the demonstrated solution among all, in [0, 1], is uniform: mean 1/2 within 4 standard errors."""
    here, ranks = task("countdown", numbers=3, largest=9, least_solutions=3), []
    for index in range(100):
        problem = here.training(index)
        candidates = sorted(solutions(problem))
        ranks.append((candidates.index(here.solution(problem, here.demonstration(problem))) + 0.5) / len(candidates))
    assert abs(np.mean(ranks) - 0.5) < 4 / np.sqrt(12 * 100)


# Maze


def rows_of(prompt, size):
    words = prompt.split()[2:-2]
    rows = [words[start : start + size + 1] for start in range(0, len(words), size + 1)]
    assert all(row[-1] == "NEWLINE" for row in rows)
    return [row[:-1] for row in rows]


def test_the_prompt_is_that_of_the_paper():
    """310 tokens; ids as in the tokenizer that the authors of MaxRL published."""
    here = task("maze", evaluation_size=1)
    ids = here.vocabulary.encode(here.training(0).prompt)
    assert len(ids) == 310
    assert ids[:3] == [1, 4, 9]
    assert ids[2 + 18 : 2 + 18 + 2] == [9, 11]
    assert ids[-2:] == [5, 6]
    assert (ids.count(11), ids.count(10), ids.count(12), len(TOKENS), here.max_new_tokens) == (1, 1, 17, 32, 180)


@pytest.mark.parametrize("size", [5, 9, 17])
def test_mazes_are_perfect_and_the_path_is_the_one_there_is(size):
    here = task("maze", size=size, evaluation_size=1)
    for index in range(5):
        problem = here.training(index)
        rows = rows_of(problem.prompt, size)
        cells, distance = flood(rows)
        joints = sum((r + 1, c) in cells for r, c in cells) + sum((r, c + 1) in cells for r, c in cells)
        assert set(distance) == set(cells) == problem.opened
        assert joints == len(cells) - 1  # a tree
        assert {(r, c) for r, c in cells if r % 2 and c % 2} == set(itertools.product(range(1, size, 2), repeat=2))
        assert rows[1][1] == "START"
        assert rows[size - 2][size - 2] == "GOAL"
        assert len(problem.path) == distance[size - 2, size - 2]


def test_walls_are_opened_as_prims_algorithm_does():
    """One of the four walls of 2 times 2 cells stays. By hand: one at the start with chance 1/8, at the goal 3/8."""
    draws = 4000
    mazes = [perfect_maze(5, random.Random(number))[0] for number in range(draws)]
    for gap, chance in {(1, 2): 1 / 8, (2, 1): 1 / 8, (2, 3): 3 / 8, (3, 2): 3 / 8}.items():
        closed = sum(gap not in opened for opened in mazes) / draws
        assert abs(closed - chance) < 4 * np.sqrt(chance * (1 - chance) / draws)


def test_the_walk_reward_takes_detours_and_the_strict_one_does_not():
    walk, strict = (task("maze", size=9, accept=accept, evaluation_size=1) for accept in ("walk", "strict"))
    problem = walk.training(0)
    path = " ".join(problem.path)
    first = problem.path[0]
    back = {"RIGHT": "LEFT", "DOWN": "UP"}[first]
    assert problem == strict.training(0)
    answers = {
        f"{path} DONE": (path, path),
        f"{first} {back} {path} DONE": (f"{first} {back} {path}", None),
        f"{path} UP UP UP UP DONE": (path, None),
        f"{path} DONE <eos> DONE": (path, None),
        f"  {path}  DONE": (path, None),
        f"{path}": (None, None),
        "DONE": (None, None),
        f"UP {path} DONE": (None, None),
        f"{path} <pad> DONE": (None, None),
        f"{path} NORTH DONE": (None, None),
        f"{' '.join(problem.path[:-1])} DONE": (None, None),
        f"{path.lower()} DONE": (None, None),
    }
    for answer, expected in answers.items():
        assert (walk.solution(problem, answer), strict.solution(problem, answer)) == expected


# Few shots


def test_the_lines_are_right_and_give_nothing_away():
    here = task("fewshot", operators="+-*", digits=1, shots=3, evaluation_size=20)
    held_out = {here.identity(problem) for problem in here.evaluation}
    for problem in (*here.evaluation, *(here.training(index) for index in range(50))):
        *lines, last = problem.prompt.split("\n")
        assert len(lines) == 3
        for line in lines:
            first, operator, second, equals, value = line.split(" ")
            assert equals == "="
            assert int(value) == {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[operator](
                int(first), int(second)
            )
            shot = Question(int(first), operator, int(second))
            assert shot.identity not in {problem.question.identity, *held_out}
        assert last == str(problem.question)
        assert last.endswith(" =")


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        (" -5", True), ("-5\n3 + 4 = 7", True), ("\t-5 \r\n", True), ("", False), ("\n-5", False), (" -5.", False),
        (" - 5", False), (" -05", False), ("\u22125", False), (" -\u0665", False), (" -5 = -5", False),
        (" 5", False), ("-5\x00", False),
    ],
)  # fmt: skip
def test_the_first_line_is_the_answer(completion, right):
    here, problem = task("fewshot"), FewShotProblem("3 - 8 =", Question(3, "-", 8))
    assert here.solution(problem, completion) == ("-5" if right else None)
    assert here.stop == "\n"


# Any callable


def test_any_callable_is_a_task():
    here = from_callable(
        lambda prompt, answer: np.float32(0.5) if answer == prompt else len(answer) > 3,
        ["ab", "cd"], ["ef"], max_new_tokens=7, name="echo", stop="!", demonstration=str.upper, correct_from=0.5,
    )  # fmt: skip
    problem = here.training(5)
    assert (problem.prompt, here.evaluation[0].prompt, here.max_new_tokens, here.stop) == ("cd", "ef", 7, "!")
    assert [here.reward(problem, answer) for answer in ("cd", "long", "no")] == [0.5, 1.0, 0.0]
    assert [here.solution(problem, answer) for answer in ("cd", " long ", "no")] == ["cd", "long", None]
    assert here.demonstration(problem) == "CD"
    here = from_callable(lambda p, a: a.lower() == p, ["x"], ["y"], 3, solution=lambda p, a: a.lower())
    assert here.solution(here.training(0), "X") == here.solution(here.training(0), "x") == "x"


# Refusals


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("chess", {}, "task = 'chess' is unknown; allowed: addition, countdown, data, fewshot, maze, reasoning_gym"),
        ("addition", {"figures": 3}, "addition has no parameter 'figures'; it takes: seed, evaluation_size, "),
        ("addition", {"digits": 0}, "digits = 0 is outside its range [1, 18]"),
        ("maze", {"size": 16}, "size = 16 is even; allowed: odd numbers from 5 to 101"),
    ],
    ids=str,
)  # fmt: skip
def test_a_task_that_cannot_be_is_refused_with_what_is_allowed(name, parameters, message):
    assert message in refusal(task, name, **parameters)
    here = task("countdown", numbers=2, largest=2, least_solutions=100)
    assert "least_solutions = 100: no 2 numbers up to 2 make" in refusal(here.training, 0)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (([], ["a"]), "training prompts are []; allowed: a list of at least one text"),
        ((["a", "b"], ["c", "b"]), "the prompt 'b' is listed for training and evaluation"),
    ],
)
def test_lists_of_prompts_that_are_no_task_are_refused(lists, message):
    assert message in refusal(from_callable, lambda prompt, answer: 1, *lists, max_new_tokens=1)
    here = from_callable(lambda prompt, answer: 1, ["a"], ["b"], max_new_tokens=1)
    assert "task own has no demonstrations" in refusal(here.demonstration, here.training(0))
    assert "max_new_tokens = 0" in refusal(from_callable, lambda prompt, answer: 1, ["a"], ["b"], max_new_tokens=0)


# Vocabularies


def test_bad_input_is_refused():
    for text in ("12 ", "a", "<eos>", "٣", "\x00"):
        assert "is no token of the vocabulary; allowed: <pad> <bos> <eos> 0 1" in refusal(DIGITS.encode, text)
    assert "'NORTH' is no token" in refusal(Words(TOKENS).encode, "UP NORTH")
    assert "token id 15 is outside the vocabulary; allowed: 0 to 14" in refusal(DIGITS.decode, [3, 15])
    assert "token id -1" in refusal(DIGITS.decode, [-1])
    assert "'a' is listed twice" in refusal(characters, "aba")
    assert "lacks the token '<eos>'" in refusal(Words, ("<pad>", "<bos>"))

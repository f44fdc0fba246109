"""A sweep of what a user has written in a file: named by file and name, kept with the result, never mixed."""

import hashlib
import json
import math

import pytest
from sweep_cases import TINY, asked, command, parts_of, refusal

from simlab import own_files
from simlab.sweeps import Plan
from simlab.sweeps.plan import MOST_PROBLEMS, batches
from simlab.sweeps.result import read
from simlab.sweeps.run import parts_folder, run

METHODS = """
from simlab.estimators import center, chain
from simlab.surrogates import Surrogate

SIGN = 1.0


def weight(advantages, rollouts):
    return SIGN * (advantages - advantages.mean(axis=-1, keepdims=True))


def scaled(size=1.0, kind="plain"):
    return chain(center("mean"), lambda advantages, rollouts: SIGN * size * advantages)


def plain(ratio, advantages, rollouts):
    return ratio * advantages
"""

PROBLEM = '''
import weakref
from dataclasses import dataclass, replace

import numpy as np

from simlab.problems.base import Problem
from simlab.problems.categorical import Categorical
from simlab.simulator.metrics import Metric, POLICY, USUAL_METRICS

GREATEST = Metric("greatest", "probability of the likeliest action", POLICY, lambda one: one.policy.p.max())


@dataclass(frozen=True, eq=False)
class Peaked(Categorical):
    """One action, which is correct, likelier than the others."""

    @property
    def metrics(self):
        return (*USUAL_METRICS, GREATEST)


def peaked(actions=10, height=1.0, first=True, chances=np.ones(1)):
    correct = np.arange(actions) == (0 if first else actions - 1)
    return Peaked(np.where(np.arange(actions) == 0, height, 0.0), correct, correct)


def counted(actions=10, scale=1.0):
    """It keeps no problem alive, and tells how many there are at once."""
    alive.add(made := peaked(actions, scale))
    most.append(len(alive))
    return made


def nothing(actions=10):
    return actions


class Nothing:
    actions = 10


def needy(actions):
    return actions


def broken(actions=10):
    return 1 / 0


made = peaked(4)
alive, most = weakref.WeakSet(), []
'''
RUN = ("--group-size", 4, "--seeds", 2, "--steps", 20, "--record-every", 10)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with both files, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(METHODS)
    (tmp_path / "own.py").write_text(PROBLEM)
    return tmp_path


def final(out):
    """The correct mass that is reached, by method, in the mean over seeds."""
    return read(out).q_pos.isel(step=-1).mean("seed").values.ravel()


@pytest.mark.slow
def test_arms_and_estimators_are_named_by_their_file(files):
    out = files / "arms.nc"
    code, _, complaints = command(
        "sweep", "--out", out, "--arms", "mine.py:weight,grpo,mine.py:scaled(size=2)+mine.py:plain", *TINY, *RUN[:4]
    )
    assert (code, complaints) == (0, "")
    methods = ["mine.py:weight", "grpo", "mine.py:scaled(size=2)+mine.py:plain"]
    assert read(out).arm.values.tolist() == methods
    assert (final(out) > read(out).q_pos.isel(step=0).mean("seed").values.ravel()).all()

    out = files / "estimators.nc"
    code, _, complaints = command(
        "sweep", "--out", out, "--estimator", "mine.py:scaled,grpo", "--param", "size=1,-1", *TINY, *RUN[:4]
    )
    assert (code, complaints) == (0, "")
    found = read(out).q_pos.isel(step=-1, group_size=0).mean("seed")
    assert found.sel(estimator="mine.py:scaled", size=1.0) > found.sel(estimator="mine.py:scaled", size=-1.0)
    assert found.sel(estimator="grpo", size=1.0) == found.sel(estimator="grpo", size=-1.0)


def test_an_own_surrogate_is_named_by_its_file(files):
    sweep = asked("--estimator", "grpo", "--surrogate", "mine.py:plain,reinforce", *TINY)
    assert sweep.dimensions()["surrogate"] == ("mine.py:plain", "reinforce")
    assert len(Plan(sweep).distinct) == 2


def test_the_text_and_hash_of_a_file_are_in_the_result(files):
    result = run(asked("--arms", "mine.py:weight,grpo", *TINY, *RUN[:4]), files / "sweep.nc")
    assert json.loads(result.attrs["files"]) == {"mine.py": hashlib.sha256(METHODS.encode()).hexdigest()}
    assert json.loads(result.attrs["texts"]) == {"mine.py": METHODS}
    assert json.loads(result.attrs["own"]).keys() == {"mine.py:weight"}


@pytest.mark.slow
def test_an_edited_file_computes_anew_what_it_is_in_and_nothing_else(files):
    out = files / "sweep.nc"
    options = ("sweep", "--out", out, "--arms", "mine.py:weight,grpo", *TINY, *RUN[:4])
    assert command(*options)[0] == 0
    before, weight = parts_of(out), final(out)[0]
    edited = (METHODS.replace("SIGN = 1.0", "SIGN = -1.0"), True, "1 part", "is")
    for text, differs, parts, are in (edited, (METHODS + "# a remark\n", False, "2 parts", "are")):
        (files / "mine.py").write_text(text)
        code, _, complaints = command(*options)
        assert code == 0
        left = f"{parts} in {parts_folder(out)} {are} of other sweeps or code versions: left alone\n"
        assert left in complaints
        assert complaints.startswith("1 of 2 units are finished already\n"), "those of grpo"
        assert (final(out)[0] != weight) == differs
        assert before.items() < parts_of(out).items()
    assert len(parts_of(out)) == 4


@pytest.mark.slow
def test_shards_of_an_edited_file_are_not_joined(files):
    out, options = files / "sweep.nc", ("--arms", "mine.py:weight,grpo", *TINY, *RUN[:4])
    for shard in ("1/2", "2/2"):
        assert command("sweep", "--out", out, "--shard", shard, *options)[0] == 0
    (files / "mine.py").write_text(METHODS + "# a remark\n")
    code, _, complaints = command("merge", out)
    message = "the parts are of other code of your own than there is here (in mine.py); allowed: the same code"
    assert (code, complaints) == (2, f"simlab: {message}\n")
    (files / "mine.py").write_text(METHODS)
    assert command("merge", out)[0] == 0


@pytest.mark.slow
def test_an_own_problem_is_swept_like_a_registered_one_with_its_own_metrics(files):
    out = files / "sweep.nc"
    options = ("sweep", "--out", out, "--problem", "own.py:peaked", "--param", "actions=4,8", "--arms", "grpo", *RUN)
    code, printed, complaints = command(*options, "--param", "height=3", "--param", "first=true,false")
    assert (code, complaints) == (0, "")
    result = read(out)
    assert result.greatest.dims == ("arm", "group_size", "actions", "first", "seed", "step")
    assert result.greatest.attrs == {"long_name": "probability of the likeliest action", "units": "1"}
    start = result.greatest.isel(step=0, seed=0).squeeze().values
    expected = [math.exp(3) / (math.exp(3) + others) for others in (3, 7)]
    assert start[:, 0].tolist() == start[:, 1].tolist() == pytest.approx(expected)
    assert json.loads(result.attrs["texts"]) == {"own.py": PROBLEM}
    assert "actions" in printed
    assert (
        command(*options, "--param", "height=3", "--param", "first=true,false")[2]
        == "4 of 4 units are finished already\n"
    )


def test_a_problem_that_is_made_already_has_no_parameters(files):
    assert [cell.problem.actions for cell in Plan(asked("--problem", "own.py:made")).distinct] == [4]
    assert "unknown parameter 'height'" in refusal(asked, "--problem", "own.py:made", "--param", "height=1")


def test_a_plan_does_not_hold_all_problems_at_once(files):
    """However many cells each of them has, and whatever is asked of them."""
    heights = ",".join(map(str, range(20)))
    plan = Plan(asked("--problem", "own.py:counted", "--param", f"scale={heights}", "--group-size", "2,4"))
    most = own_files.load("own.py:most")
    assert len(plan.distinct) == 40
    units = plan.units("", "cpu")
    assert len({unit.resolved.problem.fingerprint for unit in units}) == 20
    assert [plan.work(batch).problem.logits[0] for batch in batches(units, "cpu")] == [
        float(height) for height in range(20) for _ in (2, 4)
    ]
    assert max(most) == MOST_PROBLEMS + 1  # one more while it is made
    assert len(most) <= 7 * 20  # nor is each made again for each of its cells


def test_an_edited_problem_is_another_unit(files, tmp_path):
    """Two files of one name in two folders: a process runs each file once."""
    names = set()
    for number, text in enumerate((PROBLEM, PROBLEM, PROBLEM.replace("one.policy.p.max()", "2 * one.policy.p.max()"))):
        (tmp_path / f"own{number}.py").write_text(text)
        (unit,) = Plan(asked("--problem", f"own{number}.py:peaked")).units("", "cpu")
        names.add(json.dumps([unit.resolved.own, *unit.resolved.files.values()]))
    assert len(names) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--problem", "own.py:peeked"), "own.py has no 'peeked'; its names: "),
        (("--problem", "none.py:peaked"), "none.py"),
        (
            ("--problem", "own.py:nothing"),
            "problem 'own.py:nothing' makes a int; allowed: a Problem, or a function with defaults",
        ),
        (
            ("--problem", "own.py:Nothing"),
            "problem 'own.py:Nothing' makes a Nothing; allowed: a Problem, or a function with",
        ),
        (("--problem", "own.py:needy"), "own.py:needy has no default for 'actions'; allowed: a Problem, or a function"),
        (("--problem", "own.py:np"), "own.py:np is a module; allowed: a Problem, or a function with defaults"),
        (("--problem", "own.py:broken"), "own.py:broken cannot be built: ZeroDivisionError: division by zero, line "),
        (("--problem", "own.py:peaked", "--param", "first=1"), "first = '1' is unknown; allowed: true, false"),
        (("--estimator", "mine.py:plain"), "mine.py:plain is a function; allowed: Estimator, Link, a function"),
        (("--surrogate", "mine.py:weight"), "mine.py:weight is a function; allowed: Surrogate, a function"),
        (("--estimator", "mine.py:"), "names nothing in a .py file"),
        (("--arms", "mine.py:other"), "mine.py has no 'other'; its names: "),
    ],
)
def test_what_is_none_is_refused_in_one_line(files, arguments, message):
    assert message in refusal(lambda: Plan(asked(*arguments)))

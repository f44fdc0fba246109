"""A user's own code, registered or in a file, is part of what a unit is: numbers of two versions of it never mix."""

import dataclasses
import hashlib
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from array_api_compat import array_namespace
from sweep_cases import TINY, asked, command, parts_of, refusal

from simlab import own_files
from simlab.estimators import Registered, center, chain, registry
from simlab.methods import Method
from simlab.problems import anchored
from simlab.simulator.runner import run as simulate
from simlab.simulator.settings import Settings
from simlab.surrogates import SURROGATES, Surrogate, ppo_clip
from simlab.sweeps import Plan
from simlab.sweeps.plan import MOST_PROBLEMS, batches
from simlab.sweeps.result import read
from simlab.sweeps.run import parts_folder, run

NAME = "own_sign"
UNITS = 3  # blocks of 8 seeds


def constructor(sign):
    def own_sign():
        """A sign of one's own."""
        return chain(center("mean"), lambda advantages, rollouts: sign * advantages)

    return own_sign


@pytest.fixture
def register(monkeypatch):
    """Put an estimator under the name in place of any other, as another process would find it."""
    return lambda build: monkeypatch.setitem(registry._REGISTRY, NAME, Registered(NAME, "own:sign", build))


def small(**changes):
    return dataclasses.replace(asked("--estimator", "grpo", "--group-size", 4, *TINY, "--seeds", 20), **changes)


def unit_names(sweep):
    return {unit.name for unit in Plan(sweep).units("", "cpu")}


@pytest.mark.slow
def test_after_a_kill_old_and_new_seeds_do_not_mix(register, tmp_path, capsys):
    register(constructor(1.0))
    sweep, out = small(estimators=(NAME,)), tmp_path / "sweep.nc"
    run(sweep, out)
    first, *others = sorted(parts_folder(out).glob("*.npz"))
    for path in others:
        path.unlink()
    out.unlink()
    capsys.readouterr()
    register(constructor(-1.0))
    mended = run(sweep, out)
    assert f"1 part in {first.parent} is of other" in capsys.readouterr().err
    assert len(parts_of(out)) == UNITS + 1
    assert mended.identical(run(sweep, tmp_path / "fresh.nc"))
    assert json.loads(mended.attrs["own"]).keys() == {f"{NAME}+ppo_clip"}


def test_a_base_or_a_surrogate_of_ones_own_counts_and_units_of_the_library_stay(register, monkeypatch):
    library = unit_names(small())

    def names(sign):
        register(constructor(sign))
        monkeypatch.setitem(SURROGATES, "own", lambda: Surrogate(lambda ratio, advantages, _: sign * advantages))
        base = small(estimators=("f_grpo",), parameters={"estimator.base": (NAME,)})
        return unit_names(base), unit_names(small(surrogates=("own",)))

    assert names(1.0) == names(1.0)
    assert all(not units & other for units, other in zip(names(1.0), names(-1.0), strict=True))
    assert unit_names(small()) == library


def test_code_that_cannot_be_seen_is_refused_before_anything_is_done(register, tmp_path):
    held = (number for number in range(3))
    register(lambda: chain(center("mean"), lambda advantages, rollouts: advantages * (1 if held else 0)))
    assert f"{NAME}+ppo_clip" in refusal(run, small(estimators=(NAME,)), tmp_path / "sweep.nc")


def rising(method):
    settings = Settings(method, 4)
    q_pos = simulate(anchored(60, 6), [settings] * 2, range(2), np.array([20]))["q_pos"]
    return float((q_pos[:, -1] - q_pos[:, 0]).mean())


@pytest.mark.slow
def test_what_an_estimator_reads_is_read_again():
    setting = SimpleNamespace(sign=1.0)

    def signed(advantages, rollouts):
        return setting.sign * advantages

    method = Method(chain(center("mean"), signed), ppo_clip())
    assert rising(method) > 0
    setting.sign = -1.0
    assert rising(method) < 0


@pytest.mark.slow
def test_one_that_keeps_what_cannot_be_seen_is_simulated_all_the_same():
    traced = []

    def recorded(advantages, rollouts):
        traced.append(array_namespace(advantages).sum(advantages))
        return advantages

    assert rising(Method(chain(center("mean"), recorded), ppo_clip())) > 0
    assert traced
    assert rising(Method(chain(center("mean"), recorded), ppo_clip())) > 0


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
from simlab.simulator.metrics import POLICY, USUAL_METRICS, Metric

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

def broken(actions=10):
    return 1 / 0

made = peaked(4)
alive, most = weakref.WeakSet(), []
'''
RUN = ("--group-size", 4, "--seeds", 2, "--steps", 20, "--record-every", 10)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(METHODS)
    (tmp_path / "own.py").write_text(PROBLEM)
    return tmp_path


def final(out):
    return read(out).q_pos.isel(step=-1).mean("seed").values.ravel()


@pytest.mark.slow
def test_arms_and_estimators_are_named_by_their_file(files):
    out = files / "arms.nc"
    code, _, complaints = command(
        "sweep", "--out", out, "--arms", "mine.py:weight,grpo,mine.py:scaled(size=2)+mine.py:plain", *TINY, *RUN[:4]
    )
    assert (code, complaints) == (0, "")
    assert read(out).arm.values.tolist() == ["mine.py:weight", "grpo", "mine.py:scaled(size=2)+mine.py:plain"]
    assert (final(out) > read(out).q_pos.isel(step=0).mean("seed").values.ravel()).all()
    sweep = asked("--estimator", "mine.py:scaled,grpo", "--param", "size=1,-1", *TINY, *RUN[:4])
    q_pos = run(sweep, files / "estimators.nc").q_pos.isel(step=-1, group_size=0).mean("seed")
    assert q_pos.sel(estimator="mine.py:scaled", size=1.0) > q_pos.sel(estimator="mine.py:scaled", size=-1.0)
    assert q_pos.sel(estimator="grpo", size=1.0) == q_pos.sel(estimator="grpo", size=-1.0)


def test_the_text_and_hash_of_a_file_are_in_the_result(files):
    sweep = asked("--estimator", "mine.py:weight", "--surrogate", "mine.py:plain", *TINY, *RUN[:4])
    result = run(sweep, files / "sweep.nc")
    assert json.loads(result.attrs["files"]) == {"mine.py": hashlib.sha256(METHODS.encode()).hexdigest()}
    assert json.loads(result.attrs["texts"]) == {"mine.py": METHODS}
    assert json.loads(result.attrs["own"]).keys() == {"mine.py:weight+mine.py:plain"}


@pytest.mark.slow
def test_an_edited_file_computes_anew_what_it_is_in_and_nothing_else(files):
    out = files / "sweep.nc"
    options = ("sweep", "--out", out, "--arms", "mine.py:weight,grpo", *TINY, *RUN[:4])
    assert command(*options)[0] == 0
    before, weight = parts_of(out), final(out)[0]
    edited = (METHODS.replace("SIGN = 1.0", "SIGN = -1.0"), True, "1 part ")
    for text, differs, phrase in (edited, (METHODS + "# a remark\n", False, "2 parts ")):
        (files / "mine.py").write_text(text)
        code, _, complaints = command(*options)
        assert code == 0
        assert complaints.startswith("1 of 2 units is finished already\n"), "those of grpo"
        assert phrase in complaints
        assert (final(out)[0] != weight) == differs
        assert before.items() < parts_of(out).items()
    assert len(parts_of(out)) == 4


@pytest.mark.slow
def test_an_own_problem_is_swept_like_a_registered_one_with_its_own_metrics(files):
    out = files / "sweep.nc"
    parameters = ("--param", "actions=4,8", "--param", "height=3", "--param", "first=true,false")
    options = ("sweep", "--out", out, "--problem", "own.py:peaked", "--arms", "grpo", *RUN, *parameters)
    code, printed, complaints = command(*options)
    assert (code, complaints) == (0, "")
    result = read(out)
    assert result.greatest.dims == ("arm", "group_size", "actions", "first", "seed", "step")
    assert result.greatest.attrs == {"long_name": "probability of the likeliest action", "units": "1"}
    start = result.greatest.isel(step=0, seed=0).squeeze().values
    expected = [math.exp(3) / (math.exp(3) + others) for others in (3, 7)]
    assert start[:, 0].tolist() == start[:, 1].tolist() == pytest.approx(expected)
    assert json.loads(result.attrs["texts"]) == {"own.py": PROBLEM}
    assert "actions" in printed
    assert command(*options)[2] == "4 of 4 units are finished already\n"


def test_a_plan_does_not_hold_all_problems_at_once(files):
    """No number of cells and no question changes that."""
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
    """Three files: a process runs each file once."""
    names = set()
    for number, text in enumerate((PROBLEM, PROBLEM, PROBLEM.replace("one.policy.p.max()", "2 * one.policy.p.max()"))):
        (tmp_path / f"own{number}.py").write_text(text)
        (unit,) = Plan(asked("--problem", f"own{number}.py:peaked")).units("", "cpu")
        names.add(json.dumps([unit.resolved.user_code, *unit.resolved.files.values()]))
    assert len(names) == 2


def test_what_is_no_method_or_problem_is_refused_in_one_line(files):
    assert [cell.problem.actions for cell in Plan(asked("--problem", "own.py:made")).distinct] == [4]
    for arguments, message in (
        (("--problem", "own.py:broken"), "ZeroDivisionError: division by zero"),
        (("--problem", "own.py:peaked", "--param", "first=1"), "first = '1'"),
        (("--problem", "own.py:made", "--param", "height=1"), "unknown parameter 'height'"),
        (("--estimator", "mine.py:plain"), "mine.py:plain is a function"),
        (("--surrogate", "mine.py:weight"), "mine.py:weight is a function"),
    ):
        assert message in refusal(lambda options=arguments: Plan(asked(*options)))

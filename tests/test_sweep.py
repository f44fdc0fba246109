"""A sweep: its result, the inputs of its units, reuse, shared work, and refusals."""

import dataclasses
import functools
import importlib
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as some
from sweep_cases import SMALL, SMALL_UNITS, TINY, asked, parts_of, refusal

from simlab.files import file_lock
from simlab.identity import code_fingerprint, commit
from simlab.simulator.metrics import POLICY, USUAL_METRICS
from simlab.simulator.resources import needed_bytes
from simlab.simulator.runner import run as simulate
from simlab.sweeps import Plan
from simlab.sweeps.executor import RESERVED, MemoryBudget
from simlab.sweeps.plan import Unit
from simlab.sweeps.result import joining_bytes, read
from simlab.sweeps.run import Store, merge, parts_folder, run

SWEEP = asked(*SMALL)
ONE_CELL = asked(*TINY, "--group-size", 2)
DESCRIPTIONS = {metric.name: metric.description for metric in USUAL_METRICS}


def test_the_result_is_labelled_and_every_variable_described(unbroken):
    dataset = read(unbroken)
    assert dataset["q_pos"].dims == ("estimator", "group_size", "gamma", "seed", "step")
    labels = {name: values.values.tolist() for name, values in dataset.coords.items()}
    assert labels == {
        "estimator": ["f_grpo", "dr_grpo"],
        "group_size": [2, 4],
        "gamma": [0.0, 1.0],
        "seed": list(range(12)),
        "step": [0, 10, 20],
        "k": [1, 8, 64, 512],
        "rank": [1, 2, 3, 4, 5],
        "decade": ["below 0.001", "0.001 to 0.01", "0.01 to 0.1", "0.1 to 1"],
    }
    assert {name: values.attrs["long_name"] for name, values in dataset.data_vars.items()} == DESCRIPTIONS
    trailing = {name: values.dims[5:] for name, values in dataset.data_vars.items() if len(values.dims) > 5}
    split = {f"{what}_{outcome}": ("decade",) for what in ("clipped", "drawn") for outcome in ("correct", "wrong")}
    assert trailing == {"pass_at_k": ("k",), "top_logp": ("rank",)} | split
    assert json.loads(dataset.gamma.attrs["methods_without_it"]) == ["dr_grpo"]
    assert all("long_name" in values.attrs for values in dataset.coords.values())


def test_no_value_is_missing_but_of_an_update_before_the_first_and_of_off_policy_runs(unbroken):
    missing = read(unbroken).isnull().any([name for name in read(unbroken).coords if name != "step"])
    of_an_update = {metric.name for metric in USUAL_METRICS if metric.of != POLICY}
    assert {name for name in missing if missing[name][0]} == of_an_update
    of_off_policy = {metric.name for metric in USUAL_METRICS if metric.off_policy}
    assert {name for name in missing if missing[name][1:].any()} == of_off_policy


def test_a_cell_is_the_simulation_of_its_problem_and_settings(unbroken):
    cell = Plan(SWEEP).cells[0, 1, 1]
    alone = simulate(cell.problem, [cell.settings] * 12, range(12), cell.steps)
    within = read(unbroken).sel(estimator="f_grpo", group_size=4, gamma=1.0)
    for name in DESCRIPTIONS:
        np.testing.assert_array_equal(within[name].values, alone[name], name)


def test_the_file_holds_what_is_returned_and_where_it_is_from(resumed):
    returned = run(SWEEP, resumed)
    assert read(resumed).identical(returned)
    with xr.open_dataset(resumed) as opened:  # any reader of NetCDF
        assert opened["q_pos"].dtype == np.float32
        assert opened.identical(returned)
    attributes = returned.attrs
    assert SWEEP.from_configuration(json.loads(attributes["configuration"])) == SWEEP
    assert json.loads(attributes["versions"])["jax"] == jax.__version__
    origin = {name: attributes.get(name, "unknown") for name in ("commit", "code", "platform", "dtype", "own")}
    assert [*origin.values()] == [commit(), code_fingerprint(), jax.default_backend(), "float32", "{}"]
    assert {"processors", "settled"} < attributes.keys()


def test_an_estimator_without_the_swept_parameter_is_one_unit_all_along_it(unbroken):
    units = Plan(SWEEP).units("", "cpu")
    along = {unit.index: unit.name for unit in units if unit.seeds.start == 0}
    assert along[1, 0, 0] == along[1, 0, 1]
    assert along[0, 0, 0] != along[0, 0, 1]
    assert len(parts_of(unbroken)) == len({unit.name for unit in units}) == SMALL_UNITS
    dr_grpo = read(unbroken).sel(estimator="dr_grpo")
    assert dr_grpo.sel(gamma=0.0, drop=True).identical(dr_grpo.sel(gamma=1.0, drop=True))


def unit_names(sweep, code="code", platform="cpu"):
    return {unit.name for unit in Plan(sweep).units(code, platform)}


def with_parameter(name, *values):
    return dataclasses.replace(SWEEP, parameters={**SWEEP.parameters, name: values})


SMALL_NAMES = unit_names(SWEEP)


def test_a_unit_made_with_another_setting_or_parameter_is_another_unit():
    settings = {
        "steps": 21,
        "record_every": 5,
        "pass_at_k": (1,),
        "top_n": 4,
        "dtype": "float64",
        "surrogates": ("cispo",),
        "optimizer": "sgd",
        "group_sizes": (3, 5),
    }
    parameters = {
        "optimizer.learning_rate": 0.02,
        "surrogate.eps_high": 0.3,
        "problem.correct": 7,
        "problem.target": 2,
        "problem.reward_incorrect": -1.0,
        "run.temperature": 2.0,
        "run.update_rule": "theorem",
    }
    others = [dataclasses.replace(SWEEP, **{name: value}) for name, value in settings.items()]
    others += [with_parameter(name, value) for name, value in parameters.items()]
    names = [SMALL_NAMES, *map(unit_names, others)]
    assert len(set().union(*names)) == sum(map(len, names))


@pytest.mark.parametrize("maker", [{"code": "changed"}, {"platform": "gpu"}], ids=str)
def test_a_unit_made_by_other_code_or_on_another_platform_is_another_unit(maker):
    assert not SMALL_NAMES & unit_names(SWEEP, **maker)


def test_a_unit_made_from_another_content_of_a_file_is_another_unit(tmp_path):
    path = tmp_path / "logits.txt"

    def names(text):
        path.write_text(text)
        return unit_names(asked("--problem", "custom", "--param", f"logits={path}"))

    assert names("0 1 2") == names("0.0 1.0 2.0")
    assert not names("0 1 2") & names("0 1 3")


@pytest.mark.parametrize(
    "wider",
    [
        dataclasses.replace(SWEEP, group_sizes=(8, 2, 4)),
        dataclasses.replace(SWEEP, estimators=("grpo", "dr_grpo", "f_grpo")),
        with_parameter("estimator.gamma", 0.5, 1.0, 0.0),
        with_parameter("optimizer.learning_rate", 0.5, 0.01),
        dataclasses.replace(SWEEP, seeds=24),  # the last block of the small sweep is not full
    ],
    ids=["group size", "estimator", "gamma", "learning rate", "seeds"],
)
def test_a_unit_does_not_depend_on_the_cells_beside_it(wider):
    small = SMALL_NAMES if wider.seeds == SWEEP.seeds else unit_names(dataclasses.replace(SWEEP, seeds=8))
    assert small < unit_names(wider)


def test_only_what_is_missing_is_computed_and_the_numbers_are_those_of_an_unbroken_run(unbroken, resumed, capsys):
    everything = sorted(parts_folder(resumed).glob("*.npz"))
    finished, lost = everything[::2], everything[1::2]
    for path in lost:
        path.unlink()
    leftovers = [folder / ".unfinished-abc" for folder in (resumed.parent, parts_folder(resumed))]
    for path in leftovers:  # from a write that was killed
        path.write_bytes(b"half a par")
        os.utime(path, (0, 0))
    written = [path.stat().st_mtime_ns for path in finished]
    assert run(SWEEP, resumed).identical(read(unbroken))
    assert f"{len(finished)} of {SMALL_UNITS} units are finished already" in capsys.readouterr().err
    assert [path.stat().st_mtime_ns for path in finished] == written
    assert parts_of(resumed) == parts_of(unbroken)
    assert not any(path.exists() for path in leftovers)
    content = resumed.read_bytes()
    run(SWEEP, resumed)
    assert resumed.read_bytes() == content


def test_a_part_under_the_name_of_another_is_made_anew(unbroken, resumed, capsys):
    paths = sorted(parts_folder(resumed).glob("*.npz"))
    shutil.copy(paths[3], paths[0])
    paths[5].replace(paths[2])
    assert run(SWEEP, resumed).identical(read(unbroken))
    complaints = capsys.readouterr().err
    assert all(f"part {path} is damaged" in complaints for path in (paths[0], paths[2]))
    assert parts_of(resumed) == parts_of(unbroken)


@pytest.mark.parametrize("name", ["sweep.nc", "sweep.nc.parts/sweep.json"])
def test_a_result_or_manifest_with_a_flipped_bit_is_refused_and_left_as_it_is(unbroken, tmp_path, name):
    shutil.copytree(unbroken.parent, tmp_path, dirs_exist_ok=True)
    out, content = tmp_path / "sweep.nc", bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    again = (run, SWEEP, out) if name == out.name else (merge, tmp_path / "joined.nc", [parts_folder(out)])
    assert refusal(*again).startswith(f"{tmp_path / name} is damaged")
    assert (tmp_path / name).read_bytes() == content


def test_more_seeds_reuse_the_finished_ones(tmp_path, capsys):
    out = tmp_path / "sweep.nc"
    eight = run(dataclasses.replace(SWEEP, seeds=8), out)
    sixteen = run(dataclasses.replace(SWEEP, seeds=16), out, overwrite=True)
    assert "6 of 12 units are finished already" in capsys.readouterr().err
    assert sixteen.isel(seed=slice(8)).drop_attrs().equals(eight.drop_attrs())


@pytest.mark.parametrize("other", ["code", "configuration"])
def test_parts_of_other_code_are_left_alone_and_said_to_be(unbroken, resumed, capsys, monkeypatch, other):
    sweep = dataclasses.replace(
        SWEEP, estimators=("dr_grpo",), parameters=asked(*TINY).parameters, steps=18, record_every=9
    )
    if other == "code":
        monkeypatch.setattr(importlib.import_module("simlab.sweeps.plan"), "code_fingerprint", lambda: "other code")
        sweep = SWEEP
    result = run(sweep, resumed)
    assert f"{SMALL_UNITS} parts in {parts_folder(resumed)} are of other" in capsys.readouterr().err
    assert parts_of(unbroken).items() < parts_of(resumed).items()
    assert result.attrs["code"] == ("other code" if other == "code" else code_fingerprint())


@pytest.mark.slow
def test_the_result_of_another_sweep_is_replaced_only_on_request(resumed):
    run(SWEEP, resumed)
    content = resumed.read_bytes()
    fewer, other = dataclasses.replace(SWEEP, group_sizes=(2,)), resumed.with_name("other.nc")
    run(fewer, other)
    for replace in (functools.partial(run, fewer, resumed), functools.partial(merge, resumed, [parts_folder(other)])):
        assert str(resumed) in refusal(replace)
        assert resumed.read_bytes() == content
        assert replace(overwrite=True).sizes["group_size"] == read(resumed).sizes["group_size"] == 1
        resumed.write_bytes(content)


def test_shards_of_several_machines_join_to_the_unbroken_result(unbroken, tmp_path):
    outs = [tmp_path / machine / "sweep.nc" for machine in ("one", "two")]
    for number, out in enumerate(outs, 1):
        run(SWEEP, out, shard=(number, 2))
    assert all(parts_of(out).items() < parts_of(unbroken).items() for out in outs)
    assert "missing" in refusal(merge, tmp_path / "joined.nc", [parts_folder(outs[0])])
    joined = merge(tmp_path / "joined.nc", [parts_folder(out) for out in reversed(outs)])
    assert joined.identical(read(unbroken))


def test_one_output_is_written_by_one_process_at_a_time_but_shards_run_side_by_side(resumed):
    with file_lock(parts_folder(resumed)):
        assert str(parts_folder(resumed)) in refusal(run, SWEEP, resumed)
    with file_lock(parts_folder(resumed), ".lock-1-of-2"):
        assert run(SWEEP, resumed, shard=(2, 2)) is None
        assert str(parts_folder(resumed)) in refusal(run, SWEEP, resumed, shard=(1, 2))


def needs(sweep):
    return [needed_bytes(cell.problem, cell.settings, cell.steps) for cell in Plan(sweep).distinct]


def test_numbers_depend_neither_on_memory_nor_on_workers(unbroken, tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    memory = RESERVED + max(joining_bytes(Plan(SWEEP)), *needs(SWEEP))
    assert run(SWEEP, tmp_path / "sweep.nc", memory=memory).identical(read(unbroken))


@pytest.mark.parametrize(
    ("sweep", "memory"),
    [
        (SWEEP, lambda: RESERVED + joining_bytes(Plan(SWEEP)) - 1),
        (ONE_CELL, lambda: RESERVED + min(needs(ONE_CELL)) - 1),
        (asked("--storage", "dense", "--param", "actions=2000000000"), lambda: 2**31),
    ],
    ids=["a byte too little to join", "a byte too little to simulate", "too many actions"],
)
def test_too_little_memory_is_refused_with_what_is_enough(tmp_path, sweep, memory):
    message = refusal(run, sweep, tmp_path / "sweep.nc", memory=memory())
    value, _, enough = message.partition(" is too small for a sweep of this size; allowed: ")
    assert value == f"--memory {memory() / 2**20:.0f}MB"
    assert int(enough.removesuffix("MB or more")) * 2**20 > memory()
    assert parts_of(tmp_path / "sweep.nc") == {}


def test_simulations_that_fit_run_at_once_and_others_wait_until_there_is_room():
    budget, together, entered = MemoryBudget(RESERVED + 10), threading.Barrier(2, timeout=10), threading.Event()

    def hold(amount):
        with budget.take(amount):
            together.wait()

    def enter():
        with budget.take(5):
            entered.set()

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(hold, [4, 6])) == [None, None]
        with budget.take(6):
            waiting = pool.submit(enter)
            assert not entered.wait(0.1)
        assert entered.wait(10)
        waiting.result()
    with pytest.raises(ZeroDivisionError), budget.take(10):
        raise ZeroDivisionError
    assert budget.free == 10
    assert "allowed: 641MB or more" in refusal(budget.take(11).__enter__)


UNIT = Unit((0,), Plan(ONE_CELL).distinct[0], range(4), "unit")
ROWS = {name: np.arange(12.0).reshape(4, 3) for name in ("q_pos", "entropy")}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("parts"))
    store.save(UNIT, ROWS)
    rows = store.load(UNIT)
    assert {name: values.tolist() for name, values in rows.items()} == {
        name: values.tolist() for name, values in ROWS.items()
    }
    return store, store.path(UNIT).read_bytes()


def check_damage_is_noticed(store, content):
    store.path(UNIT).write_bytes(content)
    assert str(store.path(UNIT)) in refusal(store.load, UNIT)


@given(data=some.data())
def test_a_flipped_bit_or_a_cut_is_noticed_wherever_it_is(saved, data):
    store, content = saved
    index = data.draw(some.integers(0, len(content) - 1))
    flipped = bytearray(content)
    flipped[index] ^= 1 << data.draw(some.integers(0, 7))
    check_damage_is_noticed(store, flipped)
    check_damage_is_noticed(store, content[:index])

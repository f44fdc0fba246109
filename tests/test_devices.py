"""A sweep on several devices: all of them work, and the result is that of one."""

import signal
import time
from unittest.mock import Mock

import jax
import numpy as np
import pytest
from several_devices import DEVICES, called, flags
from sweep_cases import TINY, asked, command, parts_of, refusal, start

from simlab.problems import anchored, linear_softmax, prompt_bank
from simlab.simulator import resources, runner
from simlab.simulator.resources import devices_by, needed_bytes, own_memory, stations
from simlab.simulator.settings import Settings
from simlab.sweeps.result import read
from simlab.sweeps.run import run

# Few instructions, which every device compiles.
SIMPLE = ("--estimator", "psr", "--surrogate", "reinforce", "--optimizer", "sgd", "--top-n", 2, "--pass-at-k", 1)
# One cell whose runs are alone: its seeds are all there is to spread. And one whose runs take two devices each.
ONE_CELL = ("--storage", "dense", "--param", "actions=16384", "--param", "correct=100", "--group-size", 8, "--seeds", 5)
ONE_CELL += ("--steps", 6, "--record-every", 3, *SIMPLE)
SHARDED = (*TINY, "--group-size", 2, "--seeds", 2, "--storage", "sharded", *SIMPLE)
QUICK = {"one_cell": ONE_CELL, "sharded": SHARDED}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Results on one device, by name."""
    folder = tmp_path_factory.mktemp("alone")
    on_one_device(*((options, folder / f"{name}.nc") for name, options in QUICK.items()))
    return folder


def on_one_device(*sweeps):
    """Run sweeps, each with its path, in a process that has one device."""
    called("sweeps_on_devices", *(("run_and_say_where", asked(*options), out) for options, out in sweeps), devices=1)


@pytest.fixture(scope="module")
def spread(tmp_path_factory):
    """The same on several devices, in one process, and how many calls each group of devices has simulated."""
    folder = tmp_path_factory.mktemp("spread")
    calls = called(
        "sweeps_on_devices",
        ("run_and_say_where", asked(*ONE_CELL), folder / "one_cell.nc"),
        ("run_and_say_where", asked(*SHARDED), folder / "sharded.nc", 2),
    )
    return folder, dict(zip(QUICK, calls, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_parts_and_result_are_those_of_one_device(alone, spread, name):
    ours, theirs = spread[0] / f"{name}.nc", alone / f"{name}.nc"
    assert parts_of(ours) == parts_of(theirs)
    assert read(ours).identical(read(theirs))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "devices_of_a_call"), [("one_cell", 1), ("sharded", 2)])
def test_every_device_takes_part(spread, name, devices_of_a_call):
    """By the five seeds of one cell, and by simulations that take two devices each."""
    calls = spread[1][name]
    assert {len(devices) for devices in calls} == {devices_of_a_call}
    assert sorted(device for devices in calls for device in devices) == list(range(DEVICES))


@pytest.mark.slow
def test_a_run_on_several_devices_that_is_killed_goes_on_on_one(tmp_path, monkeypatch):
    options = (*TINY, "--group-size", 2, "--gamma", "0,1", "--seeds", 96, "--steps", 3000, "--record-every", 1000)
    out, unbroken = tmp_path / "sweep.nc", tmp_path / "unbroken.nc"
    on_one_device((options, unbroken))
    with monkeypatch.context() as several:
        several.setenv("XLA_FLAGS", flags())
        process = start("sweep", "--out", out, *options)
        while len(parts_of(out)) < 6:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finished = len(parts_of(out))
    assert 6 <= finished < 24
    monkeypatch.setenv("XLA_FLAGS", flags(1))
    code, _, complaints = command("sweep", "--out", out, *options)
    assert (code, complaints) == (0, f"{finished} of 24 units are finished already\n")
    assert read(out).identical(read(unbroken))


# Which devices, and their memory


def device(platform, number, memory=None):
    """A device as JAX describes one."""
    return Mock(spec=jax.Device, platform=platform, id=number, memory_stats=lambda: memory and {"bytes_limit": memory})


def test_gpus_have_memory_of_their_own_and_cpus_that_of_the_host(monkeypatch):
    assert own_memory(device("gpu", 0, 2**34)) == 2**34
    assert own_memory(device("cpu", 0)) is None
    on_host = needed_bytes(PROBLEM, SETTINGS, STEPS)
    assert on_host > 5 * 4 * PROBLEM.actions
    monkeypatch.setattr(resources, "own_memory", lambda device: on_host)
    assert needed_bytes(PROBLEM, SETTINGS, STEPS) < on_host  # the arrays of the problem alone
    monkeypatch.setattr(resources, "own_memory", lambda device: 1000)
    assert "a simulation of 20000 actions takes " in refusal(needed_bytes, PROBLEM, SETTINGS, STEPS)


@pytest.mark.parametrize(
    ("platform", "shards", "expected"),
    [
        ("gpu", 1, [(0,), (1,), (2,)]),
        ("gpu", 2, [(0, 1)]),
        ("cpu", 1, [(0,), (1,), (2,), (0,), (1,)]),
        ("cpu", 3, [(0, 1, 2)]),
    ],
)
def test_a_gpu_runs_one_simulation_and_a_cpu_one_a_core(monkeypatch, platform, shards, expected):
    """Three devices, five cores; simulations that take several devices do not share these."""
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(5)))
    monkeypatch.setattr(jax, "local_devices", lambda: [device(platform, number, 2**34) for number in range(3)])
    assert [tuple(device.id for device in group) for group in stations(shards)] == expected


PROBLEM, STEPS = anchored(20_000, 10), np.array([1, 2])
SETTINGS = Settings("psr+reinforce", 4, optimizer="sgd", storage="dense", pass_at_k=(1,))


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shard-actions", 2), "shard_actions = 2"),
        (("--shard-actions", 0), "shard_actions = 0"),
        (("--shard-actions", 1, "--storage", "lumped"), "shard_actions = 1 with lumped storage"),
        (("--shard-actions", 1, "--problem", "tree"), "storage = 'sharded' of a Tree"),
    ],
)
def test_a_sweep_that_cannot_be_spread_is_refused(tmp_path, monkeypatch, options, message):
    sweep = asked(*(TINY if "tree" not in options else ()), *options)
    assert message in refusal(run, sweep, tmp_path / "sweep.nc", shard_actions=options[1])
    twice = devices_by(1)[0] * 2
    assert "shard_actions = 2 with dense storage" in refusal(runner.run, PROBLEM, [SETTINGS], [0], STEPS, twice)
    monkeypatch.setattr(jax, "local_devices", lambda: [device("cpu", number) for number in range(8)])
    few = asked("--param", "actions=3", "--param", "correct=1", "--shard-actions", 4)
    assert "shard_actions = 4 of 3 actions" in refusal(run, few, tmp_path / "sweep.nc", shard_actions=4)


def test_memory_that_runs_out_is_one_line(monkeypatch):
    def exhausted(call):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.")

    monkeypatch.setattr(runner.Call, "rows", exhausted)
    assert "memory ran out while 20000 actions" in refusal(runner.run, PROBLEM, [SETTINGS], [0], STEPS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "settings"),
    [
        (anchored(2**17, 2**13), {"group_size": 64}),
        (anchored(2**15, 2**11), {"group_size": 2**16}),
        (prompt_bank(256, 500), {"prompts_per_step": 16, "group_size": 64}),
        (linear_softmax(prompts=64, actions=2000), {}),
    ],
)
def test_the_forecast_of_memory_is_right_to_a_quarter(problem, settings):
    settings, devices = Settings("grpo", storage="dense", **settings), devices_by(1)[0]
    call = runner.Call(problem, [settings], [0], STEPS, None)
    usage = call.compiled(call.storage, None).memory_analysis()
    used = usage.temp_size_in_bytes + usage.argument_size_in_bytes + usage.output_size_in_bytes
    assert resources.device_bytes(problem, settings, int(STEPS[-1]), devices) == pytest.approx(used, rel=0.25)

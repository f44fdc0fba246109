"""A sweep on Dask's workers: the same numbers as here, even if workers die. Run with ``-m dask``."""

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sweep_cases import TINY, asked, parts_of, refusal, start

import simlab
from simlab.estimators import Registered, chain, registry
from simlab.sweeps import Plan
from simlab.sweeps.plan import maker
from simlab.sweeps.result import read
from simlab.sweeps.run import parts_folder, run

pytestmark = [
    pytest.mark.dask,
    pytest.mark.filterwarnings("default"),  # Dask's and tornado's
]
dask, psutil = pytest.importorskip("dask"), pytest.importorskip("psutil")
pytest.importorskip("distributed")
cluster = pytest.importorskip("simlab.sweeps.cluster")

# 6 units of one program; and 40 of the same that take a tenth of a second each.
OPTIONS = (*TINY, "--estimator", "f_grpo", "--group-size", 2, "--gamma", "0,1,2", "--seeds", 16)
SWEEP, UNITS = asked(*OPTIONS), 6
LONG_OPTIONS = (*OPTIONS, "--gamma", "0,0.1,...,0.9", "--seeds", 32, "--steps", 2000, "--record-every", 1000)
HERE = Path(simlab.__file__).parent


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """A killed worker may leave half a compiled program, which the tests of this process must not find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture(scope="module")
def workers():
    with cluster.connected("local:2") as connection:
        yield connection


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken") / "sweep.nc"
    run(SWEEP, out)
    return out


def test_the_numbers_and_parts_are_those_of_this_process(workers, unbroken, tmp_path):
    out = tmp_path / "sweep.nc"
    assert run(SWEEP, out, workers=workers).identical(read(unbroken))
    assert read(out).identical(read(unbroken))
    assert parts_of(out) == parts_of(unbroken)
    assert len(parts_of(out)) == UNITS


def test_what_was_begun_here_goes_on_there(workers, unbroken, tmp_path, capsys):
    out = tmp_path / "sweep.nc"
    run(dataclasses.replace(SWEEP, seeds=8), out)
    capsys.readouterr()
    result = run(SWEEP, out, workers=workers, overwrite=True)
    assert f"{UNITS // 2} of {UNITS} units are finished already" in capsys.readouterr().err
    assert result.identical(read(unbroken))


def test_a_problem_in_a_file_is_sent_with_what_it_holds(workers, tmp_path):
    logits = tmp_path / "logits.npy"
    np.save(logits, np.linspace(0, 1, 60))
    options = ("--problem", "custom", "--param", f"logits={logits}", "--param", "correct=1,2", "--group-size", 2)
    sweep = asked(*options, "--seeds", 2, "--steps", 20, "--record-every", 10)
    here = run(sweep, tmp_path / "here.nc")
    plan, _ = Plan(sweep), logits.unlink()  # the workers cannot read it
    assert run(plan, tmp_path / "there.nc", workers=workers).identical(here)


class Death:
    """Unpacks as the end of the process."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_unit_that_kills_every_worker_is_named_and_the_others_are_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(cluster.CONFIGURATION, "distributed.scheduler.allowed-failures", 1)
    packed, sent = cluster._packed, []

    def pack(work):
        sent.append(work)
        return cluster.pickle.dumps(Death()) if len(sent) == UNITS else packed(work)

    monkeypatch.setattr(cluster, "_packed", pack)
    out = tmp_path / "sweep.nc"
    with cluster.connected("local:1") as workers:
        message = refusal(run, SWEEP, out, workers=workers)
    assert message.startswith("2 workers died while computing f_grpo+ppo_clip at group size 2")
    assert 1 <= len(parts_of(out)) < UNITS


@contextlib.contextmanager
def bare_scheduler():
    process = start_dask("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    lines = iter(process.stderr.readline, "")
    address = next(line.split()[-1] for line in lines if "Scheduler at:" in line)
    try:
        yield process, address
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def worker(address, path):
    process = start_dask("dask_worker", address, "--nthreads", "1", "--memory-limit", "0", "--no-nanny", cwd=path)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def start_dask(program, *arguments, cwd=None):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def other_code(tmp_path_factory):
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(HERE, folder / "simlab", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "simlab" / "errors.py").open("a") as file:
        file.write("CHANGED = 1\n")
    return folder


def test_workers_are_waited_for_and_one_of_other_code_is_refused(unbroken, tmp_path, capsys, other_code):
    nothing = tmp_path / "simlab"
    nothing.mkdir()
    (nothing / "__init__.py").touch()
    with bare_scheduler() as (_, address), cluster.connected(address) as workers, contextlib.ExitStack() as stack:
        arrival = threading.Timer(2, lambda: stack.enter_context(worker(address, HERE.parent)))
        arrival.start()
        assert run(SWEEP, tmp_path / "sweep.nc", workers=workers).identical(read(unbroken))
        assert capsys.readouterr().err == f"no worker at {address}: waiting for one\n"
        for path, reason in ((other_code, "its code is "), (tmp_path, "simlab.sweeps")):
            with worker(address, path):
                workers.client.wait_for_workers(2)
                message = refusal(run, SWEEP, tmp_path / "other.nc", workers=workers)
                assert " cannot take part: " in message
                assert reason in message
            while len(workers.client.nthreads()) > 1:
                time.sleep(0.1)


def test_a_worker_of_other_code_or_whose_estimator_of_the_name_is_another_computes_nothing(monkeypatch):
    """The name alone travels, and the worker finds its own estimator under it."""

    def registered(sign):
        def build():
            return chain(lambda advantages, rollouts: sign * advantages)

        monkeypatch.setitem(registry._REGISTRY, "own", Registered("own", "own:sign", build))

    registered(1.0)
    plan, here = Plan(asked(*TINY, "--group-size", 2, "--estimator", "own")), maker()
    (unit,) = plan.units(here["code"], here["platform"])
    request = (here["platform"], 2**31, {}, cluster._packed(plan.work([unit])))
    assert len(cluster.records(here["code"], *request)["q_pos"]) == 4
    assert "other" in refusal(cluster.records, "other", *request)
    registered(-1.0)
    assert "own+ppo_clip" in refusal(cluster.records, here["code"], *request)


def test_a_scheduler_that_is_lost_ends_the_sweep_with_one_line_and_keeps_the_parts(tmp_path):
    out = tmp_path / "sweep.nc"
    with bare_scheduler() as (scheduler, address), worker(address, HERE.parent):
        process = start("sweep", "--out", out, "--scheduler", address, *LONG_OPTIONS)
        while not parts_of(out):
            assert process.poll() is None
            time.sleep(0.1)
        scheduler.kill()
        output, complaints = process.communicate(timeout=100)
    assert (process.returncode, output) == (2, "")
    assert complaints.startswith(f"simlab: the scheduler at {address} is gone")
    assert complaints.count("\n") == 1
    assert parts_of(out)


def test_a_scheduler_that_is_not_there_is_said_not_to_answer():
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        for address in ("tcp://127.0.0.1:9", "tls://127.0.0.1:9"):
            assert refusal(cluster.connected(address).__enter__).startswith(f"no Dask scheduler answers at {address} (")


@pytest.mark.parametrize("stop", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL])
def test_a_sweep_that_is_stopped_leaves_no_process_and_goes_on_later(tmp_path, stop):
    out = tmp_path / "sweep.nc"
    options = (*LONG_OPTIONS, "--steps", 20000, "--record-every", 10000)
    process = start("sweep", "--out", out, "--scheduler", "local:2", *options, start_new_session=True)
    while not parts_of(out):
        assert process.poll() is None
        time.sleep(0.1)
    children = psutil.Process(process.pid).children(recursive=True)
    assert all(connection.laddr.ip == "127.0.0.1" for child in children for connection in child.net_connections())
    (os.killpg if stop == signal.SIGINT else os.kill)(process.pid, stop)  # a terminal tells all of them of a Ctrl-C
    complaints = process.communicate()[1]
    if stop == signal.SIGINT:
        interrupted = "interrupted; finished parts are kept, the same command goes on from them"
        assert (process.returncode, complaints) == (130, f"simlab: {interrupted}\n")
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]
    finished = parts_of(out)
    second = start("sweep", "--out", out, *options)
    while len(parts_of(out)) == len(finished):
        assert second.poll() is None
        time.sleep(0.1)
    second.kill()
    assert f"{len(finished)} of 40 units" in second.communicate()[1]
    assert finished.items() < parts_of(out).items()


@pytest.mark.slow
def test_workers_killed_and_stopped_at_random_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(cluster.CONFIGURATION, "distributed.scheduler.worker-ttl", "5s")
    monkeypatch.setitem(cluster.CONFIGURATION, "distributed.scheduler.allowed-failures", 10)
    sweep, moments, kills, ended = asked(*LONG_OPTIONS), random.Random(0), {}, threading.Event()
    here = run(sweep, tmp_path / "here.nc")

    def kill(processes, folder):
        previous = 0
        while not ended.wait(moments.uniform(0, 0.5)):
            count = len(list(folder.glob("*.npz")))
            nanny = moments.choice(list(processes.workers.values()))
            if count > previous and nanny.pid and nanny.pid not in kills:
                previous, how = count, signal.SIGSTOP if len(kills) % 3 == 2 else signal.SIGKILL
                with contextlib.suppress(ProcessLookupError):
                    os.kill(nanny.pid, how)
                    kills[nanny.pid] = how

    with cluster.connected("local:3") as workers:
        killer = threading.Thread(target=kill, args=(workers.client.cluster, parts_folder(tmp_path / "there.nc")))
        killer.start()
        try:
            there = run(sweep, tmp_path / "there.nc", workers=workers)
        finally:
            ended.set()
            killer.join()
    assert there.identical(here)
    assert parts_of(tmp_path / "there.nc") == parts_of(tmp_path / "here.nc")
    assert set(kills.values()) == {signal.SIGKILL, signal.SIGSTOP}

"""A sweep on Dask's workers: the same numbers as here, whatever becomes of the workers. Run with ``-m dask``."""

import contextlib
import dataclasses
import functools
import itertools
import os
import pickle
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
from simlab.simulator.resources import needed_bytes
from simlab.sweeps import Plan
from simlab.sweeps.executor import RESERVED
from simlab.sweeps.plan import maker
from simlab.sweeps.result import read
from simlab.sweeps.run import parts_folder, run

pytestmark = [
    pytest.mark.dask,
    pytest.mark.filterwarnings("default"),  # of Dask and tornado
]
cluster = pytest.importorskip("simlab.sweeps.cluster")
dask, psutil = pytest.importorskip("dask"), pytest.importorskip("psutil")
connection, handout, members = cluster.connection, cluster.handout, cluster.members

# 6 units of one program; and 40 of the same that take a tenth of a second each.
OPTIONS = (*TINY, "--estimator", "f_grpo", "--group-size", 2, "--gamma", "0,1,2", "--seeds", 16)
SWEEP, UNITS = asked(*OPTIONS), 6
LONG_OPTIONS = (*OPTIONS, "--gamma", "0,0.1,...,0.9", "--seeds", 32, "--steps", 2000, "--record-every", 1000)
LONG = asked(*LONG_OPTIONS)
KILLS = 20


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """A killed worker may leave half a compiled program, which the tests of this process must not find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture(scope="module")
def workers():
    """Two processes of this machine."""
    with cluster.connected("local:2") as found:
        yield found


def made_here(sweep, folder):
    """The path of a sweep's result, made in this process."""
    run(sweep, folder / "sweep.nc")
    return folder / "sweep.nc"


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return made_here(SWEEP, tmp_path_factory.mktemp("unbroken"))


@pytest.fixture(scope="module")
def long_unbroken(tmp_path_factory):
    return made_here(LONG, tmp_path_factory.mktemp("unbroken"))


# The same numbers


def test_the_numbers_and_parts_are_those_of_this_process(workers, unbroken, tmp_path):
    out = tmp_path / "sweep.nc"
    assert run(SWEEP, out, workers=workers).identical(read(unbroken))
    assert read(out).identical(read(unbroken))
    assert parts_of(out) == parts_of(unbroken)
    assert len(parts_of(out)) == UNITS


@pytest.mark.parametrize("first", ["here", "there"])
def test_what_was_begun_here_goes_on_there_and_the_other_way_round(workers, unbroken, tmp_path, capsys, first):
    out = tmp_path / "sweep.nc"
    run(dataclasses.replace(SWEEP, seeds=8), out, workers=None if first == "here" else workers)
    capsys.readouterr()
    result = run(SWEEP, out, workers=workers if first == "here" else None, overwrite=True)
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


# Workers that die, hang or vanish


class Killer(threading.Thread):
    """Kills a process, or stops it for good, at a random moment after each new part; ``kills`` says which and how."""

    def __init__(self, processes, out, moments, kills):
        super().__init__()
        self.processes, self.folder, self.moments, self.kills = processes, parts_folder(out), moments, kills
        self.ended = threading.Event()

    def run(self):
        parts = 0
        while not self.ended.wait(self.moments.uniform(0, 0.5)):
            found = len(list(self.folder.glob("*.npz")))
            nanny = self.moments.choice(list(self.processes.workers.values()))
            is_there = nanny.worker_address in self.processes.scheduler.workers
            if found == parts or len(self.kills) == KILLS or not is_there or nanny.pid in self.kills:
                continue
            parts, how = found, signal.SIGSTOP if len(self.kills) % 5 == 4 else signal.SIGKILL
            with contextlib.suppress(ProcessLookupError):
                os.kill(nanny.pid, how)
                self.kills[nanny.pid] = how

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self.ended.set()
        self.join()


@pytest.mark.slow
def test_workers_killed_and_stopped_at_random_change_nothing(long_unbroken, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(connection.CONFIGURATION, "distributed.scheduler.worker-ttl", "5s")
    moments, kills = random.Random(0), {}
    with cluster.connected("local:3") as workers:
        for number in itertools.count():
            out = tmp_path / f"{number}.nc"
            with Killer(workers.members.client.cluster, out, moments, kills):
                result = run(LONG, out, workers=workers)
            assert result.identical(read(long_unbroken))
            assert parts_of(out) == parts_of(long_unbroken)
            if len(kills) == KILLS:
                break
    assert set(kills.values()) == {signal.SIGKILL, signal.SIGSTOP}
    assert " is gone; what it was at is begun again" in capsys.readouterr().err


def test_a_process_that_dask_does_not_begin_again_is_begun_under_a_new_name(unbroken, tmp_path, monkeypatch):
    """As where one is killed while it starts."""

    async def fail():
        raise RuntimeError("the process did not start")

    monkeypatch.setattr(members, "GONE", 20.0)
    with cluster.connected("local:1") as workers:
        processes = workers.members.client.cluster
        ((name, nanny),) = processes.workers.items()
        monkeypatch.setattr(nanny, "instantiate", fail)
        os.kill(nanny.pid, signal.SIGKILL)
        assert run(SWEEP, tmp_path / "sweep.nc", workers=workers).identical(read(unbroken))
        assert name not in processes.worker_spec
        assert len(processes.worker_spec) == 1


class Instead:
    """Unpacks as something else than work: it calls a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def sent_instead(monkeypatch, number, *calls):
    """In place of the n-th work that is sent, and as often as there are calls, send these."""
    left, sent, packed = list(calls), [], connection.packed

    def pack(work):
        sent.append((work.settings, work.seeds))
        chosen = len(sent) > number and sent[-1] == sent[number]
        return pickle.dumps(Instead(*left.pop(0))) if chosen and left else packed(work)

    monkeypatch.setattr(connection, "packed", pack)


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_unit_that_does_not_end_is_begun_elsewhere_and_the_first_answer_counts(
    unbroken, tmp_path, monkeypatch, capsys, times
):
    monkeypatch.setattr(handout, "PATIENCE", 1.0)
    monkeypatch.setattr(handout, "LATE", 1.0)
    sent_instead(monkeypatch, 2, *[(time.sleep, 200)] * times)
    began = time.monotonic()
    with cluster.connected("local:3") as workers:
        assert run(SWEEP, tmp_path / "sweep.nc", workers=workers).identical(read(unbroken))
    assert time.monotonic() - began < 150
    assert "f_grpo+ppo_clip at group size 2 takes long; begun once more on another worker\n" in capsys.readouterr().err


def test_work_that_no_worker_has_any_more_is_begun_again(workers, unbroken, tmp_path, monkeypatch, capsys):
    """As when Dask loses it together with a worker that dies: it has left the worker, and no other has got it."""
    monkeypatch.setattr(handout, "PATIENCE", 1.0)
    ask, numbers = members.Members.ask, itertools.count()

    def ask_nobody_once(self, *request, among=frozenset()):
        lost = request[0] == "records" and next(numbers) == 2
        return ask(self, *request, among={"tcp://127.0.0.1:9"} if lost else among)

    monkeypatch.setattr(members.Members, "ask", ask_nobody_once)
    assert run(SWEEP, tmp_path / "sweep.nc", workers=workers).identical(read(unbroken))
    assert "takes long; begun once more on another worker\n" in capsys.readouterr().err


def test_a_unit_that_kills_every_worker_is_named_and_the_others_are_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(connection.CONFIGURATION, "distributed.scheduler.allowed-failures", 0)
    sent_instead(monkeypatch, 2, *[(os._exit, 1)] * 3)
    out = tmp_path / "sweep.nc"
    with cluster.connected("local:2") as workers:
        message = refusal(run, SWEEP, out, workers=workers)
    assert message.startswith(
        "3 workers died while computing f_grpo+ppo_clip at group size 2, perhaps for want of memory; allowed: "
    )
    assert 2 <= len(parts_of(out)) < UNITS


def stopped_first(monkeypatch, function, stopped, address):
    """Have the first request for a function go to a worker that is stopped."""
    ask, asked = members.Members.ask, []

    def ask_stopped(self, *request, among=frozenset()):
        if request[0] == function and not asked:
            asked.append(function)
            os.kill(stopped.pid, signal.SIGSTOP)
            among = {address}
        return ask(self, *request, among=among)

    monkeypatch.setattr(members.Members, "ask", ask_stopped)
    return asked


@pytest.mark.parametrize("function", ["told", "records"])
def test_a_worker_that_is_stopped_for_good_holds_nobody_up(unbroken, tmp_path, monkeypatch, capsys, function):
    """A scheduler by itself forgets it only after five minutes."""
    monkeypatch.setattr(members, "SILENT", 3.0)
    monkeypatch.setattr(handout, "PATIENCE", 1000.0)  # not for being late
    with bare_scheduler() as (_, address), cluster.connected(address) as workers, worker(address, HERE.parent) as one:
        client = workers.members.client
        client.wait_for_workers(1)
        (first,) = client.nthreads()
        with worker(address, HERE.parent):
            client.wait_for_workers(2)
            asked = stopped_first(monkeypatch, function, one, first)
            began = time.monotonic()
            assert run(SWEEP, tmp_path / "sweep.nc", workers=workers).identical(read(unbroken))
            assert asked == [function]
            assert time.monotonic() - began < 100
    assert f"worker {first} is silent for 3 s; what it was at is begun again\n" in capsys.readouterr().err


def test_a_worker_that_was_stopped_for_a_while_takes_part_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(members, "SILENT", 2.0)
    with bare_scheduler() as (_, address), cluster.connected(address) as workers, worker(address, HERE.parent) as one:
        found = workers.members
        found.client.wait_for_workers(1)
        for number, there in ((signal.SIGSTOP, 0), (signal.SIGCONT, 1)):
            os.kill(one.pid, number)
            end = time.monotonic() + 30
            while len(found.threads) != there or (number == signal.SIGSTOP and not found.silent):
                assert time.monotonic() < end
                found.look()
                time.sleep(0.1)
    assert " speaks again\n" in capsys.readouterr().err


def test_a_worker_that_is_stopped_before_its_answer_is_fetched_is_replaced(unbroken, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(members, "SILENT", 3.0)
    fetched, stopped = handout.Handout._fetched, []
    with bare_scheduler() as (_, address), cluster.connected(address) as workers, contextlib.ExitStack() as stack:
        client, processes = workers.members.client, {}
        for number in range(2):
            process = stack.enter_context(worker(address, HERE.parent))
            client.wait_for_workers(number + 1)
            (new,) = client.nthreads().keys() - processes
            processes[new] = process

        def stop_and_fetch(self, future):
            if not stopped:
                (holder,) = client.who_has([future])[future.key]
                stopped.append(holder)
                os.kill(processes[holder].pid, signal.SIGSTOP)
            return fetched(self, future)

        monkeypatch.setattr(handout.Handout, "_fetched", stop_and_fetch)
        began = time.monotonic()
        assert run(SWEEP, tmp_path / "sweep.nc", workers=workers).identical(read(unbroken))
        assert time.monotonic() - began < 50  # and not FETCHING
    assert f"worker {stopped[0]} is silent for 3 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [lambda work: {"seeds": work.seeds[:1], "settings": work.settings[:1]}, lambda work: {"steps": work.steps[:1]}],
)
def test_a_worker_whose_records_have_another_shape_is_left_out(unbroken, tmp_path, monkeypatch, capsys, wrong):
    packed, sent = connection.packed, []

    def pack(work):
        sent.append(work)
        return packed(work._replace(**wrong(work)) if len(sent) == 3 else work)

    monkeypatch.setattr(connection, "packed", pack)
    with cluster.connected("local:2") as workers:
        assert run(SWEEP, tmp_path / "sweep.nc", workers=workers).identical(read(unbroken))
    said = capsys.readouterr().err
    assert said.count(" is left out: its ") == 1
    assert " runs of 3 records" in said


# Who takes part


@contextlib.contextmanager
def bare_scheduler():
    """A Dask scheduler without workers, in a process of its own: the process and the address."""
    module = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    process = start_dask(*module)
    lines = iter(process.stderr.readline, "")
    address = next(line.split()[-1] for line in lines if "Scheduler at:" in line)
    try:
        yield process, address
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def worker(address, path):
    """A worker in a process of its own, with the simlab of a folder."""
    module = ("-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--memory-limit", "0", "--no-dashboard")
    process = start_dask(*module, "--no-nanny", cwd=path)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def start_dask(*arguments, cwd=None):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen([sys.executable, *arguments], cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True)


HERE = Path(simlab.__file__).parent


@pytest.fixture(scope="module")
def other_code(tmp_path_factory):
    """The folder of a copy of the library with another line of code in it."""
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(HERE, folder / "simlab", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "simlab" / "errors.py").open("a") as file:
        file.write("CHANGED = 1\n")
    return folder


def test_workers_are_waited_for_and_one_of_other_code_is_left_out(unbroken, tmp_path, monkeypatch, capsys, other_code):
    out, packed = tmp_path / "sweep.nc", connection.packed
    with bare_scheduler() as (_, address), cluster.connected(address) as workers, contextlib.ExitStack() as stack:

        def pack(work):
            if parts_of(out) and len(workers.members.client.nthreads()) == 1:
                stack.enter_context(worker(address, other_code))
                workers.members.client.wait_for_workers(2)
            return packed(work)

        monkeypatch.setattr(connection, "packed", pack)
        arrival = threading.Timer(2, lambda: stack.enter_context(worker(address, HERE.parent)))
        arrival.start()
        assert run(SWEEP, out, workers=workers).identical(read(unbroken))
    said = capsys.readouterr().err
    assert said.startswith(f"no worker at {address}: waiting for one\n")
    assert said.count(" is left out: its code is ") == 1


def test_a_scheduler_whose_workers_have_other_code_or_no_simlab_is_refused(tmp_path, other_code):
    nothing = tmp_path / "simlab"
    nothing.mkdir()
    (nothing / "__init__.py").touch()
    for path, reason in ((other_code, "its code is "), (tmp_path, "it cannot import simlab.sweeps.cluster")):
        with bare_scheduler() as (_, address), worker(address, path), cluster.connected(address) as workers:
            message = refusal(run, SWEEP, tmp_path / "sweep.nc", workers=workers)
        assert " cannot take part: " + reason in message
        assert "allowed: the same simlab" in message


# What ends a sweep


def test_a_scheduler_that_is_lost_ends_the_sweep_with_one_line_and_keeps_the_parts(tmp_path):
    out = tmp_path / "sweep.nc"
    with bare_scheduler() as (scheduler, address), worker(address, HERE.parent):
        process = start("sweep", "--out", out, "--scheduler", address, *LONG_OPTIONS)
        while not parts_of(out):
            assert process.poll() is None
            time.sleep(0.1)
        scheduler.kill()
        output, complaints = process.communicate(timeout=60)
    message = f"the scheduler at {address} is gone; finished parts are kept, the same command goes on from them"
    # A worker that is seen to go before its scheduler is said to, in lines before the last.
    *before, last = complaints.splitlines()
    assert (process.returncode, output, last) == (2, "", f"simlab: {message}")
    assert all(line.startswith(("worker ", "no worker ")) for line in before)
    assert parts_of(out)


def test_a_scheduler_that_is_not_there_is_said_not_to_answer(monkeypatch):
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        message = refusal(cluster.connected("tcp://127.0.0.1:9").__enter__)
    assert message.startswith("no Dask scheduler answers at tcp://127.0.0.1:9 (")
    assert "certificates" in refusal(cluster.connected("tls://127.0.0.1:9").__enter__)


def test_too_little_memory_for_a_unit_is_said_as_here(workers, tmp_path):
    sweep = asked(*TINY, "--group-size", 2)
    plan = Plan(sweep)
    needed = needed_bytes(plan.distinct[0].problem, plan.distinct[0].settings, plan.distinct[0].steps)
    memory, out = RESERVED + needed - 1, tmp_path / "sweep.nc"
    here, there = (refusal(run, sweep, out, memory=memory, workers=who) for who in (None, workers))
    assert here == there == "--memory 640MB is too small for a sweep of this size; allowed: 641MB or more"


@pytest.mark.parametrize("stop", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL])
def test_a_sweep_that_is_stopped_leaves_no_process_and_goes_on_later(unbroken, tmp_path, stop):
    out = tmp_path / "sweep.nc"
    options = (*LONG_OPTIONS, "--steps", 20000, "--record-every", 10000)
    process = start("sweep", "--out", out, "--scheduler", "local:2", *options, start_new_session=True)
    while not parts_of(out):
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGSTOP)  # else it may be through before the second has begun
    second = start("sweep", "--out", out, *options)
    complaint = f"{parts_folder(out)} is being written by another process; allowed: "
    assert second.communicate()[1].startswith(f"simlab: {complaint}")
    assert second.returncode == 2
    os.killpg(process.pid, signal.SIGCONT)
    children = psutil.Process(process.pid).children(recursive=True)
    assert all(one.laddr.ip == "127.0.0.1" for child in children for one in child.net_connections())
    (os.killpg if stop == signal.SIGINT else os.kill)(process.pid, stop)  # a terminal tells all of them of a Ctrl-C
    complaints = process.communicate()[1]
    if stop == signal.SIGINT:
        interrupted = "interrupted; finished parts are kept, the same command goes on from them"
        assert (process.returncode, complaints) == (130, f"simlab: {interrupted}\n")
    _, left = psutil.wait_procs(children, timeout=10)
    assert not [child for child in left if child.status() != psutil.STATUS_ZOMBIE]
    finished = parts_of(out)
    third = start("sweep", "--out", out, *options)
    while len(parts_of(out)) == len(finished):
        assert third.poll() is None
        time.sleep(0.1)
    third.kill()
    verb = "is" if len(finished) == 1 else "are"
    assert f"{len(finished)} of 40 units {verb} finished already" in third.communicate()[1]
    assert finished.items() < parts_of(out).items()


def test_a_worker_whose_estimator_of_the_name_is_another_computes_nothing(monkeypatch):
    """The name alone travels, and the worker finds its own estimator under it."""

    def registered(sign):
        def own():
            return chain(lambda advantages, rollouts: sign * advantages)

        monkeypatch.setitem(registry._REGISTRY, "own", Registered("own", "own:sign", own))

    registered(1.0)
    sweep = asked(*TINY, "--group-size", 2, "--estimator", "own")
    plan, here = Plan(sweep), maker()
    (unit,) = plan.units(here["code"], here["platform"])
    sent = cluster.remote.packed(plan.work([unit]))
    ask = functools.partial(cluster.remote.records, here["code"], here["platform"], 2**31, sent)
    assert len(ask()["q_pos"]) == 4
    registered(-1.0)
    assert ask() == "its code of own+ppo_clip at group size 2 is not that of the sweep"

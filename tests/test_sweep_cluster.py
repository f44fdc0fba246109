"""A sweep on Dask's workers: the same numbers as here, whatever becomes of the workers. Run with ``-m dask``."""

import contextlib
import dataclasses
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
from sweep_cases import TINY, asked, command, parts_of, refusal, start

import simlab
from simlab.sweep.result import read
from simlab.sweep.run import parts_folder, run
from simlab.sweep.work import RESERVED

pytestmark = [
    pytest.mark.dask,
    pytest.mark.filterwarnings("default"),  # of Dask and tornado
]
cluster = pytest.importorskip("simlab.sweep.cluster")

import distributed
from distributed.deploy.local import LocalCluster
from simlab.sweep.cluster import connection, handout

# 6 units of one program; and 40 of the same that take a second each.
OPTIONS = (*TINY, "--estimator", "f_grpo", "--group-size", 2, "--gamma", "0,1,2", "--seeds", 16)
SWEEP, UNITS = asked(*OPTIONS), 6
LONG_OPTIONS = (*OPTIONS, "--gamma", "0,0.1,...,0.9", "--seeds", 32, "--steps", 5000, "--record-every", 2500)
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
    held, _ = sweep.build_problem(next(sweep.cells())[1]), logits.unlink()  # the workers cannot read it
    assert len(held.logits) == 60
    assert run(sweep, tmp_path / "there.nc", workers=workers).identical(here)


# Workers that die, hang or vanish


def kill_at_random(processes, out, moments, enough):
    """Kill one of the processes, or stop it for good, after each new part or two; returns how many when ``enough`` is set."""
    kills, parts = [], 0
    while not enough.wait(moments.uniform(0, 0.5)):
        found = len(list(parts_folder(out).glob("*.npz")))
        if found == parts or len(kills) == KILLS:
            continue
        nanny = moments.choice(list(processes.workers.values()))
        how = moments.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        if nanny.pid is not None and nanny.pid not in [pid for pid, _ in kills]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(nanny.pid, how)
                kills.append((nanny.pid, how))
                parts = found
    return kills


def test_workers_killed_and_stopped_at_random_change_nothing(long_unbroken, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(connection.CONFIGURATION, "distributed.scheduler.worker-ttl", "5s")
    moments, kills, runs = random.Random(0), [], 0
    with cluster.connected("local:3") as workers:
        while len(kills) < KILLS:
            out, ended, runs = tmp_path / f"{runs}.nc", threading.Event(), runs + 1
            processes, found = workers.members.client.cluster, []
            arguments = (processes, out, moments, ended)
            killer = threading.Thread(target=lambda arguments=arguments: found.extend(kill_at_random(*arguments)))
            killer.start()
            try:
                result = run(LONG, out, workers=workers)
            finally:
                ended.set()
                killer.join()
            kills += found
            assert result.identical(read(long_unbroken))
            assert parts_of(out) == parts_of(long_unbroken)
    print(kills, runs)
    assert {how for _, how in kills} == {signal.SIGKILL, signal.SIGSTOP}
    assert " is gone; what it was at is begun again" in capsys.readouterr().err

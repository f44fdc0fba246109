"""The choice of a storage, and the compiled programs that are kept."""

import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from sweep_cases import asked

from simlab.problems import anchored, custom, linear_softmax, prompt_bank
from simlab.simulator import compiled
from simlab.simulator.resources import SHARDED_FROM, resolved, step_costs, touched
from simlab.simulator.settings import Settings
from simlab.sweeps import Plan
from simlab.sweeps.table import describe_storages


@pytest.mark.parametrize(("actions", "group_size", "steps"), [(50, 3, 40), (10, 64, 5)])
def test_how_many_actions_equal_draws_touch(actions, group_size, steps):
    """Against the exact mean of distinct values, N (1 - (1 - 1/N)^(G t)), over the steps: within what a step adds."""
    exact = np.mean([actions * (1 - (1 - 1 / actions) ** (group_size * t)) for t in range(1, steps + 1)])
    assert touched(actions, group_size, steps) == pytest.approx(exact, abs=group_size)
    assert touched(actions, group_size, steps) <= actions
    assert touched(10**18, 32, 1000) == pytest.approx(16_000)


def chosen(problem, settings, steps=1000):
    return resolved(problem, settings, steps).storage


@pytest.mark.parametrize(
    ("actions", "group_size", "storage"), [(100, 8, "dense"), (128_000, 8, "lumped"), (128_000, 65_536, "dense")]
)
def test_the_cheaper_storage_is_chosen(actions, group_size, storage):
    problem, settings = anchored(actions, actions // 10), Settings("grpo", group_size)
    costs = step_costs(problem, settings, 1000)
    assert chosen(problem, settings) == storage
    assert getattr(costs, storage) == min(costs)


def test_classes_that_are_all_different_are_no_gain():
    assert chosen(custom(np.linspace(0, 1, 20_000).tolist(), [0]), Settings("grpo", 32)) == "dense"


@pytest.mark.parametrize(
    "problem", [anchored(10**12, 10**10), prompt_bank(actions=10**9), linear_softmax(actions=10**9)]
)
def test_what_cannot_be_listed_is_lumped(problem):
    assert step_costs(problem, Settings("grpo"), 100).dense == math.inf
    assert chosen(problem, Settings("grpo"), 100) == "lumped"


@pytest.mark.parametrize(("actions", "storage"), [(SHARDED_FROM - 1, "dense"), (SHARDED_FROM, "sharded")])
def test_auto_shards_what_is_large_and_not_lumped(actions, storage):
    """The draws would give nearly every action a slot of its own."""
    assert chosen(anchored(actions, 10), Settings("grpo", 2**20), 1000) == storage


def test_a_sweep_says_which_storage_runs_what_and_what_the_model_expects():
    sweep = asked("--group-size", "4,65536", "--param", "actions=128000", "--param", "correct=10000")
    lines = describe_storages(Plan(sweep))
    assert [line.split(":")[0] for line in lines] == ["storage dense for G = 65536", "storage lumped for G = 4"]
    assert all("us of a core a step by the cost model" in line for line in lines)


SMALL_RUN = """
from simlab.problems import anchored
from simlab.simulator.runner import simulate
simulate(anchored(50, 5), "grpo", group_size=4, storage="dense", steps=2, seeds=1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("configured", [False, True])
def test_compiled_programs_are_kept_on_disk_where_the_user_says(tmp_path, configured):
    """They are in the user's cache folder, or in JAX's own if that is given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    variables = {"XDG_CACHE_HOME": str(tmp_path / "own"), "JAX_PLATFORMS": "cpu"}
    if configured:
        variables |= {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "given")}
        variables |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    subprocess.run([sys.executable, "-c", SMALL_RUN], env=clean | variables, check=True)
    assert bool(list(tmp_path.glob("own/simlab/*/jit__program-*-cache"))) != configured
    assert bool(list(tmp_path.glob("given/*-cache"))) == configured


class Program:
    """The result of a compilation."""


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    monkeypatch.setattr(compiled, "_programs", {})
    monkeypatch.setattr(compiled, "KEPT_PROGRAMS", 3)


def test_the_latest_used_programs_stay_and_no_lock_of_any():
    times = []
    for key in (*range(10), 1):
        compiled.cached(key, lambda key=key: times.append(key) or Program())
        compiled.cached(0, Program)
    assert times == [*range(10), 1]  # the one that was given up is compiled anew
    assert [key for key in range(10) if compiled.is_cached(key)] == [0, 1, 9]
    assert len(compiled._programs) == 3
    assert len(compiled._locks) == 0


def test_threads_that_ask_for_the_same_program_wait_for_its_only_compilation():
    times, entered, go = [], threading.Event(), threading.Event()

    def compile_it():
        times.append(1)
        entered.set()
        assert go.wait(30)
        return Program()

    programs = []
    threads = [threading.Thread(target=lambda: programs.append(compiled.cached("same", compile_it))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert entered.wait(30)
    assert not compiled.is_cached("same")
    compiled.cached("other", Program)  # another one need not wait
    go.set()
    for thread in threads:
        thread.join(30)
    assert len(times) == 1
    assert len(programs) == 4
    assert programs.count(programs[0]) == 4
    assert len(compiled._locks) == 0

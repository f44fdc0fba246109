"""The benchmarks run at all, on cases of seconds: their numbers are no results."""

import re
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from benchmarks import accelerator, arithmetic, constants, cores, language_models, memory, training_peak
from benchmarks.cell import CORES, Cell
from benchmarks.children import Child, run_simlab
from simlab import cli
from simlab.llm.training.options import build_settings
from simlab.simulator import compiled

ROOT = Path(__file__).parent.parent


def test_a_cell_is_compiled_before_its_runs_are_timed(monkeypatch):
    cell = Cell("dense", 8, 1.0, 2, 2000)
    monkeypatch.setattr(compiled, "_kept", {})
    assert cell.compile_seconds() > 0
    before = list(compiled._kept)
    assert cell.seconds_per_step(1) > 0
    assert list(compiled._kept) == before != []


def test_constants_are_timed_at_every_value():
    cases = [*constants.drawing(2000, 16), *constants.counting(64, 64), *constants.batching(512)]
    cases.append(constants.multiplying(4, 8, 6, 2))
    assert {case.constant for case in cases} >= {"sampling.ROWS", "sampling.FEW", "multinomial.SPREAD"}
    for case in cases:
        assert case.own in case.values
        assert constants.best(case.timed(case.own), 0) > 0


@pytest.mark.torch
def test_storages_and_the_script_are_timed_side_by_side():
    from benchmarks import storages  # noqa: PLC0415  # it imports torch
    from benchmarks.processes import Processes  # noqa: PLC0415

    row = storages.beside(8, 2, Processes(1))
    assert min(row[name] for name in ("dense", "lumped", "torch", "dense_first_run")) > 0
    assert storages.report([row]).count("\n| ") == 2


def test_the_kernels_of_the_arithmetic_do_what_they_are_timed_for(monkeypatch):
    monkeypatch.setattr(arithmetic, "TURNS", 2)
    first, second = threefry_2x32(jax.random.key_data(jax.random.key(0)), jnp.array([5, 5], jnp.uint32))
    twice = threefry_2x32(jax.random.key_data(jax.random.key(0)), jnp.array([first, second]))
    assert int(arithmetic.words.__wrapped__(jnp.array([5], jnp.uint32))[0]) == int(twice[0])
    once = np.exp(-0.3) / (1 + np.sqrt(0.3))
    found = float(arithmetic.functions.__wrapped__(jnp.array([0.3]))[0])
    assert found == pytest.approx(np.exp(-once) / (1 + np.sqrt(once)), rel=1e-6)


def test_passes_of_all_cores_are_counted_together_each_at_work_of_its_own():
    """A pass of 10 ms makes 100 a second on each core at most."""
    begun = []

    def begin():
        begun.append(1)
        return lambda: time.sleep(0.01)

    assert 0 < cores.passes_per_second(begin, seconds=0.05) <= 100 * CORES
    assert len(begun) == CORES


def test_a_step_of_a_larger_group_takes_more_arithmetic(monkeypatch):
    monkeypatch.setattr(arithmetic, "speeds", lambda: (1e9, 2e9))
    assert arithmetic.least_seconds(128_000, 32) == pytest.approx(64 / 1e9 + 128_000 / 2e9)
    assert arithmetic.least_seconds(128_000, 131_072) == pytest.approx((128_000 + 32_768) / 1e9 + 128_000 / 2e9)


@pytest.mark.torch
def test_dense_storage_is_timed_beside_its_peers():
    from benchmarks import dense_storage  # noqa: PLC0415  # it imports torch

    cell = dense_storage.measure(8, 2, 1, dense_storage.peers())
    assert cell["times_floor"] > 0
    assert 0 < cell["times_larger_limit"] <= cell["times_floor"]
    assert dense_storage.report([cell]).count("\n| ") == 2


@pytest.mark.slow
def test_the_quick_run_of_an_accelerator_prints_every_part(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["accelerator", "--quick"])
    accelerator.main()
    found = capsys.readouterr().out
    assert re.findall("^## (.*)$", found, re.M) == ["agreement with the CPU", "simulator", "language model"]


def test_the_quick_run_of_language_models_shows_agreement_and_no_speeds(monkeypatch, capsys, tmp_path):
    def compared(case, peer, rounds):
        assert rounds == 1
        return {"case": case, "shape": "2 x 4 x 8", "logp_difference": 1e-5, "norm_difference": 2e-4}

    for name in ("maze", "smollm2"):
        monkeypatch.setattr(language_models, name, lambda folder, quick: folder.name)
    monkeypatch.setattr(language_models, "compare", compared)
    monkeypatch.setattr(language_models, "limits", lambda case: {})
    monkeypatch.setattr(language_models, "describe", lambda *libraries: {})
    monkeypatch.setattr(language_models, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["language_models", "--peer", "trl", "--quick"])
    language_models.main()
    found = capsys.readouterr().out
    assert found.count("Log-probabilities differ by 1e-05") == 2
    assert "no speeds are shown" in found
    assert "tokens/s" not in found
    assert "|" not in found
    assert not list(tmp_path.iterdir())


def test_a_command_is_run_in_a_process_of_its_own_whose_peak_is_known():
    child = run_simlab(["--version"])
    assert child.code == 0
    assert child.output.startswith("simlab ")
    small = "from benchmarks.children import run_simlab; print(run_simlab(['--version']).peak)"
    from_small = subprocess.run([sys.executable, "-c", small], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 2**22 < int(from_small.stdout) < 2**28
    refused = run_simlab(["rollouts", "nowhere"])
    assert refused.code == 2
    assert "nowhere" in refused.complaint


@pytest.mark.parametrize("name", training_peak.RUNS)
def test_the_memory_that_a_run_states_is_read_beside_its_peak(monkeypatch, name):
    def run(arguments, environment):
        asked = build_settings(cli._parser().parse_args(arguments))
        assert (asked.rl.steps, asked.warm_start.steps, asked.seeds) == (1, 0, 1)
        assert asked.rl.errs, "so that some groups are mixed"
        assert [*Path(environment["XDG_CACHE_HOME"]).iterdir()] == [], "no program is compiled before"
        return Child(5 * 2**30, 0, "notes\nmemory: about 2.5 GiB (gradients 2.5 GiB)\ndisk: about 1 MiB\n", "")

    monkeypatch.setattr(training_peak, "run_simlab", run)
    assert training_peak.measure(name) == {
        "run": name,
        "fitted": name in training_peak.FITTED,
        "stated_mib": 2560,
        "peak_mib": 5120,
        "stated_over_peak": 0.5,
    }


@pytest.mark.parametrize(
    ("child", "outcome"),
    [
        (Child(600 * 2**20, 0, "", ""), "within"),
        (Child(800 * 2**20, 0, "", ""), "over"),
        (Child(2**20, 2, "", "simlab: 700MB is too small"), "refused: 700MB is too small"),
    ],
)
def test_a_sweep_is_held_against_its_budget(monkeypatch, child, outcome):
    monkeypatch.setattr(memory, "run_simlab", lambda arguments: child)
    assert memory.measure(next(iter(memory.SWEEPS)), "700MB", 0.01)["outcome"] == outcome

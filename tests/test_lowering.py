"""Every compiled program can be exported for GPUs and TPUs, on a machine that has none."""

import functools

import jax
import jax.numpy as jnp
import lowered_programs
import numpy as np
import pytest
from lowered_programs import ACCELERATORS, exported
from problem_contract import KINDS, ROWS, can, problem_of, settings_of, storages_of
from several_devices import DEVICES, called

from simlab.problems import anchored
from simlab.simulator.multinomial import multinomial, side_by_side
from simlab.simulator.sampling import draw, draw_columns, draw_few, sums_at_once, sums_by_rows
from simlab.simulator.settings import Settings

LARGE = anchored(4000, 400)
BANK = ROWS["prompt_bank"].problem
PROGRAMS = {
    "places that keep their weights": (LARGE, {"optimizer": "sgd", "storage": "lumped"}),
    "a policy on sharded storage": (LARGE, {"storage": "sharded"}),
    "a bank on sharded storage": (BANK, {"storage": "sharded"}),
    "groups that are drawn as counts": (LARGE, {"storage": "dense", "group_size": 8192}),
    "float64": (LARGE, {"storage": "dense", "dtype": "float64"}),
    **{
        f"{allocation} allocation": (BANK, {"storage": "dense", "allocation": allocation, "prompts_per_step": 2})
        for allocation in ("knapsack", "variance", "learnable", "dynamic", "sequential")
    },
    "errors of a prompt": (BANK, {"storage": "dense", "false_positive": 0.1, "errors_of": "prompt"}),
    "errors that are corrected": (
        BANK,
        {"storage": "lumped", "false_positive": 0.1, "false_negative": 0.2, "verifier_correction": "backward"},
    ),
}
SPARSE = "places that keep their weights"
STEPS = [
    (name, kind, storage)
    for name, row in ROWS.items()
    for kind in KINDS
    for storage in storages_of(row, KINDS[kind])
    if can(row, KINDS[kind])
]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_simulator_are_exported_for_accelerators(name):
    problem, chosen = PROGRAMS[name]
    settings = Settings(**({"method": "grpo", "group_size": 4} | chosen))
    storage = "Sparse" if name == SPARSE else settings.storage.capitalize()
    wanted = {("run", storage)}
    if name == SPARSE:
        wanted.add(("decide", storage))
    assert exported(problem, settings) == dict.fromkeys(wanted, ACCELERATORS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "storage"), STEPS)
def test_every_kind_of_step_is_exported_for_accelerators(name, kind, storage):
    programs = exported(problem_of(ROWS[name], KINDS[kind]), settings_of(ROWS[name], KINDS[kind], storage, "float32"))
    sparse = any(used == "Sparse" for _, used in programs)  # it decides between two programs as it runs
    assert {name for name, _ in programs} == ({"run", "decide"} if sparse else {"run"})
    assert set(programs.values()) == {ACCELERATORS}


@pytest.mark.slow
@pytest.mark.parametrize("name", lowered_programs.SHARDED)
def test_a_program_for_several_devices_is_exported_for_accelerators(name):
    assert called("lowered_programs", ("exported_on", name, DEVICES)) == [(DEVICES, ACCELERATORS)]


# The variant that a platform gets; both draw the same


def counts(key, weights):
    return multinomial(key, weights, jnp.sum(weights), 8192)


DRAWS = {
    "a group": functools.partial(draw, group_size=64),
    "a group from few": functools.partial(draw_few, group_size=64),
    "counts": counts,
    "an action of each policy": lambda key, weights: draw_columns(key, weights.reshape(-1, 50)),
}


def weights_of_actions():
    return jnp.asarray(np.random.default_rng(0).exponential(size=5000) ** 4, jnp.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWS)
def test_whole_draws_are_the_same_in_both_variants(name, monkeypatch):
    key, weights = jax.random.key(3), weights_of_actions()
    of_the_cpu = jax.jit(DRAWS[name])(key, weights)
    asked = []

    def default_alone(*arguments, default, **others):
        asked.append(sorted(others))
        return default(*arguments)

    monkeypatch.setattr(jax.lax, "platform_dependent", default_alone)
    of_accelerators = jax.jit(functools.partial(DRAWS[name]))(key, weights)  # a new object, which is traced anew
    assert ["cpu"] in asked
    np.testing.assert_array_equal(of_accelerators, of_the_cpu)
    assert len(np.unique(of_the_cpu)) > 3


@pytest.mark.parametrize("dtype", [jnp.uint32, jnp.float64])
def test_sums_by_rows_are_sums_at_once(dtype):
    with jax.enable_x64(True):
        masses = jnp.asarray(np.random.default_rng(0).integers(0, 1000, (7, 5)), dtype)
        np.testing.assert_array_equal(sums_by_rows(masses), sums_at_once(masses))
        np.testing.assert_array_equal(sums_by_rows(masses), np.cumsum(np.asarray(masses), axis=0))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 100])
def test_stretches_side_by_side_are_running_values(length):
    values = jnp.asarray(np.random.default_rng(0).integers(0, 50, length), jnp.int32)
    np.testing.assert_array_equal(side_by_side(jnp.add, jax.lax.cumsum, values), np.cumsum(values))
    np.testing.assert_array_equal(side_by_side(jnp.maximum, jax.lax.cummax, values), np.maximum.accumulate(values))

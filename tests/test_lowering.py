"""Every compiled program can be lowered for GPUs and TPUs, on a machine that has none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from problem_contract import ROWS

from simlab.arms import parse
from simlab.problems import anchored
from simlab.simulator.call import Call, computing
from simlab.simulator.devices import devices_by
from simlab.simulator.lumped import Lumped
from simlab.simulator.multinomial import side_by_side
from simlab.simulator.sampling import running_sums, sums_at_once, sums_by_rows
from simlab.simulator.settings import Settings

ACCELERATORS = ("cuda", "tpu")
LARGE = anchored(4000, 400)
PROGRAMS = {
    **{
        f"{name} on {storage} storage": (row.problem, {"storage": storage, "group_size": 4})
        for name, row in ROWS.items()
        for storage in row.storages
    },
    "a policy on sharded storage": (LARGE, {"storage": "sharded", "group_size": 4}),
    "a bank on sharded storage": (ROWS["prompt_bank"].problem, {"storage": "sharded", "group_size": 4}),
    "groups that are drawn as counts": (LARGE, {"storage": "dense", "group_size": 8192}),
    "float64": (LARGE, {"storage": "dense", "group_size": 4, "dtype": "float64"}),
    "Adam, a KL penalty, and minibatches": (
        ROWS["prompt_bank"].problem,
        {
            "storage": "dense",
            "group_size": 4,
            "optimizer": "adam",
            "kl": 0.1,
            "epochs": 2,
            "minibatches": 2,
            "prompts_per_step": 2,
        },
    ),
}
# One of each storage, and the sampler of large groups; the others take the same paths.
QUICK = {"anchored on dense storage", "prompt_bank on lumped storage", "groups that are drawn as counts"}
EITHER = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in PROGRAMS]


@pytest.mark.parametrize("name", EITHER)
def test_a_program_of_the_simulator_is_lowered_for_accelerators(name):
    problem, chosen = PROGRAMS[name]
    settings = Settings(method=parse("grpo"), **chosen)
    devices = devices_by(1)[0] if settings.storage == "sharded" else None
    with computing(settings, devices):
        call = Call(problem, [settings, settings], [0, 1], np.array([1, 3]), devices)
        begun = call._begun(call.storage) if isinstance(call.storage, Lumped) else None
        program, arguments = call.program(call.storage, begun)
        exported = export.export(jax.jit(program), platforms=ACCELERATORS)(*arguments)
    assert exported.platforms == ACCELERATORS


@pytest.mark.parametrize(("platform", "loops"), [("cpu", 1), ("cuda", 0), ("tpu", 0)])
def test_the_loop_over_rows_is_for_the_cpu_wherever_it_is_traced(platform, loops):
    lowered = jax.jit(running_sums).trace(jnp.ones((8, 4))).lower(lowering_platforms=(platform,))
    assert lowered.as_text().count("stablehlo.while") == loops


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

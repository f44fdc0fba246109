"""Export every program that a call of the simulator compiles for accelerators, in place of compiling it."""

from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from simlab.problems import anchored, linear_softmax, prompt_bank
from simlab.simulator import runner
from simlab.simulator.call import Call, computing
from simlab.simulator.resources import devices_by
from simlab.simulator.settings import Settings

ACCELERATORS = ("cuda", "tpu")
STEPS = np.array([1, 3])
SHARDED = {
    "policy": (anchored(4000, 400), {}),
    "bank": (prompt_bank(4, 600), {"prompts_per_step": 2, "kl": 0.1}),
    "head": (linear_softmax(16, 600), {}),
}


def exported(problem, settings):
    """The platforms of each program, by its name and its storage."""
    platforms = {}

    def export_it(call, name, storage, program, arguments):
        program = jax.jit(program)  # one object, which is traced once
        platforms[name, type(storage).__name__] = export.export(program, platforms=ACCELERATORS)(*arguments).platforms
        done = ended(program.trace(*arguments).out_info)
        return lambda *_: done

    def ended(shapes):
        """Return a program's results: zeros, with runs at their end; or ones for the choice of sparse steps."""
        done = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return done._replace(step=STEPS[-1]) if hasattr(done, "step") else jnp.ones_like(done)

    devices = devices_by(1)[0] if settings.storage == "sharded" else None
    with patch.object(Call, "_cached", export_it), computing(settings, devices):
        runner.records(Call(problem, [settings] * 2, [0, 1], STEPS, devices))
    return platforms


def exported_on(name, count):
    """The number of devices and the platforms of an exported program that is spread over ``count`` devices."""
    problem, chosen = SHARDED[name]
    settings = Settings("grpo", group_size=4, storage="sharded", **chosen)
    devices = devices_by(count)[0]
    with computing(settings, devices):
        call = Call(problem, [settings], [0], STEPS, devices)
        program, arguments = call.program(call.storage, None)
        result = export.export(jax.jit(program), platforms=ACCELERATORS)(*arguments)
    return result.nr_devices, result.platforms

"""The decoder's programs can be exported for GPUs and TPUs, on a machine that has none."""

import jax
import jax.numpy as jnp
import pytest
from jax import export

from benchmarks.training_programs import Computed, Program, gradient_program, of_shapes, sampling_programs, terms_of
from simlab.llm import batch, lora
from simlab.llm.config import ModelConfig
from simlab.llm.instruments import model_changes, rare_solutions
from simlab.llm.model import init, shapes
from simlab.llm.training import gradient, optimizer

ACCELERATORS = ("cuda", "tpu")
MODEL = ModelConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_layers=2, num_heads=2, num_kv_heads=1, eos_ids=(1,)
)
CASES = {
    "float32": Computed(2, 4, 8, 4, "float32"),
    "bfloat16": Computed(2, 4, 8, 4, "bfloat16"),
    "gradient checkpointing and adapters": Computed(2, 4, 8, 4, "float32", True, 2),
}
ARRAY, NUMBER = jax.ShapeDtypeStruct, jax.ShapeDtypeStruct((), jnp.float32)
PLAIN = CASES["float32"]
WHOLE, ADAPTERS = of_shapes(shapes(MODEL), "float32"), of_shapes(lora.adapter_shapes(MODEL, 2), "float32")
KEY = jax.eval_shape(lambda: jax.random.key(0))


def halved():
    first = sampling_programs(PLAIN, MODEL)["first token"]
    room = ARRAY((1,), jnp.int32), ARRAY((1, 2), jnp.int32), ARRAY((1, 2), jnp.int32), ARRAY((1, 2), bool)
    return Program(batch.move, (first.trace().out_info, *room), {})


def grown():
    return Program(batch.grow, (sampling_programs(PLAIN, MODEL)["first token"].trace().out_info, 8), {})


def updated():
    settings = optimizer.OptimizerSettings()
    state = jax.eval_shape(optimizer.transformation(settings).init, WHOLE)
    return Program(optimizer._ascend, (settings, WHOLE, state, WHOLE, NUMBER), {})


BATCH = terms_of(PLAIN).batch
HOW = gradient.Computation("float32", False)
PROGRAMS = {
    "rollouts in a smaller batch": halved,
    "rollouts with more room": grown,
    "an update": updated,
    "a sum of gradients": lambda: Program(gradient._add, (WHOLE, WHOLE), {}),
    "log-probabilities": lambda: Program(gradient.completions_logp, (WHOLE, None, MODEL, terms_of(PLAIN), HOW), {}),
    "a new model": lambda: Program(init, (MODEL, KEY), {}),
    "new adapters": lambda: Program(lora.adapters, (MODEL, 2, KEY), {}),
    "a model with its adapters": lambda: Program(lora.merged, (WHOLE, ADAPTERS, 0.5), {}),
    "entropies": lambda: Program(model_changes._entropy_and_logp, (WHOLE, MODEL, BATCH, NUMBER), {}),
    "entropies along a change": lambda: Program(model_changes._derivative, (WHOLE, WHOLE, MODEL, BATCH, NUMBER), {}),
    "trajectories of others": lambda: Program(rare_solutions._nll, (WHOLE, MODEL, BATCH), {}),
}


def platforms_of(program):
    return export.export(program.function, platforms=ACCELERATORS)(*program.arguments, **program.named).platforms


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rollouts_and_gradient_are_exported_for_accelerators(name):
    for program in (gradient_program(CASES[name], MODEL), *sampling_programs(CASES[name], MODEL).values()):
        assert platforms_of(program) == ACCELERATORS


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_else_a_model_computes_is_exported_for_accelerators(name):
    assert platforms_of(PROGRAMS[name]()) == ACCELERATORS

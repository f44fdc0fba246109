"""The programs of a training run by the shapes of what they compute, traced and neither compiled nor run."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.stages import Traced

from simlab.llm import sampling
from simlab.llm.completions import Batch
from simlab.llm.config import ModelConfig
from simlab.llm.lora import adapter_shapes
from simlab.llm.model import apart, shapes
from simlab.llm.training.gradient import Computation, Terms, _gradient
from simlab.llm.training.memory import Computed
from simlab.llm.truncation import Truncation


def of_shapes(tree: Any, dtype: str) -> Any:
    """Parameters as shapes."""
    return jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, dtype), tree, is_leaf=lambda leaf: isinstance(leaf, tuple)
    )


def gradient_program(case: Computed, config: ModelConfig) -> Traced:
    """The gradient of a microbatch."""
    array = jax.ShapeDtypeStruct
    completions = case.prompts, case.members, case.own
    batch = Batch(
        array((case.prompts, case.before), jnp.int32),
        array((case.prompts,), jnp.int32),
        array(completions, jnp.int32),
        array(completions, bool),
    )
    terms = Terms(batch, array((*completions, 1), jnp.int32), array((*completions, 1), jnp.float32), 1.0)
    whole = of_shapes(shapes(config), "float32")
    adapters = of_shapes(adapter_shapes(config, case.lora_rank), "float32")
    trained, base = (adapters, whole) if case.lora_rank else (whole, None)
    how = Computation(case.dtype, case.checkpointing)
    return _gradient.trace(trained, base, config=config, terms=terms, how=how)


def sampling_programs(case: Computed, config: ModelConfig) -> tuple[Traced, Traced]:
    """The sampler's programs: the prompts with the first token of each rollout, and the further tokens."""
    array, numbers = jax.ShapeDtypeStruct, jax.ShapeDtypeStruct((), jnp.float32)
    choices = sampling.Choices(
        numbers,
        Truncation(array((), jnp.int32), numbers, numbers),
        array((config.vocab_size,), bool),
        array((), jnp.int32),
    )
    parameters = of_shapes(shapes(config), case.dtype)
    first = sampling._start.trace(
        parameters,
        config,
        array((case.prompts, case.before), jnp.int32),
        array((case.prompts,), jnp.int32),
        key=jax.eval_shape(lambda: jax.random.key(0)),
        first_prompt=array((), jnp.int32),
        alive=array((case.prompts, case.members), bool),
        choices=choices,
        capacity=case.own,
        top_n=0,
    )
    return first, sampling._go_on.trace(jax.eval_shape(apart, parameters), config, first.out_info, choices)

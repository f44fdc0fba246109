"""The programs of a training run, and the shapes of what they are called with: neither compiled nor run."""

from typing import Any, NamedTuple

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


class Program(NamedTuple):
    """A jitted function, and what it is called with: shapes in place of arrays."""

    function: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def trace(self) -> Traced:
        """The program, traced."""
        traced: Traced = self.function.trace(*self.arguments, **self.named)
        return traced


def of_shapes(tree: Any, dtype: str) -> Any:
    """Parameters as shapes."""
    return jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, dtype), tree, is_leaf=lambda leaf: isinstance(leaf, tuple)
    )


def terms_of(case: Computed) -> Terms:
    """A microbatch."""
    array = jax.ShapeDtypeStruct
    completions = case.prompts, case.members, case.own
    batch = Batch(
        array((case.prompts, case.before), jnp.int32),
        array((case.prompts,), jnp.int32),
        array(completions, jnp.int32),
        array(completions, bool),
    )
    return Terms(batch, array((*completions, 1), jnp.int32), array((*completions, 1), jnp.float32), 1.0)


def gradient_program(case: Computed, config: ModelConfig) -> Program:
    """The gradient of a microbatch."""
    whole = of_shapes(shapes(config), "float32")
    adapters = of_shapes(adapter_shapes(config, case.lora_rank), "float32")
    trained, base = (adapters, whole) if case.lora_rank else (whole, None)
    how = Computation(case.dtype, case.checkpointing)
    return Program(_gradient, (trained, base), {"config": config, "terms": terms_of(case), "how": how})


def sampling_programs(case: Computed, config: ModelConfig) -> tuple[Program, Program]:
    """The sampler's programs: the prompts with the first token of each rollout, and the further tokens."""
    array, numbers = jax.ShapeDtypeStruct, jax.ShapeDtypeStruct((), jnp.float32)
    choices = sampling.Choices(
        numbers,
        Truncation(array((), jnp.int32), numbers, numbers),
        array((config.vocab_size,), bool),
        array((), jnp.int32),
    )
    parameters = of_shapes(shapes(config), case.dtype)
    prompts = array((case.prompts, case.before), jnp.int32), array((case.prompts,), jnp.int32)
    named = {
        "key": jax.eval_shape(lambda: jax.random.key(0)),
        "first_prompt": array((), jnp.int32),
        "alive": array((case.prompts, case.members), bool),
        "choices": choices,
        "capacity": case.own,
        "top_n": 0,
    }
    first = Program(sampling._start, (parameters, config, *prompts), named)
    further = jax.eval_shape(apart, parameters), config, first.trace().out_info, choices
    return first, Program(sampling._go_on, further, {})

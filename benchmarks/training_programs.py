"""The programs of a training run, and the shapes of their arguments: neither compiled nor run."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.stages import Traced

from simlab.llm import batch
from simlab.llm.completions import CompletionBatch
from simlab.llm.config import ModelConfig
from simlab.llm.distribution import Truncation
from simlab.llm.lora import adapter_shapes
from simlab.llm.model import apart, shapes
from simlab.llm.training.gradient import Computation, Terms, _gradient


class Computed(NamedTuple):
    """The sizes of a gradient or of a sampler.

    Attributes:
        prompts: P; of a gradient, in one turn.
        members: rollouts of each, G.
        before: tokens of a prompt.
        own: tokens of a rollout.
        dtype: of the model.
        checkpointing: layers store only their inputs.
        lora_rank: the rank of the adapters; 0 where all parameters are trained.
        turns: of a program, one after the other, each of P prompts.
    """

    prompts: int
    members: int
    before: int
    own: int
    dtype: str
    checkpointing: bool = False
    lora_rank: int = 0
    turns: int = 1


class Program(NamedTuple):
    """A jitted function and its arguments: shapes in place of arrays."""

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
    prompts = case.turns * case.prompts
    completions = prompts, case.members, case.own
    batch = CompletionBatch(
        array((prompts, case.before), jnp.int32),
        array((prompts,), jnp.int32),
        array(completions, jnp.int32),
        array(completions, bool),
    )
    return Terms(batch, array((*completions, 1), jnp.int32), array((*completions, 1), jnp.float32), 1.0)


def gradient_program(case: Computed, config: ModelConfig) -> Program:
    """The gradient of a microbatch."""
    whole = of_shapes(shapes(config), "float32")
    adapters = of_shapes(adapter_shapes(config, case.lora_rank), "float32")
    trained, base = (adapters, whole) if case.lora_rank else (whole, None)
    tokens = case.prompts * case.members * case.own if case.turns > 1 else None
    how = Computation(case.dtype, case.checkpointing, tokens=tokens)
    return Program(_gradient, (trained, base), {"config": config, "terms": terms_of(case), "how": how})


def sampling_programs(case: Computed, config: ModelConfig) -> dict[str, Program]:
    """The sampler's programs: the prompts with the first token of each rollout, the further tokens, and where rollouts
    wait, a move and new rollouts that join."""
    array, numbers = jax.ShapeDtypeStruct, jax.ShapeDtypeStruct((), jnp.float32)
    choices = batch.Choices(
        numbers,
        Truncation(array((), jnp.int32), numbers, numbers),
        array((config.vocab_size,), bool),
        array((), jnp.int32),
    )
    parameters = of_shapes(shapes(config), case.dtype)

    def first(prompts: int, members: int, capacity: int) -> Program:
        named = {
            "key": jax.eval_shape(lambda: jax.random.key(0)),
            "first_prompt": array((), jnp.int32),
            "alive": array((prompts, members), bool),
            "choices": choices,
            "capacity": capacity,
            "top_n": 0,
        }
        tokens = array((prompts, case.before), jnp.int32), array((prompts,), jnp.int32)
        return Program(batch.start, (parameters, config, *tokens), named)

    begun = first(case.prompts, case.members, case.own)
    state, rows = begun.trace().out_info, (case.prompts, case.members)
    move = array(rows[:1], jnp.int32), array(rows, jnp.int32), array(rows, jnp.int32), array(rows, bool)
    new = first(1, case.members, 1).trace().out_info
    return {
        "first token": begun,
        "further tokens": Program(
            batch.go_on, (jax.eval_shape(apart, parameters), config, state, choices, array((), jnp.int32)), {}
        ),
        "a move": Program(batch.move, (state, *move), {}),
        "new rollouts": Program(batch.join, (state, new, array((), jnp.int32), array(rows[:1], jnp.int32)), {}),
    }

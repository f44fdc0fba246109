"""Compare the memory that ``simlab train`` states with what XLA says of the very programs, without running them.

``python -m benchmarks.training_memory`` prints a row a program: the gradient of a microbatch, and that of the sampler
which needs more, for first or for further tokens. ``--fit`` fits the constants of ``simlab.llm.training.memory`` anew
to the rows of the gradient.
"""

import argparse
import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls

from simlab.llm import sampling
from simlab.llm.completions import Batch
from simlab.llm.config import ModelConfig
from simlab.llm.model import apart, shapes
from simlab.llm.training import memory
from simlab.llm.training.gradient import Terms, _add_gradient
from simlab.llm.training.memory import Computed
from simlab.llm.truncation import Truncation

MODEL = ModelConfig(
    vocab_size=64, hidden_size=256, intermediate_size=1024, num_layers=4, num_heads=4, num_kv_heads=2, eos_ids=(1,)
)


SMOLLM2 = {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536}
# What is computed at once, and the changes of the model.
CASES: list[tuple[Computed, dict[str, Any]]] = [
    (Computed(8, 8, 6, 4, "float32"), {"hidden_size": 128, "intermediate_size": 512, "num_layers": 2}),
    (Computed(8, 16, 320, 192, "float32"), {}),
    (Computed(4, 16, 320, 192, "float32"), {}),
    (Computed(8, 16, 64, 192, "float32"), {}),
    (Computed(2, 8, 16, 384, "float32"), {}),
    (Computed(16, 8, 128, 64, "float32"), {}),
    (Computed(8, 8, 128, 128, "float32"), {"vocab_size": 32768}),
    (
        Computed(2, 8, 128, 256, "float32"),
        {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_layers": 8},
    ),
    (Computed(2, 8, 128, 256, "bfloat16"), SMOLLM2),
    (Computed(4, 8, 96, 128, "float32"), {"num_heads": 16, "num_kv_heads": 4}),
    (Computed(4, 8, 96, 128, "float32"), {"num_layers": 12}),
    (Computed(4, 8, 96, 128, "float32"), {"intermediate_size": 4096}),
    (Computed(4, 8, 96, 128, "bfloat16"), {}),
    (Computed(1, 4, 256, 768, "float32"), {}),
]


def of_shapes(config: ModelConfig, dtype: str) -> Any:
    """The parameters as shapes."""
    return jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, dtype), shapes(config), is_leaf=lambda leaf: isinstance(leaf, tuple)
    )


def gradient_bytes(case: Computed, config: ModelConfig) -> int:
    """What XLA needs for the gradient beside its arguments and results."""
    array = jax.ShapeDtypeStruct
    completions = case.prompts, case.members, case.own
    batch = Batch(
        array((case.prompts, case.before), jnp.int32),
        array((case.prompts,), jnp.int32),
        array(completions, jnp.int32),
        array(completions, bool),
    )
    terms = Terms(batch, array((*completions, 1), jnp.int32), array((*completions, 1), jnp.float32), 1.0)
    parameters = of_shapes(config, "float32")
    lowered = _add_gradient.lower((parameters, array((), jnp.float32)), parameters, config, terms, case.dtype)
    return int(lowered.compile().memory_analysis().temp_size_in_bytes)


def sampling_bytes(case: Computed, config: ModelConfig) -> Iterator[tuple[str, int]]:
    """What the sampler's programs hold at once: results of the first, and all of the second."""
    array, numbers = jax.ShapeDtypeStruct, jax.ShapeDtypeStruct((), jnp.float32)
    choices = sampling.Choices(
        numbers,
        Truncation(array((), jnp.int32), numbers, numbers),
        array((config.vocab_size,), bool),
        array((), jnp.int32),
    )
    parameters = of_shapes(config, case.dtype)
    first = sampling._start.lower(
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
    further = sampling._go_on.lower(jax.eval_shape(apart, parameters), config, first.out_info, choices)
    found = first.compile().memory_analysis()
    state = int(found.output_size_in_bytes)
    yield "first token", state + int(found.temp_size_in_bytes)
    yield "further tokens", state + int(further.compile().memory_analysis().temp_size_in_bytes)


def fitted(rows: list[tuple[Computed, ModelConfig, int]]) -> None:
    """Print the constants that fit the gradient best, by relative error."""
    table = np.array([memory.gradient_parts(config, case) for case, config, _ in rows], float)
    measured = np.array([size for *_, size in rows], float)
    constants, _ = nnls(table / measured[:, None], np.ones(len(rows)))
    print("constants", np.round(constants, 2), "relative errors", np.round(table @ constants / measured - 1, 2))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants of the gradient anew")
    options = parser.parse_args()
    rows = []
    print(f"{'prompts x rollouts, tokens':30}{'program':18}{'XLA':>10}{'stated':>10}{'ratio':>7}")
    for case, changes in CASES:
        config = dataclasses.replace(MODEL, **changes)
        label = f"{case.prompts} x {case.members}, {case.before} + {case.own} {case.dtype}"
        found = gradient_bytes(case, config)
        rows.append((case, config, found))
        stated = memory.gradient_bytes(config, case)
        of_sampling = memory.sampling_bytes(config, case)
        programs = [("gradient", found, stated)]
        most = max(sampling_bytes(case, config), key=lambda program: program[1])
        programs.append((most[0], most[1], of_sampling))
        for program, exact, told in programs:
            print(f"{label:30}{program:18}{exact / 2**20:8.1f}Mi{told / 2**20:8.1f}Mi{told / exact:7.2f}")
    if options.fit:
        fitted(rows)


if __name__ == "__main__":
    main()

"""Compare the memory that ``simlab train`` states with what XLA says of the very programs, without running them.

``python -m benchmarks.training_memory`` prints a row a program: the gradient of a microbatch, and that of the sampler
which needs more, for first or for further tokens. ``--fit`` fits the constants of ``simlab.llm.training.memory`` anew
to the rows of the gradient.
"""

import argparse
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.training_programs import gradient_program, sampling_programs
from simlab.llm.config import ModelConfig
from simlab.llm.training import memory
from simlab.llm.training.computed import Computed

MODEL = ModelConfig(
    vocab_size=64, hidden_size=256, intermediate_size=1024, num_layers=4, num_heads=4, num_kv_heads=2, eos_ids=(1,)
)


SMOLLM2 = {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536}
WIDE = {"hidden_size": 512, "intermediate_size": 2048, "num_layers": 8, "vocab_size": 8192}
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
    # Of layers in a loop.
    (Computed(4, 8, 96, 128, "float32"), WIDE),
    (Computed(4, 8, 96, 128, "float32"), {"num_layers": 8, "num_heads": 16, "num_kv_heads": 4}),
    (Computed(2, 8, 128, 256, "bfloat16"), {**SMOLLM2, "num_layers": 12}),
    (Computed(4, 8, 96, 128, "bfloat16"), {"num_layers": 12}),
    (Computed(4, 16, 320, 192, "float32"), {"num_layers": 8}),
    (Computed(1, 4, 256, 768, "float32"), {"num_layers": 8}),
    (Computed(4, 8, 96, 128, "float32", False, 8), {"num_layers": 12}),
    # With gradient checkpointing.
    (Computed(8, 16, 64, 192, "float32", True), {}),
    (Computed(4, 8, 96, 128, "float32", True), {"num_layers": 12}),
    (Computed(8, 8, 128, 128, "float32", True), {"vocab_size": 32768}),
    (Computed(4, 16, 128, 64, "float32", True), {"num_layers": 24, "intermediate_size": 512}),
    (Computed(4, 8, 96, 128, "float32", True), {"num_heads": 16, "num_kv_heads": 4}),
    (Computed(4, 8, 96, 128, "float32", True), {"intermediate_size": 4096}),
    (Computed(2, 8, 128, 256, "bfloat16", True), SMOLLM2),
    (Computed(1, 4, 256, 768, "float32", True), {}),
    (Computed(4, 8, 96, 128, "float32", True), WIDE),
    # With adapters.
    (Computed(4, 8, 96, 128, "float32", True, 8), WIDE),
    (Computed(4, 8, 96, 128, "float32", True, 8), {"num_layers": 12}),
    (Computed(8, 16, 64, 192, "float32", True, 16), {}),
    (Computed(1, 4, 256, 768, "float32", True, 8), {}),
    (Computed(4, 8, 96, 128, "float32", False, 8), {}),
    (Computed(2, 8, 128, 256, "bfloat16", True, 8), SMOLLM2),
    (Computed(4, 8, 96, 128, "bfloat16", True, 8), WIDE),
    # Of prompts that take turns.
    (Computed(2, 16, 320, 192, "float32", turns=4), {}),
    (Computed(2, 8, 96, 128, "float32", True, turns=2), WIDE),
]


def gradient_bytes(case: Computed, config: ModelConfig) -> int:
    """What XLA needs for the gradient beside its arguments."""
    found = gradient_program(case, config).trace().lower().compile().memory_analysis()
    return int(found.temp_size_in_bytes) + int(found.output_size_in_bytes)


def sampling_bytes(case: Computed, config: ModelConfig) -> Iterator[tuple[str, int]]:
    """What the sampler's programs hold at once: results of the first, and all of the others."""
    programs = sampling_programs(case, config)
    found = {
        name: programs[name].trace().lower().compile().memory_analysis() for name in ("first token", "further tokens")
    }
    state = int(found["first token"].output_size_in_bytes)
    for name, own in found.items():
        yield name, state + int(own.temp_size_in_bytes)


def fitted(rows: list[tuple[Computed, ModelConfig, int]]) -> None:
    """Print the constants that fit the gradient best by relative error, and what is left of it.

    By its sixth power, since what matters is that no error is large.
    """

    def errors(constants: np.ndarray) -> np.ndarray:
        arrays = memory.Arrays(*constants)
        return np.array([memory.gradient_bytes(config, case, arrays) / size - 1 for case, config, size in rows])

    start = np.array(memory.ARRAYS)
    found = least_squares(lambda own: errors(own) ** 3, start, bounds=(0, np.inf), diff_step=1e-4).x
    print("constants", memory.Arrays(*np.round(found, 2)), "relative errors", np.round(errors(found), 2))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants of the gradient anew")
    options = parser.parse_args()
    rows = []
    print(f"{'prompts x rollouts, tokens':52}{'program':18}{'XLA':>10}{'stated':>10}{'ratio':>7}")
    for case, changes in CASES:
        config = dataclasses.replace(MODEL, **changes)
        label = f"{case.prompts} x {case.members}, {case.before} + {case.own} {case.dtype}"
        label += ", checkpointing" * case.checkpointing + f", rank {case.lora_rank}" * bool(case.lora_rank)
        found = gradient_bytes(case, config)
        rows.append((case, config, found))
        stated = memory.gradient_bytes(config, case)
        of_sampling = memory.sampling_bytes(config, case)
        programs = [("gradient", found, stated)]
        most = max(sampling_bytes(case, config), key=lambda program: program[1])
        programs.append((most[0], most[1], of_sampling))
        for program, exact, told in programs:
            print(f"{label:52}{program:18}{exact / 2**20:8.1f}Mi{told / 2**20:8.1f}Mi{told / exact:7.2f}")
    if options.fit:
        fitted(rows)


if __name__ == "__main__":
    main()

"""The decoder's programs can be lowered for GPUs and TPUs, on a machine that has none."""

import pytest

from benchmarks.training_programs import gradient_program, sampling_programs
from simlab.llm.config import ModelConfig
from simlab.llm.training.memory import Computed

ACCELERATORS = ("cuda", "tpu")
MODEL = ModelConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_layers=2, num_heads=2, num_kv_heads=1, eos_ids=(1,)
)
CASES = {
    "float32": Computed(2, 4, 8, 4, "float32"),
    "bfloat16": Computed(2, 4, 8, 4, "bfloat16"),
    "gradient checkpointing and adapters": Computed(2, 4, 8, 4, "float32", True, 2),
}


@pytest.mark.parametrize("platform", ACCELERATORS)
@pytest.mark.parametrize("name", CASES)
def test_rollouts_and_gradient_are_lowered_for_accelerators(name, platform):
    for program in (gradient_program(CASES[name], MODEL), *sampling_programs(CASES[name], MODEL)):
        lowered = program.lower(lowering_platforms=(platform,))
        assert "stablehlo.dot_general" in lowered.as_text()

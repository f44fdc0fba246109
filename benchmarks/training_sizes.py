"""Say which models fit into the memory of a GPU by the formula of ``simlab train``, and how long a step takes at least.

``python -m benchmarks.training_sizes`` prints it as a table of docs/train.md. ``--check`` compiles the gradient of some
of the models for the CPU, without running it and without any weights, and prints what XLA says it needs beside what is
stated.
"""

import argparse
import dataclasses

import numpy as np

from benchmarks import language_limits
from benchmarks.language_cases import Case
from benchmarks.training_programs import Computed, gradient_program
from simlab.llm.config import ModelConfig
from simlab.llm.training import memory
from simlab.llm.training.settings import TrainingSettings

GB = 10**9
ROOM = 80 * GB
PROMPT, COMPLETION, PROMPTS, GROUP_SIZE = 256, 1024, 16, 8
RANK = 16
MICROBATCHES = (128, 64, 32, 16, 8, 4, 2, 1)
# Operations and bytes a second in the data sheet of an H100 SXM, for dense bfloat16, of which a number has two bytes.
SPEEDS, SIZE = {"operations": 989e12, "bytes": 3.35e12}, 2
AGAIN = 4 / 3  # of a gradient's operations, where checkpointing computes the layers a second time
CHECKED = ("Qwen2.5-0.5B", "Qwen2.5-1.5B", "Qwen2.5-7B")


def model(vocabulary: int, sizes: tuple[int, int, int], heads: tuple[int, int, int], tied: bool) -> ModelConfig:
    """A config of layers, width and inner width; and of heads of queries, heads of keys, and numbers a head."""
    return ModelConfig(
        vocab_size=vocabulary,
        num_layers=sizes[0],
        hidden_size=sizes[1],
        intermediate_size=sizes[2],
        num_heads=heads[0],
        num_kv_heads=heads[1],
        head_dim=heads[2],
        tie_embeddings=tied,
        eos_ids=(1,),
    )


# From the config.json of each model.
MODELS = {
    "SmolLM2-135M": model(49152, (30, 576, 1536), (9, 3, 64), True),
    "SmolLM2-360M": model(49152, (32, 960, 2560), (15, 5, 64), True),
    "Qwen2.5-0.5B": model(151936, (24, 896, 4864), (14, 2, 64), True),
    "Llama-3.2-1B": model(128256, (16, 2048, 8192), (32, 8, 64), True),
    "Qwen2.5-1.5B": model(151936, (28, 1536, 8960), (12, 2, 128), True),
    "SmolLM2-1.7B": model(49152, (24, 2048, 8192), (32, 32, 64), True),
    "Qwen2.5-3B": model(151936, (36, 2048, 11008), (16, 2, 128), True),
    "Llama-3.2-3B": model(128256, (28, 3072, 8192), (24, 8, 128), True),
    "Qwen2.5-7B": model(152064, (28, 3584, 18944), (28, 4, 128), False),
}


def stated(config: ModelConfig, microbatch: int, lora_rank: int) -> int:
    """Bytes of a run on a GPU."""
    settings = TrainingSettings.from_data(
        {
            "model": {"dtype": "bfloat16", "gradient_checkpointing": True, "lora_rank": lora_rank},
            "rl": {"prompts": PROMPTS, "group_size": GROUP_SIZE, "microbatch": microbatch},
            "evaluation": {"samples": GROUP_SIZE, "rollouts": PROMPTS * GROUP_SIZE},
        }
    )
    return sum(memory.needed_memory(settings, config, (PROMPT, COMPLETION), PROMPTS, "gpu").values())


def fits(config: ModelConfig, lora_rank: int) -> str:
    """The largest microbatch that fits, and the memory that it takes; the memory of the smallest one if none does."""
    sizes = {microbatch: stated(config, microbatch, lora_rank) for microbatch in MICROBATCHES}
    fitting = [microbatch for microbatch, size in sizes.items() if size <= ROOM]
    if not fitting:
        return f"no: {sizes[MICROBATCHES[-1]] / GB:.0f} GB"
    return f"{fitting[0]} ({sizes[fitting[0]] / GB:.0f} GB)"


def least_seconds(config: ModelConfig) -> tuple[float, float]:
    """Seconds that the rollouts and the gradient of a step take at least: what no program on that GPU can go below."""
    prompts = ((0,) * PROMPT,) * PROMPTS
    case = Case("", "", prompts, GROUP_SIZE, (), np.zeros((PROMPTS, GROUP_SIZE, COMPLETION)), np.zeros(()))
    sampling = language_limits.rollouts(case, config, SPEEDS, SIZE)
    return sampling, AGAIN * language_limits.training_step(case, config, SPEEDS, shared=True)


def table() -> str:
    """The table in Markdown."""
    heads = ("Model", "parameters", "all parameters", f"adapters of rank {RANK}", "rollouts + gradient, s at least")
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|---|---|"]
    for name, config in MODELS.items():
        size = memory.count_parameters(config) / GB
        least = " + ".join(f"{seconds:.1f}" for seconds in least_seconds(config))
        lines.append(f"| {name} | {size:.2f} billion | {fits(config, 0)} | {fits(config, RANK)} | {least} |")
    return "\n".join(lines)


def check() -> None:
    """Print what XLA says of gradients on the CPU, beside what is stated of them."""
    print(f"{'model':16}{'rank':>5}{'XLA':>12}{'stated':>12}{'ratio':>7}")
    for name in CHECKED:
        for rank in (0, RANK):
            case = Computed(2, GROUP_SIZE, PROMPT, COMPLETION, "bfloat16", True, rank)
            config = dataclasses.replace(MODELS[name], max_positions=PROMPT + COMPLETION)
            analysis = gradient_program(case, config).trace().lower().compile().memory_analysis()
            exact = int(analysis.temp_size_in_bytes) + int(analysis.output_size_in_bytes)
            trained = memory.FLOAT * (memory.count_parameters(config, rank) + memory.count_parameters(config))
            lengths = PROMPT, COMPLETION
            told = trained + memory.activation_bytes(config, (2, GROUP_SIZE), lengths, memory.FLOAT, checkpointing=True)
            print(f"{name:16}{rank:5}{exact / GB:10.1f}GB{told / GB:10.1f}GB{told / exact:7.2f}", flush=True)


def main() -> None:
    """Print the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with what XLA says on the CPU")
    if parser.parse_args().check:
        check()
    else:
        print(table())


if __name__ == "__main__":
    main()

"""Settings of whole experiments, as layers over the defaults."""

from typing import Any

from simlab.errors import check_choice
from simlab.llm.training.paper_presets import PAPER_PRESETS
from simlab.llm.training.settings import SCRATCH

PRESETS: dict[str, dict[str, Any]] = {
    # From nothing to a policy that adds, in minutes on two cores.
    "addition": {
        "task": {"name": "addition", "digits": 2, "evaluation_size": 128},
        "model": {"hidden_size": 64, "intermediate_size": 256, "num_layers": 2},
        "warm_start": {"steps": 800, "batch": 64, "learning_rate": 2e-3, "warmup": 20},
        "rl": {"steps": 100, "prompts": 128, "group_size": 8, "learning_rate": 4e-4, "warmup": 10, "microbatch": 1024},
        "evaluation": {"every": 50, "samples": 64, "rollouts": 8192},
        "record": {"instruments_every": 50, "checkpoint_every": 50},
        "arms": ["grpo", "f_grpo"],
    },
    # Several solutions to each problem, which can be lost.
    "countdown": {
        "task": {"name": "countdown", "numbers": 3, "largest": 20, "evaluation_size": 64},
        "model": {"hidden_size": 64, "intermediate_size": 256, "num_layers": 2},
        "warm_start": {"steps": 1200, "batch": 64, "learning_rate": 3e-3, "warmup": 20},
        "rl": {"steps": 60, "prompts": 32, "group_size": 16, "learning_rate": 3e-4, "warmup": 10},
        "evaluation": {"every": 30, "samples": 64},
        "record": {"instruments_every": 30},
        "arms": ["grpo", "f_grpo", "a_grae", "fade", "cw_grpo", "casp", "maxrl"],
        "seeds": 5,
    },
    # With problems of one solution too, what solves one misleads another: pass@1 rises and pass@64 falls by a quarter.
    "countdown-conflict": {
        "task": {"name": "countdown", "numbers": 3, "largest": 20, "least_solutions": 1, "evaluation_size": 128},
        "model": {"hidden_size": 64, "intermediate_size": 256, "num_layers": 2},
        "warm_start": {"steps": 1200, "batch": 64, "learning_rate": 3e-3, "warmup": 20},
        "rl": {"steps": 100, "prompts": 32, "group_size": 16, "learning_rate": 2e-4, "warmup": 10},
        "evaluation": {"every": 10, "samples": 64},
        "record": {"instruments_every": 50},
        "arms": [
            "grpo",
            "f_grpo",
            "maxrl",
            "a_grae",
            "fade",
            "cw_grpo",
            "casp",
            "nsr",
            "pass_at_k_chen(k=4)",
            "grpo+kl_penalty(coefficient=0.1)",
            "grpo+entropy_bonus(coefficient=0.03)",
        ],
        "seeds": 5,
    },
    # A pretrained model of text, and no demonstrations.
    "fewshot": {
        "task": {"name": "fewshot", "shots": 2, "digits": 2, "evaluation_size": 48},
        "model": {"source": "smollm2"},
        "rl": {"steps": 12, "prompts": 8, "group_size": 8, "learning_rate": 2e-5, "microbatch": 64},
        "evaluation": {"every": 12, "samples": 4, "rollouts": 512},
        "record": {"instruments_every": 20, "checkpoint_every": 10},
        "arms": ["grpo", "f_grpo"],
    },
    # F-GRPO's App. K; its 20,000 steps are for a GPU.
    "maze": {
        "task": {"name": "maze", "size": 17, "accept": "strict", "evaluation_size": 256},
        "model": {
            "architecture": "qwen2",
            "hidden_size": 256,
            "intermediate_size": 1024,
            "num_layers": 4,
            "num_heads": 4,
            "num_kv_heads": 2,
            "rope_theta": 1e6,
            "max_positions": 512,
        },
        "warm_start": {"steps": 1500, "batch": 32, "learning_rate": 5e-4, "b2": 0.95},
        "rl": {"steps": 20_000, "prompts": 256, "group_size": 16, "learning_rate": 1e-4, "microbatch": 64},
        "evaluation": {"every": 500, "samples": 256},
        "record": {"instruments_every": 100, "checkpoint_every": 100},
        "arms": ["grpo", "f_grpo"],
    },
    **PAPER_PRESETS,
}


def preset(name: str | None, model: str | None) -> dict[str, Any]:
    """The preset of a name; without one, ``addition``, or ``fewshot`` for a pretrained model.

    Raises:
        InputError: for an unknown name.
    """
    if name is None:
        return PRESETS["addition" if model in (None, SCRATCH) else "fewshot"]
    check_choice("preset", name, sorted(PRESETS))
    return PRESETS[name]

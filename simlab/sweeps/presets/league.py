"""The preset ``league``: every estimator on one bank of prompts, and combinations of links beside them."""

from typing import Any

import numpy as np

from simlab.estimators import REGISTRY
from simlab.rollouts import Rollouts
from simlab.sweeps.presets.settings import Settings


def response_level() -> tuple[str, ...]:
    """The registered estimators with one advantage a rollout, (P, G), but ``linked``, which stands for many.

    Those that weigh every token by itself are told by their advantages, (P, G, T).
    """
    tokens = np.zeros((1, 2, 1))
    batch = Rollouts(np.array([[1.0, 0.0]]), old_logp=tokens, entropy=tokens, greedy_reward=np.zeros((1, 2)))
    built = {name: entry.build() for name, entry in REGISTRY.items() if name != "linked"}
    return tuple(name for name, chosen in built.items() if chosen.update(batch, chosen.init())[0].ndim == 2)


# 32 prompts with solve rates from 1e-3, most of them hard, each with 4 common and 4 rare correct modes of 64 actions.
BANK: dict[str, tuple[Any, ...]] = {
    "problem.prompts": (32,),
    "problem.actions": (64,),
    "problem.beta_a": (0.35,),
    "problem.beta_b": (1.0,),
    "problem.margin": (1e-3,),
    "problem.modes": (8,),
    "problem.rare_modes": (4,),
    "problem.rare_ratio": (0.1,),
    "run.prompts_per_step": (8,),
}

# Plain gradient steps, each scaled to one of four norms. Seeds are paired: one draws the same random numbers for all.
NAMED: Settings = {
    "estimators": response_level(),
    "group_sizes": (8,),
    "seeds": 32,
    "steps": 300,
    "record_every": 100,
    "problem": "prompt_bank",
    "surrogates": ("reinforce",),
    "optimizer": "sgd",
    "parameters": BANK | {"optimizer.learning_rate": (1.0,), "run.update_norm": (0.25, 0.5, 1.0, 2.0)},
    "pass_at_k": (1, 256),
    "top_n": 0,
}

# Scales with weights of difficulty and of sign, all after the mean of the group.
LINKS: Settings = NAMED | {
    "estimators": ("linked",),
    "parameters": NAMED["parameters"]
    | {
        "estimator.scale": ("none", "std", "mean"),
        "estimator.difficulty": ("none", "focal"),
        "estimator.sign": ("none", "divide_failures", "relu"),
    },
}

# Some of them without a fixed norm. One of the learning rates, a factor of 2 apart, makes the norm of the first steps
# 1/2, within a factor of 1.5, whatever the estimator.
FIXED_RATE: Settings = NAMED | {
    "estimators": (
        "dr_grpo", "grpo", "maxrl", "f_grpo", "easy_power", "psr", "nsr", "a_grae", "pass_at_k_chen", "pass_at_k_tang",
        "pkpo", "fade",
    ),
    "seeds": 16,
    "parameters": BANK | {"optimizer.learning_rate": tuple(2.0**power for power in range(1, 8))},
}  # fmt: skip

LEAGUE: dict[str, Settings] = {"named": NAMED, "links": LINKS, "fixed-rate": FIXED_RATE}

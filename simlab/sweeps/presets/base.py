"""Settings that several presets share: problems, runs with plain gradient steps, and the estimators that take part."""

from typing import Any

import numpy as np

from simlab.estimators import REGISTRY
from simlab.rollouts import Rollouts

SweepSettings = dict[str, Any]  # fields of ``Sweep``, those that differ from its defaults
Preset = dict[str, SweepSettings]  # one sweep or several, each with a name of its own; one alone has none
Values = dict[str, tuple[Any, ...]]  # of parameters, by their qualified names

RATE = "optimizer.learning_rate"
PLAIN_STEPS: SweepSettings = {"group_sizes": (8,), "optimizer": "sgd", "top_n": 0}
ON_BANK: SweepSettings = PLAIN_STEPS | {"problem": "prompt_bank", "pass_at_k": (1, 256)}
ON_INTERFERENCE: SweepSettings = PLAIN_STEPS | {"problem": "interference"}

# 32 prompts with solve rates from 1e-3, most of them hard, each with 4 common and 4 rare correct modes of 64 actions.
HARD_BANK: Values = {
    "problem.prompts": (32,),
    "problem.actions": (64,),
    "problem.beta_a": (0.35,),
    "problem.beta_b": (1.0,),
    "problem.margin": (1e-3,),
    "problem.modes": (8,),
    "problem.rare_modes": (4,),
    "problem.rare_ratio": (0.1,),
}
BANK: Values = HARD_BANK | {"run.prompts_per_step": (8,)}


def response_level() -> tuple[str, ...]:
    """Return the registered estimators with one advantage a rollout, (P, G), but ``linked``, which stands for many.

    The advantages of an estimator that weighs each token have the shape (P, G, T).
    """
    tokens = np.zeros((1, 2, 1))
    batch = Rollouts(np.array([[1.0, 0.0]]), old_logp=tokens, entropy=tokens, greedy_reward=np.zeros((1, 2)))
    built = {name: entry.build() for name, entry in REGISTRY.items() if name != "linked"}
    return tuple(name for name, chosen in built.items() if chosen.update(batch, chosen.init())[0].ndim == 2)

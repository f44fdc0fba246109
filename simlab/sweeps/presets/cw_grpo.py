"""CW-GRPO beside GRPO, Clip-Cov and KL-Cov, on a tree deep enough for a group to have many tokens."""

from typing import Any

import numpy as np

from simlab.sweeps.presets.settings import Settings

DEPTH, BRANCHING = 6, 3
NODES = (BRANCHING**DEPTH - 1) // (BRANCHING - 1)
# Every 30th leaf is rewarded, and the initial logits are standard normal, so that tokens differ in log-probability.
REWARDED = tuple(float(leaf) for leaf in range(7, BRANCHING**DEPTH, 30))
LOGITS = tuple(np.random.default_rng(0).standard_normal(NODES * BRANCHING).round(2).tolist())

# 96 tokens a group. Four gradient steps a group: at a ratio of 1 KL-Cov and every clip do nothing. Recorded often,
# since runs are compared where they reach an accuracy, which GRPO may do within ten steps.
_TREE: Settings = {
    "group_sizes": (16,),
    "seeds": 32,
    "steps": 600,
    "record_every": 2,
    "problem": "tree",
    "optimizer": "sgd",
    "pass_at_k": (1, 8, 64),
    "top_n": 0,
}
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "problem.depth": (DEPTH,),
    "problem.branching": (BRANCHING,),
    "problem.rewarded": (REWARDED,),
    "problem.logits": (LOGITS,),
    "run.epochs": (4,),
    "run.aggregation": ("constant",),
    "optimizer.learning_rate": (0.1, 0.3, 1.0),
}

# The baselines at their published shares, of so few tokens the least that there can be, one token, and at a tenth, 9
# of the 96. The scope of the kernel makes no difference on one tree, whose batch is one group.
CW_GRPO: dict[str, Settings] = {
    "kernel": _TREE
    | {"estimators": ("grpo", "cw_grpo"), "surrogates": ("unclipped", "ppo_clip"), "parameters": _PARAMETERS},
    "baselines": _TREE
    | {
        "estimators": ("grpo",),
        "surrogates": ("clip_cov", "kl_cov"),
        "parameters": _PARAMETERS | {"surrogate.share": (2e-4, 0.1)},
    },
}

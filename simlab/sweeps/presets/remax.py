"""The preset ``remax``: the greedy answer as a baseline, beside no baseline, the group's mean and its median.

All runs cost the same: ReMax samples one answer more a prompt, and so takes fewer steps.
"""

from simlab.sweeps.budget import Budget
from simlab.sweeps.presets.league import BANK
from simlab.sweeps.presets.settings import Settings

_USUAL: Settings = {
    "estimators": ("remax", "reinforce", "dr_grpo", "mc_grpo", "nsr"),
    "surrogates": ("reinforce",),
    "group_sizes": (8,),
    "seeds": 16,
    "optimizer": "sgd",
    "pass_at_k": (1, 256),
    "top_n": 0,
}

REMAX: dict[str, Settings] = {
    # The league's bank, and the cost of its 300 steps.
    "bank": _USUAL
    | {
        "problem": "prompt_bank",
        "budget": Budget(300 * 8 * 8, records=30),
        "parameters": BANK | {"optimizer.learning_rate": (1.0,), "run.update_norm": (0.5, 1.0)},
    },
    # The league of interference, and the cost of its 600 steps of all 32 prompts.
    "interference": _USUAL
    | {
        "problem": "interference",
        "budget": Budget(600 * 32 * 8, records=60),
        "parameters": {"optimizer.learning_rate": (0.5, 1.0, 2.0)},
    },
}

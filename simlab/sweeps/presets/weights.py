"""Presets ``league``, ``ceiling`` and ``remax``: weights on one bank of prompts, in long runs, and baselines."""

from simlab.sweeps.budget import Budget
from simlab.sweeps.presets.base import BANK, ON_BANK, PLAIN_STEPS, RATE, Preset, SweepSettings, response_level
from simlab.sweeps.presets.interference import INTERFERENCE_LEAGUE

# Plain gradient steps, each scaled to one of four norms. Seeds are paired: one draws the same random numbers for all.
_NAMED: SweepSettings = ON_BANK | {
    "estimators": response_level(),
    "seeds": 32,
    "steps": 300,
    "record_every": 100,
    "surrogates": ("reinforce",),
    "parameters": BANK | {RATE: (1.0,), "run.update_norm": (0.25, 0.5, 1.0, 2.0)},
}
LEAGUE: Preset = {
    "named": _NAMED,
    # Scales with weights of difficulty and of sign, all after the mean of the group.
    "links": _NAMED
    | {
        "estimators": ("linked",),
        "parameters": _NAMED["parameters"]
        | {
            "estimator.scale": ("none", "std", "mean"),
            "estimator.difficulty": ("none", "focal"),
            "estimator.sign": ("none", "divide_failures", "relu"),
        },
    },
    # Some of them without a fixed norm. One of the learning rates, a factor of 2 apart, makes the norm of the first
    # steps 1/2, within a factor of 1.5, whatever the estimator.
    "fixed-rate": _NAMED
    | {
        "estimators": (
            "dr_grpo", "grpo", "maxrl", "f_grpo", "easy_power", "psr", "nsr", "a_grae", "pass_at_k_chen",
            "pass_at_k_tang", "pkpo", "fade",
        ),
        "seeds": 16,
        "parameters": BANK | {RATE: tuple(2.0**power for power in range(1, 8))},
    },
}  # fmt: skip

# Long runs, to see which weights raise what pass@1 and pass@256 come to; ``simlab fit`` fits a sigmoid to each curve.
# Learning rates are fixed, so that a weight has its own pace. On interfering prompts GRPO's pass@1 has done nearly all
# of its way after a quarter of the steps: the later ones show what fits to that quarter have foretold.
_LONG: SweepSettings = {"steps": 3200, "record_every": 40}
CEILING: Preset = {
    "interference": INTERFERENCE_LEAGUE["rate"] | _LONG | {"seeds": 8, "parameters": {RATE: (2.0,)}},
    "bank": _NAMED | _LONG | {"seeds": 16, "parameters": BANK | {RATE: (8.0,)}},
}

# The greedy answer as a baseline, beside no baseline, the group's mean and its median. All runs cost the same: ReMax
# samples one answer more a prompt, and so takes fewer steps.
_REMAX: SweepSettings = PLAIN_STEPS | {
    "estimators": ("remax", "reinforce", "dr_grpo", "mc_grpo", "nsr"),
    "surrogates": ("reinforce",),
    "seeds": 16,
    "pass_at_k": (1, 256),
}
REMAX: Preset = {
    # The league's bank, and the cost of its 300 steps.
    "bank": _REMAX
    | {
        "problem": "prompt_bank",
        "budget": Budget(300 * 8 * 8, records=30),
        "parameters": BANK | {RATE: (1.0,), "run.update_norm": (0.5, 1.0)},
    },
    # The league of interference, and the cost of its 600 steps of all 32 prompts.
    "interference": _REMAX
    | {
        "problem": "interference",
        "budget": Budget(600 * 32 * 8, records=60),
        "parameters": {RATE: (0.5, 1.0, 2.0)},
    },
}

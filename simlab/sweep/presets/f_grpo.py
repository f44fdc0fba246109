"""F-GRPO: its Figure 2, and a smaller problem that shows the three regimes."""

from simlab.sweep.presets.settings import Settings

# The reading of F-GRPO's App. J that reproduces its Figure 2: rewards centred by the batch mean without std, times the
# focal weight, in the ratio form (gradient A grad log pi), Adam without weight decay.
F_GRPO_FIG2: Settings = {
    "estimators": ("f_grpo",),
    "group_sizes": tuple(2**power for power in range(1, 18)),
    "seeds": 4,
    "steps": 1000,
    "record_every": 50,
    "problem": "anchored",
    "surrogates": ("reinforce",),
    "optimizer": "adam",
    "parameters": {
        "estimator.gamma": (0.0, 1.0),
        "estimator.base": ("dr_grpo",),
        "problem.reward_incorrect": (-1.0,),
        "optimizer.learning_rate": (0.01,),
    },
}

THREE_REGIMES: Settings = F_GRPO_FIG2 | {
    "group_sizes": (2, 8, 32, 128, 512, 2048, 8192),
    "seeds": 8,
    "parameters": F_GRPO_FIG2["parameters"] | {"problem.actions": (12_800,), "problem.correct": (1_000,)},
}

"""F-GRPO's experiments: its Figure 2, a small version of that, and focal weights on a bank of prompts."""

from simlab.sweeps.presets.settings import Settings
from simlab.theory.weight_variance import focal_scale

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

# Focal weights on a bank whose prompts each have one common correct mode and 15 rare ones of their own, beside GRPO
# whose steps are shortened by App. N's multiplier instead.
_FOCAL: Settings = {
    "estimators": ("f_grpo",),
    "group_sizes": (4, 8, 32),
    "seeds": 16,
    "steps": 1500,
    "record_every": 25,
    "problem": "prompt_bank",
    "pass_at_k": (1, 8, 64, 512),
    "top_n": 0,
}
_FOCAL_BANK = {
    "problem.prompts": (32,),
    "problem.actions": (128,),
    "problem.modes": (16,),
    "problem.rare_modes": (15,),
    "problem.rare_ratio": (0.05,),
    "problem.margin": (0.005,),
    "run.prompts_per_step": (8,),
}
_GAMMAS = (0.5, 1.0, 2.0)


def _focal_and_control(optimizer: str, size: str, value: float, fixed: dict[str, tuple[float, ...]]) -> list[Settings]:
    """Both sweeps of one optimiser; ``size`` is the parameter that scales its steps, ``value`` that of gamma 0."""
    shared = _FOCAL_BANK | fixed
    focal = {"estimator.gamma": (0.0, *_GAMMAS), size: (value,)}
    control = {"estimator.gamma": (0.0,), size: tuple(value * focal_scale(gamma) for gamma in _GAMMAS)}
    return [_FOCAL | {"optimizer": optimizer, "parameters": shared | own} for own in (focal, control)]


# Adam divides a constant scale of the gradient out of each logit, plain steps keep it, and steps of one norm divide it
# out of all logits together, as Adam nearly does where prompts share their parameters.
_ADAM = _focal_and_control("adam", "optimizer.learning_rate", 0.02, {})
_SGD = _focal_and_control("sgd", "optimizer.learning_rate", 2.0, {})
_NORM = _focal_and_control("sgd", "run.update_norm", 0.2, {"optimizer.learning_rate": (1.0,)})
F_GRPO = {
    "adam": _ADAM[0],
    "adam-low-lr": _ADAM[1],
    "sgd": _SGD[0],
    "sgd-low-lr": _SGD[1],
    "norm": _NORM[0],
    "norm-low-lr": _NORM[1],
}

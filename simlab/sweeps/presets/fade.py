"""FADE's experiments on a bank of prompts: its two axes, its Figure 4, and its scheduler."""

from typing import Any

from simlab.sweeps.presets.settings import Settings

# FADE on a bank of prompts whose solve rates are bimodal, as its Figure 10 has them, with a tail of prompts that no run
# solves. Plain gradient steps, once of the size that a weight gives them and once all of one Euclidean norm: that of
# mean GRPO's early steps, so that mean GRPO learns at about one pace in both.
_FADE: Settings = {
    "group_sizes": (16,),
    "seeds": 16,
    "steps": 600,
    "record_every": 20,
    "problem": "prompt_bank",
    "surrogates": ("reinforce",),
    "optimizer": "sgd",
    "pass_at_k": tuple(2**power for power in range(21)),
    "top_n": 0,
}
_FADE_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "problem.prompts": (64,),
    "problem.beta_a": (0.3,),
    "problem.beta_b": (0.7,),
    "problem.rare_ratio": (0.2,),
    "run.prompts_per_step": (16,),
    "optimizer.learning_rate": (16.0,),
    "run.update_norm": (0.0, 0.5),
}


def _fade(estimators: tuple[str, ...], parameters: dict[str, tuple[Any, ...]]) -> Settings:
    """FADE's setting with some weights."""
    return _FADE | {"estimators": estimators, "parameters": _FADE_PARAMETERS | parameters}


# The sign axis and the difficulty axis, both through mean GRPO at 1; other weights of FADE's Table 1 that have failures
# in them, for Figure 4; and Algorithm 2 whole (alpha_max 3, delta_min .3), without its parts (1), at both readings of
# its averaging constant.
FADE: dict[str, Settings] = {
    "sign": _fade(("asym_grpo",), {"estimator.delta": (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)}),
    "difficulty": _fade(("power_alpha", "easy_power"), {"estimator.alpha": (1.0, 1.5, 2.0, 3.0, 4.0)}),
    "weights": _fade(("grpo", "maxrl", "w_reinforce", "pass_at_k_chen"), {}),
    "scheduler": _fade(
        ("fade",),
        {
            "estimator.alpha_max": (3.0, 1.0),
            "estimator.delta_min": (0.3, 1.0),
            "estimator.beta": (0.02, 0.98),
        },
    ),
}

# FADE's rank-1 funnel on prompts that share a head: failures of one mode or of eight, successes likewise, so that each
# diversity has its control. Also with Adam in place of plain steps, with all prompts in each batch, and with features
# that overlap less or more. 96 actions hold the answers of sixteen modes of their own.
_FADE_RANK: Settings = {
    "estimators": ("asym_grpo",),
    "group_sizes": (8,),
    "seeds": 16,
    "steps": 300,
    "record_every": 10,
    "problem": "linear_softmax",
    "surrogates": ("reinforce",),
    "optimizer": "sgd",
    "pass_at_k": (1,),
    "top_n": 0,
}
_FADE_RANK_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "estimator.delta": (0.3, 0.5, 1.0, 2.0, 3.0),
    "problem.actions": (96,),
    "problem.failure_modes": (1, 8),
    "problem.success_modes": (1, 8),
    "run.prompts_per_step": (8,),
    "optimizer.learning_rate": (1.0,),
}


def _fade_rank(parameters: dict[str, tuple[Any, ...]], optimizer: str = "sgd") -> Settings:
    """The setting of the rank-1 funnel with some other parameters."""
    return _FADE_RANK | {"optimizer": optimizer, "parameters": _FADE_RANK_PARAMETERS | parameters}


def _overlaps(failure_modes: int, success_modes: int) -> Settings:
    """Features of other overlaps, at one diversity."""
    modes = {"problem.failure_modes": (failure_modes,), "problem.success_modes": (success_modes,)}
    return _fade_rank(modes | {"problem.shared": (0.3, 3.0)})


FADE_RANK: dict[str, Settings] = {
    "sgd": _fade_rank({"problem.answers": ("shared", "own")}),
    "adam": _fade_rank({"optimizer.learning_rate": (0.01,)}, "adam"),
    "batch": _fade_rank({"run.prompts_per_step": (32,)}),
    "overlap-failures": _overlaps(8, 1),
    "overlap-successes": _overlaps(1, 8),
}

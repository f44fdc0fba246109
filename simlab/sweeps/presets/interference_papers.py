"""The preset ``interference-papers``: what five papers claim of pass@k, on prompts that share features and on others.

Every arm at the same few learning rates, on three banks, each of which differs from the next in one thing alone.
"""

from typing import Any

from simlab.sweeps.presets.settings import Settings
from simlab.theory.weight_variance import focal_scale

GROUPS = (2, 4, 8, 16, 32)
ROLLOUTS = 64  # of a step, where groups are compared at equal cost: from 32 prompts of 2 to 2 prompts of 32
# Easy and hard prompts that share features and disagree about the answer; the same with a rare correct answer beside
# each prompt's main one; and these without the features that they share.
BANKS: dict[str, dict[str, tuple[Any, ...]]] = {
    "shared": {"problem.overlap": (0.3,), "problem.rare_modes": (0,)},
    "rare": {"problem.overlap": (0.3,), "problem.rare_modes": (1,)},
    "apart": {"problem.overlap": (0.0,), "problem.rare_modes": (1,)},
}
RATE = "optimizer.learning_rate"
RATES = (0.5, 2.0)
_SLOW = {RATE: (*RATES, 16.0)}  # for weights that are small where few rollouts are right
_PLAIN: Settings = {
    "seeds": 24,
    "steps": 200,
    "record_every": 10,
    "problem": "interference",
    "optimizer": "sgd",
    "pass_at_k": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "top_n": 0,
}


def _arms(*methods: str, group_sizes: tuple[int, ...] = (8,), **run: Any) -> Settings:
    """Methods with settings of a run."""
    own = {f"run.{name}": (value,) if isinstance(value, int) else value for name, value in run.items()}
    return _PLAIN | {"arms": methods, "group_sizes": group_sizes, "parameters": {RATE: RATES} | own}


def _slow(*estimators: str) -> Settings:
    """The same at one learning rate more."""
    return _plain(*estimators) | {"parameters": _SLOW}


def _plain(*estimators: str, **changes: Any) -> Settings:
    """Estimators under the plain policy gradient."""
    return _arms(*(f"{name}+reinforce" for name in estimators), **changes)


# On policy no clip acts, and KL-Cov has no gradient: these take four gradient steps a batch.
_CLIPS = ("grpo+ppo_clip", "grpo+clip_cov", "grpo+kl_cov", "cw_grpo+ppo_clip", "grpo+casp(quantile=0)")
_EXPERIMENTS: dict[str, Settings] = {
    "groups": _plain("grpo", "f_grpo(gamma=0.5)", group_sizes=GROUPS),
    **{
        f"rollouts-{size}": _plain("grpo", group_sizes=(size,), prompts_per_step=ROLLOUTS // size)
        for size in (2, 8, 32)
    },
    "controls": _plain("f_grpo(gamma=1)", "ds_grpo"),
    # F-GRPO's control of its step size, App. N.
    "low-rate": _plain("grpo") | {"parameters": {RATE: tuple(focal_scale(0.5) * rate for rate in RATES)}},
    "kl": _plain("grpo", kl=(0.01, 0.1)),
    "entropy": _plain("grpo", entropy_bonus=(0.01, 0.1)),
    "halves": _plain(
        "linked(scale=std,sign=attenuate)",
        "linked(scale=std,difficulty=shift)",
        "a_grae",
        "positive_dominant",
        "negative_dominant",
        "hard_focused",
        "easy_focused",
    ),
    "schedules": _slow("fade", "fade(delta_min=1)", "fade(alpha_max=1)", "fade_logarithmic(last=200)", "fade_entropy"),
    "signs": _slow("psr", "nsr", "w_reinforce", "pass_at_k_chen(k=4)", "entropy_advantage"),
    "clips": _arms(*_CLIPS, epochs=4),
}
INTERFERENCE_PAPERS: dict[str, Settings] = {
    f"{name}-{bank}": settings | {"parameters": settings["parameters"] | own}
    for name, settings in _EXPERIMENTS.items()
    for bank, own in BANKS.items()
}

"""The presets ``lag`` and ``mismatch``: old, imprecise and truncated samplers, and what corrections make of them."""

from typing import Any

from simlab.simulator.mismatch import CORRECTIONS
from simlab.sweeps.presets.settings import Settings

LAGS = (0, 1, 4, 16)

# 32 prompts, most of them hard, each with 4 common correct actions of 64 and 4 that are a tenth as likely, the target
# set. The learning rate solves four in five rollouts within 150 steps of a sampler that is up to date.
_BANK: dict[str, tuple[Any, ...]] = {
    "problem.prompts": (32,),
    "problem.actions": (64,),
    "problem.beta_a": (0.35,),
    "problem.beta_b": (1.0,),
    "problem.margin": (0.01,),
    "problem.modes": (8,),
    "problem.rare_modes": (4,),
    "problem.rare_ratio": (0.1,),
    "optimizer.learning_rate": (32.0,),
    "run.correction": CORRECTIONS,
}
_USUAL: Settings = {
    "estimators": ("grpo",),
    "surrogates": ("ppo_clip",),
    "group_sizes": (8,),
    "seeds": 24,
    "steps": 150,
    "record_every": 5,
    "problem": "prompt_bank",
    "optimizer": "sgd",
    "parameters": _BANK,
    "pass_at_k": (1, 256),
    "top_n": 0,
}


def _with(**parameters: tuple[Any, ...]) -> Settings:
    """The usual setting over the values of some parameters of a run."""
    return _USUAL | {"parameters": _BANK | {f"run.{name}": values for name, values in parameters.items()}}


# Rollouts of six tokens, four of which are right and one of these twice as likely as the others.
_TREE: dict[str, tuple[Any, ...]] = {
    "problem.depth": (6,),
    "problem.branching": (3,),
    "problem.rewarded": ("AAAAAA,ABCABC,BBCCAA,CABBAC",),
    "problem.anchor_logit": (0.25,),
    "optimizer.learning_rate": (4.0,),
    "run.correction": CORRECTIONS,
    "run.correction_unit": ("token", "sequence"),
}

LAG: dict[str, Settings] = {
    "bank": _with(lag=LAGS),
    "tree": _USUAL | {"problem": "tree", "steps": 300, "parameters": _TREE | {"run.lag": (16,)}},
}
MISMATCH: dict[str, Settings] = {
    "precision": _with(sampler=("bfloat16", "float16")),
    "top-p": _with(sampler=("top_p",), top_p=(1.0, 0.99, 0.95, 0.9, 0.8, 0.6)),
    "top-k": _with(sampler=("top_k",), top_k=(16, 4)),
}

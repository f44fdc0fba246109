"""A-GRAE's controlled experiments, its comparison with DAPO, and the collapse of the negative-dominant control."""

from typing import Any

from simlab.sweeps.presets.settings import Settings

# Groups of eight as in the paper; prompts from nearly unsolved to nearly solved, each with one common correct mode and
# seven rarer ones. ``few`` and ``many`` incorrect actions: Adam moves a logit by its rate however small its gradient,
# and with weights that do not sum to zero every logit has one.
_BANK: dict[str, tuple[Any, ...]] = {
    "problem.prompts": (16,),
    "problem.modes": (8,),
    "problem.rare_modes": (7,),
    "problem.rare_ratio": (0.1,),
    "problem.margin": (0.01,),
    "run.prompts_per_step": (4,),
}
_FEW, _MANY = {"problem.actions": (64,)}, {"problem.actions": (1000,)}
_ADAM, _SGD = {"optimizer.learning_rate": (0.02,)}, {"optimizer.learning_rate": (2.0,)}

_DOMINANCE = ("grpo", "positive_dominant", "negative_dominant", "a_grae")
_ALL = (*_DOMINANCE, "dr_grpo", "hard_focused", "easy_focused")

_COMMON: Settings = {
    "group_sizes": (8,),
    "steps": 1500,
    "record_every": 25,
    "problem": "prompt_bank",
    "pass_at_k": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "top_n": 0,
}


def _controls(estimators: tuple[str, ...], optimizer: str, *parameters: dict[str, tuple[Any, ...]]) -> Settings:
    together = {name: values for some in (_BANK, *parameters) for name, values in some.items()}
    return _COMMON | {"estimators": estimators, "seeds": 24, "optimizer": optimizer, "parameters": together}


def _collapse(seeds: int, optimizer: str, *parameters: dict[str, tuple[Any, ...]], group_size: int = 8) -> Settings:
    settings = _controls(("negative_dominant",), optimizer, _MANY, *parameters)
    return settings | {"seeds": seeds, "group_sizes": (group_size,)}


A_GRAE: dict[str, Settings] = {
    "few": _controls(_ALL, "adam", _FEW, _ADAM),
    "few-sgd": _controls(_ALL, "sgd", _FEW, _SGD, {"estimator.easy_term": ("paper", "code")}),
    "many": _controls(_DOMINANCE, "adam", _MANY, _ADAM),
    # With one gradient step a batch the ratio is 1 and no clip acts: DAPO is another method than GRPO only with more.
    "dapo": _controls(("grpo", "a_grae"), "adam", _FEW, {"optimizer.learning_rate": (0.05,), "run.epochs": (8,)})
    | {"surrogates": ("ppo_clip", "clip_higher"), "steps": 300, "record_every": 5},
    # How often the control collapses, and what it takes: the rate, Adam's eps, plain steps, larger groups, fewer
    # actions. A-GRAE is said not to collapse.
    "collapse": _collapse(200, "adam", {"optimizer.learning_rate": (0.01, 0.02, 0.05)}),
    "collapse-a-grae": _collapse(200, "adam", _ADAM) | {"estimators": ("a_grae",)},
    "collapse-eps": _collapse(64, "adam", _ADAM, {"optimizer.eps": (1e-7, 1e-6, 1e-5)}),
    "collapse-sgd": _collapse(64, "sgd", {"optimizer.learning_rate": (2.0, 10.0)}),
    "collapse-group": _collapse(64, "adam", _ADAM, group_size=32),
    "collapse-actions": _collapse(64, "adam", _ADAM, {"problem.actions": (250,)}),
}

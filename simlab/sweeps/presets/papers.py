"""Presets of the papers' experiments: F-GRPO, A-GRAE, FADE, CaSP and CW-GRPO."""

from typing import Any

import numpy as np

from simlab.sweeps.presets.base import PLAIN_STEPS, RATE, Preset, SweepSettings, Values
from simlab.theory.weight_variance import focal_scale

# ``f-grpo-fig2``: the reading of F-GRPO's App. J that reproduces its Figure 2: rewards centred by the batch mean
# without std, times the focal weight, in the ratio form (gradient A grad log pi), Adam without weight decay.
F_GRPO_FIG2: SweepSettings = {
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
        RATE: (0.01,),
    },
}
THREE_REGIMES: SweepSettings = F_GRPO_FIG2 | {
    "group_sizes": (2, 8, 32, 128, 512, 2048, 8192),
    "seeds": 8,
    "parameters": F_GRPO_FIG2["parameters"] | {"problem.actions": (12_800,), "problem.correct": (1_000,)},
}

# ``f-grpo``: focal weights on a bank whose prompts each have one common correct mode and 15 rare ones of their own,
# beside GRPO whose steps are shortened by App. N's multiplier instead. Adam divides a constant scale of the gradient
# out of each logit, plain steps keep it, and steps of one norm divide it out of all logits together, as Adam nearly
# does where prompts share their parameters.
_FOCAL: SweepSettings = {
    "estimators": ("f_grpo",),
    "group_sizes": (4, 8, 32),
    "seeds": 16,
    "steps": 1500,
    "record_every": 25,
    "problem": "prompt_bank",
    "pass_at_k": (1, 8, 64, 512),
    "top_n": 0,
}
_FOCAL_BANK: Values = {
    "problem.prompts": (32,),
    "problem.actions": (128,),
    "problem.modes": (16,),
    "problem.rare_modes": (15,),
    "problem.rare_ratio": (0.05,),
    "problem.margin": (0.005,),
    "run.prompts_per_step": (8,),
}


def _focal_and_control(name: str, optimizer: str, size: str, value: float, fixed: Values) -> Preset:
    """Return both sweeps of one optimiser; ``size`` is the parameter that scales its steps, ``value`` its full one."""
    gammas = (0.5, 1.0, 2.0)
    focal = {"estimator.gamma": (0.0, *gammas), size: (value,)}
    control = {"estimator.gamma": (0.0,), size: tuple(value * focal_scale(gamma) for gamma in gammas)}
    sweeps = {name: focal, f"{name}-low-lr": control}
    shared = _FOCAL | {"optimizer": optimizer}
    return {name: shared | {"parameters": _FOCAL_BANK | fixed | swept} for name, swept in sweeps.items()}


F_GRPO: Preset = {
    **_focal_and_control("adam", "adam", RATE, 0.02, {}),
    **_focal_and_control("sgd", "sgd", RATE, 2.0, {}),
    **_focal_and_control("norm", "sgd", "run.update_norm", 0.2, {RATE: (1.0,)}),
}

# ``a-grae``: controlled experiments, the comparison with DAPO, and the collapse of the negative-dominant control.
# Groups of eight as in the paper; prompts from nearly unsolved to nearly solved, each with one common correct mode and
# seven rarer ones. ``few`` and ``many`` incorrect actions: Adam moves a logit by its rate however small its gradient,
# and with weights that do not sum to zero every logit has one.
_A_GRAE_BANK: Values = {
    "problem.prompts": (16,),
    "problem.modes": (8,),
    "problem.rare_modes": (7,),
    "problem.rare_ratio": (0.1,),
    "problem.margin": (0.01,),
    "run.prompts_per_step": (4,),
}
_FEW: Values = {"problem.actions": (64,)}
_MANY: Values = {"problem.actions": (1000,)}
_ADAM: Values = {RATE: (0.02,)}
_DOMINANCE = ("grpo", "positive_dominant", "negative_dominant", "a_grae")
_CONTROLS = (*_DOMINANCE, "dr_grpo", "hard_focused", "easy_focused")


def _controls(estimators: tuple[str, ...], optimizer: str, parameters: Values, **changes: Any) -> SweepSettings:
    """Return estimators on A-GRAE's bank."""
    settings: SweepSettings = {
        "group_sizes": (8,),
        "steps": 1500,
        "record_every": 25,
        "problem": "prompt_bank",
        "pass_at_k": (1, 2, 4, 8, 16, 32, 64, 128, 256),
        "top_n": 0,
        "estimators": estimators,
        "seeds": 24,
        "optimizer": optimizer,
    }
    return settings | changes | {"parameters": _A_GRAE_BANK | parameters}


def _collapse(seeds: int, optimizer: str, parameters: Values, **changes: Any) -> SweepSettings:
    """Return many seeds of the negative-dominant control."""
    return _controls(("negative_dominant",), optimizer, _MANY | parameters, seeds=seeds, **changes)


A_GRAE: Preset = {
    "few": _controls(_CONTROLS, "adam", _FEW | _ADAM),
    "few-sgd": _controls(_CONTROLS, "sgd", _FEW | {RATE: (2.0,), "estimator.easy_term": ("paper", "code")}),
    "many": _controls(_DOMINANCE, "adam", _MANY | _ADAM),
    # With one gradient step a batch the ratio is 1 and no clip acts: DAPO is another method than GRPO only with more.
    "dapo": _controls(
        ("grpo", "a_grae"),
        "adam",
        _FEW | {RATE: (0.05,), "run.epochs": (8,)},
        surrogates=("ppo_clip", "clip_higher"),
        steps=300,
        record_every=5,
    ),
    # How often the control collapses, and what it takes: the rate, Adam's eps, plain steps, larger groups, fewer
    # actions. A-GRAE is said not to collapse.
    "collapse": _collapse(200, "adam", {RATE: (0.01, 0.02, 0.05)}),
    "collapse-a-grae": _collapse(200, "adam", _ADAM) | {"estimators": ("a_grae",)},
    "collapse-eps": _collapse(64, "adam", _ADAM | {"optimizer.eps": (1e-7, 1e-6, 1e-5)}),
    "collapse-sgd": _collapse(64, "sgd", {RATE: (2.0, 10.0)}),
    "collapse-group": _collapse(64, "adam", _ADAM, group_sizes=(32,)),
    "collapse-actions": _collapse(64, "adam", _ADAM | {"problem.actions": (250,)}),
}

# ``fade``: two axes, Figure 4 and the scheduler, on a bank of prompts whose solve rates are bimodal, as its Figure 10
# has them, with a tail of prompts that no run solves. Plain gradient steps, once of the size that a weight gives them
# and once all of one Euclidean norm: that of mean GRPO's early steps, so that mean GRPO learns at about one pace in
# both.
_FADE: SweepSettings = PLAIN_STEPS | {
    "group_sizes": (16,),
    "seeds": 16,
    "steps": 600,
    "record_every": 20,
    "problem": "prompt_bank",
    "surrogates": ("reinforce",),
    "pass_at_k": tuple(2**power for power in range(21)),
}
_FADE_BANK: Values = {
    "problem.prompts": (64,),
    "problem.beta_a": (0.3,),
    "problem.beta_b": (0.7,),
    "problem.rare_ratio": (0.2,),
    "run.prompts_per_step": (16,),
    RATE: (16.0,),
    "run.update_norm": (0.0, 0.5),
}


def _fade(*estimators: str, **parameters: tuple[float, ...]) -> SweepSettings:
    """Return weights on FADE's bank, with parameters of the estimators."""
    named = {f"estimator.{name}": values for name, values in parameters.items()}
    return _FADE | {"estimators": estimators, "parameters": _FADE_BANK | named}


FADE: Preset = {
    # The sign axis and the difficulty axis, both through mean GRPO at 1.
    "sign": _fade("asym_grpo", delta=(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)),
    "difficulty": _fade("power_alpha", "easy_power", alpha=(1.0, 1.5, 2.0, 3.0, 4.0)),
    # Other weights of FADE's Table 1 that have failures in them, for Figure 4.
    "weights": _fade("grpo", "maxrl", "w_reinforce", "pass_at_k_chen"),
    # Algorithm 2 whole (alpha_max 3, delta_min .3), without its parts (1), at both readings of its averaging constant.
    "scheduler": _fade("fade", alpha_max=(3.0, 1.0), delta_min=(0.3, 1.0), beta=(0.02, 0.98)),
}

# ``fade-rank``: the rank-1 funnel on prompts that share a head: failures of one mode or of eight, successes likewise,
# so that each diversity has its control. Also with Adam in place of plain steps, with all prompts in each batch, and
# with features that overlap less or more. 96 actions hold the answers of sixteen modes of their own.
_FADE_RANK: SweepSettings = PLAIN_STEPS | {
    "estimators": ("asym_grpo",),
    "seeds": 16,
    "steps": 300,
    "record_every": 10,
    "problem": "linear_softmax",
    "surrogates": ("reinforce",),
    "pass_at_k": (1,),
}


def _fade_rank(parameters: Values, **changes: Any) -> SweepSettings:
    """Return the setting of the rank-1 funnel with some other parameters."""
    usual: Values = {
        "estimator.delta": (0.3, 0.5, 1.0, 2.0, 3.0),
        "problem.actions": (96,),
        "problem.failure_modes": (1, 8),
        "problem.success_modes": (1, 8),
        "run.prompts_per_step": (8,),
        RATE: (1.0,),
    }
    return _FADE_RANK | changes | {"parameters": usual | parameters}


_OVERLAPS: Values = {"problem.shared": (0.3, 3.0)}
FADE_RANK: Preset = {
    "sgd": _fade_rank({"problem.answers": ("shared", "own")}),
    "adam": _fade_rank({RATE: (0.01,)}, optimizer="adam"),
    "batch": _fade_rank({"run.prompts_per_step": (32,)}),
    "overlap-failures": _fade_rank({"problem.failure_modes": (8,), "problem.success_modes": (1,)} | _OVERLAPS),
    "overlap-successes": _fade_rank({"problem.failure_modes": (1,), "problem.success_modes": (8,)} | _OVERLAPS),
}

# ``casp``: CaSP's toy over a grid of what its paper leaves unstated. Plain gradient steps by the sum over a rollout's
# tokens, averaged over rollouts, from the uniform policy. (The alpha of .5 is far above the paper's .01, which does
# nothing here that GRPO does not.)
_TOY: SweepSettings = PLAIN_STEPS | {
    "estimators": ("grpo",),
    "group_sizes": (4, 16, 64),
    "seeds": 32,
    "steps": 1000,
    "record_every": 250,
    "problem": "tree",
    "surrogates": ("ppo_clip",),
    "pass_at_k": (1,),
}
_OPEN: Values = {"surrogate.quantile": (0.0,)}  # every token passes the entropy gate
_HALF: Values = _OPEN | {"surrogate.alpha": (0.5,), "surrogate.candidates": (3, 4)}
_ADAM_RATES = (0.01, 0.03, 0.1)
_MIDDLE: SweepSettings = {"group_sizes": (16,)}
_LONG: SweepSettings = _MIDDLE | {"steps": 4000}


def _toy(parameters: Values, rates: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0), **changes: Any) -> SweepSettings:
    """Return the toy with some parameters, at some learning rates."""
    return _TOY | changes | {"parameters": {"run.aggregation": ("constant",), RATE: rates} | parameters}


def _casp(parameters: Values, *rates: tuple[float, ...], **changes: Any) -> SweepSettings:
    """Return the toy under CaSP."""
    return _toy(parameters, *rates, surrogates=("casp",), **changes)


CASP: Preset = {
    # The three methods over learning rate and group size.
    "grpo": _toy({}),
    "entropy": _toy({"run.entropy_bonus": (0.1, 0.5, 1.0)}),
    "casp": _casp(_HALF),
    # At G = 16: the halves of CaSP, each also alone (lambda 1 only smooths, alpha 0 only penalises; both together are
    # GRPO), the entropy gate, Adam, and runs four times as long.
    "halves": _casp(_OPEN | {"surrogate.alpha": (0.0, 0.05, 0.5), "surrogate.top_penalty": (1.0, 1.1)}, **_MIDDLE),
    "gate": _casp({"surrogate.quantile": (0.5, 0.8), "surrogate.alpha": (0.5,)}, **_MIDDLE),
    "adam": _toy({"run.entropy_bonus": (0.0, 0.5, 1.0)}, _ADAM_RATES, optimizer="adam", **_MIDDLE),
    "adam-casp": _casp(_HALF, _ADAM_RATES, optimizer="adam", **_MIDDLE),
    "long": _toy({"run.entropy_bonus": (0.0, 0.5)}, (1.0,), **_LONG),
    "long-casp": _casp(_HALF, (1.0,), **_LONG),
}

# ``cw-grpo``: CW-GRPO beside GRPO, Clip-Cov and KL-Cov, on a tree deep enough for a group to have many tokens. Every
# 30th leaf is rewarded, and the initial logits are standard normal, so that tokens differ in log-probability.
DEPTH, BRANCHING = 6, 3
NODES = (BRANCHING**DEPTH - 1) // (BRANCHING - 1)
REWARDED = tuple(float(leaf) for leaf in range(7, BRANCHING**DEPTH, 30))
LOGITS = tuple(np.random.default_rng(0).standard_normal(NODES * BRANCHING).round(2).tolist())

# 96 tokens a group. Four gradient steps a group: at a ratio of 1 KL-Cov and every clip do nothing. Recorded often,
# since runs are compared where they reach an accuracy, which GRPO may do within ten steps.
_DEEP_TREE: SweepSettings = PLAIN_STEPS | {
    "group_sizes": (16,),
    "seeds": 32,
    "steps": 600,
    "record_every": 2,
    "problem": "tree",
    "pass_at_k": (1, 8, 64),
}
_DEEP_TREE_PARAMETERS: Values = {
    "problem.depth": (DEPTH,),
    "problem.branching": (BRANCHING,),
    "problem.rewarded": (REWARDED,),
    "problem.logits": (LOGITS,),
    "run.epochs": (4,),
    "run.aggregation": ("constant",),
    RATE: (0.1, 0.3, 1.0),
}
# The baselines at their published shares, of so few tokens the least that there can be, one token, and at a tenth, 9
# of the 96. The scope of the kernel makes no difference on one tree, whose batch is one group.
CW_GRPO: Preset = {
    "kernel": _DEEP_TREE
    | {
        "estimators": ("grpo", "cw_grpo"),
        "surrogates": ("unclipped", "ppo_clip"),
        "parameters": _DEEP_TREE_PARAMETERS,
    },
    "baselines": _DEEP_TREE
    | {
        "estimators": ("grpo",),
        "surrogates": ("clip_cov", "kl_cov"),
        "parameters": _DEEP_TREE_PARAMETERS | {"surrogate.share": (2e-4, 0.1)},
    },
}

"""Presets of the papers' experiments: F-GRPO, A-GRAE, FADE, CaSP and CW-GRPO, and of papers since July 2026."""

from typing import Any

import numpy as np

from simlab.sweeps.presets.base import (
    HARD_BANK,
    ON_BANK,
    ON_INTERFERENCE,
    PLAIN_STEPS,
    PRESETS,
    RATE,
    UNTIL_SOLVED,
    SweepSettings,
    Values,
    fixed,
    names,
    over,
    powers,
)
from simlab.theory.weight_variance import focal_scale

# ``f-grpo-fig2``: the reading of F-GRPO's App. J that reproduces its Figure 2: rewards centred by the batch mean
# without std, times the focal weight, in the ratio form (gradient A grad log pi), Adam without weight decay.
F_GRPO_FIG2: SweepSettings = {
    "estimators": ("f_grpo",),
    "surrogates": ("reinforce",),
    "group_sizes": powers(1, 17),
    "parameters": {"estimator.gamma": (0.0, 1.0), "estimator.base": ("dr_grpo",), RATE: (0.01,)}
    | fixed("problem", reward_incorrect=-1.0),
}
_THREE_REGIMES = over(
    F_GRPO_FIG2, fixed("problem", actions=12_800, correct=1_000), group_sizes=powers(1, 13)[::2], seeds=8
)
PRESETS |= {"f-grpo-fig2": {"": F_GRPO_FIG2}, "three-regimes": {"": _THREE_REGIMES}}

# ``f-grpo``: focal weights on prompts with one common correct mode and 15 rare ones each, beside GRPO whose steps are
# shortened by App. N's multiplier instead. Adam divides a constant scale of the gradient out of each logit, plain steps
# keep it, and steps of one norm divide it out of all logits together.
_FOCAL: SweepSettings = ON_BANK | {
    **dict(estimators=("f_grpo",), group_sizes=(4, 8, 32), seeds=16, steps=1500, record_every=25),
    "pass_at_k": (1, 8, 64, 512),
    "parameters": fixed("problem", prompts=32, actions=128, modes=16, rare_modes=15, rare_ratio=0.05, margin=0.005)
    | fixed("run", prompts_per_step=8),
}
_GAMMAS = (0.5, 1.0, 2.0)
PRESETS["f-grpo"] = {}
# Each with the parameter that scales its steps, at its full value.
for _name, _optimizer, _size, _full in (
    ("adam", "adam", RATE, 0.02),
    ("sgd", "sgd", RATE, 2.0),
    ("norm", "sgd", "run.update_norm", 0.2),
):
    _focal = over(_FOCAL, {"estimator.gamma": (0.0, *_GAMMAS), RATE: (1.0,), _size: (_full,)}, optimizer=_optimizer)
    _shorter = {"estimator.gamma": (0.0,), _size: tuple(_full * focal_scale(gamma) for gamma in _GAMMAS)}
    PRESETS["f-grpo"] |= {_name: _focal, f"{_name}-low-lr": over(_focal, _shorter)}

# ``a-grae``: controlled experiments, the comparison with DAPO, and the collapse of the negative-dominant control.
# Groups of eight as in the paper; prompts from nearly unsolved to nearly solved, each with one common correct mode and
# seven rarer ones. ``few`` and ``many`` incorrect actions: Adam moves a logit by its rate however small its gradient,
# and with weights that do not sum to zero every logit has one.
_DOMINANCE = ("grpo", "positive_dominant", "negative_dominant", "a_grae")
_CONTROLS = (*_DOMINANCE, "dr_grpo", "hard_focused", "easy_focused")
_ADAM_FEW: SweepSettings = ON_BANK | {
    **dict(estimators=_CONTROLS, optimizer="adam", seeds=24, steps=1500, record_every=25, pass_at_k=powers(0, 8)),
    "parameters": fixed("problem", prompts=16, modes=8, rare_modes=7, rare_ratio=0.1, margin=0.01, actions=64)
    | fixed("run", prompts_per_step=4)
    | {RATE: (0.02,)},
}
_ADAM_MANY = over(_ADAM_FEW, fixed("problem", actions=1000))


def _collapse(parameters: Values, seeds: int = 64, **changes: Any) -> SweepSettings:
    return over(_ADAM_MANY, parameters, **{"estimators": ("negative_dominant",), "seeds": seeds} | changes)


PRESETS["a-grae"] = {
    "few": _ADAM_FEW,
    "few-sgd": over(_ADAM_FEW, {RATE: (2.0,), "estimator.easy_term": ("paper", "code")}, optimizer="sgd"),
    "many": _ADAM_MANY | {"estimators": _DOMINANCE},
    # With one gradient step a batch the ratio is 1 and no clip acts: DAPO is another method than GRPO only with more.
    "dapo": over(_ADAM_FEW, {RATE: (0.05,)} | fixed("run", epochs=8), steps=300, record_every=5)
    | {"estimators": ("grpo", "a_grae"), "surrogates": ("ppo_clip", "clip_higher")},
    # How often the control collapses, and what it takes: the rate, Adam's eps, plain steps, larger groups, fewer
    # actions. A-GRAE is said not to collapse.
    "collapse": _collapse({RATE: (0.01, 0.02, 0.05)}, seeds=200),
    "collapse-a-grae": _collapse({}, seeds=200, estimators=("a_grae",)),
    "collapse-eps": _collapse({"optimizer.eps": (1e-7, 1e-6, 1e-5)}),
    "collapse-sgd": _collapse({RATE: (2.0, 10.0)}, optimizer="sgd"),
    "collapse-group": _collapse({}, group_sizes=(32,)),
    "collapse-actions": _collapse(fixed("problem", actions=250)),
}

# ``fade``: two axes, Figure 4 and the scheduler, on prompts whose solve rates are bimodal, as in its Figure 10, with a
# tail that no run solves. Plain steps, once of a weight's own size and once all of one norm: that of mean GRPO's early
# steps, which so learns at about one pace in both.
_FADE: SweepSettings = ON_BANK | {
    **dict(surrogates=("reinforce",), group_sizes=(16,), seeds=16, steps=600, record_every=20, pass_at_k=powers(0, 20)),
    "parameters": fixed("problem", prompts=64, beta_a=0.3, beta_b=0.7, rare_ratio=0.2)
    | {"run.prompts_per_step": (16,), RATE: (16.0,), "run.update_norm": (0.0, 0.5)},
}


def _fade(*estimators: str, **parameters: tuple[float, ...]) -> SweepSettings:
    return over(_FADE, {f"estimator.{name}": values for name, values in parameters.items()}, estimators=estimators)


PRESETS["fade"] = {
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
    **dict(problem="linear_softmax", surrogates=("reinforce",), seeds=16, steps=300, record_every=10, pass_at_k=(1,)),
    "estimators": ("asym_grpo",),
    "parameters": {"estimator.delta": (0.3, 0.5, 1.0, 2.0, 3.0), "problem.actions": (96,)}
    | {"problem.failure_modes": (1, 8), "problem.success_modes": (1, 8), "run.prompts_per_step": (8,), RATE: (1.0,)},
}


def _overlaps(failure_modes: int, success_modes: int) -> SweepSettings:
    modes = fixed("problem", failure_modes=failure_modes, success_modes=success_modes)
    return over(_FADE_RANK, modes | {"problem.shared": (0.3, 3.0)})


PRESETS["fade-rank"] = {
    "sgd": over(_FADE_RANK, {"problem.answers": ("shared", "own")}),
    "adam": over(_FADE_RANK, {RATE: (0.01,)}, optimizer="adam"),
    "batch": over(_FADE_RANK, fixed("run", prompts_per_step=32)),
    "overlap-failures": _overlaps(8, 1),
    "overlap-successes": _overlaps(1, 8),
}

# ``casp``: CaSP's toy over a grid of what its paper leaves unstated. Plain gradient steps by the sum over a rollout's
# tokens, averaged over rollouts, from the uniform policy. (The alpha of .5 is far above the paper's .01, which does
# nothing here that GRPO does not.)
_TOY: SweepSettings = PLAIN_STEPS | {
    **dict(estimators=("grpo",), surrogates=("ppo_clip",), problem="tree", pass_at_k=(1,)),
    **dict(group_sizes=(4, 16, 64), seeds=32, record_every=250),
    "parameters": {"run.aggregation": ("constant",), RATE: (0.1, 0.3, 1.0, 3.0)},
}
_CASP = over(_TOY, {"surrogate.quantile": (0.0,)}, surrogates=("casp",))  # every token passes the entropy gate
_HALF: Values = {"surrogate.alpha": (0.5,), "surrogate.candidates": (3, 4)}
_MIDDLE: SweepSettings = {"group_sizes": (16,)}
_LONG: SweepSettings = _MIDDLE | {"steps": 4000}
_ADAM: SweepSettings = _MIDDLE | {"optimizer": "adam"}
_ADAM_RATES: Values = {RATE: (0.01, 0.03, 0.1)}
PRESETS["casp"] = {
    # The three methods over learning rate and group size.
    "grpo": _TOY,
    "entropy": over(_TOY, {"run.entropy_bonus": (0.1, 0.5, 1.0)}),
    "casp": over(_CASP, _HALF),
    # At G = 16: the halves of CaSP, each also alone (lambda 1 only smooths, alpha 0 only penalises; both together are
    # GRPO), the entropy gate, Adam, and runs four times as long.
    "halves": over(_CASP, {"surrogate.alpha": (0.0, 0.05, 0.5), "surrogate.top_penalty": (1.0, 1.1)}, **_MIDDLE),
    "gate": over(_CASP, {"surrogate.quantile": (0.5, 0.8), "surrogate.alpha": (0.5,)}, **_MIDDLE),
    "adam": over(_TOY, _ADAM_RATES | {"run.entropy_bonus": (0.0, 0.5, 1.0)}, **_ADAM),
    "adam-casp": over(_CASP, _ADAM_RATES | _HALF, **_ADAM),
    "long": over(_TOY, {RATE: (1.0,), "run.entropy_bonus": (0.0, 0.5)}, **_LONG),
    "long-casp": over(_CASP, {RATE: (1.0,)} | _HALF, **_LONG),
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
    **dict(problem="tree", group_sizes=(16,), seeds=32, steps=600, record_every=2, pass_at_k=(1, 8, 64)),
    "parameters": fixed("problem", depth=DEPTH, branching=BRANCHING, rewarded=REWARDED, logits=LOGITS)
    | fixed("run", epochs=4, aggregation="constant")
    | {RATE: (0.1, 0.3, 1.0)},
}
# The baselines at their published shares, of so few tokens the least that there can be, one token, and at a tenth, 9
# of the 96. The scope of the kernel makes no difference on one tree, whose batch is one group.
PRESETS["cw-grpo"] = {
    "kernel": _DEEP_TREE | {"estimators": ("grpo", "cw_grpo"), "surrogates": ("unclipped", "ppo_clip")},
    "baselines": over(_DEEP_TREE, {"surrogate.share": (2e-4, 0.1)})
    | {"estimators": ("grpo",), "surrogates": ("clip_cov", "kl_cov")},
}

# ``lately``: what papers since July 2026 say of paths, stale samplers, erring verifiers and coverage.
# Paths, each step recorded: on a bank and where prompts interfere, with plain steps, Adam, and an old sampler.
_PATH: SweepSettings = {
    **dict(estimators=("grpo",), surrogates=("reinforce",), group_sizes=(4, 16, 64), seeds=12),
    **dict(steps=200, record_every=1, pass_at_k=(1,)),
}
_BANK_PATH = ON_BANK | _PATH | {"parameters": HARD_BANK | {RATE: (8.0,)}}
_SHARED_PATH = ON_INTERFERENCE | _PATH | {"parameters": {RATE: (0.5,)}}
# Errors of rollouts, by group size and by steps.
_ERRING: SweepSettings = ON_BANK | {
    **dict(estimators=names("dr_grpo grpo"), surrogates=("reinforce",), group_sizes=(8, 64), seeds=8),
    **dict(steps=600, record_every=50, pass_at_k=(1,)),
    "parameters": HARD_BANK | {RATE: (8.0,), "run.false_positive": (0.0, 0.2), "run.false_negative": (0.0, 0.2)},
}
# All curves of pass@k before and after, for the sharpening tax.
_TAXED: SweepSettings = {
    **dict(estimators=("grpo",), surrogates=("reinforce",), group_sizes=(8,), seeds=8),
    **dict(steps=300, record_every=100, pass_at_k=tuple(range(1, 129))),
}
_WEIGHTS = names("grpo relu binary_contrastive curve_rl bbg f_grpo pass_at_k_chen(k=4)")
_JUDGED: SweepSettings = ON_INTERFERENCE | {
    **dict(arms=tuple(f"{name}+reinforce" for name in _WEIGHTS), seeds=8, steps=1200, record_every=10),
    **dict(pass_at_k=(1, 256)),
    "parameters": {RATE: (1.0,), "run.update_norm": (0.05,)},
}
PRESETS["lately"] = {
    "bank": _BANK_PATH,
    "bank-adam": over(_BANK_PATH, {RATE: (0.05,)}, optimizer="adam"),
    "bank-lag": over(_BANK_PATH, fixed("run", lag=16)),
    "interference": _SHARED_PATH,
    "interference-adam": over(_SHARED_PATH, {RATE: (0.01,)}, optimizer="adam"),
    "interference-lag": over(_SHARED_PATH, fixed("run", lag=16)),
    # With a penalty, whose end depends on the group size as well.
    "rest": over(
        _BANK_PATH,
        fixed("run", kl=0.3),
        **dict(estimators=names("dr_grpo grpo"), steps=600, record_every=4, seeds=8),
    ),
    "verifier": _ERRING,
    "tax-bank": ON_BANK | _TAXED | {"parameters": HARD_BANK | {RATE: (8.0,)}},
    "tax-interference": ON_INTERFERENCE | _TAXED | {"parameters": {RATE: (0.5,)}},
    "weights": _JUDGED,
    "until-solved": over(_JUDGED, UNTIL_SOLVED, arms=("grpo+reinforce",)),
    "network-adam": over(
        _JUDGED, {RATE: (0.001,), "run.update_norm": (0.0,)}, problem="network", optimizer="adam", steps=400
    ),
}

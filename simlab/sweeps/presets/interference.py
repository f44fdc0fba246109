"""Presets on prompts that share features: where pass@k falls, every weight there, five papers' claims, countdown."""

from typing import Any

from simlab.surrogates import SURROGATES
from simlab.sweeps.presets.base import (
    BY_ENTROPY,
    ON_INTERFERENCE,
    PENALISED,
    RATE,
    UNTIL_SOLVED,
    WEIGHTS,
    Preset,
    SweepSettings,
    Values,
    fixed,
    names,
    over,
    powers,
)
from simlab.theory.weight_variance import focal_scale

# ``interference``: where pass@k falls below the base model's while pass@1 rises, by one thing at a time. 16 easy
# prompts and 16 hard ones for which the answer of the easy ones is wrong; plain steps on all of them.
_MAP: SweepSettings = ON_INTERFERENCE | {
    **dict(estimators=("grpo",), surrogates=("reinforce",), seeds=16, steps=400, record_every=10),
    "pass_at_k": powers(0, 12),
    "parameters": {"problem.overlap": (-0.3, -0.1, 0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5), RATE: (1.0,)},
}
INTERFERENCE: Preset = {
    "conflict": over(_MAP, {"problem.conflict": (0.0, 0.25, 0.5, 0.75, 1.0)}),
    "group-size": _MAP | {"group_sizes": (2, 4, 8, 16, 32, 64, 256)},
    "hard-rate": over(_MAP, {"problem.hard_rate": (1e-4, 1e-3, 0.01, 0.03, 0.1)}),
    "temperature": over(_MAP, {"run.temperature": (0.5, 0.7, 1.0, 1.4)}),
    "learning-rate": over(_MAP, {RATE: (0.1, 0.3, 1.0, 3.0, 10.0)}),
    "adam": over(_MAP, {RATE: (0.01, 0.03, 0.1, 0.3)}, optimizer="adam"),
}

# ``interference-league``: every weight, and rivals that cost nothing to add, compared where their pass@1 is the same: a
# longer or shorter step alone makes no difference. The problem at its defaults: 32 prompts, overlap .3, full conflict.
_LEAGUE: SweepSettings = ON_INTERFERENCE | {
    **dict(surrogates=("reinforce",), seeds=24, steps=600, record_every=10, pass_at_k=(1, 16, 256)),
    "parameters": {RATE: (0.25, 0.5, 1.0, 2.0, 4.0)},
}
_ALL = _LEAGUE | {"estimators": WEIGHTS}
_GRPO = _LEAGUE | {"estimators": ("grpo",)}
_PAIR = _LEAGUE | {"estimators": ("grpo", "maxrl")}
_PAIR_ADAM = over(_PAIR, {RATE: (0.001, 0.002, 0.004, 0.008)}, optimizer="adam")
# Features of no preferred basis, for Adam divides every coordinate by the size of its own gradients.
_ROTATED = fixed("problem", features="random", dimension=256)
INTERFERENCE_LEAGUE: Preset = {
    "rate": _ALL,
    "norm": over(_ALL, {RATE: (1.0,), "run.update_norm": (0.05, 0.1, 0.2)}),
    # With one gradient step a batch the ratio is 1 and no clip acts.
    "surrogates": over(_GRPO, {"run.epochs": (4,)}, surrogates=tuple(SURROGATES)),
    "penalties": over(_LEAGUE, {"run.epochs": (4,)}, surrogates=None, arms=PENALISED),
    "groups": _LEAGUE | {"estimators": ("grpo", "f_grpo", "maxrl"), "group_sizes": (2, 32, 128)},
    "kl": over(_GRPO, {"run.kl": (0.01, 0.03, 0.1, 0.3)}),
    "entropy": over(_GRPO, {"run.entropy_bonus": (0.01, 0.03, 0.1, 0.3)}),
    "adaptive-entropy": _LEAGUE | {"surrogates": None, "arms": BY_ENTROPY},
    "tempering": over(_GRPO, {"run.tempering": (1.5, 3.0)}),
    "until-solved": over(_GRPO, UNTIL_SOLVED),
    "supervised": over(_GRPO, {"run.supervised": (0.03, 0.1, 0.3, 1.0)}),
    "easy": over(_LEAGUE, {"estimator.threshold": (0.25, 0.5, 0.75), "estimator.base": ("grpo", "maxrl")})
    | {"estimators": ("reject_easy",)},
    "rotated": over(_PAIR, _ROTATED, seeds=12),
    "adam": _PAIR_ADAM,
    "adam-rotated": over(_PAIR_ADAM, _ROTATED, seeds=12),
}

# ``interference-papers``: what five papers claim of pass@k, on three banks, each of which differs from the next in one
# thing alone: easy and hard prompts that share features and disagree about the answer; the same with a rare correct
# answer beside each prompt's main one; and these without the features that they share.
GROUPS = (2, 4, 8, 16, 32)
BANKS: dict[str, Values] = {
    "shared": fixed("problem", overlap=0.3, rare_modes=0),
    "rare": fixed("problem", overlap=0.3, rare_modes=1),
    "apart": fixed("problem", overlap=0.0, rare_modes=1),
}
_TWO_RATES = (0.5, 2.0)
_SLOW = (*_TWO_RATES, 16.0)  # for weights that are small where few rollouts are right
_PAPERS: SweepSettings = ON_INTERFERENCE | {"seeds": 24, "steps": 200, "record_every": 10, "pass_at_k": powers(0, 8)}


def _arms(methods: str, rates: tuple[float, ...] = _TWO_RATES, groups: tuple[int, ...] = (8,), **run: Any) -> Preset:
    """Return methods, separated by spaces, on each bank by its name, with parameters of a run."""
    named = {f"run.{name}": value if isinstance(value, tuple) else (value,) for name, value in run.items()}
    settings = _PAPERS | {"arms": names(methods), "group_sizes": groups, "parameters": {RATE: rates} | named}
    return {bank: over(settings, problem) for bank, problem in BANKS.items()}


def _plain(estimators: str, **changes: Any) -> Preset:
    """Return estimators under the plain policy gradient."""
    return _arms(" ".join(f"{name}+reinforce" for name in names(estimators)), **changes)


_EXPERIMENTS: dict[str, Preset] = {
    "groups": _plain("grpo f_grpo(gamma=0.5)", groups=GROUPS),
    # Groups at equal cost: 64 rollouts a step, from 32 prompts of 2 to 2 prompts of 32.
    "rollouts-2": _plain("grpo", groups=(2,), prompts_per_step=32),
    "rollouts-8": _plain("grpo", groups=(8,), prompts_per_step=8),
    "rollouts-32": _plain("grpo", groups=(32,), prompts_per_step=2),
    "controls": _plain("f_grpo(gamma=1) ds_grpo"),
    # F-GRPO's control of its step size, App. N.
    "low-rate": _plain("grpo", rates=tuple(focal_scale(0.5) * rate for rate in _TWO_RATES)),
    "kl": _plain("grpo", kl=(0.01, 0.1)),
    "entropy": _plain("grpo", entropy_bonus=(0.01, 0.1)),
    "halves": _plain(
        "linked(scale=std,sign=attenuate) linked(scale=std,difficulty=shift) a_grae positive_dominant "
        "negative_dominant hard_focused easy_focused"
    ),
    "schedules": _plain(
        "fade fade(delta_min=1) fade(alpha_max=1) fade_logarithmic(last=200) fade_entropy", rates=_SLOW
    ),
    "signs": _plain("psr nsr w_reinforce pass_at_k_chen(k=4) entropy_advantage", rates=_SLOW),
    # On policy no clip acts, and KL-Cov has no gradient: these take four gradient steps a batch.
    "clips": _arms("grpo+ppo_clip grpo+clip_cov grpo+kl_cov cw_grpo+ppo_clip grpo+casp(quantile=0)", epochs=4),
}
INTERFERENCE_PAPERS: Preset = {
    f"{name}-{bank}": settings for name, banks in _EXPERIMENTS.items() for bank, settings in banks.items()
}

# ``network-papers``: the same where prompts share a network of one hidden layer, which Adam trains at a thousandth of
# the rates.
_ADAM: SweepSettings = {"problem": "network", "optimizer": "adam"}
NETWORK_PAPERS: Preset = {
    f"{name}-network": over(shared, {RATE: tuple(rate / 1000 for rate in shared["parameters"][RATE])}, **_ADAM)
    for name, banks in _EXPERIMENTS.items()
    for shared in [banks["shared"]]
}

# ``interference-countdown``: what interference says of countdown before the training preset ``countdown-conflict``: its
# batch, and solve rates of a Beta that was fitted to pass@k of one warm start (k = 1 to 64). How much prompts overlap,
# and what a step of AdamW is in plain steps, is not known: both are swept. (Adam itself hardly lets pass@k fall here,
# for it divides the row of each answer by the size of its own gradients; a network has no such rows.)
_COUNTDOWN: SweepSettings = ON_INTERFERENCE | {
    **dict(arms=("grpo",), seeds=5, steps=40, record_every=1, pass_at_k=powers(0, 6)),
    "parameters": {RATE: (1.0, 3.0, 10.0), "problem.overlap": (0.1, 0.3)}
    | fixed("problem", prompts=256, actions=256, solve_rates="beta", beta_a=0.96, beta_b=6.5)
    | fixed("problem", features="random", dimension=32),
}


def _batch(group_size: int = 16, **run: float) -> SweepSettings:
    """Return GRPO with 512 rollouts a step in groups of one size."""
    return over(_COUNTDOWN, fixed("run", prompts_per_step=512 // group_size, **run), group_sizes=(group_size,))


INTERFERENCE_COUNTDOWN: Preset = {
    "weights": _batch() | {"arms": names("grpo f_grpo maxrl a_grae fade cw_grpo casp nsr pass_at_k_chen(k=4)")},
    "kl": _batch(kl=0.1),
    "entropy": _batch(entropy_bonus=0.03),
    **{f"group-{size}": _batch(size) for size in (2, 4, 8, 32)},
}

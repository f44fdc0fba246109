"""Preset ``lately``: what papers since July 2026 say of paths, stale samplers, erring verifiers and coverage."""

from simlab.sweeps.presets.base import (
    HARD_BANK,
    ON_BANK,
    ON_INTERFERENCE,
    RATE,
    UNTIL_SOLVED,
    Preset,
    SweepSettings,
    fixed,
    names,
    over,
)

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
LATELY: Preset = {
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

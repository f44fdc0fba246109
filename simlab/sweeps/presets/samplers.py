"""Presets on what stands between rollouts and update: old samplers, clips, steps on one batch, verifiers that err."""

from typing import Any

from simlab.estimators import estimator
from simlab.simulator.mismatch import CORRECTIONS
from simlab.surrogates import SURROGATES
from simlab.sweeps.presets.base import (
    BANK,
    HARD_BANK,
    ON_BANK,
    ON_INTERFERENCE,
    RATE,
    Preset,
    SweepSettings,
    fixed,
    over,
    powers,
    response_level,
)

# ``lag`` and ``mismatch``: old, imprecise and truncated samplers, and what corrections make of them. The hard bank with
# the rare modes as target set; the learning rate solves four in five rollouts within 150 steps of a sampler that is up
# to date.
_GRPO: SweepSettings = ON_BANK | {
    **dict(estimators=("grpo",), surrogates=("ppo_clip",), seeds=24, steps=150, record_every=5),
    "parameters": HARD_BANK | {"problem.margin": (0.01,), RATE: (32.0,), "run.correction": CORRECTIONS},
}
LAG: Preset = {
    "bank": over(_GRPO, {"run.lag": (0, 1, 4, 16)}),
    # Rollouts of six tokens, four of which are right and one of these twice as likely as the others.
    "tree": _GRPO
    | dict(problem="tree", steps=300)
    | {
        "parameters": fixed("problem", depth=6, branching=3, rewarded="AAAAAA,ABCABC,BBCCAA,CABBAC", anchor_logit=0.25)
        | {RATE: (4.0,), "run.correction": CORRECTIONS, "run.correction_unit": ("token", "sequence"), "run.lag": (16,)}
    },
}
MISMATCH: Preset = {
    "precision": over(_GRPO, {"run.sampler": ("bfloat16", "float16")}),
    "top-p": over(_GRPO, {"run.sampler": ("top_p",), "run.top_p": (1.0, 0.99, 0.95, 0.9, 0.8, 0.6)}),
    "top-k": over(_GRPO, {"run.sampler": ("top_k",), "run.top_k": (16, 4)}),
}

# ``minibatches``: how far the ratio drifts in a batch, and what a clip does about it, at equal rollouts. Prompts share
# features, at the problem's defaults: with features of their own a minibatch would not move the others' ratio. At a
# quarter of the learning rate PPO's clip hardly ever acts.
MINIBATCHES: SweepSettings = ON_INTERFERENCE | {
    **dict(estimators=("grpo",), surrogates=("unclipped", "ppo_clip", "clip_higher"), pass_at_k=(1, 16, 256)),
    **dict(seeds=24, steps=60, record_every=2),
    "parameters": {RATE: (4.0,), "run.minibatches": (1, 4), "run.epochs": (1, 2, 4)},
}

# ``surrogates``: every surrogate where ratios leave 1, with all gradient steps of one norm. With one gradient step a
# batch they are one method, but for those that drop tokens. A prompt of the bank has parameters of its own, so that
# steps on other prompts leave its ratios as they are: there epochs tell the surrogates apart. Prompts that share
# features also move one another, so that minibatches alone do. The target of a bound that follows the entropy is a
# choice of the run: it is left out.
_EPOCHS: SweepSettings = ON_BANK | {
    **dict(estimators=("grpo",), seeds=16, steps=300, record_every=10),
    "surrogates": tuple(name for name in SURROGATES if name != "entropy_target_clip"),
    "parameters": BANK | {RATE: (1.0,), "run.update_norm": (0.5,), "run.epochs": (1, 4, 16)},
}
SURROGATES_COMPARED: Preset = {
    "epochs": _EPOCHS,
    "minibatches": _EPOCHS
    | dict(problem="interference", steps=100, seeds=8)
    | {"parameters": {RATE: (1.0,), "run.update_norm": (0.4,), "run.minibatches": (1, 8)}},
}

# ``verifier``: what a verifier that errs does to each weight, by what its errors belong to. Updates are scaled to one
# of two norms, so that a weight is not ahead or behind for the length of its steps alone.
_ERRORS_OF = ("rollout", "answer", "prompt")
_FALSE_POSITIVES = (0.0, 0.02, 0.1)
_YOUDEN = (0.0, 0.25, 0.5, 0.75, 1.0)
_PLAIN: SweepSettings = ON_BANK | {
    **dict(surrogates=("reinforce",), seeds=32, steps=400, record_every=20, pass_at_k=(1, 16, 256)),
    "parameters": BANK | {RATE: (1.0,)},
}


def _erring(*estimators: str, norms: tuple[float, ...] = (0.25, 1.0), **run: Any) -> SweepSettings:
    """Return estimators at fixed update norms, with parameters of a run."""
    named = {f"run.{name}": values for name, values in run.items()}
    return over(_PLAIN, {"run.update_norm": norms} | named, estimators=estimators)


# The verifier of a greedy answer does not err.
_JUDGED = tuple(name for name in response_level() if "greedy_reward" not in estimator(name).needs)
_FOCUS = _erring("f_grpo", false_positive=(0.0, 0.01, 0.02, 0.05, 0.1, 0.2), errors_of=_ERRORS_OF)
VERIFIER: Preset = {
    "weights": _erring(*_JUDGED, false_positive=_FALSE_POSITIVES, errors_of=_ERRORS_OF),
    "focus": over(_FOCUS, {"estimator.gamma": (0.0, 0.5, 1.0, 2.0, 4.0)}),
    "groups": _erring("dr_grpo", "grpo", "maxrl", "f_grpo", false_positive=_FALSE_POSITIVES, errors_of=_ERRORS_OF[:2])
    | {"group_sizes": powers(1, 6)},
    # Plain steps of some rates under each correction: a clock shows as a shift of the curve over the rates.
    "corrections": over(
        _PLAIN,
        {RATE: tuple(2.0**power for power in range(-1, 8))}
        | fixed("run", false_positive=0.1, false_negative=0.2)
        | {"run.verifier_correction": ("none", "backward", "forward"), "run.errors_of": ("rollout", "answer")},
        estimators=("reinforce", "dr_grpo", "grpo"),
    ),
    "youden": _erring("dr_grpo", "grpo", "maxrl", norms=(0.25,), false_positive=_YOUDEN, false_negative=_YOUDEN),
}

"""The preset ``verifier``: what a verifier that errs does to each weight, by what its errors belong to.

Updates are scaled to one of two norms, so that a weight is not ahead or behind for the length of its steps alone.
"""

from typing import Any

from simlab.estimators import estimator
from simlab.sweeps.presets.league import response_level
from simlab.sweeps.presets.settings import Settings

ERRORS_OF = ("rollout", "answer", "prompt")
FALSE_POSITIVES = (0.0, 0.02, 0.1)
NORMS = (0.25, 1.0)

# 32 prompts with solve rates from 1e-3, most of them hard, each with 4 common and 4 rare correct modes of 64 actions.
BANK: dict[str, tuple[Any, ...]] = {
    "problem.prompts": (32,),
    "problem.actions": (64,),
    "problem.beta_a": (0.35,),
    "problem.beta_b": (1.0,),
    "problem.margin": (1e-3,),
    "problem.modes": (8,),
    "problem.rare_modes": (4,),
    "problem.rare_ratio": (0.1,),
    "run.prompts_per_step": (8,),
}
_PLAIN: Settings = {
    "group_sizes": (8,),
    "seeds": 32,
    "steps": 400,
    "record_every": 20,
    "problem": "prompt_bank",
    "surrogates": ("reinforce",),
    "optimizer": "sgd",
    "pass_at_k": (1, 16, 256),
    "top_n": 0,
}


def _erring(estimators: tuple[str, ...], norms: tuple[float, ...] = NORMS, **run: Any) -> Settings:
    """Estimators at fixed update norms, with settings of a run."""
    sizes = {"optimizer.learning_rate": (1.0,), "run.update_norm": norms}
    return _PLAIN | {
        "estimators": estimators,
        "parameters": BANK | sizes | {f"run.{name}": values for name, values in run.items()},
    }


def _corrected(rates: tuple[float, ...], *estimators: str) -> Settings:
    """Plain steps of some rates under each correction: a clock shows as a curve over the rates that is moved aside."""
    errors = {"run.false_positive": (0.1,), "run.false_negative": (0.2,)}
    corrections = {"run.verifier_correction": ("none", "backward", "forward"), "run.errors_of": ("rollout", "answer")}
    return _PLAIN | {
        "estimators": estimators,
        "parameters": BANK | {"optimizer.learning_rate": rates} | errors | corrections,
    }


# The verifier of a greedy answer does not err.
_JUDGED = tuple(name for name in response_level() if "greedy_reward" not in estimator(name).needs)

VERIFIER: dict[str, Settings] = {
    "weights": _erring(_JUDGED, false_positive=FALSE_POSITIVES, errors_of=ERRORS_OF),
    "focus": _erring(("f_grpo",), false_positive=(0.0, 0.01, 0.02, 0.05, 0.1, 0.2), errors_of=ERRORS_OF),
    "groups": _erring(("dr_grpo", "grpo", "maxrl", "f_grpo"), false_positive=FALSE_POSITIVES, errors_of=ERRORS_OF[:2])
    | {"group_sizes": (2, 4, 8, 16, 32, 64)},
    "corrections": _corrected(tuple(2.0**power for power in range(-1, 8)), "reinforce", "dr_grpo", "grpo"),
    "youden": _erring(
        ("dr_grpo", "grpo", "maxrl"),
        (0.25,),
        false_positive=(0.0, 0.25, 0.5, 0.75, 1.0),
        false_negative=(0.0, 0.25, 0.5, 0.75, 1.0),
    ),
}
VERIFIER["focus"]["parameters"] |= {"estimator.gamma": (0.0, 0.5, 1.0, 2.0, 4.0)}

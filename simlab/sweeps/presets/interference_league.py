"""The preset ``interference-league``: every weight on prompts that share features, and rivals that cost nothing to add.

Runs are compared where their pass@1 is the same, so that a longer or shorter step alone makes no difference.
"""

from typing import Any

from simlab.estimators import REGISTRY
from simlab.surrogates import SURROGATES
from simlab.sweeps.presets.settings import Settings

_RATES = (0.25, 0.5, 1.0, 2.0, 4.0)
_ADAM_RATES = (0.001, 0.002, 0.004, 0.008)
_ALL = tuple(name for name in REGISTRY if name != "linked")  # which stands for many

# The problem at its defaults: 32 prompts, overlap .3, full conflict. All prompts a step, plain gradient steps.
_PLAIN: Settings = {
    "group_sizes": (8,),
    "seeds": 24,
    "steps": 600,
    "record_every": 10,
    "problem": "interference",
    "optimizer": "sgd",
    "parameters": {"optimizer.learning_rate": _RATES},
    "pass_at_k": (1, 16, 256),
    "top_n": 0,
}


def _by_reward(estimators: tuple[str, ...], **parameters: tuple[Any, ...]) -> Settings:
    """Estimators under the plain policy gradient, with parameters of a run."""
    run = {f"run.{name}": values for name, values in parameters.items()}
    return _PLAIN | {
        "estimators": estimators,
        "surrogates": ("reinforce",),
        "parameters": _PLAIN["parameters"] | run,
    }


_AT_NORM = {"optimizer.learning_rate": (1.0,), "run.update_norm": (0.05, 0.1, 0.2)}
_REJECTING = ("grpo", "maxrl")
# Features of no preferred basis, for Adam divides every coordinate by the size of its own gradients.
_ROTATED = {"problem.features": ("random",), "problem.dimension": (256,)}

INTERFERENCE_LEAGUE: dict[str, Settings] = {
    "rate": _by_reward(_ALL),
    "norm": _by_reward(_ALL) | {"parameters": _AT_NORM},
    # With one gradient step a batch the ratio is 1 and no clip acts.
    "surrogates": _PLAIN
    | {
        "estimators": ("grpo",),
        "surrogates": tuple(SURROGATES),
        "parameters": _PLAIN["parameters"] | {"run.epochs": (4,)},
    },
    "groups": _by_reward(("grpo", "f_grpo", "maxrl")) | {"group_sizes": (2, 32, 128)},
    "kl": _by_reward(("grpo",), kl=(0.01, 0.03, 0.1, 0.3)),
    "entropy": _by_reward(("grpo",), entropy_bonus=(0.01, 0.03, 0.1, 0.3)),
    "supervised": _by_reward(("grpo",), supervised=(0.03, 0.1, 0.3, 1.0)),
    "easy": _by_reward(("reject_easy",))
    | {"parameters": _PLAIN["parameters"] | {"estimator.threshold": (0.25, 0.5, 0.75), "estimator.base": _REJECTING}},
    "rotated": _by_reward(("grpo", "maxrl")) | {"parameters": _PLAIN["parameters"] | _ROTATED, "seeds": 12},
    "adam": _by_reward(("grpo", "maxrl"))
    | {"optimizer": "adam", "parameters": {"optimizer.learning_rate": _ADAM_RATES}},
    "adam-rotated": _by_reward(("grpo", "maxrl"))
    | {"optimizer": "adam", "parameters": {"optimizer.learning_rate": _ADAM_RATES} | _ROTATED, "seeds": 12},
}

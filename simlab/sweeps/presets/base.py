"""Share problems, runs with plain gradient steps, and the estimators that take part between presets."""

from typing import Any

import numpy as np

from simlab.estimators import REGISTRY
from simlab.rollouts import Rollouts

SweepSettings = dict[str, Any]  # fields of ``Sweep``, those that differ from its defaults
Preset = dict[str, SweepSettings]  # one sweep or several, each with a name of its own; one alone has none
Values = dict[str, tuple[Any, ...]]  # of parameters, by their qualified names

RATE = "optimizer.learning_rate"
PLAIN_STEPS: SweepSettings = {"group_sizes": (8,), "optimizer": "sgd", "top_n": 0}
ON_BANK: SweepSettings = PLAIN_STEPS | {"problem": "prompt_bank", "pass_at_k": (1, 256)}
ON_INTERFERENCE: SweepSettings = PLAIN_STEPS | {"problem": "interference"}


def fixed(section: str, **values: Any) -> Values:
    """Return parameters of a section, each at one value."""
    return {f"{section}.{name}": (value,) for name, value in values.items()}


def names(text: str) -> tuple[str, ...]:
    """Return the names in a text that spaces separate."""
    return tuple(text.split())


def powers(first: int, last: int) -> tuple[int, ...]:
    """Return the powers of two from 2^first to 2^last."""
    return tuple(2**power for power in range(first, last + 1))


def over(base: SweepSettings, parameters: Values, /, **changes: Any) -> SweepSettings:
    """Return a sweep with other settings, and with more or other parameters."""
    return base | changes | {"parameters": base.get("parameters", {}) | parameters}


def response_level() -> tuple[str, ...]:
    """Return the registered estimators with advantages (P, G), not (P, G, T), of rewards without parts or roles.

    ``linked``, which stands for many, is left out.
    """
    tokens = np.zeros((1, 2, 1))
    fields = dict.fromkeys(("old_logp", "entropy", "collision", "teacher_logp"), tokens)
    batch = Rollouts(np.array([[1.0, 0.0]]), greedy_reward=np.zeros((1, 2)), **fields)
    built = {name: entry.build() for name, entry in REGISTRY.items() if name != "linked"}
    plain = {name: chosen for name, chosen in built.items() if not chosen.needs & {"parts", "role"}}
    return tuple(name for name, chosen in plain.items() if chosen.update(batch, chosen.init())[0].ndim == 2)


# 32 prompts with solve rates from 1e-3, most of them hard, each with 4 common and 4 rare correct modes of 64 actions.
HARD_BANK = fixed(
    "problem", prompts=32, actions=64, beta_a=0.35, beta_b=1.0, margin=1e-3, modes=8, rare_modes=4, rare_ratio=0.1
)
BANK = HARD_BANK | fixed("run", prompts_per_step=8)

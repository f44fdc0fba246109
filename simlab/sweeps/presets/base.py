"""Share problems, runs with plain gradient steps, and the estimators that take part between presets."""

from typing import Any

import numpy as np

from simlab.estimators import REGISTRY
from simlab.rollouts import Rollouts

SweepSettings = dict[str, Any]  # fields of ``Sweep``, those that differ from its defaults
Preset = dict[str, SweepSettings]  # one sweep or several, each with a name of its own; one alone has none
Values = dict[str, tuple[Any, ...]]  # of parameters, by their qualified names
PRESETS: dict[str, Preset] = {}  # by name: the other files fill it

RATE = "optimizer.learning_rate"
WEIGHTS = tuple(name for name in REGISTRY if name != "linked")  # which stands for many
PLAIN_STEPS: SweepSettings = {"group_sizes": (8,), "optimizer": "sgd", "top_n": 0}
ON_BANK: SweepSettings = PLAIN_STEPS | {"problem": "prompt_bank", "pass_at_k": (1, 256)}
ON_INTERFERENCE: SweepSettings = PLAIN_STEPS | {"problem": "interference"}


def fixed(section: str, **values: Any) -> Values:
    """Return parameters of a section, each at one value."""
    return {f"{section}.{name}": (value,) for name, value in values.items()}


# What trainers add to GRPO: a pull towards the sampler (prime-rl), a bonus below an entropy (TRL), more rollouts of
# prompts until one is right (NGU).
PENALISED = ("grpo+dppo_tv+log_ratio_penalty", "grpo+ipo_mask+log_ratio_penalty")
BY_ENTROPY = tuple(f"grpo+reinforce+adaptive_entropy_bonus(target={target})" for target in (0.2, 1.0, 2.0))
UNTIL_SOLVED: Values = fixed("run", allocation="until_solved", smallest_group=4)


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
    """Return the ``WEIGHTS`` with advantages (P, G), not (P, G, T), of rewards without parts or roles."""
    tokens = np.zeros((1, 2, 1))
    fields = dict.fromkeys(("old_logp", "entropy", "collision", "teacher_logp"), tokens)
    batch = Rollouts(np.array([[1.0, 0.0]]), greedy_reward=np.zeros((1, 2)), **fields)
    built = {name: REGISTRY[name].build() for name in WEIGHTS}
    plain = {name: chosen for name, chosen in built.items() if not chosen.needs & {"parts", "role"}}
    return tuple(name for name, chosen in plain.items() if chosen.update(batch, chosen.init())[0].ndim == 2)


# 32 prompts with solve rates from 1e-3, most of them hard, each with 4 common and 4 rare correct modes of 64 actions.
HARD_BANK = fixed(
    "problem", prompts=32, actions=64, beta_a=0.35, beta_b=1.0, margin=1e-3, modes=8, rare_modes=4, rare_ratio=0.1
)
BANK = HARD_BANK | fixed("run", prompts_per_step=8)

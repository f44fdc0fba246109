"""Estimators: from a batch of rollouts to the advantage of each.

Written against the Python array API: NumPy, JAX (under ``jit`` and ``vmap``), torch and array-api-strict run this
one source, and importing it imports neither JAX nor torch.
"""

from simlab.estimators.base import Estimator, Link, chain, stateless
from simlab.estimators.baseline import center
from simlab.estimators.difficulty import focal, power, shift_difficulty
from simlab.estimators.named import (
    a_grae,
    asym_grpo,
    dr_grpo,
    f_grpo,
    fade,
    grpo,
    maxrl,
    nsr,
    power_alpha,
    psr,
    reinforce,
    rloo,
    w_reinforce,
)
from simlab.estimators.registry import REGISTRY, Registered, advantages, estimator, register
from simlab.estimators.scale import divide_by_mean, divide_by_std
from simlab.estimators.schedule import fade_schedule
from simlab.estimators.sign import attenuate_successes, divide_failures, outcome

__all__ = [
    "REGISTRY",
    "Estimator",
    "Link",
    "Registered",
    "a_grae",
    "advantages",
    "asym_grpo",
    "attenuate_successes",
    "center",
    "chain",
    "divide_by_mean",
    "divide_by_std",
    "divide_failures",
    "dr_grpo",
    "estimator",
    "f_grpo",
    "fade",
    "fade_schedule",
    "focal",
    "grpo",
    "maxrl",
    "nsr",
    "outcome",
    "power",
    "power_alpha",
    "psr",
    "register",
    "reinforce",
    "rloo",
    "shift_difficulty",
    "stateless",
    "w_reinforce",
]

"""Presets ``budget`` and ``allocation``: group sizes and ways to allocate rollouts, at equal cost.

The learning rate is swept too, since each group size has a best one of its own.
"""

from typing import Any

from simlab.simulator.allocation import ALLOCATIONS, INFORMED
from simlab.sweeps.budget import Budget
from simlab.sweeps.presets.base import PLAIN_STEPS, RATE, Preset, SweepSettings, Values

_GRPO: SweepSettings = PLAIN_STEPS | {"estimators": ("grpo",), "surrogates": ("reinforce",), "pass_at_k": (64,)}

# Group size, prompts a step and steps for prompts of several difficulties: 8 easy prompts and 8 hard ones for which the
# answer of the easy ones is wrong. Runs come to all or nothing, prompt by prompt, so that they need many seeds.
_PROMPTS: Values = {
    "problem.prompts": (16,),
    "problem.overlap": (0.3,),
    "run.prompts_per_step": (8,),
    RATE: (16.0, 32.0, 64.0, 128.0),
}
_DIFFICULTIES: Values = {"problem.hard_rate": (0.1, 0.03, 0.01)}
# Fewer seeds, but more sizes and rates: the differences are large, and small groups are part of them.
_WIDE: Values = {RATE: (8.0, 16.0, 32.0, 64.0, 128.0, 256.0)}
_WIDER: SweepSettings = {"group_sizes": tuple(2**power for power in range(2, 11)), "seeds": 16}


def _at_cost(parameters: Values, update_cost: float = 0.0, **changes: Any) -> SweepSettings:
    """Return a sweep of group sizes that may spend 2^20 rollouts a run."""
    sizes = {"group_sizes": tuple(2**power for power in range(3, 11)), "seeds": 64, "problem": "interference"}
    budget = Budget(2.0**20, update_cost=update_cost, records=128)
    return _GRPO | sizes | changes | {"budget": budget, "parameters": _PROMPTS | parameters}


BUDGET: Preset = {
    "difficulty": _at_cost(_DIFFICULTIES),
    # Without shared features nothing but the noise of a prompt's own gradient speaks for larger groups.
    "apart": _at_cost(_DIFFICULTIES | _WIDE | {"problem.overlap": (0.0,)}, **_WIDER),
    # A gradient step as dear as 256 rollouts: small groups pay for many.
    "updates": _at_cost(_DIFFICULTIES | _WIDE, update_cost=256.0, **_WIDER),
    "prompts": _at_cost(
        {"problem.hard_rate": (0.01,), "run.prompts_per_step": (2, 4, 8, 16)}, group_sizes=(32, 128, 512)
    ),
}


# Each allocation goes by what earlier groups have shown; the sweeps ``-exact`` give it the solve rates.
def _allocated(name: str, problem: str, total: float, parameters: Values) -> Preset:
    """Return a sweep of allocations by estimates, and one of those that go by solve rates, by the exact ones."""
    run = {"seeds": 16, "budget": Budget(total, records=32), "problem": problem}
    shared = parameters | {RATE: (4.0, 8.0, 16.0, 32.0, 64.0)}
    estimated = shared | {"run.allocation": ALLOCATIONS}
    exact = shared | {"run.allocation": INFORMED, "run.allocation_by": ("exact",)}
    return {name: _GRPO | run | {"parameters": estimated}, f"{name}-exact": _GRPO | run | {"parameters": exact}}


# 64 prompts, most of them nearly solved or nearly unsolved; and 8 easy prompts with 8 hard ones, as above.
_SHARED: Values = {"problem.prompts": (16,), "problem.hard_rate": (0.03, 0.01), "run.prompts_per_step": (8,)}
ALLOCATION: Preset = _allocated("bank", "prompt_bank", 2.0**17, {"run.prompts_per_step": (16,)}) | _allocated(
    "shared", "interference", 2.0**18, _SHARED
)

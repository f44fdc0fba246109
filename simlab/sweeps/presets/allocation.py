"""The preset ``allocation``: ways to allocate the rollouts of a step, at equal cost, on prompts apart and together.

The learning rate is swept too. Each allocation goes by what earlier groups have shown; the sweeps ``-exact`` tell it
the solve rates.
"""

from typing import Any

from simlab.simulator.allocation import ALLOCATIONS, INFORMED
from simlab.sweeps.budget import Budget
from simlab.sweeps.presets.settings import Settings


def _allocated(problem: str, total: float, parameters: dict[str, tuple[Any, ...]]) -> tuple[Settings, Settings]:
    """A sweep of allocations by estimates, and one of those that go by solve rates by the exact ones."""
    usual: Settings = {
        "estimators": ("grpo",),
        "group_sizes": (8,),
        "seeds": 16,
        "budget": Budget(total, records=32),
        "problem": problem,
        "surrogates": ("reinforce",),
        "optimizer": "sgd",
        "pass_at_k": (64,),
        "top_n": 0,
    }
    estimated = parameters | {"run.allocation": ALLOCATIONS}
    exact = parameters | {"run.allocation": INFORMED, "run.allocation_by": ("exact",)}
    return usual | {"parameters": estimated}, usual | {"parameters": exact}


# 64 prompts, most of them nearly solved or nearly unsolved.
_BANK = _allocated(
    "prompt_bank",
    2.0**17,
    {"run.prompts_per_step": (16,), "optimizer.learning_rate": (4.0, 8.0, 16.0, 32.0, 64.0)},
)
# 8 easy prompts and 8 hard ones for which the answer of the easy ones is wrong.
_SHARED = _allocated(
    "interference",
    2.0**18,
    {
        "problem.prompts": (16,),
        "problem.hard_rate": (0.03, 0.01),
        "run.prompts_per_step": (8,),
        "optimizer.learning_rate": (4.0, 8.0, 16.0, 32.0, 64.0),
    },
)
ALLOCATION: dict[str, Settings] = {
    "bank": _BANK[0],
    "bank-exact": _BANK[1],
    "shared": _SHARED[0],
    "shared-exact": _SHARED[1],
}

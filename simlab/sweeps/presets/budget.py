"""The preset ``budget``: group size, prompts a step and steps at equal cost, for prompts of several difficulties.

The learning rate is swept too, since each group size has a best one of its own. Runs come to all or nothing, prompt by
prompt, so that they need many seeds.
"""

from typing import Any

from simlab.sweeps.budget import Budget
from simlab.sweeps.presets.settings import Settings

# 8 easy prompts and 8 hard ones for which the answer of the easy ones is wrong.
_USUAL: dict[str, tuple[Any, ...]] = {
    "problem.prompts": (16,),
    "problem.overlap": (0.3,),
    "run.prompts_per_step": (8,),
    "optimizer.learning_rate": (16.0, 32.0, 64.0, 128.0),
}
_TOTAL = 2.0**20  # rollouts
_RECORDS = 128


def _at_cost(parameters: dict[str, tuple[Any, ...]], update_cost: float = 0.0, **changes: Any) -> Settings:
    """A sweep of group sizes on the usual prompts but for some parameters."""
    usual: Settings = {
        "estimators": ("grpo",),
        "group_sizes": tuple(2**power for power in range(3, 11)),
        "seeds": 64,
        "budget": Budget(_TOTAL, update_cost=update_cost, records=_RECORDS),
        "problem": "interference",
        "surrogates": ("reinforce",),
        "optimizer": "sgd",
        "pass_at_k": (64,),
        "top_n": 0,
    }
    return usual | changes | {"parameters": _USUAL | parameters}


_DIFFICULTIES = {"problem.hard_rate": (0.1, 0.03, 0.01)}
# Of fewer seeds, but more sizes and rates: what they show is plain, and small groups are part of it.
_WIDE = {"optimizer.learning_rate": (8.0, 16.0, 32.0, 64.0, 128.0, 256.0)}
_WIDER: Settings = {"group_sizes": tuple(2**power for power in range(2, 11)), "seeds": 16}
BUDGET: dict[str, Settings] = {
    "difficulty": _at_cost(_DIFFICULTIES),
    # Without shared features nothing but the noise of a prompt's own gradient speaks for larger groups.
    "apart": _at_cost(_DIFFICULTIES | _WIDE | {"problem.overlap": (0.0,)}, **_WIDER),
    # A gradient step as dear as 256 rollouts: small groups pay for many.
    "updates": _at_cost(_DIFFICULTIES | _WIDE, update_cost=256.0, **_WIDER),
    "prompts": _at_cost(
        {"problem.hard_rate": (0.01,), "run.prompts_per_step": (2, 4, 8, 16)}, group_sizes=(32, 128, 512)
    ),
}

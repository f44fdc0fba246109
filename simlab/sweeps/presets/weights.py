"""Presets on weights, group sizes and ways to allocate rollouts: long runs, baselines, and runs of equal cost."""

from typing import Any

from simlab.simulator.allocation import ALLOCATIONS, INFORMED
from simlab.sweeps.budget import Budget
from simlab.sweeps.presets.base import (
    BANK,
    ON_BANK,
    PLAIN_STEPS,
    RATE,
    Preset,
    SweepSettings,
    Values,
    fixed,
    names,
    over,
    powers,
    response_level,
)
from simlab.sweeps.presets.interference import INTERFERENCE_LEAGUE

# ``league``: plain gradient steps, each scaled to one of four norms. Seeds are paired: one draws the same random
# numbers for all.
_NAMED: SweepSettings = ON_BANK | {
    **dict(estimators=response_level(), surrogates=("reinforce",), seeds=32, steps=300, record_every=100),
    "parameters": BANK | {RATE: (1.0,), "run.update_norm": (0.25, 0.5, 1.0, 2.0)},
}
LEAGUE: Preset = {
    "named": _NAMED,
    # Scales with weights of difficulty and of sign, all after the mean of the group.
    "links": over(
        _NAMED,
        {"estimator.scale": ("none", "std", "mean"), "estimator.difficulty": ("none", "focal")}
        | {"estimator.sign": ("none", "divide_failures", "relu")},
        estimators=("linked",),
    ),
    # Some of them without a fixed norm. One of the learning rates, a factor of 2 apart, makes the norm of the first
    # steps 1/2, within a factor of 1.5, whatever the estimator.
    "fixed-rate": _NAMED
    | {
        "estimators": names(
            "dr_grpo grpo maxrl f_grpo easy_power psr nsr a_grae pass_at_k_chen pass_at_k_tang pkpo fade"
        ),
        "seeds": 16,
        "parameters": BANK | {RATE: tuple(map(float, powers(1, 7)))},
    },
}

# ``ceiling``: long runs, to see which weights raise what pass@1 and pass@256 come to; ``simlab fit`` fits a sigmoid to
# each curve. Learning rates are fixed, so that a weight has its own pace. On interfering prompts GRPO's pass@1 has done
# nearly all of its way after a quarter of the steps: the later ones show what fits to that quarter have foretold.
_LONG: SweepSettings = {"steps": 3200, "record_every": 40}
CEILING: Preset = {
    "interference": over(INTERFERENCE_LEAGUE["rate"], {RATE: (2.0,)}, seeds=8, **_LONG),
    "bank": _NAMED | _LONG | {"seeds": 16, "parameters": BANK | {RATE: (8.0,)}},
}

# ``remax``: the greedy answer as a baseline, beside no baseline, the group's mean and its median. All runs cost the
# same, as the league's 300 steps or as the 600 steps of all 32 prompts of interference: ReMax samples one answer more a
# prompt, and so takes fewer steps.
_REMAX: SweepSettings = PLAIN_STEPS | {
    **dict(surrogates=("reinforce",), seeds=16, pass_at_k=(1, 256)),
    "estimators": ("remax", "reinforce", "dr_grpo", "mc_grpo", "nsr"),
}
REMAX: Preset = {
    "bank": over(_REMAX, BANK | {RATE: (1.0,), "run.update_norm": (0.5, 1.0)})
    | {"problem": "prompt_bank", "budget": Budget(300 * 8 * 8, records=30)},
    "interference": over(_REMAX, {RATE: (0.5, 1.0, 2.0)})
    | {"problem": "interference", "budget": Budget(600 * 32 * 8, records=60)},
}

# ``budget``: group size, prompts a step and steps at equal cost, 2^20 rollouts a run, for prompts of several
# difficulties: 8 easy prompts and 8 hard ones for which the answer of the easy ones is wrong. Runs come to all or
# nothing, prompt by prompt, so that they need many seeds. The learning rate is swept too, since each group size has a
# best one of its own.
_EQUAL_COST: SweepSettings = PLAIN_STEPS | {
    **dict(estimators=("grpo",), surrogates=("reinforce",), pass_at_k=(64,), problem="interference"),
    **dict(group_sizes=powers(3, 10), seeds=64, budget=Budget(2.0**20, records=128)),
}
_PROMPTS = fixed("problem", prompts=16) | fixed("run", prompts_per_step=8)
_EASY_AND_HARD: Values = fixed("problem", overlap=0.3) | {RATE: (16.0, 32.0, 64.0, 128.0)}
_DIFFICULTIES = over(_EQUAL_COST, _PROMPTS | _EASY_AND_HARD | {"problem.hard_rate": (0.1, 0.03, 0.01)})
# Fewer seeds, but more sizes and rates: the differences are large, and small groups are part of them.
_WIDE = over(_DIFFICULTIES, {RATE: (8.0, 16.0, 32.0, 64.0, 128.0, 256.0)}, group_sizes=powers(2, 10), seeds=16)
BUDGET: Preset = {
    "difficulty": _DIFFICULTIES,
    # Without shared features nothing but the noise of a prompt's own gradient speaks for larger groups.
    "apart": over(_WIDE, fixed("problem", overlap=0.0)),
    # A gradient step as dear as 256 rollouts: small groups pay for many.
    "updates": _WIDE | {"budget": Budget(2.0**20, update_cost=256.0, records=128)},
    "prompts": over(_DIFFICULTIES, {"run.prompts_per_step": (2, 4, 8, 16)} | fixed("problem", hard_rate=0.01))
    | {"group_sizes": (32, 128, 512)},
}


def _allocated(name: str, problem: str, total: float, parameters: Values) -> Preset:
    """Return a sweep of allocations that go by what earlier groups have shown, and one that go by the solve rates."""
    changes: dict[str, Any] = {"group_sizes": (8,), "seeds": 16, "budget": Budget(total, records=32)}
    shared = over(_EQUAL_COST, parameters | {RATE: (4.0, 8.0, 16.0, 32.0, 64.0)}, problem=problem, **changes)
    exact = {"run.allocation": INFORMED, "run.allocation_by": ("exact",)}
    return {name: over(shared, {"run.allocation": ALLOCATIONS}), f"{name}-exact": over(shared, exact)}


# ``allocation``: 64 prompts, most of them nearly solved or nearly unsolved; and 8 easy prompts with 8 hard ones.
ALLOCATION: Preset = {
    **_allocated("bank", "prompt_bank", 2.0**17, fixed("run", prompts_per_step=16)),
    **_allocated("shared", "interference", 2.0**18, _PROMPTS | {"problem.hard_rate": (0.03, 0.01)}),
}

"""Presets on a bank of prompts: weights, allocations, samplers, clips, verifiers that err, graded rewards."""

from typing import Any

from simlab.estimators import estimator
from simlab.simulator.allocation import ALLOCATIONS, INFORMED
from simlab.simulator.mismatch import CORRECTIONS
from simlab.surrogates import SURROGATES
from simlab.sweeps.grid import Budget
from simlab.sweeps.presets.base import (
    BANK,
    HARD_BANK,
    ON_BANK,
    ON_INTERFERENCE,
    PLAIN_STEPS,
    PRESETS,
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
PRESETS["league"] = {
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
PRESETS["ceiling"] = {
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
PRESETS["remax"] = {
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
PRESETS["budget"] = {
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
PRESETS["allocation"] = {
    **_allocated("bank", "prompt_bank", 2.0**17, fixed("run", prompts_per_step=16)),
    **_allocated("shared", "interference", 2.0**18, _PROMPTS | {"problem.hard_rate": (0.03, 0.01)}),
}

# ``lag`` and ``mismatch``: old, imprecise and truncated samplers, and what corrections make of them. The learning rate
# solves four in five rollouts of the hard bank within 150 steps of a sampler that is up to date.
_SAMPLED: SweepSettings = ON_BANK | {
    **dict(estimators=("grpo",), surrogates=("ppo_clip",), seeds=24, steps=150, record_every=5),
    "parameters": HARD_BANK | {"problem.margin": (0.01,), RATE: (32.0,), "run.correction": CORRECTIONS},
}
PRESETS["lag"] = {
    "bank": over(_SAMPLED, {"run.lag": (0, 1, 4, 16)}),
    # Rollouts of six tokens, four of which are right and one of these twice as likely as the others.
    "tree": _SAMPLED
    | dict(problem="tree", steps=300)
    | {
        "parameters": fixed("problem", depth=6, branching=3, rewarded="AAAAAA,ABCABC,BBCCAA,CABBAC", anchor_logit=0.25)
        | {RATE: (4.0,), "run.correction": CORRECTIONS, "run.correction_unit": ("token", "sequence"), "run.lag": (16,)}
    },
}
PRESETS["mismatch"] = {
    "precision": over(_SAMPLED, {"run.sampler": ("bfloat16", "float16")}),
    "top-p": over(_SAMPLED, {"run.sampler": ("top_p",), "run.top_p": (1.0, 0.99, 0.95, 0.9, 0.8, 0.6)}),
    "top-k": over(_SAMPLED, {"run.sampler": ("top_k",), "run.top_k": (16, 4)}),
}

# ``minibatches``: how far the ratio drifts in a batch, and what a clip does about it, at equal rollouts. Prompts share
# features, at the problem's defaults: with features of their own a minibatch would not move the others' ratio. At a
# quarter of the learning rate PPO's clip hardly ever acts.
_MINIBATCHES: SweepSettings = ON_INTERFERENCE | {
    **dict(estimators=("grpo",), surrogates=("unclipped", "ppo_clip", "clip_higher"), pass_at_k=(1, 16, 256)),
    **dict(seeds=24, steps=60, record_every=2),
    "parameters": {RATE: (4.0,), "run.minibatches": (1, 4), "run.epochs": (1, 2, 4)},
}
PRESETS["minibatches"] = {"": _MINIBATCHES}

# ``surrogates``: every surrogate where ratios leave 1, with all gradient steps of one norm. A prompt of the bank has
# parameters of its own, so that steps on other prompts leave its ratios as they are: there epochs tell the surrogates
# apart. Prompts that share features also move one another, so that minibatches alone do. The target of a bound that
# follows the entropy is a choice of the run: it is left out.
_EPOCHS: SweepSettings = ON_BANK | {
    **dict(estimators=("grpo",), seeds=16, steps=300, record_every=10),
    "surrogates": tuple(name for name in SURROGATES if name != "entropy_target_clip"),
    "parameters": BANK | {RATE: (1.0,), "run.update_norm": (0.5,), "run.epochs": (1, 4, 16)},
}
PRESETS["surrogates"] = {
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
PRESETS["verifier"] = {
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

# ``graded-rewards``: what each part of a reward does to correctness, and a placebo that pays alike.
_GRADED: SweepSettings = PLAIN_STEPS | {
    **dict(arms=names("dr_grpo+reinforce grpo+reinforce gdpo+reinforce"), seeds=32, steps=400, record_every=5),
    **dict(pass_at_k=(1, 16), parameters={RATE: (0.3,)}),
}
_PARTIAL_CREDIT = over(_GRADED, {"problem.credit": (0.0, 0.5, 1.0)}, problem="partial_credit")
_REWARDS = ("true", "placebo", "placebo_by_group")
PRESETS["graded-rewards"] = {
    # Correctness beside a format: from no weight to that of correctness.
    "format": over(_GRADED, {"problem.format_weight": (0.0, 0.2, 1.0)}, problem="format_reward"),
    # Tests passed against all or nothing, of programs that share their first steps and of such that share nothing.
    "tests-by-token": _PARTIAL_CREDIT,
    "tests-apart": over(_PARTIAL_CREDIT, {"problem.by_token": (False,)}),
    # A penalty that rare right answers pay more of.
    "length": over(_GRADED, {"problem.penalty": (0.0, 0.3, 0.6)}, problem="length_penalty"),
    # Five items of which one never varies.
    "rubric": over(_GRADED, {}, problem="rubric"),
    # A check that is easy and wrong, from no weight to more than that of correctness.
    "hack": over(_GRADED, {"problem.hack_weight": (0.0, 0.1, 0.2, 0.5, 1.5)}, problem="reward_hack"),
    # The same with rewards that no answer earns.
    "placebo": over(_GRADED, {"run.reward": _REWARDS}, problem="format_reward"),
}

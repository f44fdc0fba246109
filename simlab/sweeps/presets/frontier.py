"""Preset ``frontier``: all that a run can be given, to be read by rollouts to a level of pass@1 and pass@256 there.

Each sweep has its kind and its condition in its name. A run has a budget of rollouts, so that what an allocation throws
away, a larger group or a greedy answer counts. Prompts that share a head take steps of one norm each, the network
Adam's: the length of a step is swept, and every length is a point.
"""

from typing import Any, NamedTuple

from simlab.estimators import REGISTRY
from simlab.simulator.allocation import ALLOCATIONS
from simlab.surrogates import SURROGATES
from simlab.sweeps.grid import Budget
from simlab.sweeps.presets.base import (
    BANK,
    ON_BANK,
    ON_INTERFERENCE,
    PRESETS,
    RATE,
    Preset,
    SweepSettings,
    Values,
    fixed,
    names,
    over,
)

NORM = "run.update_norm"


class Condition(NamedTuple):
    """A problem and its training: the level of pass@1 to reach, and lengths of a step, all and the usual ones."""

    shared: SweepSettings
    level: float
    length: str
    lengths: tuple[float, ...]
    usual: tuple[float, ...]


def _on_interference(overlap: float) -> Condition:
    parameters = fixed("problem", overlap=overlap) | {RATE: (1.0,)}
    shared = over(ON_INTERFERENCE, parameters, budget=Budget(640 * 256.0, records=256))
    return Condition(shared, 0.45, NORM, (0.1, 0.2, 0.4, 0.8, 1.6, 3.2), (0.4, 1.6, 3.2))


_IN_A_NETWORK: SweepSettings = dict(problem="network", optimizer="adam", top_n=0, budget=Budget(2.0**17, records=64))
_BY_ADAM = over(
    ON_INTERFERENCE, fixed("problem", overlap=0.3), optimizer="adam", budget=Budget(640 * 256.0, records=256)
)
_ON_A_BANK = over(ON_BANK, BANK | {RATE: (1.0,)}, budget=Budget(2.0**15, records=64))
CONDITIONS: dict[str, Condition] = {
    "linear-0.3": _on_interference(0.3),
    "network-adam": Condition(_IN_A_NETWORK, 0.45, RATE, (0.0005, 0.001, 0.004, 0.016), (0.001, 0.004, 0.016)),
    "linear-adam": Condition(_BY_ADAM, 0.45, RATE, (0.008, 0.016, 0.032, 0.064, 0.128, 0.256), (0.032, 0.128, 0.256)),
    "linear-0.6": _on_interference(0.6),
    "linear-0": _on_interference(0.0),
    "bank": Condition(_ON_A_BANK, 0.6, NORM, (0.25, 0.5, 1.0, 2.0, 4.0), (0.5, 2.0, 4.0)),
}
_VARIANTS = names("f_grpo(gamma=2) power_alpha(alpha=3) easy_power(alpha=3)")
_VARIANTS += names("pass_at_k_chen(k=2) pass_at_k_chen(k=8) pkpo(k=2) pkpo(k=8)")
_VARIANTS += names("tempered_grpo(beta=0.5)")
# One stands for many, and the other learns from a teacher, not from rewards.
_LEFT_OUT = names("linked opd")
WEIGHTS = tuple(f"{name}+reinforce" for name in (*REGISTRY, *_VARIANTS) if name not in _LEFT_OUT)
# Those that were there when the first of the runs were made.
EARLIER = tuple(name for name in WEIGHTS if not name.startswith(("optimal_token_baseline", "tempered_grpo")))
IN_GROUPS = names("grpo+reinforce maxrl+reinforce pass_at_k_tang+reinforce")
CLIPS = tuple(f"grpo+{name}" for name in SURROGATES if name != "reinforce")
# Those of which more seeds judge the front, and with some others those of the other conditions.
JUDGED = names(
    "grpo+reinforce f_grpo(gamma=2)+reinforce power_alpha(alpha=3)+reinforce maxrl+reinforce pkpo+reinforce "
    "pass_at_k_chen+reinforce pass_at_k_tang+reinforce reject_easy+reinforce reject_easy(threshold=0.25)+reinforce"
)
ELSEWHERE = (*JUDGED, *names("psr+reinforce nsr+reinforce easy_power(alpha=3)+reinforce bbg+reinforce"))
PLAIN = ("grpo+reinforce",)
WITH_A_BONUS = names("maxrl+reinforce pass_at_k_tang+reinforce reject_easy(threshold=0.25)+reinforce")
# The fastest runs take a few steps, so that the coefficient moves by a third of its bound.
ADAPTIVE = tuple(
    f"grpo+reinforce+adaptive_entropy_bonus(target={target},delta=0.1,highest=0.3)" for target in (1.0, 2.0, 3.0)
)
WITH_ALL_PROMPTS = tuple(name for name in ALLOCATIONS if name not in ("even", "learnable"))


def _sweeps(name: str, condition: Condition) -> Preset:

    def sweep(arms: tuple[str, ...], parameters: Values, lengths: tuple[float, ...], **changes: Any) -> SweepSettings:
        settings: SweepSettings = {"group_sizes": (8,), "seeds": 8, "pass_at_k": (1, 256), "arms": arms}
        return over(condition.shared, {condition.length: lengths} | parameters, **(settings | changes))

    few: Values = {"run.prompts_per_step": (4 if name == "bank" else 8,), "run.allocation": ("learnable",)}
    every, usual = condition.lengths, condition.usual
    shown = name == "linear-0.3"
    weights, seeds = (EARLIER, 32) if shown else (ELSEWHERE, 8)
    kinds = {
        "weight": sweep(weights, {}, every),
        "rest": sweep(tuple(name for name in WEIGHTS if name not in weights), {}, every),
        "judged": sweep(JUDGED, {}, every, seeds=seeds),
        "rejection": sweep(("reject_easy+reinforce",), {"estimator.threshold": (0.25, 0.75)}, every),
        "entropy": sweep(PLAIN, {"run.entropy_bonus": (0.03, 0.1, 0.3, 1.0)}, every, seeds=seeds),
        "bonus": sweep(WITH_A_BONUS, {"run.entropy_bonus": (0.1, 0.3)}, usual, seeds=seeds),
        "adaptive": sweep(ADAPTIVE, {}, usual),
        "teacher": sweep(("opd+reinforce",), {"run.teacher": (4.0, 8.0)}, every, seeds=seeds),
        "tempering": sweep(PLAIN, {"run.tempering": (1.5, 4.0)}, every),
        "kl": sweep(PLAIN, {"run.kl": (0.03, 0.1, 0.3, 1.0)}, usual, seeds=seeds),
        "allocation": sweep(PLAIN, {"run.allocation": WITH_ALL_PROMPTS}, usual),
        "curriculum": sweep(PLAIN, few | {"run.allocation_by": ("estimate", "exact")}, usual),
        "group": sweep(IN_GROUPS, {}, every, group_sizes=(4, 16, 32)),
        # With one gradient step a batch the ratio is 1 and no clip acts.
        "surrogate": sweep(CLIPS, {"run.epochs": (4,)}, usual),
    }
    return {f"{kind}-{name}": settings for kind, settings in kinds.items() if shown or kind != "judged"}


FRONTIER: Preset = {}
PRESETS["frontier"] = FRONTIER
for _name, _condition in CONDITIONS.items():
    FRONTIER |= _sweeps(_name, _condition)

# What it costs to keep hard prompts that are solved more seldom, in small groups and in large ones.
RARE = "rare"
MANY = "many-actions"  # of which a uniform policy solves fewer than the base model
_RATES: Values = {"problem.hard_rate": (0.003, 0.01, 0.03), NORM: (0.4, 0.8, 1.6, 3.2)}
FRONTIER[RARE] = over(
    CONDITIONS["linear-0.3"].shared,
    _RATES,
    **dict(arms=names("grpo+reinforce pass_at_k_tang+reinforce"), seeds=8, group_sizes=(8, 32), pass_at_k=(1, 256)),
    budget=Budget(2.0**19, records=256),
)
FRONTIER[MANY] = over(
    CONDITIONS["linear-0.3"].shared,
    fixed("problem", actions=256) | {"run.entropy_bonus": (0.1, 0.3, 1.0), NORM: (0.8, 1.6, 3.2)},
    **dict(arms=PLAIN, seeds=8, group_sizes=(8,), pass_at_k=(1, 256), storage="dense"),
    budget=Budget(2.0**15, records=64),
)

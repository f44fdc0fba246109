"""Presets of graded rewards: what each part of a reward does to correctness, and a placebo that pays alike."""

from simlab.sweeps.presets.base import PLAIN_STEPS, RATE, Preset, SweepSettings, over

ARMS = ("dr_grpo+reinforce", "grpo+reinforce", "gdpo+reinforce")
_GRADED: SweepSettings = PLAIN_STEPS | {
    **dict(arms=ARMS, seeds=32, steps=400, record_every=5, pass_at_k=(1, 16)),
    "parameters": {RATE: (0.3,)},
}

# Correctness beside a format: from no weight to that of correctness.
FORMAT: SweepSettings = over(_GRADED, {"problem.format_weight": (0.0, 0.2, 1.0)}, problem="format_reward")
# Tests passed against all or nothing, of programs that share their first steps and of such that share nothing.
PARTIAL_CREDIT: SweepSettings = over(_GRADED, {"problem.credit": (0.0, 0.5, 1.0)}, problem="partial_credit")
# A penalty that rare right answers pay more of.
LENGTH: SweepSettings = over(_GRADED, {"problem.penalty": (0.0, 0.3, 0.6)}, problem="length_penalty")
# Five items of which one never varies.
RUBRIC: SweepSettings = over(_GRADED, {}, problem="rubric")
# A check that is easy and wrong, from no weight to more than that of correctness.
HACK: SweepSettings = over(_GRADED, {"problem.hack_weight": (0.0, 0.1, 0.2, 0.5, 1.5)}, problem="reward_hack")
# The same with rewards that no answer earns.
PLACEBO: SweepSettings = over(_GRADED, {"run.reward": ("true", "placebo", "placebo_by_group")}, problem="format_reward")
GRADED_REWARDS: Preset = {
    "format": FORMAT,
    "tests-by-token": PARTIAL_CREDIT,
    "tests-apart": over(PARTIAL_CREDIT, {"problem.by_token": (False,)}),
    "length": LENGTH,
    "rubric": RUBRIC,
    "hack": HACK,
    "placebo": PLACEBO,
}

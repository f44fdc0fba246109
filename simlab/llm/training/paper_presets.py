"""The arms of the papers' tables, on the small countdown model of ``countdown-conflict``.

What has no scale is the papers': group sizes, updates a batch, temperatures, gamma, alpha, AdamW's betas and weight
decay. What a 7B model needs is scaled: 512 rollouts a step in place of thousands, a dozen steps in place of hundreds, a
learning rate of 4e-4 in place of 1e-6, pass@32 in place of pass@256, and countdown in place of mathematics and code. An
arm of one seed takes some ten seconds of a free core; its learning rate times its updates is about that of
``countdown-conflict``.
"""

from typing import Any

from simlab.llm.training.settings import merged
from simlab.theory.weight_variance import focal_scale

GROUP_SIZE = 8  # of F-GRPO's Tables 1 and 3, of A-GRAE and of CaSP
ROLLOUTS = 512  # of a step
STEPS, LONG = 12, 36
LEARNING_RATE = 4e-4
LOW_RATE = focal_scale(0.5) * LEARNING_RATE  # F-GRPO's App. N: by what gamma = 1/2 shortens the mean advantage

_BASE: dict[str, Any] = {
    "task": {"name": "countdown", "numbers": 3, "largest": 20, "least_solutions": 1, "evaluation_size": 128},
    "model": {"hidden_size": 64, "intermediate_size": 256, "num_layers": 2},
    "warm_start": {"steps": 1200, "batch": 64, "learning_rate": 3e-3, "warmup": 20},
    "rl": {
        "steps": STEPS,
        "prompts": ROLLOUTS // GROUP_SIZE,
        "group_size": GROUP_SIZE,
        "minibatches": 4,  # 256 and 64 in F-GRPO, 1024 and 256 in CaSP
        "learning_rate": LEARNING_RATE,
        "warmup": 2,
        "b2": 0.999,
    },
    "evaluation": {"every": 6, "samples": 32},
    "record": {"instruments_every": 1000, "checkpoint_every": STEPS, "rollouts": 0, "weight_changes": False},
    "seeds": 3,
}


def _of_group_size(size: int) -> str:
    """GRPO at another group size and as many rollouts a step; ``prompts`` a step change with it."""
    return f"grpo@token_mean@group_size={size}@prompts={ROLLOUTS // size}"


def _preset(arms: list[str], **sections: dict[str, Any]) -> dict[str, Any]:
    return merged(_BASE, sections, {"arms": arms})


_MATHEMATICS = {"temperature": 0.6, "top_p": 0.95}  # of A-GRAE's and CaSP's evaluations

PAPER_PRESETS: dict[str, dict[str, Any]] = {
    # The paper keeps the prompts of a step and lets rollouts grow with G; here the rollouts are kept.
    "f-grpo-table-2": _preset(
        [
            "grpo@token_mean",
            *map(_of_group_size, (2, 4, 16, 32)),
            "f_grpo(gamma=0.5)@token_mean",
        ]
    ),
    # The gammas are Table 7's for Qwen2.5-7B. The coefficients of KL and entropy are missing in the stored text: these
    # are those of ``countdown-conflict``.
    "f-grpo-tables-1-3": _preset(
        [
            "grpo@token_mean",
            "f_grpo(gamma=0.5)@token_mean",
            "dapo",
            "f_dapo(gamma=0.5)",
            "cispo",
            "f_cispo(gamma=1.0)",
            f"grpo@token_mean@learning_rate={LOW_RATE:.4g}",
            "grpo+kl_penalty(coefficient=0.1)@token_mean",
            "grpo+entropy_bonus(coefficient=0.03)@token_mean",
            "ds_grpo@token_mean",
        ]
    ),
    # The two halves of A-GRAE, DDAS (by difficulty) and ASS (by sign), and the controls that each is compared with.
    "a-grae-tables-5-6": _preset(
        [
            "grpo",
            "linked(scale=std,difficulty=shift)",
            "linked(scale=std,sign=attenuate)",
            "a_grae",
            "positive_dominant",
            "negative_dominant",
            "easy_focused",
            "hard_focused",
        ],
        evaluation=_MATHEMATICS,
    ),
    # CaSP, its softmax variant (Table 6), and the rivals of Figures 7 to 9.
    "casp-table-6": _preset(
        [
            "grpo",
            "casp",
            "grpo+casp(weights=proportional)",
            "kl_cov@sequence_mean",
            "grpo+forking_tokens",
            "w_reinforce",
            "entropy_advantage",
        ],
        evaluation=_MATHEMATICS,
        record={"top_n": 3},
    ),
    # One update a batch, groups of 12 at a temperature of .7, a tenth of the steps as warm-up, and evaluations at the
    # paper's checkpoints; 8 prompts a step, and a rate for more updates.
    "cw-grpo-table-3": _preset(
        ["grpo", "cw_grpo"],
        rl={
            "steps": 200,
            "prompts": 8,
            "group_size": 12,
            "temperature": 0.7,
            "minibatches": 1,
            "learning_rate": 1e-4,
            "warmup": 20,
        },
        evaluation={"every": 50},
        record={"checkpoint_every": 50},
    ),
    # The whole schedule, without delta, without alpha, and the two that replace it: by the step, and by entropy alone.
    # Three times as long, as delta moves only once the entropy has halved. It then has little room: 1 + H - H* stays
    # above .8 for a start of .38 nats a token.
    "fade-fig-9": _preset(
        [
            "fade@constant",
            "fade(delta_min=1.0)@constant",
            "fade(alpha_max=1.0)@constant",
            f"fade_logarithmic(last={LONG}.0)@constant",
            "fade_entropy@constant",
            "dr_grpo",
        ],
        rl={"steps": LONG},
        evaluation={"every": 12},
        record={"checkpoint_every": LONG},
    ),
}

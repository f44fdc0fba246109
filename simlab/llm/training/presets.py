"""Settings of whole experiments, as layers over the defaults."""

from typing import Any

from simlab.errors import check_choice
from simlab.llm.training.settings import SCRATCH, merge_layers
from simlab.theory.weight_variance import focal_scale

Layer = dict[str, Any]
SMALL = {"hidden_size": 64, "intermediate_size": 256, "num_layers": 2}
COUNTDOWN: Layer = {  # with several solutions to each problem, which can be lost
    "task": {"name": "countdown", "numbers": 3, "largest": 20},
    "model": SMALL,
    "warm_start": {"steps": 1200, "batch": 64, "learning_rate": 3e-3, "warmup": 20},
}
CONFLICT: Layer = {"task": {"least_solutions": 1, "evaluation_size": 128}}  # some have only one solution

# The arms of the papers' tables, on the small countdown model of ``countdown-conflict``.
#
# Numbers without a scale are the papers': group sizes, updates a batch, temperatures, gamma, alpha, AdamW's betas and
# weight decay. What a 7B model needs is scaled: 512 rollouts a step instead of thousands, a dozen steps instead of
# hundreds, a learning rate of 4e-4 instead of 1e-6, pass@32 instead of pass@256, and countdown instead of mathematics
# and code. An arm of one seed takes some ten seconds of a free core; its learning rate times its updates is about that
# of ``countdown-conflict``.
GROUP_SIZE = 8  # of F-GRPO's Tables 1 and 3, of A-GRAE and of CaSP
ROLLOUTS = 512  # of a step
PAPER_STEPS, LONG = 12, 36
LEARNING_RATE = 4e-4
LOW_RATE = focal_scale(0.5) * LEARNING_RATE  # F-GRPO's App. N: by what gamma = 1/2 shortens the mean advantage
PAPER_BASE: Layer = {
    "rl": {
        "steps": PAPER_STEPS, "prompts": ROLLOUTS // GROUP_SIZE, "group_size": GROUP_SIZE,
        "minibatches": 4,  # 256 and 64 in F-GRPO, 1024 and 256 in CaSP
        "learning_rate": LEARNING_RATE, "warmup": 2, "b2": 0.999,
    },
    "evaluation": {"every": 6, "samples": 32},
    "record": {"instruments_every": 1000, "checkpoint_every": PAPER_STEPS, "rollouts": 0, "weight_changes": False},
    "seeds": 3,
}  # fmt: skip
MATHEMATICS = {"temperature": 0.6, "top_p": 0.95}  # of A-GRAE's and CaSP's evaluations


def _paper_preset(*arms: str, **sections: dict[str, Any]) -> Layer:
    return merge_layers(COUNTDOWN, CONFLICT, PAPER_BASE, sections, {"arms": list(arms)})


PAPER_PRESETS: dict[str, Layer] = {
    # The paper keeps the prompts of a step and lets rollouts grow with G; here the rollouts are kept.
    "f-grpo-table-2": _paper_preset(
        "grpo@token_mean",
        *(f"grpo@token_mean@group_size={size}@prompts={ROLLOUTS // size}" for size in (2, 4, 16, 32)),
        "f_grpo(gamma=0.5)@token_mean",
    ),
    # The gammas are Table 7's for Qwen2.5-7B. The coefficients of KL and entropy are missing in the stored text: these
    # are those of ``countdown-conflict``.
    "f-grpo-tables-1-3": _paper_preset(
        "grpo@token_mean", "f_grpo(gamma=0.5)@token_mean", "dapo", "f_dapo(gamma=0.5)", "cispo", "f_cispo(gamma=1.0)",
        f"grpo@token_mean@learning_rate={LOW_RATE:.4g}", "grpo+kl_penalty(coefficient=0.1)@token_mean",
        "grpo+entropy_bonus(coefficient=0.03)@token_mean", "ds_grpo@token_mean",
    ),
    # The two halves of A-GRAE, DDAS (by difficulty) and ASS (by sign), and the controls that each is compared with.
    "a-grae-tables-5-6": _paper_preset(
        "grpo", "linked(scale=std,difficulty=shift)", "linked(scale=std,sign=attenuate)", "a_grae",
        "positive_dominant", "negative_dominant", "easy_focused", "hard_focused",
        evaluation=MATHEMATICS,
    ),
    # CaSP, its softmax variant (Table 6), and the rivals of Figures 7 to 9.
    "casp-table-6": _paper_preset(
        "grpo", "casp", "grpo+casp(weights=proportional)", "kl_cov@sequence_mean", "grpo+forking_tokens",
        "w_reinforce", "entropy_advantage",
        evaluation=MATHEMATICS,
        record={"top_n": 3},
    ),
    # One update a batch, groups of 12 at a temperature of .7, a tenth of the steps as warm-up, and evaluations at the
    # paper's checkpoints; 8 prompts a step, and a rate for more updates.
    "cw-grpo-table-3": _paper_preset(
        "grpo", "cw_grpo",
        rl={
            "steps": 200, "prompts": 8, "group_size": 12, "temperature": 0.7, "minibatches": 1, "learning_rate": 1e-4,
            "warmup": 20,
        },
        evaluation={"every": 50},
        record={"checkpoint_every": 50},
    ),
    # The whole schedule, without delta, without alpha, and the two that replace it: by the step, and by entropy alone.
    # Three times as long, as delta moves only once the entropy has halved. It then has little room: 1 + H - H* stays
    # above .8 for a start of .38 nats a token.
    "fade-fig-9": _paper_preset(
        "fade@constant", "fade(delta_min=1.0)@constant", "fade(alpha_max=1.0)@constant",
        f"fade_logarithmic(last={LONG}.0)@constant", "fade_entropy@constant", "dr_grpo",
        rl={"steps": LONG},
        evaluation={"every": 12},
        record={"checkpoint_every": LONG},
    ),
}  # fmt: skip

# Which weights keep pass@64 at equal pass@1, by AdamW and by plain steps. Nothing is clipped and nothing decays, so
# that the optimisers differ in one thing. By AdamW all methods' steps are of one length; plain steps have a rate for
# each method, at which its first steps are about as long as GRPO's.
PLAIN_RATES = {
    "grpo": 1.0, "f_grpo(gamma=1)": 1.4, "f_grpo(gamma=2)": 1.8, "maxrl": 0.5, "power_alpha(alpha=3)": 5.0, "nsr": 0.8,
    "psr": 1.0, "pass_at_k_chen(k=4)": 3.6, "grpo+entropy_bonus(coefficient=0.03)": 1.0,
}  # fmt: skip


def arms_by_optimizer(adamw: tuple[float, ...], plain: tuple[float, ...]) -> list[str]:
    """Return the methods of ``PLAIN_RATES`` by both optimisers, at these learning rates of GRPO."""
    found = [(name, "adamw", rate) for name in PLAIN_RATES for rate in adamw]
    found += [(name, "sgd", rate * own) for name, own in PLAIN_RATES.items() for rate in plain]
    return [f"{name}@optimizer={optimizer}@learning_rate={rate:.4g}" for name, optimizer, rate in found]


WEIGHTS_BY_OPTIMIZER: Layer = merge_layers(
    COUNTDOWN,
    CONFLICT,
    {
        "rl": {"steps": 60, "prompts": 32, "group_size": 8, "warmup": 2, "weight_decay": 0.0, "max_norm": 1e9},
        "evaluation": {"every": 10, "samples": 64},
        "record": {"instruments_every": 1000, "checkpoint_every": 60, "rollouts": 0, "weight_changes": False},
        "arms": arms_by_optimizer(adamw=(2e-4,), plain=(0.08,)),
        "seeds": 6,
    },
)

PRESETS: dict[str, Layer] = {
    # From nothing to a policy that adds, in minutes on two cores.
    "addition": {
        "task": {"name": "addition", "digits": 2, "evaluation_size": 128},
        "model": SMALL,
        "warm_start": {"steps": 800, "batch": 64, "learning_rate": 2e-3, "warmup": 20},
        "rl": {"steps": 100, "prompts": 128, "group_size": 8, "learning_rate": 4e-4, "warmup": 10, "microbatch": 1024},
        "evaluation": {"every": 50, "samples": 64, "rollouts": 8192},
        "record": {"instruments_every": 50, "checkpoint_every": 50},
        "arms": ["grpo", "f_grpo"],
    },
    "countdown": merge_layers(
        COUNTDOWN,
        {
            "task": {"evaluation_size": 64},
            "rl": {"steps": 60, "prompts": 32, "group_size": 16, "learning_rate": 3e-4, "warmup": 10},
            "evaluation": {"every": 30, "samples": 64},
            "record": {"instruments_every": 30},
            "arms": ["grpo", "f_grpo", "a_grae", "fade", "cw_grpo", "casp", "maxrl"],
            "seeds": 5,
        },
    ),
    # What solves one problem misleads another: pass@1 rises and pass@64 falls by a quarter.
    "countdown-conflict": merge_layers(
        COUNTDOWN,
        CONFLICT,
        {
            "rl": {"steps": 100, "prompts": 32, "group_size": 16, "learning_rate": 2e-4, "warmup": 10},
            "evaluation": {"every": 10, "samples": 64},
            "record": {"instruments_every": 50},
            "arms": [
                "grpo", "f_grpo", "maxrl", "a_grae", "fade", "cw_grpo", "casp", "nsr", "pass_at_k_chen(k=4)",
                "grpo+kl_penalty(coefficient=0.1)", "grpo+entropy_bonus(coefficient=0.03)",
            ],
            "seeds": 5,
        },
    ),
    # A pretrained model of text, and no demonstrations.
    "fewshot": {
        "task": {"name": "fewshot", "shots": 2, "digits": 2, "evaluation_size": 48},
        "model": {"source": "smollm2"},
        "rl": {"steps": 12, "prompts": 8, "group_size": 8, "learning_rate": 2e-5, "microbatch": 64},
        "evaluation": {"every": 12, "samples": 4, "rollouts": 512},
        "record": {"instruments_every": 20, "checkpoint_every": 10},
        "arms": ["grpo", "f_grpo"],
    },
    # F-GRPO's App. K; its 20,000 steps are for a GPU.
    "maze": {
        "task": {"name": "maze", "size": 17, "accept": "strict", "evaluation_size": 256},
        "model": {
            "architecture": "qwen2", "hidden_size": 256, "intermediate_size": 1024, "num_layers": 4, "num_heads": 4,
            "num_kv_heads": 2, "rope_theta": 1e6, "max_positions": 512,
        },
        "warm_start": {"steps": 1500, "batch": 32, "learning_rate": 5e-4, "b2": 0.95},
        "rl": {"steps": 20_000, "prompts": 256, "group_size": 16, "learning_rate": 1e-4, "microbatch": 64},
        "evaluation": {"every": 500, "samples": 256},
        "record": {"instruments_every": 100, "checkpoint_every": 100},
        "arms": ["grpo", "f_grpo"],
    },
    "weights-by-optimizer": WEIGHTS_BY_OPTIMIZER,
    **PAPER_PRESETS,
}  # fmt: skip


def preset(name: str | None, model: str | None) -> Layer:
    """Return a preset by its name; the default is ``addition``, or ``fewshot`` for a pretrained model."""
    if name is None:
        return PRESETS["addition" if model in (None, SCRATCH) else "fewshot"]
    check_choice("preset", name, sorted(PRESETS))
    return PRESETS[name]

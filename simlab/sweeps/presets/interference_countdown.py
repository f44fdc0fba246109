"""The preset ``interference-countdown``: what interference says of countdown, before anything is trained.

A problem as like the model of the training preset ``countdown-conflict`` as is known before its training: its batch,
and solve rates of a Beta that was fitted to pass@k of one warm start (k = 1 to 64). How much prompts overlap, and what
a step of AdamW is in plain steps, is not known: both are swept. (Adam itself hardly lets pass@k fall here, for it
divides the row of each answer by the size of its own gradients; a network has no such rows.)
"""

from typing import Any

from simlab.sweeps.presets.settings import Settings

ROLLOUTS = 512  # of a step
GROUP_SIZES = (2, 4, 8, 32)  # beside 16, that of the weights
WEIGHTS = (
    "grpo", "f_grpo", "maxrl", "a_grae", "fade", "cw_grpo", "casp", "nsr",
    "pass_at_k_chen(k=4)",
)  # fmt: skip
BETA = (0.96, 6.5)

_PROBLEM: dict[str, tuple[Any, ...]] = {
    "problem.prompts": (256,),
    "problem.actions": (256,),
    "problem.solve_rates": ("beta",),
    "problem.beta_a": (BETA[0],),
    "problem.beta_b": (BETA[1],),
    "problem.features": ("random",),
    "problem.dimension": (32,),
    "problem.overlap": (0.1, 0.3),
}


def _batch(arms: tuple[str, ...], group_size: int = 16, **run: float) -> Settings:
    """Arms with the rollouts of a step in groups of one size."""
    whole = {"prompts_per_step": ROLLOUTS // group_size, **run}
    return {
        "arms": arms,
        "group_sizes": (group_size,),
        "seeds": 5,
        "steps": 40,
        "record_every": 1,
        "problem": "interference",
        "optimizer": "sgd",
        "parameters": {
            "optimizer.learning_rate": (1.0, 3.0, 10.0),
            **{f"run.{name}": (value,) for name, value in whole.items()},
            **_PROBLEM,
        },
        "pass_at_k": (1, 2, 4, 8, 16, 32, 64),
        "top_n": 0,
    }


INTERFERENCE_COUNTDOWN: dict[str, Settings] = {
    "weights": _batch(WEIGHTS),
    "kl": _batch(("grpo",), kl=0.1),
    "entropy": _batch(("grpo",), entropy_bonus=0.03),
    **{f"group-{size}": _batch(("grpo",), size) for size in GROUP_SIZES},
}

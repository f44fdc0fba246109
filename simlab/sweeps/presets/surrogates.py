"""The preset ``surrogates``: every surrogate where ratios leave 1, at equal update norm and at equal learning rate.

With one gradient step a batch they are one method, but for those that drop tokens or move candidates. A prompt of the
bank has parameters of its own, so that steps on other prompts leave its ratios as they are: there epochs tell the
surrogates apart. Prompts that share features also move one another, so that minibatches do.
"""

from typing import Any

from simlab.surrogates import SURROGATES
from simlab.sweeps.presets.league import BANK
from simlab.sweeps.presets.settings import Settings

_AT_NORM: dict[str, tuple[Any, ...]] = {"optimizer.learning_rate": (1.0,)}

# Every gradient step has the same norm. Seeds are paired: one draws the same random numbers for all.
NORM: Settings = {
    "estimators": ("grpo",),
    "surrogates": tuple(SURROGATES),
    "group_sizes": (8,),
    "seeds": 32,
    "steps": 300,
    "record_every": 20,
    "problem": "prompt_bank",
    "optimizer": "sgd",
    "parameters": BANK | _AT_NORM | {"run.update_norm": (0.25, 1.0), "run.epochs": (1, 4, 16)},
    "pass_at_k": (1, 256),
    "top_n": 0,
}

SURROGATES_COMPARED: dict[str, Settings] = {"norm": NORM}

"""The preset ``surrogates``: every surrogate where ratios leave 1, with all gradient steps of one norm.

With one gradient step a batch they are one method, but for those that drop tokens. A prompt of the bank has parameters
of its own, so that steps on other prompts leave its ratios as they are: there epochs tell the surrogates apart. Prompts
that share features also move one another, so that minibatches alone do.
"""

from simlab.surrogates import SURROGATES
from simlab.sweeps.presets.league import BANK
from simlab.sweeps.presets.settings import Settings

# Seeds are paired: one draws the same random numbers for all.
EPOCHS: Settings = {
    "estimators": ("grpo",),
    "surrogates": tuple(SURROGATES),
    "group_sizes": (8,),
    "seeds": 16,
    "steps": 300,
    "record_every": 10,
    "problem": "prompt_bank",
    "optimizer": "sgd",
    "parameters": BANK | {"optimizer.learning_rate": (1.0,), "run.update_norm": (0.5,), "run.epochs": (1, 4, 16)},
    "pass_at_k": (1, 256),
    "top_n": 0,
}

MINIBATCHES: Settings = EPOCHS | {
    "problem": "interference",
    "steps": 100,
    "seeds": 8,
    "parameters": {"optimizer.learning_rate": (1.0,), "run.update_norm": (0.4,), "run.minibatches": (1, 8)},
}

COMPARED: dict[str, Settings] = {"epochs": EPOCHS, "minibatches": MINIBATCHES}

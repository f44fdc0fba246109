"""The preset ``minibatches``: how far the ratio drifts in a batch, and what a clip does about it, at equal rollouts."""

from simlab.sweeps.presets.settings import Settings

# Prompts that share features, at the problem's defaults: of prompts alone a minibatch would not move the others' ratio.
# At a quarter of the learning rate PPO's clip hardly ever acts.
MINIBATCHES: Settings = {
    "estimators": ("grpo",),
    "surrogates": ("unclipped", "ppo_clip", "clip_higher"),
    "group_sizes": (8,),
    "seeds": 24,
    "steps": 60,
    "record_every": 2,
    "problem": "interference",
    "optimizer": "sgd",
    "parameters": {
        "optimizer.learning_rate": (4.0,),
        "run.minibatches": (1, 4),
        "run.epochs": (1, 2, 4),
    },
    "pass_at_k": (1, 16, 256),
    "top_n": 0,
}

"""verl's rollouts: with ``trainer.rollout_data_dir`` its trainers write a JSONL file a step, named by the step.

Its lines have ``input``, ``output``, ``gts`` (the ground truth), ``score`` and ``step``, and whatever the reward
function returns besides (``_write_generations``, verl/trainer/ppo/ray_trainer.py and v1/trainer_base.py, verl 0.9). The
score is the sum of the rewards of the tokens; ``--reward acc`` takes what the reward function calls so.
"""

from simlab.diagnose.reading.layouts import Format

VERL = Format(
    "verl",
    {"prompt": "input", "completion": "output", "reward": "score", "step": "step"},
    frozenset({"input", "output", "score", "step"}),
)

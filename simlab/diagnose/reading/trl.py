"""TRL's completions: with ``log_completions=True`` its trainers write a parquet file at each step that they log.

Its columns are ``step``, ``prompt``, ``completion``, one for each reward function, what reward functions log besides,
and ``advantage`` (``GRPOTrainer.log``, trl/trainer/grpo_trainer.py, TRL 1.16). What they do not tell:

- the weights of the reward functions (``reward_weights``): several are summed as they are;
- which columns are rewards: those of floats between ``completion`` and ``advantage`` are taken for rewards;
- that rollouts are old: where one generation serves several steps (``num_iterations``, ``steps_per_generation``), each
  of them writes its rows again. A step whose rows are those of the step before is left out;
- steps in between: with ``logging_steps`` above 1 only the rollouts of the last generation are written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from simlab.diagnose.reading.layouts import Format


def reward_columns(row: Mapping[str, Any]) -> Sequence[str]:
    """The columns of floats between the completion and the advantage."""
    names = list(row)
    between = names[names.index("completion") + 1 : names.index("advantage")] if _is_whole(names) else []
    return [name for name in between if isinstance(row[name], float)]


def _is_whole(names: Sequence[str]) -> bool:
    return "completion" in names and "advantage" in names


TRL = Format(
    "trl",
    {"prompt": "prompt", "completion": "completion", "step": "step"},
    frozenset({"step", "prompt", "completion", "advantage"}),
    reward_columns,
    repeats=True,
)

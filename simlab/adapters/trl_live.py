"""Report what a diagnosis tells of the rollouts to the tracker of TRL's trainer, while it trains.

    trainer = GRPOTrainer(...)
    trainer.add_callback(DiagnoseCallback(trainer))

Metrics are those of ``simlab.diagnose.live``, under ``diagnose/``, wherever ``GRPOConfig.report_to`` says. TRL 1.16
hands callbacks no rollouts; they are read where ``log_completions`` finds them, whether or not that is set.
"""

from typing import Any

import numpy as np
from transformers import TrainerCallback

from simlab.diagnose.live import Live
from simlab.diagnose.reading.columns import message_text


class DiagnoseCallback(TrainerCallback):  # type: ignore[misc]  # of an untyped package
    """Adds the metrics of every batch of rollouts to those that the trainer logs.

    Args:
        trainer: TRL's ``GRPOTrainer``, or a subclass.
        live: how often and over how many batches is fitted, the threshold of graded rewards, and the canonical form
            of an answer; by default those of ``Live()``.

    Raises:
        InputError: in training, for rewards other than 0 and 1 where ``live`` has no threshold.
    """

    def __init__(self, trainer: Any, live: Live | None = None):
        self._trainer, self._live = trainer, live or Live()

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Observe the rollouts that were generated in this step, if any were: the main process does."""
        if not state.is_world_process_zero or not self._generated(args):
            return
        logs = self._trainer._logs
        columns = [logs["rewards"][name] for name in self._trainer.reward_func_names]
        rewards = np.array([list(column) for column in columns], dtype=float)  # None becomes NaN
        weighted = np.nansum(rewards * self._trainer.reward_weights.numpy(force=True)[:, None], axis=0)
        weighted[np.isnan(rewards).all(axis=0)] = np.nan
        completions = [message_text(value, "completion") or "" for value in logs["completion"]]
        for name, value in self._live.observe(list(map(repr, logs["prompt"])), weighted.tolist(), completions).items():
            self._trainer._metrics["train"][name].append(value)

    def _generated(self, args: Any) -> bool:
        """Whether a micro-batch of this step was the first by new rollouts."""
        last, every = self._trainer._step - 1, args.steps_per_generation * self._trainer.num_iterations
        return bool(last // every > (last - args.gradient_accumulation_steps) // every)

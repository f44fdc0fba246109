"""Countdown whose arms train on the very problems that are evaluated, as those of the simulator do."""

from pathlib import Path

from simlab.llm.tasks.countdown import Countdown, CountdownProblem
from simlab.llm.training.presets import WEIGHTS_BY_OPTIMIZER, arms_by_optimizer
from simlab.llm.training.run import train
from simlab.llm.training.settings import TrainingSettings, merge_layers
from simlab.llm.training.setup import ARM_PROBLEMS, SEED_PROBLEMS

PROBLEMS = 64  # all of them in each step


class ClosedCountdown(Countdown):
    """The warm start has other problems, so that the start is that of ``weights-by-optimizer``."""

    def training(self, index: int) -> CountdownProblem:
        """The problem of an index: of the warm start as ever, of an arm one that is evaluated."""
        if index % SEED_PROBLEMS < ARM_PROBLEMS:
            return super().training(index)
        return self.evaluation[index % PROBLEMS]


def train_closed(out: Path) -> None:
    """Train the arms of ``weights-by-optimizer``, each at two learning rates, or go on with a run at ``out``."""
    changes = {
        "rl": {"steps": 50, "prompts": PROBLEMS},
        "arms": arms_by_optimizer(adamw=(2e-4, 4e-4), plain=(0.1, 0.2)),
    }
    task = ClosedCountdown(numbers=3, largest=20, least_solutions=1, evaluation_size=PROBLEMS)
    train(TrainingSettings.from_data(merge_layers(WEIGHTS_BY_OPTIMIZER, changes)), out, own_task=task, say=print)

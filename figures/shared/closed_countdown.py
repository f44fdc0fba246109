"""Countdown whose arms train on the very problems that are evaluated, as those of the simulator do.

    python -m figures.shared.closed_countdown FOLDER SEED ...     (goes on with what FOLDER holds of these seeds)

The arms are those of ``weights-by-optimizer``, each at two learning rates, with its starts and random numbers. An arm
ends at the evaluation at which its pass@1 has gained what is judged: nothing after it is read.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np

from figures.shared import by_optimizer
from figures.shared.condensed import rounded
from simlab.files import write_whole
from simlab.llm.instruments.pass_at_k import unbiased_pass_at_k
from simlab.llm.model import Parameters, init
from simlab.llm.tasks.base import DrawnTask
from simlab.llm.tasks.countdown import Countdown
from simlab.llm.training.arms import supervised_step
from simlab.llm.training.folder import TrainerState
from simlab.llm.training.optimizer import first_state
from simlab.llm.training.origin import current_origin
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.presets import WEIGHTS_BY_OPTIMIZER, arms_by_optimizer
from simlab.llm.training.settings import TrainingSettings, merge_layers
from simlab.llm.training.setup import (
    ARM_PROBLEMS,
    EVALUATION_KEY,
    SEED_PROBLEMS,
    VERIFIER_KEY,
    Setup,
    step_key,
)
from simlab.simulator.compiled import keep_on_disk

CHANGES: dict[str, Any] = {
    "task": {"evaluation_size": 64},
    "rl": {"steps": 50, "prompts": 64, "microbatch": 64},  # all of them; small microbatches take half of the time
    "arms": arms_by_optimizer(adamw=(2e-4, 4e-4), plain=(0.1, 0.2)),
}
SIZE = 64  # k of the larger pass@k
Record = tuple[float, float]  # pass@1 and pass@64
Curve = dict[str, list[float]]  # the same, over evaluations


class Closed(DrawnTask[Any]):
    """The warm start has other problems, so that the start is that of ``weights-by-optimizer``.

    Arms train on the last ``trained`` problems that are evaluated, or on all.
    """

    trained: ClassVar[int] = 0

    def training(self, index: int) -> Any:
        """Return the problem of an index: the warm start's as ever, one that is evaluated for an arm."""
        if index % SEED_PROBLEMS < ARM_PROBLEMS:
            return super().training(index)
        return self.evaluation[-self.trained :][index % (self.trained or self.evaluation_size)]


class ClosedCountdown(Closed, Countdown):
    """Countdown."""


class ClosedRun:
    """The runs of a seed: a preset with changes, of a task that is closed."""

    def __init__(
        self,
        seed: int,
        changes: dict[str, Any],
        preset: dict[str, Any] = WEIGHTS_BY_OPTIMIZER,
        task: type[Closed] = ClosedCountdown,
    ):
        self.seed, self.settings = seed, TrainingSettings.from_data(merge_layers(preset, changes))
        self.task = task(**{name: value for name, value in self.settings.task.items() if name != "name"})
        self.setup = Setup(self.settings, self.task)

    def start(self) -> Parameters:
        """Return the model that all arms begin from: a pretrained one, or one after the supervised steps of a run."""
        settings, policy, first = self.settings.warm_start, self.setup.policy(), self.seed * SEED_PROBLEMS
        loaded = self.setup.loaded
        parameters = loaded.parameters or init(loaded.config, jax.random.key(self.seed))
        state = TrainerState(parameters, first_state(settings, parameters))
        while state.step < settings.steps:
            state, _ = supervised_step(policy, self.setup.reader, settings, state, first)
        return state.parameters

    def arm(self, name: str, start: Parameters, first: Record, gain: float) -> Curve:
        """Train an arm until its pass@1 gains ``gain``, or to its last step; return evaluations, the start's first."""
        (trainer, state), records = self.trainer(name, start), [first]
        while state.step < trainer.settings.steps and records[-1][0] - first[0] < gain:
            state, _ = trainer.step(state, step_key(self.seed, state.step + 1), instruments=False)
            if state.step % self.settings.evaluation.every == 0:
                records.append(self.evaluate(state.parameters, state.step))
        return dict(zip(by_optimizer.READ, rounded(np.transpose(records)), strict=True))

    def trainer(self, name: str, start: Parameters) -> tuple[Trainer, TrainerState]:
        """Return an arm's trainer and first state."""
        arm, method = self.settings.select_arm(name)
        policy, trained = self.setup.trainable(arm.rl, self.seed, start)
        problems, key = self.seed * SEED_PROBLEMS + ARM_PROBLEMS, step_key(self.seed, VERIFIER_KEY)
        memories = (jax.tree.map(np.float32, link.init()) for link in (method.estimator, method.surrogate))
        return (
            Trainer(policy, self.setup.reader, method, arm.rl, trained, problems, 0, key),
            TrainerState(trained, first_state(arm.rl, trained), *memories),
        )

    def evaluate(self, parameters: Parameters, step: int) -> Record:
        """Return pass@1 and pass@64 of ``evaluation.samples`` samples, by the keys of ``simlab.llm.training.evaluate``.

        With fewer than 64 samples the second is the share of problems that any sample solves.
        """
        settings = self.settings
        samples = self.setup.reader.sample(
            self.setup.policy().cast(parameters),
            self.task.evaluation,
            settings.evaluation.samples,
            key=jax.random.fold_in(step_key(self.seed, EVALUATION_KEY), step),
            temperature=settings.rl.temperature,
            at_once=settings.evaluation.rollouts,
        )
        correct, count = (samples.rewards > 0).sum(axis=1), settings.evaluation.samples
        pass_at_k = unbiased_pass_at_k(correct, count, min(SIZE, count))
        return float(samples.rewards.mean()), float(pass_at_k.mean())


def train_arms(run: ClosedRun, folder: Path, gains: dict[str, float], optimizer: str | None = None) -> Iterator[str]:
    """Train the arms of a run that ``folder`` does not hold yet, and write each when it ends; yield its name.

    An arm ends when its pass@1 has the gain at which its optimiser is judged. Arms of other code or settings are made
    anew. With an ``optimizer`` its arms alone are made.
    """
    keep_on_disk()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{run.seed}.json"
    origin = {"settings": run.settings.as_data(), **current_origin(run.settings, run.task)}
    content = json.loads(path.read_text()) if path.exists() else {}
    if content.get("provenance") != json.loads(json.dumps(origin)):
        content = {"seed": run.seed, "provenance": origin, "arms": {}}
    missing = [name for name in by_optimizer.arms_of(run.settings, optimizer) if name not in content["arms"]]
    if not missing:
        return
    start = run.start()
    first = run.evaluate(start, 0)
    for name in missing:
        content["arms"][name] = run.arm(name, start, first, gains[by_optimizer.of_arm(name)[1]])
        write_whole(path, json.dumps(content).encode())
        yield name


def main(arguments: list[str]) -> None:
    """Train the arms of some seeds."""
    folder, *seeds = arguments
    gains = by_optimizer.prediction(by_optimizer.TRAINED)["judged_at"]
    for seed in map(int, seeds):
        for name in train_arms(ClosedRun(seed, CHANGES), Path(folder), gains):
            print(f"seed {seed}: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

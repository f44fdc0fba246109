"""Train one arm of one seed, by simlab's own steps or by TRL's trainer, with evaluations and checkpoints when due."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from simlab.errors import InputError
from simlab.llm.model import Parameters
from simlab.llm.training.evaluate import Evaluator, Start
from simlab.llm.training.folder import COMPLETIONS, EVALUATIONS, METRICS, MODEL, ROLLOUTS, ArmFolder
from simlab.llm.training.groups import RolloutGroups, rollout_records
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.progress import TrainingProgress, catch_interrupts
from simlab.llm.training.settings import read_arm
from simlab.llm.training.setup import VERIFIER_KEY, Setup, first_problem, step_key
from simlab.llm.training.state import TrainerState

MAPS, MAPS_LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")  # on Linux alone


class ArmRun:
    """An arm of a seed, whichever engine trains it.

    Attributes:
        setup: the task and the model of the run.
        seed: the seed.
        start: the start of the seed.
        folder: the folder of this arm and seed.
        settings: the settings of the run, with the arm's overrides as ``rl``.
        method: estimator and surrogate of the arm.
        label: name and seed, in words.
    """

    def __init__(self, setup: Setup, name: str, seed: int, start: Start, folder: ArmFolder):
        self.setup, self.seed, self.start, self.folder = setup, seed, start, folder
        self.settings, self.method = setup.settings.select_arm(name), read_arm(name).method.build()
        self.label = f"{name}, seed {seed}"
        self._evaluator = Evaluator(setup, seed)

    def is_due(self, step: int) -> bool:
        """Return True if the arm should be evaluated after a step, and has not been."""
        due = step % self.settings.evaluation.every == 0 or step == self.settings.rl.steps
        return step > 0 and due and all(line["step"] != step for line in self.folder.lines(EVALUATIONS))

    def evaluate(self, parameters: Parameters, step: int) -> dict[str, Any]:
        """Evaluate the arm after a step; return the line that was written.

        Raises:
            InputError: as ``Evaluator.evaluate``.
        """
        sample, records = self._evaluator.evaluate(parameters, step)
        group_size = self.settings.rl.group_size
        line = self._evaluator.line(sample, parameters, step=step, group_size=group_size, start=self.start)
        if any(records.values()):
            self.folder.append(COMPLETIONS, {"step": step, "sets": records})
        self.folder.append(EVALUATIONS, line)
        return line


def train_by_simlab(arm: ArmRun) -> Parameters:
    """Train an arm from its checkpoint, or from its start; return the model's parameters after the last step.

    Raises:
        InputError: for an error in a step or an evaluation; the steps before are kept.
        KeyboardInterrupt: after the step in which Ctrl-C was pressed, which is kept.
    """
    rl, record = arm.settings.rl, arm.settings.record
    policy, trained = arm.setup.trainable(rl, arm.seed, arm.start.parameters)
    verifier_key = step_key(arm.seed, VERIFIER_KEY)
    trainer = Trainer(
        policy, arm.setup.reader, arm.method, rl, trained, first_problem(arm.seed), record.top_n, verifier_key
    )
    state = arm.folder.begin(_first_state(arm, trained))
    with TrainingProgress(arm.label, rl.steps, state.step) as progress, catch_interrupts() as interrupted:
        _evaluate(arm, state)  # an error or Ctrl-C may have left only this to do
        while state.step < rl.steps:
            began = time.perf_counter()
            state, line, texts = _step(arm, trainer, state)
            if texts:
                arm.folder.append(ROLLOUTS, {"step": state.step, "groups": texts})
            arm.folder.append(METRICS, {"step": state.step, **line, "seconds": time.perf_counter() - began})
            if interrupted():
                arm.folder.save(state)
                raise KeyboardInterrupt
            if evaluation := _evaluate(arm, state):
                progress.evaluated(evaluation)
            if state.step % record.checkpoint_every == 0 or state.step == rl.steps:
                arm.folder.save(state)
            progress.trained(state.step, line)
    return arm.setup.merge(state.parameters, arm.start.parameters)


def _first_state(arm: ArmRun, trained: Parameters) -> TrainerState:
    rl, method = arm.settings.rl, arm.method
    estimator, surrogate = (jax.tree.map(np.float32, link.init()) for link in (method.estimator, method.surrogate))
    return TrainerState(trained, rl.init(trained), estimator, surrogate, older=(trained,) * rl.lag)


def _step(
    arm: ArmRun, trainer: Trainer, state: TrainerState
) -> tuple[TrainerState, dict[str, Any], list[dict[str, Any]]]:
    """Take a step; return the state after it, its metrics, and its records of texts."""
    step, record, texts = state.step + 1, arm.settings.record, list[dict[str, Any]]()

    def watch(groups: RolloutGroups, advantages: np.ndarray) -> None:
        texts.extend(rollout_records(groups, advantages, arm.setup.reader, record.rollouts))

    try:
        after, line = trainer.step(state, step_key(arm.seed, step), step % record.instruments_every == 0, watch)
    except InputError as error:
        raise arm.folder.explain_stop(state, f"{arm.label}, step {step}", error) from None
    return after, line, texts


def _evaluate(arm: ArmRun, state: TrainerState) -> dict[str, Any] | None:
    """Evaluate an arm after a step if that is due; return the line that was written."""
    if not arm.is_due(state.step):
        return None
    release_programs()
    try:
        return arm.evaluate(arm.setup.merge(state.parameters, arm.start.parameters), state.step)
    except InputError as error:
        raise arm.folder.explain_stop(state, f"the evaluation after step {state.step}", error) from None


def release_programs() -> None:
    """Release compiled programs if they hold over half of the memory maps that Linux grants a process.

    XLA maps some hundred pieces of memory for each program, and a run compiles one for every shape of a microbatch of
    every arm: six arms of six group sizes reached the limit within three seeds, and the process ended without a word.
    Programs that are needed again come from the compilation cache on disk.
    """
    if MAPS.exists() and MAPS_LIMIT.exists():
        with MAPS.open("rb") as lines:
            count = sum(1 for _ in lines)
        if count > int(MAPS_LIMIT.read_text()) // 2:
            clear: Any = jax.clear_caches  # which has no type
            clear()


def train_by_trl(arm: ArmRun, start: ArmFolder) -> Parameters:
    """Train an arm by TRL, from its last checkpoint or from the start; return the parameters after the last step.

    Args:
        arm: the arm to train.
        start: the folder of its seed's start, with the model.

    Raises:
        InputError: for settings that TRL cannot meet, and for an error in a step or an evaluation.
    """
    from simlab.adapters import trl_engine  # noqa: PLC0415  # of an extra

    with TrainingProgress(arm.label, arm.settings.rl.steps, 0) as progress:

        def after_step(step: int, line: Mapping[str, Any], parameters: Callable[[], Parameters]) -> None:
            arm.folder.append(METRICS, {"step": step, **line})
            if arm.is_due(step):
                progress.evaluated(arm.evaluate(parameters(), step))
            progress.trained(step, line)

        return trl_engine.train_arm(
            arm.method,
            arm.settings,
            arm.setup.reader,
            start.path / MODEL,
            arm.folder,
            seed=arm.seed,
            first=first_problem(arm.seed),
            after_step=after_step,
        )

"""Train an arm by simlab's own steps: step after step, with evaluations and checkpoints where they are due."""

import time
from typing import Any

import jax
import numpy as np

from simlab.errors import InputError
from simlab.llm.model import Parameters
from simlab.llm.training.arm import Arm
from simlab.llm.training.folder import METRICS, ROLLOUTS
from simlab.llm.training.gradient import Policy
from simlab.llm.training.groups import Groups
from simlab.llm.training.interrupt import interrupts
from simlab.llm.training.kept_rollouts import kept_rollouts
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.program_maps import give_up_many
from simlab.llm.training.progress import Progress
from simlab.llm.training.seeds import VERIFIER_KEY, first_problem, key_of
from simlab.llm.training.state import State
from simlab.llm.training.stops import stopped


def train_by_simlab(arm: Arm) -> Parameters:
    """Train an arm, or go on with it from its checkpoint; the parameters after the last step.

    Raises:
        InputError: for what goes wrong in a step or an evaluation; what was done before is kept.
        KeyboardInterrupt: after the step in which Ctrl-C was pressed, which is kept.
    """
    rl, record = arm.settings.rl, arm.settings.record
    policy, trained = arm.setup.trained(rl, arm.seed, arm.start.parameters)
    trainer = _trainer(arm, policy, trained)
    state = arm.folder.begin(_first_state(arm, trained), arm.settings.evaluation.every)
    with Progress(arm.label, rl.steps, state.step) as progress, interrupts() as interrupted:
        _evaluate(arm, state)  # which may be all that an error left undone
        while state.step < rl.steps:
            began = time.perf_counter()
            state, line = _step(arm, trainer, state)
            arm.folder.append(METRICS, {"step": state.step, **line, "seconds": time.perf_counter() - began})
            if interrupted():
                arm.folder.save(state)
                raise KeyboardInterrupt
            if found := _evaluate(arm, state):
                progress.evaluated(found)
            if state.step % record.checkpoint_every == 0 or state.step == rl.steps:
                arm.folder.save(state)
            progress.trained(state.step, line)
    return arm.setup.merged(state.parameters, arm.start.parameters)


def _trainer(arm: Arm, policy: Policy, reference: Parameters) -> Trainer:
    rl, setup = arm.settings.rl, arm.setup
    first, verifier = first_problem(arm.seed), key_of(arm.seed, VERIFIER_KEY)
    top_n = arm.settings.record.top_n
    return Trainer(policy, setup.reader, arm.method, rl, reference, first, top_n, verifier)


def _first_state(arm: Arm, trained: Parameters) -> State:
    rl, method = arm.settings.rl, arm.method
    estimator, surrogate = (jax.tree.map(np.float32, part.init()) for part in (method.estimator, method.surrogate))
    return State(trained, rl.init(trained), estimator, surrogate, older=(trained,) * rl.lag)


def _step(arm: Arm, trainer: Trainer, state: State) -> tuple[State, dict[str, Any]]:
    step, record = state.step + 1, arm.settings.record

    def keep(groups: Groups, advantages: np.ndarray) -> None:
        if kept := kept_rollouts(groups, advantages, arm.setup.reader, record.rollouts):
            arm.folder.append(ROLLOUTS, {"step": step, "groups": kept})

    try:
        return trainer.step(state, key_of(arm.seed, step), step % record.instruments_every == 0, keep)
    except InputError as error:
        raise stopped(arm.folder, state, f"{arm.label}, step {step}", error) from None


def _evaluate(arm: Arm, state: State) -> dict[str, Any] | None:
    """Evaluate an arm after a step where that is due, unless it is done; what was written of it."""
    if not arm.is_due(state.step):
        return None
    give_up_many()
    try:
        return arm.evaluate(arm.setup.merged(state.parameters, arm.start.parameters), state.step)
    except InputError as error:
        raise stopped(arm.folder, state, f"the evaluation after step {state.step}", error) from None

"""Train an arm by TRL's trainer, with simlab's metrics and evaluations after its steps."""

from collections.abc import Callable, Mapping
from typing import Any

from simlab.llm.model import Parameters
from simlab.llm.training.arm import Arm
from simlab.llm.training.folder import METRICS, MODEL, ArmFolder
from simlab.llm.training.progress import Progress
from simlab.llm.training.seeds import first_problem


def train_by_trl(arm: Arm, start: ArmFolder) -> Parameters:
    """Train an arm, or go on with it from TRL's checkpoint; the parameters after the last step.

    Args:
        arm: whom to train.
        start: the folder of its seed's start, which gets its model if there was no warm start.

    Raises:
        InputError: for settings that TRL has no place for, and what goes wrong in a step or an evaluation.
    """
    from simlab.adapters import trl_engine  # noqa: PLC0415  # of an extra

    if not start.model_is_whole():
        arm.setup.save_model(start, arm.start.parameters, arm.setup.settings.rl.temperature)
    with Progress(arm.label, arm.settings.rl.steps, 0) as progress:

        def after_step(step: int, line: Mapping[str, Any], parameters: Callable[[], Parameters]) -> None:
            arm.folder.append(METRICS, {"step": step, **line})
            if arm.is_due(step):
                progress.evaluated(arm.evaluate(parameters(), step))
            arm.folder.sync()  # before TRL writes a checkpoint
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

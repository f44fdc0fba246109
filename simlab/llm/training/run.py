"""Train a run: one start for every seed, and from it every arm; one folder records all that happened.

``run.json`` is written first. A run that was killed resumes from its checkpoints and gives the numbers that it would
have given: everything is a function of the settings, the seed and the step.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simlab.errors import InputError
from simlab.files import file_lock, remove_unfinished
from simlab.llm.device_memory import free_memory
from simlab.llm.extra import package
from simlab.llm.tasks import OWN, Task, task
from simlab.llm.tensorboard import check_tensorboard
from simlab.llm.training import disk
from simlab.llm.training.arm import Arm
from simlab.llm.training.arm_steps import train_by_simlab
from simlab.llm.training.arm_trl import train_by_trl
from simlab.llm.training.folder import RUN
from simlab.llm.training.memory import check_memory, in_words
from simlab.llm.training.origin import maker
from simlab.llm.training.run_folder import START, RunFolder
from simlab.llm.training.settings import Settings
from simlab.llm.training.setup import Setup
from simlab.llm.training.start import Start
from simlab.llm.training.warm_start import make_start
from simlab.llm.training.warnings import warnings
from simlab.llm.wandb_files import check_wandb
from simlab.simulator.compiled import keep_on_disk


def train(
    settings: Settings,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    other_code: bool = False,
    own_task: Task | None = None,
    tensorboard: bool = False,
    wandb: bool = False,
    say: Callable[[str], Any] | None = None,
) -> None:
    """Run all arms of all seeds, or go on where they were.

    Args:
        settings: what to run.
        out: the folder of the run.
        resume: whether there must be a run at ``out`` already; one that is there is gone on with in any case.
        overwrite: whether a run of other settings, or by other code, at ``out`` is begun anew.
        other_code: whether to go on with a run that other code, versions or a platform began; ``run.json`` then says
            from which steps who made it.
        own_task: a task that is not in the registry, in place of the settings'. ``run.json`` then says ``"own"`` for
            the task's name, so that no other task is trained in its place.
        tensorboard: whether to write files for TensorBoard too.
        wandb: whether to write files for W&B too, offline.
        say: takes what is to be known before the work begins, line by line.

    Raises:
        InputError: for settings that cannot be met, another run at ``out`` or none to resume, one that another process
            is at, and what goes wrong in a step.
        OSError: if the folder cannot be written, as on a full disk; finished steps are kept.
    """
    if resume and not (out / RUN).exists():
        raise InputError(f"{out} holds no run to resume; allowed: the --out of a run, or no --resume to begin one")
    keep_on_disk()
    if settings.engine == "trl":
        package("trl", "trl")
    if own_task is not None:
        settings = dataclasses.replace(settings, task={"name": OWN, "called": own_task.name})
    if tensorboard:
        check_tensorboard()
    if wandb:
        check_wandb()
    say = _nothing if say is None else say
    for line in warnings(settings):
        say(line)
    setup = Setup(settings, task(**settings.task) if own_task is None else own_task)
    for note in setup.reader.task.notes:
        say(note)
    if settings.engine == "simlab":
        needed = setup.needed_memory()
        say(in_words(needed))
        say(disk.in_words(setup.needed_disk(), disk.free_disk(out)))
        check_memory(needed, free_memory())
    folder = RunFolder(out, settings, tensorboard=tensorboard, wandb=wandb)
    with file_lock(out):
        remove_unfinished(out, locked=True)
        folder.begin(maker(settings, own_task, setup.reader.task), overwrite=overwrite, other_code=other_code)
        for seed in range(settings.seeds):
            start = make_start(setup, seed, folder.arm(START, seed))
            for name in settings.arms:
                _train_arm(setup, name, seed, start, folder)


def _train_arm(setup: Setup, name: str, seed: int, start: Start, run: RunFolder) -> None:
    """Train one arm from the start of a seed, or go on with it, and write its model; nothing of one that is done."""
    with run.arm(name, seed) as folder:
        arm = Arm(setup, name, seed, start, folder)
        if folder.is_finished(arm.settings.rl.steps, arm.settings.evaluation.every):
            return
        by_trl = setup.settings.engine == "trl"
        parameters = train_by_trl(arm, run.arm(START, seed)) if by_trl else train_by_simlab(arm)
        setup.save_model(folder, parameters, arm.settings.rl.temperature)
        if not setup.settings.record.keep_checkpoint:
            folder.finish()


def _nothing(line: str) -> None:
    """Where nobody listens."""

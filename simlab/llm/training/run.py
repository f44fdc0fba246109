"""Train a run: one start for every seed, and from it every arm; one folder records everything.

``run.json`` is written first. A run that was killed resumes from its checkpoints and gives the same numbers as one that
was not: everything is a function of the settings, the seed and the step.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from simlab.errors import InputError
from simlab.files import explained, file_lock, remove_unfinished
from simlab.llm.checkpoint import free_memory
from simlab.llm.extra import package
from simlab.llm.loggers import check_tensorboard, check_wandb
from simlab.llm.tasks import OWN, Task, task
from simlab.llm.training.arms import ArmRun, train_by_simlab, train_by_trl
from simlab.llm.training.evaluate import Start
from simlab.llm.training.folder import RUN, START
from simlab.llm.training.memory import check_memory, describe_disk, describe_memory
from simlab.llm.training.origin import current_origin
from simlab.llm.training.run_folder import RunFolder
from simlab.llm.training.settings import TrainingSettings
from simlab.llm.training.setup import Setup
from simlab.llm.training.warm_start import make_start
from simlab.llm.training.warnings import warnings
from simlab.simulator.compiled import keep_on_disk

OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "out of memory")  # in errors of XLA and of torch


def train(
    settings: TrainingSettings,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    other_code: bool = False,
    own_task: Task | None = None,
    tensorboard: bool = False,
    wandb: bool = False,
    say: Callable[[str], Any] = lambda line: None,
) -> None:
    """Train all arms of all seeds, or go on where a former process ended.

    Args:
        settings: the settings of the run.
        out: the folder of the run.
        resume: require a run at ``out``. An existing run is resumed without this too.
        overwrite: replace a run of other settings, or by other code, at ``out``.
        other_code: go on with a run that other code, versions or platform began; ``run.json`` records the steps.
        own_task: a task that replaces the settings'. ``run.json`` then names the task ``"own"``, so that no other task
            is trained in its place.
        tensorboard: write files for TensorBoard too.
        wandb: write files for W&B too, offline.
        say: receives lines of information before the work begins.

    Raises:
        InputError: for settings that cannot be met, another run at ``out`` or none to resume, one that another process
            is writing, an error in a step, a full disk, and when memory runs out; finished steps are kept.
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
    for line in warnings(settings):
        say(line)
    setup = Setup(settings, task(**settings.task) if own_task is None else own_task)
    for note in setup.reader.task.notes:
        say(note)
    if settings.engine == "simlab":
        needed = setup.needed_memory()
        say(describe_memory(needed))
        say(describe_disk(setup.needed_disk(), out))
        check_memory(needed, free_memory())
    folder = RunFolder(out, settings, tensorboard=tensorboard, wandb=wandb)
    with explained(f"cannot write {out}", "finished steps are kept"), file_lock(out), _explain_exhaustion():
        remove_unfinished(out, locked=True)
        origin = current_origin(settings, own_task, setup.reader.task)
        folder.begin(origin, overwrite=overwrite, other_code=other_code)
        for seed in range(settings.seeds):
            start = make_start(setup, seed, folder.arm(START, seed))
            for name in settings.arms:
                _train_arm(setup, name, seed, start, folder)


def _train_arm(setup: Setup, name: str, seed: int, start: Start, run: RunFolder) -> None:
    """Train one arm from the start of a seed, or go on with it, and write its model; skip a finished one."""
    keep_checkpoint = setup.settings.record.keep_checkpoint
    with run.arm(name, seed) as folder:
        if folder.finished_record(keep_checkpoint=keep_checkpoint):
            return
        arm = ArmRun(setup, name, seed, start, folder)
        by_trl = setup.settings.engine == "trl"
        parameters = train_by_trl(arm, run.arm(START, seed)) if by_trl else train_by_simlab(arm)
        setup.save_model(folder, parameters, arm.settings.rl.temperature)
        folder.finish(keep_checkpoint=keep_checkpoint)


@contextlib.contextmanager
def _explain_exhaustion() -> Iterator[None]:
    """Turn an error about memory into an ``InputError`` in one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        reason = str(error).splitlines()[0] if str(error) else "no more memory"
        raise InputError(
            f"memory ran out ({reason}); allowed: less, by a smaller rl.microbatch, rl.rollouts, rl.prompts, "
            "evaluation.rollouts or model; finished steps are kept"
        ) from None

"""Train a run: one start for every seed, and from it every arm; a killed run resumes and gives the same numbers."""

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from simlab.errors import InputError, package
from simlab.files import explained, file_lock, remove_unfinished
from simlab.llm.checkpoint import free_memory
from simlab.llm.loggers import check_tensorboard, check_wandb
from simlab.llm.tasks import OWN, Task, task
from simlab.llm.training.arms import ArmRun, make_start
from simlab.llm.training.folder import MODEL, RUN, START, RunFolder
from simlab.llm.training.memory import FLOAT, count_parameters, needed_memory
from simlab.llm.training.origin import current_origin
from simlab.llm.training.settings import TrainingSettings
from simlab.llm.training.setup import Setup
from simlab.llm.training.warnings import warnings
from simlab.simulator.compiled import keep_on_disk

OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "out of memory")  # in errors of XLA and of torch
LESS = "less, by a smaller rl.microbatch, rl.rollouts, rl.prompts, evaluation.rollouts or model"
TEXT = 50  # bytes of a token in a record of rollouts


def train(
    settings: TrainingSettings,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    other_code: bool = False,
    inputs: Iterable[Path] = (),
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
        inputs: files that the settings came from; overwriting removes none of them, nor models, data and code.
        own_task: a task that replaces the settings'; ``run.json`` then names the task ``"own"``.
        tensorboard: write files for TensorBoard too.
        wandb: write files for W&B too, offline.
        say: receives lines of information before the work begins, and of arms that had hardly any signal at their end.

    Raises: InputError: for settings that cannot be met, another run at ``out`` or none to resume, one that another
    process is writing, an error in a step, a full disk, and when memory runs out; finished steps are kept.
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
    setup = Setup(settings, task(**settings.task) if own_task is None else own_task)
    for line in (*warnings(settings), *setup.reader.task.notes):
        say(line)
    if settings.engine == "simlab":
        _state_needs(setup, out, say)
    folder = RunFolder(out, settings, tensorboard=tensorboard, wandb=wandb)
    with explained(f"cannot write {out}", "finished steps are kept"), file_lock(out), _explain_exhaustion():
        remove_unfinished(out, locked=True)
        origin = current_origin(settings, own_task, setup.reader.task)
        models = [settings.model.source, *(settings.arm_rl(arm).teacher for arm in settings.arms)]
        sources = [*inputs, *(Path(name) for name in (*models, *origin.get("files", ())) if name)]
        folder.begin(origin, overwrite=overwrite, other_code=other_code, inputs=sources)
        for seed in range(settings.seeds):
            begun = folder.arm(START, seed)
            start = make_start(setup, seed, begun)
            for name in settings.arms:
                with folder.arm(name, seed) as own:
                    arm = ArmRun(setup, name, seed, start, own)
                    arm.train(begun.path / MODEL)
                    if remark := arm.remark():
                        say(remark)


def _state_needs(setup: Setup, out: Path, say: Callable[[str], Any]) -> None:
    """Say how much memory and disk the run needs; raise ``InputError`` if the memory is not free."""
    *lengths, problems = setup.sizes()
    needed = needed_memory(setup.settings, setup.loaded.config, (lengths[0], lengths[1]), problems)
    purposes = ", ".join(f"{name} {format_bytes(size)}" for name, size in needed.items())
    memory, free = f"memory: about {format_bytes(sum(needed.values()))} ({purposes})", free_memory()
    say(memory)
    disk, folder = needed_disk(setup), next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    say(f"disk: about {format_bytes(disk)}; {format_bytes(shutil.disk_usage(folder).free)} are free")
    if free is not None and sum(needed.values()) > free:
        raise InputError(f"{memory}, but {format_bytes(free)} are free; allowed: {LESS}")


def needed_disk(setup: Setup) -> int:
    """Return the bytes of models, checkpoints (the last one twice), and texts of rollouts at their longest."""
    settings, config, record = setup.settings, setup.loaded.config, setup.settings.record
    arms, warm = [settings.arm_rl(name) for name in settings.arms], settings.warm_start.steps > 0
    weights, trained = (FLOAT * count_parameters(config, rank) for rank in (0, settings.model.lora_rank))
    checkpoints = [(3 + rl.lag) * trained for rl in arms] + [3 * weights] * warm
    stored = settings.seeds * sum(checkpoints) if record.keep_checkpoint else max(checkpoints)
    rollouts = sum(rl.steps * min(record.rollouts, rl.prompts * rl.group_size) for rl in arms)
    texts = TEXT * settings.seeds * rollouts * setup.reader.task.max_new_tokens
    return settings.seeds * (len(arms) + warm) * weights + stored + max(checkpoints) + texts


def format_bytes(size: int) -> str:
    """Format a number of bytes in MiB or GiB."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


@contextlib.contextmanager
def _explain_exhaustion() -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        reason = str(error).splitlines()[0] if str(error) else "no more memory"
        raise InputError(f"memory ran out ({reason}); allowed: {LESS}; finished steps are kept") from None

"""Write the numbers of an arm for TensorBoard (extra ``tensorboard``) and Weights & Biases (extra ``wandb``)."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simlab.errors import InputError, package


def check_tensorboard() -> Any:
    """Import the module of TensorBoard that writes files, or raise ``InputError``."""
    return package("tensorboard.summary.writer.event_file_writer", "tensorboard")


def check_wandb() -> Any:
    """Import W&B, or raise ``InputError``."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # it sends reports of its own errors, offline too
    return package("wandb", "wandb")


class Scalars:
    """Writes numbers by name and step into a folder for TensorBoard; a context manager.

    A run that goes on after a kill may have written steps that it comes to again. The first event says that the run
    (re)starts at the step of the first ``write``: TensorBoard then drops what it has of that step and later ones.
    """

    begins_anew = False

    def __init__(self, folder: str | os.PathLike):
        writer = check_tensorboard()
        self._events = package("tensorboard.compat.proto.event_pb2", "tensorboard")
        self._summaries = package("tensorboard.compat.proto.summary_pb2", "tensorboard")
        self._folder, self._begun = folder, False
        try:
            self._writer = writer.EventFileWriter(os.fspath(folder))
        except OSError as error:
            raise self._unwritten(error) from None

    def write(self, step: int, values: Mapping[str, float | Sequence[float]]) -> None:
        """Write the numbers of a step, on disk before this returns; item i of the list ``name`` is ``name/i``."""
        numbers: dict[str, float] = {}
        for name, value in values.items():
            if isinstance(value, Sequence):
                numbers |= {f"{name}/{index}": item for index, item in enumerate(value)}
            else:
                numbers[name] = value
        summary = self._summaries.Summary(
            value=[self._summaries.Summary.Value(tag=name, simple_value=number) for name, number in numbers.items()]
        )
        try:
            if not self._begun:
                start = self._events.SessionLog(status=self._events.SessionLog.START)
                self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, session_log=start))
                self._begun = True
            self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))
            self._writer.flush()
        except OSError as error:
            raise self._unwritten(error) from None

    def __enter__(self) -> "Scalars":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        try:
            self._writer.close()
        except OSError as failure:
            raise self._unwritten(failure) from error

    def _unwritten(self, error: OSError) -> InputError:
        return InputError(f"{self._folder} cannot be written: {error.strerror or error}")


class WandbFiles:
    """An offline run of W&B in ``folder/wandb``, which ``wandb sync`` uploads; a context manager.

    W&B cannot take steps of an offline run back, and of several that are uploaded under one id the last one stays. So
    each process writes a run of its own under the same ``identity`` (up to 64 letters and digits), and is given the
    steps of former processes again.
    """

    begins_anew = True

    def __init__(self, folder: Path, *, name: str, group: str, identity: str, config: Mapping[str, Any]):
        wandb = check_wandb()
        # Neither the user's code nor the machine's use, output and packages are recorded.
        settings = wandb.Settings(
            silent=True, console="off", save_code=False, disable_git=True, x_disable_stats=True, x_disable_meta=True
        )
        self._run = wandb.init(
            mode="offline",
            dir=os.fspath(folder),
            project="simlab",
            group=group,
            name=name,
            id=identity,
            config=dict(config),
            reinit="create_new",
            settings=settings,
        )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of a step, from the earliest step on; those of one step may come in parts."""
        self._run.log(dict(values), step=step)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._run.finish(exit_code=0 if kind is None else 1)

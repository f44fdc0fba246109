"""Write scalars for TensorBoard with its own writer; needs the extra ``tensorboard``, not torch or TensorFlow."""

import os
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from simlab.errors import InputError
from simlab.llm.extra import package


def check_tensorboard() -> Any:
    """The module of TensorBoard that writes files.

    Raises:
        InputError: if tensorboard cannot be imported.
    """
    return package("tensorboard.summary.writer.event_file_writer", "tensorboard")


class Scalars:
    """Writes numbers by name and step into a folder; a context manager.

    A run that goes on after a kill may have written steps that it comes to again. The first event says that the run
    (re)starts at the step of the first ``write``: TensorBoard then drops what it has of that step and later ones.

    Raises:
        InputError: if tensorboard cannot be imported, or the folder cannot be written to.
    """

    begins_anew = False

    def __init__(self, folder: str | os.PathLike):
        writer = check_tensorboard()
        self._events = package("tensorboard.compat.proto.event_pb2", "tensorboard")
        self._summaries = package("tensorboard.compat.proto.summary_pb2", "tensorboard")
        self._folder = folder
        self._begun = False
        try:
            self._writer = writer.EventFileWriter(os.fspath(folder))
        except OSError as error:
            raise self._unwritten(error) from None

    def write(self, step: int, values: Mapping[str, float | Sequence[float]]) -> None:
        """Write the numbers of a step, on disk before this returns; item i of the list ``name`` is ``name/i``.

        Raises:
            InputError: if they cannot be written, for instance because the disk is full.
        """
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
        except OSError as failure:
            raise self._unwritten(failure) from error

    def _unwritten(self, error: OSError) -> InputError:
        return InputError(f"{self._folder} cannot be written: {error.strerror or error}")

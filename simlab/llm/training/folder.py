"""The folder of an arm and seed: lines of metrics, evaluations and texts; a checkpoint; and at the end a model.

Files of lines are only appended to. A checkpoint records the size and checksum of each. A resumed run cuts the files to
these sizes and appends the same lines again::

    step 1 2 3 | 4 5      a kill in step 6; the checkpoint of step 3 says "3 lines"
    step 1 2 3            the resumed run cuts here, and computes steps 4 and 5 again
"""

import contextlib
import hashlib
import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from simlab.errors import Diverged, InputError
from simlab.files import set_aside, write_whole
from simlab.llm.checkpoint import Model, write_checkpoint
from simlab.llm.tokenizer import Tokenizer, write_tokenizer
from simlab.llm.training.origin import Origin, first_difference
from simlab.llm.training.state import TrainerState, load_state, save_state
from simlab.llm.vocabulary import Vocabulary, Words
from simlab.seals import CHECKSUM, Damaged, sealed_json, unsealed_json

RUN, START = "run.json", "start"  # START stands for an arm's name
METRICS, EVALUATIONS, ROLLOUTS, COMPLETIONS = LINES = (
    "metrics.jsonl",
    "evaluation.jsonl",
    "rollouts.jsonl",
    "completions.jsonl",
)
CHECKPOINT, MODEL = "state.npz", "model"
TRL_CHECKPOINTS = "trl"  # the folder that TRL writes its own to
FINISHED = "finished.json"  # of an arm or a start whose model is complete
EVALUATION = "evaluation"  # the name of a single evaluation set
Checksums = Mapping[str, Sequence[Any]]  # bytes and SHA-256 of each file


def arm_folder(run: Path, name: str) -> Path:
    """Return the folder of an arm's seeds; its name may hold a path of the user's, whose slashes are escaped."""
    return run / "arms" / name.replace("/", "%2F")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines; a missing file has none, and a last line without an end is left out.

    Raises:
        InputError: for a damaged line, which is named, and for a file that cannot be read.
    """
    try:
        *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise Damaged(f"{path} line {number} is damaged (it is no JSON)") from None
        if not isinstance(record, dict):
            raise Damaged(f"{path} line {number} is damaged (it is no JSON object)")
        record.pop(CHECKSUM, None)  # former versions wrote one a line
        records.append(record)
    return records


def check_finished(folder: Path) -> None:
    """Compare the lines of a finished arm or start with their checksums; an unfinished one passes.

    Raises:
        Damaged: for a file that is not as it was written.
    """
    record = _read_finished(folder)
    if record is not None:
        _check_files(folder, {name: entry for name, entry in record["files"].items() if name in LINES})


def _read_finished(folder: Path) -> dict[str, Any] | None:
    path = folder / FINISHED
    if not path.exists():
        return None
    data, is_earlier = path.read_bytes(), False
    with contextlib.suppress(ValueError):
        is_earlier = "files" not in json.loads(data)
    if is_earlier:
        raise InputError(f"{path} was written by an earlier version of simlab; allowed: another folder for a new run")
    try:
        return unsealed_json(data, FINISHED)
    except Damaged as reason:
        raise Damaged(f"{path} is damaged ({reason})") from None


def _check_files(folder: Path, files: Checksums) -> None:
    """Raise ``Damaged`` unless each file begins with as many bytes of the same checksum."""
    for name, (size, checksum) in files.items():
        if _file_checksum(folder / name, size) != [size, checksum]:
            raise Damaged(f"{folder / name} is damaged (its checksum differs)")


def _file_checksum(path: Path, size: int | None = None) -> list[Any]:
    content = path.read_bytes()[:size] if path.is_file() else b""
    return [len(content), hashlib.sha256(content).hexdigest()]


@runtime_checkable
class Writer(Protocol):
    """Another place for the numbers of an arm, such as TensorBoard's files; a context manager.

    Attributes:
        begins_anew: True if a new process loses what a former one wrote, and so needs all steps again.
    """

    begins_anew: bool

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of a step; a step may come twice, with its metrics and with its evaluation."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""


def metric_scalars(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a line of metrics; lists and undefined values are left out.

    >>> metric_scalars({"step": 3, "reward": 0.5, "grad_norm": None, "group_share": [0.5, 0.5]})
    {'reward': 0.5}
    """
    return {
        name: float(value)
        for name, value in line.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool)
    }


def evaluation_scalars(line: Mapping[str, Any], name: str = EVALUATION) -> dict[str, float]:
    """Return the numbers of an evaluation and its pass@k, with the name of their evaluation set.

    >>> line = {"step": 3, "samples": 8, "pass_at_k": {"1": {"mean": 0.25, "low": 0, "high": 1}}, "length": 2.5}
    >>> evaluation_scalars(line)
    {'evaluation/length': 2.5, 'evaluation/pass@1': 0.25}
    """
    scalars = {f"{name}/{metric}": value for metric, value in metric_scalars(line).items() if metric != "samples"}
    scalars |= {f"{name}/pass@{k}": value["mean"] for k, value in line.get("pass_at_k", {}).items()}
    for set_name, entries in line.get("sets", {}).items():
        scalars |= evaluation_scalars(entries, set_name)
    return scalars


SCALARS = {METRICS: metric_scalars, EVALUATIONS: evaluation_scalars}


class ArmFolder:
    """The folder of an arm and seed, or of the start of a seed; a context manager, which closes the ``writers``.

    Args:
        path: the folder, which is made if need be.
        origins: the accepted origins of its checkpoints; a new checkpoint has the last of them.
        writers: further places for its numbers.
    """

    def __init__(self, path: Path, origins: Sequence[Origin], writers: Sequence[Writer] = ()):
        self.path, self.origins, self.writers = path, origins, writers
        path.mkdir(parents=True, exist_ok=True)
        self._sizes, self._digests = dict[str, int](), dict[str, Any]()

    def __enter__(self) -> "ArmFolder":
        return self

    def __exit__(self, *error: Any) -> None:
        for writer in self.writers:
            writer.__exit__(*error)

    def begin(self, fresh: TrainerState) -> TrainerState:
        """Return the state of the checkpoint, or the fresh one at step 0, and cut all lines after it.

        A damaged checkpoint is renamed, as is one whose lines are damaged, and the arm begins anew.

        Raises:
            InputError: for the checkpoint of another arm or of other code.
        """
        checkpoint = self.path / CHECKPOINT
        if checkpoint.exists():
            try:
                state, record = load_state(checkpoint, fresh)
                self.check_origin(record["origin"], f"checkpoint {checkpoint}")
                self.cut_lines(record["files"])
                return state
            except Damaged as error:
                warn(f"{error}: the checkpoint is now {set_aside(checkpoint).name}, and {self.path} begins anew")
        self.cut_lines({})
        return fresh

    def check_origin(self, origin: Origin, subject: str) -> None:
        """Raise ``InputError`` for the origin of another arm, or of other code."""
        if origin not in self.origins:
            difference = first_difference(origin, self.origins[-1])
            raise InputError(f"{subject} belongs to another run ({difference}); delete it to restart this arm")

    def append(self, name: str, line: Mapping[str, Any]) -> None:
        """Append a line to a file; numbers that are not finite become null."""
        plain = _as_plain(line)
        content = (json.dumps(plain) + "\n").encode()
        with (self.path / name).open("ab") as file:
            file.write(content)
        self._sizes[name] = self._sizes.get(name, 0) + len(content)
        self._digests.setdefault(name, hashlib.sha256()).update(content)
        if name in SCALARS:
            for writer in self.writers:
                writer.write(line["step"], SCALARS[name](plain))

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of a file."""
        return read_lines(self.path / name)

    def record(self) -> dict[str, Any]:
        """Return what a checkpoint records: the origin, and the size and checksum of each file of lines."""
        files = {name: [size, self._digests[name].hexdigest()] for name, size in self._sizes.items()}
        return {"origin": self.origins[-1], "files": files}

    def cut_lines(self, files: Checksums) -> None:
        """Cut each file of lines to its recorded size; a file that is not recorded is removed.

        Raises:
            Damaged: for a file that is shorter, or has another checksum.
        """
        _check_files(self.path, files)
        self._sizes, self._digests = {}, {}
        for name in LINES:
            path, (size, _) = self.path / name, files.get(name, (0, ""))
            if size:
                with path.open("r+b") as file:
                    file.truncate(size)
                self._sizes[name], self._digests[name] = size, hashlib.sha256(path.read_bytes())
            else:
                path.unlink(missing_ok=True)
        anew = [writer for writer in self.writers if writer.begins_anew]
        if anew:
            scalars = [(line["step"], SCALARS[name](line)) for name in SCALARS for line in self.lines(name)]
            for step, values in sorted(scalars, key=lambda entry: entry[0]):
                for writer in anew:
                    writer.write(step, values)

    def save(self, state: TrainerState) -> None:
        """Write a checkpoint in place of the former one."""
        save_state(self.path / CHECKPOINT, state, self.record())

    def explain_stop(self, state: TrainerState, where: str, error: InputError) -> InputError:
        """Return the error message of a step that failed, after saving the state before it.

        Args:
            state: the state before the step.
            where: the step, in words.
            error: the error in the step.
        """
        # A task fails before anything changes; an update that fails has used up the optimiser's buffers.
        buffers = jax.tree.leaves((state.parameters, state.optimizer))
        if not isinstance(error, Diverged) and not any(leaf.is_deleted() for leaf in buffers):
            self.save(state)
        path = self.path / CHECKPOINT
        checkpoint = f"the last checkpoint is kept: {path}" if path.exists() else "there was no checkpoint yet"
        return InputError(f"{where}: {error}; {checkpoint}")

    def save_model(self, model: Model, vocabulary: Vocabulary, generation: Mapping[str, Any] | None = None) -> None:
        """Write a model that ``transformers`` opens, with its tokenizer; a user's own vocabulary has no file."""
        if isinstance(vocabulary, Tokenizer | Words):
            write_tokenizer(self.path / MODEL, vocabulary)
        write_checkpoint(self.path / MODEL, model, generation)

    def finish(self, *, keep_checkpoint: bool = False, **facts: Any) -> None:
        """Record that all is done, with the checksums of all files and further facts, and remove the checkpoints."""
        models = sorted(path for path in (self.path / MODEL).glob("*") if path.is_file())
        record = self.record() | facts
        record["files"] |= {f"{MODEL}/{path.name}": _file_checksum(path) for path in models}
        write_whole(self.path / FINISHED, sealed_json(record, FINISHED))
        if not keep_checkpoint:
            self._remove_checkpoints()

    def finished_record(self, *, keep_checkpoint: bool = False) -> dict[str, Any] | None:
        """Return the record of ``finish``; None if the folder is unfinished, or damaged, and so begins anew.

        Raises:
            InputError: for the record of another arm or of other code.
        """
        path = self.path / FINISHED
        try:
            record = _read_finished(self.path)
            if record is None:
                return None
            self.check_origin(record["origin"], str(path))
            _check_files(self.path, record["files"])
            self.cut_lines({name: entry for name, entry in record["files"].items() if name in LINES})
        except Damaged as error:
            warn(f"{error}: {self.path} begins anew")
            path.unlink()
            return None
        if not keep_checkpoint:
            self._remove_checkpoints()  # a kill may have left them
        return record

    def _remove_checkpoints(self) -> None:
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        shutil.rmtree(self.path / TRL_CHECKPOINTS, ignore_errors=True)


def warn(message: str) -> None:
    """Print to standard error which file is damaged, and the consequence."""
    print(message, file=sys.stderr)


def _as_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _as_plain(inner) for name, inner in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_as_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

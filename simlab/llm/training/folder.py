"""The folder of a run: ``run.json``, and a folder for each arm's seed and each seed's start.

These have files of JSON lines, a checkpoint with the sizes of these files, and at the end a model and the mark
``finished.json``. A run that goes on cuts the files to these sizes, and appends the same lines::

    step 1 2 3 | 4 5      a kill in step 6; the checkpoint of step 3 has the size of three lines
    step 1 2 3            the resumed run cuts here, and computes steps 4 and 5 again
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simlab.errors import Diverged, InputError
from simlab.files import check_removable, whole_file, write_whole
from simlab.interference.record import FOLDER, remove_later
from simlab.llm.loggers import Scalars, WandbFiles
from simlab.llm.model import Parameters
from simlab.llm.training.origin import CONTINUED, Origin, describe_difference, first_difference, list_origins
from simlab.llm.training.settings import TrainingSettings
from simlab.reading import read_bytes
from simlab.seals import Damaged, sealed_json, unsealed_json

RUN, START, ARMS = "run.json", "start", "arms"  # START stands for an arm's name
LINES = ("metrics.jsonl", "evaluation.jsonl", "rollouts.jsonl", "completions.jsonl")
METRICS, EVALUATIONS, ROLLOUTS, COMPLETIONS = LINES
CHECKPOINT, MODEL, FINISHED = "state.npz", "model", "finished.json"
TRL_CHECKPOINTS = "trl"  # the folder that TRL writes its own to
ELSEWHERE = "--overwrite, or another --out"
RECORD = "record"  # the member of a checkpoint with JSON


def arm_folder(run: Path, name: str) -> Path:
    """Return the folder of an arm's seeds; its name may hold a path of the user's, whose slashes are escaped."""
    return run / ARMS / name.replace("/", "%2F")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines; a missing file has none, and a last line without an end is left out."""
    records = []
    for number, line in enumerate(read_bytes(path).split(b"\n")[:-1] if path.exists() else [], 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise Damaged(f"{path} line {number} is damaged (it is no JSON object)")
        records.append(record)
    return records


def metric_scalars(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a line of metrics; lists and undefined values are left out.

    >>> metric_scalars({"step": 3, "reward": 0.5, "grad_norm": None, "group_share": [0.5, 0.5]})
    {'reward': 0.5}
    """
    return {name: float(value) for name, value in line.items() if name != "step" and type(value) in (int, float)}


def evaluation_scalars(line: Mapping[str, Any], name: str = "evaluation") -> dict[str, float]:
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


class TrainerState(NamedTuple):
    """Training between two steps.

    ``cursor`` counts problems used, ``older`` has former parameters, latest first, and ``again`` the numbers of the
    problems that come again in the next batch, where a remedy says which.
    """

    parameters: Parameters
    optimizer: Any
    estimator: Any = ()
    surrogate: Any = ()
    step: int = 0
    cursor: int = 0
    older: tuple[Parameters, ...] = ()
    again: Any = ()


def save_state(path: Path, state: TrainerState, record: Mapping[str, Any]) -> None:
    """Write a state and a record, which is plain data; array by array, so that no second copy is in memory."""
    leaves = {str(index): leaf for index, leaf in enumerate(jax.tree.leaves(state))}
    leaves[RECORD] = np.array(json.dumps({**record, "step": state.step}))
    with whole_file(path) as file:
        np.savez(file, allow_pickle=False, **leaves)


def load_state(path: Path, like: TrainerState) -> TrainerState:
    """Read a state of the same structure as ``like``, with arrays of JAX or NumPy as there."""
    leaves, structure = jax.tree.flatten(like)
    with _members(path) as members:
        if len(members) != len(leaves) + 1:
            raise ValueError(f"{len(members) - 1} arrays, not {len(leaves)}")
        values = [_restored(members[str(index)], leaf) for index, leaf in enumerate(leaves)]
    state: TrainerState = jax.tree.unflatten(structure, values)
    return state


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of a state, with its ``step``."""
    with _members(path) as members:
        record: dict[str, Any] = json.loads(str(members[RECORD]))
    return record


def _restored(value: np.ndarray, like: Any) -> Any:
    if value.shape != np.shape(like):
        raise ValueError(f"shape {value.shape}, not {np.shape(like)}")
    return int(value) if isinstance(like, int) else jnp.asarray(value) if isinstance(like, jax.Array) else value


@contextlib.contextmanager
def _members(path: Path) -> Iterator[Mapping[str, np.ndarray]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
            yield members
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, NotImplementedError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        allowed = "delete it to restart this arm"
        raise InputError(f"checkpoint {path} is damaged or belongs to another run ({reason}); {allowed}") from None


class ArmFolder(contextlib.ExitStack):
    """The folder of an arm and seed, or of the start of a seed; as a context manager it closes the ``writers``.

    ``origins`` are the accepted ones of its checkpoints; a new checkpoint has the last of them.
    """

    def __init__(self, path: Path, origins: Sequence[Origin], writers: Sequence[Scalars | WandbFiles] = ()):
        super().__init__()
        self.path, self.origins, self.writers = path, origins, writers
        for writer in writers:
            self.push(writer.__exit__)
        path.mkdir(parents=True, exist_ok=True)

    def begin(self, fresh: TrainerState) -> TrainerState:
        """Return the state of the checkpoint, or the fresh one at step 0, and cut all lines after it."""
        state, sizes, checkpoint = fresh, {}, self.path / CHECKPOINT
        if checkpoint.exists():
            record = read_record(checkpoint)
            self.check_origin(record["origin"], f"checkpoint {checkpoint}")
            state, sizes = load_state(checkpoint, fresh), record["sizes"]
        self.cut_lines(sizes)
        remove_later(self.path / FOLDER, state.step)
        return state

    def check_origin(self, origin: Origin, subject: str) -> None:
        """Raise ``InputError`` for the origin of another arm, or of other code."""
        if origin not in self.origins:
            difference = first_difference(origin, self.origins[-1])
            raise InputError(f"{subject} belongs to another run ({difference}); delete it to restart this arm")

    def append(self, name: str, line: Mapping[str, Any]) -> None:
        """Append a line to a file; numbers that are not finite become null."""
        text = json.dumps(line, default=lambda value: value.tolist())
        plain = json.loads(text, parse_constant=lambda constant: None)
        with (self.path / name).open("ab") as file:
            file.write((json.dumps(plain) + "\n").encode())
        if name in SCALARS:
            for writer in self.writers:
                writer.write(line["step"], SCALARS[name](plain))

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of a file."""
        return read_lines(self.path / name)

    def record(self) -> dict[str, Any]:
        """Return the record of a checkpoint: the origin, and the size of each file of lines."""
        sizes = {name: (self.path / name).stat().st_size for name in LINES if (self.path / name).exists()}
        return {"origin": self.origins[-1], "sizes": sizes}

    def cut_lines(self, sizes: Mapping[str, int]) -> None:
        """Cut each file of lines to its recorded size; one that is not recorded is removed."""
        for name in LINES:
            path, size = self.path / name, sizes.get(name, 0)
            if not size:
                path.unlink(missing_ok=True)
            elif path.exists() and size <= path.stat().st_size:
                os.truncate(path, size)
            else:
                raise InputError(f"{path} is damaged (it is cut off); delete {self.path} to restart this arm")
        self._write_again()

    def _write_again(self) -> None:
        """Give all lines to the writers that begin anew in each process."""
        for writer in self.writers:
            if writer.begins_anew:
                scalars = [(line["step"], SCALARS[name](line)) for name in SCALARS for line in self.lines(name)]
                for step, values in sorted(scalars, key=lambda entry: entry[0]):
                    writer.write(step, values)

    def save(self, state: TrainerState) -> None:
        """Write a checkpoint in place of the former one."""
        save_state(self.path / CHECKPOINT, state, self.record())

    def explain_stop(self, state: TrainerState, where: str, error: InputError) -> InputError:
        """Return the error message of a step that failed, after saving the ``state`` before it; ``where`` has words."""
        # A task fails before anything changes; an update that fails has used up the optimiser's buffers.
        buffers = jax.tree.leaves((state.parameters, state.optimizer))
        if not isinstance(error, Diverged) and not any(leaf.is_deleted() for leaf in buffers):
            self.save(state)
        path = self.path / CHECKPOINT
        checkpoint = f"the last checkpoint is kept: {path}" if path.exists() else "there was no checkpoint yet"
        return InputError(f"{where}: {error}; {checkpoint}")

    def finish(self, *, keep_checkpoint: bool = False, **facts: Any) -> None:
        """Mark that all is done, with further facts, and remove the checkpoints."""
        record = {"origin": self.origins[-1], **facts}
        write_whole(self.path / FINISHED, (json.dumps(record) + "\n").encode())
        self._remove_checkpoints(keep_checkpoint)

    def finished_record(self, *, keep_checkpoint: bool = False) -> dict[str, Any] | None:
        """Return the facts of ``finish``; None if the folder is unfinished."""
        path = self.path / FINISHED
        if not path.exists():
            return None
        record: dict[str, Any] = json.loads(path.read_text())
        self.check_origin(record["origin"], str(path))
        self._remove_checkpoints(keep_checkpoint)  # a kill may have left them
        self._write_again()
        return record

    def _remove_checkpoints(self, keep: bool) -> None:
        if not keep:
            (self.path / CHECKPOINT).unlink(missing_ok=True)
            shutil.rmtree(self.path / TRL_CHECKPOINTS, ignore_errors=True)


class RunFolder:
    """The folder ``out`` of a run; ``begin`` comes first. Arms are written for TensorBoard and W&B too if need be."""

    def __init__(self, out: Path, settings: TrainingSettings, *, tensorboard: bool = False, wandb: bool = False):
        self.out, self.settings, self.tensorboard, self.wandb = out, settings, tensorboard, wandb
        self.origins: list[Origin] = []
        # A state does not depend on records, nor on the list of arms and seeds.
        data = {name: settings.as_data()[name] for name in ("task", "model", "warm_start", "rl", "engine")}
        self._digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]

    def begin(self, origin: Origin, *, overwrite: bool, other_code: bool, inputs: Iterable[Path] = ()) -> None:
        """Write ``run.json``; in that of a former process, record who goes on, and from which steps.

        Raises: InputError: for another run, unless ``overwrite``; for a folder that simlab did not write; and where
            overwriting would remove one of the ``inputs``.
        """
        record = self._read_run()
        if record is not None:
            try:
                self._check_same(record, origin, other_code)
            except InputError:
                if not overwrite:
                    raise
                self._clear(record, inputs)
                record = None
        last = list_origins(record)[-1] if record else origin
        if record is None:
            seeds = list(range(self.settings.seeds))
            record = {"settings": self.settings.as_data(), "arms": list(self.settings.arms), "seeds": seeds, **origin}
            write_whole(self.out / RUN, sealed_json(record, RUN))
        elif (describe_difference(last, origin) or last["processor"] != origin["processor"]) and (
            steps := self._unfinished_steps()
        ):
            record = {**record, CONTINUED: [*record.get(CONTINUED, []), {**origin, "from": steps}]}
            write_whole(self.out / RUN, sealed_json(record, RUN))
            warning = f"{self.out} goes on with other code or another processor: {RUN} says from which steps"
            print(warning, file=sys.stderr)
        self.origins = list_origins(record)

    def _read_run(self) -> dict[str, Any] | None:
        """Return ``run.json``; None in a new folder. ``InputError`` for what simlab did not write, or is damaged."""
        path = self.out / RUN
        if not path.exists():
            for folder in (self.out / START, self.out / ARMS):
                if folder.exists():
                    raise InputError(f"{folder} is there without {RUN}; allowed: another --out, or a folder without it")
            return None
        try:
            return unsealed_json(path.read_bytes(), RUN)
        except Damaged as reason:
            raise InputError(f"{path} is damaged or not simlab's ({reason}); allowed: another --out") from None

    def _check_same(self, record: Mapping[str, Any], origin: Origin, other_code: bool) -> None:
        """Raise ``InputError`` for a run of other settings or, unless ``other_code``, of other code."""
        before, now = record["settings"], json.loads(json.dumps(self.settings.as_data()))
        with contextlib.suppress(InputError):  # settings that a former version did not have are at their defaults
            before = json.loads(json.dumps(TrainingSettings.from_data(before).as_data()))
        if before != now:
            difference = first_difference(before, now)
            allowed = f"the same settings, {ELSEWHERE}"
            raise InputError(f"{self.out} holds a run of other settings ({difference}); allowed: {allowed}")
        if (code := describe_difference(list_origins(record)[-1], origin)) and not other_code:
            allowed = f"the code that made it, --other-code to go on, {ELSEWHERE}"
            raise InputError(f"{self.out} was made by other code ({code}); allowed: {allowed}")

    def arm(self, name: str, seed: int) -> ArmFolder:
        """Return the folder of an arm and seed, or of the start of a seed."""
        path, owner = self._path(name, seed), {"arm": name, "seed": seed, "settings": self._digest}
        writers: list[Scalars | WandbFiles] = []
        if self.tensorboard and name != START:
            writers.append(Scalars(path / "tensorboard"))
        if self.wandb and name != START:
            identity = hashlib.sha256(f"{path.resolve()} {self._digest}".encode()).hexdigest()[:16]
            group, config = self.out.resolve().name, {**self.settings.as_data(), "arm": name, "seed": seed}
            path.mkdir(parents=True, exist_ok=True)
            writers.append(WandbFiles(path, name=f"{name}, seed {seed}", group=group, identity=identity, config=config))
        return ArmFolder(path, [{**owner, **origin} for origin in self.origins], writers)

    def _path(self, name: str, seed: int) -> Path:
        return (self.out / START if name == START else arm_folder(self.out, name)) / f"seed-{seed}"

    def _unfinished_steps(self) -> dict[str, dict[str, int]]:
        """Return the finished steps of unfinished folders, by arm and seed; the warm start is ``START``."""
        steps: dict[str, dict[str, int]] = {}
        names = [*[START] * (self.settings.warm_start.steps > 0), *self.settings.arms]
        for name, seed in product(names, range(self.settings.seeds)):
            if not ((path := self._path(name, seed)) / FINISHED).exists():
                steps.setdefault(name, {})[str(seed)] = self._steps_done(name, path)
        return steps

    def _steps_done(self, name: str, path: Path) -> int:
        if self.settings.engine == "simlab" or name == START:
            return int(read_record(path / CHECKPOINT)["step"]) if (path / CHECKPOINT).exists() else 0
        from simlab.adapters import trl_engine  # noqa: PLC0415  # of an extra

        return trl_engine.steps_done(path, self.settings.arm_rl(name).updates)

    def _clear(self, record: Mapping[str, Any], inputs: Iterable[Path]) -> None:
        """Remove a former run and keep all else; ``run.json`` goes first, so that no kill leaves half a run."""
        folders = [self._path(name, seed) for name, seed in product((START, *record["arms"]), record["seeds"])]
        check_removable([self.out / RUN, *folders], inputs)
        (self.out / RUN).unlink()
        for folder in folders:
            if folder.exists():
                shutil.rmtree(folder)
        for folder in (*{folder.parent for folder in folders}, self.out / ARMS):
            with contextlib.suppress(OSError):  # a user's files are in it, or it is not there
                folder.rmdir()

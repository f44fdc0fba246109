"""The folder of one arm and seed: lines of metrics, evaluations, checkpoint and model."""

import hashlib
import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.files import set_aside, write_whole
from simlab.llm.checkpoint import CHECKSUMS, Model, check_files, write_checkpoint
from simlab.llm.tokenizer import Tokenizer, write_tokenizer
from simlab.llm.training.lines import as_line, as_lines, name_of, read_lines
from simlab.llm.training.origin import Origin, first_difference
from simlab.llm.training.scalars import Writer, of_evaluation, of_metrics
from simlab.llm.training.state import State, load_state, save_state
from simlab.llm.training.state_files import remove_leftovers, remove_state_files, set_aside_state_files
from simlab.llm.vocabulary import Characters, Vocabulary, Words
from simlab.seals import Damaged, json_checksum, sealed_json, unsealed_json

RUN = "run.json"  # beside the folders of arms
METRICS, EVALUATIONS = "metrics.jsonl", "evaluation.jsonl"
TO_BE_READ = ROLLOUTS, COMPLETIONS = "rollouts.jsonl", "completions.jsonl"  # texts of steps and of evaluations
FILES = (METRICS, EVALUATIONS, *TO_BE_READ)
SCALARS = {METRICS: of_metrics, EVALUATIONS: of_evaluation}  # what writers get of a file's lines
CHECKPOINT, MODEL = "state.safetensors", "model"  # the former of a large model is the head of several files
TRL_CHECKPOINTS = "trl"  # a folder of those that TRL writes
FINISHED = "finished.json"  # of an arm whose model is whole and whose checkpoints are gone


def arm_folder(run: Path, name: str) -> Path:
    """The folder in a run that an arm's seeds are in: its name, which may hold a path of the user's, as one name."""
    return run / "arms" / name.replace("/", "%2F")


class ArmFolder:
    """Lines are appended as they come; a checkpoint says which of them count when the run goes on.

    A context manager, which closes the ``writers``: what also gets the numbers, for TensorBoard and W&B.

    Args:
        path: the folder, which is made if need be.
        origins: what its checkpoint may say of itself; a new one says the last of them.
        writers: see above.
    """

    def __init__(self, path: Path, origins: Sequence[Origin], writers: Sequence[Writer] = ()):
        self.path, self.origins, self.writers = path, origins, writers
        self._ends: dict[str, str] = {}
        path.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "ArmFolder":
        return self

    def __exit__(self, *raised: Any) -> None:
        for writer in self.writers:
            writer.__exit__(*raised)

    def begin(self, fresh: State, every: int | None = None) -> State:
        """The state of the last checkpoint, or the fresh one; lines of steps after it are dropped.

        A damaged checkpoint is set aside, as is one of which lines are damaged or missing, and the arm begins anew.

        Args:
            fresh: the state at step 0.
            every: after how many steps each the arm is evaluated; None if it is not.

        Raises:
            InputError: for a checkpoint that is another's.
        """
        checkpoint = self.path / CHECKPOINT
        if not checkpoint.exists():
            remove_leftovers(checkpoint)
            self.keep(0)
            return fresh
        try:
            state = load_state(checkpoint, fresh, self.origins)
            remove_leftovers(checkpoint)
            # That after its own step may be what an error left undone.
            self.keep(state.step, max(0, state.step - 1) // every if every else 0)
            return state
        except Damaged as error:
            complain(f"{error}: the checkpoint is set aside, and {self.path} begins anew")
            set_aside_state_files(checkpoint)
            self.keep(0)
            return fresh

    def keep(self, step: int, evaluations: int = 0) -> None:
        """Drop the lines of later steps; of damaged ones there a copy is set aside.

        Args:
            step: that of the checkpoint from which the run goes on: there is a line of metrics for each step up to it,
                and some of them have a line of rollouts. Completions are kept of the evaluations that are.
            evaluations: how many lines of evaluations there are at least.

        Raises:
            Damaged: if lines up to this step are damaged or missing.
        """
        found = {name: read_lines(self.path / name) for name in FILES}
        kept = {name: [line for line in found[name].lines if line["step"] <= step] for name in found}
        evaluated = {line["step"] for line in kept[EVALUATIONS]}
        kept[COMPLETIONS] = [line for line in kept[COMPLETIONS] if line["step"] in evaluated]
        for name, needed in ((METRICS, step), (EVALUATIONS, evaluations)):
            if len(kept[name]) < needed:
                lost = f"{self.path / name} has {len(kept[name])} lines up to step {step}, where {needed} were written"
                raise Damaged(found[name].damage or lost)
        for name, lines in kept.items():
            if found[name].damage:
                gone = f", but for texts up to step {step}" if name in TO_BE_READ else ""
                complain(f"{found[name].damage}: the file is set aside, and what is lost is computed again{gone}")
                set_aside(self.path / name)
            if found[name].rest or lines != found[name].lines:
                self.rewrite(name, lines)
        written = [(line["step"], SCALARS[name](line)) for name in SCALARS for line in kept[name]]
        for number, values in sorted(written, key=lambda each: each[0]):
            for writer in (own for own in self.writers if own.begins_anew):
                writer.write(number, values)

    def rewrite(self, name: str, lines: Iterable[Mapping[str, Any]]) -> None:
        """Put these lines in place of all that there are."""
        content, self._ends[name] = as_lines(map(_plain, lines), name_of(self.path / name))
        write_whole(self.path / name, content)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a file but the last if a kill has cut it off.

        Raises:
            Damaged: if one is damaged.
        """
        found = read_lines(self.path / name)
        if found.damage:
            raise Damaged(found.damage)
        return found.lines

    def append(self, name: str, line: Mapping[str, Any]) -> None:
        """Write a line; numbers that are not finite become null."""
        plain = _plain(line)
        end = self._ends.get(name) or read_lines(self.path / name).end
        with (self.path / name).open("ab") as file:
            file.write(as_line(plain, end))
        self._ends[name] = json_checksum(plain, end)
        if name in SCALARS:
            for writer in self.writers:
                writer.write(line["step"], SCALARS[name](plain))

    def sync(self) -> None:
        """Have all lines on the disk, before a checkpoint counts on them."""
        for name in FILES:
            if (self.path / name).exists():
                with (self.path / name).open("rb") as file:
                    os.fsync(file.fileno())

    def save(self, state: State) -> None:
        """Write a checkpoint in place of the former one."""
        self.sync()
        save_state(self.path / CHECKPOINT, state, self.origins[-1])

    def model_is_whole(self) -> bool:
        """Whether there is a model; a damaged one is set aside, and then there is none."""
        try:
            check_files(self.path / MODEL)
        except Damaged as error:
            complain(f"{error}: {set_aside(self.path / MODEL)} has it now, and it is made anew")
        return (self.path / MODEL / CHECKSUMS).exists()

    def finish(self) -> None:
        """Say that the arm is done, once its model is written, and remove the checkpoints."""
        said = {"origin": self.origins[-1], "model": self._model_checksum()}
        write_whole(self.path / FINISHED, sealed_json(said, name_of(self.path / FINISHED)))
        self._remove_checkpoints()

    def is_finished(self, steps: int, every: int) -> bool:
        """Whether the arm is done; if anything of it is damaged or missing, that is said and it begins anew.

        Args:
            steps: the steps of the arm.
            every: after how many steps each it is evaluated.

        Raises:
            InputError: for an arm that is another's.
        """
        path = self.path / FINISHED
        if not path.exists():
            return False
        try:
            said = self._finished()
            self.keep(steps, steps // every + (steps % every > 0))
        except Damaged as error:
            complain(f"{error}: {self.path} begins anew")
            set_aside(path)
            return False
        if said["origin"] not in self.origins:
            difference = first_difference(said["origin"], self.origins[-1])
            raise InputError(f"{path} belongs to another run ({difference}); delete it to restart this arm")
        self._remove_checkpoints()  # which a kill may have left
        return True

    def _finished(self) -> dict[str, Any]:
        """What is said of the arm that is done, if it is of the model that is there."""
        path = self.path / FINISHED
        try:
            said = unsealed_json(path.read_bytes(), name_of(path))
        except Damaged as reason:
            raise Damaged(f"{path} is damaged ({reason})") from None
        if not self.model_is_whole():
            raise Damaged(f"{self.path / MODEL} is not whole")
        if said["model"] != self._model_checksum():
            raise Damaged(f"{set_aside(self.path / MODEL)} is not the model that {path} has")
        return said

    def _model_checksum(self) -> str:
        return hashlib.sha256((self.path / MODEL / CHECKSUMS).read_bytes()).hexdigest()

    def remove_state(self) -> None:
        """Remove the checkpoint of simlab's own."""
        remove_state_files(self.path / CHECKPOINT)

    def _remove_checkpoints(self) -> None:
        self.remove_state()
        if (self.path / TRL_CHECKPOINTS).exists():
            shutil.rmtree(self.path / TRL_CHECKPOINTS)

    def save_model(self, model: Model, vocabulary: Vocabulary, generation: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint that ``transformers`` opens, with its tokenizer; a user's own vocabulary has no file."""
        if isinstance(vocabulary, Tokenizer | Words | Characters):
            write_tokenizer(self.path / MODEL, vocabulary)
        write_checkpoint(self.path / MODEL, model, generation)


def complain(message: str) -> None:
    """Say on standard error what was found damaged and what is done about it."""
    print(message, file=sys.stderr)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""The folder of one arm and seed: lines of metrics, evaluations, checkpoint and model."""

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simlab.files import make_folders, set_aside, sync_folder, write_whole
from simlab.llm.checkpoint import Model, write_checkpoint
from simlab.llm.checksums import CHECKSUMS, check_files
from simlab.llm.tensorboard import Scalars
from simlab.llm.tokenizer import Tokenizer, write_tokenizer
from simlab.llm.training.lines import as_line, as_lines, name_of, read_lines
from simlab.llm.training.origin import Origin
from simlab.llm.training.state import State, load_state, save_state
from simlab.llm.vocabulary import Characters, Vocabulary, Words
from simlab.seals import Damaged, json_checksum

RUN = "run.json"  # beside the folders of arms
METRICS, EVALUATIONS, ROLLOUTS = "metrics.jsonl", "evaluation.jsonl", "rollouts.jsonl"
CHECKPOINT, MODEL = "state.safetensors", "model"


def arm_folder(run: Path, name: str) -> Path:
    """The folder in a run that an arm's seeds are in: its name, which may hold a path of the user's, as one name."""
    return run / "arms" / name.replace("/", "%2F")


class ArmFolder:
    """Lines are appended as they come; a checkpoint says which of them count when the run goes on.

    A context manager, which closes ``scalars``: what also gets the numbers, for TensorBoard.

    Args:
        path: the folder, which is made if need be.
        origins: what its checkpoint may say of itself; a new one says the last of them.
        scalars: see above.
    """

    def __init__(self, path: Path, origins: Sequence[Origin], scalars: Scalars | None = None):
        self.path, self.origins, self.scalars = path, origins, scalars
        self._ends: dict[str, str] = {}
        make_folders(path)

    def __enter__(self) -> "ArmFolder":
        return self

    def __exit__(self, *raised: Any) -> None:
        if self.scalars is not None:
            self.scalars.__exit__(*raised)

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
            self.keep(0)
            return fresh
        try:
            state = load_state(checkpoint, fresh, self.origins)
            # That after its own step may be what an error left undone.
            self.keep(state.step, max(0, state.step - 1) // every if every else 0)
            return state
        except Damaged as error:
            complain(f"{error}: the checkpoint is set aside, and {self.path} begins anew")
            set_aside(checkpoint)
            self.keep(0)
            return fresh

    def keep(self, step: int, evaluations: int = 0) -> None:
        """Drop the lines of later steps; of damaged ones there a copy is set aside.

        Args:
            step: that of the checkpoint from which the run goes on: there is a line of metrics for each step up to it,
                and some of them have a line of rollouts.
            evaluations: how many lines of evaluations there are at least.

        Raises:
            Damaged: if lines up to this step are damaged or missing.
        """
        found = {name: read_lines(self.path / name) for name in (METRICS, EVALUATIONS, ROLLOUTS)}
        kept = {name: [line for line in found[name].lines if line["step"] <= step] for name in found}
        for name, needed in ((METRICS, step), (EVALUATIONS, evaluations)):
            if len(kept[name]) < needed:
                lost = f"{self.path / name} has {len(kept[name])} lines up to step {step}, where {needed} were written"
                raise Damaged(found[name].damage or lost)
        for name, lines in kept.items():
            if found[name].damage:
                complain(f"{found[name].damage}: the file is set aside, and what is lost is computed again")
                set_aside(self.path / name)
            if found[name].rest or lines != found[name].lines:
                self.rewrite(name, lines)

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
        if self.scalars is not None and name != ROLLOUTS:
            self.scalars.write(line["step"], {name: value for name, value in line.items() if _is_scalar(value)})

    def sync(self) -> None:
        """Have all lines on the disk, before a checkpoint counts on them."""
        for name in (METRICS, EVALUATIONS, ROLLOUTS):
            if (self.path / name).exists():
                with (self.path / name).open("rb") as file:
                    os.fsync(file.fileno())
        sync_folder(self.path)

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

    def save_model(self, model: Model, vocabulary: Vocabulary, generation: Mapping[str, Any] | None = None) -> None:
        """Write a checkpoint that ``transformers`` opens, with its tokenizer; a user's own vocabulary has no file."""
        if isinstance(vocabulary, Tokenizer | Words | Characters):
            write_tokenizer(self.path / MODEL, vocabulary)
        write_checkpoint(self.path / MODEL, model, generation)


def complain(message: str) -> None:
    """Say on standard error what was found damaged and what is done about it."""
    print(message, file=sys.stderr)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (int, float, np.number))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

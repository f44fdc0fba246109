"""The folder of one arm and seed: lines of metrics, evaluations, checkpoint and model."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simlab.files import make_folders, write_whole
from simlab.llm.checkpoint import Model, write_checkpoint
from simlab.llm.tensorboard import Scalars
from simlab.llm.tokenizer import Tokenizer, write_tokenizer
from simlab.llm.training.origin import Origin
from simlab.llm.training.state import State, load_state, save_state
from simlab.llm.vocabulary import Characters, Vocabulary, Words

RUN = "run.json"  # beside the folders of arms
METRICS, EVALUATIONS, CHECKPOINT, MODEL = "metrics.jsonl", "evaluation.jsonl", "state.safetensors", "model"


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
        make_folders(path)

    def __enter__(self) -> "ArmFolder":
        return self

    def __exit__(self, *raised: Any) -> None:
        if self.scalars is not None:
            self.scalars.__exit__(*raised)

    def begin(self, fresh: State) -> State:
        """The state of the last checkpoint, or the fresh one; lines of steps after it are dropped."""
        checkpoint = self.path / CHECKPOINT
        state = load_state(checkpoint, fresh, self.origins) if checkpoint.exists() else fresh
        self.keep(state.step)
        return state

    def keep(self, step: int) -> None:
        """Drop the lines of later steps."""
        for name in (METRICS, EVALUATIONS):
            if (self.path / name).exists():
                self.rewrite(name, [line for line in self.lines(name) if line["step"] <= step])

    def rewrite(self, name: str, lines: Iterable[Mapping[str, Any]]) -> None:
        """Put these lines in place of all that there are."""
        write_whole(self.path / name, "".join(map(_as_line, lines)).encode())

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The whole lines of a file; the last one may have been cut off by a kill."""
        path, found = self.path / name, []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found

    def append(self, name: str, line: Mapping[str, Any]) -> None:
        """Write a line; numbers that are not finite become null."""
        with (self.path / name).open("a") as file:
            file.write(_as_line(line))
        if self.scalars is not None:
            self.scalars.write(line["step"], {name: value for name, value in line.items() if _is_scalar(value)})

    def save(self, state: State) -> None:
        """Write a checkpoint in place of the former one."""
        save_state(self.path / CHECKPOINT, state, self.origins[-1])

    def save_model(self, model: Model, vocabulary: Vocabulary) -> None:
        """Write a checkpoint that ``transformers`` opens, with its tokenizer; a user's own vocabulary has no file."""
        if isinstance(vocabulary, Tokenizer | Words | Characters):
            write_tokenizer(self.path / MODEL, vocabulary)
        write_checkpoint(self.path / MODEL, model)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (int, float, np.number))


def _as_line(line: Mapping[str, Any]) -> str:
    return json.dumps({name: _plain(value) for name, value in line.items()}) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""The file of one measurement of interference: which trainer wrote it does not matter.

A compressed ``.npz`` a step and estimator, ``FOLDER/00000010.full.npz``; it appears complete or not at all, and each
member has a checksum. ``facts`` and ``prompts`` are JSON in arrays of one text; all other arrays are numbers. All
prompts have their pushes. Of more than ``WHOLE`` prompts the kernel has ``COLUMNS`` columns: those of prompts outside
of the batch, then those of prompts in danger, the likeliest first.
"""

import json
import math
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from simlab.files import whole_file
from simlab.interference.kernel import Interference, Push, danger
from simlab.seals import Damaged

FOLDER = "probe"  # beside the files of an arm
VERSION = 1
WHOLE, COLUMNS = 512, 128  # 2 MiB of kernel and errors; of 4,096 prompts 4 MiB, where all columns would take 128
TEXTS = ("facts", "prompts")
KERNELS = ("kernel", "kernel_error")
FACTS = (
    "step", "estimator", "preconditioner", "optimizer", "method", "learning_rate", "clip", "updates", "sketch",
    "group_size", "temperature",
)  # fmt: skip


class Record(NamedTuple):
    """A measurement at one step, before its update.

    Attributes:
        facts: those of ``FACTS``: ``estimator`` is full or head, ``preconditioner`` none or adam, ``clip`` the factor
            by which the gradient was clipped, ``updates`` the number of updates by the batch, ``sketch`` the numbers
            onto which a layer was projected (0: exact).
        prompts: a prompt is known by its text.
        batch: true for prompts that the step learned from.
        rollouts: number of rollouts of each prompt.
        solve_rate: share of correct ones.
        interference: kernel, pushes and errors; NaN in the columns of a kernel that its file did not keep.
        moved: how far the step that was taken moves each solve rate, to first order: with momentum, clipping and decay,
            which the pushes leave out. NaN for prompts of the batch, whose rollouts made the step; None for ``head``.
    """

    facts: Mapping[str, Any]
    prompts: list[str]
    batch: Bool[np.ndarray, " N"]
    rollouts: Int[np.ndarray, " N"]
    solve_rate: Float[np.ndarray, " N"]
    interference: Interference
    moved: Float[np.ndarray, " N"] | None = None

    @property
    def step(self) -> int:
        """Step whose batch was measured."""
        return int(self.facts["step"])

    @property
    def pace(self) -> float:
        """learning rate x clip x updates, which turns a push into the change of a solve rate in this step."""
        return float(math.prod(self.facts[name] for name in ("learning_rate", "clip", "updates")))

    @property
    def danger(self) -> Float[np.ndarray, " N"]:
        """Chance that the net push on a prompt is below 0; NaN where its rollouts are all right or all wrong."""
        return danger(self.interference.push.net, self.interference.error.net)

    @property
    def recorded(self) -> Bool[np.ndarray, " N"]:
        """Mask of the targets whose columns of the kernel are there."""
        return np.asarray(np.isfinite(self.interference.kernel).all(axis=0))

    def harm(self, target: int, count: int = 5) -> list[tuple[int, float]]:
        """Return the sources of the batch that push a prompt down the most, worst first, with their push."""
        column = np.where(self.batch, self.interference.kernel[:, target], 0.0)
        column[target] = 0
        return [(int(i), float(column[i])) for i in np.argsort(column, kind="stable")[:count] if column[i] < 0]


def write_record(folder: Path, record: Record) -> Path:
    """Write the file of a record into a folder, which is made if need be; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    found, facts = record.interference, {name: record.facts[name] for name in FACTS}
    arrays = {
        "facts": np.array(json.dumps({"version": VERSION, **facts})),
        "prompts": np.array(json.dumps(record.prompts)),
        "batch": np.asarray(record.batch, bool),
        "rollouts": np.asarray(record.rollouts, np.int32),
        **{name: np.asarray(array, np.float32) for name, array in _numbers(found).items()},
        **_columns_of(record),
        "solve_rate": np.asarray(record.solve_rate, np.float32),
        **({} if record.moved is None else {"moved": np.asarray(record.moved, np.float32)}),
    }
    path = folder / f"{record.step:08}.{record.facts['estimator']}.npz"
    with whole_file(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return path


def remove_later(folder: Path, step: int) -> None:
    """Remove the files of steps after this one; a file of another name is none."""
    for path in folder.glob("*.npz"):
        name = re.fullmatch(r"(\d{8})\.(full|head)\.npz", path.name)
        if name and int(name[1]) > step:
            path.unlink()


def _numbers(found: Interference) -> dict[str, np.ndarray]:
    pushes = dict(zip(Push._fields, found.push, strict=True))
    errors = {f"{name}_error": values for name, values in zip(Push._fields, found.error, strict=True)}
    others = {name: getattr(found, name) for name in Interference._fields if name not in ("push", "error", "halves")}
    return {**pushes, **errors, **others, "net_halves": found.halves}


def _columns_of(record: Record) -> dict[str, np.ndarray]:
    """Return the columns of a large kernel that are kept, and whose they are; nothing of a small one."""
    if len(record.prompts) <= WHOLE:
        return {}
    kept = np.lexsort([-np.nan_to_num(record.danger), record.batch])[:COLUMNS]
    columns = {name: getattr(record.interference, name)[:, kept].astype(np.float32) for name in KERNELS}
    return {"columns": kept.astype(np.int32), **columns}


def _whole(columns: Float[np.ndarray, "N C"], kept: Int[np.ndarray, " C"] | None) -> Float[np.ndarray, "N N"]:
    if kept is None:
        return columns
    whole = np.full((len(columns), len(columns)), np.nan, columns.dtype)
    whole[:, kept] = columns
    return whole


def read_record(path: Path) -> Record:
    """Read a file; ``Damaged`` if it is not what was written, or of a version that this one does not know."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        facts, prompts = (json.loads(str(arrays.pop(name))) for name in TEXTS)
        if facts.pop("version") != VERSION:
            raise ValueError("it is of another version")
        found = Interference(
            **{name: _whole(arrays[name], arrays.get("columns")) for name in KERNELS},
            push=Push(*(arrays[name] for name in Push._fields)),
            error=Push(*(arrays[f"{name}_error"] for name in Push._fields)),
            halves=arrays["net_halves"],
            own_layers=arrays["own_layers"],
            net_layers=arrays["net_layers"],
        )
        return Record(
            facts, prompts, arrays["batch"], arrays["rollouts"], arrays["solve_rate"], found, arrays.get("moved")
        )
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, LookupError, ValueError, RuntimeError) as error:
        raise Damaged(f"{path} is damaged ({f'{type(error).__name__}: {error}'.splitlines()[0]})") from None


def read_records(folder: Path, estimator: str = "full") -> list[Record]:
    """Read all files of one estimator in a folder, by step; none if the folder is not there."""
    return [read_record(path) for path in sorted(folder.glob(f"*.{estimator}.npz"))]

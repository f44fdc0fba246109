"""Save and load the state of training: parameters, optimiser, estimator, and counters.

A checkpoint is one ``.npz`` file, whose members have a CRC each; it is replaced by renaming, so that a kill leaves the
former checkpoint or the new one.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simlab.errors import InputError
from simlab.files import UNFINISHED
from simlab.llm.model import Parameters
from simlab.seals import Damaged


class TrainerState(NamedTuple):
    """Training between two steps.

    Attributes:
        parameters: the trained parameters.
        optimizer: the optimiser's state.
        estimator: the estimator's state.
        surrogate: the state of a surrogate that changes from batch to batch.
        step: finished steps.
        cursor: training problems used so far.
        older: the parameters before each of the last steps, the latest first, for a sampler that lags.
    """

    parameters: Parameters
    optimizer: Any
    estimator: Any = ()
    surrogate: Any = ()
    step: int = 0
    cursor: int = 0
    older: tuple[Parameters, ...] = ()


ARRAYS = ("parameters", "optimizer", "estimator", "surrogate", "older")
HOST_ARRAYS = ("estimator", "surrogate")  # NumPy's, as methods compute them
COUNTS = ("step", "cursor")
RECORD = "record"  # the member with JSON


def save_state(path: Path, state: TrainerState, record: Mapping[str, Any]) -> None:
    """Write a checkpoint in place of the former one, array by array, so that no second copy is in memory.

    Args:
        path: the file.
        state: the state.
        record: plain data that is stored with it, see ``ArmFolder``.

    Raises:
        OSError: if it cannot be written, as on a full disk; the former checkpoint is unchanged then.
    """
    leaves = {
        f"{name}.{index}": leaf for name in ARRAYS for index, leaf in enumerate(jax.tree.leaves(getattr(state, name)))
    }
    counts = {name: getattr(state, name) for name in COUNTS}
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, allow_pickle=False, **{RECORD: np.array(json.dumps({**record, **counts}))}, **leaves)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def load_state(path: Path, like: TrainerState) -> tuple[TrainerState, dict[str, Any]]:
    """Read a state of the same structure as ``like``, and the record that was stored with it.

    Raises:
        Damaged: for a file that is not as it was written.
        InputError: for the state of another model, optimiser or estimator.
    """
    record, arrays = _read(path)
    counts = {name: record.pop(name) for name in COUNTS}
    try:
        trees: dict[str, Any] = {name: _restore(name, arrays, getattr(like, name)) for name in ARRAYS}
        if len(arrays) != len(jax.tree.leaves([getattr(like, name) for name in ARRAYS])):
            raise ValueError("more arrays than this arm has")
    except (KeyError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"checkpoint {path} belongs to another run ({reason}); delete it to restart this arm"
        ) from None
    return TrainerState(**trees, **counts), record


def saved_record(path: Path) -> dict[str, Any]:
    """Return the record of a checkpoint with its counters; an empty one if there is no undamaged checkpoint."""
    try:
        return _read(path)[0] if path.exists() else {}
    except Damaged:
        return {}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        return json.loads(str(arrays.pop(RECORD))), arrays
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, ValueError, NotImplementedError) as error:
        raise Damaged(f"checkpoint {path} is damaged ({type(error).__name__}: {error})".splitlines()[0]) from None


def _restore(name: str, arrays: Mapping[str, np.ndarray], like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    values = [arrays[f"{name}.{index}"] for index in range(len(leaves))]
    if name in HOST_ARRAYS:
        return jax.tree.unflatten(structure, values)
    for value, leaf in zip(values, leaves, strict=True):
        if value.shape != leaf.shape:
            raise ValueError(f"shape {value.shape}, not {leaf.shape}")
    return jax.tree.unflatten(structure, list(map(jnp.asarray, values)))

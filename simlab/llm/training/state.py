"""Save and load the state of training: one ``.npz`` file, whose members have a checksum each."""

import contextlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simlab.errors import InputError
from simlab.files import UNFINISHED
from simlab.llm.model import Parameters


class TrainerState(NamedTuple):
    """Training between two steps.

    ``cursor`` counts the training problems used so far; ``older`` are the parameters before each of the last steps, the
    latest first, for a sampler that lags.
    """

    parameters: Parameters
    optimizer: Any
    estimator: Any = ()
    surrogate: Any = ()
    step: int = 0
    cursor: int = 0
    older: tuple[Parameters, ...] = ()


RECORD = "record"  # the member with JSON


def save_state(path: Path, state: TrainerState, record: Mapping[str, Any]) -> None:
    """Write a state and a record, which is plain data; array by array, so that no second copy is in memory."""
    leaves = {str(index): leaf for index, leaf in enumerate(jax.tree.leaves(state))}
    leaves[RECORD] = np.array(json.dumps({**record, "step": state.step}))
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, allow_pickle=False, **leaves)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def load_state(path: Path, like: TrainerState) -> TrainerState:
    """Read a state of the same structure as ``like``."""
    leaves, structure = jax.tree.flatten(like)
    with _members(path) as members:
        values = [_restored(members[str(index)], leaf) for index, leaf in enumerate(leaves)]
        if len(members) != len(leaves) + 1:
            raise ValueError("more arrays than this arm has")
        state: TrainerState = jax.tree.unflatten(structure, values)
        return state


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of a state, with its ``step``."""
    with _members(path) as members:
        record: dict[str, Any] = json.loads(str(members[RECORD]))
        return record


def _restored(value: np.ndarray, like: Any) -> Any:
    """Return an array of JAX or NumPy, or a whole number, as the other is; methods compute with NumPy's."""
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
        raise InputError(
            f"checkpoint {path} is damaged or belongs to another run ({reason}); delete it to restart this arm"
        ) from None

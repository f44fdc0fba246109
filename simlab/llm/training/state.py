"""Save and load the state of training: one ``.npz`` file, whose members have a checksum each."""

import contextlib
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simlab.errors import InputError
from simlab.files import whole_file
from simlab.llm.model import Parameters

RECORD = "record"  # the member with JSON


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

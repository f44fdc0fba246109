"""Save and load the state of training: one ``.npz`` file, whose members have a checksum each."""

import contextlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
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


NAMES = ("parameters", "optimizer", "estimator", "surrogate", "older")
HOST_ARRAYS = ("estimator", "surrogate")  # NumPy's, as methods compute them
RECORD = "record"  # the member with JSON


def save_state(path: Path, state: TrainerState, record: Mapping[str, Any]) -> None:
    """Write a state and a record, which is plain data; array by array, so that no second copy is in memory.

    Raises:
        OSError: if it cannot be written, as on a full disk; the former checkpoint is unchanged then.
    """
    leaves = {f"{name}.{index}": leaf for name in NAMES for index, leaf in enumerate(_leaves(state, name))}
    text = json.dumps({**record, "step": state.step, "cursor": state.cursor})
    unfinished = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, allow_pickle=False, **{RECORD: np.array(text)}, **leaves)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def load_state(path: Path, like: TrainerState) -> tuple[TrainerState, dict[str, Any]]:
    """Read a state of the same structure as ``like``, and its record.

    Raises:
        InputError: for a damaged file, and for the state of another model, optimiser or estimator.
    """
    with _members(path) as members:
        record = json.loads(str(members[RECORD]))
        trees = {}
        for name in NAMES:
            array: Callable[[Any], Any] = np.asarray if name in HOST_ARRAYS else jnp.asarray
            values = [array(members[f"{name}.{index}"]) for index in range(len(_leaves(like, name)))]
            if [value.shape for value in values] != [np.shape(leaf) for leaf in _leaves(like, name)]:
                raise ValueError(f"the shapes of {name} differ")
            trees[name] = jax.tree.unflatten(jax.tree.structure(getattr(like, name)), values)
        return TrainerState(**trees, step=record.pop("step"), cursor=record.pop("cursor")), record


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of a state, with its ``step`` and ``cursor``."""
    with _members(path) as members:
        record: dict[str, Any] = json.loads(str(members[RECORD]))
        return record


def _leaves(state: TrainerState, name: str) -> list[Any]:
    leaves: list[Any] = jax.tree.leaves(getattr(state, name))
    return leaves


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

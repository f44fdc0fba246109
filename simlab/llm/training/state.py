"""What a run must keep to go on exactly: parameters, the optimiser's and the estimator's state, and where it is."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simlab.errors import InputError
from simlab.files import write_whole
from simlab.llm.extra import package
from simlab.llm.model import Parameters


class State(NamedTuple):
    """A run between two steps.

    Attributes:
        parameters: of the model.
        optimizer: the optimiser's state.
        estimator: the estimator's.
        step: steps that are done.
        cursor: training problems that were used.
    """

    parameters: Parameters
    optimizer: Any
    estimator: Any = ()
    step: int = 0
    cursor: int = 0


ARRAYS = ("parameters", "optimizer", "estimator")
COUNTS = ("step", "cursor")


def save_state(path: Path, state: State) -> None:
    """Write a state, whole or not at all.

    Raises:
        OSError: if it cannot be written, as on a full disk; the former one is kept then.
    """
    arrays = {
        f"{name}.{place}": np.asarray(leaf)
        for name in ARRAYS
        for place, leaf in enumerate(jax.tree.leaves(getattr(state, name)))
    }
    counts = json.dumps({name: getattr(state, name) for name in COUNTS})
    write_whole(path, package("safetensors.numpy").save(arrays, metadata={"counts": counts}))


def load_state(path: Path, like: State) -> State:
    """Read a state of the same structure as ``like``.

    Raises:
        InputError: for a file that is damaged or of another model or estimator.
    """
    safetensors = package("safetensors")
    try:
        with safetensors.safe_open(path, framework="np") as file:
            counts = json.loads(file.metadata()["counts"])
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
        parts: dict[str, Any] = {name: _restored(name, found, getattr(like, name)) for name in ARRAYS}
        if len(found) != len(jax.tree.leaves([getattr(like, name) for name in ARRAYS])):
            raise ValueError("more arrays than this arm has")
        parts |= {name: int(counts[name]) for name in COUNTS}
        return State(**parts)
    except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"checkpoint {path} is damaged ({reason}); delete it to begin this arm anew") from None


def _restored(name: str, found: dict[str, np.ndarray], like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    values = [found[f"{name}.{place}"] for place in range(len(leaves))]
    for value, leaf in zip(values, leaves, strict=True):
        if name != "estimator" and value.shape != leaf.shape:
            raise ValueError(f"shape {value.shape}, not {leaf.shape}")
    # What the estimator remembers stays on the host, where it is computed.
    return jax.tree.unflatten(structure, values if name == "estimator" else list(map(jnp.asarray, values)))

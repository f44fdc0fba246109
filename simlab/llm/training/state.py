"""What a run must keep to go on exactly: parameters, the optimiser's and the estimator's state, and where it is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simlab.errors import InputError
from simlab.files import write_whole
from simlab.llm.extra import package
from simlab.llm.model import Parameters
from simlab.llm.training.origin import Origin, first_difference


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


def save_state(path: Path, state: State, origin: Origin) -> None:
    """Write a state, whole or not at all.

    Args:
        path: the file.
        state: what it keeps.
        origin: whose state it is and who made it, as plain data: see ``simlab.llm.training.origin``.

    Raises:
        OSError: if it cannot be written, as on a full disk; the former one is kept then.
    """
    arrays = {
        f"{name}.{place}": np.asarray(leaf)
        for name in ARRAYS
        for place, leaf in enumerate(jax.tree.leaves(getattr(state, name)))
    }
    # In one entry, since safetensors writes several in any order.
    said = json.dumps({"origin": origin, **{name: getattr(state, name) for name in COUNTS}}, sort_keys=True)
    write_whole(path, package("safetensors.numpy").save(arrays, metadata={"state": said}))


def load_state(path: Path, like: State, origins: Sequence[Origin] | None = None) -> State:
    """Read a state of the same structure as ``like``.

    Args:
        path: the file.
        like: a state of the same model, optimiser and estimator.
        origins: what it may say of itself, one of these, ``{}`` if that is nothing; by default anything.

    Raises:
        InputError: for a file that is damaged, of another model or estimator, or of another origin.
    """
    safetensors = package("safetensors")
    try:
        with safetensors.safe_open(path, framework="np") as file:
            metadata = file.metadata()
            said = json.loads(metadata["state" if "state" in metadata else "counts"])  # of old, counts alone
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
        parts: dict[str, Any] = {name: _restored(name, found, getattr(like, name)) for name in ARRAYS}
        if len(found) != len(jax.tree.leaves([getattr(like, name) for name in ARRAYS])):
            raise ValueError("more arrays than this arm has")
        parts |= {name: int(said[name]) for name in COUNTS}
    except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"checkpoint {path} is damaged ({reason}); delete it to begin this arm anew") from None
    origin = said.get("origin", {})
    if origins is not None and origin not in origins:
        difference = first_difference(origin, origins[-1])
        raise InputError(f"checkpoint {path} is another's ({difference}); delete it to begin this arm anew")
    return State(**parts)


def _restored(name: str, found: dict[str, np.ndarray], like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    values = [found[f"{name}.{place}"] for place in range(len(leaves))]
    for value, leaf in zip(values, leaves, strict=True):
        if name != "estimator" and value.shape != leaf.shape:
            raise ValueError(f"shape {value.shape}, not {leaf.shape}")
    # What the estimator remembers stays on the host, where it is computed.
    return jax.tree.unflatten(structure, values if name == "estimator" else list(map(jnp.asarray, values)))

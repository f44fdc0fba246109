"""What a run needs to resume exactly: parameters, now and before, state of optimiser and estimator, and the step."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simlab.errors import InputError
from simlab.llm.model import Parameters
from simlab.llm.training.origin import Origin, first_difference
from simlab.llm.training.state_files import read_state_files, write_state_files
from simlab.seals import Damaged


class State(NamedTuple):
    """A run between two steps.

    Attributes:
        parameters: the parameters of the model.
        optimizer: the optimiser's state.
        estimator: the estimator's.
        surrogate: what a surrogate that changes from batch to batch remembers.
        step: steps that are done.
        cursor: training problems that were used.
        older: the parameters before each of the last steps, the latest first, as many as the sampler is old.
    """

    parameters: Parameters
    optimizer: Any
    estimator: Any = ()
    surrogate: Any = ()
    step: int = 0
    cursor: int = 0
    older: tuple[Parameters, ...] = ()


ARRAYS = ("parameters", "optimizer", "estimator", "surrogate", "older")
OF_METHODS = ("estimator", "surrogate")  # they stay on the host, where they are computed
COUNTS = ("step", "cursor")


def save_state(path: Path, state: State, origin: Origin) -> None:
    """Write a state, whole or not at all.

    Args:
        path: the file, or the head of several: see ``simlab.llm.training.state_files``.
        state: what it keeps.
        origin: whose state it is and who made it, as plain data: see ``simlab.llm.training.origin``.

    Raises:
        OSError: if it cannot be written, as on a full disk; the former one is kept then.
    """
    arrays = {
        f"{name}.{place}": leaf
        if isinstance(leaf, jax.Array)
        else np.asarray(leaf)  # numbers of methods may be Python's
        for name in ARRAYS
        for place, leaf in enumerate(jax.tree.leaves(getattr(state, name)))
    }
    write_state_files(path, arrays, {"origin": origin, **{name: getattr(state, name) for name in COUNTS}})


def load_state(path: Path, like: State, origins: Sequence[Origin] | None = None) -> State:
    """Read a state of the same structure as ``like``.

    Args:
        path: the file that it was written to.
        like: a state of the same model, optimiser and estimator.
        origins: what it may say of itself, one of these; by default anything.

    Raises:
        Damaged: for files that are not as they were written.
        InputError: for one of another origin, or of another model or estimator.
    """
    said, found = read_state_files(path)
    if origins is not None and said["origin"] not in origins:
        difference = first_difference(said["origin"], origins[-1])
        raise InputError(f"checkpoint {path} belongs to another run ({difference}); delete it to restart this arm")
    try:
        parts: dict[str, Any] = {name: _restored(name, found, getattr(like, name)) for name in ARRAYS}
        if len(found) != len(jax.tree.leaves([getattr(like, name) for name in ARRAYS])):
            raise ValueError("more arrays than this arm has")
    except (KeyError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"checkpoint {path} belongs to another run ({reason}); delete it to restart this arm"
        ) from None
    return State(**parts, **{name: said[name] for name in COUNTS})


def saved_step(path: Path) -> int:
    """The step of a checkpoint; 0 where there is none that is whole."""
    try:
        return int(read_state_files(path)[0]["step"]) if path.exists() else 0
    except Damaged:
        return 0


def _restored(name: str, found: dict[str, np.ndarray], like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    values = [found[f"{name}.{place}"] for place in range(len(leaves))]
    for value, leaf in zip(values, leaves, strict=True):
        if name not in OF_METHODS and value.shape != leaf.shape:
            raise ValueError(f"shape {value.shape}, not {leaf.shape}")
    return jax.tree.unflatten(structure, values if name in OF_METHODS else list(map(jnp.asarray, values)))

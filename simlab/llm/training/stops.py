"""What is said and kept where a step cannot be done."""

import jax

from simlab.errors import Diverged, InputError
from simlab.llm.training.folder import CHECKPOINT, ArmFolder
from simlab.llm.training.state import State


def stopped(folder: ArmFolder, state: State, where: str, error: InputError) -> InputError:
    """The complaint about a step; what was done before it is kept.

    Args:
        folder: the folder of the arm, or of the warm start.
        state: before the step.
        where: the step, in words.
        error: what went wrong in it.
    """
    # A task fails before anything is changed; an update that fails has used up the optimiser's state.
    if not isinstance(error, Diverged) and not any(
        leaf.is_deleted() for leaf in jax.tree.leaves((state.parameters, state.optimizer))
    ):
        folder.save(state)
    return InputError(f"{where}: {error}; {_kept(folder)}")


def _kept(folder: ArmFolder) -> str:
    checkpoint = folder.path / CHECKPOINT
    return f"the last checkpoint is kept: {checkpoint}" if checkpoint.exists() else "there was no checkpoint yet"

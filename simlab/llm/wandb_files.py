"""Write the numbers of an arm as a run of Weights & Biases, offline; needs the extra ``wandb``.

``wandb sync`` uploads it when the user says so; nothing is sent from here.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from simlab.llm.extra import package

PROJECT = "simlab"
ERROR_REPORTS = "WANDB_ERROR_REPORTING"  # W&B sends reports of its own errors, offline too, unless this is false


def check_wandb() -> Any:
    """The module of W&B.

    Raises:
        InputError: if wandb cannot be imported.
    """
    os.environ.setdefault(ERROR_REPORTS, "false")
    return package("wandb", "wandb")


class WandbFiles:
    """An offline run of W&B in ``folder/wandb``; a context manager.

    W&B cannot take steps of an offline run back, and of several that are uploaded under one id the last one stays. So
    each process writes a run of its own under the same id, and is given the steps of former processes again.

    Args:
        folder: the existing folder of the arm and seed.
        name: that W&B shows.
        group: that it shows the run in.
        identity: the same for all processes that write this arm, and no other: up to 64 letters and digits.
        config: the settings, as plain data.

    Raises:
        InputError: if wandb cannot be imported.
    """

    begins_anew = True

    def __init__(self, folder: Path, *, name: str, group: str, identity: str, config: Mapping[str, Any]):
        wandb = check_wandb()
        # Neither the user's code nor the machine's use, output and packages are recorded.
        settings = wandb.Settings(
            silent=True, console="off", save_code=False, disable_git=True, x_disable_stats=True, x_disable_meta=True
        )
        self._run = wandb.init(
            mode="offline",
            dir=os.fspath(folder),
            project=PROJECT,
            group=group,
            name=name,
            id=identity,
            config=dict(config),
            reinit="create_new",
            settings=settings,
        )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of a step, from the earliest step on; those of one step may come in parts."""
        self._run.log(dict(values), step=step)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run.finish(exit_code=0 if kind is None else 1)

"""Simulate one method on one problem: the call that a notebook makes."""

from typing import Any

import numpy as np
import xarray as xr

from simlab.arms import Arm
from simlab.methods import Method
from simlab.problems.base import Problem
from simlab.simulator.dataset import check_seeds, labelled, labels_of, recorded_steps
from simlab.simulator.runner import run
from simlab.simulator.settings import Settings


def simulate(
    problem: Problem,
    method: str | Arm | Method = "grpo",
    *,
    seeds: int = 4,
    steps: int = 1000,
    record_every: int = 50,
    **settings: Any,
) -> xr.Dataset:
    """Simulate a method on a problem, for seeds 0 to ``seeds`` - 1, and return the records.

    Args:
        problem: such as ``anchored(1000, 100)``, see ``simlab.problems``.
        method: text such as ``"f_grpo(gamma=0.5)"`` (see ``simlab.arms``), an ``Arm`` or a ``Method``.
        seeds: the number of seeds.
        steps: the steps of each run.
        record_every: steps between two records; the last step is always recorded.
        settings: everything else, see ``Settings``: ``group_size=64, optimizer="sgd", kl=0.1``, ...

    Returns:
        A dataset with dimensions ``seed`` and ``step``, and a variable for each metric of the problem. For grids, parts
        on disk and resuming, see ``simlab.sweep``.

    Raises:
        InputError: if the problem cannot be learned with these settings.
        Diverged: if a number of a run is not finite.

    >>> from simlab.problems import anchored
    >>> result = simulate(anchored(100, 10), "grpo", group_size=8, steps=100)
    >>> bool((result.q_pos.isel(step=-1) > result.q_pos.isel(step=0)).all())
    True
    """
    check_seeds(seeds)
    given = Settings(method, **settings)
    recorded = recorded_steps(steps, record_every)
    rows = run(problem, [given] * seeds, range(seeds), recorded)
    return labelled(problem.metrics, labels_of(problem, given), rows, {"seed": np.arange(seeds)}, recorded)

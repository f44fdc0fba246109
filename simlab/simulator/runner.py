"""Simulate: choose a storage, send batches of runs to the device, and return their records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Int

from simlab.arms import Arm
from simlab.errors import InputError
from simlab.methods import Method
from simlab.problems.base import Problem
from simlab.simulator.call import Call, Rows, computing
from simlab.simulator.checks import check, check_run, check_shards
from simlab.simulator.dataset import check_seeds, labelled, labels_of, recorded_steps
from simlab.simulator.resources import (
    Devices,
    batch_size,
    devices_by,
    platform_of,
    refuse_out_of_memory,
    resolved,
    shards_needed,
)
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
    checked = Settings(method, **settings)
    recorded = recorded_steps(steps, record_every)
    rows = run(problem, [checked] * seeds, range(seeds), recorded)
    return labelled(problem.metrics, labels_of(problem, checked), rows, {"seed": np.arange(seeds)}, recorded)


def run(
    problem: Problem,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    steps: Int[np.ndarray, " R"],
    devices: Devices | None = None,
) -> Rows:
    """Simulate runs of one problem, each with its own settings and seed, and return their records.

    Args:
        problem: the problem to learn.
        settings: the settings of each run; they may differ in floats alone.
        seeds: the seeds of each run, from 0 to 2^32 - 1.
        steps: the R steps after which to record, increasing, the last one being the length of the runs.
        devices: where they run: one device, or those that sharded storage spreads each run over. By default JAX's own
            choice, and as few as hold a run.

    Returns:
        Arrays (runs, R + 1, ...) by metric, see ``Problem.metrics``; the first record is of step 0. A metric along an
        axis without labels, such as pass@k of no k, is left out.

    Raises:
        InputError: if the problem cannot be learned with these settings on these devices.
        Diverged: if a number of a run is not finite.
    """
    check_run(steps, seeds)
    # Many runs share one object of settings, which takes longer to resolve than a step.
    distinct = {id(each): each for each in settings}
    distinct = {key: resolved(problem, each, int(steps[-1])) for key, each in distinct.items()}
    settings = [distinct[id(each)] for each in settings]
    for each in distinct.values():
        check(problem, each)
    if len({each.static for each in distinct.values()}) > 1:
        raise InputError("these settings shape different programs; allowed in one call: those that differ in floats")
    together = batch_size(problem, settings[0], platform_of(devices))
    if devices and len(devices) > 1:
        check_shards(problem, settings[0], len(devices))
    if settings[0].storage == "sharded":
        devices = devices or devices_by(shards_needed(problem, settings[0], steps))[0]
    batches = []
    with computing(settings[0], devices), refuse_out_of_memory(problem, settings[0]):
        for first in range(0, len(seeds), together):
            chosen = [min(first + index, len(seeds) - 1) for index in range(together)]  # the last fills the batch up
            call = Call(problem, [settings[run] for run in chosen], [seeds[run] for run in chosen], steps, devices)
            batches.append({name: values[: len(seeds) - first] for name, values in records(call).items()})
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def records(call: Call) -> Rows:
    """Return the records of a batch; runs with sparse steps go together, and so do the others.

    What a run draws does not depend on those beside it.
    """
    sparse = call.are_sparse()
    if not sparse.any():
        return call.rows()
    rows: Rows = {}
    for kind in np.unique(sparse):
        chosen = np.flatnonzero(sparse == kind)
        same_kind = call.select(np.resize(chosen, len(sparse)), sparse=bool(kind))
        for name, values in same_kind.rows().items():
            rows.setdefault(name, np.empty_like(values))[chosen] = values[: len(chosen)]
    return rows

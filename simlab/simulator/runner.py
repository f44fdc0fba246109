"""Run seeds: choose a storage, send batches of runs to the device, and return their records."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from simlab.errors import InputError
from simlab.problems.base import Problem
from simlab.simulator.call import Call, Rows, computing
from simlab.simulator.checks import check, check_run, check_shards
from simlab.simulator.costs import resolved
from simlab.simulator.devices import Devices, devices_by, platform_of
from simlab.simulator.memory import batch_size, shards_needed
from simlab.simulator.settings import Settings


def run(
    problem: Problem,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    steps: Int[np.ndarray, " R"],
    devices: Devices | None = None,
) -> Rows:
    """Simulate runs of one problem, each with its own settings and seed, and return their records.

    Args:
        problem: what is learned.
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
    distinct = {id(own): resolved(problem, own, int(steps[-1])) for own in {id(own): own for own in settings}.values()}
    settings = [distinct[id(own)] for own in settings]
    for own in distinct.values():
        check(problem, own)
    if len({own.static for own in distinct.values()}) > 1:
        raise InputError("these settings shape different programs; allowed in one call: those that differ in floats")
    together = batch_size(problem, settings[0], platform_of(devices))
    if devices and len(devices) > 1:
        check_shards(problem, settings[0], len(devices))
    if settings[0].storage == "sharded":
        devices = devices or devices_by(shards_needed(problem, settings[0], steps))[0]
    found = []
    with computing(settings[0], devices):
        for first in range(0, len(seeds), together):
            chosen = [min(first + index, len(seeds) - 1) for index in range(together)]  # the last fills the batch up
            call = Call(problem, [settings[run] for run in chosen], [seeds[run] for run in chosen], steps, devices)
            found.append({name: values[: len(seeds) - first] for name, values in records(call).items()})
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def records(call: Call) -> Rows:
    """The records of a batch; runs with sparse steps go together, and so do the others.

    What a run draws does not depend on those beside it.
    """
    sparse = call.are_sparse()
    if not sparse.any():
        return call.rows()
    rows: Rows = {}
    for kind in np.unique(sparse):
        chosen = np.flatnonzero(sparse == kind)
        own = call.of(np.resize(chosen, len(sparse)), sparse=bool(kind))
        for name, values in own.rows().items():
            rows.setdefault(name, np.empty_like(values))[chosen] = values[: len(chosen)]
    return rows

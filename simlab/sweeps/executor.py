"""Simulate batches of runs on the devices of this process, within a budget of memory, or by other processes."""

import contextlib
import json
import math
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from simlab.errors import Diverged, InputError
from simlab.identity import processor
from simlab.simulator.resources import Devices, needed_bytes, shards_needed, stations
from simlab.simulator.runner import run
from simlab.sweeps.plan import Plan, Unit, Work, batches

# Set aside for Python, JAX and its compiler; the rest of the budget is for simulations. benchmarks/memory.py measures
# that sweeps stay within their budgets.
RESERVED = 640 * 2**20
PROCESSOR = "processor"  # among the records: the processor of each run, as JSON
Rows = dict[str, np.ndarray]


class MemoryBudget:
    """The bytes that running simulations may use together; a simulation waits until it fits.

    ``memory`` is that of the whole process, of which ``RESERVED`` bytes are set aside.
    """

    def __init__(self, memory: int):
        self.memory, self.free = memory, memory - RESERVED
        self.changed = threading.Condition()

    @contextmanager
    def take(self, amount: int) -> Iterator[None]:
        """Hold ``amount`` bytes.

        Raises:
            InputError: if the whole budget is smaller than that.
        """
        check_memory(self.memory, amount)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= amount)
            self.free -= amount
        try:
            yield
        finally:
            with self.changed:
                self.free += amount
                self.changed.notify_all()


def check_memory(memory: int, amount: int) -> None:
    """Raise ``InputError`` if ``amount`` bytes do not fit into ``memory`` beside what is set aside."""
    if amount + RESERVED > memory:
        need = math.ceil((amount + RESERVED) / 2**20)
        size = f"{memory / 2**20:.0f}MB" if memory >= 2**20 else f"{memory / 2**10:.3g}KB"
        raise InputError(f"--memory {size} is too small for a sweep of this size; allowed: {need}MB or more")


def simulate_work(work: Work, budget: MemoryBudget, devices: Devices | None = None) -> Rows:
    """Simulate runs once there is room for them; return their records and, as ``PROCESSOR``, the processor of each.

    ``devices`` are those of ``runner.run``.

    Raises:
        InputError: if the work cannot be done, or needs more memory than there is.
    """
    problem, settings, seeds, steps = work.problem, work.settings, work.seeds, work.steps
    with budget.take(needed_bytes(problem, settings[0], steps, devices)):
        rows = run(problem, settings, seeds, steps, devices)
    kind = json.dumps(processor(jax.local_devices()[0].device_kind), sort_keys=True)
    return rows | {PROCESSOR: np.full(len(seeds), kind)}


@runtime_checkable
class Workers(Protocol):
    """Other processes that simulate: ``simlab.sweeps.cluster.Cluster``, whose methods say more."""

    def maker(self) -> dict[str, Any]:
        """Return ``plan.maker()`` of the workers."""

    def simulate(self, works: Iterable[Work], made_by: Mapping[str, Any], memory: int) -> Iterator[tuple[int, Rows]]:
        """Yield the number of each work and its records, in the order in which they end."""


Save = Callable[[Sequence[Unit], Rows], None]


def execute_here(plan: Plan, missing: Sequence[Unit], save: Save, memory: int, shard_actions: int | None) -> None:
    """Simulate units on the devices of this process, and save each batch of them as it ends.

    Batches of as many devices run side by side; ``shard_actions`` is that number, by default as few as hold a run.

    Raises:
        InputError: if a unit cannot be simulated; the others are saved if it is one whose numbers are not finite.
    """
    by_shards: dict[int, list[list[Unit]]] = {}
    for batch in batches(missing, jax.default_backend()):
        cell = batch[0].resolved
        shards = shard_actions or shards_needed(cell.problem, cell.settings, cell.steps)
        by_shards.setdefault(shards, []).append(batch)
    for shards, shard_batches in by_shards.items():
        _Stations(plan, stations(shards), MemoryBudget(memory), save).run(shard_batches)


def execute_there(
    plan: Plan, missing: Sequence[Unit], save: Save, workers: Workers, *, made_by: Mapping[str, Any], memory: int
) -> None:
    """Have units simulated by workers, and save each batch of them as it ends.

    Raises:
        InputError: as ``Workers.simulate``.
    """
    all_batches = list(batches(missing, made_by["platform"]))
    for number, rows in workers.simulate((plan.work(batch) for batch in all_batches), made_by, memory):
        save(all_batches[number], rows)


class _Stations:
    """Devices on which batches are simulated side by side, each on those that are free next."""

    def __init__(self, plan: Plan, devices: Sequence[Devices], budget: MemoryBudget, save: Save):
        self.plan, self.budget, self.save = plan, budget, save
        self.count, self.stopped = len(devices), threading.Event()
        self.free = queue.SimpleQueue[Devices]()
        for station in devices:
            self.free.put(station)

    def run(self, unit_batches: Sequence[Sequence[Unit]]) -> None:
        """Simulate batches; the first that fails ends it, once those that have begun are through."""
        pool = ThreadPoolExecutor(self.count)
        futures = [pool.submit(self._batch, batch) for batch in unit_batches]
        try:
            for future in as_completed(futures):
                future.result()
        finally:
            self.stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _batch(self, units: Sequence[Unit]) -> None:
        try:
            self._simulate(units)
        except Diverged:
            if len(units) > 1:
                # One by one, so that those that do not diverge are kept.
                for unit in units:
                    with contextlib.suppress(Diverged):
                        self._simulate([unit])
            raise

    def _simulate(self, units: Sequence[Unit]) -> None:
        devices = self.free.get()
        try:
            if self.stopped.is_set():
                return
            rows = simulate_work(self.plan.work(units), self.budget, devices)
        finally:
            self.free.put(devices)
        self.save(units, rows)

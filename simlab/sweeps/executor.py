"""Simulate batches of runs on the devices of this process, within a budget of memory."""

import contextlib
import json
import math
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

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
Rows = Mapping[str, np.ndarray]
Save = Callable[[Sequence[Unit], Rows], None]


class MemoryBudget:
    """The bytes that running simulations may use together: those of the process less ``RESERVED``."""

    def __init__(self, memory: int):
        self.memory, self.free = memory, memory - RESERVED
        self.changed = threading.Condition()

    @contextlib.contextmanager
    def take(self, amount: int) -> Iterator[None]:
        """Hold ``amount`` bytes, once they are free."""
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
    """Simulate runs once there is room for them; return their records and, as ``PROCESSOR``, the processor of each."""
    with budget.take(needed_bytes(work.problem, work.settings[0], work.steps, devices)):
        rows = run(work.problem, work.settings, work.seeds, work.steps, devices)
    kind = json.dumps(processor(jax.local_devices()[0].device_kind), sort_keys=True)
    return rows | {PROCESSOR: np.full(len(work.seeds), kind)}


def execute_here(plan: Plan, missing: Sequence[Unit], save: Save, memory: int, shard_actions: int | None) -> None:
    """Simulate units on the devices of this process, ``shard_actions`` a batch, and save each batch as it ends."""
    budget, by_shards = MemoryBudget(memory), dict[int, list[list[Unit]]]()
    for batch in batches(missing, jax.default_backend()):
        cell = batch[0].resolved
        shards = shard_actions or shards_needed(cell.problem, cell.settings, cell.steps)
        by_shards.setdefault(shards, []).append(batch)
    for shards, shard_batches in by_shards.items():
        _execute_side_by_side(plan, shard_batches, save, budget, stations(shards))


def _execute_side_by_side(
    plan: Plan, unit_batches: Sequence[list[Unit]], save: Save, budget: MemoryBudget, devices: Sequence[Devices]
) -> None:
    """Simulate each batch on the devices that are free next; the first that fails ends it, once the others are done."""
    free, stopped = queue.SimpleQueue[Devices](), threading.Event()
    for station in devices:
        free.put(station)

    def simulate(units: Sequence[Unit]) -> None:
        station = free.get()
        try:
            if stopped.is_set():
                return
            rows = simulate_work(plan.work(units), budget, station)
        finally:
            free.put(station)
        save(units, rows)

    def simulate_batch(units: Sequence[Unit]) -> None:
        try:
            simulate(units)
        except Diverged:
            for unit in units if len(units) > 1 else ():  # one by one, so that those that do not diverge are kept
                with contextlib.suppress(Diverged):
                    simulate([unit])
            raise

    pool = ThreadPoolExecutor(len(devices))
    futures = [pool.submit(simulate_batch, batch) for batch in unit_batches]
    try:
        for future in as_completed(futures):
            future.result()
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)

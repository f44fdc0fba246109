"""Running a sweep: units to lanes, lanes to threads, records to parts, parts to one result."""

import json
import math
import queue
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import xarray as xr
from tqdm import tqdm

from simlab.errors import InputError
from simlab.simulate.devices import Group, stations
from simlab.simulate.lanes import (
    check,
    check_shards,
    host_bytes,
    lanes_together,
    needed_bytes,
    run_lanes,
    shards_needed,
)
from simlab.sweep.grid import Cell, Sweep
from simlab.sweep.parts import Parts, Unit, check_replaceable, load_manifest, units
from simlab.sweep.provenance import code_fingerprint, commit, versions
from simlab.sweep.result import assemble, configuration, joining_bytes, write

# Set aside for Python, JAX and its compiler; the rest of the budget is for simulations.
RESERVED = 640 * 2**20


class Budget:
    """Bytes that running simulations may take together; a simulation waits until there is room for it.

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
        given = f"{memory / 2**20:.0f}MB"
        raise InputError(f"--memory {given} is too small for a sweep of this size; allowed: {need}MB or more")


def parts_folder(out: Path) -> Path:
    """Where the parts of a result lie: beside it."""
    return out.with_name(out.name + ".parts")


def manifest(sweep: Sweep) -> dict[str, Any]:
    """What identifies a sweep and who made it: configuration, code, versions, platform."""
    return {
        "configuration": sweep.configuration(),
        "code": code_fingerprint(),
        "platform": jax.default_backend(),
        "versions": versions(),
        "commit": commit(),
    }


def sweep_units(sweep: Sweep, described: dict[str, Any]) -> list[Unit]:
    """The units of a sweep as made by the code and platform of a manifest, each of as many seeds as one call holds."""

    def block(cell: Cell) -> int:
        return lanes_together(sweep.program(cell), sweep.size(cell), described["platform"])

    return units(sweep, block, f"{described['code']} {described['platform']}")


def run(
    sweep: Sweep,
    out: Path,
    *,
    memory: int = 2 * 2**30,
    shard: tuple[int, int] = (1, 1),
    overwrite: bool = False,
    shard_actions: int | None = None,
) -> xr.Dataset | None:
    """Run a sweep, or one shard of it, reusing the parts that are finished.

    Args:
        out: the result file; parts lie beside it, in ``parts_folder(out)``.
        memory: bytes that the process may take.
        shard: (i, n): run every n-th unit, from the i-th, counted from 1. Only parts are written if n > 1.
        overwrite: replace a result of another sweep that stands at ``out``.
        shard_actions: over how many devices each simulation is spread, which the sharded engine alone can do; by
            default over as few as hold it.

    Returns:
        The result, which is also written to ``out``; None for a shard.

    Raises:
        InputError: for a sweep that cannot run, a path that cannot be written, a damaged part, or too little memory.
    """
    for _, cell in sweep.cells():
        check_memory(memory, host_bytes(sweep.program(cell), sweep.size(cell)))
        check(sweep.program(cell), sweep.build_problem(cell))
        if shard_actions is not None:
            check_shards(sweep.program(cell), sweep.build_problem(cell), shard_actions)
    sweep.places()
    number, count = shard
    if count == 1:
        check_memory(memory, joining_bytes(sweep))
    check_replaceable(out)
    if not overwrite:
        _check_not_another(out, sweep)
    described = manifest(sweep)
    everything = sweep_units(sweep, described)
    parts = Parts(parts_folder(out))
    parts.save_manifest(described)
    todo = everything[number - 1 :: count]
    strangers = parts.strangers(everything)
    _execute(sweep, todo, parts, memory=memory, strangers=strangers, shard_actions=shard_actions)
    if count > 1:
        return None
    return _join(sweep, everything, [parts], described, out)


def merge(out: Path, folders: list[Path], *, overwrite: bool = False) -> xr.Dataset:
    """Join the parts that shards wrote, perhaps on several machines, into one result.

    Raises:
        InputError: if the folders belong to different sweeps, units are missing, a part is damaged, or ``out`` cannot
            be written.
    """
    manifests = [load_manifest(folder) for folder in folders]
    differing = [
        name
        for name in ("configuration", "code", "platform")
        if len({json.dumps(m[name], sort_keys=True) for m in manifests}) > 1
    ]
    if differing:
        raise InputError(f"the folders hold different sweeps (they differ in {', '.join(differing)})")
    sweep = Sweep.from_configuration(manifests[0]["configuration"])
    check_replaceable(out)
    if not overwrite:
        _check_not_another(out, sweep)
    return _join(sweep, sweep_units(sweep, manifests[0]), [Parts(folder) for folder in folders], manifests[0], out)


def _check_not_another(out: Path, sweep: Sweep) -> None:
    if not out.exists():
        return
    allowed = "allowed: another --out, or --overwrite"
    try:
        found = configuration(out)
    except InputError as error:
        raise InputError(f"{error}; {allowed}") from None
    if found != json.loads(json.dumps(sweep.configuration())):
        raise InputError(f"{out} holds the result of another sweep; {allowed}")


def _execute(
    sweep: Sweep, todo: list[Unit], parts: Parts, *, memory: int, strangers: int, shard_actions: int | None
) -> None:
    """Compute the units that have no part yet."""
    # An estimator without a swept parameter is the same unit at each of its values: it runs once.
    distinct = {unit.name: unit for unit in todo}
    missing = [unit for unit in distinct.values() if not parts.has(unit)]
    if len(missing) < len(distinct):
        print(f"{len(distinct) - len(missing)} of {len(distinct)} units are finished already", file=sys.stderr)
    if strangers:
        print(f"{strangers} parts in {parts.folder} are of other sweeps or code versions: left alone", file=sys.stderr)
    if not missing:
        return
    total = sum(len(unit.seeds) for unit in missing) * sweep.steps
    # disable=None: a bar on a terminal, nothing in a log.
    with tqdm(total=total, unit=" seed-steps", unit_scale=True, disable=None, desc="simulating") as bar:
        for shards, batches in _by_shards(sweep, missing, shard_actions).items():
            _spread(sweep, batches, parts, Budget(memory), places=stations(shards), bar=bar)


def _by_shards(sweep: Sweep, missing: list[Unit], asked: int | None) -> dict[int, list[list[Unit]]]:
    """The batches, by the number of devices that one of their simulations is spread over."""
    found: dict[int, list[list[Unit]]] = {}
    for batch in _batches(sweep, missing):
        cell = batch[0].cell
        program, place = sweep.program(cell), sweep.build_problem(cell)
        shards = asked or shards_needed(program, place, sweep.recorded_steps(), sweep.numbers(cell, place))
        found.setdefault(shards, []).append(batch)
    return found


def _spread(
    sweep: Sweep, batches: list[list[Unit]], parts: Parts, budget: Budget, *, places: list[Group], bar: tqdm
) -> None:
    """Simulate batches side by side, each on those devices that are free next."""
    free: queue.SimpleQueue[Group] = queue.SimpleQueue()
    for devices in places:
        free.put(devices)
    pool = ThreadPoolExecutor(len(places))
    futures = [pool.submit(_run_units, sweep, some, parts, budget, free) for some in batches]
    try:
        for future in as_completed(futures):
            bar.update(future.result() * sweep.steps)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _batches(sweep: Sweep, missing: list[Unit]) -> Iterator[list[Unit]]:
    """Units to run in one call: cells of one program share the lanes of a vmapped call that one would not fill.

    All batches of a program come one after the other, so that it is compiled once and then forgotten.
    """
    alike: dict[Any, list[Unit]] = {}
    for unit in missing:
        alike.setdefault((sweep.program(unit.cell), sweep.build_problem(unit.cell).fingerprint), []).append(unit)
    for some in alike.values():
        cell, batch = some[0].cell, [some[0]]
        together = lanes_together(sweep.program(cell), sweep.size(cell), jax.default_backend())
        for unit in some[1:]:
            if sum(len(other.seeds) for other in batch) + len(unit.seeds) > together:
                yield batch
                batch = []
            batch.append(unit)
        yield batch


def _run_units(sweep: Sweep, some: list[Unit], parts: Parts, budget: Budget, free: "queue.SimpleQueue[Group]") -> int:
    """Simulate units of one program and problem in one call, and write their parts; returns their number of seeds."""
    place, program = sweep.build_problem(some[0].cell), sweep.program(some[0].cell)
    lanes = [(seed, sweep.numbers(unit.cell, place)) for unit in some for seed in unit.seeds]
    steps = sweep.recorded_steps()
    together = lanes_together(program, sweep.size(some[0].cell), jax.default_backend())
    devices = free.get()
    try:
        with budget.take(needed_bytes(program, place, steps, lanes[0][1], together, devices=devices)):
            rows = run_lanes(program, place, steps, lanes, devices)
    finally:
        free.put(devices)
    start = 0
    for unit in some:
        end = start + len(unit.seeds)
        parts.save(unit, {name: values[start:end] for name, values in rows.items()})
        start = end
    return len(lanes)


def _join(
    sweep: Sweep, everything: list[Unit], folders: list[Parts], described: dict[str, Any], out: Path
) -> xr.Dataset:
    holders = [next((parts for parts in folders if parts.has(unit)), None) for unit in everything]
    if absent := holders.count(None):
        raise InputError(f"{absent} of {len(everything)} units are missing; run the shards that hold them, then merge")
    records = ((unit, parts.load(unit)) for unit, parts in zip(everything, holders, strict=True) if parts)
    attributes = {
        "configuration": json.dumps(described["configuration"], sort_keys=True),
        "versions": json.dumps(described["versions"], sort_keys=True),
        "commit": described["commit"],
        "code": described["code"],
        "platform": described["platform"],
        "dtype": sweep.dtype,
    }
    dataset = assemble(sweep, records, attributes)
    write(dataset, out)
    return dataset

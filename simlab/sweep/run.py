"""Running a sweep: units to lanes, lanes to threads, records to parts, parts to one result."""

import contextlib
import json
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

from simlab.errors import Diverged, InputError
from simlab.file_lock import file_lock
from simlab.files import check_replaceable, make_folder
from simlab.simulate.devices import Group, stations
from simlab.simulate.lanes import check, check_shards, host_bytes, lanes_together, shards_needed
from simlab.sweep.grid import Cell, Sweep
from simlab.sweep.own import check_own, own_codes
from simlab.sweep.parts import Parts, Unit, load_manifest, units
from simlab.sweep.result import assemble, configuration, joining_bytes, write
from simlab.sweep.work import PROCESSOR, Budget, Work, Workers, check_memory, maker, simulated


def parts_folder(out: Path) -> Path:
    """Where the parts of a result lie: beside it."""
    return out.with_name(out.name + ".parts")


def manifest(sweep: Sweep, made_by: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What identifies a sweep and who makes it, by default this process: configuration, own code, and ``maker``."""
    return {"configuration": sweep.configuration(), "own": own_codes(sweep), **(made_by or maker())}


def sweep_units(sweep: Sweep, described: dict[str, Any]) -> list[Unit]:
    """The units of a sweep as made by the code and platform of a manifest."""

    def block(cell: Cell) -> int:
        return lanes_together(sweep.program(cell), sweep.size(cell), described["platform"])

    return units(sweep, block, f"{described['code']} {described['platform']}")


def run(
    sweep: Sweep,
    out: Path,
    *,
    memory: int = 2 * 2**30,
    shard: tuple[int, int] = (1, 1),
    workers: Workers | None = None,
    overwrite: bool = False,
    shard_actions: int | None = None,
) -> xr.Dataset | None:
    """Run a sweep, or one shard of it, reusing the parts that are finished. One process at a time does so.

    Args:
        out: the result file; parts lie beside it, in ``parts_folder(out)``.
        memory: bytes that this process may take, and each of the workers.
        shard: (i, n): run every n-th unit, from the i-th, counted from 1. Only parts are written if n > 1.
        workers: who simulates instead of this process, see ``simlab.sweep.cluster.connected``; parts are written here.
        overwrite: replace a result of another sweep that stands at ``out``.
        shard_actions: over how many devices of this process each simulation is spread, which the sharded engine alone
            can do; by default over as few as hold it.

    Returns:
        The result, which is also written to ``out``; None for a shard.

    Raises:
        InputError: for a sweep that cannot run, a path that cannot be written, too little memory, an output that
            another process is writing, or workers that cannot do the work.
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
    make_folder(out.parent)
    if not overwrite:
        _check_not_another(out, sweep)
    parts = Parts(parts_folder(out))
    lock = ".lock" if count == 1 else f".lock-{number}-of-{count}"
    with file_lock(parts.folder, lock, allowed="another --out, or the same command when that one has ended"):
        described = manifest(sweep, workers.maker() if workers else None)
        everything = sweep_units(sweep, described)
        parts.save_manifest(described)
        missing = _missing(everything[number - 1 :: count], parts, parts.strangers(everything))
        if missing and workers is not None:
            _execute_there(workers, sweep, missing, parts, memory=memory, made_by=described)
        elif missing:
            _execute(sweep, missing, parts, memory, shard_actions)
        return _join(sweep, everything, [parts], described, out) if count == 1 else None


def merge(out: Path, folders: list[Path], *, overwrite: bool = False) -> xr.Dataset:
    """Join the parts that shards wrote, perhaps on several machines, into one result.

    Raises:
        InputError: if the folders belong to different sweeps, units are missing, a part is damaged, or ``out`` cannot
            be written.
    """
    manifests = [load_manifest(folder) for folder in folders]
    differing = [
        name
        for name in ("configuration", "code", "own", "platform")
        if len({json.dumps(m[name], sort_keys=True) for m in manifests}) > 1
    ]
    if differing:
        raise InputError(f"the folders hold different sweeps (they differ in {', '.join(differing)})")
    sweep = Sweep.from_configuration(manifests[0]["configuration"])
    check_own(sweep, manifests[0]["own"])
    check_replaceable(out)
    make_folder(out.parent)
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


def _missing(todo: list[Unit], parts: Parts, strangers: int) -> list[Unit]:
    """The units that have no part yet, or a damaged one, which is set aside; says how many are finished."""
    # An estimator without a swept parameter is the same unit at each of its values: it runs once.
    distinct = {unit.name: unit for unit in todo}
    for unit in filter(parts.has, distinct.values()):
        if damage := parts.set_aside_if_damaged(unit):
            print(f"{damage}, and it is set aside", file=sys.stderr)
    missing = [unit for unit in distinct.values() if not parts.has(unit)]
    if len(missing) < len(distinct):
        print(f"{len(distinct) - len(missing)} of {len(distinct)} units are finished already", file=sys.stderr)
    if strangers:
        print(f"{strangers} parts in {parts.folder} are of other sweeps or code versions: left alone", file=sys.stderr)
    return missing


def _execute(sweep: Sweep, missing: list[Unit], parts: Parts, memory: int, shard_actions: int | None) -> None:
    """Compute units on the devices of this process, and write their parts."""
    with _progress(sweep, missing) as bar:
        for shards, batches in _by_shards(sweep, missing, shard_actions).items():
            _spread(sweep, batches, parts, Budget(memory), places=stations(shards), bar=bar)


def _by_shards(sweep: Sweep, missing: list[Unit], asked: int | None) -> dict[int, list[list[Unit]]]:
    """The batches, by the number of devices that one of their simulations is spread over."""
    found: dict[int, list[list[Unit]]] = {}
    for batch in _batches(sweep, missing, jax.default_backend()):
        cell = batch[0].cell
        program, place = sweep.program(cell), sweep.build_problem(cell)
        shards = asked or shards_needed(program, place, sweep.recorded_steps(), sweep.numbers(cell, place))
        found.setdefault(shards, []).append(batch)
    return found


def _spread(
    sweep: Sweep, batches: list[list[Unit]], parts: Parts, budget: Budget, *, places: list[Group], bar: Any
) -> None:
    """Simulate batches side by side, each on those devices that are free next."""
    free, stop = queue.SimpleQueue[Group](), threading.Event()
    for devices in places:
        free.put(devices)

    def run_together(some: list[Unit]) -> int:
        devices = free.get()
        try:
            rows = simulated(_work(sweep, some), budget, stop, devices)
        finally:
            free.put(devices)
        return 0 if rows is None else _save(some, rows, parts)

    def run_units(some: list[Unit]) -> int:
        try:
            return run_together(some)
        except Diverged as complaint:
            if len(some) > 1:
                _keep_the_others(some, run_together)
            raise complaint

    pool = ThreadPoolExecutor(len(places))
    futures = [pool.submit(run_units, some) for some in batches]
    try:
        for future in as_completed(futures):
            bar.update(future.result() * sweep.steps)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _keep_the_others(some: list[Unit], run_together: Callable[[list[Unit]], int]) -> None:
    """Run units one by one, of which some diverge, so that the others have their parts."""
    for unit in some:
        with contextlib.suppress(Diverged):
            run_together([unit])


def _execute_there(
    workers: Workers, sweep: Sweep, missing: list[Unit], parts: Parts, *, memory: int, made_by: Mapping[str, Any]
) -> None:
    """Have units computed by workers, and write their parts here."""
    batches = list(_batches(sweep, missing, made_by["platform"]))
    works = (_work(sweep, some) for some in batches)
    with _progress(sweep, missing) as bar:
        for number, rows in workers.simulate(works, made_by, memory):
            bar.update(_save(batches[number], rows, parts) * sweep.steps)


def _progress(sweep: Sweep, missing: list[Unit]) -> Any:
    total = sum(len(unit.seeds) for unit in missing) * sweep.steps
    # disable=None: a bar on a terminal, nothing in a log.
    return tqdm(total=total, unit=" seed-steps", unit_scale=True, disable=None, desc="simulating")


def _batches(sweep: Sweep, missing: list[Unit], platform: str) -> Iterator[list[Unit]]:
    """Units to run in one call: cells of one program share the lanes of a vmapped call that one would not fill.

    All batches of a program come one after the other, so that it is compiled once and then forgotten.
    """
    alike: dict[Any, list[Unit]] = {}
    for unit in missing:
        alike.setdefault((sweep.program(unit.cell), sweep.build_problem(unit.cell).fingerprint), []).append(unit)
    for some in alike.values():
        cell, batch = some[0].cell, [some[0]]
        together = lanes_together(sweep.program(cell), sweep.size(cell), platform)
        for unit in some[1:]:
            if sum(len(other.seeds) for other in batch) + len(unit.seeds) > together:
                yield batch
                batch = []
            batch.append(unit)
        yield batch


def _work(sweep: Sweep, some: list[Unit]) -> Work:
    """The lanes of units of one program and problem."""
    cell = some[0].cell
    place = sweep.build_problem(cell)
    lanes = [(seed, sweep.numbers(unit.cell, place)) for unit in some for seed in unit.seeds]
    name = f"{cell.estimator} at group size {cell.group_size}"
    return Work(name, sweep.program(cell).identified(), place, sweep.recorded_steps(), lanes)


def _save(some: list[Unit], rows: Mapping[str, np.ndarray], parts: Parts) -> int:
    """Write the parts of units that were simulated together; returns their number of seeds."""
    start = 0
    for unit in some:
        end = start + len(unit.seeds)
        parts.save(unit, {name: values[start:end] for name, values in rows.items()})
        start = end
    return start


def _join(
    sweep: Sweep, everything: list[Unit], folders: list[Parts], described: dict[str, Any], out: Path
) -> xr.Dataset:
    holders = [next((parts for parts in folders if parts.has(unit)), None) for unit in everything]
    if absent := holders.count(None):
        raise InputError(f"{absent} of {len(everything)} units are missing; run the shards that hold them, then merge")
    processors = Counter[str]()
    records = (
        (unit, _without_processor(parts.load(unit), processors))
        for unit, parts in zip(everything, holders, strict=True)
        if parts
    )
    attributes = {
        "configuration": json.dumps(described["configuration"], sort_keys=True),
        "versions": json.dumps(described["versions"], sort_keys=True),
        "commit": described["commit"],
        "code": described["code"],
        "own": json.dumps(described["own"], sort_keys=True),
        "platform": described["platform"],
        "dtype": sweep.dtype,
    }
    dataset = assemble(sweep, records, attributes)
    kinds = [json.loads(kind) | {"runs": runs} for kind, runs in sorted(processors.items())]
    dataset.attrs["processors"] = json.dumps(kinds)
    if len(kinds) > 1:
        listed = ", ".join(f"{kind['instructions']} ({kind['device']}): {kind['runs']}" for kind in kinds)
        print(
            f"runs of this sweep were made by different processors, which round differently: {listed}", file=sys.stderr
        )
    write(dataset, out)
    return dataset


def _without_processor(rows: dict[str, np.ndarray], processors: Counter[str]) -> dict[str, np.ndarray]:
    """The records without what computed them, which is counted."""
    processors.update(rows[PROCESSOR].tolist())
    return {name: values for name, values in rows.items() if name != PROCESSOR}

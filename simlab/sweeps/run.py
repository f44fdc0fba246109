"""Run a sweep: reuse finished units, simulate missing ones, and join all of them into one result."""

import itertools
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from simlab.errors import InputError
from simlab.files import check_replaceable, file_lock, make_folder
from simlab.simulator.checks import check_shards
from simlab.simulator.resources import host_bytes
from simlab.sweeps.executor import PROCESSOR, Workers, check_memory, execute_here, execute_there
from simlab.sweeps.grid import Sweep
from simlab.sweeps.plan import Plan, Unit, maker
from simlab.sweeps.result import assemble, configuration, joining_bytes, write
from simlab.sweeps.store import Store, load_manifest

COMPARED = ("configuration", "code", "own", "files", "platform")  # entries that parts of one result share


def parts_folder(out: Path) -> Path:
    """Return the folder of the finished units of a result, beside it."""
    return out.with_name(out.name + ".parts")


def free_path(out: Path, sweep: Sweep) -> Path:
    """Return the first of ``out``, ``out-2``, ``out-3``, ... that is free or holds the result of this sweep.

    >>> free_path(Path("nothing/there.nc"), Sweep()).name
    'there.nc'
    """
    for number in itertools.count(2):
        if not out.exists() or _is_of(out, sweep):
            return out
        out = out.with_stem(f"{out.stem.removesuffix(f'-{number - 1}')}-{number}")
    raise AssertionError("numbers end")


def run(
    sweep: Sweep | Plan,
    out: Path,
    *,
    memory: int = 2 * 2**30,
    shard: tuple[int, int] = (1, 1),
    workers: Workers | None = None,
    overwrite: bool = False,
    shard_actions: int | None = None,
) -> xr.Dataset | None:
    """Run a sweep, or one shard of it, reusing the units that are finished. Only one process at a time may do so.

    Args:
        sweep: the grid of runs, planned or not.
        out: the result file; finished units lie beside it, in ``parts_folder(out)``.
        memory: the bytes that this process, and each of the workers, may use.
        shard: (i, n): run every n-th unit, from the i-th, counted from 1. Only parts are written if n > 1.
        workers: the workers that simulate instead of this process, see ``simlab.sweeps.cluster.connected``; this
            process writes the parts.
        overwrite: replace the result of another sweep at ``out``.
        shard_actions: the number of devices of this process over which sharded storage spreads each run; by default as
            few as hold it.

    Returns:
        The result, which is also written to ``out``; None for a shard.

    Raises:
        InputError: for a sweep that cannot run, a path that cannot be written, too little memory, an output that
            another process is writing, or workers that cannot do the work.
    """
    plan = sweep if isinstance(sweep, Plan) else Plan(sweep)
    _check_room(plan, memory, shard_actions)
    number, count = shard
    if count == 1:
        check_memory(memory, joining_bytes(plan))
    _prepare(out, plan.sweep, overwrite)
    store = Store(parts_folder(out))
    lock = ".lock" if count == 1 else f".lock-{number}-of-{count}"
    with file_lock(store.folder, lock, allowed="another --out, or the same command when that one has ended"):
        manifest = plan.manifest(workers.maker() if workers else maker())
        units = plan.units(manifest["code"], manifest["platform"])
        store.save_manifest(manifest)
        shard_units = units[number - 1 :: count]
        missing = _missing(shard_units, store, store.count_foreign_parts(units))
        with _progress(missing, shard_units) as bar:

            def save(batch: Sequence[Unit], rows: Mapping[str, np.ndarray]) -> None:
                seeds = store.save_together(batch, rows)
                with tqdm.get_lock():  # batches end in threads of their own
                    bar.update(seeds * int(batch[0].resolved.steps[-1]))

            if workers is None:
                execute_here(plan, missing, save, memory, shard_actions)
            elif missing:
                execute_there(plan, missing, save, workers, made_by=manifest, memory=memory)
        return _join(plan, units, [store], manifest, out) if count == 1 else None


def merge(out: Path, folders: list[Path], *, overwrite: bool = False) -> xr.Dataset:
    """Join the units that shards wrote, perhaps on several machines, into one result.

    Raises:
        InputError: if the folders belong to different sweeps, units are missing, a part is damaged, or ``out`` cannot
            be written.
    """
    manifests = [load_manifest(folder) for folder in folders]
    differing = [name for name in COMPARED if len({json.dumps(other[name], sort_keys=True) for other in manifests}) > 1]
    if differing:
        raise InputError(f"the folders hold different sweeps (they differ in {', '.join(differing)})")
    manifest = manifests[0]
    plan = Plan(Sweep.from_configuration(manifest["configuration"]))
    _check_user_code(plan.user_code(), manifest)
    _prepare(out, plan.sweep, overwrite)
    units = plan.units(manifest["code"], manifest["platform"])
    return _join(plan, units, [Store(folder) for folder in folders], manifest, out)


def _check_room(plan: Plan, memory: int, shard_actions: int | None) -> None:
    """Raise ``InputError`` if a problem does not fit into the memory, or cannot be spread as asked."""
    for cell in plan.distinct:
        check_memory(memory, host_bytes(cell.problem, cell.settings))
        if shard_actions is not None:
            check_shards(cell.problem, cell.settings, shard_actions)


def _check_user_code(here: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Raise ``InputError`` unless the user's own code is what it was when units were made."""
    for kind in ("own", "files"):
        for name in sorted({*here[kind], *manifest[kind]}):
            if here[kind].get(name) != manifest[kind].get(name):
                raise InputError(
                    f"the parts are of other code of your own than there is here (in {name}); allowed: the same code"
                )


def _prepare(out: Path, sweep: Sweep, overwrite: bool) -> None:
    """Make the folder of the result; raise ``InputError`` if something else stands in its place."""
    check_replaceable(out)
    make_folder(out.parent)
    if overwrite or not out.exists():
        return
    allowed = "allowed: another --out, or --overwrite"
    try:
        same = _is_of(out, sweep)
    except InputError as error:
        raise InputError(f"{error}; {allowed}") from None
    if not same:
        raise InputError(f"{out} holds the result of another sweep; {allowed}")


def _is_of(out: Path, sweep: Sweep) -> bool:
    """Whether the result that stands at ``out`` is one of this sweep."""
    return bool(configuration(out) == json.loads(json.dumps(sweep.configuration())))


def _missing(todo: Sequence[Unit], store: Store, foreign: int) -> list[Unit]:
    """Return the units that are not finished; set damaged ones aside, and print how many are finished."""
    # A method without a swept parameter is the same unit at each of its values: it runs once.
    distinct = {unit.name: unit for unit in todo}
    for unit in filter(store.has, distinct.values()):
        if damage := store.set_aside_if_damaged(unit):
            print(f"{damage}, and it is set aside", file=sys.stderr)
    missing = [unit for unit in distinct.values() if not store.has(unit)]
    if len(missing) < len(distinct):
        print(f"{_count_units(len(distinct) - len(missing), len(distinct))} finished already", file=sys.stderr)
    if foreign:
        are = f"1 part in {store.folder} is" if foreign == 1 else f"{foreign} parts in {store.folder} are"
        print(f"{are} of other sweeps or code versions: left alone", file=sys.stderr)
    return missing


def _count_units(number: int, total: int) -> str:
    return f"{number} of {total} units {'is' if number == 1 else 'are'}"


def _progress(missing: Sequence[Unit], todo: Sequence[Unit]) -> Any:
    """Return a progress bar that begins where an earlier run of the sweep ended."""
    total, remaining = (
        sum(len(unit.seeds) * int(unit.resolved.steps[-1]) for unit in {unit.name: unit for unit in units}.values())
        for units in (todo, missing)
    )
    # disable=None: a bar on a terminal, nothing in a log.
    disable = None if missing else True
    unit = " seed-steps"
    return tqdm(total=total, initial=total - remaining, unit=unit, unit_scale=True, disable=disable, desc="simulating")


def _join(
    plan: Plan, units: Sequence[Unit], stores: Sequence[Store], manifest: Mapping[str, Any], out: Path
) -> xr.Dataset:
    holders = [next((store for store in stores if store.has(unit)), None) for unit in units]
    if absent := holders.count(None):
        count = _count_units(absent, len(units))
        raise InputError(f"{count} missing; run the shards that hold what is missing, then merge")
    processors = Counter[str]()
    records = (
        (unit, _without_processor(store.load(unit), processors))
        for unit, store in zip(units, holders, strict=True)
        if store
    )
    dataset = assemble(plan, records, _attributes(plan, manifest))
    kinds = [json.loads(kind) | {"runs": runs} for kind, runs in sorted(processors.items())]
    dataset.attrs["processors"] = json.dumps(kinds)
    if len(kinds) > 1:
        listed = ", ".join(f"{kind['instructions']} ({kind['device']}): {kind['runs']}" for kind in kinds)
        print(
            f"runs of this sweep were made by different processors, which round differently: {listed}", file=sys.stderr
        )
    write(dataset, out)
    return dataset


def _attributes(plan: Plan, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the provenance of a result, with the user's files if there are any."""
    data = ["configuration", "versions", "own", *(("files", "texts") if manifest["files"] else ())]
    plain = {name: manifest[name] for name in ("commit", "code", "platform")}
    return {name: json.dumps(manifest[name], sort_keys=True) for name in data} | plain | {"dtype": plan.sweep.dtype}


def _without_processor(rows: dict[str, np.ndarray], processors: Counter[str]) -> dict[str, np.ndarray]:
    """Return records without the processors that computed them, and count these."""
    processors.update(rows[PROCESSOR].tolist())
    return {name: values for name, values in rows.items() if name != PROCESSOR}

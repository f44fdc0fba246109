"""Run a sweep: reuse finished units, simulate missing ones, and join all of them into one result.

``sweep`` does by one call what ``simlab sweep`` does, for a notebook or a script.
"""

import io
import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from simlab.arms import Arm, parse_list
from simlab.errors import InputError
from simlab.files import check_replaceable, explained, file_lock, make_folder, set_aside, write_part
from simlab.seals import Damaged, sealed, sealed_json, unsealed, unsealed_json
from simlab.simulator.resources import host_bytes
from simlab.simulator.runner import check_shards
from simlab.sweeps.executor import PROCESSOR, check_memory, execute_here
from simlab.sweeps.grid import Budget, Sweep
from simlab.sweeps.parameters import as_values
from simlab.sweeps.plan import Plan, Unit, batches, maker
from simlab.sweeps.result import assemble, configuration, joining_bytes, write

MANIFEST = "sweep.json"
COMPARED = ("configuration", "code", "own", "files", "platform")  # entries that parts of one result share
ENTRIES = (*COMPARED, "texts", "versions", "commit")


class Store:
    """A folder of finished units, one file each, written whole or not at all."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, unit: Unit) -> Path:
        """Return the path of a unit's file."""
        return self.folder / f"{unit.name}.npz"

    def save(self, unit: Unit, rows: Mapping[str, np.ndarray]) -> None:
        """Write a unit's records, (seeds, records, ...) each."""
        buffer = io.BytesIO()
        # In one order in memory, so that equal records are equal files.
        np.savez(buffer, **dict[str, Any]({name: np.ascontiguousarray(values) for name, values in rows.items()}))
        # A zip file does not notice every flipped bit, and goes on without the arrays it cannot find.
        write_part(self.path(unit), sealed(buffer.getvalue(), unit.name))

    def content(self, unit: Unit) -> bytes:
        """Read a unit's file."""
        path = self.path(unit)
        with explained(f"cannot read {path}"):
            data = path.read_bytes()
        try:
            return unsealed(data, unit.name)
        except Damaged as reason:
            raise Damaged(f"part {path} is damaged ({reason}); its sweep, run again, computes it anew") from None

    def load(self, unit: Unit) -> dict[str, np.ndarray]:
        """Read a unit's records."""
        with np.load(io.BytesIO(self.content(unit)), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def load_manifest(folder: Path) -> dict[str, Any]:
    """Read what identifies the sweep of a folder's units."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder} holds no {MANIFEST}; allowed: a folder of parts that simlab sweep wrote")
    try:
        manifest = unsealed_json(path.read_bytes(), MANIFEST)
        return {name: manifest[name] for name in ENTRIES}
    except (Damaged, OSError, KeyError) as error:
        raise InputError(f"{path} is damaged ({error}); run the sweep again to write it anew") from None


def parts_folder(out: Path) -> Path:
    """Return the folder of the finished units of a result, beside it."""
    return out.with_name(out.name + ".parts")


def free_path(out: Path, sweep: Sweep) -> Path:
    """Return the first of ``out``, ``out-2``, ``out-3``, ... that is free or holds the result of this sweep.

    >>> free_path(Path("nothing/there.nc"), Sweep()).name
    'there.nc'
    """
    paths = (out if number == 1 else out.with_stem(f"{out.stem}-{number}") for number in itertools.count(1))
    return next(path for path in paths if not path.exists() or _is_of(path, sweep))


def run(
    sweep: Sweep | Plan,
    out: Path,
    *,
    memory: int = 2 * 2**30,
    shard: tuple[int, int] = (1, 1),
    workers: Any = None,
    overwrite: bool = False,
    shard_actions: int | None = None,
) -> xr.Dataset | None:
    """Run a sweep, or one shard of it, reusing the units that are finished. Only one process at a time may do so.

    Args:
        sweep, out: the grid of runs, and the result file; finished units lie beside it, in ``parts_folder(out)``.
        memory: the bytes that this process, and each of the workers, may use.
        shard: (i, n): run every n-th unit, from the i-th, counted from 1. Only parts are written if n > 1.
        workers: the ``simlab.sweeps.cluster.Cluster`` that simulates instead of this process, which writes the parts.
        overwrite: replace the result of another sweep at ``out``.
        shard_actions: the number of devices over which sharded storage spreads each run; by default as few as hold it.

    Returns:
        The result, which is also written to ``out``; None for a shard.

    Raises: InputError: for a sweep that cannot run, a path that cannot be written, too little memory, an output that
    another process is writing, or workers that cannot do the work.
    """
    plan = sweep if isinstance(sweep, Plan) else Plan(sweep)
    number, count = shard
    for cell in plan.distinct:
        check_memory(memory, host_bytes(cell.problem, cell.settings))
        if shard_actions is not None:
            check_shards(cell.problem, cell.settings, shard_actions)
    if count == 1:
        check_memory(memory, joining_bytes(plan))
    folder = parts_folder(out)
    _prepare(out, plan.sweep, overwrite)
    make_folder(folder)
    lock = ".lock" if count == 1 else f".lock-{number}-of-{count}"
    with file_lock(folder, lock, allowed="another --out, or the same command when that one has ended"):
        manifest = plan.manifest(workers.maker() if workers else maker())
        units = plan.units(manifest["code"], manifest["platform"])
        write_part(folder / MANIFEST, sealed_json(manifest, MANIFEST))
        store, shard_units = Store(folder), units[number - 1 :: count]
        missing = _missing(shard_units, units, store)
        with _progress(missing, shard_units) as bar:

            def save(batch: Sequence[Unit], rows: Mapping[str, np.ndarray]) -> None:
                start = 0
                for unit in batch:
                    end = start + len(unit.seeds)
                    store.save(unit, {name: values[start:end] for name, values in rows.items()})
                    start = end
                with tqdm.get_lock():  # batches end in threads of their own
                    bar.update(start * int(batch[0].resolved.steps[-1]))

            if workers is None:
                execute_here(plan, missing, save, memory, shard_actions)
            elif missing:
                there = list(batches(missing, manifest["platform"]))
                for index, rows in workers.simulate(map(plan.work, there), manifest, memory):
                    save(there[index], rows)
        return _join(plan, units, [store], manifest, out) if count == 1 else None


def sweep(
    arms: str | Sequence[str | Arm],
    *,
    problem: str = "anchored",
    group_size: int | Sequence[int] = 8,
    seeds: int = 4,
    steps: int | None = None,
    record_every: int | None = None,
    budget: Budget | None = None,
    optimizer: str = "adam",
    pass_at_k: Sequence[int] = (1, 8, 64, 512),
    top_n: int | None = None,
    dtype: str = "float32",
    storage: str = "auto",
    out: str | Path | None = None,
    overwrite: bool = False,
    memory: int = 2 * 2**30,
    **parameters: Any,
) -> xr.Dataset:
    """Simulate every method at every group size and value of a parameter, over seeds 0 to ``seeds`` - 1.

    Args:
        arms: methods: ``"grpo,f_grpo(gamma=0.5)+clip_higher"``, or a list of such texts or of ``Arm``.
        problem: a registered name, or ``FILE.py:NAME``.
        group_size: G, or several.
        seeds, steps, record_every, budget, optimizer, pass_at_k, top_n, dtype, storage: see ``Sweep``.
        out: the result file. Finished units are kept beside it; after a kill, make the same call to resume. By default
            nothing is left on the disk.
        overwrite: replace the result of another sweep at ``out``.
        memory: the bytes that this process may use.
        parameters: of methods, problem, optimizer or run, by name; a list of values is a dimension of the result. Where
            two sections have the name, the section goes before it: ``**{"optimizer.eps": 1e-6}``.

    Returns:
        A dataset with dimensions ``arm``, ``group_size``, each swept parameter, ``seed`` and ``step``, or
        ``cost`` where there is a budget, and a variable for each metric of the problem.

    Raises: InputError: for an unknown name, a value outside its range, and as ``simlab.sweeps.run``.

    >>> result = sweep("grpo,dr_grpo", actions=60, correct=6, learning_rate=[0.01, 0.1], seeds=2, steps=20)
    >>> dict(result.q_pos.sizes)
    {'arm': 2, 'group_size': 1, 'learning_rate': 2, 'seed': 2, 'step': 2}
    """
    listed = tuple(map(str, parse_list(arms) if isinstance(arms, str) else arms))
    if not listed:
        raise InputError("arms lists nothing; allowed: one or more methods")
    settings: dict[str, Any] = dict(problem=problem, seeds=seeds, steps=steps, record_every=record_every, budget=budget)
    settings |= dict(optimizer=optimizer, pass_at_k=tuple(pass_at_k), top_n=top_n, dtype=dtype, storage=storage)
    bare = Sweep(arms=listed, group_sizes=as_values(group_size, 0), **settings)
    defaults = bare.known_parameters()
    qualified = {bare.resolve(name): values for name, values in parameters.items()}
    grid = replace(bare, parameters={name: as_values(values, defaults[name]) for name, values in qualified.items()})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.nc" if out is None else Path(out)
        result = run(grid, path, overwrite=overwrite, memory=memory)
    assert result is not None  # that is for shards
    return result


def merge(out: Path, folders: list[Path], *, overwrite: bool = False) -> xr.Dataset:
    """Join the units that shards wrote, perhaps on several machines, into one result.

    Raises:
        InputError: for folders of different sweeps, missing units, a damaged part, or ``out`` that cannot be written.
    """
    manifest, *others = [load_manifest(folder) for folder in folders]
    if differing := [name for name in COMPARED if any(other[name] != manifest[name] for other in others)]:
        raise InputError(f"the folders hold different sweeps (they differ in {', '.join(differing)})")
    plan = Plan(Sweep.from_configuration(manifest["configuration"]))
    here = plan.manifest({})
    for kind in ("own", "files"):
        for name in sorted({*here[kind], *manifest[kind]}):
            if here[kind].get(name) != manifest[kind].get(name):
                raise InputError(
                    f"the parts are of other code of your own than there is here (in {name}); allowed: the same code"
                )
    _prepare(out, plan.sweep, overwrite)
    units = plan.units(manifest["code"], manifest["platform"])
    return _join(plan, units, [Store(folder) for folder in folders], manifest, out)


def _prepare(out: Path, sweep: Sweep, overwrite: bool) -> None:
    """Make the folder of the result; raise ``InputError`` if something else stands in its place."""
    check_replaceable(out)
    make_folder(out.parent)
    if overwrite or not out.exists():
        return
    try:
        reason = "" if _is_of(out, sweep) else f"{out} holds the result of another sweep"
    except InputError as error:
        reason = str(error)
    if reason:
        raise InputError(f"{reason}; allowed: another --out, or --overwrite")


def _is_of(out: Path, sweep: Sweep) -> bool:
    return bool(configuration(out) == json.loads(json.dumps(sweep.configuration())))


def _missing(shard_units: Sequence[Unit], units: Sequence[Unit], store: Store) -> list[Unit]:
    """Return the units of a shard that are not finished; set damaged ones aside."""
    # A method without a swept parameter is the same unit at each of its values: it runs once.
    distinct = {unit.name: unit for unit in shard_units}
    for unit in distinct.values():
        if not store.path(unit).exists():
            continue
        try:
            store.content(unit)
        except Damaged as damage:
            with explained(f"cannot rename {store.path(unit)}"):
                set_aside(store.path(unit))
            print(f"{damage}, and it is set aside", file=sys.stderr)
    missing = [unit for unit in distinct.values() if not store.path(unit).exists()]
    if len(missing) < len(distinct):
        print(f"{_count_units(len(distinct) - len(missing), len(distinct))} finished already", file=sys.stderr)
    names = {unit.name for unit in units}
    if foreign := sum(path.stem not in names for path in store.folder.glob("*.npz")):
        are = f"1 part in {store.folder} is" if foreign == 1 else f"{foreign} parts in {store.folder} are"
        print(f"{are} of other sweeps or code versions: left alone", file=sys.stderr)
    return missing


def _count_units(number: int, total: int) -> str:
    return f"{number} of {total} units {'is' if number == 1 else 'are'}"


def _progress(missing: Sequence[Unit], shard_units: Sequence[Unit]) -> Any:
    total, remaining = (
        sum(len(unit.seeds) * int(unit.resolved.steps[-1]) for unit in {unit.name: unit for unit in units}.values())
        for units in (shard_units, missing)
    )
    shown = {"unit": " seed-steps", "unit_scale": True, "desc": "simulating"}
    return tqdm(total=total, initial=total - remaining, disable=None if missing else True, **shown)  # none in a log


def _join(
    plan: Plan, units: Sequence[Unit], stores: Sequence[Store], manifest: Mapping[str, Any], out: Path
) -> xr.Dataset:
    holders = [next((store for store in stores if store.path(unit).exists()), None) for unit in units]
    if absent := holders.count(None):
        count = _count_units(absent, len(units))
        raise InputError(f"{count} missing; run the shards that hold what is missing, then merge")
    processors = Counter[str]()

    def load(unit: Unit, store: Store) -> dict[str, np.ndarray]:
        rows = store.load(unit)
        processors.update(rows.pop(PROCESSOR).tolist())
        return rows

    dataset = assemble(plan, ((unit, load(unit, store)) for unit, store in zip(units, holders, strict=True) if store))
    data = ["configuration", "versions", "own", *(("files", "texts") if manifest["files"] else ())]
    dataset.attrs |= {name: json.dumps(manifest[name], sort_keys=True) for name in data}
    dataset.attrs |= {name: manifest[name] for name in ("commit", "code", "platform") if manifest[name] != "unknown"}
    kinds = [json.loads(kind) | {"runs": runs} for kind, runs in sorted(processors.items())]
    dataset.attrs |= {"dtype": plan.sweep.dtype, "processors": json.dumps(kinds)}
    if len(kinds) > 1:
        listed = ", ".join(f"{kind['instructions']} ({kind['device']}): {kind['runs']}" for kind in kinds)
        print(f"runs of this sweep are of different processors, which round differently: {listed}", file=sys.stderr)
    write(dataset, out)
    return dataset

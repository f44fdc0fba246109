"""Run a sweep by one call: what ``simlab sweep`` does, for a notebook or a script."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xarray as xr

from simlab.arms import Arm, parse_list
from simlab.errors import InputError
from simlab.sweeps.budget import Budget
from simlab.sweeps.grid import Sweep
from simlab.sweeps.parameters import as_values
from simlab.sweeps.run import run


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
    settings: dict[str, Any] = dict(
        seeds=seeds, steps=steps, record_every=record_every, budget=budget, problem=problem, optimizer=optimizer
    )
    settings |= dict(pass_at_k=tuple(pass_at_k), top_n=top_n, dtype=dtype, storage=storage)
    listed = tuple(map(str, parse_list(arms) if isinstance(arms, str) else arms))
    if not listed:
        raise InputError("arms lists nothing; allowed: one or more methods")
    bare = Sweep(arms=listed, group_sizes=as_values(group_size, 0), **settings)
    defaults = bare.known_parameters()
    qualified = {bare.resolve(name): values for name, values in parameters.items()}
    grid = replace(bare, parameters={name: as_values(values, defaults[name]) for name, values in qualified.items()})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.nc" if out is None else Path(out)
        result = run(grid, path, overwrite=overwrite, memory=memory)
    assert result is not None  # that is for shards
    return result

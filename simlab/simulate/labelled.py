"""Records with labels: the same variables, dimensions and units for one run and for a sweep."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from simlab.problems import Problem
from simlab.simulate.bank_metrics import BANK_DESCRIPTIONS, BIN_CENTRES, BINNED
from simlab.simulate.lanes import run_lanes
from simlab.simulate.linear_metrics import LINEAR_DESCRIPTIONS, SINGULAR, SINGULAR_VALUES
from simlab.simulate.metrics import DESCRIPTIONS
from simlab.simulate.program import Numbers, Program


def simulate(
    problem: Problem,
    program: Program,
    *,
    numbers: Numbers | None = None,
    seeds: int = 4,
    steps: int = 1000,
    record_every: int = 50,
) -> xr.Dataset:
    """Simulate one program on one problem, over seeds 0 to ``seeds`` - 1.

    ``numbers`` are the float parameters (learning rate, gamma, temperature, ...); defaults otherwise. The problem's
    own rewards are used unless ``numbers`` says others. For grids, parts on disk and resuming, see ``simlab.sweep``.

    Returns:
        A dataset with dimensions ``seed`` and ``step``; variables as in ``metrics.DESCRIPTIONS``, of a bank
        ``bank_metrics.BANK_DESCRIPTIONS``, of prompts that share a head ``linear_metrics.LINEAR_DESCRIPTIONS``.

    Raises:
        InputError: if the program cannot run on the problem.

    >>> from simlab.problems import anchored
    >>> result = simulate(anchored(100, 10), Program(group_size=8, estimator="grpo"), steps=100)
    >>> bool((result.q_pos.isel(step=-1) > result.q_pos.isel(step=0)).all())
    True
    """
    numbers = numbers or Numbers({}, {}, {})
    recorded = recorded_steps(steps, record_every)
    rows = run_lanes(program, problem, recorded, [(seed, numbers) for seed in range(seeds)])
    return labelled(rows, {"seed": np.arange(seeds)}, recorded, program.pass_at_k)


def recorded_steps(steps: int, record_every: int) -> np.ndarray:
    """The steps after which is recorded: every ``record_every``-th and the last."""
    recorded = np.arange(record_every, steps + 1, record_every)
    return recorded if recorded.size and recorded[-1] == steps else np.append(recorded, steps)


def labelled(
    rows: Mapping[str, np.ndarray],
    leading: Mapping[str, Any],
    recorded: np.ndarray,
    pass_at_k: tuple[int, ...],
    attributes: Mapping[str, str] | None = None,
) -> xr.Dataset:
    """Records (leading..., step[, k, rank, bin or singular]) as a dataset.

    ``leading`` maps the leading dimensions to their labels. ``k`` labels pass@k, ``rank`` the top log-probabilities,
    ``bin`` what a bank records by solve rate, the label being the middle of the bin, ``singular`` the singular values
    from the largest on.
    """
    coordinates = dict(leading) | {"step": np.concatenate([[0], recorded])}
    trailing, descriptions = {}, DESCRIPTIONS
    if any(name in rows for name in BINNED):
        coordinates["bin"], descriptions = BIN_CENTRES, BANK_DESCRIPTIONS
        trailing = {name: ("bin",) for name in BINNED}
    if SINGULAR in rows:
        coordinates["singular"], descriptions = np.arange(1, SINGULAR_VALUES + 1), LINEAR_DESCRIPTIONS
        trailing[SINGULAR] = ("singular",)
    if "pass_at_k" in rows:
        coordinates["k"] = list(pass_at_k)
        trailing["pass_at_k"] = ("k",)
    if "top_logp" in rows:
        coordinates["rank"] = np.arange(1, rows["top_logp"].shape[-1] + 1)
        trailing["top_logp"] = ("rank",)
    variables = {
        name: ((*leading, "step", *trailing.get(name, ())), values, {"long_name": descriptions[name]})
        for name, values in sorted(rows.items())
    }
    return xr.Dataset(variables, coordinates, dict(attributes or {}))

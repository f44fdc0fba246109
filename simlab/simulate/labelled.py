"""Records with labels: the same variables, dimensions and units for one run and for a sweep."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from simlab.errors import check_range, check_whole
from simlab.problems import Problem, Tree
from simlab.simulate.bank_metrics import BANK_DESCRIPTIONS, BIN_CENTRES, BINNED
from simlab.simulate.lanes import run_lanes
from simlab.simulate.linear_metrics import LINEAR_DESCRIPTIONS, SINGULAR, SINGULAR_VALUES
from simlab.simulate.metrics import DESCRIPTIONS
from simlab.simulate.program import LARGEST_INT, Numbers, Program
from simlab.simulate.tree_metrics import TREE_DESCRIPTIONS
from simlab.theory.covariance import TOP_PERCENT

DIMENSIONS = dict.fromkeys(BINNED, "bin") | {
    SINGULAR: "singular",
    "pass_at_k": "k",
    "top_logp": "rank",
    "rank_logp": "rank",
    "group_rank_logp": "rank",
    "mode_probability": "mode",
    "level_entropy": "level",
    "positive_covariance": "percent",
    "negative_covariance": "percent",
}
MOST_SEEDS = MOST_RECORDS = 10**6
DIMENSION_LABELS = tuple(dict.fromkeys(DIMENSIONS.values()))
# What the variables are called, by a dimension that only the problem's own kind of run has.
DESCRIBED = {"singular": LINEAR_DESCRIPTIONS, "bin": BANK_DESCRIPTIONS, "mode": TREE_DESCRIPTIONS}


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
        ``bank_metrics.BANK_DESCRIPTIONS``, of prompts that share a head ``linear_metrics.LINEAR_DESCRIPTIONS``, of a
        tree ``tree_metrics.TREE_DESCRIPTIONS``.

    Raises:
        InputError: if the program cannot run on the problem, or with these numbers.
        Diverged: if a number of a run is not finite.

    >>> from simlab.problems import anchored
    >>> result = simulate(anchored(100, 10), Program(group_size=8, estimator="grpo"), steps=100)
    >>> bool((result.q_pos.isel(step=-1) > result.q_pos.isel(step=0)).all())
    True
    """
    check_seeds(seeds)
    numbers = numbers or Numbers({}, {}, {})
    recorded = recorded_steps(steps, record_every)
    rows = run_lanes(program, problem, recorded, [(seed, numbers) for seed in range(seeds)])
    return labelled(rows, {"seed": np.arange(seeds)}, recorded, places_of(problem) | {"k": program.pass_at_k})


def check_seeds(seeds: int) -> None:
    """Raise ``InputError`` unless ``seeds`` is a whole number from 1 to 10^6."""
    check_whole("seeds", seeds, 1, MOST_SEEDS)


def recorded_steps(steps: int, record_every: int) -> np.ndarray:
    """The steps after which is recorded: every ``record_every``-th and the last.

    Raises:
        InputError: unless both are whole numbers from 1 up, and there are at most 10^6 records.
    """
    check_whole("steps", steps, 1, LARGEST_INT)
    check_whole("record_every", record_every, 1, LARGEST_INT)
    check_range("steps / record_every", steps / record_every, 0, MOST_RECORDS)
    recorded = np.arange(record_every, steps + 1, record_every)
    return recorded if recorded.size and recorded[-1] == steps else np.append(recorded, steps)


def labelled(
    rows: Mapping[str, np.ndarray],
    leading: Mapping[str, Any],
    recorded: np.ndarray,
    places: Mapping[str, Sequence[Any]],
    attributes: Mapping[str, str] | None = None,
) -> xr.Dataset:
    """Records (leading..., step[, another dimension]) as a dataset.

    ``leading`` maps the leading dimensions to their labels, ``places`` those of the others that not all runs share:
    ``k`` of pass@k, and what ``places_of`` the problem gives. ``rank`` labels the top log-probabilities, ``bin`` what a
    bank records by solve rate, the label being the middle of the bin, ``singular`` the singular values from the largest
    on, and ``percent`` the covariances of a tree.
    """
    ranks = rows["top_logp"].shape[-1] if "top_logp" in rows else 0
    labels = {**places, "bin": BIN_CENTRES, "percent": TOP_PERCENT}
    labels |= {"rank": range(1, ranks + 1), "singular": range(1, SINGULAR_VALUES + 1)}
    trailing = {name: (DIMENSIONS[name],) for name in rows if name in DIMENSIONS}
    used = {dimension for (dimension,) in trailing.values()}
    coordinates = dict(leading) | {"step": np.concatenate([[0], recorded])}
    coordinates |= {dimension: list(labels[dimension]) for dimension in DIMENSION_LABELS if dimension in used}
    descriptions = next((texts for dimension, texts in DESCRIBED.items() if dimension in used), DESCRIPTIONS)
    variables = {
        name: ((*leading, "step", *trailing.get(name, ())), values, {"long_name": descriptions[name]})
        for name, values in sorted(rows.items())
    }
    return xr.Dataset(variables, coordinates, dict(attributes or {}))


def places_of(problem: Problem) -> dict[str, Sequence[Any]]:
    """Labels of what is recorded place by place of a problem: of a tree its modes, by their words, and its levels."""
    if not isinstance(problem, Tree):
        return {}
    return {"mode": problem.mode_words, "level": range(problem.depth)}

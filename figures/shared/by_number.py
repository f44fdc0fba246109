"""A weight of groups of 8 as two tables of numbers, so that all such weights share one compiled program."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from array_api_compat import array_namespace

from simlab.arms import parse
from simlab.estimators import Estimator, Link, chain
from simlab.rollouts import Array, Rollouts, group_sum, is_correct
from simlab.theory.normal_form import beyond, normal_form

GROUP_SIZE = 8
FILE = "figures/shared/by_number.py"  # from where the figures' commands are run
NAMES = [*(f"s{number}" for number in range(1, GROUP_SIZE + 1)), *(f"f{number}" for number in range(GROUP_SIZE))]


def by_number(**numbers: float) -> Estimator:
    """Give ``s1`` to ``s8`` to a correct rollout, ``f0`` to ``f7`` to a wrong one, by the correct ones of the group."""

    def weigh(rewards: Array, rollouts: Rollouts, state: Any) -> tuple[Array, Any]:
        xp = array_namespace(rewards)
        right = is_correct(rollouts)
        found = group_sum(xp.astype(right, rewards.dtype), rollouts)
        success = failure = xp.zeros_like(found)
        for number in range(GROUP_SIZE):
            success = success + numbers.get(f"s{number + 1}", 0.0) * xp.astype(found == number + 1, rewards.dtype)
            failure = failure + numbers.get(f"f{number}", 0.0) * xp.astype(found == number, rewards.dtype)
        return xp.where(right, success, failure), state

    return chain(Link(weigh, exchangeable=True))


_PARAMETERS = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=0.0) for name in NAMES]
by_number.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]


def tabled(arm: str, file: str = FILE) -> str:
    """Return the arm of ``by_number`` that is a weight under the plain policy gradient, or the arm itself if none is.

    Its largest number is 1 in size: only for steps of a given norm, or Adam's, does that change nothing.
    """
    if parse(arm).files:  # a user's own runs as it is
        return arm
    chosen = parse(arm).build().estimator
    if chosen.needs != {"rewards"} or beyond(chosen) or not arm.endswith("+reinforce"):
        return arm
    form = normal_form(chosen, GROUP_SIZE)
    values = np.concatenate([form.speed - form.offset, -form.offset])
    if not values.any():
        return arm
    values /= np.abs(values).max()
    written = ",".join(f"{name}={value:.7g}" for name, value in zip(NAMES, values, strict=True) if abs(value) > 1e-12)
    return str(parse(f"{file}:by_number({written})+reinforce"))


def labelled(dataset: xr.Dataset, arms: Sequence[str], file: str = FILE) -> xr.Dataset:
    """Return a sweep of some arms, those that are one table run once, with each under its name."""
    listed, texts = list(dataset["arm"].values), [str(parse(arm)) for arm in arms]
    places = [listed.index(text if text in listed else tabled(text, file)) for text in texts]
    return dataset.isel(arm=places).assign_coords(arm=texts)

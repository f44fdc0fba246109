"""Simulate the panel of interference: prompts that share features, and pass@k beside the base model's."""

import math
from typing import Any

import jax
import numpy as np

from simlab.estimators import Estimator, advantages, estimator
from simlab.explore.block import Block, Recorded, Say
from simlab.explore.moments import moments, record_steps
from simlab.explore.shapes import SEEDS
from simlab.explore.weights import arm_text, read_weight
from simlab.problems.interference import Interference, interference, overlap_edge
from simlab.simulator.checks import check
from simlab.simulator.settings import Settings

Given = dict[str, Any]  # the settings of the panel, by their names there

RECORDS = 40
KS = tuple(2**power for power in range(13))


def problem_of(given: Given) -> Interference:
    """The prompts that the panel trains."""
    return interference(overlap=given["overlap"], **_problem_settings(given))


def _problem_settings(given: Given) -> Given:
    return {name: given[name] for name in ("conflict", "hard_rate")}


def interference_block(given: Given) -> Block:
    """The seeds of the panel."""
    settings = Settings(
        f"{arm_text(given['weight'])}+reinforce",
        given["group_size"],
        given["optimizer"],
        {"learning_rate": given["learning_rate"]},
        temperature=given["temperature"],
        pass_at_k=KS,
        storage="dense",
    )
    problem = problem_of(given).listed()
    check(problem, settings)
    return Block(problem, settings, record_steps(given["steps"], RECORDS), Recorded(("pass_at_k",), ()))


def simulate_interference(given: Given, first: int, say: Say) -> dict[str, Any]:
    """A block of seeds from ``first`` up, and the edge that theory tells.

    Returns:
        ``step`` (R + 1,), the number of ``seeds``, and of pass@k at each of the ``k`` (``metrics["pass_at_256"]``) its
        ``mean`` and ``m2``, as of ``simulate_policy``; the record of step 0 is the base model. ``edge`` holds the
        overlaps of either sign beyond which the first step harms a hard prompt, or None for none; it is None where the
        theory does not apply.
    """
    block = interference_block(given)
    passed = block.rows(first, say)["pass_at_k"]
    metrics = {f"pass_at_{k}": moments(passed[:, :, place]) for place, k in enumerate(KS)}
    return {"step": [0, *block.steps.tolist()], "seeds": SEEDS, "k": KS, "metrics": metrics, "edge": edge(given)}


def edge(given: Given) -> list[float | None] | None:
    """The overlaps, below and above 0, at which the first step turns; None where the theory does not apply."""
    name, parameters = read_weight(given["weight"])
    weight = estimator(name, **parameters)
    if given["optimizer"] != "sgd" or not judges_by_own_rewards(weight, given["group_size"]):
        return None
    shared = {"group_size": given["group_size"], "temperature": given["temperature"], **_problem_settings(given)}
    found = [sign * overlap_edge(sign, weight, **shared) for sign in (-1, 1)]
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in found]


def judges_by_own_rewards(weight: Estimator, group_size: int) -> bool:
    """Whether advantages follow from the group's rewards alone, neither from other groups nor from the past."""
    if weight.needs != {"rewards"} or jax.tree.leaves(weight.init()):
        return False
    group = (np.arange(group_size) < 1).astype(float)
    beside = (advantages(weight, np.stack([group, np.full(group_size, other)]))[0] for other in (0.0, 1.0))
    return bool(np.array_equal(*beside))

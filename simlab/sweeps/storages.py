"""Say in which storage a sweep runs each group size, and what a step costs there and elsewhere by the cost model."""

import math

from simlab.simulator.resources import StepCosts, step_costs
from simlab.sweeps.plan import Plan


def storages_in_words(plan: Plan) -> list[str]:
    """One line for each storage: its group sizes, and the microseconds of a core that a step is to take."""
    found: dict[str, dict[int, list[StepCosts]]] = {}
    for one in plan.distinct:
        costs = step_costs(one.problem, one.settings, int(one.steps[-1]))
        found.setdefault(one.settings.storage, {}).setdefault(one.settings.group_size, []).append(costs)
    return [_line(storage, sizes) for storage, sizes in sorted(found.items())]


def _line(storage: str, sizes: dict[int, list[StepCosts]]) -> str:
    own_costs, other = ("lumped", "dense") if storage == "lumped" else ("dense", "lumped")
    costs = [cost for some in sizes.values() for cost in some]
    own, others = ([getattr(cost, name) for cost in costs] for name in (own_costs, other))
    sizes_run = ", ".join(str(size) for size in sorted(sizes))
    expected = f"{_span(own)} us of a core a step by the cost model"
    alternative = f"{other} {_span(others)}" if math.isfinite(max(others)) else f"{other} cannot run it"
    return f"storage {storage} for G = {sizes_run}: {expected}; {alternative}"


def _span(costs: list[float]) -> str:
    low, high = f"{min(costs):.0f}", f"{max(costs):.0f}"
    return low if low == high else f"{low} to {high}"

"""What a sweep says of its engines: which ran what, and what the cost model expects of both."""

import math

from simlab.simulate.engine import StepCosts, step_costs
from simlab.sweep.grid import Sweep


def engines_in_words(sweep: Sweep) -> list[str]:
    """One line an engine: the group sizes that it runs, and the microseconds of a core that a step is to take."""
    found: dict[str, dict[int, list[StepCosts]]] = {}
    for _, cell in sweep.cells():
        program, place = sweep.program(cell), sweep.build_problem(cell)
        costs = step_costs(program, place, sweep.steps)
        found.setdefault(program.engine, {}).setdefault(cell.group_size, []).append(costs)
    return [_line(engine, sizes) for engine, sizes in sorted(found.items())]


def _line(engine: str, sizes: dict[int, list[StepCosts]]) -> str:
    own_costs, other = ("lumped", "dense") if engine == "lumped" else ("dense", "lumped")
    costs = [cost for some in sizes.values() for cost in some]
    own, others = ([getattr(cost, name) for cost in costs] for name in (own_costs, other))
    sizes_run = ", ".join(str(size) for size in sorted(sizes))
    expected = f"{_span(own)} us of a core a step by the cost model"
    alternative = f"{other} {_span(others)}" if math.isfinite(max(others)) else f"{other} cannot run it"
    return f"engine {engine} for G = {sizes_run}: {expected}; {alternative}"


def _span(costs: list[float]) -> str:
    low, high = f"{min(costs):.0f}", f"{max(costs):.0f}"
    return low if low == high else f"{low} to {high}"

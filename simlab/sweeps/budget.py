"""Give every run of a sweep one budget: a step costs its rollouts times their cost, and its gradient steps."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from simlab.errors import InputError, check_range, check_whole
from simlab.problems.base import Problem
from simlab.simulator.runner import MOST_RECORDS
from simlab.simulator.settings import LARGEST_INT, Settings
from simlab.text import read_number, shortened


@dataclass(frozen=True)
class Budget:
    """The cost that every run may spend, in rollouts, unless a rollout's cost is not 1.

    Attributes:
        total: what a run may spend; it ends with the last step that this pays for.
        rollout_cost: the cost of one rollout, including its verification.
        update_cost: the cost of one gradient step, however many rollouts it learns from. If learning has a cost per
            rollout, add it to ``rollout_cost``.
        records: R, how many records there are after that of the start, at equal distances of cost.

    Raises: InputError: for a number outside its range.
    """

    total: float
    rollout_cost: float = 1.0
    update_cost: float = 0.0
    records: int = 20

    def __post_init__(self) -> None:
        check_range("budget", self.total, 0, open_low=True)
        check_range("rollout_cost", self.rollout_cost, 0, open_low=True)
        check_range("update_cost", self.update_cost, 0)
        check_whole("records", self.records, 1, MOST_RECORDS)

    def step_cost(self, problem: Problem, settings: Settings) -> Fraction:
        """Return the exact cost of one step."""
        if self.update_cost and settings.allocation == "dynamic":
            raise InputError(f"update_cost = {self.update_cost:g} with allocation = 'dynamic'; allowed: 0")
        rollouts = problem.prompts_a_step(settings) * settings.rollouts_a_prompt
        updates = settings.static.gradient_steps
        return rollouts * _exact(self.rollout_cost) + updates * _exact(self.update_cost)

    def steps_taken(self, step_cost: Fraction, name: str) -> Int[np.ndarray, " R"]:
        """Return the number of steps that the cost of each record pays for, 0 where it pays for none."""
        if step_cost > _exact(self.total):
            cost = float(step_cost)
            raise InputError(f"budget = {self.total:g}, but a step of {name} costs {cost:g}; allowed: {cost:g} or more")
        steps = [_exact(self.total) * record // (self.records * step_cost) for record in range(1, self.records + 1)]
        if steps[-1] > LARGEST_INT:
            allowed = f"allowed: steps up to {LARGEST_INT}"
            raise InputError(f"budget = {self.total:g} pays for {steps[-1]} steps of {name}; {allowed}")
        return np.array(steps, dtype=np.int64)

    @property
    def costs(self) -> Float[np.ndarray, " records"]:
        """The cost allowed up to each record, the first at the start."""
        return np.array([float(_exact(self.total) * record / self.records) for record in range(self.records + 1)])


def read_total(text: str) -> float:
    """Read a budget: a number, or a power such as ``2^18``.

    >>> read_total("2e4"), read_total("2^18")
    (20000.0, 262144.0)
    """
    base, mark, exponent = text.partition("^")
    try:
        return math.pow(read_number(base), read_number(exponent) if mark else 1)
    except (OverflowError, ValueError):
        raise InputError(f"{shortened(text)} is no number; allowed: such as 262144, 2e5 or 2^18") from None


def _exact(number: float) -> Fraction:
    """Return a number as it is written, so that 0.3 pays for three steps of 0.1."""
    return Fraction(str(number))

"""Estimate means over the rollouts of a log, ratios of them, and how they change from its first steps to its last."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import IntervalEstimate, jackknife_of, missing, quotient, ratio
from simlab.diagnose.reading import Reading
from simlab.diagnose.solve_rates import share_over_prompts
from simlab.diagnose.summary import describe_steps

ANY = (-math.inf, math.inf)
POSITIVE = (0.0, math.inf)
# Of the prompts of the smaller of two samples: where both have so many in common, these alone are compared.
ENOUGH = 0.5
Function = Callable[[Float[np.ndarray, "rows C"]], Float[np.ndarray, " rows"]]
Values = Float[np.ndarray, " N"]
Mask = Bool[np.ndarray, " N"] | bool
Ends = tuple[IntervalEstimate, ...]  # of the first window, of the last, and the change; or of the only one


def in_common(first: Int[np.ndarray, " n"], last: Int[np.ndarray, " m"]) -> Int[np.ndarray, " shared"] | None:
    """Return the prompts that two samples of different ones have in common; None where these are too few to compare."""
    shared = np.intersect1d(first, last)
    return shared if len(shared) >= max(ENOUGH * min(len(first), len(last)), 2) else None


def change_of(function: Function) -> Function:
    """Return the function of the sums of a first and a last window that is the difference of its values."""

    def change(sums: Float[np.ndarray, "rows C"]) -> Float[np.ndarray, " rows"]:
        half = sums.shape[1] // 2
        return np.asarray(function(sums[:, half:]) - function(sums[:, :half]))

    return change


class Means:
    """The rollouts of a log, (N,); intervals are over prompts, and rollouts whose value is NaN do not count.

    Attributes:
        ends: masks of the rollouts in the first and in the last window of steps; none where there is one window.
        steps: of both, in words.
    """

    def __init__(self, reading: Reading, result: Diagnosis):
        self._prompt, self._level = reading.rollouts.prompt, result.level
        windows, step = result.solve_rates.windows, reading.rollouts.step
        ends = (windows[0], windows[-1]) if len(windows) > 1 else ()
        self.ends = [(step >= window.first) & (step <= window.last) for window in ends]
        self.steps = [describe_steps(window.first, window.last) for window in ends]

    def estimate(
        self, name: str, columns: list[Values], function: Function, limits: tuple[float, float] = ANY
    ) -> IntervalEstimate:
        """Estimate a function of the sums of some columns."""
        table = np.stack([np.bincount(self._prompt, column) for column in columns], axis=1)
        return jackknife_of(name, table, function, self._level, limits)

    def mean(self, name: str, values: Values, mask: Mask = True, limits: tuple[float, float] = ANY) -> IntervalEstimate:
        """Estimate the mean where ``mask`` is true."""
        return self.estimate(name, _sums(values, mask), quotient, limits)

    def share(self, name: str, values: Values, mask: Mask = True) -> IntervalEstimate:
        """Estimate the share of ones among values of 0 and 1; NaN where there is none."""
        counted = np.isfinite(values) & mask
        if not counted.any():
            return missing(name, self._level, "none")
        hits, trials = np.bincount(self._prompt[counted], values[counted]), np.bincount(self._prompt[counted])
        return share_over_prompts(name, hits, trials, self._level)

    def quotient_of_means(self, name: str, values: Values, above: Mask, below: Mask) -> IntervalEstimate:
        """Estimate the mean where ``above`` is true by that where ``below`` is, for values of at least 0."""
        columns = _sums(values, above) + _sums(values, below)
        return self.estimate(name, columns, lambda s: ratio(quotient(s[:, :2]), quotient(s[:, 2:])), POSITIVE)

    def change(self, name: str, values: Values, mask: Mask = True) -> IntervalEstimate | None:
        """Estimate the mean of the last window less that of the first; a prompt of both is left out of both at once."""
        if not self.ends:
            return None
        columns = [column for window in self.ends for column in _sums(values, mask & window)]
        return self.estimate(name, columns, change_of(quotient))

    def over_steps(self, name: str, columns: list[Values], function: Function, limits: tuple[float, float]) -> Ends:
        """Estimate a function of sums in the first window, in the last, and its change; of all where there is one."""
        if not self.ends:
            return (self.estimate(name, columns, function, limits),)
        windows = [[column * window for column in columns] for window in self.ends]
        first, last = (
            self.estimate(f"{name}, {steps}", window, function, limits)
            for steps, window in zip(self.steps, windows, strict=True)
        )
        return first, last, self.estimate(f"{name}, change", [*windows[0], *windows[1]], change_of(function))


def _sums(values: Values, mask: Mask) -> list[Values]:
    counted = np.isfinite(values) & mask
    return [np.where(counted, values, 0.0), counted.astype(float)]

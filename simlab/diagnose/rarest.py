"""A solution that was drawn once: how probable it is, and which groups teach against it."""

import numpy as np

from simlab.diagnose.solutions import Solutions, drawn_once, estimated
from simlab.diagnose.subsets import (
    Range,
    Sums,
    exact_sizes,
    exactly,
    mixed_without,
    not_all_right,
    ratio,
    rising,
)
from simlab.diagnose.tail_misses import Columns, Solution, solution, with_enough

NAME = "drawn once"


class Rarest:
    """How to read the sums of ``_columns``, of prompts with N rollouts.

    The other rollouts of its prompt are as those of a group that misses it, and tell how likely such a group teaches.
    How likely a group misses it follows from its mean mass m alone within bounds, for masses differ: (1 - m)^G is the
    least (Jensen), 1 - m the most, and the value is (1 + G / N)^(-m N), the power law of the same slope.
    """

    def __init__(self, trials: int) -> None:
        """Of prompts with so many rollouts."""
        self.trials = trials

    def mass(self, sums: Sums) -> Range:
        """sum N pi^2 (1 - pi)^(N - 1) / sum N pi (1 - pi)^(N - 1): below 1 / N, for what is drawn once is lucky.

        No estimate from N rollouts is without a bias, for that takes N + 1; it ranges over what the bias may be.
        """
        once, mass, bias = (sums.of(name) for name in ("once", "mass of once", "bias of once"))
        return Range(*(np.clip(ratio(mass + sign * bias, once), 0, 1) for sign in (-1, 0, 1)))

    def solve_rate(self, sums: Sums) -> Range:
        """The share of correct ones of the other rollouts."""
        return exactly(ratio(sums.of("others correct"), sums.of("once")))

    def missed(self, sums: Sums, size: int) -> Range:
        """Pr(it is missed) Pr(the group teaches, if it is missed)."""
        mixed = _of_once(sums, "mixed", size, 2)
        return Range(*(own * gone for own, gone in zip(mixed, self._gone(sums, size), strict=True)))

    def against(self, sums: Sums, size: int) -> Range:
        """``missed`` over itself and Pr(it is drawn and the others of the group are not all right)."""
        missed, gone, wrong = self.missed(sums, size), self._gone(sums, size), _of_once(sums, "wrong", size - 1, 1)
        held = ((1 - gone.low) * wrong.high, (1 - gone.value) * wrong.value, (1 - gone.high) * wrong.low)
        return Range(*(ratio(own, own + other) for own, other in zip(missed, held, strict=True)))

    def _gone(self, sums: Sums, size: int) -> Range:
        mass = self.mass(sums)
        value = (1 + size / self.trials) ** (-mass.value * self.trials)
        return Range((1 - mass.high) ** size, value, 1 - mass.low)


def _of_once(sums: Sums, name: str, size: int, order: int) -> Range:
    once = sums.of("once")
    return Range(*(ratio(own, once) for own in rising(sums, name, size, once, order)))


def rarest(seen: Solutions, level: float, seed: int, group_sizes: tuple[int, ...]) -> Solution:
    """A solution that was drawn once, and groups of these sizes."""
    own = with_enough(seen)
    return solution(NAME, Rarest(int(own.trials.min())), _columns(own, group_sizes), level, seed)


def _columns(own: Solutions, group_sizes: tuple[int, ...]) -> Columns:
    once = own.summed((own.times == 1).astype(float))
    others = np.maximum(own.successes - 1, 0) / np.maximum(own.trials - 1, 1)
    mass = estimated(own, drawn_once)
    sizes = exact_sizes(group_sizes, int(own.trials.min()) - 1)
    return (
        {
            ("once", 0): once,
            ("mass of once", 0): mass.per_prompt,
            ("bias of once", 0): mass.bias,
            ("others correct", 0): once * others,
        }
        | {("mixed", size): mixed_without(own, size) for size in sizes}
        | {("wrong", size): not_all_right(own, size) for size in sorted({*sizes, *(size - 1 for size in sizes)})}
    )

"""Batches, and the masses of a weight on them, from its definition: one way symbolic, one way rollout by rollout.

A weight's definition is ``weight(reward, batch, **parameters)``. A batch is either the list of its G rollouts or the
two outcomes with their shares p and 1 - p, which may be symbols; the same definition gives the masses of both.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy
from mpmath import mp

from paper_checks.evidence import Disagreement, Evidence, Point, equals, grid, number, shown
from simlab.theory import CLOSED_FORMS, closed_form
from simlab.theory import masses as masses_of_estimator

Weight = Callable[..., Any]
Masses = tuple[Any, Any]

P = sympy.Symbol("p", positive=True)
SIZE = sympy.Symbol("G", positive=True, integer=True)
HALF = Fraction(1, 2)


def either(symbolic: Callable[..., Any], numerical: Callable[..., Any]) -> Callable[..., Any]:
    """A function of expressions where an argument is one, else of 50-digit numbers."""

    def apply(*arguments: Any) -> Any:
        if any(isinstance(argument, sympy.Basic) for argument in arguments):
            return symbolic(*map(sympy.sympify, arguments))
        return numerical(*map(number, arguments))

    return apply


root = either(lambda x: sympy.sqrt(sympy.factor(x)), mp.sqrt)
exp = either(sympy.exp, mp.exp)
log = either(sympy.log, mp.log)


def power(base: Any, exponent: Any) -> Any:
    """``base ** exponent``, exact for whole exponents of fractions; 0^0 = 1."""
    if isinstance(base, (int, Fraction)) and isinstance(exponent, (int, Fraction)) and exponent.denominator == 1:
        return Fraction(base) ** int(exponent)
    return either(sympy.Pow, mp.power)(base, exponent)


def ratio(numerator: Any, denominator: Any) -> Any:
    """``numerator / denominator``, and 0 where the denominator is 0: a batch of equal rewards updates nothing."""
    exact = Fraction(0) + denominator  # of whole numbers / would make floats
    return Fraction(0) if denominator == 0 else numerator * (1 / exact)


@dataclass(frozen=True)
class Batch:
    """Rewards, the share of the batch that each stands for, how many rollouts there are, and the reward of success."""

    rewards: Sequence[Any]
    shares: Sequence[Any]
    size: Any
    success: Any = 1

    def average(self, value: Callable[[Any], Any]) -> Any:
        """The mean over the batch of a function of the reward; rewards that no rollout got do not count."""
        pairs = zip(self.rewards, self.shares, strict=True)
        return sum((share * value(reward) for reward, share in pairs if share != 0), start=Fraction(0))

    @property
    def mean(self) -> Any:
        """The mean reward."""
        return self.average(lambda reward: reward)

    @property
    def std(self) -> Any:
        """The population standard deviation of the rewards."""
        mean = self.mean
        return root(self.average(lambda reward: (reward - mean) ** 2))

    @property
    def best(self) -> Any:
        """The largest reward, and 0 of nobody."""
        return max((reward for reward, share in zip(self.rewards, self.shares, strict=True) if share != 0), default=0)

    def without(self, reward: Any) -> "Batch":
        """The batch after one rollout of this reward left."""
        left = self.rewards.index(reward)
        counts = [share * self.size - int(index == left) for index, share in enumerate(self.shares)]
        return Batch(self.rewards, [ratio(count, self.size - 1) for count in counts], self.size - 1, self.success)


def two_outcomes(p: Any, G: Any, values: tuple[Any, Any] = (1, 0)) -> Batch:
    """A batch known by its share p of successes, which may be a symbol."""
    return Batch(values, (p, 1 - p), G, values[0])


def rollouts(p: Fraction, G: int, values: tuple[Any, Any] = (1, 0)) -> Batch:
    """G rollouts of which p G are successes, listed one by one."""
    successes = int(p * G)
    success, failure = values
    return Batch([success] * successes + [failure] * (G - successes), [Fraction(1, G)] * G, G, success)


def masses(weight: Weight, batch: Batch, **parameters: Any) -> Masses:
    """m_S = w_S p and m_F = w_F (1 - p): the mean over the batch of W on the successes, and of -W on the failures."""
    of_reward = functools.cache(lambda reward: weight(reward, batch, **parameters))

    def summed(chosen: Callable[[Any], bool]) -> Any:
        return batch.average(lambda reward: of_reward(reward) if chosen(reward) else Fraction(0))

    return summed(lambda reward: reward == batch.success), -summed(lambda reward: reward != batch.success)


def enumerated(weight: Weight) -> Callable[..., Masses]:
    """Point -> masses, rollout by rollout."""
    return lambda p, G, **parameters: masses(weight, rollouts(p, G), **parameters)


def numerical(quantity: Callable[..., Any]) -> Callable[..., Any]:
    """The same quantity in 50-digit numbers, which compare with one another."""
    return lambda **point: tuple(number(value) for value in quantity(**point))


def derived(weight: Weight) -> Callable[..., Masses]:
    """Point -> masses, from the two outcomes alone; p and the parameters may be symbols."""
    return lambda p, G, **parameters: masses(weight, two_outcomes(p, G), **parameters)


def solve_rates(
    sizes: Sequence[int], such_that: Callable[..., bool] = lambda **_: True, **parameters: Any
) -> list[Any]:
    """Points: every share p of successes in groups of these sizes, the smallest group first, with all parameters."""
    rates = [(Fraction(successes, size), size) for size in sizes for successes in range(size + 1)]
    points = [{"p": p, "G": size} | more for p, size in rates for more in grid(**parameters)]
    return [point for point in points if such_that(**point)]


def mixed(p: Any, **_: Any) -> bool:
    """Return whether a group holds both outcomes."""
    return bool(0 < p < 1)


def weighs(
    statement: Callable[..., Any],
    weight: Weight,
    points: Sequence[Point],
    *,
    symbolic_points: Sequence[Point] = (),
    simlab: str = "",
    settings: Mapping[str, Any] | None = None,
    listed_only: bool = False,
) -> Iterator[Evidence]:
    """Compare masses with a weight's: from the two outcomes, rollout by rollout, and by our own estimator.

    Args:
        statement: point -> (m_S, m_F).
        weight: the definition.
        points: p, G and the weight's parameters.
        symbolic_points: the same with symbols.
        simlab: the name of our estimator of it.
        settings: parameters of that estimator that the paper does not have.
        listed_only: whether the definition needs the rollouts one by one, so that the two outcomes do not do.
    """
    if simlab:
        agrees_with_simlab(enumerated(weight), simlab, points, settings or {})
    yield from equals(
        statement,
        points,
        derived=None if listed_only else derived(weight),
        enumerated=enumerated(weight),
        symbolic_points=symbolic_points,
    )


def agrees_with_simlab(
    truth: Callable[..., Masses], name: str, points: Sequence[Point], settings: Mapping[str, Any]
) -> None:
    """Raise ``Disagreement`` where our estimator, or our closed form of it, has other masses than the definition."""
    for point in points:
        parameters = {key: as_parameter(value) for key, value in point.items() if key not in ("p", "G")}
        parameters.update(settings)
        expected = [float(mass) for mass in truth(**point)]
        pairs = [estimator_masses(name, point["G"], tuple(parameters.items()))[int(point["p"] * point["G"])]]
        if name in CLOSED_FORMS:
            success, failure = closed_form(name, float(point["p"]), point["G"], **parameters)
            pairs.append((float(success), float(failure)))
        for pair in pairs:
            if any(abs(ours - theirs) > 1e-9 for ours, theirs in zip(pair, expected, strict=True)):
                raise Disagreement(f"simlab's {name} has masses {pair}, the definition {expected} at {shown(point)}")


@functools.cache
def estimator_masses(name: str, G: int, parameters: tuple[tuple[str, Any], ...]) -> list[tuple[float, float]]:
    """(m_S, m_F) of our estimator for 0 to G successes."""
    table = masses_of_estimator(name, G, **dict(parameters))
    return list(zip(map(float, table.success), map(float, table.failure), strict=True))


def as_parameter(value: Any) -> Any:
    """A parameter as our estimators take it: whole numbers as they are, others as floats."""
    return value if isinstance(value, int) else float(value)


def balanced(mass: Any) -> Masses:
    """The same mass on successes and on failures."""
    return mass, mass

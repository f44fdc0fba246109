"""Define a closed form and the groups that it is evaluated on, and list closed forms by estimator."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError
from simlab.estimators import Estimator
from simlab.estimators.registry import REGISTRY
from simlab.order_statistics import MOST_SLACK, SLACK

Values = Float[np.ndarray, " n"]
Pair = tuple[Values, Values]


@dataclass(frozen=True)
class Group:
    """Groups of one size at several solve rates.

    Attributes:
        p: (n,) the solve rate s / G.
        size: G, or infinity for the limit in which p is the probability of success.
    """

    p: Values
    size: float

    @property
    def q(self) -> Values:
        """(n,) 1 - p."""
        return 1 - self.p

    @property
    def mixed(self) -> Float[np.ndarray, " n"]:
        """(n,) 1 where a group holds both outcomes, and 0 where its rewards are all equal."""
        return np.where((self.p > 0) & (self.p < 1), 1.0, 0.0)

    @property
    def slack(self) -> float:
        """Rounding that is allowed between a solve rate and a bound that it should equal."""
        return min(SLACK, MOST_SLACK / self.size)

    @property
    def zero(self) -> Values:
        """(n,) no mass."""
        return np.zeros_like(self.p)

    def std(self, ddof: int) -> Values:
        """(n,) standard deviation of the rewards: sqrt(p q G / (G - ddof)), and 0 for groups of ``ddof``."""
        std: Values = np.sqrt(ratio(self.p * self.q, np.full_like(self.p, 1 - ddof / self.size)))
        return std

    def all_wrong(self, draws: int, failures: int = 0, successes: int = 0) -> Values:
        """(n,) C(F - failures, draws) / C(G - failures - successes, draws), and q^draws for infinite groups.

        The chance that ``draws`` rollouts are all wrong, after some of known outcome were taken from the group.
        """
        if math.isinf(self.size):
            return np.asarray(self.q**draws)
        before = np.arange(draws)
        wrong = np.rint(self.size * self.q)[:, None] - failures - before
        shares: Values = np.prod(np.maximum(wrong, 0) / (self.size - failures - successes - before), axis=-1)
        return shares


@dataclass(frozen=True)
class ClosedForm:
    """The masses of one estimator: ``masses(group, **parameters)``, and both as text."""

    masses: Callable[..., Pair]
    success: str
    failure: str


_FORMS: dict[str, ClosedForm] = {}
CLOSED_FORMS: Mapping[str, ClosedForm] = MappingProxyType(_FORMS)


def form(success: str, failure: str | None = None) -> Callable[[Callable[..., Pair]], Callable[..., Pair]]:
    """List a function as the masses of the estimator of its name, as a decorator; one text stands for both masses.

    The function takes a ``Group`` and every parameter of the estimator, under the estimator's names.
    """

    def add(masses: Callable[..., Pair]) -> Callable[..., Pair]:
        _FORMS[masses.__name__] = ClosedForm(masses, success, success if failure is None else failure)
        return masses

    return add


def find_form(name: str | Estimator) -> ClosedForm:
    """Find the closed form of a registered estimator.

    Raises:
        InputError: for an estimator without one.
    """
    if not isinstance(name, str) or name not in CLOSED_FORMS:
        shown = repr(name) if isinstance(name, str) else "an estimator without a name"
        raise InputError(f"{shown} has no closed form; allowed: {', '.join(sorted(CLOSED_FORMS))}")
    return CLOSED_FORMS[name]


def base_masses(group: Group, base: str | Estimator) -> Pair:
    """Evaluate the masses of an estimator's base, at the base's default parameters.

    Raises:
        InputError: for a base without a closed form.
    """
    return find_form(base).masses(group, **REGISTRY[str(base)].parameters)


def balanced(mass: Values) -> Pair:
    """The same mass on successes and on failures."""
    return mass, mass


def ratio(numerator: Values, denominator: Values) -> Values:
    """``numerator / denominator``, and 0 where the denominator is 0."""
    return np.where(denominator == 0, 0.0, numerator / np.where(denominator == 0, 1.0, denominator))

"""What is fitted: a metric of several seeds against compute, with its value before training."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from simlab.errors import InputError, check_range


@dataclass(frozen=True)
class Curves:
    """A metric of one arm against compute.

    Attributes:
        seeds: (S,) which seeds these are; arms are paired by them.
        compute: (N,) above 0 and increasing, the same of all seeds.
        values: (S, N) the metric, perhaps NaN.
        base: (S,) its value at compute 0, the base model's.

    Raises:
        InputError: for no seed, a seed that is given twice, and compute that is not above 0 and increasing.
    """

    seeds: Int[np.ndarray, " S"]
    compute: Float[np.ndarray, " N"]
    values: Float[np.ndarray, "S N"]
    base: Float[np.ndarray, " S"]

    def __post_init__(self) -> None:
        if not len(self.seeds):
            raise InputError("seeds hold nothing; allowed: one or more")
        if len(set(self.seeds.tolist())) < len(self.seeds):
            raise InputError(f"seeds hold one twice: {self.seeds.tolist()}; allowed: each once")
        steps = np.diff(self.compute, prepend=0.0)
        if not (steps > 0).all():
            place = int(np.argmin(steps > 0))
            raise InputError(f"compute holds {self.compute[place]} at place {place}; allowed: increasing, above 0")

    def of_seeds(self, seeds: Int[np.ndarray, " C"]) -> "Curves":
        """Those of some seeds, in their order."""
        places = [self.seeds.tolist().index(seed) for seed in seeds.tolist()]
        return Curves(seeds, self.compute, self.values[places], self.base[places])

    def between(self, low: float = 0.0, high: float = np.inf) -> "Curves":
        """The part from one compute to another; the base stays.

        Raises:
            InputError: for a ``low`` that is no finite number from 0 up.
        """
        check_range("from", low, 0)
        inside = (low <= self.compute) & (self.compute <= high)
        return Curves(self.seeds, self.compute[inside], self.values[:, inside], self.base)

"""Keep every action in a slot of its own, on one device: dense storage, and the operations of any storage."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from simlab.simulator.sampling import draw, look_up
from simlab.truths import all_true

# The logit of a slot that holds no action. Its weight is exactly 0, without a mask in the hot loop.
EMPTY = -1e30
MOVING = ("parameters", "moments", "history", "older")  # fields of a learner's state whose arrays have an axis of slots
Slots = Any  # what a storage knows of its slots that changes from step to step; None where nothing does


@jax.tree_util.register_static
@dataclass(frozen=True)
class Dense:
    """All actions on one device; slot i holds action i."""

    name = "dense"

    def load(self, problem: Any, dtype: str) -> Any:
        """Put a problem on the device, its arrays over actions as this storage keeps them."""
        return to_device(problem.listed(), dtype)

    def initial_slots(self, problem: Any) -> Slots:
        """Return what is known of the slots before the first step."""
        return None

    def spread(self, values: Shaped[Array, "C ..."]) -> Shaped[Array, "S ..."]:
        """Place the values of a problem's entries at their slots, before the first step."""
        return values

    def at_slots(self, values: Shaped[Array, "C ..."], slots: Slots) -> Shaped[Array, "S ..."]:
        """Look up, for each slot, the value of the problem's entry that its action belongs to."""
        return values

    def at_draws(self, values: Shaped[Array, " C"], drawn: Int[Array, " G"], slots: Slots) -> Shaped[Array, " G"]:
        """Look up, for each drawn slot, the value of the problem's entry that its action belongs to."""
        return self.at(values, drawn)

    def fill_empty(self, values: Shaped[Array, " S"], fill: float, slots: Slots) -> Shaped[Array, " S"]:
        """Replace the values of slots that hold no action."""
        return values

    def is_finite(self, values: Float[Array, "S ..."], slots: Slots) -> Bool[Array, ""]:
        """Return True if values are finite at all slots that hold actions."""
        return all_true(jnp.isfinite(values))

    def multiplicity(self, slots: Slots, dtype: Any) -> Float[Array, " S"] | float:
        """Return how many actions each slot stands for."""
        return 1.0

    def compute_once(self, values: Float[Array, " S"]) -> Float[Array, " S"]:
        """Return the values, which XLA may compute again for each of their uses unless a storage forbids it."""
        return values

    def divide(self, values: Float[Array, " S"], total: Float[Array, ""]) -> Float[Array, " S"]:
        """Divide values by a number."""
        return values / total

    def largest(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """Return the largest value of an action."""
        return jnp.max(values)

    def sum(self, values: Shaped[Array, "..."]) -> Shaped[Array, ""]:
        """Return the sum over all slots; values are 0 at empty ones."""
        return jnp.sum(values)

    def largest_parameter(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """Return the largest absolute value of an array of parameters."""
        return jnp.max(jnp.abs(values))

    def sum_parameters(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """Return the sum of an array of parameters."""
        return jnp.sum(values)

    def gather(self, values: Shaped[Array, "S ..."]) -> Shaped[Array, "T ..."]:
        """Collect the values of the slots of all devices, in any order."""
        return values

    def at(self, values: Shaped[Array, " S"], drawn: Int[Array, " G"]) -> Shaped[Array, " G"]:
        """Look up the values at some slots."""
        return look_up(values, drawn)

    def add(
        self, values: Float[Array, " S"], drawn: Int[Array, " G"], more: Float[Array, " G"] | float
    ) -> Float[Array, " S"]:
        """Add ``more`` to the values at some slots."""
        # A slot past the end, which weights that are not finite may give, XLA itself leaves out.
        return values.at[drawn].add(more, mode="promise_in_bounds", wrap_negative_indices=False)

    def top(self, values: Float[Array, " S"], count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """Return the ``count`` largest values, the largest first, and their slots, the lower first of equal ones."""
        largest, slots = jax.lax.top_k(values, min(count, len(values)))
        return largest, slots

    def draw(self, key: PRNGKeyArray, weights: Float[Array, " S"], group_size: int) -> Int[Array, " G"]:
        """Draw slots in proportion to weights, see ``sampling.draw``."""
        return draw(key, weights, group_size)

    def align(self, parameters: Any, before: Slots, after: Slots) -> Any:
        """Extend the parameters before a step to the slots that the step has given to actions."""
        return parameters


class StoredProblem(NamedTuple):
    """A problem as a storage keeps it, and what is known of the slots before the first step."""

    problem: Any
    storage: Dense
    slots: Slots


def dtype_on_device(values: Any, dtype: str) -> Any:
    """Return the dtype of a problem's array on a device: ``dtype`` for floats, 32 bits for integers."""
    kind = np.asarray(values).dtype
    return dtype if np.issubdtype(kind, np.floating) else kind if kind == np.bool_ else np.int32


def to_device(problem: Any, dtype: str) -> Any:
    """Put the arrays of a problem on the device."""
    return jax.tree.map(lambda values: jnp.asarray(values, dtype_on_device(values, dtype)), problem)


DENSE = Dense()

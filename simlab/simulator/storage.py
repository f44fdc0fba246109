"""Keep every action in a place of its own, on one device: dense storage, and what any storage offers.

Problems, policies and the learner meet actions through these methods alone. What happens to each action by itself is
the same wherever it is kept; what meets actions of all places, such as a sum or a draw, is up to the storage.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from simlab.simulator.allocation import sizes
from simlab.simulator.sampling import draw, looked_up
from simlab.truths import all_true

if TYPE_CHECKING:
    from simlab.problems.base import Problem
    from simlab.simulator.learner import Learner
    from simlab.simulator.policy import Policy
    from simlab.simulator.state import Drawn, State

# The logit of a place that holds no action. Its weight is exactly 0, without a mask in the hot loop.
EMPTY = -1e30
Places = Any  # what a storage knows of its places that changes from step to step; None where nothing does


@jax.tree_util.register_static
@dataclass(frozen=True)
class Dense:
    """All actions on one device; the i-th place is that of action i."""

    name = "dense"

    # What is kept

    def laid_out(self, problem: "Problem", dtype: str) -> "Problem":
        """The problem on the device, its arrays over actions as they are kept."""
        return on_device(problem.listed(), dtype)

    def first_places(self, problem: "Problem") -> Places:
        """What is known of the places before the first step."""
        return None

    def spread(self, values: Shaped[Array, "C ..."]) -> Shaped[Array, "S ..."]:
        """What a problem says of its entries, place by place, before the first step."""
        return values

    def everywhere(self, values: Shaped[Array, "C ..."], places: Places) -> Shaped[Array, "S ..."]:
        """What a problem says of the action of each place."""
        return values

    def of(self, values: Shaped[Array, " C"], drawn: Int[Array, " G"], places: Places) -> Shaped[Array, " G"]:
        """What a problem says of the actions of some places."""
        return self.at(values, drawn)

    def filled(self, values: Shaped[Array, " S"], free: float, places: Places) -> Shaped[Array, " S"]:
        """The values, but ``free`` at places that hold no action."""
        return values

    def is_finite(self, values: Float[Array, "S ..."], places: Places) -> Bool[Array, ""]:
        """Whether values are finite at all places of actions."""
        return all_true(jnp.isfinite(values))

    # What meets all places

    def softmax(self, logits: Float[Array, " S"], temperature: Float[Array, ""], places: Places) -> "Policy":
        """The policy of some logits."""
        from simlab.simulator.policy import Policy  # noqa: PLC0415  # a policy holds its storage

        centred = logits - self.largest(logits)
        # On a CPU the choice keeps quotient and exponential out of XLA's kernel of the maximum, which is slow at them.
        chosen = jnp.where(temperature == 1, centred, self.divided(centred, temperature))
        scores = self.filled(chosen, EMPTY, places)
        weights = self.once(jnp.exp(scores))
        return Policy(scores, weights, self.sum(weights), storage=self)

    def once(self, values: Float[Array, " S"]) -> Float[Array, " S"]:
        """The values, which XLA may compute again for each of their uses."""
        return values

    def divided(self, values: Float[Array, " S"], total: Float[Array, ""]) -> Float[Array, " S"]:
        """The values over their total."""
        return values / total

    def largest(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """The largest value of an action."""
        return jnp.max(values)

    def sum(self, values: Shaped[Array, "..."]) -> Shaped[Array, ""]:
        """The sum over all actions; values are 0 at places that hold none."""
        return jnp.sum(values)

    def largest_size(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """The largest absolute value of an array of parameters."""
        return jnp.max(jnp.abs(values))

    def sum_of_all(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """The sum of an array of parameters."""
        return jnp.sum(values)

    def whole(self, values: Shaped[Array, "S ..."]) -> Shaped[Array, "T ..."]:
        """Values of all places, in any order, of what is more than a sum of them."""
        return values

    def members(self, places: Places, dtype: Any) -> Float[Array, " S"] | float:
        """How many actions each place stands for."""
        return 1.0

    def at(self, values: Shaped[Array, " S"], drawn: Int[Array, " G"]) -> Shaped[Array, " G"]:
        """The values at some places."""
        return looked_up(values, drawn)

    def add(
        self, values: Float[Array, " S"], drawn: Int[Array, " G"], more: Float[Array, " G"] | float
    ) -> Float[Array, " S"]:
        """The values, with more added at some places."""
        # A place past the end, which weights that are no numbers may give, XLA itself leaves out.
        return values.at[drawn].add(more, mode="promise_in_bounds", wrap_negative_indices=False)

    def top(self, values: Float[Array, " S"], count: int) -> tuple[Float[Array, " C"], Int[Array, " C"]]:
        """The ``count`` largest values, the largest first, and their places, the lower first of equal ones."""
        largest, places = jax.lax.top_k(values, min(count, len(values)))
        return largest, places

    def draw(self, key: PRNGKeyArray, weights: Float[Array, " S"], group_size: int) -> Int[Array, " G"]:
        """``sampling.draw``."""
        return draw(key, weights, group_size)

    # How a step meets it

    def sample(
        self, learner: "Learner", keys: Key[Array, " P"], prompts: Int[Array, " P"], state: "State"
    ) -> tuple["State", "Drawn"]:
        """Draw a group for each prompt of a batch."""
        return state, learner.drawn(keys, learner.samplers(state, prompts), sizes(learner, state, prompts))

    def has_room(self, learner: "Learner", state: "State") -> Bool[Array, ""] | bool:
        """Whether there is a place for every action that the next step may draw."""
        return True

    def at_last_step(self, parameters: Any, before: Places, after: Places) -> Any:
        """Parameters before a step, with a place for every action that the step drew."""
        return parameters


class Stored(NamedTuple):
    """A problem as a storage keeps it, and what that knows of its places before the first step."""

    problem: "Problem"
    storage: Dense
    first_places: Places


def dtype_of(values: Any, dtype: str) -> Any:
    """A problem's array on a device: floats become ``dtype``, integers have 32 bits."""
    kind = np.asarray(values).dtype
    return dtype if np.issubdtype(kind, np.floating) else kind if kind == np.bool_ else np.int32


def on_device(problem: "Problem", dtype: str) -> "Problem":
    """The problem's arrays on the device."""
    laid: Problem = jax.tree.map(lambda values: jnp.asarray(values, dtype_of(values, dtype)), problem)
    return laid


DENSE = Dense()

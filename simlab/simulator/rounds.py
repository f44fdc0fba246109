"""Fill a batch round by round with groups of both outcomes, and learn from it once it is full: dynamic sampling.

No step is taken between two rounds of a batch, so that all its groups are drawn by one policy. What the batch holds so
far is kept as the sum of their gradients.
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.simulator.state import Pending

if TYPE_CHECKING:
    from simlab.simulator.learner import Learner
    from simlab.simulator.state import Batch, State


def nothing_pending(learner: "Learner") -> Pending | None:
    """A batch without a group; None where batches are not filled round by round."""
    if learner.settings.allocation != "dynamic":
        return None
    return Pending(jax.tree.map(jnp.zeros_like, learner.first), jnp.zeros((), jnp.int32))


def fill(
    learner: "Learner", batch: "Batch", state: "State", policies: Any, log_ratio: Float[Array, "P G T"]
) -> tuple["State", Float[Array, "P ..."]]:
    """Add the active groups of a round to the batch that is filled, and take its step once it is full."""
    gradients, state = learner.noticed_gradients(batch, state, policies, log_ratio, 0)
    pending, wanted = state.pending, len(gradients)
    assert pending is not None
    kept = first_active(batch.active, wanted - pending.groups)
    chosen = jnp.where(kept.reshape(-1, *[1] * (gradients.ndim - 1)), gradients, 0) / wanted
    more = learner.problem.pulled_back(chosen, state.parameters, batch.prompts)
    gradient = jax.tree.map(jnp.add, pending.gradient, more)
    groups = pending.groups + jnp.sum(kept, dtype=jnp.int32)

    def step(state: "State") -> "State":
        return learner.move(gradient, state)._replace(pending=nothing_pending(learner))

    def wait(state: "State") -> "State":
        return state._replace(pending=Pending(gradient, groups))

    moved: State = jax.lax.cond(groups == wanted, step, wait, state)
    return moved, gradients


def first_active(active: Bool[Array, " P"], wanted: Int[Array, ""]) -> Bool[Array, " P"]:
    """The first ``wanted`` active groups, or as many as there are."""
    return active & (jnp.cumsum(active) <= wanted)

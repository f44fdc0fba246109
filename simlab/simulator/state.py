"""Hold what a learner carries from step to step, and what one step drew and learned from.

Every array of a batch has a first axis of prompts, of length 1 where a problem has one prompt.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.rollouts import Rollouts
from simlab.simulator.faults import Fault
from simlab.simulator.groups import Group, different
from simlab.simulator.metrics import Row
from simlab.simulator.storage import Places


class Drawn(NamedTuple):
    """What a step drew, for each prompt of its batch: the policy, the group, and the likeliest actions.

    ``top_logp`` and ``candidates`` are (P, C), or (P, G, T, C) where they differ from token to token.
    """

    policies: Any
    groups: Group
    top_logp: Float[Array, "P *G_T C"]
    candidates: Int[Array, "P *G_T C"]


def number_of(marks: Bool[Array, "P G"]) -> Int[Array, " P"]:
    """How many rollouts of each group are marked.

    XLA goes over a group of 131072 twice for any such number, so that ``any`` and ``all`` are told by the same one.
    """
    return jnp.sum(marks, axis=-1, dtype=jnp.int32)


class Batch(NamedTuple):
    """What a step learned from: the prompts, what was drawn, and its advantages.

    ``correct`` is what the verifier accepts, false for rollouts that only fill a group up, and ``number_correct`` how
    many it accepts. ``active`` says which groups have both outcomes, ``holds_target`` which have a rollout in the
    target set; ``solve_rates`` are the exact probabilities of a correct rollout before the step. ``importance`` is what
    a token weighs because another policy drew it, None for 1.
    """

    prompts: Int[Array, " P"]
    drawn: Drawn
    correct: Bool[Array, "P G"]
    number_correct: Int[Array, " P"]
    rollouts: Rollouts
    advantages: Float[Array, "P G T"]
    active: Bool[Array, " P"]
    holds_target: Bool[Array, " P"]
    solve_rates: Float[Array, " P"]
    importance: Float[Array, "P G #T"] | None = None

    @property
    def dtype(self) -> Any:
        """That of the numbers."""
        return self.advantages.dtype

    @property
    def accepted_share(self) -> Float[Array, " P"]:
        """The share of correct rollouts in each group."""
        share: Float[Array, " P"] = self.number_correct.astype(self.dtype) / self._size
        return share

    @property
    def _size(self) -> Float[Array, " P"] | int:
        """How many rollouts of each group do not only fill it up."""
        present = self.rollouts.mask
        return self.correct.shape[1] if present is None else number_of(present).astype(self.dtype)

    def last(self) -> "Last":
        """What the records need of it."""
        return Last(self.prompts, self.drawn.groups, different(self.drawn.groups, self.advantages))

    def mean(self, values: Float[Array, "P G"]) -> Float[Array, " P"]:
        """Of a value of each rollout, the mean over those of a group that do not only fill it up."""
        present = self.rollouts.mask
        mean: Float[Array, " P"] = (
            jnp.sum(values if present is None else jnp.where(present, values, 0), axis=1) / self._size
        )
        return mean


class Last(NamedTuple):
    """What the records need of the last batch: the advantages of its ``different`` rollouts."""

    prompts: Int[Array, " P"]
    groups: Group
    advantages: Float[Array, "P K T"]


class Pending(NamedTuple):
    """A batch that dynamic sampling is filling: the gradient of its groups so far, and how many they are."""

    gradient: Any
    groups: Int[Array, ""]


MOVING = ("parameters", "moments", "history", "older")  # parts of a state whose entries move with their actions


class State(NamedTuple):
    """What a learner carries from step to step.

    Attributes:
        parameters: what the optimiser moves.
        moments: the optimiser's state.
        memory: the estimator's.
        places: what the storage knows of its places.
        last: the last batch, for the records.
        sums: the sums of each metric of every step, the sum since the last record.
        history: what the problem's own metrics need of earlier steps.
        older: the parameters at the starts of the last steps, the latest first, as many as the sampler lags behind.
        fault: the first number that was not finite.
        solved: (M,) the solve rate of the last group of each prompt, where an allocation goes by it.
        pending: where batches are filled round by round.
        schedule: what a surrogate that changes from batch to batch remembers.
    """

    parameters: Any
    moments: Any
    memory: Any
    places: Places
    last: Last
    sums: Row
    history: Any
    older: tuple[Any, ...]
    fault: Fault
    solved: Float[Array, " M"] | None = None
    pending: Pending | None = None
    schedule: Any = ()

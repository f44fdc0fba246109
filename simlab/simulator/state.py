"""Define what passes from stage to stage and from step to step: samples, batch, state, and the first fault."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.rollouts import Rollouts
from simlab.simulator.policy import Group, distinct_rollouts
from simlab.simulator.storage import Slots

Records = dict[str, Array]  # values by metric
LOGIT, ADVANTAGE, COEFFICIENT, MOMENT = 1, 2, 3, 4
UNKNOWN = -1


class Samples(NamedTuple):
    """The draws of a step, for each prompt of its batch: the policy, the group, and the likeliest actions."""

    policies: Any
    groups: Group
    top_logp: Float[Array, "P *G_T C"]
    candidates: Int[Array, "P *G_T C"]


class WeighedBatch(NamedTuple):
    """The batch that a step learns from: the numbers of its prompts, their samples, and the advantages."""

    prompts: Int[Array, " P"]
    samples: Samples
    correct: Bool[Array, "P G"]  # what the verifier accepts, false for padding
    number_correct: Int[Array, " P"]
    rollouts: Rollouts  # what the estimator reads
    advantages: Float[Array, "P G T"]
    active: Bool[Array, " P"]  # true for groups with both outcomes
    holds_target: Bool[Array, " P"]  # true for groups with a rollout in the target set
    solve_rates: Float[Array, " P"]  # exact, before the step
    importance: Float[Array, "P G #T"] | None = None  # of tokens that another policy drew; None for 1

    @property
    def dtype(self) -> Any:
        """The dtype of the numbers."""
        return self.advantages.dtype

    @property
    def accepted_share(self) -> Float[Array, " P"]:
        """The share of correct rollouts in each group."""
        share: Float[Array, " P"] = self.number_correct.astype(self.dtype) / self.size
        return share

    @property
    def size(self) -> Any:
        """The number of rollouts in each group."""
        present = self.rollouts.mask
        return self.correct.shape[1] if present is None else count_true(present).astype(self.dtype)

    def pooled(self, means: Float[Array, " P"]) -> Float[Array, ""]:
        """Return the mean over all rollouts from the mean of each group."""
        weights = self.size / jnp.mean(self.size)  # exactly 1 where all groups are as large
        mean: Float[Array, ""] = jnp.mean(means * weights)
        return mean

    def mean(self, values: Float[Array, "P G"]) -> Float[Array, " P"]:
        """Return the mean of a value over the rollouts of each group that are no padding."""
        present = self.rollouts.mask
        total = jnp.sum(values if present is None else jnp.where(present, values, 0), axis=1)
        mean: Float[Array, " P"] = total / self.size
        return mean

    def summary(self) -> "LastBatch":
        """Return what the records need of the batch."""
        groups = self.samples.groups
        return LastBatch(self.prompts, groups, distinct_rollouts(groups, self.advantages))


class LastBatch(NamedTuple):
    """The parts of the last batch that records need: the advantages of its ``distinct_rollouts``."""

    prompts: Int[Array, " P"]
    groups: Group
    advantages: Float[Array, "P K T"]


class PartialBatch(NamedTuple):
    """A batch that dynamic sampling is filling: the summed gradient of its groups so far, and their number."""

    gradient: Any
    groups: Int[Array, ""]


class Fault(NamedTuple):
    """The first number of a run that was not finite; nothing changes any more once there is one.

    Each step checks advantages, coefficients and the drawn logits; each record all logits and the optimiser's moments.
    """

    kind: Int[Array, ""]  # 0 while all is well, then LOGIT, ADVANTAGE, COEFFICIENT or MOMENT
    steps: Int[Array, ""]  # how many had begun
    correct: Int[Array, ""]  # rollouts of the group; UNKNOWN at a record
    prompt: Int[Array, ""]  # in a batch of several prompts; UNKNOWN otherwise

    def check(
        self,
        kind: int,
        finite: Bool[Array, " P"],
        correct: Int[Array, " P"] | None = None,
        prompts: Int[Array, " P"] | None = None,
    ) -> "Fault":
        """Note the first prompt whose numbers are not finite; ``correct`` counts the correct rollouts of each group."""
        index = jnp.argmin(finite) if len(finite) > 1 else 0  # which spares a step of one prompt some microseconds
        first = (self.kind == 0) & ~finite[index]
        return Fault(
            jnp.where(first, kind, self.kind),
            self.steps,
            self.correct if correct is None else jnp.where(first, correct[index], self.correct),
            self.prompt if prompts is None else jnp.where(first, prompts[index], self.prompt),
        )


class LearnerState(NamedTuple):
    """The state of a learner between steps."""

    parameters: Any
    moments: Any  # the optimiser's
    memory: Any  # the estimator's
    slots: Slots  # what the storage knows of its slots
    last: LastBatch
    sums: Records  # of each metric of every step, since the last record
    history: Any  # what the problem's own metrics need
    older: tuple[Any, ...]  # parameters at the starts of the last steps, the latest first
    fault: Fault
    solved: Float[Array, " M"] | None = None  # of the last group of each prompt
    partial: PartialBatch | None = None
    schedule: Any = ()  # the memory of a surrogate that changes from batch to batch
    tempering: Any = None  # of each prompt, where each has a temperature of its own
    known: Any = None  # of the interference of prompts, where a remedy goes by it

    def recorded(self, records: Records) -> "LearnerState":
        """Add records to the sums."""
        return self._replace(sums=self.sums | {name: self.sums[name] + value for name, value in records.items()})


def count_true(marks: Bool[Array, "P G"]) -> Int[Array, " P"]:
    """Count the marked rollouts of each group, which tells ``any`` and ``all`` too: XLA goes over them twice."""
    return jnp.sum(marks, axis=-1, dtype=jnp.int32)

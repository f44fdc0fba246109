"""A lane of prompts that share one linear head, logits W h: a step on one prompt moves the logits of all others.

What is learned, and what the optimiser holds, is W, (A, d). Each prompt has the gradient dz_i of its logits that a bank
gives it, and W gets sum of dz_i h_i^T ``[fade:app-15-token-gradient]``. An action that no rollout of the batch drew has
dz_i = 0 exactly under zero-sum weights, for every prompt, so that its row of W stays as it is.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from simlab.simulate.bank_lane import BankLane, Batch
from simlab.simulate.lane import Drawn, Group, State
from simlab.simulate.linear_metrics import alignments, interference, rank_metrics, residual_metrics, svd_each
from simlab.simulate.metrics import Row, update_metrics


class History(NamedTuple):
    """What the records need to know of the last steps.

    Attributes:
        gradients: (P, A) the gradient of each prompt's objective at the policy that drew its group.
        gradient: (A, d) that of W, the mean over the prompts of the batch.
        gradient_before: of the batch before.
        weights_before: (A, d) W before the last step.
        weights_earlier: (A, d) W before the step before that.
        weights_recorded: (A, d) W at the last record.
    """

    gradients: Float[Array, "P A"]
    gradient: Float[Array, "A d"]
    gradient_before: Float[Array, "A d"]
    weights_before: Float[Array, "A d"]
    weights_earlier: Float[Array, "A d"]
    weights_recorded: Float[Array, "A d"]


def product(left: Float[Array, "n k"], right: Float[Array, "k m"]) -> Float[Array, "n m"]:
    """Left times right, in full precision on a GPU too."""
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


class LinearLane(BankLane):
    """A lane whose parameters are the head W, (A, d)."""

    @property
    def features(self) -> Float[Array, "M d"]:
        """h of each prompt."""
        assert self.place.features is not None
        return self.place.features

    def logits_of(
        self, parameters: Float[Array, "A d"], prompts: Int[Array, " P"] | None = None
    ) -> Float[Array, "P A"]:
        """The logits W h of some prompts, or of all."""
        return product(self.features if prompts is None else self.features[prompts], parameters.T)

    def pulled_back(self, gradients: Float[Array, "P A"], state: State) -> Float[Array, "A d"]:
        """sum of dz_i h_i^T over the prompts of the batch."""
        return product(gradients.T, self.features[state.bank.prompts])

    def drawn_logits(self, state: State, group: Group) -> Float[Array, "P 1 1"]:
        """The largest weight of the head, for each prompt of the batch: their logits all come from these."""
        return jnp.broadcast_to(jnp.max(jnp.abs(state.logits)), (len(group.actions), 1, 1))

    def start(self) -> State:
        """The state before the first step."""
        state = super().start()
        gradients = jnp.zeros((self.prompts_per_step, self.place.correct.shape[1]), state.logits.dtype)
        nothing, weights = jnp.zeros_like(state.logits), state.logits
        history = History(gradients, nothing, nothing, weights, weights, weights)
        return state._replace(bank=state.bank._replace(history=history))

    def counted_anew(self, state: State) -> State:
        """The state with nothing counted yet, as after a record."""
        state = super().counted_anew(state)
        history = state.bank.history._replace(weights_recorded=state.logits)
        return state._replace(bank=state.bank._replace(history=history))

    def batch_record(self, state: State, drawn: Drawn, correct: Bool[Array, "P G"], group: Group) -> Batch:
        """What a bank keeps of a batch, its gradient, and where it started."""
        batch, history = super().batch_record(state, drawn, correct, group), state.bank.history
        coefficients = self.coefficients(group, jnp.ones_like(group.advantages))
        gradients = self.gradients(coefficients, group, state, drawn.policy)
        return batch._replace(
            history=History(
                gradients=gradients,
                gradient=self.pulled_back(gradients / len(gradients), state),
                gradient_before=history.gradient,
                weights_before=state.logits,
                weights_earlier=history.weights_before,
                weights_recorded=history.weights_recorded,
            )
        )

    def record(self, before: Float[Array, "A d"], state: State, length: Int[Array, ""]) -> Row:
        """The records after a window of ``length`` steps, the last of which started at parameters ``before``."""
        history = state.bank.history
        matrices = [
            state.logits - self.place.logits,
            history.weights_recorded - self.place.logits,
            state.logits - before,
            before - history.weights_earlier,
            history.gradient,
            history.gradient_before,
        ]
        split = svd_each(matrices)
        row = super().record(before, state, length) | rank_metrics(split) | alignments(matrices, split)
        row |= self.residuals(before, state, split.right[4])
        return row | self.interference(before, state)

    def residuals(self, before: Float[Array, "A d"], state: State, direction: Float[Array, " d"]) -> Row:
        """How alike the features of the last batch's successes are, and those of its failures."""
        prompts = state.bank.prompts
        shares = jax.vmap(lambda own: own.p)(self.policies(self.logits_of(before, prompts)))
        correct = self.place.correct[prompts]
        return residual_metrics(direction, self.features[prompts], self.times(state), shares, correct)

    def interference(self, before: Float[Array, "A d"], state: State) -> Row:
        """What the last batch did, and to first order does, to its own prompts and to the others."""
        history, prompts, temperature = state.bank.history, state.bank.prompts, self.numbers.temperature
        old, new = (self.policies(self.logits_of(weights)) for weights in (before, state.logits))
        nothing, correct = jnp.zeros(self.place.correct.shape, before.dtype), self.place.correct
        moved = self.logits_of(history.gradient) / temperature
        everyone = jax.vmap(update_metrics)(old, new, moved, nothing, correct)
        by_itself = jnp.sum(self.features[prompts] ** 2, axis=1, keepdims=True) * history.gradients / len(prompts)
        before_own, after_own, none, right = jax.tree.map(lambda values: values[prompts], (old, new, nothing, correct))
        own = jax.vmap(update_metrics)(before_own, after_own, by_itself / temperature, none, right)
        predicted = "d_q_pos_predicted"
        return interference(everyone["d_q_pos"], everyone[predicted], own[predicted], prompts)

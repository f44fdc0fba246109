"""The normal form of a weight on rewards 0 and 1: A_i = c(j) (r_i - b(j)), j of the other rollouts being correct.

Every weight that does not depend on the order of a group has it: c(j) is the advantage of a correct rollout among j
others less that of a wrong one. The expected update is E[c(j)] grad p, j binomial (G - 1, p), so that c, the *speed*,
is all that the mean sees, and b, the *baseline*, changes the noise alone. ``expected_update.v`` proves both.

With c given, the diagonal of the variance, E[A_i^2 |s_i|^2] for scores s_i, is least at b(j) = E[p | j] if scores of
correct and wrong rollouts are as long: (j + x) / (G - 1 + x + y) for solve rates of the law Beta(x, y). What remains of
the variance, products of two rollouts, has the factor |grad p|^2, which is small beside |s|^2 where actions are many.

Example: GRPO without the std, G = 2. A correct rollout beside a wrong one has 1/2, beside a correct one 0; a wrong one
-1/2 and 0. So c = (1/2, 1/2), and b = (0, 1): the leave-one-out mean of RLOO.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.estimators import Estimator
from simlab.rollouts import Rollouts
from simlab.theory.likeness import ALIKE, advantages_in_turn, three_batches
from simlab.theory.masses import masses


class NormalForm(NamedTuple):
    """Speed c(j) and offset d(j) = c(j) b(j) for j = 0 to G - 1 correct rollouts among the others."""

    speed: Float[np.ndarray, " G"]
    offset: Float[np.ndarray, " G"]

    @property
    def baseline(self) -> Float[np.ndarray, " G"]:
        """(G,) b(j); NaN where the speed is 0."""
        still = np.abs(self.speed) <= ALIKE * np.abs(self.speed).max(initial=0)
        return np.where(still, np.nan, self.offset / np.where(still, 1.0, self.speed))

    @property
    def factors(self) -> Float[np.ndarray, " inner"] | None:
        """(G - 1,) the factor on r_i - mean of groups of 1 to G - 1 correct rollouts, if all groups sum to 0."""
        size = len(self.speed)
        successes = np.arange(1, size)
        correct, wrong = (self.speed - self.offset)[:-1], -self.offset[1:]
        unequal = self.speed[-1] - self.offset[-1], self.offset[0]  # groups of equal rewards
        sums = [*(successes * correct + (size - successes) * wrong), *unequal]
        if np.abs(sums).max() > ALIKE * size * max(np.abs([*self.speed, *self.offset]).max(), 1e-300):
            return None
        return np.asarray(correct * size / (size - successes))


def normal_form(chosen: Estimator, group_size: int) -> NormalForm:
    """Compute the normal form of an estimator on one group, from a fresh state.

    Raises: InputError: as ``masses``, for one that depends on the order of the rollouts or reads other fields.

    >>> from simlab.estimators import estimator
    >>> normal_form(estimator("dr_grpo"), 2)
    NormalForm(speed=array([0.5, 0.5]), offset=array([0. , 0.5]))
    """
    computed = masses(chosen, group_size)
    successes = np.arange(1, group_size + 1)
    correct = computed.success[1:] * group_size / successes
    wrong = 0 - computed.failure[:-1] * group_size / (group_size - np.arange(group_size))
    return NormalForm(correct - wrong, 0 - wrong)


def beyond(chosen: Estimator, group_size: int = 4) -> tuple[str, ...]:
    """Name what advantages depend on besides the correct rollouts' number: fields, order, batch, history or tokens.

    Empty for an estimator that has a normal form.

    >>> from simlab.estimators import estimator
    >>> beyond(estimator("grpo")), beyond(estimator("ha_dw")), beyond(estimator("cw_grpo"))
    ((), ('history',), ('old_logp',))
    """
    if fields := tuple(sorted(chosen.needs - {"rewards"})):
        return fields
    every = Rollouts(three_batches(group_size)[0].rewards)
    alone = np.concatenate([advantages_in_turn(chosen, [Rollouts(group[None])])[0] for group in every.rewards])
    first = advantages_in_turn(chosen, [every])[0]
    unlike = {
        "order": not _depends_on_number(every.rewards, alone),
        "batch": not _close(first, alone),
        "history": chosen.remembers,
        "tokens": not _close(first, advantages_in_turn(chosen, [three_batches(group_size, lengths=3)[0]])[0]),
    }
    return tuple(name for name, differs in unlike.items() if differs)


def _depends_on_number(rewards: Float[np.ndarray, "P G"], advantages: np.ndarray) -> bool:
    """Return True if equal rewards in groups with as many correct rollouts have equal advantages."""
    number = np.broadcast_to(rewards.sum(axis=1, keepdims=True), rewards.shape)
    values = advantages.reshape(rewards.shape)
    kinds = [values[(number == count) & (rewards == reward)] for count in np.unique(number) for reward in (0, 1)]
    return all(_close(kind, kind[:1]) for kind in kinds if kind.size)


def _close(first: np.ndarray, second: np.ndarray) -> bool:
    """Compare advantages, (P, G) or (P, G, T)."""
    a, b = (values if values.ndim == 3 else np.atleast_2d(values)[..., None] for values in (first, second))
    return bool(np.allclose(a, b, rtol=ALIKE, atol=ALIKE))

"""Spend in a step what its rollouts say of interference: the settings ``rl.remedy`` and ``rl.remedy_strength``.

The kernel is measured by the rollouts that the step learns from, as ``simlab.llm.training.probe`` measures it; prompts
in danger are those whose net push is below 0. A prompt whose rollouts are all right or all wrong tells nothing: it is
never in danger, and may still do harm. ``simlab.interference.remedies`` decides, and all that changes are the
coefficients of the rollouts' log-probabilities, or the prompts of the next batch.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from simlab.interference import remedies
from simlab.interference.kernel import kernel_alone, push, solve_rate_gradients, solve_rate_weights
from simlab.interference.weights import Weights, Without
from simlab.llm.training.features import Features
from simlab.llm.training.groups import RolloutGroups, absent_rollouts, correct_rollouts
from simlab.llm.training.settings import PolicyGradientSettings
from simlab.simulator.settings import ENDANGERED

NOBODY = -1  # where no prompt comes again


class MeasuredPushes(NamedTuple):
    """Measurements of a batch: the kernel, net pushes, <u_j, M u_k>, and the weights of rollouts in u."""

    kernel: Float[np.ndarray, "P P"]
    net: Float[np.ndarray, " P"]
    inner: Float[np.ndarray, "P P"]
    targets: Float[np.ndarray, "P G"]


class Change(NamedTuple):
    """The change that a remedy makes to a step.

    Attributes:
        factors: of the coefficients of each prompt.
        added: weight of each rollout's log-probability beside its coefficients.
        again: prompts of the next batch, by their number in training and then ``NOBODY``; None for no say in it.
        in_danger: mask of the prompts in danger.
    """

    factors: Float[np.ndarray, " P"]
    added: Float[np.ndarray, "P G"]
    again: Int[np.ndarray, " P"] | None
    in_danger: Bool[np.ndarray, " P"]

    def applied(
        self, coefficients: Float[np.ndarray, "P G T *N"], mask: Bool[np.ndarray, "P G T"]
    ) -> Float[np.ndarray, "P G T *N"]:
        """Return the coefficients after the remedy; candidates beside the sampled tokens get nothing added."""
        factors = self.factors.reshape(-1, *[1] * (coefficients.ndim - 1)).astype(coefficients.dtype)
        changed, added = coefficients * factors, np.where(mask, self.added[..., None], 0).astype(coefficients.dtype)
        first = changed if changed.ndim == mask.ndim else changed[..., 0]
        first += added
        return np.asarray(changed)

    @property
    def metrics(self) -> dict[str, float]:
        """The share of the prompts in danger, and of those that are changed: weighed anew, or to come again."""
        weighed = (self.factors != 1) | self.added.any(axis=1)
        count = weighed.sum() if self.again is None else (self.again != NOBODY).sum()
        return {"in_danger": float(self.in_danger.mean()), "remedied": float(count / len(weighed))}


def measured(features: Features, groups: RolloutGroups, weighed: tuple[Weights, Without]) -> MeasuredPushes:
    """Measure a batch by its own rollouts: their features, and their weights as ``rollout_weights`` gives them."""
    present, correct = ~absent_rollouts(groups), correct_rollouts(groups)
    kernel = kernel_alone(features, correct, *weighed, present=present)
    directions = np.concatenate(solve_rate_gradients(features, correct, present), axis=1)
    targets = solve_rate_weights(np.where(present, correct, 0.0), present.astype(float))
    net = push(kernel, np.ones(len(kernel))).net
    return MeasuredPushes(kernel, net, directions @ directions.T, targets)


def change(found: MeasuredPushes, remedy: str, strength: float, numbers: Sequence[int]) -> Change:
    """Return what a remedy makes of a batch; ``numbers`` are those of its prompts in training."""
    in_danger, prompts = found.net < 0, len(found.net)
    factors, added, again = np.ones(prompts), np.zeros_like(found.targets), None
    harms = remedies.harm(found.kernel, in_danger)
    if remedy == "damp":
        factors = remedies.damped(harms, strength)
    elif remedy == "drop":
        factors = remedies.without_worst(harms, strength)
    elif remedy == "project":
        multipliers = remedies.projection(found.net, found.inner, found.targets.any(axis=1))
        added = strength * multipliers[:, None] * found.targets
    else:
        pushes, order = np.concatenate([found.net, np.zeros(prompts)]), np.roll(np.arange(2 * prompts), prompts)
        rows = remedies.in_danger_first(pushes, order, prompts, strength)
        again = np.full(prompts, NOBODY)
        again[: (rows < prompts).sum()] = [numbers[row] for row in rows if row < prompts]
    return Change(factors, added, again, in_danger)


def first_again(settings: PolicyGradientSettings) -> Any:
    """Return ``TrainerState.again`` before the first step, of a remedy that has a say in it."""
    return np.full(settings.prompts, NOBODY) if settings.remedy == ENDANGERED else ()


def prompt_numbers(again: Any, first: int, cursor: int, prompts: int) -> list[int]:
    """Return the numbers of a batch's prompts in training: those that come again, and new ones from ``cursor`` on."""
    repeated = [int(number) for number in again if number != NOBODY]
    return repeated + list(range(first + cursor, first + cursor + prompts - len(repeated)))

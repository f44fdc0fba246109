"""The categorical framework of Section 2.3: a policy, its correct actions, and the distinct ones sampled."""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy
from mpmath import mpf

from paper_checks.evidence import Estimate, number
from paper_checks.exact import POLICIES, Counts, Policy, groups, mass, stepped
from paper_checks.simulated import Steps, estimate, simulated_step

Members = tuple[bool, ...]


@dataclass(frozen=True)
class Batch:
    """One group in the paper's framework: its distinct actions, and their rewards.

    The names of the masses and second moments are the paper's: P over sampled, Q over all, A sampled correct,
    B sampled incorrect, U unsampled actions.
    """

    policy: Policy
    correct: Members
    sampled: Members
    R_c: Any = 1
    R_w: Any = -1

    def power_sum(self, power: int, *, correct: bool | None = None, sampled: bool | None = None) -> Any:
        """The sum of p^power over the actions of this kind."""
        return sum(
            (
                p**power
                for p, is_correct, is_sampled in zip(self.policy, self.correct, self.sampled, strict=True)
                if correct in (None, is_correct) and sampled in (None, is_sampled)
            ),
            start=Fraction(0),
        )

    @property
    def P_pos(self) -> Any:
        """Mass of the sampled correct actions."""
        return self.power_sum(1, correct=True, sampled=True)

    @property
    def P_neg(self) -> Any:
        """Mass of the sampled incorrect actions."""
        return self.power_sum(1, correct=False, sampled=True)

    @property
    def Q_pos(self) -> Any:
        """Mass of the correct actions."""
        return self.power_sum(1, correct=True)

    @property
    def Q_neg(self) -> Any:
        """Mass of the incorrect actions."""
        return self.power_sum(1, correct=False)

    @property
    def A_2(self) -> Any:
        """Second moment of the sampled correct actions."""
        return self.power_sum(2, correct=True, sampled=True)

    @property
    def B_2(self) -> Any:
        """Second moment of the sampled incorrect actions."""
        return self.power_sum(2, correct=False, sampled=True)

    @property
    def U_2(self) -> Any:
        """Second moment of the unsampled actions."""
        return self.power_sum(2, sampled=False)

    @property
    def U_pos2(self) -> Any:
        """Second moment of the unsampled correct actions."""
        return self.power_sum(2, correct=True, sampled=False)

    @property
    def U_neg2(self) -> Any:
        """Second moment of the unsampled incorrect actions."""
        return self.power_sum(2, correct=False, sampled=False)

    @property
    def S_R(self) -> Any:
        """The batch baseline."""
        return self.R_c * self.P_pos + self.R_w * self.P_neg

    @property
    def rewards(self) -> list[Any]:
        """R_c or R_w on sampled actions, 0 on the others."""
        earned = zip(self.correct, self.sampled, strict=True)
        return [(self.R_c if correct else self.R_w) if sampled else 0 for correct, sampled in earned]

    @property
    def unsampled_correct(self) -> Members:
        """Mark the correct actions that were not sampled."""
        return tuple(c and not s for c, s in zip(self.correct, self.sampled, strict=True))

    def __str__(self) -> str:
        kinds = zip(self.policy, self.correct, self.sampled, strict=True)
        actions = ", ".join(f"{p}{'+' if c else '-'}{'*' if s else ''}" for p, c, s in kinds)
        return f"[{actions}] (+ correct, * sampled), R_c = {self.R_c}, R_w = {self.R_w}"


def batches_of(policy: Policy, correct: Members, R_c: Any = 1, R_w: Any = -1) -> list[Batch]:
    """A batch for every non-empty set of sampled actions, the smallest sets first."""
    size = len(policy)
    patterns = sorted(itertools.product((False, True), repeat=size), key=sum)
    return [Batch(policy, correct, sampled, R_c, R_w) for sampled in patterns if any(sampled)]


def batch_of(policy: Policy, correct: Members, counts: Counts) -> Batch:
    """The batch of a group with these counts, with rewards 1 and -1."""
    return Batch(policy, correct, tuple(count > 0 for count in counts))


REWARDS = ((1, -1), (1, 0), (Fraction(1, 2), -2))
BATCHES = [
    {"batch": batch}
    for (policy, correct), rewards in itertools.product(POLICIES, REWARDS)
    for batch in batches_of(policy, correct, *rewards)
]
SYMBOLS = sympy.symbols("p1:4", positive=True)
SYMBOLIC_POLICY = (*SYMBOLS, 1 - sum(SYMBOLS))
SYMBOLIC_BATCHES = [
    {"batch": Batch(SYMBOLIC_POLICY, (True, True, False, False), sampled, *sympy.symbols("R_c R_w"))}
    for sampled in ((True, False, True, False), (True, False, False, False))
]
GROUPS: list[dict[str, Any]] = [
    {"policy": policy, "correct": correct, "G": size} for (policy, correct) in POLICIES[1:] for size in (2, 4)
]

# Where the simulator is run: four correct actions, so that a group of four misses some of them.
SIMULATED: dict[str, Any] = {
    "policy": (Fraction(1, 8), Fraction(1, 8), Fraction(1, 4), Fraction(1, 4), Fraction(1, 4)),
    "correct": (True, True, True, True, False),
    "G": 4,
}


@functools.cache
def _softmax_calculus(size: int) -> tuple[Callable[..., list[Any]], Callable[..., list[Any]]]:
    """The gradient of sum of r_i p_i with respect to softmax logits, and the derivative of p along a direction.

    Functions of the p_i, then of the r_i or of the direction. With w_i = exp(z_i), p_i = w_i / sum w and d/dz_i is
    w_i d/dw_i, so that everything is rational; the w_i are set to p_i at the end.
    """
    weights = sympy.symbols(f"w1:{size + 1}", positive=True)
    vector = sympy.symbols(f"g1:{size + 1}")
    policy = [weight / sum(weights) for weight in weights]
    surrogate = sum(reward * p for reward, p in zip(vector, policy, strict=True))
    gradient = [weight * sympy.diff(surrogate, weight) for weight in weights]
    along = [sum(d * weight * sympy.diff(p, weight) for d, weight in zip(vector, weights, strict=True)) for p in policy]
    return tuple(sympy.lambdify((*weights, *vector), result, "sympy") for result in (gradient, along))


def derived_policy_change(policy: Policy, direction: Sequence[Any]) -> tuple[Any, ...]:
    """The derivative of the policy when its logits move along a direction."""
    _, along = _softmax_calculus(len(policy))
    return tuple(along(*policy, *direction))


@functools.cache
def derived_logits(batch: Batch) -> tuple[Any, ...]:
    """Gradient of the surrogate, sum of R_i p_i over the sampled actions, in units of eta / G."""
    gradient, _ = _softmax_calculus(len(batch.policy))
    return tuple(gradient(*batch.policy, *batch.rewards))


@functools.cache
def derived_change(batch: Batch) -> tuple[Any, ...]:
    """First-order change of the policy, in units of eta / G."""
    return derived_policy_change(batch.policy, derived_logits(batch))


def derived_mass(batch: Batch, members: Sequence[bool]) -> Any:
    """First-order change of the mass of these actions, in units of eta / G."""
    return mass(derived_change(batch), members)


def finite_change(batch: Batch, members: Sequence[bool], step: Any) -> Any:
    """The exact change of the mass of these actions when the logits move by ``step`` times their gradient."""
    after = stepped(batch.policy, derived_logits(batch), step)
    return sum(
        (new - number(old) for new, old, member in zip(after, batch.policy, members, strict=True) if member),
        start=mpf(0),
    )


def expected(policy: Policy, G: int, value: Callable[[Counts], Any]) -> Any:
    """The expectation over groups of a value or of a tuple of values, in units of eta: their 1/G is included."""
    weighed = [(chance, value(counts)) for chance, counts in groups(policy, G)]
    if isinstance(weighed[0][1], tuple):
        return tuple(sum(c * v[i] for c, v in weighed) / G for i in range(len(weighed[0][1])))
    return sum(chance * single for chance, single in weighed) / G


def theorem_steps(policy: Policy, correct: Members, G: int) -> Steps:
    """The simulator under the theorem's rule: distinct actions, rewards 1 and -1, nothing centred, eta = 1."""
    return simulated_step(
        tuple(policy), correct, G, "reinforce", rewards=(1.0, -1.0), update_rule="theorem", learning_rate=1.0
    )


def simulated_mass_change(steps: Steps, members: np.ndarray) -> Estimate:
    """Mean derivative of the mass of ``members``, (seeds, N) or (N,), along the simulated logit change."""

    def masses(step: float) -> np.ndarray:
        weights = steps.before * np.exp(step * steps.logit_change)
        return np.asarray(np.sum(np.where(members, weights, 0), axis=1) / np.sum(weights, axis=1))

    small = 1e-4
    return estimate((masses(small) - masses(-small)) / (2 * small))


def unsampled(steps: Steps) -> np.ndarray:
    """(seeds, N) the actions that were not drawn."""
    return np.asarray(np.all(steps.actions[:, :, None] != np.arange(len(steps.before)), axis=1))

"""Effects of prompts that share parameters on one another's solve rates in one expected step, to first order.

The logits of prompt i are linear in shared parameters, and K_ij is the inner product of the features of prompts i and
j: the kernel of a linear head, or of any network to first order. A plain gradient step takes the mean over P prompts.
Q_i is the solve rate, and u_i = p_i^+ - p_i^-, the policy given a correct rollout less the policy given a wrong one.

A weight of reward and solve rate moves the parameters along sum_i kappa_i grad Q_i, and so climbs a transform of the
solve rate (Davis and Recht, arXiv:2510.13651; Thrampoulidis et al., arXiv:2510.23049). Here kappa_i says how fast
prompt i teaches, and K_ij <u_i, u_j> the direction of what j learns from it. Related: influence (Ren and Sutherland,
arXiv:2407.10490), prompt interference (Barakat et al., arXiv:2602.21189), ray interference (Schaul et al.,
arXiv:1904.11455), and the fall of pass@k (Yue et al., arXiv:2504.13837; Nguyen et al., arXiv:2510.02230).
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num
from scipy.special import xlogy

from simlab.errors import InputError, check_range, check_shares
from simlab.estimators import Estimator
from simlab.theory.masses import masses

Rates = Float[np.ndarray, "..."]
Policies = Float[np.ndarray, "M A"]
Matrix = Float[np.ndarray, "M M"]
PerPrompt = Float[np.ndarray, " M"]


class Advantages(NamedTuple):
    """Expected advantages of a rollout that succeeds and of one that fails, in the company of the others of its
    group."""

    success: Rates
    failure: Rates


class Drift(NamedTuple):
    """The first-order change of each prompt's log-odds log(Q / (1 - Q)), split by its source.

    ``own`` is due to the prompt's rollouts, not negative under masses of no negative sign; ``incoming`` to all others'.
    """

    own: PerPrompt
    incoming: PerPrompt

    @property
    def threshold(self) -> PerPrompt:
        """own / -incoming: the factor on all overlaps between prompts beyond which the prompt falls.

        Where K_ij = c for all pairs, c times this is the overlap at which the prompt stands still. NaN where the others
        do not harm the prompt.

        >>> Drift(np.array([0.1, 0.1]), np.array([-0.4, 0.2])).threshold
        array([0.25,  nan])
        """
        harmed = self.incoming < 0
        return np.where(harmed, self.own / np.where(harmed, -self.incoming, 1.0), np.nan)


def expected_speed(name: str | Estimator, group_size: int, solve_rates: Rates, **parameters: Any) -> Rates:
    """Kappa(Q; G) = M_S / Q + M_F / (1 - Q), the speed of an expected step along grad Q ``[simlab:expected-update]``.

    It is the slope of the transform of Q that Davis and Recht (arXiv:2510.13651) show such steps to climb: the expected
    advantage of a success less that of a failure, defined at Q = 0 and 1 too ``[simlab:interference-speed]``.

    >>> expected_speed("maxrl", 4, np.array([0.0, 0.5, 1.0]))
    array([3.  , 1.75, 1.  ])
    """
    expected = expected_advantages(name, group_size, solve_rates, **parameters)
    speed: Rates = expected.success - expected.failure
    return speed


def contrast(name: str | Estimator, group_size: int, **parameters: Any) -> float:
    """Kappa(0; G) / kappa(1; G), the most that a weight favours hard prompts ``[simlab:weight-contrast]``.

    1 for GRPO, PSR and NSR at every G, G - 1 for MaxRL, (G - 1)^gamma for F-GRPO; infinite for a weight that is silent
    on solved prompts.

    >>> round(contrast("maxrl", 8), 9)
    7.0
    """
    hard, easy = expected_speed(name, group_size, np.array([0.0, 1.0]), **parameters)
    return float(hard / easy) if easy else float("inf")


def expected_advantages(name: str | Estimator, group_size: int, solve_rates: Rates, **parameters: Any) -> Advantages:
    """M_S / Q and -M_F / (1 - Q): the expected advantage of a success and of a failure ``[simlab:interference-speed]``.

    Computed as means over the binomial number of successes among the other G - 1 rollouts, so also at Q = 0 and 1.

    >>> expected_advantages("dr_grpo", 2, np.array([0.0, 0.5])).success
    array([0.5 , 0.25])
    """
    check_shares("solve_rates", solve_rates)
    by_count, others = masses(name, group_size, **parameters), np.arange(group_size)
    chances = binomial_chances(group_size - 1, solve_rates)
    success = chances @ (group_size * by_count.success[1:] / (others + 1))
    failure = chances @ (-group_size * by_count.failure[:-1] / (group_size - others))
    return Advantages(np.asarray(success), np.asarray(failure))


def transfer(
    policies: Policies,
    correct: Bool[np.ndarray, "M A"],
    kernel: Matrix,
    speeds: PerPrompt,
    *,
    learning_rate: float,
    temperature: float = 1.0,
    counts: Int[np.ndarray, " A"] | None = None,
) -> Matrix:
    """The change of Q_j, in column j, by the update of prompt i, in row i ``[simlab:interference-transfer]``.

    T_ij = eta / (M T^2) K_ij kappa_i <grad Q_i, grad Q_j>, of a step on the mean over all M prompts, where
    dQ / dz_a = p_a (1[a correct] - Q). Its diagonal is what prompts do to themselves; the sum of a column is the
    expected change of Q_j.

    Args:
        policies: p_i, a row each, which sums to 1.
        correct: true for correct actions.
        kernel: K, such as ``features @ features.T``.
        speeds: kappa_i, such as ``expected_speed``.
        learning_rate: eta.
        temperature: T, of policies that are softmax(z / T).
        counts: how many actions each entry stands for, by default 1; policies hold the probability of a single one.

    A prompt whose likely error is the answer of the other loses by its update:

    >>> policies, correct = np.array([[0.5, 0.5], [0.75, 0.25]]), np.eye(2, dtype=bool)
    >>> transfer(policies, correct, np.ones((2, 2)), np.ones(2), learning_rate=1.0).round(3)
    array([[ 0.062, -0.047],
           [-0.047,  0.035]])
    """
    each = np.ones(policies.shape[1:], dtype=np.int64) if counts is None else counts
    if policies.ndim != 2 or each.shape != policies.shape[1:] or (each < 1).any():
        raise InputError(
            f"policies have shape {policies.shape}, counts are {each}; "
            "allowed: (prompts, actions), and one whole number from 1 up for each action"
        )
    _check_policies(policies, each)
    _check_fits("correct", correct, policies.shape)
    _check_fits("kernel", kernel, (len(policies), len(policies)))
    _check_fits("speeds", speeds, (len(policies),))
    check_range("learning_rate", learning_rate)
    check_range("temperature", temperature, 0, open_low=True)
    solve_rates = np.where(correct, policies, 0.0) @ each
    gradients = policies * (correct - solve_rates[:, None])
    shared = kernel * ((gradients * each) @ gradients.T)
    return np.asarray(learning_rate / (len(policies) * temperature**2) * speeds[:, None] * shared)


def log_odds_drift(effects: Matrix, solve_rates: PerPrompt) -> Drift:
    """d log(Q_j / (1 - Q_j)) = dQ_j / (Q_j (1 - Q_j)), split into the prompt's own effect and the others'.

    The own part is eta / M K_jj m_j |u_j|^2 with m_j = kappa_j Q_j (1 - Q_j), and vanishes with
    Q_j. The incoming part, eta / M sum_i K_ij m_i <u_i, u_j>, does not ``[simlab:interference-drift]``.
    ``effects`` are such as ``transfer``; both parts are NaN where Q is 0 or 1.

    >>> log_odds_drift(np.array([[0.1, -0.2], [0.0, 0.05]]), np.array([0.5, 0.5]))
    Drift(own=array([0.4, 0.2]), incoming=array([ 0. , -0.8]))
    """
    _check_fits("solve_rates", solve_rates, (len(effects),))
    check_shares("solve_rates", solve_rates)
    _check_fits("effects", effects, (len(solve_rates), len(solve_rates)))
    spread = solve_rates * (1 - solve_rates)
    spread = np.where(spread > 0, spread, np.nan)
    diagonal = np.diagonal(effects)
    others = np.where(np.eye(len(effects), dtype=bool), 0.0, effects).sum(axis=0)
    return Drift(diagonal / spread, others / spread)


def binomial_chances(draws: int, shares: Rates) -> Rates:
    """(..., n + 1) the probability of 0 to n successes."""
    successes, shares = np.arange(draws + 1), np.asarray(shares)[..., None]
    ways = np.concatenate([[0.0], np.cumsum(np.log((draws + 1 - successes[1:]) / successes[1:]))])
    return np.asarray(np.exp(ways + xlogy(successes, shares) + xlogy(draws - successes, 1 - shares)))


def _check_policies(policies: Policies, each: Int[np.ndarray, " A"]) -> None:
    totals = policies @ each
    wrong = ~((policies >= 0).all(axis=1) & (np.abs(totals - 1) <= 1e-9))
    if wrong.any():
        prompt = int(np.argmax(wrong))
        least, total = policies[prompt].min(initial=np.inf), totals[prompt]
        raise InputError(f"policy {prompt} has least entry {least} and sum {total}; allowed: none below 0, sum 1")


def _check_fits(name: str, values: Num[np.ndarray, "..."] | Bool[np.ndarray, "..."], shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise InputError(f"{name} has shape {values.shape}; allowed: {shape}")
    if not np.isfinite(values).all():
        raise InputError(f"{name} holds NaN or infinity; allowed: finite numbers")

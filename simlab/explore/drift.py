"""Repeat the expected gradient step, to show how a policy moves on average: correct mass, retained mass, entropy.

The first plain step is exact to first order in the learning rate. Each later step starts from the expected policy, and
not from the policy of any seed, so that the lines leave the means over seeds once the seeds differ much. Adam's steps
are those of expected gradients, without the noise that it divides by as well: they go ahead of the simulated ones.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, xlog1py, xlogy

from simlab.explore.masses import GroupMasses
from simlab.problems import Categorical
from simlab.problems.exact import pass_at_k

Move = Callable[[Float[np.ndarray, " C"]], Float[np.ndarray, " C"]]
POLICY_KS = (16, 256)  # of pass@k
BETAS, EPS = (0.9, 0.999), 1e-8  # of simlab.simulator.optimizers.adam


def plain_steps(learning_rate: float) -> Move:
    """Return the move that adds gradients, to be climbed, to the logits."""
    return lambda gradient: learning_rate * gradient


def adam_steps(learning_rate: float) -> Move:
    """Return the move that Adam makes of one gradient after another."""
    mean: np.ndarray = np.zeros(())
    square: np.ndarray = np.zeros(())
    count = 0

    def move(gradient: Float[np.ndarray, " C"]) -> Float[np.ndarray, " C"]:
        nonlocal mean, square, count
        count += 1
        mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
        square = BETAS[1] * square + (1 - BETAS[1]) * gradient**2
        scale = np.sqrt(square / (1 - BETAS[1] ** count)) + EPS
        return np.asarray(learning_rate * mean / (1 - BETAS[0] ** count) / scale)

    return move


MOVES = {"sgd": plain_steps, "adam": adam_steps}


def expected_path(
    problem: Categorical, masses: GroupMasses, move: Move, recorded: Int[np.ndarray, " R"]
) -> dict[str, Float[np.ndarray, " R+1"]]:
    """Return correct mass, retained mass and entropy along the expected steps, at step 0 and those in ``recorded``.

    With m_S and m_F averaged over the binomial number of correct rollouts, the expected gradient of the logit of an
    action of probability p is p (m_S / mu - (m_S - m_F)) if it is correct, and -p (m_F / (1 - mu) + (m_S - m_F)) if it
    is not: a correct rollout is this action with probability p / mu. Such steps climb a transform of Q_pos (Davis and
    Recht, arXiv:2510.13651).

    Args:
        problem: one policy, whose equal actions stay equal.
        masses: (G + 1,) m_S and m_F at every number of successes.
        move: turns expected gradients, in their order, into changes of the logits.
        recorded: increasing steps.

    Returns:
        ``q_pos``, ``retained_mass`` and ``entropy`` (nats).
    """
    problem = problem.by_classes()
    logits, counts, correct = problem.logits.copy(), np.asarray(problem.counts, float), problem.correct
    path: dict[str, list[float]] = {"q_pos": [], "retained_mass": [], "entropy": []}
    start, steps = _policy(logits, counts), {0, *recorded.tolist()}
    for step in range(int(recorded[-1]) + 1):
        p = _policy(logits, counts)
        if step in steps:
            retained = np.minimum(p, start)[correct] @ counts[correct]
            path["q_pos"].append(float(p[correct] @ counts[correct]))
            path["retained_mass"].append(float(retained / (start[correct] @ counts[correct])))
            path["entropy"].append(float(-xlogy(p, p) @ counts))
        logits = logits + move(_expected_gradient(p, counts, correct, masses))
    return {name: np.array(values) for name, values in path.items()}


def _policy(logits: Float[np.ndarray, " C"], counts: Float[np.ndarray, " C"]) -> Float[np.ndarray, " C"]:
    """Return the probability of an action of each class."""
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / (weights @ counts))


def _expected_gradient(
    p: Float[np.ndarray, " C"], counts: Float[np.ndarray, " C"], correct: np.ndarray, masses: GroupMasses
) -> Float[np.ndarray, " C"]:
    group_size = len(masses[0]) - 1
    successes = np.arange(group_size + 1)
    mass, wrong = (float(p[which] @ counts[which]) for which in (correct, ~correct))
    ways = gammaln(group_size + 1) - gammaln(successes + 1) - gammaln(group_size - successes + 1)
    chance = np.exp(ways + xlogy(successes, mass) + xlog1py(group_size - successes, -min(mass, 1.0)))
    success, failure = float(chance @ masses[0]), float(chance @ masses[1])
    reward = np.where(correct, success / max(mass, 1e-300), -failure / max(wrong, 1e-300))
    return np.asarray(p * (reward - (success - failure)))


def with_pass_at_k(path: dict[str, list[float]]) -> dict[str, list[float]]:
    """Add pass@k of the correct mass along expected steps."""
    return path | {f"pass_at_{k}": pass_at_k(np.array(path["q_pos"]), k).tolist() for k in POLICY_KS}

"""Repeat the expected gradient step, to show how the correct mass moves on average.

The first step is exact to first order in the learning rate. Each later step starts from the expected policy, and not
from the policy of any seed, so that the line leaves the mean over seeds once the seeds differ much.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, xlog1py, xlogy

from simlab.problems import Categorical
from simlab.theory.closed_forms import closed_form

Masses = tuple[Float[np.ndarray, " counts"], Float[np.ndarray, " counts"]]


def group_masses(name: str, group_size: int, parameters: dict[str, object]) -> Masses:
    """(G + 1,) m_S and m_F of an estimator at 0 to G successes."""
    success, failure = closed_form(name, np.arange(group_size + 1) / group_size, group_size, **parameters)
    return np.asarray(success), np.asarray(failure)


def expected_correct_mass(
    problem: Categorical, masses: Masses, learning_rate: float, recorded: Int[np.ndarray, " R"]
) -> Float[np.ndarray, " R+1"]:
    """Q_pos along the expected steps, at step 0 and those in ``recorded``.

    With m_S and m_F averaged over the binomial number of correct rollouts, the expected gradient of the logit of an
    action of probability p is p (m_S / mu - (m_S - m_F)) if it is correct, and -p (m_F / (1 - mu) + (m_S - m_F)) if it
    is not: a correct rollout is this action with probability p / mu. Such steps climb a transform of Q_pos (Davis and
    Recht, arXiv:2510.13651).

    Args:
        problem: one policy, whose equal actions stay equal.
        masses: (G + 1,) m_S and m_F at every number of successes.
        learning_rate: of plain gradient steps.
        recorded: increasing steps.
    """
    problem = problem.by_classes()
    logits, counts, correct = problem.logits.copy(), np.asarray(problem.counts, float), problem.correct
    group_size = len(masses[0]) - 1
    successes = np.arange(group_size + 1)
    ways = gammaln(group_size + 1) - gammaln(successes + 1) - gammaln(group_size - successes + 1)
    path, wanted = [], {0, *recorded.tolist()}
    for step in range(int(recorded[-1]) + 1):
        weights = np.exp(logits - logits.max())
        p = weights / (weights @ counts)
        mass = float(p[correct] @ counts[correct])
        if step in wanted:
            path.append(mass)
        wrong = float(p[~correct] @ counts[~correct])
        chance = np.exp(ways + xlogy(successes, mass) + xlog1py(group_size - successes, -min(mass, 1.0)))
        success, failure = float(chance @ masses[0]), float(chance @ masses[1])
        reward = np.where(correct, success / max(mass, 1e-300), -failure / max(wrong, 1e-300))
        logits = logits + learning_rate * p * (reward - (success - failure))
    return np.array(path)

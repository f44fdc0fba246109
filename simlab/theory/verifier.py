"""Effects of a verifier that errs on a weight: the rollouts that get its advantages, and the speed of learning.

A wrong rollout is accepted with probability f, a correct one rejected with n, each by itself. At a solve rate p the
verifier accepts q = f + J p, with Youden's index J = 1 - f - n, and a weight knows the verdicts alone. All that follows
is exact at every group size. Rad et al. (arXiv:2601.04411) derive the part of J for GRPO in a mean field; the
corrections of Cai et al. (arXiv:2510.00915) are ``simlab.simulator.verifier.corrected``.
"""

from typing import Any, NamedTuple

from simlab.errors import check_range
from simlab.estimators import Estimator
from simlab.theory.interference import Rates, expected_advantages, expected_speed


class JudgedMasses(NamedTuple):
    """E[(1/G) sum of A] over the rollouts of each truth and verdict; those of rejected ones are as a rule below 0."""

    rightly_accepted: Rates
    wrongly_accepted: Rates
    rightly_rejected: Rates
    wrongly_rejected: Rates


def accepted_rate(solve_rates: Rates, false_positive: float, false_negative: float) -> Rates:
    """q = f + (1 - f - n) p, how often a rollout is accepted.

    >>> accepted_rate(np.array([0.0, 0.5, 1.0]), 0.1, 0.3)
    array([0.1, 0.4, 0.7])
    """
    check_range("false_positive", false_positive, 0, 1)
    check_range("false_negative", false_negative, 0, 1)
    return (1 - solve_rates) * false_positive + solve_rates * (1 - false_negative)


def judged_masses(
    name: str | Estimator,
    group_size: int,
    solve_rates: Rates,
    false_positive: float,
    false_negative: float,
    **parameters: Any,
) -> JudgedMasses:
    """Advantages by truth and verdict, such as (1 - p) f a_S(q) on accepted wrong ones ``[simlab:verifier-masses]``.

    a_S(q) and a_F(q) are what an accepted and a rejected rollout are expected to get (``expected_advantages``). The
    other masses are p (1 - n) a_S, (1 - p) (1 - f) a_F and p n a_F.

    >>> judged = judged_masses("maxrl", 8, np.array([0.01, 0.5]), 0.1, 0.0)
    >>> (judged.wrongly_accepted / (judged.wrongly_accepted + judged.rightly_accepted)).round(3)
    array([0.908, 0.091])
    """
    accepted = accepted_rate(solve_rates, false_positive, false_negative)
    success, failure = expected_advantages(name, group_size, accepted, **parameters)
    return JudgedMasses(
        solve_rates * (1 - false_negative) * success,
        (1 - solve_rates) * false_positive * success,
        (1 - solve_rates) * (1 - false_positive) * failure,
        solve_rates * false_negative * failure,
    )


def judged_speed(
    name: str | Estimator,
    group_size: int,
    solve_rates: Rates,
    false_positive: float,
    false_negative: float,
    **parameters: Any,
) -> Rates:
    """(1 - f - n) kappa(q; G), the speed of an expected step along grad p ``[simlab:verifier-speed]``.

    The expected step is kappa(q) grad q, as for any rewards (``expected_speed``), and grad q = (1 - f - n) grad p.

    >>> judged_speed("dr_grpo", 2, np.array([0.1, 0.5]), 0.75, 0.75)
    array([-0.25, -0.25])
    """
    accepted = accepted_rate(solve_rates, false_positive, false_negative)
    youden = 1 - false_positive - false_negative
    return youden * expected_speed(name, group_size, accepted, **parameters)

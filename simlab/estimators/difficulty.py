"""Links that weigh a whole group by how many of its rollouts are correct."""

from array_api_compat import array_namespace

from simlab.errors import check_choice, check_range
from simlab.estimators.base import Link, stateless
from simlab.rollouts import Array, Rollouts, Scalar, batch_mean, group_mean, solve_rate


def focal(gamma: Scalar = 1.0) -> Link:
    """Multiply by (1 - X/G)^gamma, X the number of correct rollouts ``[f-grpo:eq-12]``.

    Raises:
        InputError: for a negative ``gamma``.
    """
    check_range("gamma", gamma, 0)

    def weigh(advantages: Array, rollouts: Rollouts) -> Array:
        return advantages * (1 - solve_rate(rollouts)) ** gamma

    return stateless(weigh)


def power(alpha: Scalar = 2.0) -> Link:
    """Multiply by (1 - mean(r))^(alpha - 1), 0^0 being 1 ``[fade:power-alpha]``. Defined for rewards in [0, 1].

    Raises:
        InputError: for ``alpha`` below 1, where the weight of a solved group is infinite.
    """
    check_range("alpha", alpha, 1)

    def weigh(advantages: Array, rollouts: Rollouts) -> Array:
        return advantages * (1 - group_mean(rollouts.rewards, rollouts)) ** (alpha - 1)

    return stateless(weigh, unit_rewards=True)


EASY_TERMS = ("paper", "code")


def shift_difficulty(easy_term: str = "paper") -> Link:
    """Move attention from easy to hard groups as the batch improves ``[a-grae:eq-12]``.

    With omega the mean reward of the batch ``[a-grae:eq-11]`` and p the solve rate of the group, multiply by
    omega / (2 sqrt(p)) + (1 - omega) / (2 sqrt(1 - p)); groups with p in {0, 1} are left as they are.
    ``easy_term="code"`` divides the second term by 1 - sqrt(p) + 1e-6 instead, as the published code does.
    Defined for rewards in [0, 1].

    Raises:
        InputError: for an unknown ``easy_term``.
    """
    check_choice("easy_term", easy_term, EASY_TERMS)

    def weigh(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        omega, p = batch_mean(rollouts.rewards, rollouts), solve_rate(rollouts)
        mixed = (p > 0) & (p < 1)
        p = xp.where(mixed, p, xp.full_like(p, 0.5))
        easy = xp.sqrt(1 - p) if easy_term == "paper" else 1 - xp.sqrt(p) + 1e-6
        weight = omega / (2 * xp.sqrt(p)) + (1 - omega) / (2 * easy)
        return advantages * xp.where(mixed, weight, xp.ones_like(weight))

    return stateless(weigh, unit_rewards=True)

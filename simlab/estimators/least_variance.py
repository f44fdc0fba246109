"""The baseline of least variance for the speed of another estimator."""

from array_api_compat import array_namespace

from simlab.errors import InputError, check_ranges
from simlab.estimators.base import Estimator, chain, stateless
from simlab.estimators.registry import base_estimator, register
from simlab.rollouts import Array, Rollouts, Scalar, group_count, group_sum, masked, or_one


def speed(base: Estimator, rollouts: Rollouts) -> Array:
    """(P, G) the advantage that ``base`` gives each rollout where it is correct, less that where it is wrong.

    Rewards are 0 and 1, the other rollouts are as they are. Takes P G groups, each with the reward of one rollout
    changed: of (1, 0) the groups (0, 0) and (1, 1).
    """
    xp = array_namespace(rollouts.rewards)
    rewards, (prompts, size) = rollouts.rewards, rollouts.rewards.shape
    itself = xp.astype(xp.eye(size), xp.bool)

    def repeated(values: Array) -> Array:
        return xp.broadcast_to(values[:, None, :], (prompts, size, size))

    changed = xp.reshape(xp.where(itself, repeated(1 - rewards), repeated(rewards)), (-1, size))
    mask = None if rollouts.mask is None else xp.reshape(repeated(rollouts.mask), (-1, size))
    here, there = (
        base.update(Rollouts(values, mask=present), base.init())[0]
        for values, present in ((rewards, rollouts.mask), (changed, mask))
    )
    there = xp.reshape(there, (prompts, size, size))
    there = xp.sum(masked(there, itself), axis=-1)
    return (2 * rewards - 1) * (here - there)


@register(
    "simlab:least-variance",
    "c_i (r_i - (j + successes) / (G - 1 + successes + failures)), j other correct ones, c_i base's speed",
)
def least_variance(base: str | Estimator = "grpo", successes: Scalar = 1.0, failures: Scalar = 1.0) -> Estimator:
    """The speed of ``base`` with the baseline of least variance: the solve rate that the other rollouts lead to expect.

    The expected update is that of ``base``, see ``simlab.theory.normal_form``. ``successes`` and ``failures`` are the x
    and y of the law Beta(x, y) of solve rates: 1 and 1 if all are as likely, 0 and 0 give the leave-one-out mean. The
    variance is least among all baselines where the scores of correct and wrong rollouts are as long, and many actions
    share the probability. For rewards 0 and 1, and a base that depends on the rewards of one group alone, of
    rollouts taken as equally long.

    Raises: InputError: for a base that reads more than rewards or remembers, and x or y below 0.

    >>> simlab.advantages("least_variance", np.array([1.0, 0.0, 0.0]), base="rloo")
    array([ 0.75, -0.5 , -0.5 ])
    """
    inner = base_estimator(base)
    if inner.needs != {"rewards"} or inner.remembers:
        raise InputError(f"base = {base} reads more than a group's rewards; allowed: one that does not")
    check_ranges(0, successes=successes, failures=failures)

    def expect_others(rewards: Array, rollouts: Rollouts) -> Array:
        others = group_sum(rewards, rollouts) - rewards
        expected = (others + successes) / or_one(group_count(rollouts) - 1 + successes + failures)
        return speed(inner, rollouts) * (rewards - expected)

    return chain(stateless(expect_others, domain="binary", exchangeable=inner.exchangeable))

"""CW-GRPO from its definitions, in exact or 50-digit numbers: covariance terms, weights, a bandit's expected update."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from mpmath import mp, mpf

from paper_checks.evidence import number
from paper_checks.exact import Counts, Policy, groups, logits, score_gradient

Values = Sequence[Any]
Responses = Sequence[Sequence[Any]]  # log-probabilities of each response's tokens


def mean(values: Values) -> Any:
    """The mean."""
    return sum(values) / len(values)


def covariance(left: Values, right: Values) -> Any:
    """The mean of products less the product of means."""
    products = [x * y for x, y in zip(left, right, strict=True)]
    return mean(products) - mean(left) * mean(right)


def deviation(values: Values) -> mpf:
    """The standard deviation; 0 where all are equal to 40 digits."""
    center = mean(values)
    variance = number(mean([(value - center) ** 2 for value in values]))
    return mp.sqrt(variance) if variance > mpf("1e-80") else mpf(0)


def tokens(logp: Responses, advantages: Values) -> tuple[list[Any], list[Any]]:
    """The log-probability of each token of a batch, and the advantage of its response."""
    spread = [[advantage] * len(response) for response, advantage in zip(logp, advantages, strict=True)]
    return list(chain(*logp)), list(chain(*spread))


def terms(logp: Values, advantages: Values) -> list[Any]:
    """c = (log pi - mean)(A - mean), both means over the tokens."""
    centers = mean(logp), mean(advantages)
    return [(x - centers[0]) * (a - centers[1]) for x, a in zip(logp, advantages, strict=True)]


def kernel(c: Values) -> list[mpf]:
    """w = exp(-c^2 / (2 sigma^2)), sigma the deviation of the c.

    Raises:
        ZeroDivisionError: where all c are equal.
    """
    sigma = deviation(c)
    return [mp.exp(-(number(value) ** 2) / (2 * sigma**2)) for value in c]


def normalised(weights: Sequence[mpf]) -> list[mpf]:
    """Weights scaled to sum to their number."""
    total = mp.fsum(weights)
    return [weight * len(weights) / total for weight in weights]


def reweighted(logp: Values, advantages: Values) -> list[mpf]:
    """CW-GRPO's advantages of tokens; as they were where all c are equal, which leaves its weights undefined."""
    c = terms(logp, advantages)
    weights = normalised(kernel(c)) if deviation(c) else [mpf(1)] * len(c)
    return [weight * number(advantage) for weight, advantage in zip(weights, advantages, strict=True)]


def group_advantages(rewards: Values) -> list[mpf]:
    """GRPO's advantages of a group; 0 where the rewards are equal."""
    exact = [number(reward) for reward in rewards]
    sigma, center = deviation(exact), mean(exact)
    return [(reward - center) / sigma if sigma else mpf(0) for reward in exact]


def rollouts(policy: Policy, correct: Sequence[bool], counts: Counts) -> tuple[list[int], list[mpf], list[mpf]]:
    """The actions of a group, their log-probabilities and GRPO's advantages."""
    actions = [action for action, count in enumerate(counts) for _ in range(count)]
    scores = logits(policy)
    return actions, [scores[a] for a in actions], group_advantages([int(correct[a]) for a in actions])


def action_advantages(policy: Policy, correct: Sequence[bool], counts: Counts, *, weighted: bool) -> list[mpf]:
    """The sum of a group's advantages on each action, of GRPO or (``weighted``) of CW-GRPO."""
    actions, logp, advantages = rollouts(policy, correct, counts)
    used = reweighted(logp, advantages) if weighted else advantages
    return [
        mp.fsum(a for action, a in zip(actions, used, strict=True) if action == each) for each in range(len(policy))
    ]


def expected_update(policy: Policy, correct: Sequence[bool], group_size: int, *, weighted: bool) -> list[mpf]:
    """The policy gradient at the logits, over all groups: mean of A grad log pi."""
    updates = [
        [
            number(chance) * number(change) / group_size
            for change in score_gradient(policy, action_advantages(policy, correct, counts, weighted=weighted))
        ]
        for chance, counts in groups(policy, group_size)
    ]
    return [mp.fsum(column) for column in zip(*updates, strict=True)]

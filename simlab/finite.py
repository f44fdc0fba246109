"""Report numbers that are not finite, with the rewards that they came from."""

from collections import Counter
from collections.abc import Mapping

from array_api_compat import array_namespace

from simlab.errors import Diverged
from simlab.rollouts import Array, Rollouts

FEW = 3  # different rewards that a message lists; of more, it gives the range


def check_finite(name: str, what: str, values: Array, rollouts: Rollouts) -> None:
    """Raise ``Diverged`` unless values of ``name``, (P, G, ...), are finite: for arrays that JAX does not trace."""
    xp = array_namespace(values)
    finite = xp.isfinite(values)
    if bool(xp.all(finite)):
        return
    group = next(index for index in range(values.shape[0]) if not bool(xp.all(finite[index, ...])))
    rewards = rollouts.rewards[group, ...]
    if rollouts.mask is not None:
        rewards = rewards[rollouts.mask[group, ...]]
    described = rewards_in_words(Counter(float(reward) for reward in rewards))
    raise Diverged(f"{name}: {what} of group {group} are not finite, where {described}; allowed: finite numbers")


def rewards_in_words(counts: Mapping[float, int]) -> str:
    """Describe the rewards of a group, each with how often it occurs.

    >>> rewards_in_words({1.0: 3, -1.0: 5})
    '3 of 8 rewards are 1, the others -1'
    """
    present = sorted(((value, count) for value, count in counts.items() if count), reverse=True)
    total = sum(count for _, count in present)
    if len(present) == 1:
        return f"all {total} rewards are {present[0][0]:g}"
    if len(present) > FEW:
        return f"{total} rewards lie between {present[-1][0]:g} and {present[0][0]:g}"
    (first, count), *remaining = present
    others = " and ".join(f"{value:g}" for value, _ in remaining)
    return f"{count} of {total} rewards are {first:g}, the others {others}"

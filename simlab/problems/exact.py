"""Exact quantities of probabilities: what NumPy and the simulator both compute, by array-API functions."""

from collections.abc import Callable

from array_api_compat import array_namespace
from jaxtyping import Shaped

from simlab.rollouts import Array, Scalar

Total = Callable[[Array], Array]  # a sum over all actions
Each = Shaped[Array, " N"]


def correct_mass(p: Each, correct: Each, total: Total | None = None) -> Shaped[Array, ""]:
    """Q_pos, the probability of a correct action ``[f-grpo:eq-4]``; ``total`` adds up, by default as ``sum`` does."""
    xp = array_namespace(p)
    return (total or xp.sum)(xp.where(correct, p, xp.zeros_like(p)))


def retained_mass(
    p: Each, initial: Each, correct: Each, members: Each | float = 1.0, total: Total | None = None
) -> Shaped[Array, ""]:
    """1 - sum over P of max(0, p_0 - p) / sum over P of p_0 ``[f-grpo:eq-26]``; entries count ``members`` times."""
    xp = array_namespace(p)
    # min(p_0, p) and not p_0 - max(0, p_0 - p): p is a quotient, and compilers may fuse a product and a difference into
    # one rounding, so that programs would disagree in the last bit.
    retained = xp.minimum(initial, p)
    return correct_mass(members * retained, correct, total) / correct_mass(members * initial, correct, total)


def share_kept(
    p: Each, initial: Each, correct: Each, members: Each | float = 1.0, total: Total | None = None
) -> Shaped[Array, ""]:
    """Share of the correct actions whose probability is at or above its start; the rest as in ``retained_mass``."""
    xp = array_namespace(p)
    each, zero = members * xp.ones_like(p), xp.zeros_like(p)
    add = total or xp.sum
    return add(xp.where(correct & (p >= initial), each, zero)) / add(xp.where(correct, each, zero))


def pass_at_k(correct_probability: Shaped[Array, "*M"], k: int) -> Shaped[Array, "*M"]:
    """1 - (1 - Q_pos)^k, exact for i.i.d. samples, with all its digits where Q_pos is small."""
    xp = array_namespace(correct_probability)
    return -xp.expm1(log_miss_at_k(correct_probability, k))


def log_miss_at_k(correct_probability: Shaped[Array, "*M"], k: Scalar) -> Shaped[Array, "*M"]:
    """k log(1 - Q_pos), the logarithm of the probability that k i.i.d. samples hold no correct one."""
    xp = array_namespace(correct_probability)
    certain = correct_probability >= 1  # rounding can lift a sum of probabilities above 1
    miss = k * xp.log1p(xp.where(certain, xp.zeros_like(correct_probability), -correct_probability))
    return xp.where(certain, xp.full_like(correct_probability, -xp.inf), miss)

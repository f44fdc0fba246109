"""Weights of the pass@k objective; in a group of fewer than k rollouts, k is its size."""

from array_api_compat import array_namespace
from jaxtyping import Float

from simlab.errors import check_choice, check_whole
from simlab.estimators.base import Estimator, Link, chain, stateless, weighing
from simlab.estimators.links import center, highest_other
from simlab.estimators.registry import register
from simlab.order_statistics import sort_with_ranks
from simlab.rollouts import Array, Rollouts, group_count, group_sum, is_correct, masked, or_one, solve_rate


def _positions(rollouts: Rollouts) -> Array:
    """Count 1, 2, ..., G along each group."""
    xp = array_namespace(rollouts.rewards)
    return xp.cumulative_sum(xp.ones_like(rollouts.rewards), axis=-1)


def miss_chance(rollouts: Rollouts, k: int) -> tuple[Float[Array, "P 1"], Float[Array, "P 1"]]:
    """Chances of drawing wrong rollouts alone, F of the G rollouts of a group being wrong.

    Returns C(F, k) / C(G, k), the chance that k drawn rollouts are all wrong, and C(F - 1, k - 1) / C(G - 1, k - 1),
    the chance that the other k - 1 are wrong too if one is. The second is the product over j = 1, ..., k - 1 of
    (F - j) / (G - j), and the first is that times F / G. For F = 3, G = 4, k = 2: (2 / 3) (3 / 4) = 1/2, and 2/3.
    """
    xp = array_namespace(rollouts.rewards)
    count, before = group_count(rollouts), _positions(rollouts) - 1
    wrong = group_sum(xp.astype(~is_correct(rollouts), rollouts.rewards.dtype), rollouts)
    ones, drawn = xp.ones_like(before), (before < k) & (before < count)
    share = (wrong - before) / or_one(count - before)
    share = xp.where(drawn, masked(share, share > 0), ones)
    others = xp.prod(xp.where(before < 1, ones, share), axis=-1, keepdims=True)
    return others * wrong / count, others


def divide_by_pass_at_k_std(k: int) -> Link:
    """Scale r - p to Chen et al.'s pass@k advantage ``[fade:pass-at-k-chen]``.

    Multiply by C(F - 1, k - 1) / C(G - 1, k - 1) / sigma, sigma = sqrt(R (1 - R)), R = 1 - C(F, k) / C(G, k); 0 where
    R is 0 or 1, that is, in groups that are all wrong or have fewer than k wrong. Defined for rewards 0 and 1.
    """
    check_whole("k", k, 1)

    def weight(rollouts: Rollouts) -> Array:
        missed, others_missed = miss_chance(rollouts, k)
        variance = missed * (1 - missed)
        return masked(others_missed / array_namespace(missed).sqrt(or_one(variance)), variance > 0)

    return weighing(weight, "binary")


@register("fade:pass-at-k-chen", "C(F-1,k-1)/C(G-1,k-1) (r_i - p) / sqrt(R (1 - R)), R = 1 - C(F,k)/C(G,k)")
def pass_at_k_chen(k: int = 4) -> Estimator:
    """Chen et al.'s analytic pass@k: A = (1 - R) / sigma on success, a smaller value on failure; for rewards 0 and 1.

    At ``k`` 1 it is GRPO with eps 0. Groups that are all right, all wrong or a single rollout get 0, and so do all
    groups with fewer than k wrong rollouts, where pass@k is certain.

    >>> simlab.advantages("pass_at_k_chen", np.array([1.0, 0.0, 0.0, 0.0]), k=2)
    array([ 1.        , -0.33333333, -0.33333333, -0.33333333])
    """
    return chain(center("mean"), divide_by_pass_at_k_std(k))


@register("fade:mix", "p A_pass@k + (1 - p) A_pass@1")
def mix(k: int = 4) -> Estimator:
    """Mix of pass@1 and pass@k by the solve rate p, both of Chen et al.; for rewards 0 and 1.

    At ``k`` 1 it is GRPO with eps 0. Groups that are all right, all wrong or a single rollout get 0.

    >>> simlab.advantages("mix", np.array([1.0, 0.0, 0.0, 0.0]), k=2).round(4)
    array([ 1.549 , -0.5163, -0.5163, -0.5163])
    """
    pass_at_1, pass_at_k = divide_by_pass_at_k_std(1), divide_by_pass_at_k_std(k)

    def blend(advantages: Array, rollouts: Rollouts) -> Array:
        p = solve_rate(rollouts)
        single, _ = pass_at_1.update(advantages, rollouts, ())
        best, _ = pass_at_k.update(advantages, rollouts, ())
        return p * best + (1 - p) * single

    return chain(center("mean"), stateless(blend, domain="binary", exchangeable=True))


def lose_one() -> Link:
    """max(r) - max(r without i), the best of an empty group being 0 ``[fade:pass-at-k-tang]``."""

    def lose(advantages: Array, rollouts: Rollouts) -> Array:
        others = highest_other(advantages, rollouts)
        is_best = advantages >= others
        return masked(advantages - masked(others, array_namespace(others).isfinite(others)), is_best)

    return stateless(lose, exchangeable=True)


@register("fade:pass-at-k-tang", "max(r) - max(r without i)")
def pass_at_k_tang() -> Estimator:
    """Tang et al.'s pass@k with k = G: A = max(r) - max(r without i), non-zero only where a single rollout is best.

    Groups of equal rewards get 0, but a single rollout gets its reward, the best of an empty group being 0.

    >>> simlab.advantages("pass_at_k_tang", np.array([1.0, 0.0, 0.0, 0.0]))
    array([1., 0., 0., 0.])
    """
    return chain(lose_one())


SUBSET_BASELINES = ("none", "leave_one_out")


def best_of_subsets(k: int, baseline: str) -> Link:
    """G times PKPO's unbiased weight of rollout i for the expected best of k ``[fade:pkpo]``.

    ``"none"``: G / C(G, k) times the sum of max_I r over the k-subsets I that hold i.
    ``"leave_one_out"``: the same sum of max_I r - max_(I without i) r, the best of nobody being 0; the rollouts of a
    group of size k > 1 with equal rewards get exactly 0. Times G, because losses average over rollouts: the mean
    of A grad log pi is then an unbiased gradient of the expected best of k.
    """
    check_whole("k", k, 1)
    check_choice("baseline", baseline, SUBSET_BASELINES)

    def transform(advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(advantages)
        ordered, ranks = sort_with_ranks(advantages, rollouts.mask)
        best, other_best = _subset_weights(rollouts, k)
        if baseline == "leave_one_out":
            # Summed by parts, so that equal rewards add exactly 0.
            below = xp.concat([xp.zeros_like(ordered[..., :1]), ordered[..., :-1]], axis=-1)
            result = xp.cumulative_sum(best * (ordered - below), axis=-1)
        else:
            above = xp.flip(xp.cumulative_sum(xp.flip(other_best * ordered, axis=-1), axis=-1), axis=-1)
            result = best * ordered + above - other_best * ordered
        return xp.take_along_axis(result, ranks, axis=-1)

    return stateless(transform, exchangeable=True)


def _subset_weights(rollouts: Rollouts, k: int) -> tuple[Array, Array]:
    """Weights of the j-th smallest reward: G C(j - 1, k - 1) / C(G, k) and G C(j - 2, k - 2) / C(G, k), each (P, G).

    The binomials count the k-subsets in which it is the best reward, and those among them that hold one particular
    smaller reward. The first weight is a product of quotients from the largest reward down: at j = G it is k, and each
    step from j + 1 to j multiplies by (j - k + 1) / j. For G = 4, k = 2: 0, 2/3, 4/3, 2 for j = 1, 2, 3, 4.
    """
    xp = array_namespace(rollouts.rewards)
    count, j = group_count(rollouts), _positions(rollouts)
    size = xp.where(count < k, count, k * xp.ones_like(count))
    factor = (j - size + 1) / j
    factor = xp.where(j < count, masked(factor, factor > 0), xp.ones_like(factor))
    best = size * xp.flip(xp.cumulative_prod(xp.flip(factor, axis=-1), axis=-1), axis=-1)
    best = masked(best, j <= count)
    return best, best * (size - 1) / or_one(j - 1)


@register("fade:pkpo", "G / C(G,k) sum over k-subsets I with i of max_I r - max_(I without i) r")
def pkpo(k: int = 4, baseline: str = "leave_one_out") -> Estimator:
    """PKPO: the unbiased weight of pass@k, from all k-subsets of the group; the best of k for graded rewards.

    At ``k`` 1 it is REINFORCE; at ``k`` = G with its baseline, G times Tang et al.'s pass@k. Groups of equal rewards r
    get 0 with the baseline if k > 1 (a single rollout, and any at k = 1, gets r), and min(k, G) r with
    ``baseline="none"``.

    >>> simlab.advantages("pkpo", np.array([1.0, 0.0, 0.0, 0.0]), k=2)
    array([2., 0., 0., 0.])
    """
    return chain(best_of_subsets(k, baseline))

"""Estimators that follow another policy than the sampler: a teacher, or the sampler itself at another temperature."""

from array_api_compat import array_namespace

from simlab.errors import check_range, check_ranges
from simlab.estimators.base import Estimator, Link, chain, clamp, present_rollouts, read_tokens, stateless
from simlab.estimators.registry import register
from simlab.rollouts import Array, Rollouts, Scalar, group_count, is_uniform, masked, or_one, remainder


def follow_teacher(gamma: Scalar = 0.0, bound: Scalar = 10.0) -> Link:
    """Give each token (1 + gamma (1 - what came before)) d, d = log pi_T - log pi: see ``opd``."""
    check_range("gamma", gamma, 0)
    check_range("bound", bound, 0, open_low=True)

    def distil(advantages: Array, rollouts: Rollouts) -> Array:
        logp, _ = read_tokens(rollouts, "old_logp")
        teacher, _ = read_tokens(rollouts, "teacher_logp")
        xp, gap = array_namespace(logp), clamp(teacher - logp, -bound, bound)
        size = xp.abs(gap)
        total = xp.sum(size, axis=-1, keepdims=True)
        before = (xp.cumulative_sum(size, axis=-1) - size) / or_one(total)
        return gap * (1 + gamma * (1 - before))

    return stateless(distil, needs=frozenset({"old_logp", "teacher_logp"}), exchangeable=True)


@register("arxiv:2306.13649", "(1 + gamma (1 - sum_{s<t} |d_s| / sum_s |d_s|)) d_t, d = log pi_T - log pi")
def opd(gamma: Scalar = 0.0, bound: Scalar = 10.0) -> Estimator:
    """On-policy distillation: each token's advantage is how much likelier a teacher holds it; rewards are not read.

    The mean update of a token is minus the gradient of KL(pi || pi_T) at its context. As verl's distillation with a
    policy gradient of k1 (``verl/trainer/distillation/losses.py``, verl-project/verl at 1dda039, 22 August 2026), which
    bounds d by 10, and which names arXiv 2306.13649. With ``gamma`` .5 it is the importance-weighted form of TRL
    (``trl/experimental/iw_opd``, huggingface/trl at f2cd577, 24 July 2026), whose early tokens weigh more and whose d
    has no bound. In the simulator the teacher is the start whose correct answers were made likelier, see ``teacher`` of
    ``simlab.simulator.settings.Settings``.

    >>> logp, teacher = np.log([[0.5, 0.5]]), np.log([[0.25, 1.0]])
    >>> simlab.advantages("opd", np.array([0.0]), old_logp=logp, teacher_logp=teacher, gamma=0.5).round(4)
    array([[-1.0397,  0.8664]])
    """
    return chain(follow_teacher(gamma, bound))


def weigh_by_escort(beta: Scalar, eps: Scalar) -> Link:
    """Rewards less their weighed mean, over their weighed std, times G w: see ``tempered_grpo``."""
    check_ranges(0, beta=beta, eps=eps)

    def weigh_each(rewards: Array, rollouts: Rollouts) -> Array:
        xp, present = array_namespace(rewards), present_rollouts(rollouts)
        logp, here = read_tokens(rollouts, "old_logp")
        count = xp.sum(here, axis=-1)
        shortest = xp.min(xp.where(present, count, xp.full_like(count, xp.inf)), axis=-1, keepdims=True)
        within = (here > 0) & (xp.cumulative_sum(here, axis=-1) <= shortest[..., None])
        tilt = (beta - 1) * xp.sum(masked(logp, within), axis=-1)
        tilt = xp.where(present, tilt, xp.full_like(tilt, -xp.inf))
        highest = xp.max(tilt, axis=-1, keepdims=True)
        weight = xp.exp(tilt - masked(highest, xp.isfinite(highest)))
        weight = weight / or_one(xp.sum(weight, axis=-1, keepdims=True))
        # From the reward of the likeliest on, so that its own small distance from the mean keeps its digits.
        likeliest = present & (tilt >= highest)
        origin = xp.max(xp.where(likeliest, rewards, xp.full_like(rewards, -xp.inf)), axis=-1, keepdims=True)
        above = masked(rewards - origin, present)
        centered = above - xp.sum(weight * above, axis=-1, keepdims=True)
        freedom = remainder(xp.sum(weight**2, axis=-1, keepdims=True))
        freed = freedom > xp.finfo(rewards.dtype).eps
        squares = xp.sum(weight * centered**2, axis=-1, keepdims=True)
        std = xp.sqrt(squares / xp.where(freed, freedom, xp.ones_like(freedom)))
        spread = masked(std, freed) + eps
        scaled = group_count(rollouts) * weight * centered / or_one(spread)
        return masked(scaled, ~is_uniform(rollouts) & (spread > 0))

    return stateless(weigh_each, needs=frozenset({"old_logp"}), exchangeable=True)


@register("github:bandit-rlvr", "G w_i (r_i - sum(w r)) / weighed std, w = softmax((beta - 1) log pi) over the group")
def tempered_grpo(beta: Scalar = 1.5, eps: Scalar = 1e-6) -> Estimator:
    """Tempered GRPO: GRPO of the policy at another temperature, by weights of the rollouts of the one that sampled.

    ``TEMPERED_GRPO_ENABLE`` of Rocky18919975029/bandit-RLVR (``examples/grpo_trainer/README.md``, 3f729c4). log pi is
    that of the first T tokens, T the shortest rollout of the group: there without its last token where that ends the
    answer. The weighed std is sqrt(sum w (r - mean)^2 / (1 - sum w^2)). Above 1 ``beta`` sharpens: likely rollouts
    weigh more. That code takes 1.0033, which leaves whole answers of a 7B model an effective group of half its size; at
    1 it is GRPO with ``ddof`` 1. Groups of equal rewards get 0.

    >>> logp = np.log([[0.5], [0.25], [0.25]])
    >>> simlab.advantages("tempered_grpo", np.array([1.0, 0.0, 0.0]), old_logp=logp, beta=2.0, eps=0.0).round(4)
    array([ 1.1859, -0.5929, -0.5929])
    """
    return chain(weigh_by_escort(beta, eps))

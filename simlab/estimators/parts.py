"""Estimators for rewards in several parts, and for the roles of several players."""

from array_api_compat import array_namespace

from simlab.errors import check_choice, check_range, check_whole
from simlab.estimators.base import Estimator, Link, chain, present_rollouts, shape_rewards, stateless
from simlab.estimators.batch import divide_by_batch_std, reinforce_pp
from simlab.estimators.links import center, divide_by_std_of_others
from simlab.estimators.named import grpo
from simlab.estimators.registry import register
from simlab.rollouts import Array, Rollouts, Scalar, group_count, masked, needed, or_one, present_parts

# Parts

CODES = ("trl", "verl", "nemo_rl")


def weigh_parts(inner: Estimator, rollouts: Rollouts) -> Array:
    """Weighted sum of the advantages that ``inner``, which has no memory, gives for each part alone, (P, G)."""
    parts, present, weights = needed(rollouts, "parts"), present_parts(rollouts), rollouts.part_weights
    total = None
    for index in range(parts.shape[2]):
        mask = present[..., index]
        advantages, _ = inner.update(Rollouts(parts[..., index], mask=mask), inner.init())
        if weights is not None:
            advantages = masked(weights[..., index], mask) * advantages
        total = advantages if total is None else total + advantages
    return total


def keep_single(inner: Estimator, eps: Scalar) -> Estimator:
    """Add what verl gives to a reward without another in its group, r / (1 + eps), to what ``inner`` gives."""

    def keep(rewards: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(rewards)
        advantages, _ = inner.update(rollouts, inner.init())
        return xp.where(group_count(rollouts) > 1, advantages, rewards / (1 + eps))

    return chain(stateless(keep, exchangeable=True))


@register("arxiv:2601.05242", "(z_i - mean of the batch) / std of the batch, z_i = sum of w_k GRPO(part k of r_i)")
def gdpo(code: str = "trl") -> Estimator:
    """GDPO: GRPO of each part of the reward alone, their weighted sum, normalised over the batch.

    arXiv 2601.05242. A missing part adds nothing, and is left out of its mean and std. In ``code`` trainers differ:

    - ``trl`` (TRL 1.16, ``trl/trainer/grpo_trainer.py``, and the paper's own): sample stds, 1e-4 added to each;
    - ``verl`` (verl-project/verl at 1dda039, 22 August 2026, ``verl/trainer/ppo/core_algos.py``): sample stds, 1e-6
      added to that of a group, 1e-8 to the variance of the batch. A group of one keeps its reward;
    - ``nemo_rl`` (NVIDIA-NeMo/RL at 7ea279a, 22 August 2026, ``nemo_rl/algorithms/advantage_estimator.py``):
      mean and sample std of the other rollouts (``divide_by_std_of_others``), and a sample std of the batch to which
      nothing is added.

    Each agrees to 4 units in the last place of the batch's largest advantage, in float32 as in float64; NeMo-RL, whose
    std comes from squares, to as many times more as its subtraction loses. Not to the last bit: trainers differ by two
    such units from exact arithmetic themselves, add in an order that is torch's own, and subtract a mean once, where
    here it is subtracted twice so that advantages sum to 0.

    verl counts each token in the batch's mean and std; here each rollout counts once, which is the same where all are
    equally long. A part of equal rewards gets exactly 0, where they leave rounding over eps. A batch of equal sums z
    gets 0; a group of equal rewards in another batch does not. Of a single reward it is GRPO, normalised once more.

    >>> simlab.advantages("gdpo", parts=np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]), weights=[1.0, 0.2]).round(4)
    array([[ 1.1338, -0.3779, -0.7558]])
    """
    check_choice("code", code, CODES)
    if code == "trl":
        inner, outer = grpo(1, 1e-4), reinforce_pp(1, 1e-4)
    elif code == "verl":
        inner, outer = keep_single(grpo(1, 1e-6), 1e-6), chain(center("batch_mean"), divide_by_batch_std(1, 0.0, 1e-8))
    else:
        inner, outer = chain(center("leave_one_out"), divide_by_std_of_others()), reinforce_pp(1, 0.0)

    def sum_of_parts(rollouts: Rollouts) -> Array:
        return weigh_parts(inner, rollouts)

    return chain(shape_rewards(sum_of_parts, outer, needs=frozenset({"parts"}), exchangeable=True))


# Roles

MOST_ROLES = 64


def center_by_role(decay: Scalar = 0.95, roles: int = 2) -> Link:
    """Subtract the running mean of the rollout's role, over the batches before: see ``rae``."""
    check_range("decay", decay, 0, 1)
    check_whole("roles", roles, 1, MOST_ROLES)

    def subtract(advantages: Array, rollouts: Rollouts, state: tuple[Scalar, ...]) -> tuple[Array, tuple[Scalar, ...]]:
        xp, role = array_namespace(advantages), needed(rollouts, "role")
        baselines, following = xp.zeros_like(advantages), []
        for number, before in enumerate(state):
            plays = (role - roles * xp.floor(role / roles) == number) & present_rollouts(rollouts)
            count = xp.sum(xp.astype(plays, advantages.dtype))
            mean = xp.sum(masked(advantages, plays)) / or_one(count)
            baseline = xp.zeros_like(mean) + before
            baselines = xp.where(plays, baseline, baselines)
            following.append(xp.where(count > 0, decay * baseline + (1 - decay) * mean, baseline))
        return advantages - baselines, tuple(following)

    return Link(subtract, lambda: (0.0,) * roles, frozenset({"role"}), exchangeable=True)


@register("arxiv:2506.24119", "r_i - b_k, k the role of i, b_k a running mean of its rewards in the batches before")
def rae(decay: Scalar = 0.95, roles: int = 2) -> Estimator:
    """RAE: REINFORCE with a running mean of past batches for each role; of ``roles`` k, role k + 2 is role 0 of two.

    Role-conditioned advantage estimation, SPIRAL (arXiv 2506.24119): players of a game win unequally often. Its code
    (spiral-rl/spiral at a02d0ed, 15 July 2025, ``train_spiral.py``) subtracts the mean before it learns of the game,
    as here; the paper prints the two the other way round, which for a single game multiplies the advantage by
    ``decay``. The code moves the mean game by game, here a batch does at once. In the simulator the role is the number
    of the prompt. Groups of equal rewards r get r - b.

    >>> simlab.advantages("rae", np.array([1.0, 0.0]), role=np.array([0.0, 1.0]))
    array([1., 0.])
    """
    return chain(center_by_role(decay, roles))

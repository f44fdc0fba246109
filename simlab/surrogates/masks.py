"""Surrogates that leave out tokens or whole rollouts where the policy has moved too far from the sampler.

Each is ratio A, or PPO's clip, times a mask of 0 and 1 under a stop-gradient. Unlike PPO's clip, those of tokens bound
the probability itself: a token of probability .001 may double, one of .6 may not.
"""

from array_api_compat import array_namespace

from simlab.errors import check_range, check_ranges
from simlab.rollouts import Array, Rollouts, Scalar, masked, needed
from simlab.surrogates.base import Surrogate, log_ratio, mean_log_ratio
from simlab.surrogates.clip import check_order, ppo_clip, product

SMALLEST = 1e-8  # of the probability of all other tokens, as in verl: rounding may leave less than 0


def _old_logp(rollouts: Rollouts) -> Array:
    """log pi_old of each sampled token, at most 0: what stands where no token exists is not to overflow."""
    old_logp = needed(rollouts, "old_logp")
    xp = array_namespace(old_logp)
    return xp.minimum(old_logp, xp.zeros_like(old_logp))


def _change(ratio: Array, rollouts: Rollouts) -> Array:
    """pi - pi_old of each sampled token: its sign is the direction, its size the total variation of taken or not."""
    return array_namespace(ratio).exp(_old_logp(rollouts)) * (ratio - 1)


def dppo_tv(delta_low: Scalar = 0.2, delta_high: Scalar = 0.2) -> Surrogate:
    """DPPO with total variation: ratio A, and 0 where sign(A) (pi - pi_old) > delta (arXiv 2602.04879).

    delta is ``delta_high`` for A > 0 and ``delta_low`` for A < 0; from 1 up it is ``unclipped``.

    As ``default_loss_fn`` in ``src/prime_rl/trainer/rl/loss.py`` of PrimeIntellect-ai/prime-rl (559b447, August 2026),
    with its bounds; it adds ``log_ratio_penalty``. ``loss_mode=dppo_tv`` of verl (1dda039) caps the ratio at will, and
    its script sets .15.
    """
    check_ranges(0, delta_low=delta_low, delta_high=delta_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        change = _change(ratio, rollouts)
        dropped = ((advantages > 0) & (change > delta_high)) | ((advantages < 0) & (change < -delta_low))
        return masked(product(ratio, advantages), ~dropped)

    return Surrogate(coefficient, frozenset({"old_logp"}), exchangeable=True)


def dppo_kl(delta_low: Scalar = 0.05, delta_high: Scalar = 0.05) -> Surrogate:
    """DPPO with KL: ratio A, and 0 where A led a token away by more than delta of KL (arXiv 2602.04879).

    That is KL(pi_old || pi) of the token's being taken or not, p log(p / q) + (1 - p) log((1 - p) / (1 - q)). delta is
    ``delta_high`` for A > 0 and ``delta_low`` for A < 0; a token on the other side of pi_old is never dropped. A delta
    that is never reached leaves ``unclipped``.

    As ``loss_mode=dppo_kl`` of verl (1dda039, August 2026), with the bounds of its script, which raises the cap of the
    ratio, 20, out of reach; here there is none. ``dppo_binary_kl_recompute`` of sail-sg/Stable-RL has the same mask.
    """
    check_ranges(0, delta_low=delta_low, delta_high=delta_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp, old_logp = array_namespace(ratio), _old_logp(rollouts)
        change, floor = _change(ratio, rollouts), xp.full_like(ratio, SMALLEST)
        others = xp.maximum(-xp.expm1(old_logp), floor)
        kl = others * xp.log(others / xp.maximum(others - change, floor)) - xp.exp(old_logp) * log_ratio(ratio)
        above = (advantages > 0) & (change > 0) & (kl > delta_high)
        below = (advantages < 0) & (change < 0) & (kl > delta_low)
        return masked(product(ratio, advantages), ~(above | below))

    return Surrogate(coefficient, frozenset({"old_logp"}), exchangeable=True)


def ipo_mask(delta: Scalar = 0.1) -> Surrogate:
    """IPO of prime-rl: ratio A, and 0 where abs(pi - pi_old) > delta, whatever the sign of A.

    A symmetric trust region: a token that has left it is not led back by its advantage either. From a delta of 1 up it
    is ``unclipped``. It has nothing of the preference loss of that name.

    As ``ipo_loss_fn`` in ``src/prime_rl/trainer/rl/loss.py`` of PrimeIntellect-ai/prime-rl (559b447, August 2026), with
    its bound; it adds ``log_ratio_penalty``. No paper is named there.
    """
    check_range("delta", delta, 0)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        change = array_namespace(ratio).abs(_change(ratio, rollouts))
        return masked(product(ratio, advantages), ~(change > delta))

    return Surrogate(coefficient, frozenset({"old_logp"}), exchangeable=True)


def opsm(delta: Scalar = 1e-4, eps_low: Scalar = 0.2, eps_high: Scalar = 0.2) -> Surrogate:
    """Off-policy sequence masking: ``ppo_clip``, and 0 where A < 0 and mean_t log(pi_old / pi) > delta.

    A failure that has become unlikely teaches no more; a success always does (DeepSeek-V3.2, arXiv 2512.02556, Eq. 9).
    A delta that is never reached leaves ``ppo_clip``.

    As ``compute_opsm_mask`` in ``slime/utils/ppo_utils.py`` of THUDM/slime (624b824, August 2026), whose default is
    1e-4, and ``off_policy_mask_threshold`` of TRL 1.16, whose example is .5. Both were read, the paper was not.
    """
    check_range("delta", delta, 0)
    inner = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        fallen = -mean_log_ratio(ratio, rollouts) > delta
        return masked(inner.coefficient(ratio, advantages, rollouts), ~((advantages < 0) & fallen))

    return Surrogate(coefficient, exchangeable=True)


def sequence_mask(low: Scalar = 0.999, high: Scalar = 1.002) -> Surrogate:
    """Sequence mask: ratio A of each token, and 0 unless exp(mean_t log ratio) of its rollout is in [low, high].

    Where GSPO puts the geometric mean in the ratios' place, here it decides alone. At low = 0 and a high that is never
    reached it is ``unclipped``.

    As ``seq-mask-tis`` in ``nemo_rl/algorithms/loss/loss_functions.py`` of NVIDIA-NeMo/RL (7ea279a, August 2026), with
    the bounds that it names, and in ``openrlhf/models/loss.py`` of OpenRLHF (3c3be62). Both take the ratio of the
    trainer to its inference engine, here it is that of pi to the sampler.
    """
    check_ranges(0, low=low, high=high)
    check_order(low, high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        mean = array_namespace(ratio).exp(mean_log_ratio(ratio, rollouts))
        return masked(product(ratio, advantages), ~((mean < low) | (mean > high)))

    return Surrogate(coefficient, exchangeable=True)

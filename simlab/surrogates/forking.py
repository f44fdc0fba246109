"""A surrogate that learns from tokens of high entropy alone, where a response forks."""

from array_api_compat import array_namespace

from simlab.errors import check_range
from simlab.order_statistics import lower_quantile
from simlab.rollouts import Array, Rollouts, Scalar, needed, token_weights
from simlab.surrogates.base import Surrogate
from simlab.surrogates.clip import clip_higher


def is_forking(rollouts: Rollouts, share: Scalar) -> Array:
    """Where fewer than ``share`` of all tokens of the batch have a higher entropy, (P, G, T).

    Of n tokens these are the ceil(share n) of highest entropy, and all that tie with the last of them.
    """
    entropy = needed(rollouts, "entropy")
    xp = array_namespace(entropy)
    present = token_weights(entropy, rollouts) > 0
    lowest_first = xp.reshape(-entropy, (-1,))
    return present & (-entropy <= lower_quantile(lowest_first, share, xp.reshape(present, (-1,))))


def forking_tokens(share: Scalar = 0.2, eps_low: Scalar = 0.2, eps_high: Scalar = 0.28) -> Surrogate:
    """The forking-token mask: ``clip_higher``, and nothing for tokens outside the top ``share`` by entropy.

    "Beyond the 80/20 rule", arXiv 2506.01939: the tokens are ranked over the whole batch that the surrogate is given.
    At share = 1 it is ``clip_higher``. Where all tokens of a prompt have one entropy, as in a simulation of single
    tokens, whole prompts are dropped. Averaged over all tokens (``"token_mean"``), as DAPO does, those that are dropped
    count in the divisor.

    Differences: the paper and TRL 1.16 (``top_entropy_quantile``) rank by the entropy under the policy that is being
    updated, here it is that of the policy at the start of the step; TRL interpolates the quantile, and may so keep one
    token fewer; the paper ranks each micro-batch by itself.

    Raises:
        InputError: for ``share`` outside [0, 1], a negative bound, or ``eps_low`` above 1.
    """
    check_range("share", share, 0, 1)
    inner = clip_higher(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
        xp = array_namespace(ratio)
        values = inner.coefficient(ratio, advantages, rollouts)
        return xp.where(is_forking(rollouts, share), values, xp.zeros_like(values))

    return Surrogate(coefficient, frozenset({"entropy"}), exchangeable=True)

"""CaSP: a surrogate that moves the likeliest candidates beside the sampled token."""

from typing import NamedTuple

from array_api_compat import array_namespace

from simlab.errors import InputError, check_choice, check_range, check_whole
from simlab.order_statistics import lower_quantile
from simlab.rollouts import Array, Rollouts, Scalar, needed, token_weights
from simlab.surrogates.base import Schedule, Surrogate, scheduled
from simlab.surrogates.clip import ppo_clip

TIE = 1e-6  # nats, the rounding of a log-probability that was computed twice
CANDIDATE_WEIGHTS = ("uniform", "proportional")


class BatchCount(NamedTuple):
    """Number of batches so far, with the present one."""

    number: Scalar = 0.0


def is_uncertain(rollouts: Rollouts, q: Scalar) -> Array:
    """True where the entropy exceeds the q-quantile of the response, (P, G, T): everywhere at q = 0, nowhere at 1."""
    entropy = needed(rollouts, "entropy")
    present = token_weights(entropy, rollouts) > 0
    return present & (entropy > lower_quantile(entropy, q, present))


def casp(
    alpha: Scalar = 0.01,
    candidates: int = 3,
    quantile: Scalar = 0.8,
    top_penalty: Scalar = 1.1,
    *,
    weights: str = "uniform",
    warm_up: int = 0,
    eps_low: Scalar = 0.2,
    eps_high: Scalar = 0.2,
) -> Surrogate:
    """CaSP on top of ``ppo_clip``: part of a success goes to the likeliest candidates, failures at the top cost more.

    At tokens whose entropy exceeds the ``quantile`` of their response: where A > 0, the sampled token gets
    (1 - alpha) ratio A and candidate n gets alpha w_n ratio A ``[casp:eq-4]``, the gradient of
    (1 - alpha) ratio + alpha sum_n w_n sg(ratio / ratio_n) ratio_n; where A < 0 and the sampled token is the likeliest
    candidate, its ratio is multiplied by ``top_penalty`` ``[casp:eq-5]``, also in the clip. w_n is 1 / N, or
    p_n / sum(p) over the N candidates (``"proportional"``, ``[casp:app-f.3]``). The defaults are those for mathematics;
    logic takes alpha .005, top_penalty 1.05, ``eps_high`` .28 and ``warm_up`` 50, code .05 and 1.1.

    During the first ``warm_up`` batches it is ``ppo_clip``: the 50-step GRPO warm-up of the logic tasks, in the
    appendix that sets alpha as well ``[casp:app-e-1-alpha]``. A step is read as a batch; the paper says no more of it.
    """
    check_range("alpha", alpha, 0, 1)
    check_whole("candidates", candidates, 1)
    check_range("quantile", quantile, 0, 1)
    check_range("top_penalty", top_penalty, 0)
    check_choice("weights", weights, CANDIDATE_WEIGHTS)
    check_whole("warm_up", warm_up, 0)
    inner = ppo_clip(eps_low, eps_high)

    def coefficient(ratio: Array, advantages: Array, rollouts: Rollouts, is_on: Array = True) -> Array:
        xp = array_namespace(ratio)
        gate, zero = is_uncertain(rollouts, quantile) & is_on, xp.zeros_like(ratio)
        is_top = needed(rollouts, "old_logp") >= needed(rollouts, "topn_logp")[..., 0] - TIE
        penalised = gate & (advantages < 0) & is_top
        clipped = inner.coefficient(xp.where(penalised, ratio * top_penalty, ratio), advantages, rollouts)
        spread = xp.where(gate & (advantages > 0), clipped * alpha, zero)[..., None]
        return xp.concat([clipped[..., None] - spread, spread * _shares(rollouts, candidates, weights)], axis=-1)

    reads = frozenset({"old_logp", "entropy", "topn_logp"})
    if not warm_up:
        return Surrogate(coefficient, reads, candidates, exchangeable=True)

    def at(state: BatchCount) -> Surrogate:
        is_on = BatchCount(*state).number > warm_up

        def as_now(ratio: Array, advantages: Array, rollouts: Rollouts) -> Array:
            return coefficient(ratio, advantages, rollouts, is_on)

        return Surrogate(as_now, reads, candidates, exchangeable=True)

    return scheduled(Schedule(BatchCount, lambda rollouts, state: BatchCount(BatchCount(*state).number + 1), at))


def _shares(rollouts: Rollouts, candidates: int, weights: str) -> Array:
    """w_n of each candidate, (P, G, T, N), summing to 1."""
    logp = needed(rollouts, "topn_logp")
    if logp.shape[-1] < candidates:
        raise InputError(f"topn_logp holds {logp.shape[-1]} candidates; allowed: at least {candidates}")
    xp = array_namespace(logp)
    logp = logp[..., :candidates]
    if weights == "uniform":
        return xp.ones_like(logp) / candidates
    p = xp.exp(logp - xp.max(logp, axis=-1, keepdims=True))
    return p / xp.sum(p, axis=-1, keepdims=True)

"""Masses of the sign-biased estimators: m_S differs from m_F for rewards 0 and 1."""

import math

import numpy as np

from simlab.errors import InputError, check_range
from simlab.estimators import Estimator
from simlab.theory.closed_forms.balanced import at_most_all, grpo_mass
from simlab.theory.closed_forms.base import Group, Pair, Values, base_masses, form, ratio


@form("p", "0")
def reinforce(group: Group) -> Pair:
    """``[fade:reinforce]``."""
    return group.p, group.zero


@form("p (1 - initial)", "q initial")
def running_mean(group: Group, decay: float, initial: float) -> Pair:
    """``[fade:running-mean]`` in a first batch, which ``decay`` does not reach."""
    return group.p * (1 - initial), group.q * initial


@form("p (q - delta)", "q (p + delta)")
def asym_rl(group: Group, delta: float) -> Pair:
    """``[fade:asym-rl]``."""
    return group.p * (group.q - delta), group.q * (group.p + delta)


@form("w(p) (1 + penalty) p q/((1 + penalty) std + eps), at equal lengths", "the same with w(q)")
def grpo_lead(
    group: Group,
    alpha: float,
    penalty: float,
    *,
    low: float,
    high: float,
    midpoint: float,
    steepness: float,
    ddof: int,
    eps: float,
) -> Pair:
    """``[arxiv:2504.09696]``, w(p) = low + (high - low)/(1 + exp(steepness (p - midpoint)))."""

    def logistic(p: Values) -> Values:
        weight: Values = low + (high - low) * (1 - np.tanh(steepness * (p - midpoint) / 2)) / 2
        return weight

    gap = 1 + penalty
    mass = ratio(gap * group.p * group.q, gap * group.std(ddof) + eps)
    return logistic(group.p) * mass, logistic(group.q) * mass


@form("p 1[p <= 1 - tau]", "q 1[p > 1 - tau]")
def quantile(group: Group, tau: float) -> Pair:
    """``[fade:quantile]``; 0 at p 0 and 1.

    FADE prints 1[p <= tau] and 1[p > tau]: those are the masses of the (1 - tau)-quantile.
    """
    solved = group.q < max(tau, 1 / group.size) - group.slack  # the quantile is a success
    return np.where(solved, 0.0, group.p) * group.mixed, np.where(solved, group.q, 0.0) * group.mixed


@form("p 1[p <= 1/2]", "q 1[p > 1/2]")
def mc_grpo(group: Group, scale: str, eps: float) -> Pair:
    """``[fade:mc-grpo]``: the quantile at 1/2. The MAD is 0, so that ``scale="mad"`` divides by ``eps``, or gives 0."""
    success, failure = quantile(group, 0.5)
    divisor = np.full_like(group.p, eps if scale == "mad" else 1.0)
    return ratio(success, divisor), ratio(failure, divisor)


@form("p q^alpha_success", "p^alpha_failure q")
def asym_power(group: Group, alpha_success: float, alpha_failure: float) -> Pair:
    """``[fade:asym-power]``."""
    return group.p * group.q**alpha_success, group.p**alpha_failure * group.q


@form("p q", "p q/delta")
def asym_grpo(group: Group, delta: float) -> Pair:
    """``[fade:asym-grpo]``."""
    return group.p * group.q, group.p * group.q / delta


@form("factor m_GRPO", "m_GRPO")
def positive_dominant(group: Group, factor: float, ddof: int, eps: float) -> Pair:
    """``[a-grae:control-1]``."""
    mass = grpo_mass(group, ddof, eps)
    return factor * mass, mass


@form("m_GRPO/factor", "m_GRPO")
def negative_dominant(group: Group, factor: float, ddof: int, eps: float) -> Pair:
    """``[a-grae:control-1]``."""
    mass = grpo_mass(group, ddof, eps)
    return mass / factor, mass


@form("p q", "0")
def relu(group: Group) -> Pair:
    """``[fade:relu]``."""
    return group.p * group.q, group.zero


@form("p", "p (0 at p = 1)")
def binary_contrastive(group: Group) -> Pair:
    """``[fade:binary-contrastive]``; FADE prints p for both, but a solved group has no failure to put it on."""
    return group.p, np.where(group.p < 1, group.p, 0.0)


@form("p", "0")
def psr(group: Group) -> Pair:
    """``[fade:psr]``."""
    return group.p, group.zero


@form("0", "q")
def nsr(group: Group) -> Pair:
    """``[fade:nsr]``."""
    return group.zero, group.q


@form("success p", "q")
def w_reinforce(group: Group, success: float) -> Pair:
    """``[fade:w-reinforce]``."""
    return success * group.p, group.q


@form("min(1, p/alpha) m_F", "m_GRPO (sqrt(p) + sqrt(q))/2, in a batch of one group")
def a_grae(group: Group, alpha: float, easy_term: str, ddof: int, eps: float) -> Pair:
    """``[a-grae:eq-12]`` and ``[a-grae:eq-13]`` in a batch of this one group, whose mean reward is p.

    ``easy_term="code"`` puts q / (1 - sqrt(p) + 1e-6) for the sqrt(q) = q / sqrt(q) of the paper.
    """
    easy = np.sqrt(group.q) if easy_term == "paper" else 1 - np.sqrt(group.p) + 1e-6
    hardness = np.sqrt(group.p) / 2 + ratio(group.q, 2 * easy)
    mass = grpo_mass(group, ddof, eps) * hardness
    return mass * np.minimum(1, group.p / alpha), mass


@form(
    "p q^a, a = clip(3 (1 - c)/(2 c), 1, alpha_max), c = beta/2 + (1 - beta) p",
    "m_S/delta, delta = 1 unless a target entropy is set",
)
def fade(
    group: Group, *, alpha_max: float, delta_min: float, beta: float, target_entropy: float | None, baseline: str
) -> Pair:
    """``[fade:eq-11]`` after one update of the solve rate's average from 1/2, at entropy 0.

    Over a batch of one group, the mean of the group and of the batch (``baseline``) are one.
    """
    average = beta * 0.5 + (1 - beta) * group.p
    hardness = np.where(average > 0, ratio(3 * (1 - average), 2 * average), alpha_max)
    mass = group.p * group.q ** np.clip(hardness, 1, alpha_max)
    return mass, mass / min(max(1 - (target_entropy or 0.0), delta_min), 1)


@form("m_base scale e^(C - p)", "m_base scale e^(p - C), C = initial")
def ha_dw(group: Group, scale: float, decay: float, initial: float, base: str | Estimator) -> Pair:
    """``[fade:ha-dw]`` in a first batch, which ``decay`` does not reach.

    FADE prints q p for the failures of a Dr. GRPO base, as if only the successes were weighed. The exponent's sign is
    the advantage's: a base that punishes successes weighs them as failures.
    """
    success, failure = base_masses(group, base)
    gap = group.p - initial
    return scale * success * np.exp(-np.sign(success) * gap), scale * failure * np.exp(np.sign(failure) * gap)


@form("1[s = 1]/G", "0")
def pass_at_k_tang(group: Group) -> Pair:
    """``[fade:pass-at-k-tang]``, k being the group.

    FADE's k p q^(k - 1) is G times its expectation over groups drawn with success probability p.

    Raises:
        InputError: in the population limit: a p above 0 is then infinitely many successes and never a lone one.
    """
    if math.isinf(group.size):
        raise InputError("group_size = inf is not allowed for pass_at_k_tang, whose k is the group; allowed: finite")
    return np.where(np.rint(group.p * group.size) == 1, 1 / group.size, 0.0), group.zero


@form("p k C(F,k-1)/C(G-1,k-1)", "0")
def pkpo(group: Group, k: int, baseline: str) -> Pair:
    """``[fade:pkpo]``; k p q^(k - 1) and 0 in the population limit.

    With ``baseline="none"``, k p and -k q (1 - C(F - 1, k - 1) / C(G - 1, k - 1)): failures are reinforced as well.
    """
    k = at_most_all(group, k)
    if baseline == "leave_one_out":
        return k * group.p * group.all_wrong(k - 1, successes=1), group.zero
    return k * group.p, -k * group.q * (1 - group.all_wrong(k - 1, failures=1))


@form("p (l(p) - l((s - 1)/(G - 1)))", "q (l(s/(G - 1)) - l(p)), l(x) = log(1 + x (e^beta - 1))/beta")
def log_mean_exp(group: Group, beta: float) -> Pair:
    """``[fade:log-mean-exp]`` from its definition, lme(r) - lme(r without i); 0 at p 0 and 1, and as G -> infinity.

    FADE prints m_S = p e^beta / (p e^beta + q) and m_F = q / (p e^beta + q), which are softmax weights and not these
    differences: they do not vanish with G, nor as beta -> 0, where the definition gives RLOO / G.

    Raises:
        InputError: for ``beta`` above 700, where e^beta overflows.
    """
    check_range("beta", beta, 0, 700, open_low=True)
    rise, others = np.expm1(beta), max(group.size - 1, 1.0)
    share = 1 / group.size
    others_rate = ratio(np.maximum(group.p - share, 0), np.full_like(group.p, 1 - share))  # (s - 1) / (G - 1)
    success = np.log1p(rise * group.q / others / (1 + rise * others_rate)) / beta
    failure = np.log1p(rise * group.p / others / (1 + rise * group.p)) / beta
    return group.p * success * group.mixed, group.q * failure * group.mixed

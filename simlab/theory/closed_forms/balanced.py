"""Masses of the sign-balanced estimators: m_S = m_F for rewards 0 and 1."""

import numpy as np

from simlab.estimators import Estimator
from simlab.theory.closed_forms.base import Group, Pair, Values, balanced, base_masses, form, ratio


@form("p q")
def dr_grpo(group: Group) -> Pair:
    """``[fade:dr-grpo]``."""
    return balanced(group.p * group.q)


@form("p q, in a batch of this group")
def gpg(group: Group) -> Pair:
    """``[arxiv:2504.02546]``."""
    return balanced(group.p * group.q)


@form("p q, in a batch of this group")
def bnpo(group: Group, most: float) -> Pair:
    """``[arxiv:2506.02864]``: one group has no spread, and the density of Beta(1, 1) is 1."""
    return balanced(min(1.0, most) * group.p * group.q)


@form("p q, at equal lengths")
def opo(group: Group) -> Pair:
    """``[arxiv:2505.23585]``."""
    return balanced(group.p * group.q)


def grpo_mass(group: Group, ddof: int, eps: float) -> Values:
    """p q / (std + eps), std = sqrt(p q G / (G - ddof)): FADE's sqrt(p q) at ``ddof`` 0 and ``eps`` 0."""
    return ratio(group.p * group.q, group.std(ddof) + eps)


@form("p q/(std + eps)")
def grpo(group: Group, ddof: int, eps: float) -> Pair:
    """``[f-grpo:eq-3]``; the derivation is FADE's section 8.1."""
    return balanced(grpo_mass(group, ddof, eps))


@form("p q/(std + eps), in a batch of this group")
def reinforce_pp(group: Group, ddof: int, eps: float) -> Pair:
    """``[arxiv:2501.03262]``."""
    return balanced(grpo_mass(group, ddof, eps))


@form("p q/(std + eps), in a batch of this group")
def reinforce_pp_baseline(group: Group, ddof: int, eps: float) -> Pair:
    """``[arxiv:2501.03262]``."""
    return balanced(grpo_mass(group, ddof, eps))


@form("p q G/(G - 1)")
def rloo(group: Group) -> Pair:
    """``[fade:rloo]``; 0 for groups of one."""
    return balanced(group.std(1) ** 2)


@form("p q std")
def skew_r(group: Group, ddof: int) -> Pair:
    """``[fade:skew-r]``; FADE's p q sqrt(p q) at ``ddof`` 0."""
    return balanced(group.p * group.q * group.std(ddof))


@form("(p q)^(1 - gamma)")
def power_norm(group: Group, gamma: float) -> Pair:
    """``[fade:power-norm]``; 0 at p 0 and 1."""
    variance = group.p * group.q
    return balanced(ratio(variance, variance**gamma) * group.mixed)


@form("q (0 at p = 0)")
def maxrl(group: Group) -> Pair:
    """``[fade:maxrl]``."""
    return balanced(np.where(group.p > 0, group.q, 0.0))


@form("p q^alpha")
def power_alpha(group: Group, alpha: float) -> Pair:
    """``[fade:power-alpha]``."""
    return balanced(group.p * group.q**alpha)


@form("p^alpha q")
def easy_power(group: Group, alpha: float) -> Pair:
    """``[fade:easy-power]``."""
    return balanced(group.p**alpha * group.q)


@form("m_base q^gamma")
def f_grpo(group: Group, gamma: float, base: str | Estimator) -> Pair:
    """``[f-grpo:eq-13]``."""
    success, failure = base_masses(group, base)
    return success * group.q**gamma, failure * group.q**gamma


@form("m_base 1[p <= threshold]")
def reject_easy(group: Group, threshold: float, base: str | Estimator) -> Pair:
    """``[simlab:interference-speed]``."""
    success, failure = base_masses(group, base)
    accepted = group.p <= threshold + group.slack
    return np.where(accepted, success, 0.0), np.where(accepted, failure, 0.0)


@form("gamma m_GRPO/sqrt(p)")
def hard_focused(group: Group, gamma: float, ddof: int, eps: float) -> Pair:
    """``[a-grae:control-2]``; gamma sqrt(q) for a mixed group at ``ddof`` 0 and ``eps`` 0."""
    return balanced(gamma * ratio(grpo_mass(group, ddof, eps), np.sqrt(group.p)))


@form("gamma m_GRPO/sqrt(q)")
def easy_focused(group: Group, gamma: float, ddof: int, eps: float) -> Pair:
    """``[a-grae:control-2]``; gamma sqrt(p) for a mixed group at ``ddof`` 0 and ``eps`` 0."""
    return balanced(gamma * ratio(grpo_mass(group, ddof, eps), np.sqrt(group.q)))


@form("(1 - alpha) p q/((1 - alpha) std + eps), at equal lengths")
def t2t(group: Group, alpha: float, ddof: int, eps: float) -> Pair:
    """FADE's p q C / std(R), C = 1 - alpha p L_S - alpha q L_F, with every length L = 1 ``[fade:t2t]``."""
    gap = 1 - alpha
    return balanced(ratio(gap * group.p * group.q, gap * group.std(ddof) + eps))


@form("m_base, at equal log pi")
def cw_grpo(group: Group, scope: str, base: str | Estimator) -> Pair:
    """``[cw-grpo:kernel]``: equal log-probabilities have no covariance, in a group as in a batch (``scope``)."""
    return base_masses(group, base)


@form("m_base, at pi = 1")
def advantage_reweighting(group: Group, alpha: float, base: str | Estimator) -> Pair:
    """``[arxiv:2505.12929]``: log-probabilities of 0 make the factor 1, for any ``alpha``."""
    return base_masses(group, base)


@form("m_base, at entropy 0")
def aem(group: Group, strength: float, least_spread: float, base: str | Estimator) -> Pair:
    """``[arxiv:2605.00425]``: equal entropies leave the base as it is, for any ``strength``."""
    return base_masses(group, base)


@form("m_base, at entropy 0")
def entropy_advantage(group: Group, alpha: float, kappa: float, base: str | Estimator) -> Pair:
    """``[casp:entropy-adv]``: the bonus, at most ``alpha`` times the entropy and 0 for any ``kappa``, vanishes."""
    return base_masses(group, base)


def success_advantage(group: Group, k: int) -> Values:
    """Chen et al.'s A on success, sqrt((1 - R) / R), R = 1 - C(F, k) / C(G, k); 0 where R is 0 or 1."""
    missed = group.all_wrong(at_most_all(group, k))
    advantage: Values = np.sqrt(ratio(missed, 1 - missed))
    return advantage


def at_most_all(group: Group, k: int) -> int:
    """k, or G where the group is smaller."""
    return k if k < group.size else int(group.size)


@form("p sqrt((1 - R)/R), R = 1 - C(F,k)/C(G,k)")
def pass_at_k_chen(group: Group, k: int) -> Pair:
    """``[fade:pass-at-k-chen]``; R is 1 - q^k in the population limit."""
    return balanced(group.p * success_advantage(group, k))


@form("p (p A_k + q A_1), A_k = sqrt((1 - R)/R)")
def mix(group: Group, k: int) -> Pair:
    """``[fade:mix]``, A_k and A_1 being the advantages of a success under pass@k and pass@1."""
    return balanced(group.p * (group.p * success_advantage(group, k) + group.q * success_advantage(group, 1)))


def tilted(group: Group, beta: float) -> Values:
    """(e^beta - 1) p q / (1 + p (e^beta - 1)), both sides times e^-beta, so that a large ``beta`` does not overflow."""
    rise = -np.expm1(-beta)
    return ratio(rise * group.p * group.q, np.exp(-beta) + rise * group.p)


@form("(e^beta - 1) p q/((1 + p (e^beta - 1)) G)")
def softmax(group: Group, beta: float) -> Pair:
    """``[fade:softmax]``; FADE prints it without the 1 / G, as a sum over the group and not the mean."""
    return balanced(tilted(group, beta) / group.size)


@form("(e^beta - 1) p q/((1 + p (e^beta - 1)) beta)")
def rs_grpo(group: Group, beta: float) -> Pair:
    """``[fade:rs-grpo]``; p q as beta -> 0."""
    return balanced(tilted(group, beta) / beta)

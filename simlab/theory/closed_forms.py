"""The masses m_S and m_F of the named estimators in closed form, for rewards 0 and 1: ``CLOSED_FORMS`` lists them."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from simlab.errors import InputError, check_range, check_shares
from simlab.estimators import Estimator
from simlab.estimators.registry import REGISTRY, estimator
from simlab.order_statistics import MOST_SLACK, SLACK

Numbers = int | float | np.number | Shaped[np.ndarray, "*#shape"]
MassOfEach = np.float64 | Float[np.ndarray, "*shape"]
Values = Float[np.ndarray, " n"]
Pair = tuple[Values, Values]


@dataclass(frozen=True)
class ClosedForm:
    """The masses of one estimator, and both as text: ``masses(group, **parameters)`` takes a ``Group`` and every
    parameter of the estimator, under the estimator's names."""

    masses: Callable[..., Pair]
    success: str
    failure: str


def closed_form(
    name: str, p: Numbers, group_size: float = math.inf, **parameters: Any
) -> tuple[MassOfEach, MassOfEach]:
    """Masses m_S and m_F of a named estimator as functions of the solve rate ``[fade:masses]``.

    They are those of ``masses``: a fresh state, a batch of one group, log-probabilities and entropies of 0, and
    rollouts of equal length. ``p`` is a multiple of 1 / G in a finite group; G = infinity is the population limit.

    Raises: InputError: for an estimator (or base) without a closed form, a parameter, ``p`` or ``group_size`` outside
    its range.

    >>> closed_form("asym_grpo", np.array([0.0, 0.25, 0.5]), delta=0.5)
    (array([0.    , 0.1875, 0.25  ]), array([0.   , 0.375, 0.5  ]))
    """
    estimator(name, **parameters)
    form = _find_form(name)
    rates = np.asarray(p, dtype=np.float64)
    success, failure = form.masses(_group(rates, group_size), **(REGISTRY[name].parameters | parameters))
    # + 0.0 turns a -0. into 0.
    return (success.reshape(rates.shape) + 0.0)[()], (failure.reshape(rates.shape) + 0.0)[()]


@dataclass(frozen=True)
class Group:
    """Groups of one size at several solve rates p = s / G; where G is infinite, p is the probability of success."""

    p: Values
    size: float

    @property
    def q(self) -> Values:
        """1 - p."""
        return 1 - self.p

    @property
    def mixed(self) -> Float[np.ndarray, " n"]:
        """1 where a group holds both outcomes, and 0 where its rewards are all equal."""
        return np.where((self.p > 0) & (self.p < 1), 1.0, 0.0)

    @property
    def slack(self) -> float:
        """Rounding that is allowed between a solve rate and a bound that it should equal."""
        return min(SLACK, MOST_SLACK / self.size)

    def std(self, ddof: int) -> Values:
        """Standard deviation of the rewards: sqrt(p q G / (G - ddof)), and 0 for groups of ``ddof``."""
        return np.asarray(np.sqrt(_ratio(self.p * self.q, np.full_like(self.p, 1 - ddof / self.size))))

    def grpo(self, ddof: int, eps: float) -> Values:
        """p q / (std + eps): FADE's sqrt(p q) at ``ddof`` 0 and ``eps`` 0."""
        return _ratio(self.p * self.q, self.std(ddof) + eps)

    def all_wrong(self, draws: int, failures: int = 0, successes: int = 0) -> Values:
        """C(F - failures, draws) / C(G - failures - successes, draws), and q^draws for infinite groups.

        The chance that ``draws`` rollouts are all wrong, after some of known outcome were taken from the group.
        """
        if math.isinf(self.size):
            return np.asarray(self.q**draws)
        before = np.arange(draws)
        wrong = np.rint(self.size * self.q)[:, None] - failures - before
        return np.asarray(np.prod(np.maximum(wrong, 0) / (self.size - failures - successes - before), axis=-1))

    def at_most_all(self, k: int) -> int:
        """k, or G where the group is smaller."""
        return k if k < self.size else int(self.size)

    def success_advantage(self, k: int) -> Values:
        """Chen et al.'s A on success, sqrt((1 - R) / R), R = 1 - C(F, k) / C(G, k); 0 where R is 0 or 1."""
        missed = self.all_wrong(self.at_most_all(k))
        return np.asarray(np.sqrt(_ratio(missed, 1 - missed)))

    def tilted(self, beta: float) -> Values:
        """(e^beta - 1) p q / (1 + p (e^beta - 1)), both sides times e^-beta: a large ``beta`` does not overflow."""
        rise = -np.expm1(-beta)
        return _ratio(rise * self.p * self.q, np.exp(-beta) + rise * self.p)


def _group(rates: Float[np.ndarray, "..."], group_size: float) -> Group:
    """Check rates and make the groups that have them; a rate of a finite group becomes exactly s / G."""
    if group_size != math.inf:
        check_range("group_size", group_size, 1)
    check_shares("p", rates)
    if math.isinf(group_size):
        return Group(rates.ravel(), math.inf)
    if group_size != math.floor(group_size):
        raise InputError(f"group_size = {group_size} is not allowed; allowed: whole numbers from 1 up, infinity")
    successes = np.rint(rates * group_size)
    apart = np.abs(rates * group_size - successes) > 1e-9 * group_size
    if apart.any():
        raise InputError(f"p = {rates[apart][0]} is no share of {group_size} rollouts; allowed: s / {group_size}")
    return Group(successes.ravel() / group_size, float(group_size))


def _find_form(name: str | Estimator) -> ClosedForm:
    if not isinstance(name, str) or name not in CLOSED_FORMS:
        shown = repr(name) if isinstance(name, str) else "an estimator without a name"
        raise InputError(f"{shown} has no closed form; allowed: {', '.join(sorted(CLOSED_FORMS))}")
    return CLOSED_FORMS[name]


def _of_base(group: Group, base: str | Estimator, weight: Values | float = 1.0) -> Pair:
    """The masses of an estimator's base, at the base's default parameters, times a weight."""
    success, failure = _find_form(base).masses(group, **REGISTRY[str(base)].parameters)
    return success * weight, failure * weight


def _ratio(numerator: Values, denominator: Values) -> Values:
    """``numerator / denominator``, and 0 where the denominator is 0."""
    return np.where(denominator == 0, 0.0, numerator / np.where(denominator == 0, 1.0, denominator))


def _balanced(text: str, mass: Callable[..., Values]) -> ClosedForm:
    """The same mass on successes and on failures."""

    @functools.wraps(mass)
    def masses(group: Group, **parameters: Any) -> Pair:
        both = mass(group, **parameters)
        return both, both

    return ClosedForm(masses, text, text)


def _grpo_lead(
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
    gap = 1 + penalty
    mass = _ratio(gap * group.p * group.q, gap * group.std(ddof) + eps)
    hard, easy = (low + (high - low) * (1 - np.tanh(steepness * (x - midpoint) / 2)) / 2 for x in (group.p, group.q))
    return hard * mass, easy * mass


def _quantile(group: Group, tau: float) -> Pair:
    """``[fade:quantile]``; 0 at p 0 and 1. FADE prints the masses of the (1 - tau)-quantile."""
    solved = group.q < max(tau, 1 / group.size) - group.slack  # the quantile is a success
    return np.where(solved, 0.0, group.p) * group.mixed, np.where(solved, group.q, 0.0) * group.mixed


def _mc_grpo(group: Group, scale: str, eps: float) -> Pair:
    """``[fade:mc-grpo]``: the quantile at 1/2. The MAD is 0, so that ``scale="mad"`` divides by ``eps``, or gives 0."""
    success, failure = _quantile(group, 0.5)
    divisor = np.full_like(group.p, eps if scale == "mad" else 1.0)
    return _ratio(success, divisor), _ratio(failure, divisor)


def _a_grae(group: Group, alpha: float, easy_term: str, ddof: int, eps: float) -> Pair:
    """``[a-grae:eq-12]`` and ``[a-grae:eq-13]`` in a batch of this one group, whose mean reward is p."""
    easy = np.sqrt(group.q) if easy_term == "paper" else 1 - np.sqrt(group.p) + 1e-6
    mass = group.grpo(ddof, eps) * (np.sqrt(group.p) / 2 + _ratio(group.q, 2 * easy))
    return mass * np.minimum(1, group.p / alpha), mass


def _fade(
    group: Group, *, alpha_max: float, delta_min: float, beta: float, target_entropy: float | None, baseline: str
) -> Pair:
    """``[fade:eq-11]`` after one update of the solve rate's average from 1/2, at entropy 0, in a batch of one group."""
    average = beta * 0.5 + (1 - beta) * group.p
    hardness = np.where(average > 0, _ratio(3 * (1 - average), 2 * average), alpha_max)
    mass = group.p * group.q ** np.clip(hardness, 1, alpha_max)
    return mass, mass / min(max(1 - (target_entropy or 0.0), delta_min), 1)


def _ha_dw(group: Group, scale: float, decay: float, initial: float, base: str | Estimator) -> Pair:
    """``[fade:ha-dw]`` in a first batch; FADE prints q p for failures, as if successes alone were weighed."""
    success, failure = _of_base(group, base)
    gap = group.p - initial
    return scale * success * np.exp(-np.sign(success) * gap), scale * failure * np.exp(np.sign(failure) * gap)


def _bbg(group: Group, k: int, tau: float, base: str | Estimator) -> Pair:
    """``[arxiv:2606.15455]``; in the limit of large groups q^(k - 1), all of it gated by any ``tau`` above 0."""
    steps, wrong = np.arange(1, k), group.q[..., None]
    size = 1 / group.size
    weight = np.prod((wrong + steps * size) / (1 + steps * size), axis=-1)
    return _of_base(group, base, np.where(weight * k * size / (1 + k * size) < tau, 0.0, weight))


def _a_star_po(group: Group, beta: float) -> Pair:
    """``[arxiv:2505.20686]``, 0 at p 0 and 1: the soft value less the best reward is beta log(p + q e^(-1/beta))."""
    below = beta * np.log1p(group.q * group.mixed * np.expm1(-1 / beta))
    return -group.p * below, group.q * (group.mixed + below)


def _pass_at_k_tang(group: Group) -> Pair:
    """``[fade:pass-at-k-tang]``, k being the group; ``InputError`` in the limit, where no success is alone."""
    if math.isinf(group.size):
        raise InputError("group_size = inf is not allowed for pass_at_k_tang, whose k is the group; allowed: finite")
    return np.where(np.rint(group.p * group.size) == 1, 1 / group.size, 0.0), 0 * group.p


def _pkpo(group: Group, k: int, baseline: str) -> Pair:
    """``[fade:pkpo]``; k p q^(k - 1) and 0 in the limit. ``baseline="none"`` reinforces failures as well."""
    k = group.at_most_all(k)
    if baseline == "leave_one_out":
        return k * group.p * group.all_wrong(k - 1, successes=1), 0 * group.p
    return k * group.p, -k * group.q * (1 - group.all_wrong(k - 1, failures=1))


def _log_mean_exp(group: Group, beta: float) -> Pair:
    """``[fade:log-mean-exp]`` from its definition, lme(r) - lme(r without i); 0 at p 0 and 1, and as G -> infinity.

    FADE prints m_S = p e^beta / (p e^beta + q) and m_F = q / (p e^beta + q), which are softmax weights and not these
    differences: they do not vanish with G, nor as beta -> 0, where the definition gives RLOO / G. ``InputError`` for
    ``beta`` above 700, where e^beta overflows.
    """
    check_range("beta", beta, 0, 700, open_low=True)
    rise, others = np.expm1(beta), max(group.size - 1, 1.0)
    share = 1 / group.size
    others_rate = _ratio(np.maximum(group.p - share, 0), np.full_like(group.p, 1 - share))  # (s - 1) / (G - 1)
    success = np.log1p(rise * group.q / others / (1 + rise * others_rate)) / beta
    failure = np.log1p(rise * group.p / others / (1 + rise * group.p)) / beta
    return group.p * success * group.mixed, group.q * failure * group.mixed


_OF_BATCH = "p q/(std + eps), in a batch of this group"
_FORMS = {
    # Balanced: m_S = m_F.
    "dr_grpo": _balanced("p q", lambda g: g.p * g.q),  # [fade:dr-grpo]
    "gpg": _balanced("p q, in a batch of this group", lambda g: g.p * g.q),  # [arxiv:2504.02546]
    "curve_rl": _balanced("p q, in a batch of this group", lambda g: g.p * g.q),  # [arxiv:2605.24331]
    # [arxiv:2506.02864]: one group has no spread, and the density of Beta(1, 1) is 1.
    "bnpo": _balanced("p q, in a batch of this group", lambda g, most: min(1.0, most) * g.p * g.q),
    "opo": _balanced("p q, at equal lengths", lambda g: g.p * g.q),  # [arxiv:2505.23585]
    "grpo": _balanced("p q/(std + eps)", Group.grpo),  # [f-grpo:eq-3]; the derivation is FADE's section 8.1
    "reinforce_pp": _balanced(_OF_BATCH, Group.grpo),  # [arxiv:2501.03262]
    "reinforce_pp_baseline": _balanced(_OF_BATCH, Group.grpo),  # [arxiv:2501.03262]
    "rloo": _balanced("p q G/(G - 1)", lambda g: g.std(1) ** 2),  # [fade:rloo]; 0 for groups of one
    # [fade:skew-r]; FADE's p q sqrt(p q) at ddof 0.
    "skew_r": _balanced("p q std", lambda g, ddof: g.p * g.q * g.std(ddof)),
    # [fade:power-norm]; 0 at p 0 and 1.
    "power_norm": _balanced("(p q)^(1 - gamma)", lambda g, gamma: _ratio(g.p * g.q, (g.p * g.q) ** gamma) * g.mixed),
    "maxrl": _balanced("q (0 at p = 0)", lambda g: np.where(g.p > 0, g.q, 0.0)),  # [fade:maxrl]
    "power_alpha": _balanced("p q^alpha", lambda g, alpha: g.p * g.q**alpha),  # [fade:power-alpha]
    "easy_power": _balanced("p^alpha q", lambda g, alpha: g.p**alpha * g.q),  # [fade:easy-power]
    # [f-grpo:eq-13]
    "f_grpo": ClosedForm(lambda g, gamma, base: _of_base(g, base, g.q**gamma), "m_base q^gamma", "m_base q^gamma"),
    # [simlab:interference-speed]
    "reject_easy": ClosedForm(
        lambda g, threshold, base: _of_base(g, base, np.where(g.p <= threshold + g.slack, 1.0, 0.0)),
        *["m_base 1[p <= threshold]"] * 2,
    ),
    # [arxiv:2606.15455]
    "bbg": ClosedForm(_bbg, *["m_base w, w = C(F + k - 1, k - 1)/C(G + k - 1, k - 1), 0 where w k/(G + k) < tau"] * 2),
    # [a-grae:control-2]; gamma sqrt(q) and gamma sqrt(p) for a mixed group at ddof 0 and eps 0.
    "hard_focused": _balanced(
        "gamma m_GRPO/sqrt(p)", lambda g, gamma, ddof, eps: gamma * _ratio(g.grpo(ddof, eps), np.sqrt(g.p))
    ),
    "easy_focused": _balanced(
        "gamma m_GRPO/sqrt(q)", lambda g, gamma, ddof, eps: gamma * _ratio(g.grpo(ddof, eps), np.sqrt(g.q))
    ),
    # [fade:t2t], FADE's p q C / std(R), C = 1 - alpha p L_S - alpha q L_F, with every length L = 1.
    "t2t": _balanced(
        "(1 - alpha) p q/((1 - alpha) std + eps), at equal lengths",
        lambda g, alpha, ddof, eps: _ratio((1 - alpha) * g.p * g.q, (1 - alpha) * g.std(ddof) + eps),
    ),
    # [cw-grpo:kernel]: equal log-probabilities have no covariance, in a group as in a batch.
    "cw_grpo": ClosedForm(lambda g, scope, base: _of_base(g, base), *["m_base, at equal log pi"] * 2),
    # [arxiv:2505.12929]: log-probabilities of 0 make the factor 1.
    "advantage_reweighting": ClosedForm(lambda g, alpha, base: _of_base(g, base), *["m_base, at pi = 1"] * 2),
    # equal log-probabilities weigh all rollouts alike.
    "tempered_grpo": _balanced("m_GRPO at ddof 1, at equal log pi", lambda g, beta, eps: g.grpo(1, eps)),
    # [arxiv:2605.00425]: equal entropies leave the base as it is.
    "aem": ClosedForm(lambda g, strength, least_spread, base: _of_base(g, base), *["m_base, at entropy 0"] * 2),
    # [casp:entropy-adv]: the bonus is at most alpha times the entropy.
    "entropy_advantage": ClosedForm(lambda g, alpha, kappa, base: _of_base(g, base), *["m_base, at entropy 0"] * 2),
    # [fade:pass-at-k-chen]; R is 1 - q^k in the population limit.
    "pass_at_k_chen": _balanced("p sqrt((1 - R)/R), R = 1 - C(F,k)/C(G,k)", lambda g, k: g.p * g.success_advantage(k)),
    # [fade:mix], A_k and A_1 being the advantages of a success under pass@k and pass@1.
    "mix": _balanced(
        "p (p A_k + q A_1), A_k = sqrt((1 - R)/R)",
        lambda g, k: g.p * (g.p * g.success_advantage(k) + g.q * g.success_advantage(1)),
    ),
    # [fade:softmax]; FADE prints it without the 1 / G, as a sum over the group and not the mean.
    "softmax": _balanced("(e^beta - 1) p q/((1 + p (e^beta - 1)) G)", lambda g, beta: g.tilted(beta) / g.size),
    # [fade:rs-grpo]; p q as beta -> 0.
    "rs_grpo": _balanced("(e^beta - 1) p q/((1 + p (e^beta - 1)) beta)", lambda g, beta: g.tilted(beta) / beta),
    # Biased.
    "reinforce": ClosedForm(lambda g: (g.p, 0 * g.p), "p", "0"),  # [fade:reinforce]
    # [fade:running-mean] in a first batch, which decay does not reach.
    "running_mean": ClosedForm(
        lambda g, decay, initial: (g.p * (1 - initial), g.q * initial), "p (1 - initial)", "q initial"
    ),
    # [fade:asym-rl]
    "asym_rl": ClosedForm(
        lambda g, delta: (g.p * (g.q - delta), g.q * (g.p + delta)), "p (q - delta)", "q (p + delta)"
    ),
    "grpo_lead": ClosedForm(
        _grpo_lead, "w(p) (1 + penalty) p q/((1 + penalty) std + eps), at equal lengths", "the same with w(q)"
    ),
    "quantile": ClosedForm(_quantile, "p 1[p <= 1 - tau]", "q 1[p > 1 - tau]"),
    "mc_grpo": ClosedForm(_mc_grpo, "p 1[p <= 1/2]", "q 1[p > 1/2]"),
    # [fade:asym-power]
    "asym_power": ClosedForm(
        lambda g, alpha_success, alpha_failure: (g.p * g.q**alpha_success, g.p**alpha_failure * g.q),
        "p q^alpha_success",
        "p^alpha_failure q",
    ),
    "a_star_po": ClosedForm(_a_star_po, "p (1 - V), V = beta log(1 + p (e^(1/beta) - 1))", "q V (0 at p = 0)"),
    "asym_grpo": ClosedForm(lambda g, delta: (g.p * g.q, g.p * g.q / delta), "p q", "p q/delta"),  # [fade:asym-grpo]
    # [a-grae:control-1]
    "positive_dominant": ClosedForm(
        lambda g, factor, ddof, eps: (factor * g.grpo(ddof, eps), g.grpo(ddof, eps)), "factor m_GRPO", "m_GRPO"
    ),
    "negative_dominant": ClosedForm(
        lambda g, factor, ddof, eps: (g.grpo(ddof, eps) / factor, g.grpo(ddof, eps)), "m_GRPO/factor", "m_GRPO"
    ),
    "relu": ClosedForm(lambda g: (g.p * g.q, 0 * g.p), "p q", "0"),  # [fade:relu]
    # [fade:binary-contrastive]; FADE prints p for both, but a solved group has no failure to put it on.
    "binary_contrastive": ClosedForm(lambda g: (g.p, np.where(g.p < 1, g.p, 0.0)), "p", "p (0 at p = 1)"),
    "psr": ClosedForm(lambda g: (g.p, 0 * g.p), "p", "0"),  # [fade:psr]
    "nsr": ClosedForm(lambda g: (0 * g.p, g.q), "0", "q"),  # [fade:nsr]
    "w_reinforce": ClosedForm(lambda g, success: (success * g.p, g.q), "success p", "q"),  # [fade:w-reinforce]
    "a_grae": ClosedForm(_a_grae, "min(1, p/alpha) m_F", "m_GRPO (sqrt(p) + sqrt(q))/2, in a batch of one group"),
    "fade": ClosedForm(
        _fade,
        "p q^a, a = clip(3 (1 - c)/(2 c), 1, alpha_max), c = beta/2 + (1 - beta) p",
        "m_S/delta, delta = 1 unless a target entropy is set",
    ),
    "ha_dw": ClosedForm(_ha_dw, "m_base scale e^(C - p)", "m_base scale e^(p - C), C = initial"),
    "pass_at_k_tang": ClosedForm(_pass_at_k_tang, "1[s = 1]/G", "0"),
    "pkpo": ClosedForm(_pkpo, "p k C(F,k-1)/C(G-1,k-1)", "0"),
    "log_mean_exp": ClosedForm(
        _log_mean_exp,
        "p (l(p) - l((s - 1)/(G - 1)))",
        "q (l(s/(G - 1)) - l(p)), l(x) = log(1 + x (e^beta - 1))/beta",
    ),
}
CLOSED_FORMS: Mapping[str, ClosedForm] = MappingProxyType(_FORMS)

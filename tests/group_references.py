"""The estimators that read one group's rewards alone, transcribed from the papers as plain loops.

A group is a list of rewards, and a rollout is correct when its reward is above 0. Where a formula compares rewards, or
reads 0 / 0, on a group of equal ones, the advantages are exactly 0.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

Group = list[float]


def mean(values):
    return sum(values) / len(values)


def deviation(values, ddof):
    """The standard deviation; 0 where too few values are left to divide by."""
    if len(values) <= ddof:
        return 0.0
    return math.sqrt(sum((value - mean(values)) ** 2 for value in values) / (len(values) - ddof))


def quantile_of(values, tau):
    """The smallest of the values at or below which lies at least a share tau of them."""
    reached = [v for v in values if sum(1 for value in values if value <= v) >= tau * len(values) - 1e-9]
    return min(reached)


def share_correct(group):
    return sum(1 for r in group if r > 0) / len(group)


def without(group, i):
    return group[:i] + group[i + 1 :]


def uniform(group):
    return len(set(group)) == 1


def zeros(group):
    return [0.0 for _ in group]


def reinforce(group):
    return list(group)


def dr_grpo(group):
    return zeros(group) if uniform(group) else [r - mean(group) for r in group]


def grpo(group, ddof=0, eps=1e-6):
    """F-GRPO Eq. 3, with the population's std as FADE derives."""
    return zeros(group) if uniform(group) else [a / (deviation(group, ddof) + eps) for a in dr_grpo(group)]


def rloo(group):
    """The baseline of a rollout is the mean reward of the others."""
    return zeros(group) if uniform(group) else [r - mean(without(group, i)) for i, r in enumerate(group)]


def maxrl(group):
    return [a / mean(group) if mean(group) > 0 else 0.0 for a in dr_grpo(group)]


def skew_r(group, ddof=0):
    """FADE's Skew-R: the advantages of GRPO multiplied by the std twice."""
    return [deviation(group, ddof) * a for a in dr_grpo(group)]


def power_norm(group, gamma=0.5):
    """FADE's power norm; gamma = 1/2 is GRPO on binary rewards."""
    m = mean(group)
    return zeros(group) if m in (0, 1) else [a / (m * (1 - m)) ** gamma for a in dr_grpo(group)]


def power_alpha(group, alpha=2.0):
    return [(1 - mean(group)) ** (alpha - 1) * a for a in dr_grpo(group)]


def easy_power(group, alpha=2.0):
    """FADE's power of the success rate."""
    return [mean(group) ** (alpha - 1) * a for a in dr_grpo(group)]


def asym_power(group, alpha_success=2.0, alpha_failure=2.0):
    """FADE's powers of the failure rate on success and of the success rate on failure."""
    m = mean(group)
    on_success, on_failure = (1 - m) ** (alpha_success - 1), m ** (alpha_failure - 1)
    return [(on_success if r > 0 else on_failure) * a for r, a in zip(group, dr_grpo(group), strict=True)]


def psr(group):
    return [1.0 if r > 0 else 0.0 for r in group]


def nsr(group):
    return [0.0 if r > 0 else -1.0 for r in group]


def w_reinforce(group, success=0.1):
    return [success if r > 0 else -1.0 for r in group]


def asym_grpo(group, delta=1.0):
    return [a / delta if r < mean(group) else a for r, a in zip(group, dr_grpo(group), strict=True)]


def asym_rl(group, delta=0.01):
    """FADE's AsymRL: the baseline raised by delta, for groups of equal rewards too."""
    return [0 - delta for _ in group] if uniform(group) else [r - (mean(group) + delta) for r in group]


def quantile(group, tau=0.5):
    """FADE's quantile baseline."""
    return [r - quantile_of(group, tau) for r in group]


def mc_grpo(group, scale="none", eps=1e-3):
    """FADE's MC-GRPO: the lower median as the baseline and, if wanted, the median absolute deviation as the scale."""
    centered = quantile(group, 0.5)
    if scale == "none":
        return centered
    spread = quantile_of([abs(a) for a in centered], 0.5) + eps
    return [a / spread for a in centered] if spread > 0 else zeros(group)


def relu(group):
    """FADE's clipped advantage."""
    return [max(0.0, a) for a in dr_grpo(group)]


def hard_focused(group, gamma=0.5, ddof=0, eps=1e-6):
    """A-GRAE's second control experiment, more weight on hard prompts."""
    p = share_correct(group)
    return [gamma * a / math.sqrt(p) if p > 0 else a for a in grpo(group, ddof, eps)]


def easy_focused(group, gamma=0.5, ddof=0, eps=1e-6):
    """A-GRAE's second control experiment, more weight on easy prompts."""
    p = share_correct(group)
    return [gamma * a / math.sqrt(1 - p) if p < 1 else a for a in grpo(group, ddof, eps)]


def positive_dominant(group, factor=10.0, ddof=0, eps=1e-6):
    """A-GRAE's first control experiment, positive advantages enlarged."""
    return [a * factor if a > 0 else a for a in grpo(group, ddof, eps)]


def negative_dominant(group, factor=10.0, ddof=0, eps=1e-6):
    """A-GRAE's first control experiment, positive advantages diminished."""
    return [a / factor if a > 0 else a for a in grpo(group, ddof, eps)]


def binary_contrastive(group):
    """FADE's binary contrastive advantage."""
    p = share_correct(group)
    return [1.0 if r > 0 else -p / (1 - p) for r in group]


def softmax(group, beta=1.0):
    """FADE's softmax advantage: the share that a softmax of the rewards gives, less an equal share."""
    if uniform(group):
        return zeros(group)
    total = sum(math.exp(beta * r) for r in group)
    return [math.exp(beta * r) / total - 1 / len(group) for r in group]


def a_star_po(group, beta=0.5):
    """A*-PO (arXiv 2505.20686): the reward less the soft value, as TRL's a2po estimates it, of the group itself."""
    value = beta * math.log(mean([math.exp(r / beta) for r in group]))
    return [r - value if len(set(group)) > 1 else 0.0 for r in group]


def rs_grpo(group, beta=2.0):
    """FADE's risk-sensitive GRPO."""
    if uniform(group):
        return zeros(group)
    average = mean([math.exp(beta * r) for r in group])
    return [(math.exp(beta * r) / average - 1) / beta for r in group]


def log_mean_exp(group, beta=1.0):
    """FADE's log-mean-exp: the group's value less the value without the rollout."""

    def objective(rewards):
        return math.log(mean([math.exp(beta * r) for r in rewards])) / beta

    if uniform(group):
        return zeros(group)
    return [objective(group) - objective(without(group, i)) for i in range(len(group))]


def best(rewards):
    """The best reward; 0 without rewards."""
    return max(rewards, default=0.0)


def pass_at_k_tang(group):
    """FADE's pass@k after Tang et al.: the best of the group less the best without the rollout."""
    return [best(group) - best(without(group, i)) for i in range(len(group))]


def pass_at_k_chen(group, k=4):
    """FADE's pass@k after Chen et al., in exact fractions up to the square root."""
    size, failures = len(group), sum(1 for r in group if r <= 0)
    k = min(k, size)
    all_fail = Fraction(math.comb(failures, k), math.comb(size, k))  # the chance that k drawn rollouts all fail
    if all_fail in (0, 1):
        return zeros(group)
    sigma = math.sqrt(all_fail * (1 - all_fail))
    others_fail = Fraction(math.comb(failures - 1, k - 1), math.comb(size - 1, k - 1))
    return [float(all_fail if r > 0 else all_fail - others_fail) / sigma for r in group]


def mix(group, k=4):
    """FADE's mix of pass@k and pass@1 by the success rate."""
    p = share_correct(group)
    both = zip(pass_at_k_chen(group, k), pass_at_k_chen(group, 1), strict=True)
    return [p * at_k + (1 - p) * at_1 for at_k, at_1 in both]


def pkpo(group, k=4, baseline="leave_one_out"):
    """FADE's PKPO, subset by subset: the best of k rollouts, less the best of the other k - 1 if wanted."""
    size = len(group)
    k = min(k, size)
    advantages = []
    for i in range(size):
        total = 0.0
        for subset in combinations(range(size), k):
            if i in subset:
                others = best([group[j] for j in subset if j != i])
                total += best([group[j] for j in subset]) - (others if baseline == "leave_one_out" else 0.0)
        advantages.append(size / math.comb(size, k) * total)
    return advantages


GROUP_FORMULAS: dict[str, Callable[..., Any]] = {
    formula.__name__: formula
    for formula in (
        reinforce, dr_grpo, grpo, rloo, maxrl, skew_r, power_norm, power_alpha, easy_power, asym_power, psr, nsr,
        w_reinforce, asym_grpo, asym_rl, quantile, mc_grpo, relu, hard_focused, easy_focused, positive_dominant,
        negative_dominant, binary_contrastive, softmax, rs_grpo, a_star_po, log_mean_exp, pass_at_k_tang,
        pass_at_k_chen, mix, pkpo,
    )
}  # fmt: skip


# Chains of one link a role: what each choice of ``linked`` does to one rollout's advantage


def centered(group, everyone, i, baseline):
    """The reward of rollout i less its baseline; 0 where all that it is compared with are equal."""
    compared = everyone if baseline == "batch_mean" else group
    if baseline == "none":
        return group[i]
    if len(set(compared)) == 1:
        return 0.0
    others = without(group, i) if baseline == "leave_one_out" else compared
    return group[i] - (quantile_of(group, 0.5) if baseline == "median" else mean(others))


def scaled(a, group, scale, k):
    if scale == "std":
        return a / (deviation(group, 0) + 1e-6)
    if scale == "times_std":
        return a * deviation(group, 0)
    if scale == "mean":
        return a / mean(group) if mean(group) > 0 else 0.0
    if scale == "pass_at_k":
        size, failures = len(group), sum(1 for r in group if r <= 0)
        k = min(k, size)
        all_fail = math.comb(failures, k) / math.comb(size, k)
        if all_fail in (0, 1):
            return 0.0
        return a * math.comb(failures - 1, k - 1) / math.comb(size - 1, k - 1) / math.sqrt(all_fail * (1 - all_fail))
    return a


def weighed(a, r, group, *, omega, past, difficulty, gamma):
    p, m = share_correct(group), mean(group)
    if difficulty in ("focal", "easy", "asymmetric"):
        return a * {"focal": 1 - p, "easy": m, "asymmetric": 1 - m if r > 0 else m}[difficulty] ** gamma
    if difficulty == "history":
        return a * math.exp(past - m if a > 0 else m - past)
    if difficulty == "none" or not 0 < p < 1:
        return a
    hard, easy = 1 / (2 * math.sqrt(p)), 1 / (2 * math.sqrt(1 - p))
    return a * {"sqrt_hard": hard, "sqrt_easy": easy, "shift": omega * hard + (1 - omega) * easy}[difficulty]


def signed(a, omega, sign, delta):
    if sign == "divide_failures":
        return a / delta if a < 0 else a
    if sign == "relu":
        return max(0.0, a)
    if sign == "attenuate":
        return a * omega if a > 0 else a
    return a


def of_others(a, others, eps=1e-6):
    """The advantage over the sample std of the other rewards; unchanged where these are equal or too few."""
    return a / (deviation(others, 1) + eps) if len({*others}) > 1 else a


def linked(steps, *, baseline="mean", scale="none", difficulty="none", sign="none", gamma=1.0, delta=0.5, k=4):
    """The four links in turn; ``past`` is HA-DW's running mean of the batches before."""
    past, history = 0.5, []
    for step in steps:
        everyone = [r for group in step.rewards for r in group]
        omega, batch = mean(everyone), []
        for group in step.rewards:
            row = []
            for i, r in enumerate(group):
                a = centered(group, everyone, i, baseline)
                a = of_others(a, without(group, i)) if scale == "std_of_others" else scaled(a, group, scale, k)
                a = weighed(a, r, group, omega=omega, past=past, difficulty=difficulty, gamma=gamma)
                row.append(signed(a, omega, sign, delta))
            batch.append(row)
        history.append(batch)
        past = 0.9 * past + 0.1 * omega
    return history

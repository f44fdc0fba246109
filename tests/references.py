"""The estimators transcribed from the papers as plain loops, one formula at a time, sharing nothing with the library.

A batch is a list of groups, a group a list of rewards: ragged, so nothing here knows about masks. Here are those that
read tokens, whole batches or earlier ones; group_references.py holds those that read one group's rewards alone, and the
chains without a name.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

from group_references import GROUP_FORMULAS, Group, deviation, grpo, linked, mean, of_others, rloo, share_correct

Groups = list[Group]
Tokens = list[list[list[float]]]
Batch = Groups | Tokens  # an advantage for each rollout, or for each token of each rollout


class Step(NamedTuple):
    """One training step's batch: the reward of each rollout, the log-probability and entropy of each of its tokens.

    ``greedy`` is the reward of each group's greedy answer, ``roles`` the role of its rollouts; ``parts`` are the parts
    of each rollout's reward, None for one that is missing, and ``weights`` theirs. For each token, ``collision`` is
    the sum of the squared probabilities of all candidates, and ``teacher`` a teacher's log-probability.
    """

    rewards: Groups
    logp: Tokens
    entropy: Tokens | tuple[()] = ()
    greedy: list[float] | tuple[()] = ()
    parts: list[list[list[float | None]]] | tuple[()] = ()
    weights: tuple[float, ...] = ()
    roles: list[int] | tuple[()] = ()
    collision: Tokens | tuple[()] = ()
    teacher: Tokens | tuple[()] = ()


def times(weight, advantage):
    """A rollout's advantage, or its tokens' advantages, times a weight."""
    return [weight * a for a in advantage] if isinstance(advantage, list) else weight * advantage


def over_base(steps, base, change):
    """The base's advantages, each changed by a function of the step, the group, the rollout and the advantage."""
    return [
        [[change(step, g, i, a) for i, a in enumerate(row)] for g, row in enumerate(batch)]
        for step, batch in zip(steps, REFERENCES[base](steps), strict=True)
    ]


def f_grpo(steps, gamma=1.0, base="grpo"):
    """F-GRPO Eq. 12 and 13."""
    return over_base(steps, base, lambda step, g, i, a: times((1 - share_correct(step.rewards[g])) ** gamma, a))


def remax(steps):
    """ReMax (arXiv 2310.10505): the reward less that of the greedy answer."""
    return [
        [[r - greedy for r in group] for group, greedy in zip(step.rewards, step.greedy, strict=True)] for step in steps
    ]


def reject_easy(steps, threshold=0.5, base="grpo"):
    """The base's advantages, where no more than a share of the group is correct."""

    def change(step, g, i, a):
        return times(1.0 if share_correct(step.rewards[g]) <= threshold + 1e-9 else 0.0, a)

    return over_base(steps, base, change)


def bbg(steps, k=16, tau=0.01, base="w_reinforce"):
    """Bayesian boundary gating (arXiv 2606.15455, Eqs 8 and 9), its utility over that of an unsolved group."""

    def utility(successes, size):
        terms = [Fraction(size - successes + j, size + 1 + j) for j in range(1, k)]
        return k * math.prod(terms, start=Fraction(1))

    def change(step, g, i, a):
        successes, size = sum(r > 0 for r in step.rewards[g]), len(step.rewards[g])
        worth = utility(successes, size)
        return times(float(worth / utility(0, size)) if worth >= tau * (size + 1) else 0.0, a)

    return over_base(steps, base, change)


def least_variance(steps, base="grpo", successes=1.0, failures=1.0):
    """The gain of a rollout by being correct among the others, times its reward less the rate that they suggest."""

    def change(step, g, i, a):
        group = step.rewards[g]
        others = group[:i] + group[i + 1 :]
        right, wrong = (
            REFERENCES[base]([step._replace(rewards=[[*group[:i], r, *group[i + 1 :]]])])[0][0][i] for r in (1.0, 0.0)
        )
        weight = len(others) + successes + failures
        return (right - wrong) * (group[i] - (sum(others) + successes) / (weight or 1.0))

    return over_base(steps, base, change)


def a_grae(groups, alpha=1.0, easy_term="paper", ddof=0, eps=1e-6):
    """A-GRAE Eq. 11 (omega), Eq. 12 (or its published code's easy term) and Eq. 13."""
    omega = mean([r for group in groups for r in group])
    advantages = []
    for group in groups:
        p = share_correct(group)
        shifted = []
        for a in grpo(group, ddof, eps):
            if 0 < p < 1:
                easy = math.sqrt(1 - p) if easy_term == "paper" else 1 - math.sqrt(p) + 1e-6
                a = omega / 2 * a / math.sqrt(p) + (1 - omega) / 2 * a / easy  # noqa: PLW2901
            shifted.append(a * min(1, omega / alpha) if a > 0 else a)
        advantages.append(shifted)
    return advantages


def fade(steps, *, alpha_max=3.0, delta_min=0.3, beta=0.02, target_entropy=None, baseline="mean"):
    """FADE's Algorithm 2, line by line; the initial entropy is the first batch's, and H* by default half of it."""

    def entropy(step):
        return mean([mean([-logp for logp in tokens]) for group in step.logp for tokens in group])

    p_hat, h_hat = 0.5, entropy(steps[0])
    h_star = h_hat / 2 if target_entropy is None else target_entropy
    history = []
    for step in steps:
        everyone = [r for group in step.rewards for r in group]
        p_hat = beta * p_hat + (1 - beta) * mean(everyone)
        h_hat = beta * h_hat + (1 - beta) * entropy(step)
        alpha = min(max(3 * (1 - p_hat) / (2 * p_hat), 1), alpha_max)
        delta = min(max(1 + h_hat - h_star, delta_min), 1)
        batch = []
        for group in step.rewards:
            compared = everyone if baseline == "batch_mean" else group
            r_bar = mean(compared)
            weights = [(1 - r_bar) ** (alpha - 1) * (r - r_bar) / (1 if r >= r_bar else delta) for r in group]
            batch.append(weights if len(set(compared)) > 1 else [0.0 for _ in group])
        history.append(batch)
    return history


def fade_logarithmic(steps, last=20000.0):
    """FADE's Equations 17 and 18 at the printed tau, on the printed constants' axis of 20,000 steps."""
    history = []
    for number, step in enumerate(steps):
        t = min(number / last, 1) * 20000
        alpha = 2.0 - (2.0 - 1.917) * math.log(1 + t / 8500) / math.log(1 + 20000 / 8500)
        delta = 1.0 - (1.0 - 0.802) * math.log(1 + t / 12264) / math.log(1 + 20000 / 12264)
        history.append([power_asymmetric(group, alpha, delta) for group in step.rewards])
    return history


def fade_entropy(steps, alpha_max=3.0, delta_min=0.3, beta=0.02):
    """FADE with alpha from alpha_max at the initial entropy down to 1 at half of it."""
    entropies = [mean([mean([-x for x in tokens]) for group in step.logp for tokens in group]) for step in steps]
    initial, h_hat, history = entropies[0], entropies[0], []
    for step, entropy in zip(steps, entropies, strict=True):
        h_hat = beta * h_hat + (1 - beta) * entropy
        alpha = 1 + (alpha_max - 1) * min(max((2 * h_hat - initial) / initial, 0), 1)
        delta = min(max(1 + h_hat - initial / 2, delta_min), 1)
        history.append([power_asymmetric(group, alpha, delta) for group in step.rewards])
    return history


def power_asymmetric(group, alpha, delta):
    """(1 - mean)^(alpha - 1) (r - mean), failures divided by delta."""
    m = mean(group)
    return [(1 - m) ** (alpha - 1) * (r - m) / (1 if r >= m else delta) for r in group]


def running_mean(steps, decay=0.9, initial=0.0):
    """FADE's running mean of the rewards of earlier batches as the baseline."""
    baseline, history = initial, []
    for step in steps:
        history.append([[r - baseline for r in group] for group in step.rewards])
        baseline = decay * baseline + (1 - decay) * mean([r for group in step.rewards for r in group])
    return history


def ha_dw(steps, scale=1.0, decay=0.9, initial=0.5, base="grpo"):
    """FADE's HA-DW: each advantage weighed by how far its group is from the running mean, and on which side."""

    def sign(x):
        return (x > 0) - (x < 0)

    anchor, history = initial, []
    for step, advantages in zip(steps, REFERENCES[base](steps), strict=True):
        batch = []
        for rewards, group in zip(step.rewards, advantages, strict=True):
            gap = mean(rewards) - anchor
            batch.append([a * scale * math.exp(-sign(a) * sign(gap) * abs(gap)) for a in group])
        history.append(batch)
        anchor = decay * anchor + (1 - decay) * mean([r for group in step.rewards for r in group])
    return history


def ds_grpo(rewards, logp, *, success=0.05, failure=0.05, ddof=0, eps=1e-6):
    """DS-GRPO as F-GRPO restates it: an unlikely success gains, an unlikely failure loses."""
    return [
        a - success * mean(tokens) if r > 0 else a + failure * mean(tokens)
        for r, a, tokens in zip(rewards, grpo(rewards, ddof, eps), logp, strict=True)
    ]


def unlikeliness(rewards, logp, *, beta=0.25, ranking="paper", ddof=0, eps=1e-6):
    """The unlikeliness reward as F-GRPO restates it: by sums and ranks from 1 in the paper, means and 0 in its code."""
    likelihood = [sum(tokens) if ranking == "paper" else mean(tokens) for tokens in logp]
    shaped = []
    for r, value in zip(rewards, likelihood, strict=True):
        positions = [position for position, other in enumerate(sorted(likelihood)) if other == value]
        rank = mean(positions) + (1 if ranking == "paper" else 0)
        shaped.append(r * (1 - beta * rank / len(rewards)))
    return grpo(shaped, ddof, eps)


def t2t(rewards, logp, alpha=0.2, ddof=0, eps=1e-6):
    """FADE's T2T: a success is better short, a failure better long."""
    p, longest = share_correct(rewards), max(len(tokens) for tokens in logp)
    shaped = []
    for r, tokens in zip(rewards, logp, strict=True):
        length = len(tokens) / longest
        shaped.append(1 - alpha * p * length if r > 0 else alpha * (1 - p) * length)
    return grpo(shaped, ddof, eps)


def covariance_weighted(logp, advantages):
    """CW-GRPO's Gaussian kernel of the covariance, over all the tokens given.

    In exact fractions up to the exponential, because equal covariances are a case apart; the smallest square is taken
    off every exponent, which leaves w N / sum(w) as it is, lest every w be 0.
    """
    rows = [pair for group, row in zip(logp, advantages, strict=True) for pair in zip(group, row, strict=True)]
    pairs = [(Fraction(x), Fraction(a)) for tokens, a in rows for x in tokens]
    mean_logp, mean_advantage = mean([x for x, _ in pairs]), mean([a for _, a in pairs])

    def covariance(x, a):
        return (Fraction(x) - mean_logp) * (Fraction(a) - mean_advantage)

    covariances = [covariance(x, a) for x, a in pairs]
    variance = mean([(c - mean(covariances)) ** 2 for c in covariances])
    smallest = min(c**2 for c in covariances)

    def weight(c):
        return math.exp((smallest - c**2) / (2 * variance)) if variance > 0 else 1.0

    average = mean([weight(c) for c in covariances])
    return [
        [[weight(covariance(x, a)) / average * a for x in tokens] for tokens, a in zip(group, row, strict=True)]
        for group, row in zip(logp, advantages, strict=True)
    ]


def cw_grpo(steps, scope="group", base="grpo"):
    """CW-GRPO, with statistics of each group or of the batch."""
    history = []
    for step, batch in zip(steps, REFERENCES[base](steps), strict=True):
        if scope == "batch":
            history.append(covariance_weighted(step.logp, batch))
        else:
            history.append([covariance_weighted([x], [a])[0] for x, a in zip(step.logp, batch, strict=True)])
    return history


def entropy_advantage(steps, alpha=0.4, kappa=2.0, base="grpo"):
    """CASP's entropy-shaped advantage: each token's entropy added, up to a share of the advantage."""
    return over_base(
        steps, base, lambda step, g, i, a: [a + min(alpha * h, abs(a) / kappa) for h in step.entropy[g][i]]
    )


def reinforce_pp(groups, ddof=0, eps=1e-8):
    """REINFORCE++ (arXiv 2501.03262): standardised over the batch."""
    everything = [r for group in groups for r in group]
    return standardised([[r - mean(everything) for r in group] for group in groups], ddof, eps)


def reinforce_pp_baseline(groups, ddof=0, eps=1e-8):
    """REINFORCE++-baseline (arXiv 2501.03262): less the group's mean, then over the std of the batch."""
    return standardised([[r - mean(group) for r in group] for group in groups], ddof, eps)


def standardised(centered, ddof, eps):
    scale = deviation([a for group in centered for a in group], ddof) + eps
    return [[a / scale if scale else 0.0 for a in group] for group in centered]


def gdpo(steps, code="trl"):
    """GDPO (arXiv 2601.05242): each part in its group, the weighted sum, then the batch; as three trainers have it."""
    return [gdpo_of_batch(step, code) for step in steps]


def gdpo_of_batch(step, code):
    sums = [[0.0] * len(group) for group in step.parts]
    for k, weight in enumerate(step.weights):
        for g, group in enumerate(step.parts):
            present = [i for i, rollout in enumerate(group) if rollout[k] is not None]
            for i, z in zip(present, part_alone([group[i][k] for i in present], code), strict=True):
                sums[g][i] += weight * z
    everything = [z for group in sums for z in group]
    centre, spread = mean(everything), deviation(everything, 1)
    spread = {"trl": spread + 1e-4, "verl": math.sqrt(spread**2 + 1e-8), "nemo_rl": spread}[code]
    return [[(z - centre) / spread for z in group] for group in sums]


def part_alone(group, code):
    if code == "verl" and len(group) == 1:
        return [group[0] / (1 + 1e-6)]
    if code == "nemo_rl":
        return [of_others(a, group[:i] + group[i + 1 :]) for i, a in enumerate(rloo(group))]
    return grpo(group, 1, 1e-4 if code == "trl" else 1e-6)


def rae(steps, decay=0.95, roles=2):
    """RAE (arXiv 2506.24119): less the running mean of the role, of the batches before."""
    means, history = [0.0] * roles, []
    for step in steps:
        history.append(
            [[r - means[role % roles] for r in group] for group, role in zip(step.rewards, step.roles, strict=True)]
        )
        for role in range(roles):
            scores = [r for group, k in zip(step.rewards, step.roles, strict=True) if k % roles == role for r in group]
            means[role] = decay * means[role] + (1 - decay) * mean(scores) if scores else means[role]
    return history


def gpg(groups):
    """GPG (arXiv 2504.02546): less the group's mean, times B / (B - M) for M of B groups of equal rewards."""
    mixed = sum(1 for group in groups if len({*group}) > 1)
    return [[(r - mean(group)) * len(groups) / mixed if len({*group}) > 1 else 0.0 for r in group] for group in groups]


def bnpo(groups, most=1e6):
    """BNPO (arXiv 2506.02864): less the group's mean, over the density of Beta(1 + a/3, 1 + b/3) at that mean."""
    rates = [mean(group) for group in groups]
    m, variance = mean(rates), deviation(rates, 1) ** 2
    total = max(m * (1 - m) / variance - 1, 0) if len({*rates}) > 1 else 0
    alpha, beta = 1 + m * total / 3, 1 + (1 - m) * total / 3
    whole = math.exp(math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta))

    def weight(p):
        return min(1 / (whole * p ** (alpha - 1) * (1 - p) ** (beta - 1)), most)

    return [
        [0.0 if len({*group}) == 1 else weight(p) * (r - p) for r in group]
        for group, p in zip(groups, rates, strict=True)
    ]


def grpo_lead(
    rewards, logp, *, alpha=0.05, penalty=1.0, low=0.4, high=1.5, midpoint=0.75, steepness=10.0, ddof=0, eps=1e-6
):
    """GRPO-LEAD (arXiv 2504.09696): GRPO of rewards that a success loses by length, times w of the solve rate."""
    successes = [len(tokens) for r, tokens in zip(rewards, logp, strict=True) if r > 0]
    scale = deviation(successes, ddof) + eps if len({*successes}) > 1 else 1.0
    shaped = [
        math.exp(-alpha * (len(tokens) - mean(successes)) / scale) if r > 0 else -penalty
        for r, tokens in zip(rewards, logp, strict=True)
    ]
    p = share_correct(rewards)

    def w(rate):
        return low + (high - low) / (1 + math.exp(steepness * (rate - midpoint)))

    return [a * (w(p) if a > 0 else w(1 - p)) for a in grpo(shaped, ddof, eps)]


def opo(rewards, logp):
    """OPO (arXiv 2505.23585): less the mean weighed by lengths."""
    lengths = [len(tokens) for tokens in logp]
    baseline = sum(n * r for n, r in zip(lengths, rewards, strict=True)) / sum(lengths)
    return [0.0 if len({*rewards}) == 1 else r - baseline for r in rewards]


def advantage_reweighting(steps, alpha=0.2, base="grpo"):
    """Advantage Reweighting (arXiv 2505.12929): alpha pi + 1 - alpha times the advantage of each token."""

    def change(step, g, i, a):
        tokens = step.logp[g][i]
        each = a if isinstance(a, list) else [a] * len(tokens)
        return [(alpha * math.exp(x) + 1 - alpha) * advantage for x, advantage in zip(tokens, each, strict=True)]

    return over_base(steps, base, change)


def aem(steps, strength=1.0, least_spread=0.1, base="grpo"):
    """AEM (arXiv 2605.00425): responses of low entropy weigh more than others of their group."""
    return over_base(
        steps, base, lambda step, g, i, a: times(modulation(step.entropy[g], strength, least_spread)[i], a)
    )


def modulation(group, strength, least_spread):
    """The factor of each response of a group."""
    entropies = [mean(tokens) for tokens in group]
    low, high = min(entropies), max(entropies)
    if high - low < least_spread:
        return [1.0] * len(entropies)
    weights = [math.exp(-strength * (h - low) / (high - low)) for h in entropies]
    return [weight / mean(weights) for weight in weights]


def curve_rl(groups):
    """CurveRL (arXiv 2605.24331) with the batch as its own reference: (r - mean) f / F over groups that are mixed."""
    rates = [share_correct(group) for group in groups]
    mixed = [p for p in rates if 0 < p < 1]

    def weight(p):
        same, up_to = (sum(1 for other in mixed if relation(other)) for relation in (p.__eq__, p.__ge__))
        return same / up_to if 0 < p < 1 else 0.0

    return [[weight(p) * (r - mean(group)) for r in group] for p, group in zip(rates, groups, strict=True)]


def optimal_token_baseline(steps, eps=1e-8):
    """verl's: each token's reward less the mean of rewards by W; alone at its position, a token keeps its reward."""

    def energies(logp, collision):
        return list(accumulate(1 - 2 * math.exp(x) + c for x, c in zip(logp, collision, strict=True)))

    def of_token(group, weights, i, t):
        who = [k for k, each in enumerate(weights) if len(each) > t]
        if len(who) == 1:
            return group[i]
        share = sum(weights[k][t] for k in who) + eps
        baseline = sum(weights[k][t] * group[k] for k in who) / share
        return 0.0 if len({group[k] for k in who}) == 1 else group[i] - baseline

    history = []
    for step in steps:
        batch = []
        for group, *rows in zip(step.rewards, step.logp, step.collision, strict=True):
            weights = [energies(*row) for row in zip(*rows, strict=True)]
            batch.append([[of_token(group, weights, i, t) for t in range(len(w))] for i, w in enumerate(weights)])
        history.append(batch)
    return history


def opd(steps, gamma=0.0, bound=10.0):
    """On-policy distillation: log pi_T - log pi within a bound; by gamma more, the less of the gaps came before."""

    def of_rollout(logp, teacher):
        gaps = [min(max(y - x, -bound), bound) for x, y in zip(logp, teacher, strict=True)]
        total = sum(map(abs, gaps)) or 1.0
        return [(1 + gamma * (1 - sum(map(abs, gaps[:t])) / total)) * gap for t, gap in enumerate(gaps)]

    return [
        [[of_rollout(*both) for both in zip(*rows, strict=True)] for rows in zip(step.logp, step.teacher, strict=True)]
        for step in steps
    ]


def tempered_grpo(rewards, logp, beta=1.5, eps=1e-6):
    """bandit-RLVR's tempered GRPO, by the likelihood of the first tokens, up to the shortest rollout's length."""
    shortest = min(map(len, logp))
    tilts = [(beta - 1) * sum(tokens[:shortest]) for tokens in logp]
    weights = [math.exp(x - max(tilts)) for x in tilts]
    weights = [w / sum(weights) for w in weights]
    centre = sum(w * r for w, r in zip(weights, rewards, strict=True))
    left = 1 - sum(w * w for w in weights)
    squares = sum(w * (r - centre) ** 2 for w, r in zip(weights, rewards, strict=True))
    spread = math.sqrt(squares / left) if left > 1e-12 else 0.0
    return [
        0.0 if len({*rewards}) == 1 else len(rewards) * w * (r - centre) / (spread + eps)
        for w, r in zip(weights, rewards, strict=True)
    ]


def each_group(formula):
    """A group's formula applied to every group of every step."""
    return lambda steps, **parameters: [[formula(group, **parameters) for group in step.rewards] for step in steps]


def each_group_of_tokens(formula):
    """A formula of a group's rewards and log-probabilities applied to every group of every step."""
    return lambda steps, **parameters: [
        [formula(group, logp, **parameters) for group, logp in zip(step.rewards, step.logp, strict=True)]
        for step in steps
    ]


def each_batch(formula):
    """A batch's formula applied to every step."""
    return lambda steps, **parameters: [formula(step.rewards, **parameters) for step in steps]


def named(formulas, make=lambda formula: formula):
    return {formula.__name__: make(formula) for formula in formulas}


REFERENCES: dict[str, Callable[..., list[Any]]] = {
    **{name: each_group(formula) for name, formula in GROUP_FORMULAS.items()},
    **named([ds_grpo, unlikeliness, t2t, opo, grpo_lead, tempered_grpo], each_group_of_tokens),
    **named([a_grae, reinforce_pp, reinforce_pp_baseline, gpg, bnpo, curve_rl], each_batch),
    **named([
        f_grpo, reject_easy, bbg, least_variance, fade, fade_logarithmic, fade_entropy, running_mean, ha_dw, cw_grpo,
        entropy_advantage, advantage_reweighting, optimal_token_baseline, opd, remax, gdpo, rae, aem, linked,
    ]),
}  # fmt: skip

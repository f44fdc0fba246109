"""Describe one batch: its groups, its tokens, the updates by it, and histograms of its tokens."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from simlab.estimators.tokens import covariance_terms, covariance_thresholds, of_tokens
from simlab.rollouts import Rollouts, sequence_mean

MOST_BINS = 8
Values = dict[str, float | list[float]]
Solutions = Sequence[Sequence[str | None]]


def group_metrics(
    rewards: Num[np.ndarray, "P G"],
    advantages: Num[np.ndarray, "..."],
    mask: Bool[np.ndarray, "..."] | None,
    solutions: Solutions,
    correct: Bool[np.ndarray, "P G"] | None = None,
) -> Values:
    """Return the metrics of a batch of groups.

    - ``reward``, ``solve_rate``: means over all rollouts; without ``correct`` those of a reward above 0 are correct.
    - ``all_wrong``, ``all_right``: shares of groups. The others are active.
    - ``distinct_solutions``, ``distinct_solutions_active``: distinct correct solutions of a group, mean over all groups
      and over the active ones.
    - the masses of ``masses_by_solve_rate``.

    Advantages are (P, G), or (P, G, T) for methods of tokens, of which a rollout counts with their mean over the mask.
    ``solutions`` are P lists of G canonical forms, None for a wrong answer.
    """
    correct = rewards > 0 if correct is None else correct
    counts = correct.sum(axis=1)
    active = (counts > 0) & (counts < rewards.shape[1])
    distinct = np.array([len({*group} - {None}) for group in solutions])
    metrics: Values = {
        "reward": float(rewards.mean(dtype=float)),
        "solve_rate": float(correct.mean()),
        "all_wrong": float((counts == 0).mean()),
        "all_right": float((counts == rewards.shape[1]).mean()),
        "distinct_solutions": float(distinct.mean()),
        "distinct_solutions_active": float(distinct[active].mean()) if active.any() else float("nan"),
    }
    return metrics | masses_by_solve_rate(correct, _of_rollouts(advantages, mask))


def _of_rollouts(advantages: Num[np.ndarray, "..."], mask: Bool[np.ndarray, "..."] | None) -> Float[np.ndarray, "P G"]:
    """Return the advantage of each rollout, the mean over its tokens where they have their own."""
    exact = advantages.astype(float)
    if exact.ndim == 2:
        return exact
    return np.asarray(sequence_mean(exact, Rollouts(exact[..., 0], token_mask=mask)))


def part_metrics(
    parts: Float[np.ndarray, "P G R"] | None,
    weights: Mapping[str, float],
    advantages: Num[np.ndarray, "..."],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> dict[str, float]:
    """Return the metrics of each part r_k of the rewards r = sum of w_k r_k, NaN where one is missing.

    - ``rewards/NAME/mean``: over the rollouts that have it.
    - ``rewards/NAME/spread``: its (population) standard deviation within a group, mean over the groups that have it.
    - ``rewards/NAME/silent``: share of the groups in which it does not vary: they learn nothing from it.
    - ``rewards/NAME/driven``: the share of the advantage that it drives, sum of w_k r_k A / sum of r A, where each
      reward is less its mean over the group. The shares add up to 1. With A = c (r - mean) they are those of the
      squared advantage; under any other weight those of the covariance of reward and advantage, to which the reward's
      growth is proportional: a part of a negative share is unlearned. NaN without such a covariance.

    ``weights`` are w_k by name; there are no metrics without ``parts``.
    """
    if parts is None:
        return {}
    exact, metrics = parts.astype(float), dict[str, float]()
    absent = np.isnan(exact).all(axis=2)
    paid = np.where(absent[..., None], np.nan, np.nan_to_num(exact) * [*weights.values()])
    driven = np.nansum(_less_group_mean(paid) * _of_rollouts(advantages, mask)[..., None], axis=(0, 1))
    for name, values, share in zip(weights, np.moveaxis(exact, 2, 0), driven, strict=True):
        groups = values[~np.isnan(values).all(axis=1)]
        spread = np.sqrt(np.nanmean(_less_group_mean(groups) ** 2, axis=1))
        varies = np.nanmax(groups, axis=1) > np.nanmin(groups, axis=1)
        metrics |= {
            f"rewards/{name}/mean": float(np.nanmean(values)) if len(groups) else float("nan"),
            f"rewards/{name}/spread": float(spread.mean()) if len(groups) else float("nan"),
            f"rewards/{name}/silent": 1 - float(varies.sum() / len(values)),
            f"rewards/{name}/driven": float(share / driven.sum()) if driven.sum() else float("nan"),
        }
    return metrics


def _less_group_mean(values: Float[np.ndarray, "P G ..."]) -> Float[np.ndarray, "P G ..."]:
    """Subtract the mean over each group's numbers, where it has any."""
    present = ~np.isnan(values)
    sums = np.where(present, values, 0).sum(axis=1, keepdims=True)
    return np.asarray(values - sums / np.maximum(present.sum(axis=1, keepdims=True), 1))


def masses_by_solve_rate(correct: Bool[np.ndarray, "P G"], advantages: Float[np.ndarray, "P G"]) -> Values:
    """Return the gradient masses of the groups in each of the ``bins`` of solve rates ``[fade:masses]``.

    ``success_mass`` is m_S = (1/G) sum of A over successes, and ``failure_mass`` m_F = -(1/G) sum of A over failures:
    means over the groups of a bin, NaN without any. ``lowest_rate`` and ``highest_rate`` are the ends of the bin, and
    ``group_share`` the share of the groups in it. ``simlab.theory.masses`` has an estimator's masses by themselves.
    """
    size = correct.shape[1]
    bin_of_count = bins(size)
    group_bins, rates = bin_of_count[correct.sum(axis=1)], np.arange(size + 1) / size
    starts = np.unique(bin_of_count, return_index=True)[1]
    groups = np.bincount(group_bins, minlength=len(starts))
    success = np.where(correct, advantages, 0).sum(axis=1) / size
    failure = 0 - np.where(correct, 0, advantages).sum(axis=1) / size  # 0 - x, for -x would print -0.

    def mean(mass: Float[np.ndarray, " P"]) -> Float[np.ndarray, " B"]:
        total = np.bincount(group_bins, weights=mass, minlength=len(starts))
        return np.where(groups > 0, total / np.maximum(groups, 1), np.nan)

    values = {
        "lowest_rate": rates[starts],
        "highest_rate": rates[np.append(starts[1:] - 1, size)],
        "group_share": groups / len(correct),
        "success_mass": mean(success),
        "failure_mass": mean(failure),
    }
    return {name: column.tolist() for name, column in values.items()}


def bins(group_size: int) -> Int[np.ndarray, " counts"]:
    """Return the bin of x = 0 to G: its own up to G = 7; else 0 and G have one, and others share six equal ones."""
    counts = np.arange(group_size + 1)
    if group_size < MOST_BINS:
        return counts
    inner = MOST_BINS - 2
    shared = (inner * counts + group_size - 1) // group_size  # ceil(6 x / G), in whole numbers
    return np.where(counts == group_size, MOST_BINS - 1, shared)


# Tokens, under the policy that sampled them


def token_metrics(
    logp: Float[np.ndarray, "P G T"],
    entropy: Float[np.ndarray, "P G T"],
    advantages: Num[np.ndarray, "..."],
    mask: Bool[np.ndarray, "P G T"],
    topn_logp: Float[np.ndarray, "P G T N"] | None = None,
) -> Values:
    """Return the metrics of the tokens of a batch.

    - ``entropy``, ``logp``: means over all tokens, in nats.
    - ``covariance``: mean over all tokens of c = (log pi - its mean)(A - its mean) ``[cw-grpo:covariance]``, the means
      over the tokens of the group. Under the natural policy gradient the entropy of a state changes by minus the
      learning rate times this covariance in the state ``[cw-grpo:entropy-covariance]``; ``entropy_change`` of
      ``simlab.llm.instruments.model_changes`` measures the difference to that.
    - ``positive_covariance``, ``negative_covariance``: the c that the first .01, 1, 20, 40 and 100 % of the tokens with
      a positive, or negative, c reach or pass, the rows of Table 1 ``[cw-grpo:table-1-dominance]``.
    - ``sample_logp``, ``rank_logp``: Lambda(sample), the mean over rollouts of the mean over tokens of log pi, and
      Lambda(n), that of the candidate of rank n, for n = 1 to N ``[casp:eq-2-sample]``.

    ``entropy`` is that of the distribution that a token was drawn from. Outside of the mask nothing is read. Without
    ``topn_logp`` of the N likeliest tokens, the likeliest first, there is no ``rank_logp``.
    """
    exact = np.where(mask, logp, 0).astype(float)
    terms = covariance_terms(advantages.astype(float), exact, mask.astype(float), "group")[mask]
    positive, negative = covariance_thresholds(terms)
    metrics: Values = {
        "entropy": float(entropy[mask].mean(dtype=float)),
        "logp": float(exact[mask].mean()),
        "covariance": float(terms.mean()),
        "positive_covariance": positive.tolist(),
        "negative_covariance": negative.tolist(),
        "sample_logp": mean_over_rollouts(exact, mask),
    }
    if topn_logp is not None:
        by_rank = np.moveaxis(topn_logp.astype(float), -1, 0)
        metrics["rank_logp"] = [mean_over_rollouts(ranked, mask) for ranked in by_rank]
    return metrics


def mean_over_rollouts(values: Float[np.ndarray, "P G T"], mask: Bool[np.ndarray, "P G T"]) -> float:
    """Return the mean over rollouts that have tokens of the mean over these."""
    means = sequence_mean(values, Rollouts(values[..., 0], token_mask=mask))
    return float(means[mask.any(axis=-1)].mean())


# Updates: what the surrogate clips, how far the policy has moved


def update_values(
    ratio: Float[np.ndarray, "P G T"],
    coefficients: Num[np.ndarray, "..."],
    advantages: Num[np.ndarray, "..."],
    mask: Bool[np.ndarray, "P G T"],
) -> dict[str, float]:
    """Return the metrics of one update, before the policy moves.

    - ``clipped_share``: share of the tokens whose coefficient the surrogate sets to 0 although their advantage is not.
    - ``ratio_drift``: mean |log ratio| of the tokens.
    - ``policy_kl``: ``kl_from_log_ratio`` of it, of KL(old || new).

    The coefficients are (P, G, T), or (P, G, T, 1 + C) with candidates.
    """
    silent = ~np.any(coefficients.reshape(*mask.shape, -1), axis=-1)
    log_ratio = np.log(ratio[mask].astype(float))
    return {
        "clipped_share": float((silent & (of_tokens(advantages) != 0))[mask].mean()),
        "ratio_drift": float(np.abs(log_ratio).mean()),
        "policy_kl": kl_from_log_ratio(log_ratio),
    }


def kl_from_log_ratio(log_ratio: Float[np.ndarray, "..."]) -> float:
    """Estimate KL(p || q) in nats from log q/p of samples of p: the mean of q/p - 1 - log q/p, k3 ``[cw-grpo:kl]``."""
    return float((np.expm1(log_ratio) - log_ratio).mean())


def batch_values(updates: Sequence[dict[str, float]], learning_rate: float) -> dict[str, float]:
    """Return means over the updates by a batch, and the last one's ``ratio_drift`` and ``policy_kl``.

    >>> first = {"grad_norm": 1.0, "clipped_share": 0.0, "ratio_drift": 0.0, "policy_kl": 0.0}
    >>> last = {"grad_norm": 3.0, "clipped_share": 0.5, "ratio_drift": 0.2, "policy_kl": 0.1}
    >>> batch_values([first, last], 1e-3)["grad_norm"]
    2.0
    """
    means = {name: float(np.mean([update[name] for update in updates])) for name in ("grad_norm", "clipped_share")}
    last = {name: updates[-1][name] for name in ("ratio_drift", "policy_kl")}
    return means | last | {"learning_rate": learning_rate}


# Histograms

PROBABILITIES = 10  # bins of width 1/10
ENTROPIES = 41  # bins of 1/10 nat, the last of which is 4 nats or more


def entropy_histogram(entropy: Float[np.ndarray, "P G T"], mask: Bool[np.ndarray, "P G T"]) -> Int[np.ndarray, " B"]:
    """Count the tokens with an entropy of [0, .1), [.1, .2), ..., [3.9, 4), and 4 nats or more: CaSP's Figure 8."""
    return _count_tenths(entropy[mask], ENTROPIES)


def candidate_histogram(
    topn_logp: Float[np.ndarray, "P G T N"], mask: Bool[np.ndarray, "P G T"]
) -> Int[np.ndarray, "N B"]:
    """Count the tokens whose n-th likeliest candidate has a probability of [0, .1), ..., [.9, 1]: CaSP's Figure 9."""
    chances = np.exp(topn_logp[mask].astype(float))
    return np.stack([_count_tenths(ranked, PROBABILITIES) for ranked in chances.T])


def _count_tenths(values: Float[np.ndarray, " C"], bins: int) -> Int[np.ndarray, " B"]:
    """Count by tenths from 0; rounding may have put a value a little below 0."""
    index = np.searchsorted(np.arange(1, bins) / 10, values, side="right")
    return np.bincount(index, minlength=bins)

"""Metrics of counts and rollouts, against loops, exact fractions and enumeration."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from sweep_cases import refusal

from simlab import theory
from simlab.llm.instruments.batch_metrics import (
    bins,
    candidate_histogram,
    entropy_histogram,
    group_metrics,
    token_metrics,
)
from simlab.llm.instruments.pass_at_k import interval, unbiased_pass_at_k
from simlab.llm.instruments.rare_solutions import Tracked, choose_tracked, tracked_metrics
from simlab.llm.instruments.significance import crossed_interval, subsampling_test

NAN = float("nan")


def exact_pass_at_k(n, c, k):
    return 1 - Fraction(math.comb(n - c, k), math.comb(n, k))


# Pass@k


@pytest.mark.parametrize("n", [1, 6, 256, 2**16])
def test_pass_at_k_is_the_share_of_subsets_that_hold_a_correct_sample(n):
    """It equals exact fractions to 1e-12, tiny ones too."""
    counts = sorted({0, min(2, n), min(77, n), n // 2, n - 1, n})
    for k in {1, min(255, n), max(1, n // 2), n}:
        estimates = unbiased_pass_at_k(np.array(counts), n, k)
        assert estimates.tolist() == pytest.approx([float(exact_pass_at_k(n, c, k)) for c in counts], rel=1e-12, abs=0)


@pytest.mark.slow
def test_the_interval_covers_the_mean_of_where_the_problems_come_from():
    """95 % of 300 samples of 60 problems, within 3.5 standard errors of .0126; it is as wide as a t-interval."""
    random = np.random.default_rng(0)
    samples = random.beta(2, 3, size=(300, 60))
    intervals = [interval(values, seed, 2000) for seed, values in enumerate(samples)]
    covered = np.mean([entry.low <= 0.4 <= entry.high for entry in intervals])
    assert abs(covered - 0.95) < 3.5 * 0.0126
    widths = np.mean([entry.high - entry.low for entry in intervals])
    assert widths == pytest.approx(2 * 1.96 * 0.2 / math.sqrt(60), rel=0.03)
    assert [entry.mean for entry in intervals] == samples.mean(axis=1).tolist()


# The significance of a difference


def naive_hypergeometric(n, c, m):
    return [Fraction(math.comb(c, h) * math.comb(n - c, m - h), math.comb(n, m)) for h in range(min(c, m) + 1)]


def subsampled_differences(n, m, k, first, second):
    spread = Counter()
    counts = [naive_hypergeometric(n, c, m) for c in (*first, *second)]
    for hits in itertools.product(*(range(len(shares)) for shares in counts)):
        values = [exact_pass_at_k(m, hit, k) for hit in hits]
        difference = (sum(values[len(first) :]) - sum(values[: len(first)])) / len(first)
        spread[difference] += math.prod(shares[hit] for shares, hit in zip(counts, hits, strict=True))
    return spread


@pytest.mark.parametrize(("n", "k", "m"), [(8, 2, 4), (7, 2, 3), (8, 5, 5)])
def test_the_test_is_the_enumeration_of_all_subsamples(n, k, m):
    """p within 4 standard errors of 50,000 draws, and interval ends between the exact quantiles beside 2.5 %."""
    first, second = [1, 2], [5, 3]
    spread = subsampled_differences(n, m, k, first, second)
    whole = sum(difference * share for difference, share in spread.items())
    factor = math.sqrt(m / (n - m))
    moved = sorted(
        (float(whole) + factor * float(difference - whole), float(share)) for difference, share in spread.items()
    )
    result = subsampling_test(np.array(first), np.array(second), n, k, 0)
    estimates = [sum(exact_pass_at_k(n, c, k) for c in counts) / 2 for counts in (first, second)]
    assert result.difference == pytest.approx(float(estimates[1] - estimates[0]), rel=1e-12)
    assert whole == estimates[1] - estimates[0]  # the subsamples' mean is the estimate
    p = 2 * min(sum(share for value, share in moved if sign * value < 1e-9) for sign in (1, -1))
    assert result.p == pytest.approx(p, abs=4 * 2 * math.sqrt(p / 2 / 50_000) + 1e-4)
    for end, level in ((result.low, 0.025), (result.high, 0.975)):
        below = sum(share for value, share in moved if value < end - 1e-9)
        upto = sum(share for value, share in moved if value < end + 1e-9)
        assert below - 4 * 0.0007 <= level <= upto + 4 * 0.0007


def test_equal_models_do_not_differ_and_opposite_ones_do():
    counts = np.array([3, 0, 8, 5])
    alike = subsampling_test(counts, counts, 8, 2, 0, iterations=1000)
    assert (alike.difference, alike.significant) == (0, False)
    assert alike.p > 0.5
    certain = subsampling_test(np.zeros(3, int), np.full(3, 8), 8, 4, 0, iterations=1000)
    assert certain == (1.0, 1.0, 1.0, pytest.approx(2 / 1001), True)
    same = subsampling_test(np.array([0, 8]), np.array([8, 0]), 8, 4, 0, iterations=1000)
    assert same == (0.0, 0.0, 0.0, 1.0, False)


def test_a_difference_is_significant_where_p_is_below_5_percent():
    random = np.random.default_rng(5)
    outcomes = set()
    for seed in range(60):
        first, second = random.binomial(16, 0.5, size=(2, 8))
        result = subsampling_test(first, second, 16, 1, seed, iterations=1000)
        assert result.significant == (result.p < 0.05) == (not result.low <= 0 <= result.high)
        outcomes.add(result.significant)
    assert outcomes == {True, False}


# Groups


def naive_masses(rewards, advantages, lowest, highest):
    """Share of the groups in a bin of solve rates, and the means of their two masses."""
    inside = []
    for group, weights in zip(rewards, advantages, strict=True):
        size = len(group)
        if lowest - 1e-9 <= sum(r > 0 for r in group) / size <= highest + 1e-9:
            success = sum(a for r, a in zip(group, weights, strict=True) if r > 0) / size
            failure = -sum(a for r, a in zip(group, weights, strict=True) if r <= 0) / size
            inside.append((success, failure))
    share = len(inside) / len(rewards)
    return (share, *(np.mean(inside, axis=0) if inside else (NAN, NAN)))


@pytest.mark.parametrize("size", [1, 7, 20])
def test_groups_are_what_a_loop_over_them_says(size):
    random = np.random.default_rng(size)
    rewards = (random.random((40, size)) < random.random((40, 1))).astype("float32")
    advantages = random.normal(size=(40, size)).astype("float32")
    solutions = [[str(random.integers(4)) if r else None for r in group] for group in rewards]
    metrics = group_metrics(rewards, advantages, None, solutions)
    distinct = [len(set(group) - {None}) for group in solutions]
    mixed = [count for count, group in zip(distinct, rewards, strict=True) if 0 < sum(group) < size]
    assert metrics["reward"] == metrics["solve_rate"] == pytest.approx(np.mean(rewards))
    assert metrics["all_wrong"] == np.mean([not any(group) for group in rewards])
    assert metrics["all_right"] == np.mean([all(group) for group in rewards])
    assert metrics["distinct_solutions"] == np.mean(distinct)
    assert metrics["distinct_solutions_active"] == pytest.approx(np.mean(mixed) if mixed else NAN, nan_ok=True)
    columns = ("lowest_rate", "highest_rate", "group_share", "success_mass", "failure_mass")
    rows = list(zip(*(metrics[name] for name in columns), strict=True))
    for lowest, highest, *rest in rows:
        assert rest == pytest.approx(naive_masses(rewards.tolist(), advantages.tolist(), lowest, highest), nan_ok=True)
    assert sum(metrics["group_share"]) == pytest.approx(1)


def test_solve_rates_of_larger_groups_share_eight_bins():
    assert bins(7).tolist() == list(range(8))
    assert bins(12).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7]
    for size in range(8, 70):
        expected = [0, *(math.ceil(Fraction(6 * x, size)) for x in range(1, size)), 7]
        assert bins(size).tolist() == expected
        assert set(expected) == set(range(8))


def test_a_rollout_counts_with_the_mean_of_the_advantages_of_its_tokens():
    rewards = np.array([[1.0, 0.0, 0.0]])
    mask = np.array([[[True, True], [True, False], [False, False]]])
    advantages = np.array([[[1.0, 3.0], [-6.0, NAN], [NAN, NAN]]])
    metrics = group_metrics(rewards, advantages, mask, [["a", None, None]])
    assert metrics["success_mass"][1] == pytest.approx(2 / 3)
    assert metrics["failure_mass"][1] == pytest.approx(6 / 3)
    full = group_metrics(rewards, np.full((1, 3, 2), 0.5), None, [["a", None, None]])
    assert full["success_mass"][1] == pytest.approx(0.5 / 3)


# Tokens


def ragged_tokens(seed=0):
    random = np.random.default_rng(seed)
    mask = np.arange(5) < random.integers(1, 6, size=(3, 4))[..., None]
    mask[1, 2] = False
    topn = -np.sort(random.random((3, 4, 5, 2)) * 4)
    fields = (-random.random((3, 4, 5)) * 5, random.random((3, 4, 5)), topn)
    return mask, *(np.where(mask.reshape(*mask.shape, *[1] * (f.ndim - 3)), f, NAN) for f in fields)


def naive_terms(mask, logp, advantages):
    """(log pi - its mean)(A - its mean) of the tokens of each group."""
    tokens = [
        [(logp[p, g, t], advantages[p, g, t]) for g in range(4) for t in range(5) if mask[p, g, t]] for p in range(3)
    ]
    terms = []
    for group in tokens:
        means = [sum(column) / len(group) for column in zip(*group, strict=True)]
        terms += [(x - means[0]) * (a - means[1]) for x, a in group]
    return terms


def naive_threshold(terms, percent):
    """The bound that the first ``percent`` of the terms reach, the most extreme first."""
    ordered = sorted(terms, key=abs, reverse=True)
    return ordered[max(1, math.ceil(percent / 100 * len(terms) - 1e-9)) - 1] if terms else NAN


@pytest.mark.parametrize("of_tokens", [False, True])
def test_tokens_are_what_a_loop_over_them_says(of_tokens):
    mask, logp, entropy, topn = ragged_tokens()
    random = np.random.default_rng(1)
    advantages = random.normal(size=mask.shape if of_tokens else (3, 4))
    each = np.where(mask, advantages if of_tokens else advantages[..., None], NAN)
    metrics = token_metrics(logp, entropy, each if of_tokens else advantages, mask, topn)
    rollouts = [(p, g) for p in range(3) for g in range(4) if mask[p, g].any()]

    def mean_of_means(values):
        return np.mean([np.mean([values[p, g, t] for t in range(5) if mask[p, g, t]]) for p, g in rollouts])

    assert metrics["entropy"] == pytest.approx(np.nanmean(entropy))
    assert metrics["logp"] == pytest.approx(np.nanmean(logp))
    assert metrics["sample_logp"] == pytest.approx(mean_of_means(logp))
    assert metrics["rank_logp"] == pytest.approx([mean_of_means(topn[..., 0]), mean_of_means(topn[..., 1])])
    terms = naive_terms(mask, logp, each)
    assert metrics["covariance"] == pytest.approx(np.mean(terms))
    for name, signed in (("positive", [c for c in terms if c > 0]), ("negative", [c for c in terms if c < 0])):
        expected = [naive_threshold(signed, percent) for percent in (0.01, 1, 20, 40, 100)]
        assert metrics[f"{name}_covariance"] == pytest.approx(expected)


def test_without_covariance_there_are_no_thresholds_and_without_candidates_no_ranks():
    mask = np.ones((1, 2, 3), bool)
    metrics = token_metrics(np.full((1, 2, 3), -1.0), np.ones((1, 2, 3)), np.array([[1, -1]]), mask)
    assert metrics["covariance"] == 0
    assert np.isnan(metrics["positive_covariance"] + metrics["negative_covariance"]).all()
    assert "rank_logp" not in metrics


# Tracked solutions


def test_the_rarest_solution_that_was_found_twice_is_tracked():
    solutions = [
        ["a", "b", "a", None, "b", "a", "c", None],  # c was found once only
        [None] * 8,
        ["a"] * 4 + [None] * 4,  # no group with a correct rollout can miss it
        ["a", "b", "c", "d", None, None, None, None],
        ["x", "y", "y", "x", None, None, None, None],  # equally rare: the first found
    ]
    tracked = choose_tracked(solutions)
    assert tracked == ([0, 4], ["b", "x"], [0.75, 0.5], [0.25, 0.25])
    assert Tracked(**json.loads(json.dumps(tracked._asdict()))) == tracked


def tracked_alone(solution="t"):
    return Tracked([0], [solution], [0.5], [0.25])


def is_missed(group):
    return "t" not in group and None in group and set(group) != {None}


def test_groups_are_split_in_order_enumerated_and_drawn_with_replacement():
    """The rates, their mean over all groups, and the lemma's value at the shares, each by enumeration."""
    samples = ["a", None, "a", None, "b", "t", "a", "a", "a", "t", None]
    misses = tracked_metrics(tracked_alone(), [samples], 4)
    subsets, draws = list(itertools.combinations(samples, 4)), list(itertools.product(samples, repeat=4))
    assert misses == {
        "tracked_active": 1 / 2,
        "tail_miss": 1 / 2,
        "tail_miss_expected": pytest.approx(sum(map(is_missed, subsets)) / len(subsets), rel=1e-12),
        "tail_miss_lemma": pytest.approx(sum(map(is_missed, draws)) / len(draws), rel=1e-12),
        "tracked_correct_mass": 8 / 11,
        "tracked_solution_mass": 2 / 11,
        "tracked_lost": 0,
    }
    other = tracked_metrics(tracked_alone("a"), [samples[::-1]], 4)
    both = tracked_metrics(Tracked([0, 1], ["t", "a"], [0.5] * 2, [0.25] * 2), [samples, samples[::-1]], 4)
    assert both == {name: pytest.approx((value + other[name]) / 2) for name, value in misses.items()}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_mean_over_groups_is_unbiased_and_the_plugged_in_lemma_is_not(size):
    """The expectation over all outcomes of four samples, against Lemma 3.1 at the true mu and tau."""
    shares = {"t": 0.2, "a": 0.4, None: 0.4}
    unbiased = plugged_in = 0.0
    for samples in itertools.product(shares, repeat=4):
        chance = math.prod(shares[sample] for sample in samples)
        misses = tracked_metrics(tracked_alone(), [samples], size)
        unbiased += chance * misses["tail_miss_expected"]
        plugged_in += chance * misses["tail_miss_lemma"]
    truth = theory.tail_miss(size, 0.6, 0.2)
    assert unbiased == pytest.approx(truth, abs=1e-15)
    assert (abs(plugged_in - truth) > 0.003) == (size > 1)


def test_a_solution_that_no_sample_holds_is_lost_and_without_tracked_ones_there_is_no_rate():
    lost = tracked_metrics(tracked_alone("gone"), [["a", None, "a", None]], 2)
    assert (lost["tracked_lost"], lost["tracked_solution_mass"], lost["tail_miss"]) == (1, 0, 1)
    assert lost["tail_miss"] == lost["tracked_active"]
    nothing = tracked_metrics(Tracked([], [], [], []), [], 2)
    assert nothing.keys() == lost.keys()
    assert all(math.isnan(value) for value in nothing.values())


# Histograms of tokens


def test_tokens_are_counted_by_tenths_of_a_nat():
    """Edges belong to the bin above; values rounded below 0 to the first, and all from 4 on to the last."""
    entropy = np.array([[[0.0, -1e-9, 0.05, 0.1, 0.3, 3.95, 4.0, 11.0, 2.0]]])
    mask = np.array([[[True] * 8 + [False]]])
    expected = {0: 3, 1: 1, 3: 1, 39: 1, 40: 2}
    assert entropy_histogram(entropy, mask).tolist() == [expected.get(number, 0) for number in range(41)]
    assert entropy_histogram(entropy, np.zeros_like(mask)).sum() == 0


def test_candidates_are_counted_by_rank_and_tenths_of_probability():
    """Probability 1, or a little more by rounding, is in the last bin, and 0 in the first."""
    logp = np.log([[1.0, 1e-300], [0.55, 0.45], [1 + 1e-12, 1e-300], [0.9, 0.05]])[None, None]
    logp[0, 0, 0, 1] = -np.inf
    mask = np.array([[[True, True, True, False]]])
    histogram = candidate_histogram(logp, mask)
    assert histogram.tolist() == [[0, 0, 0, 0, 0, 1, 0, 0, 0, 2], [2, 0, 0, 0, 1, 0, 0, 0, 0, 0]]


# Intervals over seeds and problems

T_2, T_3 = 4.302652729749464, 3.182446305283710  # the .975 quantiles for 2 and 3 degrees of freedom
ROWS = [[Fraction(n, 8) for n in row] for row in ([5, 0, 3, 8], [6, 1, 2, 8], [8, 0, 0, 7])]


def naive_variance_of_problems(rows):
    """Solve the expected mean squares of a crossed design for it, in fractions."""
    s, p = len(rows), len(rows[0])
    mean = sum(map(sum, rows)) / Fraction(s * p)
    of_rows = [sum(row) / Fraction(p) for row in rows]
    of_columns = [sum(column) / Fraction(s) for column in zip(*rows, strict=True)]
    square_columns = s * sum((value - mean) ** 2 for value in of_columns) / (p - 1)
    residuals = [rows[i][j] - of_rows[i] - of_columns[j] + mean for i in range(s) for j in range(p)]
    square_noise = sum(residual**2 for residual in residuals) / Fraction((s - 1) * (p - 1))
    return (square_columns - square_noise) / s


def test_the_interval_is_that_over_seeds_widened_by_the_variance_of_problems():
    means = [float(sum(row)) / 4 for row in ROWS]
    half = (T_2**2 * np.var(means, ddof=1) / 3 + T_3**2 * float(naive_variance_of_problems(ROWS)) / 4) ** 0.5
    result = crossed_interval(np.array(ROWS, float))
    assert result == pytest.approx((np.mean(means), np.mean(means) - half, np.mean(means) + half), rel=1e-12)


def test_where_problems_do_not_differ_it_is_the_t_interval_over_seeds():
    values = np.array([[0.2, 0.3], [0.5, 0.4], [0.1, 0.2]])
    assert naive_variance_of_problems(values.tolist()) < 0
    means = values.mean(axis=1)
    half = T_2 * means.std(ddof=1) / 3**0.5
    assert crossed_interval(values)[1:] == pytest.approx((means.mean() - half, means.mean() + half), rel=1e-12)
    assert crossed_interval(np.full((2, 2), 0.25)) == (0.25, 0.25, 0.25)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "problems", "noise"),
    [(0.0, 1.0, 1.0), (0.3, 1.0, 1.0), (1.0, 0.0, 1.0), (0.05, 1.0, 0.3), (0.0, 0.0, 1.0)],
)
def test_it_covers_the_mean_in_95_of_100_runs_of_three_seeds(seeds, problems, noise):
    """2000 designs of 3 x 32 with these standard deviations: at least .95, less three standard errors of .0049."""
    random, covered = np.random.default_rng(0), 0
    for _ in range(2000):
        values = seeds * random.normal(size=(3, 1)) + problems * random.normal(size=32)
        _, low, high = crossed_interval(values + noise * random.normal(size=(3, 32)))
        covered += low <= 0 <= high
    assert 0.95 - 3 * (0.95 * 0.05 / 2000) ** 0.5 <= covered / 2000 <= 0.99


# Bad input

COUNTS = {"first_correct": np.array([1, 2]), "second_correct": np.array([3, 4]), "samples": 8, "k": 1, "seed": 0}


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: unbiased_pass_at_k(np.array([1]), 4, 5), "k = 5"),
        (lambda: unbiased_pass_at_k(np.array([1, 5]), 4, 1), "correct holds 5"),
        (lambda: subsampling_test(**COUNTS | {"second_correct": np.array([1])}), "2 and 1 problems"),
        (lambda: subsampling_test(**COUNTS | {"second_correct": np.array([1, 9])}), "correct holds 9"),
        (lambda: subsampling_test(**COUNTS | {"k": 8}), "k = 8"),
    ],
)
def test_bad_input_is_refused(call, names):
    assert names in refusal(call)

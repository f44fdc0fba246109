"""The figure ``budget``: how it finds the best group size, and which sizes it calls as good."""

import numpy as np

from figures.shared.best_size import at_own_rates, best_sizes


def noisy(means, spread, seeds=40, seed=0):
    """(sizes, seeds, costs) around means (sizes, costs)."""
    random = np.random.default_rng(seed)
    means = np.asarray(means, float)
    return means[:, None] + spread * random.standard_normal((means.shape[0], seeds, means.shape[1]))


def test_each_half_of_the_seeds_is_shown_at_the_rate_that_the_other_half_chooses():
    """Even seeds do well at the first rate and odd ones at the second: each is shown at the wrong one."""
    values = np.zeros((1, 2, 6, 1))
    values[0, 0, ::2], values[0, 1, 1::2] = 1, 1
    assert at_own_rates(values).ravel().tolist() == [0] * 6


def test_a_rate_that_is_best_for_all_is_shown_of_all_size_by_size_and_cost_by_cost():
    random = np.random.default_rng(1)
    values = random.uniform(0, 0.1, (3, 2, 8, 4))
    best = random.integers(0, 2, (3, 4))
    for size in range(3):
        for cost in range(4):
            values[size, best[size, cost], :, cost] += 1
    assert (at_own_rates(values) >= 1).all()


def test_the_rate_of_pure_noise_looks_no_better_than_it_is():
    """Chosen by the seeds that are shown, the best of 50 rates of mean 0 would be at 2.2 standard errors."""
    values = np.random.default_rng(2).standard_normal((200, 50, 16, 1))
    shown = at_own_rates(values).mean(axis=1)
    assert abs(shown.mean()) <= 4 * shown.std(ddof=1) / np.sqrt(200)
    assert values.mean(axis=2).max(axis=1).mean() > 0.4


def test_the_best_size_is_that_of_the_largest_mean_at_each_cost():
    found = best_sizes(noisy([[0.1, 0.9], [0.5, 0.5], [0.3, 0.3]], 0.05))
    assert found.place.tolist() == [1, 0]
    assert found.as_good.tolist() == [[False, True], [True, False], [False, False]]


def test_sizes_that_seeds_cannot_tell_apart_are_as_good():
    found = best_sizes(noisy([[0.50], [0.52], [0.1]], 0.5))
    assert found.as_good.ravel().tolist()[:2] == [True, True]
    assert not found.as_good[2]


def test_a_hundredth_less_is_as_good_however_sure():
    found = best_sizes(noisy([[0.995], [1.0], [0.98]], 0.0))
    assert found.as_good.ravel().tolist() == [True, True, False]


def test_what_seeds_have_in_common_makes_no_two_sizes_alike():
    """Every seed is .05 better with the second size, however far apart seeds are."""
    base = np.random.default_rng(3).uniform(0, 0.9, 40)
    found = best_sizes(np.stack([base, base + 0.05])[:, :, None])
    assert found.as_good.ravel().tolist() == [False, True]

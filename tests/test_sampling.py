"""Sampling against exact probabilities: every action, however rare, on the small-group and the large-group path.

Statistics are compared with their own mean under the hypothesis that the sampler is exact, within 4 of their own
standard deviations; seeds are fixed.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab.simulator import sampling
from simlab.simulator.sampling import draw
from simlab.simulator.storage import DENSE


@functools.partial(jax.jit, static_argnums=2)
def group(key, weights, group_size, index):
    return draw(jax.random.fold_in(key, index), weights, group_size)


@functools.partial(jax.jit, static_argnums=2)
def counted(key, weights, group_size, indices):
    """Count the draws of each action, group after group, to draw 10^7 and more."""

    def add(counts, index):
        return counts.at[group(key, weights, group_size, index)].add(1), None

    return jax.lax.scan(add, jnp.zeros(weights.shape[0], jnp.int32), indices)[0]


group_by_group = jax.jit(jax.vmap(group, in_axes=(None, None, None, 0)), static_argnums=2)


def sample(function, weights, group_size, groups, dtype, *, seed=0):
    """The groups of a run, (groups, group_size) actions, or (N,) counts of each action in them."""
    with jax.enable_x64(dtype == "float64"):
        key, indices = jax.random.key(seed, impl="threefry2x32"), jnp.arange(groups, dtype=jnp.uint32)
        return np.asarray(function(key, jnp.asarray(weights, dtype), group_size, indices)).astype(np.int64)


def exact_probabilities(weights, dtype):
    """The probabilities of the weights as the dtype holds them."""
    held = np.asarray(weights, dtype).astype(np.float64)
    return held / held.sum()


def assert_drawn_from(counts, probabilities):
    """Pearson's chi-square over the cells that can occur, and no count in those that cannot.

    Under multinomial counts its mean is K - 1, its variance 2 (K - 1) + (sum of 1/p - K^2 - 2 K + 2) / n.
    """
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    counts, probabilities = counts[possible], probabilities[possible]
    cells, draws = len(counts), counts.sum()
    statistic = np.sum((counts - draws * probabilities) ** 2 / (draws * probabilities))
    variance = 2 * (cells - 1) + (np.sum(1 / probabilities) - cells**2 - 2 * cells + 2) / draws
    assert abs(statistic - (cells - 1)) <= 4 * np.sqrt(variance)


def uneven_weights(actions):
    """Weights over five orders of magnitude, a fifth of them 0, first and last above 0."""
    rng = np.random.default_rng(actions)
    weights = 10 ** rng.uniform(-4, 1, actions)
    weights[1 : actions - 1 : 5] = 0
    return weights


# Up to 128 actions make a block; a group smaller than a quarter of the number of blocks takes the small-group path.
@pytest.mark.parametrize(
    ("actions", "group_size", "groups", "dtype"),
    [
        (5, 4, 50_000, "float32"),
        (1100, 2, 50_000, "float64"),
        (1100, 64, 4000, "float32"),
        (5000, 9, 12_500, "float32"),
        (5000, 10, 12_500, "float32"),
    ],
)
def test_actions_are_drawn_with_their_probabilities(actions, group_size, groups, dtype):
    weights = uneven_weights(actions)
    drawn = sample(group_by_group, weights, group_size, groups, dtype)
    assert_drawn_from(np.bincount(drawn.reshape(-1), minlength=actions), exact_probabilities(weights, dtype))


@pytest.mark.slow
@pytest.mark.parametrize(("group_size", "dtype"), [(2, "float32"), (5, "float64")])
def test_draws_are_independent_within_a_group_and_between_keys(group_size, dtype):
    """Pairs of draws, cell by cell: the first two of a group, and the first of one group and of the next."""
    weights = np.zeros(1400)
    weights[[0, 1, 130, 1399]] = [0.5, 1.0, 2.0, 1.5]
    actions = np.flatnonzero(weights)
    drawn = np.searchsorted(actions, sample(group_by_group, weights, group_size, 40_000, dtype, seed=1))
    p = exact_probabilities(weights, dtype)[actions]
    for first, second in [(drawn[:, 0], drawn[:, 1]), (drawn[0::2, 0], drawn[1::2, 0])]:
        pairs = np.bincount(first * len(actions) + second, minlength=len(actions) ** 2)
        assert_drawn_from(pairs, np.outer(p, p).reshape(-1))


@pytest.mark.slow
def test_rare_actions_are_drawn_as_often_as_they_should():
    """Each count beside one likely action, and their sum: binomial with standard error sqrt(n q (1 - q))."""
    weights, group_size, groups = np.resize([1e-9] * 24 + [1e-7], 42_000), 2**17, 128
    weights[0] = 1
    counts, p = sample(counted, weights, group_size, groups, "float32"), exact_probabilities(weights, "float32")
    assert_drawn_from(counts, p)
    for level in np.unique(weights[weights < 1e-6]):
        n, q = group_size * groups, p[weights == level].sum()
        assert abs(counts[weights == level].sum() - n * q) <= 4 * np.sqrt(n * q * (1 - q))


@pytest.mark.parametrize("group_size", [2, 64])
def test_an_action_of_weight_0_is_never_drawn(group_size):
    """The one action that has weight is always drawn, at the edges of blocks and before the padding too."""
    for only in (0, 127, 128, 1099):
        weights = np.zeros(1100)
        weights[only] = 0.7
        assert np.all(sample(group_by_group, weights, group_size, 100, "float32") == only)


@pytest.mark.parametrize(
    ("dtype", "extremes"), [("float32", np.array([0, 2**32 - 1], np.uint32)), ("float64", np.array([0, 1 - 2.0**-52]))]
)
@pytest.mark.parametrize("group_size", [2, 64])
def test_the_least_and_the_largest_random_number_draw_no_action_of_weight_0(group_size, dtype, extremes, monkeypatch):
    """Random numbers that no seed of a test would meet: they draw the first and the last action of a likely block."""
    monkeypatch.setattr(sampling, "random_pairs", lambda key, count, dtype: (jnp.resize(extremes, count),) * 2)
    weights = np.zeros(1100)
    weights[[7, 400, 1090]] = [0.3, 0.1, 0.7]
    with jax.enable_x64(dtype == "float64"):
        actions = draw(jax.random.key(0), jnp.asarray(weights, dtype), group_size)
    assert set(actions.tolist()) <= {7, 400, 1090}
    assert len(set(actions.tolist())) == 2


@pytest.mark.parametrize("group_size", [2, 64])
def test_the_key_alone_decides(group_size):
    """The same key gives the same group, however many are drawn beside it; another key gives another."""
    weights = np.ones(1100)
    few = sample(group_by_group, weights, group_size, 8, "float32")
    np.testing.assert_array_equal(few, sample(group_by_group, weights, group_size, 1000, "float32")[:8])
    assert len({tuple(group) for group in few.tolist()}) == 8
    assert not np.array_equal(few, sample(group_by_group, weights, group_size, 8, "float32", seed=1))


def test_a_place_past_the_end_reads_the_last_value_and_adds_nothing():
    """Weights that are no numbers may give such indices, which nothing checks but XLA."""
    values, indices = jnp.arange(5.0), jnp.array([0, 4, 5, 127, 2**30])
    np.testing.assert_array_equal(jax.jit(DENSE.at)(values, indices), [0, 4, 4, 4, 4])
    more = jax.jit(lambda values, indices: DENSE.add(values, indices, 10.0))
    np.testing.assert_array_equal(more(values, indices), [10, 1, 2, 3, 14])


def test_the_fraction_by_halves_of_words_is_that_of_whole_words():
    """Python's integers agree, for random words and the largest and smallest."""
    rng = np.random.default_rng(0)
    words = np.concatenate([rng.integers(0, 2**32, 500), [0, 1, 2**16 - 1, 2**16, 2**32 - 1]]).astype(np.uint32)
    for total in (1, 3, 2**16 - 1, 2**16, 12_345_678, 2**32 - 1):
        exact = [int(word) * total >> 32 for word in words]
        for function in (sampling.fraction, sampling._partitioned_fraction):
            np.testing.assert_array_equal(function(jnp.uint32(total), jnp.asarray(words)), exact)


def test_a_slot_counts_as_often_as_its_class_and_those_behind_the_classes_once():
    weights, counts = jnp.arange(1.0, 97.0), jnp.array([2.0, 5.0, *[1.0] * 31, 3.0])
    several = np.ones(96)
    several[: len(counts)] = counts
    masses = sampling.row_masses(jnp.array([0, 1, 2, 1]), weights, counts)
    np.testing.assert_array_equal(masses, (np.arange(1, 97) * several).reshape(3, 32)[[0, 1, 2, 1]])

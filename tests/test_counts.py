"""Counts of a group against the multinomial law, and a run that learns from them against one that draws its group.

Statistics are compared with their own mean under the hypothesis that the sampler is exact, within 5 of their own
standard deviations; seeds are fixed.
"""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from simlab import Rollouts, estimator
from simlab.estimators import REGISTRY
from simlab.methods import method
from simlab.problems import anchored, custom, prompt_bank
from simlab.simulator import multinomial as module
from simlab.simulator.call import seed_keys
from simlab.simulator.draw import EQUAL_ROLLOUT_NEEDS, counts_suffice
from simlab.simulator.learner import Learner
from simlab.simulator.multinomial import LARGEST_MEAN, last_count, multinomial, poisson_pairs, split_means
from simlab.simulator.policy import Counted, Listed, distinct_rollouts
from simlab.simulator.sampling import threefry
from simlab.simulator.settings import Settings
from simlab.simulator.state import Samples
from simlab.simulator.storage import DENSE, StoredProblem

DTYPES = ("float32", "float64")
MOST = ("float32", pytest.param("float64", marks=pytest.mark.slow))  # compiling takes most of the time


@functools.partial(jax.jit, static_argnums=2)
def groups(keys, weights, group_size):
    return jax.vmap(lambda key: multinomial(key, weights, jnp.sum(weights), group_size))(keys)


def counts_of(weights, group_size, number, dtype="float32", *, seed=0):
    """(number, N) counts of the groups, and the probabilities of the weights as the dtype holds them."""
    with jax.enable_x64(dtype == "float64"):
        held = jnp.asarray(weights, dtype)
        keys = jax.random.split(jax.random.key(seed, impl="threefry2x32"), number)
        counts = np.asarray(groups(keys, held, group_size)).astype(np.int64)
    assert np.all(counts >= 0)
    np.testing.assert_array_equal(counts.sum(axis=1), group_size)
    exact = np.asarray(held, np.float64)
    return counts, exact / exact.sum()


def assert_mean_and_variance(values, mean, variance, fourth):
    """Check independent values along the first axis against these moments about the mean."""
    n = len(values)
    assert np.all(np.abs(values.mean(axis=0) - mean) <= 5 * np.sqrt(variance / n))
    error = np.sqrt((fourth - variance**2 * (n - 3) / (n - 1)) / n)
    assert np.all(np.abs(values.var(axis=0, ddof=1) - variance) <= 5 * error)


def skewed(actions):
    """Weights over six orders of magnitude, a fifth of them 0."""
    weights = 10 ** np.random.default_rng(actions).uniform(-3, 3, actions)
    weights[::5] = 0
    return weights


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_counts_have_the_moments_of_the_multinomial(dtype):
    """Means and variances of each count, and of sums with random signs, which hold every covariance."""
    size = 3000
    counts, p = counts_of(skewed(301), size, 8000, dtype)
    assert counts[:, p == 0].sum() == 0
    expected = size * p
    assert expected.max() > 20 * LARGEST_MEAN
    assert np.sum((expected > 0) & (expected < 0.01)) > 20
    often = expected * len(counts) > 100  # so that means are nearly normal
    assert often.sum() > 150
    q = p[often]
    binomial_variance = size * q * (1 - q)
    fourth = binomial_variance * (1 + 3 * (size - 2) * q * (1 - q))
    assert_mean_and_variance(counts[:, often], size * q, binomial_variance, fourth)
    rare = ~often & (p > 0)
    total, chance = counts[:, rare].sum(), p[rare].sum()
    assert abs(total - len(counts) * size * chance) <= 5 * np.sqrt(len(counts) * size * chance)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], (301, 12))
    mean, sums = p @ signs, counts @ signs
    variance = size * (1 - mean**2)
    assert_mean_and_variance(sums, size * mean, variance, 3 * variance**2)


@pytest.mark.parametrize("dtype", MOST)
def test_every_count_vector_of_a_small_group_has_its_probability(dtype):
    """Six draws of three actions: a draw again is frequent, and so are groups that lack none or all of their draws."""
    counts, p = counts_of([0.5, 3.0, 1.5], 6, 60_000, dtype)
    assert len({tuple(vector) for vector in counts[:20].tolist()}) > 5  # each key draws its own
    observed = {
        tuple(vector): number for vector, number in zip(*np.unique(counts, axis=0, return_counts=True), strict=True)
    }
    vectors = [vector for vector in itertools.product(range(7), repeat=3) if sum(vector) == 6]
    assert observed.keys() <= set(vectors)
    for vector in vectors:
        chance = math.factorial(6) * math.prod(q**k / math.factorial(k) for q, k in zip(p, vector, strict=True))
        error = math.sqrt(len(counts) * chance * (1 - chance))
        assert abs(observed.get(vector, 0) - len(counts) * chance) <= max(5 * error, 5)


@pytest.mark.parametrize(("weights", "size"), [(np.ones(700), 5), (skewed(700), 40_000), (np.eye(700)[699], 40_000)])
def test_cells_share_the_means_of_their_actions(weights, size):
    means = jnp.asarray(0.95 * size * weights / weights.sum(), jnp.float32)
    slots = math.ceil(size / LARGEST_MEAN)
    of_cells, owners = split_means(means, slots)
    of_cells, actions = np.asarray(of_cells, np.float64).reshape(-1), len(weights)
    assert len(owners) == slots
    assert of_cells.max() <= LARGEST_MEAN
    assert np.all(of_cells[actions + slots :] == 0)
    together = np.append(of_cells[:actions], 0)
    np.add.at(together, np.asarray(owners), of_cells[actions : actions + slots])
    np.testing.assert_allclose(together, np.append(means, 0), rtol=1e-6)


@pytest.mark.parametrize(
    ("mean", "dtype"), [(1e-30, "float32"), (0.3, "float32"), (LARGEST_MEAN, "float32"), (LARGEST_MEAN, "float64")]
)
def test_a_uniform_number_becomes_the_count_whose_probability_it_is_in(mean, dtype):
    """Just below P(count >= k) it is a count of k or more, and just above a smaller one, for each k that can be."""
    bits, unit = (31, 1e-6) if dtype == "float32" else (63, 1e-14)
    held = float(np.asarray(mean, dtype))
    with jax.enable_x64(dtype == "float64"):
        for k in range(1, last_count(bits) + 1):
            survival = sum(math.exp(j * math.log(held) - held - math.lgamma(j + 1)) for j in range(k, k + 150))
            left_out = 2.0**-bits if k > 1 else 0.0
            if survival > 2 * left_out:
                around = jnp.asarray([survival * (1 - unit) - left_out, survival * (1 + unit)], dtype)
                below, above = module._poisson(jnp.full(2, held, dtype), around).tolist()
                assert below >= k > above


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("word", [0, 2**32 - 1])
def test_the_least_and_the_largest_words_are_counts_too(word, dtype, monkeypatch):
    monkeypatch.setattr(module, "threefry", lambda key, first, second: (jnp.full_like(first, word),) * 2)
    with jax.enable_x64(dtype == "float64"):
        means = jnp.asarray([[0.0, 1e-30], [1.0, LARGEST_MEAN]], dtype)
        counts = np.asarray(poisson_pairs(jax.random.key(0), jnp.int32(0), means))
    most = last_count(31 if dtype == "float32" else 63)
    assert counts[0] & 0xFFFF == 0  # a mean of 0
    assert counts[1] >> 16 in ((0,) if word else range(20, most + 1))


def test_keys_are_those_of_jax():
    seeds = np.array([0, 1, 2**31, 2**32 - 1])
    expected = jnp.stack([jax.random.key(int(seed), impl="threefry2x32") for seed in seeds])
    np.testing.assert_array_equal(jax.random.key_data(seed_keys(seeds)), jax.random.key_data(expected))
    assert jax.random.key_impl(seed_keys(seeds[0, ...])) == jax.random.key_impl(expected)


def test_the_words_are_those_of_jax():
    key = jax.random.key(5, impl="threefry2x32")
    counter = jnp.arange(2000, dtype=jnp.uint32)
    expected = threefry_2x32(jax.random.key_data(key), counter)
    np.testing.assert_array_equal(jnp.concatenate(threefry(key, counter[:1000], counter[1000:])), expected)


@pytest.mark.parametrize("counts", [(3, 0, 2, 1), (0, 0, 4, 0), (0, 1, 0, 0)], ids=str)
def test_a_group_known_by_its_counts_says_of_its_rollouts_what_a_list_of_them_says(counts):
    """The numbers of correct and of target rollouts, the sum of what equal rollouts share, and its two kinds."""
    correct, target = np.array([True, False, True, False]), np.array([False, False, True, True])
    actions = np.repeat(np.arange(4), counts)
    actions = np.concatenate([actions[correct[actions]], actions[~correct[actions]]])  # the correct ones first
    size, share = len(actions), np.where(correct[actions], 0.25, -1.5)[:, None].astype(np.float32)
    counted = Counted(jnp.array(counts, jnp.int32), jnp.asarray(correct))
    for values in (correct, target):
        marks = counted.label(jnp.asarray(values), DENSE, None, size)
        assert counted.count_labels(marks, jnp.asarray(values)) == values[actions].sum()
        assert jnp.sum(marks) == values[actions].sum()
    assert counted.total(jnp.asarray(share)) == share.sum()
    first_and_last = distinct_rollouts(Counted(counted.counts[None], counted.correct[None]), jnp.asarray(share)[None])
    np.testing.assert_array_equal(first_and_last, share[None, [0, -1]])
    listed = Listed(jnp.asarray(actions)[None])
    np.testing.assert_array_equal(distinct_rollouts(listed, jnp.asarray(share)[None]), share[None])


@pytest.mark.parametrize(
    "name", [name for name, entry in REGISTRY.items() if entry.build().needs <= EQUAL_ROLLOUT_NEEDS]
)
def test_estimators_that_counts_may_feed_weigh_equal_rollouts_equally(name):
    rewards = np.random.default_rng(4).permutation(np.arange(31) < 11).astype(float)[None]
    chosen = estimator(name)
    memory = chosen.init()
    for _ in range(3):
        rollouts = Rollouts(rewards, entropy=np.ones((1, 31, 1)), greedy_reward=np.ones((1, 31)))
        advantages, memory = chosen.update(rollouts, memory)
    for outcome in (0.0, 1.0):
        of_outcome = np.asarray(advantages).reshape(-1)[rewards[0] == outcome]
        assert np.all(of_outcome == of_outcome[0])


LOGITS = np.random.default_rng(0).normal(scale=1.5, size=40).round(2)
PLACE = custom(LOGITS.tolist(), list(range(0, 40, 3)), list(range(0, 16, 3)), 1.0, -0.5)
SGD = {"optimizer": "sgd", "optimizer_parameters": {"learning_rate": 5.0}}
ADAM = {"optimizer": "adam", "optimizer_parameters": {"learning_rate": 0.05, "eps": 1e-5}}


def learners(problem, settings):
    """Return the maker of a key's learner; to be called with 64-bit types enabled if the settings need them."""
    laid = DENSE.load(problem, settings.dtype)
    traced = jax.tree.map(lambda value: jnp.asarray(value, settings.dtype), settings.traced)
    return lambda key: Learner(settings.static, StoredProblem(laid, DENSE, None), key, traced)


def drawn(learner, state, group):
    """The samples of a step that drew a group."""
    groups = jax.tree.map(lambda values: values[None], group)
    policies = learner.policies(state, jnp.zeros(1, jnp.int32))
    return Samples(policies, groups, jnp.zeros((1, 0)), jnp.zeros((1, 0), jnp.int32))


@pytest.mark.parametrize(
    ("method", "rule", "optimizer", "options"),
    [
        pytest.param("w_reinforce", "simulator_literal", ADAM, {}, marks=pytest.mark.slow),
        pytest.param(
            "w_reinforce", "theorem", SGD, {"kl": 0.2, "entropy_bonus": 0.1, "supervised": 0.3}, marks=pytest.mark.slow
        ),
        ("ha_dw", "simulator", ADAM, {}),
        pytest.param("grpo+cispo", "simulator", ADAM, {}, marks=pytest.mark.slow),
    ],
)
def test_a_step_from_counts_is_the_step_from_their_actions(method, rule, optimizer, options):
    """To the rounding of float64, over four groups: with both outcomes, and all wrong, all right, one action alone."""
    rng, size = np.random.default_rng(2), 60
    some = np.flatnonzero(PLACE.correct), np.flatnonzero(~PLACE.correct)
    of_all = [rng.integers(0, 40, size), rng.choice(some[1], size), rng.choice(some[0], size), np.full(size, 3)]
    problem = dataclasses.replace(PLACE, reward_incorrect=0.0) if method == "ha_dw" else PLACE
    chosen = {"temperature": 0.8, "update_rule": rule, "dtype": "float64", "storage": "dense"} | optimizer | options
    with jax.enable_x64(True):
        make = functools.partial(learners(problem, Settings(method, size, **chosen)), jax.random.key(1))
        learner, prompts, nowhere = make(), jnp.zeros(1, jnp.int32), jnp.zeros(40)
        keys, states = learner.key[None], [learner.start()] * 2

        @jax.jit
        def step(state, group):
            learner = make()  # a learner's arrays belong to the trace that made them
            batch, memory = learner.weigh(keys, prompts, drawn(learner, state, group), state)
            return learner.ascend(batch, state._replace(memory=memory))

        for actions in of_all * 2:
            counted = Counted(jnp.asarray(np.bincount(actions, minlength=40), jnp.int32), learner.correct[0])
            groups = counted, Listed(jnp.asarray(actions, jnp.int32))
            states = [step(state, group) for state, group in zip(states, groups, strict=True)]
            times = [jax.vmap(lambda group: group.slot_counts(nowhere, DENSE))(state.last.groups) for state in states]
            np.testing.assert_array_equal(*times)
            actual, expected = (jax.tree.leaves(state._replace(last=None)) for state in states)
            for left, right in zip(actual, expected, strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-13)
        assert np.abs(states[0].parameters - PLACE.logits).max() > 0.01
        assert states[0].sums["active_rate"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [("f_grpo", "float32"), ("maxrl", "float64")])
def test_an_action_that_never_occurs_stays_where_it_is(name, dtype):
    """Adam's eps is so small that it moves a logit by about the learning rate whatever the size of the gradient."""
    problem = custom([*LOGITS, *(LOGITS - 40)], list(range(0, 80, 3)), [0])
    settings = Settings(name, 5000, optimizer_parameters={"eps": 1e-20}, dtype=dtype, storage="dense")
    with jax.enable_x64(dtype == "float64"):
        learner = learners(problem, settings)(jax.random.key(0))
        first = learner.start()
        assert isinstance(first.last.groups, Counted)
        last = jax.jit(lambda: jax.lax.fori_loop(0, 100, learner.step, first))()
    moved = np.asarray(last.parameters != first.parameters)
    assert moved[:40].sum() > 30
    assert not moved[40:].any()


def test_counts_are_drawn_for_large_groups_of_equal_rollouts():
    def are_drawn(method="grpo", actions=10_000, group_size=8192, **others):
        settings = Settings(method, group_size, **{"storage": "dense"} | others)
        return counts_suffice(settings.static, settings.build(), anchored(actions, 1).listed())

    assert are_drawn()
    assert are_drawn("a_grae", update_rule="theorem", kl=0.1)
    assert not are_drawn(actions=100_000)
    assert not are_drawn(actions=10, group_size=64)
    assert not are_drawn(epochs=2)
    assert not are_drawn("cw_grpo")
    assert not are_drawn("grpo+casp")
    assert not are_drawn("grpo+clip_cov")
    assert not are_drawn(storage="sharded")
    bank = prompt_bank(prompts=2, actions=64)
    assert not counts_suffice(Settings("grpo", 8192, storage="dense").static, method("grpo"), bank.listed())

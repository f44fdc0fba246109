"""Allocations of rollouts: sizes by enumeration, steps by naive loops, limits that are the ordinary run, equal cost."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from refusals import refusal

import simlab
from simlab.arms import parse
from simlab.estimators import center, chain
from simlab.problems import PromptBank, custom, interference, prompt_bank
from simlab.simulator.allocation import BY_ROUNDS, first_active, group_sizes, most_learnable, sizes_by_rounds
from simlab.simulator.learner import Learner
from simlab.simulator.runner import check, simulate
from simlab.simulator.settings import Settings
from simlab.simulator.storage import DENSE, StoredProblem

pytestmark = pytest.mark.usefixtures("quickly")

BANK = prompt_bank(solve_rates=[0.05, 0.2, 0.5, 0.8, 0.97], actions=6, modes=2, rare_modes=1)
LISTED = BANK.listed()
PARTS = np.stack([LISTED.correct, np.random.default_rng(0).integers(0, 4, LISTED.correct.shape) / 3], axis=1)
GRADED = PromptBank(LISTED.logits, LISTED.correct, LISTED.target, rewards=PARTS, reward_weights=[1.0, 0.7])
PLACES = {"right or wrong": BANK, "graded": GRADED}
# A link of one's own says nothing of the order of rollouts, or of absent ones.
OWN = dataclasses.replace(
    parse("grpo").build(), estimator=chain(center("mean"), lambda advantages, rollouts: advantages)
)
PLAIN = {"optimizer": "sgd", "optimizer_parameters": {"learning_rate": 1.5}, "group_size": 4}


def learner_of(problem, method="grpo+reinforce", *, seed=0, **settings):
    """A learner of one seed in dense storage, in float64 so that loops agree to the last digits."""
    settings = Settings(method, **PLAIN | {"dtype": "float64", "storage": "dense"} | settings)
    check(problem, settings)
    stored = StoredProblem(DENSE.load(problem.listed(), "float64"), DENSE, None)
    key = jax.random.key(seed, impl="threefry2x32")
    return Learner(settings.static, stored, key, jax.tree.map(jnp.asarray, settings.traced))


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


def task_value(n, p):
    return (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2


def variance(n, p):
    return p * (1 - p) / (n - 1)


def all_sizes(prompts, total, smallest, largest):
    every = itertools.product(range(smallest, largest + 1), repeat=prompts)
    return [sizes for sizes in every if sum(sizes) == total]


RATES = some.lists(some.floats(0, 1), min_size=3, max_size=3)


@pytest.mark.parametrize(("rule", "best", "worth"), [("knapsack", max, task_value), ("variance", min, variance)])
@given(rates=RATES, mean=some.integers(2, 5))
def test_sizes_have_the_largest_value_or_the_least_variance_of_all(rule, best, worth, rates, mean):
    sizes = np.asarray(group_sizes(rule, jnp.asarray(rates, jnp.float32), mean, 2, 8)).tolist()
    values = [sum(map(worth, sizes, rates)) for sizes in all_sizes(len(rates), mean * len(rates), 2, 8)]
    assert sum(map(worth, sizes, rates)) == pytest.approx(best(values), abs=1e-6)


@pytest.mark.slow
@given(
    rule=some.sampled_from(["knapsack", "variance"]),
    rates=some.lists(some.floats(0, 1), min_size=8, max_size=8),
    smallest=some.sampled_from([2, 5]),
    more=some.sampled_from([0, 3]),
    room=some.sampled_from([0, 1, 20]),
)
def test_sizes_cost_what_even_groups_do_and_keep_their_bounds(rule, rates, smallest, more, room):
    mean, largest = smallest + more, smallest + more + room
    sizes = group_sizes(rule, jnp.asarray(rates, jnp.float32), mean, smallest, largest)
    assert int(sizes.sum()) == mean * len(rates)
    assert smallest <= int(sizes.min())
    assert int(sizes.max()) <= largest


@pytest.mark.slow
def test_what_nobody_can_use_goes_to_unsolved_prompts_and_not_to_solved_ones():
    """4 prompts of 6: the one of p = .3 takes its 10, the solved ones the smallest, and the unsolved one the rest."""
    for rule, rate in itertools.product(("knapsack", "variance"), (0.0, 1e-30, 0.5, 1.0)):
        assert group_sizes(rule, jnp.full(7, rate, jnp.float32), 6, 2, 24).tolist() == [6] * 7
    assert group_sizes("knapsack", jnp.array([1.0, 0.3, 0.0, 1.0]), 6, 2, 10).tolist() == [2, 10, 10, 2]


@pytest.mark.parametrize("size", [2, 3])
def test_the_variance_is_that_of_rloos_advantages_by_enumeration(size):
    """The mean of sum A^2 / n^2 over all groups, of rollouts whose gradients are independent with variance 1."""
    p, total = 0.3, 0.0
    for outcomes in itertools.product([0.0, 1.0], repeat=size):
        chance = math.prod(p if right else 1 - p for right in outcomes)
        advantages = np.asarray(simlab.advantages("rloo", np.array([outcomes])))
        total += chance * float((advantages**2).sum()) / size**2
    assert total == pytest.approx(variance(size, p), rel=1e-12)


def asks(rule, right, wrong, round_size):
    return right == 0 if rule == "until_solved" else min(right, wrong) < round_size // 2


def by_rounds(rule, outcomes, mean, round_size):
    """The number of rollouts of each prompt, one round after another, until P ``mean`` are spent."""
    sizes, left = [round_size] * len(outcomes), (mean - round_size) * len(outcomes)
    while left:
        room = [len(row) - size for row, size in zip(outcomes, sizes, strict=True)]
        right = [sum(row[:size]) for row, size in zip(outcomes, sizes, strict=True)]
        able = [m for m in range(len(sizes)) if room[m]]
        asking = [m for m in able if asks(rule, right[m], sizes[m] - right[m], round_size)] or able
        for m in asking:
            more = min(round_size, room[m], left)
            sizes[m], left = sizes[m] + more, left - more
    return sizes


@pytest.mark.parametrize("rule", BY_ROUNDS)
@pytest.mark.parametrize(("mean", "round_size", "room"), [(3, 2, 5), (4, 3, 5), (2, 2, 5)])
def test_rounds_by_enumeration_of_all_outcomes_of_two_prompts(rule, mean, round_size, room):
    outcomes = np.array(list(itertools.product([False, True], repeat=2 * room))).reshape(-1, 2, room)
    sizes = jax.vmap(lambda pair: sizes_by_rounds(rule, pair, mean, round_size))(jnp.asarray(outcomes))
    assert sizes.tolist() == [by_rounds(rule, pair.tolist(), mean, round_size) for pair in outcomes]
    assert (sizes.sum(axis=1) == 2 * mean).all()


def test_the_most_learnable_prompts_are_drawn_and_a_random_number_decides_between_equal_ones():
    rates = jnp.array([0.25, 0.75, 0.25, 0.0, 0.5, 1.0])
    randoms = jnp.array([3, 1, 2, 0, 9, 0], jnp.uint32)
    assert most_learnable(rates, randoms, 3).tolist() == [4, 1, 2]


def test_rounding_does_not_decide_between_a_solve_rate_and_its_complement():
    """With rates p and 1 - p, each prompt comes first where its random number is the smaller."""
    for p in np.linspace(0.001, 0.499, 200, dtype=np.float32):
        rates = jnp.array([p, 1 - p])
        assert [most_learnable(rates, jnp.array(pair, jnp.uint32), 1).item() for pair in ((1, 2), (2, 1))] == [0, 1]


def test_the_first_active_groups_are_kept_as_long_as_they_are_wanted():
    active = jnp.array([False, True, True, False, True])
    assert first_active(active, jnp.int32(2)).tolist() == [False, True, True, False, False]
    assert first_active(active, jnp.int32(9)).tolist() == active.tolist()


def pays(kind, prompt, action):
    """The pay of an action: 1 where it is right, or its parts by their weights."""
    if kind == "graded":
        return 1.0 * PARTS[prompt, 0, action] + 0.7 * PARTS[prompt, 1, action]
    return float(LISTED.correct[prompt, action])


def naive_gradient(logits, actions, rewards):
    """(A,) of GRPO on one group: the mean over its rollouts of (r - mean) / std times grad log pi."""
    p = np.exp(logits - logits.max())
    p /= p.sum()
    mean = sum(rewards) / len(rewards)
    spread = math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
    gradient = np.zeros(len(logits))
    if len({*rewards}) == 1:
        return gradient
    for action, reward in zip(actions, rewards, strict=True):
        for index in range(len(logits)):
            gradient[index] += (reward - mean) / spread * ((index == action) - p[index]) / len(rewards)
    return gradient


GRPO = "grpo(eps=0)+reinforce"


@functools.partial(jax.jit, static_argnums=0)
def weighing(learner, index, state):
    state, keys, prompts, drawn = learner.draw(index, state)
    batch, _ = learner.weigh(keys, prompts, drawn, state)
    return prompts, drawn.groups.slots, batch.rollouts.mask


@functools.partial(jax.jit, static_argnums=0)
def stepped(learner, index, state):
    return learner.step(index, state)


def drawn_by_loops(learner, index, state):
    """The groups of a step as lists of actions, by prompt, in the order of the batch."""
    prompts, slots, mask = weighing(learner, jnp.int32(index), state)
    present = np.ones(slots.shape, bool) if mask is None else np.asarray(mask)
    return {int(m): np.asarray(row)[there].tolist() for m, row, there in zip(prompts, slots, present, strict=True)}


SLOW = pytest.mark.slow
RULES_AND_PLACES = [("knapsack", "right or wrong"), *(pytest.param(*both, marks=SLOW) for both in (
    ("variance", "right or wrong"), ("knapsack", "graded"), ("variance", "graded")))]  # fmt: skip


@pytest.mark.parametrize(("rule", "kind"), RULES_AND_PLACES)
def test_ragged_groups_each_count_as_one_prompt_by_loops(rule, kind, double):
    """Sizes go by how often a prompt is solved, whatever else is paid."""
    learner = learner_of(PLACES[kind], GRPO, allocation=rule, prompts_per_step=3)
    state, correct = learner.start(), LISTED.correct
    believed, accepted = dict.fromkeys(range(5), 0.5), 0.0
    for index in range(12):
        groups = drawn_by_loops(learner, index, state)
        sizes = group_sizes(rule, jnp.array([believed[m] for m in groups]), 4, 2, 16).tolist()
        assert [len(drawn) for drawn in groups.values()] == sizes
        assert sum(sizes) == 3 * 4
        expected = np.array(state.parameters)
        for m, actions in groups.items():
            expected[m] += 1.5 * naive_gradient(expected[m], actions, [pays(kind, m, a) for a in actions]) / 3
            believed[m] = float(np.mean([correct[m][a] for a in actions]))
        accepted += np.mean([correct[m][a] for m, actions in groups.items() for a in actions])
        state = stepped(learner, jnp.int32(index), state)
        np.testing.assert_allclose(state.parameters, expected, rtol=1e-10, atol=1e-15)
    assert len(set(sizes)) > 1
    assert float(state.sums["accepted_rate"]) == pytest.approx(accepted)  # means over rollouts, whatever their group


@pytest.mark.parametrize(("rule", "kind"), [("sequential", "right or wrong"),
    *(pytest.param(*both, marks=SLOW) for both in (
        ("until_solved", "right or wrong"), ("sequential", "graded"), ("until_solved", "graded")))])  # fmt: skip
def test_groups_that_grow_by_rounds_are_learned_from_by_loops(rule, kind, double):
    learner = learner_of(PLACES[kind], GRPO, allocation=rule, prompts_per_step=3)
    state, correct, seen = learner.start(), LISTED.correct, set()
    for index in range(8):
        prompts, slots, mask = (np.asarray(values) for values in weighing(learner, jnp.int32(index), state))
        sizes = by_rounds(rule, [correct[m][row].tolist() for m, row in zip(prompts, slots, strict=True)], 4, 2)
        assert mask.sum(axis=1).tolist() == sizes
        expected = np.array(state.parameters)
        for m, row, size in zip(prompts, slots, sizes, strict=True):
            rewards = [pays(kind, m, a) for a in row[:size]]
            expected[m] += 1.5 * naive_gradient(expected[m], row[:size], rewards) / 3
        state = stepped(learner, jnp.int32(index), state)
        np.testing.assert_allclose(state.parameters, expected, rtol=1e-10, atol=1e-15)
        seen |= set(sizes)
    assert len(seen) > 2


@pytest.mark.parametrize("kind", ["right or wrong", pytest.param("graded", marks=SLOW)])
def test_a_curriculum_draws_by_the_solve_rates_of_the_last_groups_by_loops(kind, double):
    learner = learner_of(PLACES[kind], GRPO, allocation="learnable", prompts_per_step=2)
    state, correct = learner.start(), LISTED.correct
    believed = dict.fromkeys(range(5), 0.5)
    for index in range(15):
        groups = drawn_by_loops(learner, index, state)
        least = min(believed[m] * (1 - believed[m]) for m in groups)
        assert all(believed[m] * (1 - believed[m]) <= least + 1e-12 for m in range(5) if m not in groups)
        believed |= {m: float(np.mean([correct[m][a] for a in actions])) for m, actions in groups.items()}
        state = stepped(learner, jnp.int32(index), state)


@pytest.mark.parametrize("kind", ["right or wrong", "graded"])
def test_dynamic_sampling_steps_when_its_batch_is_full_by_loops(kind, double):
    """A group is kept where its rewards differ: of graded ones, more groups than have both outcomes."""
    learner = learner_of(PLACES[kind], GRPO, allocation="dynamic", prompts_per_step=3)
    state = learner.start()
    batch, sizes = [], []
    for index in range(40):
        before = np.array(state.parameters)
        groups = drawn_by_loops(learner, index, state)
        paid = {m: [pays(kind, m, a) for a in actions] for m, actions in groups.items()}
        active = [m for m, rewards in paid.items() if len({*rewards}) > 1]
        batch += [(m, naive_gradient(before[m], groups[m], paid[m])) for m in active][: 3 - len(batch)]
        sizes.append(len(batch))
        state = stepped(learner, jnp.int32(index), state)
        if len(batch) < 3:
            np.testing.assert_array_equal(state.parameters, before)
            continue
        for m, gradient in batch:
            before[m] += 1.5 * gradient / 3
        np.testing.assert_allclose(state.parameters, before, rtol=1e-10, atol=1e-15)
        batch = []
    assert {0, 1, 2, 3} >= set(sizes) >= {2, 3}


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "rule"), [(BANK, "knapsack"), (interference(6, 8), "variance")])
def test_groups_that_have_no_room_to_differ_make_the_ordinary_run_bit_for_bit(problem, rule):
    given_ = PLAIN | {"seeds": 3, "steps": 20, "record_every": 5, "prompts_per_step": 3, "storage": "dense"}
    even = simulate(problem, "grpo", **given_)
    same = simulate(problem, "grpo", **given_, allocation=rule, smallest_group=4, largest_group=4)
    assert even.identical(same)


@pytest.mark.parametrize(
    ("problem", "changes", "message"),
    [
        (BANK, {"allocation": "fair"}, "allocation = 'fair'"),
        (BANK, {"allocation_by": "guess"}, "allocation_by = 'guess'"),
        (BANK, {"allocation": "sequential", "smallest_group": 1}, "smallest_group = 1"),
        (BANK, {"allocation": "knapsack", "smallest_group": 5}, "smallest_group = 5 and largest_group = 16"),
        (BANK, {"allocation": "knapsack", "largest_group": 3}, "smallest_group = 2 and largest_group = 3"),
        (BANK, {"allocation": "knapsack", "storage": "lumped"}, "storage = 'lumped' with allocation = 'knapsack'"),
        (BANK, {"allocation": "dynamic", "epochs": 2}, "allocation = 'dynamic' beside epochs"),
        (BANK, {"allocation": "learnable"}, "allocation = 'learnable' with all 5 prompts"),
        (BANK, {"allocation": "variance", "prompts_per_step": 1}, "allocation = 'variance' of 1 prompt a step"),
        (custom([0.0] * 4, [0], [0]), {"allocation": "knapsack"}, "of 1 prompt a step"),
        (BANK, {"allocation": "knapsack", "method": OWN}, "which tells the rollouts of a group apart"),
    ],
)
def test_an_allocation_that_does_not_fit_is_refused_in_one_line(problem, changes, message):
    assert message in refusal(lambda: check(problem, Settings(**{"method": "grpo"} | PLAIN | changes)))

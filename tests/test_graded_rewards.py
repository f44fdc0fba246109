"""Rewards that are graded, in parts, noisy or a placebo, in the simulator: against loops over every group.

The loops below share nothing with the library: a policy is a list of probabilities, a group a tuple of actions.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusal

import simlab
from simlab.problems import Problem, PromptBank, custom
from simlab.problems.categorical import Categorical
from simlab.problems.registry import problem_constructor
from simlab.problems.rewards import binary_rewards
from simlab.simulator.draw import counts_suffice
from simlab.simulator.metrics import EVERY_STEP, Metric
from simlab.simulator.runner import simulate
from simlab.simulator.settings import Settings
from simlab.sweeps.grid import RUN_PARAMETERS

pytestmark = pytest.mark.usefixtures("quickly")

# Five actions; 1 and 4 are alike: one class in lumped storage.
LOGITS = np.array([0.7, -0.4, 0.2, 1.1, -0.4])
CORRECT = np.array([1, 0, 1, 0, 0], bool)
PARTS = np.array([[1.0, 0.0, 1.0, 0.0, 0.0], [0.5, 1.0, 0.0, 0.25, 1.0]])
WEIGHTS = np.array([1.0, 0.6])
RATE, SEEDS = 0.5, 500
SGD = {"optimizer": "sgd", "optimizer_parameters": {"learning_rate": RATE}, "dtype": "float64"}


def bandit(rewards=PARTS, **others):
    others = {"reward_weights": WEIGHTS} | others if np.ndim(rewards) > 1 else others
    return Categorical(LOGITS, CORRECT, CORRECT, rewards=rewards, **others)


# By hand


def probabilities(logits):
    weights = [math.exp(logit) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def z_scores(values, ddof, eps):
    centre = sum(values) / len(values)
    spread = math.sqrt(sum((value - centre) ** 2 for value in values) / (len(values) - ddof))
    return [0.0 if len({*values}) == 1 else (value - centre) / (spread + eps) for value in values]


def by_hand(method, rewards, weights):
    """Advantages of one group, (rollouts) of rewards (rollouts, R)."""
    totals = [sum(w * x for w, x in zip(weights, row, strict=True)) for row in rewards]
    if method == "gdpo":
        each = [z_scores([row[k] for row in rewards], 1, 1e-4) for k in range(len(weights))]
        sums = [sum(w * z[i] for w, z in zip(weights, each, strict=True)) for i in range(len(rewards))]
        return z_scores(sums, 1, 1e-4)
    if method == "remax":  # action 3 is the likeliest
        return [r - WEIGHTS @ PARTS[:, 3] for r in totals]
    if method == "rloo":
        return [r - (sum(totals) - r) / (len(totals) - 1) for r in totals]
    return z_scores(totals, 0, 1e-6)


def outcomes(method, group_size):
    """The chance of each record after one step, over every group: (Q_pos, parts of the reward...) by its rounding."""
    p, chances, scores = probabilities(LOGITS), defaultdict(float), PARTS.T.tolist()
    for group in itertools.product(range(5), repeat=group_size):
        advantages = by_hand(method, [scores[action] for action in group], WEIGHTS.tolist())
        logits = list(LOGITS)
        for action, advantage in zip(group, advantages, strict=True):
            for j in range(5):
                logits[j] += RATE * advantage * ((j == action) - p[j]) / group_size
        after = probabilities(logits)
        record = [after[0] + after[2], *(sum(q * row[k] for q, row in zip(after, scores, strict=True)) for k in (0, 1))]
        chances[tuple(round(value, 7) for value in record)] += math.prod(p[action] for action in group)
    return chances


def records(result):
    return np.concatenate([result.q_pos.values[:, -1:], result.part_reward.values[:, -1]], axis=1)


RUNS = [(method, storage) for method in ("gdpo", "grpo", "rloo", "remax") for storage in ("dense", "lumped", "sharded")]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "storage"), RUNS)
def test_one_step_has_each_outcome_as_often_as_the_enumeration_says(method, storage):
    """Each run ends in an outcome of the enumeration, and none of these comes more or less often than it may."""
    expected = outcomes(method, 3)
    result = simulate(bandit(), f"{method}+reinforce", group_size=3, steps=1, seeds=SEEDS, storage=storage, **SGD)
    exact, chances = np.array(list(expected)), np.array(list(expected.values()))
    nearest = np.abs(records(result)[:, None] - exact).max(axis=2)
    assert nearest.min(axis=1).max() < 1e-6
    times = np.bincount(nearest.argmin(axis=1), minlength=len(chances))
    error = np.sqrt(SEEDS * chances * (1 - chances))
    assert (np.abs(times - SEEDS * chances) <= 5 * error + 1).all()
    np.testing.assert_allclose(result.mean_reward, result.part_reward.values @ WEIGHTS, rtol=1e-12)


# Equal numbers


@pytest.mark.slow
def test_binary_rewards_as_an_array_give_the_numbers_of_a_binary_problem():
    settings = {"group_size": 8, "steps": 20, "seeds": 2, "record_every": 10, "pass_at_k": (1, 4)}
    binary, graded = Categorical(LOGITS, CORRECT, CORRECT), bandit(CORRECT.astype(float))
    for method, storage in (("grpo", "dense"), ("f_grpo", "lumped"), ("maxrl+clip_higher", "dense")):
        first, second = (simulate(problem, method, storage=storage, **settings) for problem in (binary, graded))
        for name in first:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)
        np.testing.assert_allclose(second.mean_reward, second.q_pos, rtol=1e-6)


def test_classes_are_told_apart_by_rewards_and_listed_again():
    problem = bandit()
    classes = problem.by_classes()
    assert classes.entries == 4  # 1 and 4 are alike
    assert classes.rewards.shape == (1, 2, 4)
    assert sorted(classes.listed().totals[0]) == sorted(problem.totals[0])
    assert bandit(np.array([0, 1, 0, 0, 2.0])).by_classes().entries == 5


@pytest.mark.slow
def test_prompts_that_differ_have_rewards_of_their_own():
    """A prompt whose rewards are all alike is not moved, and the other goes where its rewards are."""
    logits, members = np.zeros((2, 3)), np.array([[1, 0, 0], [1, 0, 0]], bool)
    rewards = np.array([[0.5, 0.5, 0.5], [0.0, 0.3, 1.0]])
    problem = PromptBank(logits, members, members, rewards=rewards)
    assert problem.rewards.shape == (2, 1, 3)
    result = simulate(problem, "rloo", group_size=8, steps=200, seeds=2)
    assert (result.mean_reward.isel(step=-1) > 0.7).all()
    np.testing.assert_allclose(result.q_pos.isel(step=0), 1 / 3, rtol=1e-6)
    assert (result.q_pos.isel(step=-1) > 1 / 6).all()


# Noise and placebo


class Watched(Categorical):
    """Record a group's pay: its mean, its spread in the group, and its covariance with the truth."""

    @property
    def metrics(self):
        def against_truth(batch):
            rewards, truth = batch.rollouts.rewards, self.totals_now[batch.samples.groups.slots]
            return jnp.mean((rewards - self.mean_now) * (truth - self.mean_now))

        return (
            Metric("paid", "mean", EVERY_STEP, lambda batch: jnp.mean(batch.rollouts.rewards)),
            Metric("spread", "std in a group", EVERY_STEP, lambda batch: jnp.std(batch.rollouts.rewards)),
            Metric("covariance", "of rewards and truth", EVERY_STEP, against_truth),
        )

    @property
    def totals_now(self):
        return jnp.einsum("mrc,r->mc", self.rewards, self.reward_weights)[0]

    @property
    def mean_now(self):
        return self.totals_now @ (jnp.exp(self.logits) / jnp.exp(self.logits).sum())


STILL = {"optimizer": "sgd", "optimizer_parameters": {"learning_rate": 0.0}, "group_size": 64, "seeds": 1}


def watched(logits=LOGITS, problem=None, **settings):
    problem = {"reward_weights": WEIGHTS} | (problem or {})
    instance = Watched(np.asarray(logits), CORRECT, CORRECT, rewards=PARTS, **problem)
    settings = {"steps": 200, "record_every": 1} | STILL | settings
    return simulate(instance, "reinforce", **settings)


@pytest.mark.slow
def test_noise_is_of_a_rollout_an_answer_or_right_and_wrong():
    noise, certain = np.array([0.3, 0.4]), [50.0, 0.0, 0.0, 0.0, 0.0]  # always action 0, whose reward is 1.3
    std = math.hypot(0.3, 0.6 * 0.4)
    of_rollouts = watched(certain, {"reward_noise": noise})
    assert of_rollouts.spread[0, 1:].mean() == pytest.approx(std, rel=0.03)
    assert of_rollouts.paid[0, 1:].mean() == pytest.approx(1.3, abs=5 * std / math.sqrt(200 * 64))
    for unit in ("answer", "prompt"):
        shared = watched(certain, {"reward_noise": noise, "noise_of": unit})
        assert (shared.spread[0, 1:] < 1e-6).all()
        assert len(np.unique(shared.paid[0, 1:].values.round(4))) == 1
        assert abs(float(shared.paid[0, 1]) - 1.3) > 1e-3
    even = np.zeros(5)
    silent = {"reward_weights": np.array([1.0, 0.0])}
    of_answers, of_prompts = (
        watched(even, silent | {"reward_noise": noise, "noise_of": unit}).spread[0, 1:].mean()
        for unit in ("answer", "prompt")
    )
    assert of_answers != pytest.approx(float(of_prompts), rel=0.01)


@pytest.mark.slow
def test_a_placebo_pays_as_much_and_tells_nothing_of_the_answer():
    rewards = WEIGHTS @ PARTS
    p = np.array(probabilities(LOGITS))
    mean = p @ rewards
    variance = p @ (rewards - mean) ** 2
    true, placebo, dealt = (watched(reward=name) for name in ("true", "placebo", "placebo_by_group"))
    for result in (true, placebo, dealt):
        assert result.paid[0, 1:].mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / (200 * 64)))
    assert true.covariance[0, 1:].mean() == pytest.approx(variance, rel=0.05)
    error = 5 * variance / math.sqrt(200 * 64)
    assert abs(placebo.covariance[0, 1:].mean()) < error
    # Dealt out, a rollout keeps its own reward once in 64 times.
    assert abs(dealt.covariance[0, 1:].mean() - variance / 64) < error
    np.testing.assert_allclose(dealt.paid[0, 1:], true.paid[0, 1:], rtol=1e-6)  # the very groups, dealt out


# Settings


RUNNING = {
    "minibatches": {"minibatches": 2},
    "epochs, off-policy": {"epochs": 2, "lag": 1, "correction": "truncated"},
    "dynamic sampling": {"allocation": "dynamic"},
    "sizes by solve rates": {"allocation": "variance"},
    "rounds": {"allocation": "sequential", "group_size": 4},
    "few prompts": {"prompts_per_step": 1},
    "dealt out in groups of all sizes": {"allocation": "variance", "reward": "placebo_by_group"},
    "a role for each prompt": {"method": "rae(roles=2)"},
    "lumped": {"storage": "lumped"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNING)
def test_graded_rewards_are_learned_under_every_setting(name):
    rng = np.random.default_rng(0)
    correct = np.arange(6) < np.array([[2], [2]])
    rewards = np.stack([correct, rng.random((2, 6))], axis=1)
    problem = PromptBank(rng.normal(size=(2, 6)), correct, correct, rewards=rewards, reward_weights=[1, 0.5])
    settings = {"method": "grpo", "group_size": 8} | RUNNING[name]
    result = simulate(problem, settings.pop("method"), steps=150, seeds=2, **settings)
    assert np.isfinite(result.mean_reward).all()
    if "reward" not in settings:
        assert (result.mean_reward.isel(step=-1) > result.mean_reward.isel(step=0) + 0.1).all()


BINARY = custom(LOGITS.tolist(), [0])
REFUSED = [
    (lambda: bandit(np.ones(4)), "rewards have shape (4,); allowed: (5,) graded, (R, 5) in R parts"),
    (lambda: bandit([1, 0, None, 0, 0]), "rewards hold nan (action 2); allowed: finite numbers"),
    (
        lambda: bandit([[1, 0, 1, 0, 0], [0, 1, 0, 0, math.inf]], reward_parts=("correct", "format")),
        "rewards hold inf (part 'format', action 4); allowed: finite numbers",
    ),
    (lambda: bandit([1, 0, 1, 0, 0], reward_weights=[math.nan]), "reward_weights hold nan; allowed: finite numbers"),
    (lambda: bandit("right"), "rewards are no array of numbers"),
    (lambda: bandit(reward_weights=[1.0]), "reward_weights have shape (1,); allowed: (2,), one for each part"),
    (lambda: bandit(reward_parts=("correct",)), "reward_parts = ('correct',); allowed: 2 names, each another"),
    (lambda: bandit(reward_noise=[0.1, -0.1]), "reward_noise = -0.1 is outside its range [0, inf)"),
    (lambda: bandit(noise_of="token"), "noise_of = 'token' is unknown; allowed: rollout, answer, prompt"),
    (lambda: bandit(reward_correct=2.0), "reward_correct = 2.0 and reward_incorrect = 0.0 beside rewards"),
    (lambda: bandit(None, reward_parts=("a", "b")), "reward_parts = ('a', 'b') without rewards"),
    (lambda: binary_rewards(np.ones(5), 0.0), "shape (5,); allowed: one number (graded"),
    (lambda: PromptBank(np.zeros((2, 5)), np.array([CORRECT] * 2), np.array([CORRECT] * 2), rewards=PARTS[0]),
     "rewards have shape (5,); allowed: (2, 5) graded, (2, R, 5) in R parts"),
    (lambda: simulate(bandit(), "maxrl"), "rewards span [0.15, 1.3] and hold 1.3; maxrl is defined for"),
    (lambda: simulate(bandit(), "binary_contrastive"), "binary_contrastive is defined for rewards 0 and 1"),
    (lambda: simulate(bandit(CORRECT * 1.0, reward_noise=[0.1]), "maxrl"), "reward_noise = [0.1] with maxrl, which is"),
    (lambda: simulate(bandit(), false_positive=0.1), "false_positive = 0.1 of graded rewards; allowed: 0"),
    (lambda: simulate(bandit(), reward="random"), "reward = 'random' is unknown; allowed: true, placebo"),
    (lambda: simulate(BINARY, reward="placebo", false_negative=0.1), "reward = 'placebo' with false_neg"),
    (lambda: simulate(BINARY, "remax", reward="placebo"), "with a method that reads the greedy answer"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(call, message):
    assert message in refusal(call)


@pytest.mark.slow
def test_a_number_that_is_not_finite_is_told_with_the_range_of_the_rewards():
    def grow(advantages, rollouts):
        return advantages / (rollouts.rewards - rollouts.rewards)

    message = refusal(simulate, bandit(), simlab.Method(simlab.chain(grow), simlab.surrogates.reinforce()))
    assert "where rewards are graded, from 0.15 to 1.3" in message


@pytest.mark.slow
def test_a_problem_of_ones_own_takes_graded_rewards():
    """The fields of ``Problem`` suffice; the class declares none for rewards."""

    @dataclass(frozen=True, eq=False)
    class Mine(Problem):
        logits: np.ndarray
        correct: np.ndarray
        target: np.ndarray
        over_actions: ClassVar = {"logits": 0, "correct": 0, "target": 0}
        parameters_are_logits = True

    mine = Mine(LOGITS, CORRECT, CORRECT, rewards=PARTS, reward_parts=("right", "form"))
    result = simulate(mine, "gdpo", group_size=4, steps=5)
    assert result.part.values.tolist() == ["right", "form"]
    assert mine.fingerprint != Mine(LOGITS, CORRECT, CORRECT, rewards=PARTS).fingerprint


def test_no_metric_has_the_name_of_a_parameter_that_a_sweep_may_go_through():
    metrics = {metric.name for metric in bandit().recorded}
    assert {"mean_reward", "part_reward"} <= metrics
    assert not metrics & {*RUN_PARAMETERS, *problem_constructor("format_reward").defaults}


def test_groups_are_not_known_by_their_counts_where_rewards_are_more_than_right_or_wrong():
    settings = Settings("grpo", 4096, storage="dense").static
    placebo = Settings("grpo", 4096, storage="dense", reward="placebo").static
    binary = Categorical(LOGITS, CORRECT, CORRECT)
    chosen = [(settings, binary), (settings, bandit()), (placebo, binary)]
    assert [counts_suffice(setting, setting.build(), problem) for setting, problem in chosen] == [True, False, False]


@pytest.mark.slow
def test_a_part_of_weight_0_changes_nothing():
    settings = {"group_size": 8, "steps": 20, "seeds": 2}
    for method in ("grpo", "gdpo"):
        alone, beside = (
            simulate(bandit(rewards, reward_weights=weights), method, **settings)
            for rewards, weights in ((PARTS[:1], None), (PARTS, [1.0, 0.0]))
        )
        for name in set(alone) - {"part_reward"}:
            np.testing.assert_array_equal(alone[name], beside[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["dense", "lumped"])
@pytest.mark.parametrize("reward", ["placebo", "placebo_by_group"])
def test_nothing_is_learned_from_a_placebo(reward, storage):
    binary = custom(LOGITS.tolist(), [0, 2], [2])
    result = simulate(binary, "rloo", reward=reward, group_size=4, steps=1, seeds=400, storage=storage, **SGD)
    change = result.q_pos[:, 1] - result.q_pos[:, 0]
    assert abs(float(change.mean())) < 5 * float(change.std()) / 20 + 2e-3  # a random walk drifts by its square

"""The limits in which one estimator must equal another, as the papers or the formulas have it, and invariances."""

import itertools
import math
import re
import statistics
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simlab import Rollouts, advantages
from simlab.estimators import REGISTRY, center
from simlab.estimators.links import BASELINES

# Groups of any size, of eighths: sums, shifts and scales by whole numbers are exact. Equal rewards and ties are among
# them, and the hardest and easiest mixed groups.
GRADED = [
    np.array(group) / 8
    for group in (
        [3], [8], [0, 0, 0], [8, 8, 8, 8], [5, 5], [8, 0], [1, 6], [8, 0, 0, 0, 0, 0], [8, 8, 8, 8, 0], [0, 1, 2, 8],
        [4, 4, 8, 0, 7], [2, 2, 7, 7, 7, 1, 0], [8, 3, 0, 5, 1, 8, 2, 6, 0, 7, 4, 4],
    )
]  # fmt: skip
BINARY = [
    np.array(group, dtype=float)
    for group in ([0], [1], [0, 0, 0], [1, 1], [1, 0], [0, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0, 1, 0, 0], [1] * 9 + [0])
]


def weights(name, rewards, **parameters):
    """Advantages where every rollout has two tokens of its own log-probability and entropy, and greedy answers fail.

    All rewards above 0 are of correct rollouts.
    """
    index = np.arange(len(rewards), dtype=float)[:, None]
    logp, entropy = -0.5 - np.hstack([index % 5, (3 * index + 1) % 7]) / 8, np.hstack([index % 3, index % 4]) / 4
    fields = {"old_logp": logp, "entropy": entropy, "collision": np.exp(2 * logp), "teacher_logp": logp[::-1] - 0.25}
    fields |= {"correct": rewards > 0, "greedy_reward": np.zeros_like(rewards)}
    return advantages(name, rewards, **fields, **parameters)


def assert_equal(actual, expected, tolerance=1e-12):
    """To rounding, relative to the largest weight; an advantage of tokens equals one of rollouts at each token."""
    expected = expected[..., None] + 0 * actual if actual.ndim > expected.ndim else expected
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


# (estimator, its parameters, the one it must equal, its parameters), on any rewards in [0, 1].
EQUAL: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("power_alpha", {"alpha": 1.0}, "dr_grpo", {}),
    ("easy_power", {"alpha": 1.0}, "dr_grpo", {}),
    ("asym_power", {"alpha_success": 1.0, "alpha_failure": 1.0}, "dr_grpo", {}),
    ("asym_grpo", {"delta": 1.0}, "dr_grpo", {}),
    ("asym_grpo", {"delta": 1e15}, "relu", {}),
    ("asym_rl", {"delta": 0.0}, "dr_grpo", {}),
    ("power_norm", {"gamma": 0.0}, "dr_grpo", {}),
    ("quantile", {"tau": 0.5}, "mc_grpo", {}),
    ("positive_dominant", {"factor": 1.0}, "grpo", {}),
    ("positive_dominant", {"factor": 0.25}, "negative_dominant", {"factor": 4.0}),
    ("positive_dominant", {"factor": 1.0, "ddof": 1}, "grpo", {"ddof": 1}),
    ("ds_grpo", {"success": 0.0, "failure": 0.0}, "grpo", {}),
    ("unlikeliness", {"beta": 0.0}, "grpo", {}),
    ("unlikeliness", {"beta": 0.0, "ranking": "code"}, "grpo", {}),
    ("w_reinforce", {"success": 0.0}, "nsr", {}),
    ("running_mean", {"initial": 0.0}, "reinforce", {}),
    ("remax", {}, "reinforce", {}),
    ("pkpo", {"k": 1}, "reinforce", {}),
    ("pkpo", {"k": 1, "baseline": "none"}, "reinforce", {}),
    ("entropy_advantage", {"alpha": 0.0, "base": "rloo"}, "rloo", {}),
    ("advantage_reweighting", {"alpha": 0.0, "base": "rloo"}, "rloo", {}),
    ("opo", {}, "dr_grpo", {}),
    ("gpg", {}, "dr_grpo", {}),
    ("bnpo", {}, "dr_grpo", {}),
    ("bbg", {"k": 1, "tau": 0.0, "base": "rloo"}, "rloo", {}),
    ("reinforce_pp_baseline", {"eps": 1e-6}, "grpo", {}),
    ("reinforce_pp", {"ddof": 1, "eps": 1e-6}, "grpo", {"ddof": 1}),
    ("aem", {"strength": 0.0, "base": "rloo"}, "rloo", {}),
    ("aem", {"least_spread": 1e9, "base": "maxrl"}, "maxrl", {}),
]
# The same, where only rewards 0 and 1 make them equal.
EQUAL_IF_BINARY: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("power_norm", {"gamma": 0.5}, "grpo", {"eps": 0.0}),
    ("pass_at_k_chen", {"k": 1}, "grpo", {"eps": 0.0}),
    ("curve_rl", {}, "dr_grpo", {}),
    ("mix", {"k": 1}, "grpo", {"eps": 0.0}),
    ("t2t", {"alpha": 0.0}, "grpo", {}),
    ("grpo_lead", {"low": 1.0, "high": 1.0, "eps": 0.0}, "grpo", {"eps": 0.0}),
    ("grpo_lead", {"low": 0.5, "high": 1.5, "steepness": 0.0, "penalty": 0.0}, "grpo", {}),
]


@pytest.mark.parametrize(("name", "parameters", "same", "others"), EQUAL + EQUAL_IF_BINARY)
def test_it_equals(name, parameters, same, others):
    for rewards in BINARY if (name, parameters, same, others) in EQUAL_IF_BINARY else GRADED:
        assert_equal(weights(name, rewards, **parameters), weights(same, rewards, **others))


# Sums, units and zeros of the reward


@pytest.mark.parametrize(
    "name",
    ["dr_grpo", "grpo", "rloo", "f_grpo", "skew_r", "softmax", "maxrl", "power_alpha", "easy_power", "power_norm",
     "hard_focused", "rs_grpo"],
)  # fmt: skip
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12).map(np.array))
def test_mean_centred_weights_sum_to_zero(name, rewards):
    """Otherwise an action that was never sampled would move."""
    total = advantages(name, rewards, correct=rewards > 0)
    assert abs(total.sum()) <= 1e-12 * np.abs(total).sum()


@pytest.mark.parametrize("name", ["dr_grpo", "grpo", "rloo", "maxrl", "softmax", "rs_grpo", "pass_at_k_chen"])
def test_rounding_of_the_mean_does_not_add_up_over_a_large_group(name):
    """One failure in ten thousand: the float32 mean is wrong by 1e-8, which ten thousand successes repeat."""
    rewards = np.ones(10_007, dtype=np.float32)
    rewards[0] = 0
    total = advantages(name, rewards).astype(float)
    assert abs(total.sum()) <= 1e-6 * np.abs(total).sum()


COMPARING = [
    "dr_grpo", "grpo", "rloo", "maxrl", "power_alpha", "a_grae", "skew_r", "power_norm", "easy_power", "asym_power",
    "hard_focused", "easy_focused", "positive_dominant", "negative_dominant", "quantile", "mc_grpo", "relu", "softmax",
    "rs_grpo", "log_mean_exp", "ha_dw", "a_star_po", "curve_rl",
]  # fmt: skip


@pytest.mark.parametrize("name", COMPARING)
def test_equal_rewards_of_any_value_weigh_exactly_nothing(name):
    """Also where the mean of equal rewards is rounded away from them: 0.1 three times."""
    for value, size in ((0.1, 3), (0.7, 10), (1 / 3, 7), (0.9, 40)):
        np.testing.assert_array_equal(advantages(name, np.full(size, value)), np.zeros(size))


@pytest.mark.parametrize("shape", [(1, 41), (41, 1)], ids=["group", "batch"])
def test_equal_rewards_weigh_exactly_nothing_under_jit(shape):
    """XLA divides by 41 through its rounded reciprocal, so that 41 equal rewards differ from their mean."""
    values = np.random.default_rng(0).random((100, 1, 1), dtype=np.float32)
    batches = np.broadcast_to(values, (100, *shape))

    @jax.jit
    @jax.vmap
    def centered(rewards):
        links = [center(baseline) for baseline in BASELINES]
        return [link.update(rewards, Rollouts(rewards), link.init())[0] for link in links]

    for result in centered(batches):
        np.testing.assert_array_equal(result, np.zeros_like(batches))


def test_grpo_ignores_the_unit_and_the_zero_of_the_reward_and_dr_grpo_the_zero():
    for rewards, (scale, shift) in itertools.product(GRADED, ((1, 100), (100, -7), (3, 1))):
        for ddof in (0, 1):
            moved = advantages("grpo", scale * rewards + shift, ddof=ddof, eps=0.0)
            assert_equal(moved, advantages("grpo", rewards, ddof=ddof, eps=0.0))
        assert_equal(advantages("dr_grpo", rewards + shift), advantages("dr_grpo", rewards))


# Limits of single methods


def test_bnpo_is_grpo_where_the_fitted_beta_is_one_of_three_halves():
    """Mean 1/2 and sample variance 1/16: a = b = 3/2, and Beta(3/2, 3/2) has the density 8 sqrt(p q) / pi."""
    groups = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=float)
    assert_equal(advantages("bnpo", groups), advantages("grpo", groups, eps=0.0) * np.pi / 8)


def test_the_two_focused_controls_average_to_a_grae_before_its_attenuation():
    """Eq. 12 is w times the hard control plus 1 - w times the easy one, at gamma 1/2, w being the mean reward."""
    for rewards in GRADED:
        w = rewards.mean()
        if 0 < (rewards > 0).mean() < 1:
            expected = w * weights("hard_focused", rewards) + (1 - w) * weights("easy_focused", rewards)
            assert_equal(weights("a_grae", rewards, alpha=1e-9), expected)


def test_exponential_weights_meet_others_at_both_ends_of_beta():
    for rewards in GRADED:
        size, best = len(rewards), rewards == rewards.max()
        mean, without = weights("dr_grpo", rewards), weights("rloo", rewards)
        assert_equal(weights("softmax", rewards, beta=1e-7) * size / 1e-7, mean, tolerance=1e-6)
        assert_equal(weights("rs_grpo", rewards, beta=1e-7), mean, tolerance=1e-6)
        assert_equal(weights("rs_grpo", rewards, beta=3.0), weights("softmax", rewards, beta=3.0) * size / 3)
        assert_equal(weights("a_star_po", rewards, beta=1e6), mean, tolerance=1e-5)
        assert_equal(weights("a_star_po", rewards, beta=1e-6), rewards - rewards.max(), tolerance=1e-4)
        assert_equal(weights("softmax", rewards, beta=1e4), best / best.sum() - 1 / size)
        assert_equal(weights("log_mean_exp", rewards, beta=1e-6) * size, without, tolerance=1e-4)
        if size > 1:  # max(r) - max(r without i), to log(G) / beta
            steep = weights("log_mean_exp", rewards, beta=1e6)
            np.testing.assert_allclose(steep, weights("pass_at_k_tang", rewards), atol=np.log(size) / 1e6)
        assert_equal(weights("pkpo", rewards, k=size), size * weights("pass_at_k_tang", rewards))


def test_the_mean_of_pkpo_times_the_score_is_an_unbiased_gradient_of_the_best_of_k():
    """Summed over every group of three actions of a softmax policy, with and without its baseline."""
    logits, reward, size, k = np.array([0.3, -0.2, 1.0]), np.array([1.0, 0.5, 0.0]), 3, 2
    p = np.exp(logits) / np.exp(logits).sum()

    def best_of_k(logits):
        p = np.exp(logits) / np.exp(logits).sum()
        return sum(p[list(group)].prod() * reward[list(group)].max() for group in itertools.product(range(3), repeat=k))

    step = 1e-6
    gradient = [(best_of_k(logits + d) - best_of_k(logits - d)) / (2 * step) for d in step * np.eye(3)]
    groups = np.array(list(itertools.product(range(3), repeat=size)))
    for baseline in ("none", "leave_one_out"):
        advantage = advantages("pkpo", reward[groups], k=k, baseline=baseline)
        scores = np.einsum("ng,nga->na", advantage, np.eye(3)[groups] - p) / size
        np.testing.assert_allclose(p[groups].prod(axis=1) @ scores, gradient, rtol=1e-7, atol=1e-9)


def test_the_optimal_baseline_of_tokens_has_the_least_second_moment_of_all():
    """b = sum W r / sum W makes sum W (r - b)^2 least; of tokens that are all as likely it is the mean."""
    draw = np.random.default_rng(0)
    rewards, p = draw.random(5), draw.uniform(0.05, 0.9, (5, 3))
    fields = {"old_logp": np.log(p), "collision": p**2 + (1 - p) ** 2 / 4}
    advantage = advantages("optimal_token_baseline", rewards, **fields, eps=1e-300)
    weight = np.cumsum(1 - 2 * p + fields["collision"], axis=1)
    baseline = rewards[:, None] - advantage
    np.testing.assert_allclose(baseline, np.tile(baseline[:1], (5, 1)), rtol=1e-12)
    second = [(weight * (rewards[:, None] - baseline - d) ** 2).sum(axis=0) for d in (-1e-3, 0, 1e-3)]
    assert (second[1] < second[0]).all()
    assert (second[1] < second[2]).all()
    flat = {name: np.full((5, 3), 0.25) for name in ("old_logp", "collision")} | {
        "old_logp": np.log(np.full((5, 3), 0.5))
    }
    assert_equal(advantages("optimal_token_baseline", rewards, **flat, eps=1e-300), advantages("dr_grpo", rewards))


def test_the_mean_update_of_a_teacher_is_minus_the_gradient_of_the_divergence_from_it():
    """sum_a p_a A_a grad log p_a = -grad KL(p || q), by differences; at the teacher nothing is left to learn."""
    draw = np.random.default_rng(1)
    logits, teacher = draw.normal(size=(2, 6))
    log_q = teacher - np.log(np.exp(teacher).sum())

    def log_p(logits):
        return logits - np.log(np.exp(logits).sum())

    def divergence(logits):
        return np.exp(log_p(logits)) @ (log_p(logits) - log_q)

    p, step = np.exp(log_p(logits)), 1e-6
    advantage = advantages("opd", np.zeros(6), old_logp=log_p(logits)[:, None], teacher_logp=log_q[:, None])[:, 0]
    update = (p * advantage) @ (np.eye(6) - p)
    gradient = [(divergence(logits + d) - divergence(logits - d)) / (2 * step) for d in step * np.eye(6)]
    np.testing.assert_allclose(update, -np.array(gradient), atol=1e-9)
    same = log_q[:, None]
    assert not advantages("opd", np.ones(6), old_logp=same, teacher_logp=same, gamma=0.5).any()


def test_tempered_grpo_is_grpo_at_1_and_that_of_the_tempered_policy_elsewhere():
    """Weights make of rollouts of p a sample of p^beta: sums over all actions are its mean and its advantages."""
    rewards = np.array([1.0, 0, 0, 1, 0, 1])
    assert_equal(weights("tempered_grpo", rewards, beta=1.0), weights("grpo", rewards, ddof=1), 1e-9)
    p = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    for beta in (0.0, 0.5, 2.0):
        tilted = p ** (beta - 1) / (p ** (beta - 1)).sum()
        advantage = advantages("tempered_grpo", rewards, old_logp=np.log(p)[:, None], beta=beta, eps=0.0)
        mean = tilted @ rewards
        spread = np.sqrt(tilted @ (rewards - mean) ** 2 / (1 - (tilted**2).sum()))
        np.testing.assert_allclose(advantage, 6 * tilted * (rewards - mean) / spread, rtol=1e-12)


@pytest.mark.parametrize("base", sorted(REGISTRY))
def test_f_grpo_works_over_every_estimator(base):
    """Also over those of tokens; at gamma 0 it is its base to the last bit."""
    rewards = np.array([[1.0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])
    logp = -1 - np.arange(24.0).reshape(3, 4, 2) % 5
    by_prompt = np.repeat([[1.0], [0.0], [1.0]], 4, axis=1)
    fields = {"old_logp": logp, "entropy": -logp, "greedy_reward": by_prompt, "role": by_prompt}
    fields |= {"collision": np.exp(logp), "teacher_logp": logp[::-1]}
    expected = advantages(base, rewards, **fields)
    for gamma in (0.0, 1.0):
        weight = (np.array([0.75, 0.25, 1.0]) ** gamma).reshape(-1, *[1] * (expected.ndim - 1))
        focused = advantages("f_grpo", rewards, gamma=gamma, base=base, **fields)
        np.testing.assert_array_equal(focused, expected * weight)


def test_docs_trl_says_by_how_much_the_advantages_of_grpo_and_of_trls_own_differ():
    """TRL divides by the sample's standard deviation plus 1e-4."""
    page = (Path(__file__).parent.parent / "docs" / "trl.md").read_text()
    factor, size = re.findall(r"larger by sqrt\(G / \(G - 1\)\), ([\d.]+)\s+for G = (\d+)", page)[0]
    for right in range(1, int(size)):
        rewards = [1.0] * right + [0.0] * (int(size) - right)
        trl = [(reward - statistics.mean(rewards)) / (statistics.stdev(rewards) + 1e-4) for reward in rewards]
        np.testing.assert_allclose(advantages("grpo", np.array(rewards)) / trl, float(factor), atol=6e-4)
        assert advantages("grpo", np.array(rewards), ddof=1, eps=1e-4) == pytest.approx(trl, rel=1e-6)


def test_weights_of_tokens_keep_what_they_promise():
    for rewards in GRADED:
        base, size = weights("grpo", rewards)[:, None], len(rewards)
        flat = np.full((size, 3), -0.75)  # CW-GRPO leaves tokens of equal log-probability
        assert_equal(advantages("cw_grpo", rewards, old_logp=flat), advantages("grpo", rewards))
        if np.abs(base).min() > 0:  # and its weights average to 1: "to maintain the expected loss"
            assert (weights("cw_grpo", rewards) / base).mean() == pytest.approx(1, rel=1e-12)
        logp = np.tile([0.0, -1.0, -800.0], (size, 1))
        reweighted = advantages("advantage_reweighting", rewards, old_logp=logp, alpha=0.25)
        assert_equal(reweighted, base * [1, 0.25 / np.e + 0.75, 0.75])
        bonus = weights("entropy_advantage", rewards, alpha=1e9, kappa=2.0) - base
        assert (bonus >= 0).all()
        assert (bonus <= np.abs(base) / 2 + 1e-12).all()
        # AEM's weights average to 1, and fall with the entropy by a factor of e^strength at most
        entropy = np.arange(2.0 * size).reshape(-1, 2)
        weight = advantages("aem", np.ones(size), entropy=entropy, strength=2.0, base="reinforce")
        assert weight.mean() == pytest.approx(1, rel=1e-12)
        assert (np.diff(weight) < 0).all()
        assert size == 1 or weight[0] / weight[-1] == pytest.approx(math.exp(2), rel=1e-12)

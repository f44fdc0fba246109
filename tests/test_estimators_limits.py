"""The limits in which one estimator must equal another, as their papers say, or as their formulas do."""

import itertools
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simlab import advantages
from simlab.estimators import REGISTRY, Estimator, chain, estimator, focus

# Eighths: sums, shifts and scales by whole numbers are exact.
GRADED = st.lists(st.integers(0, 8), min_size=1, max_size=12).map(lambda values: np.array(values) / 8)
BINARY = st.lists(st.integers(0, 1), min_size=1, max_size=12).map(lambda values: np.array(values, dtype=float))


def weights(name: str | Estimator, rewards: np.ndarray, **parameters: Any) -> np.ndarray:
    """Advantages where every rollout has two tokens of its own log-probability and entropy, and greedy answers fail."""
    place = np.arange(len(rewards), dtype=float)[:, None]
    logp, entropy = -0.5 - np.hstack([place % 5, (3 * place + 1) % 7]) / 8, np.hstack([place % 3, place % 4]) / 4
    return advantages(name, rewards, old_logp=logp, entropy=entropy, greedy_reward=np.zeros_like(rewards), **parameters)


def exact(value: float = 0.0) -> dict[str, Any]:
    """GRPO's parameters in which its std is alone in the denominator."""
    return {"eps": value}


# (estimator, its parameters, the one it must equal, its parameters), on any rewards in [0, 1].
EQUAL: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("power_alpha", {"alpha": 1.0}, "dr_grpo", {}),
    ("easy_power", {"alpha": 1.0}, "dr_grpo", {}),
    ("asym_power", {"alpha_success": 1.0, "alpha_failure": 1.0}, "dr_grpo", {}),
    ("asym_grpo", {"delta": 1.0}, "dr_grpo", {}),
    ("asym_rl", {"delta": 0.0}, "dr_grpo", {}),
    ("power_norm", {"gamma": 0.0}, "dr_grpo", {}),
    ("quantile", {"tau": 0.5}, "mc_grpo", {}),
    ("positive_dominant", {"factor": 1.0}, "grpo", {}),
    ("negative_dominant", {"factor": 1.0}, "grpo", {}),
    ("positive_dominant", {"factor": 0.25}, "negative_dominant", {"factor": 4.0}),
    ("positive_dominant", {"factor": 1.0, "ddof": 1}, "grpo", {"ddof": 1}),
    ("ha_dw", {"scale": 0.0}, "nothing", {}),
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
    ("reinforce_pp_baseline", {"eps": 1e-6}, "grpo", {}),
    ("reinforce_pp", {"ddof": 1, "eps": 1e-6}, "grpo", {"ddof": 1}),
    ("aem", {"strength": 0.0, "base": "rloo"}, "rloo", {}),
    ("aem", {"least_spread": 1e9, "base": "maxrl"}, "maxrl", {}),
]

# The same, where only rewards 0 and 1 make them equal.
EQUAL_IF_BINARY: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("power_norm", {"gamma": 0.5}, "grpo", exact()),
    ("power_norm", {"gamma": 1.0}, "maxrl_and_failures", {}),
    ("pass_at_k_chen", {"k": 1}, "grpo", exact()),
    ("mix", {"k": 1}, "grpo", exact()),
    ("t2t", {"alpha": 0.0}, "grpo", {}),
    ("grpo_lead", {"low": 1.0, "high": 1.0, "eps": 0.0}, "grpo", exact()),
    ("grpo_lead", {"low": 0.5, "high": 1.5, "steepness": 0.0, "penalty": 0.0}, "grpo", {}),
    ("skew_r", {}, "power_norm", {"gamma": -0.5}),
]


def nothing(rewards: np.ndarray) -> np.ndarray:
    return np.zeros_like(rewards)


def maxrl_and_failures(rewards: np.ndarray) -> np.ndarray:
    """(r - p) / (p q): 1 / p on success, -1 / q on failure."""
    p = rewards.mean()
    return (rewards - p) / (p * (1 - p)) if 0 < p < 1 else 0 * rewards


def power_norm(rewards: np.ndarray, gamma: float) -> np.ndarray:
    """Also for the negative exponents that the library refuses."""
    p = rewards.mean()
    return (rewards - p) / (p * (1 - p)) ** gamma if 0 < p < 1 else 0 * rewards


WRITTEN: dict[str, Callable[..., np.ndarray]] = {
    "nothing": nothing,
    "maxrl_and_failures": maxrl_and_failures,
}


def other(name: str, rewards: np.ndarray, parameters: dict[str, Any]) -> np.ndarray:
    if name in WRITTEN:
        return WRITTEN[name](rewards, **parameters)
    if name == "power_norm":
        return power_norm(rewards, **parameters)
    return weights(name, rewards, **parameters)


def assert_equal(one: np.ndarray, another: np.ndarray, tolerance: float = 1e-12) -> None:
    """To rounding, relative to the largest weight; an advantage of tokens equals one of rollouts at each token."""
    another = another[..., None] + 0 * one if one.ndim > another.ndim else another
    scale = np.abs(another).max(initial=0)
    np.testing.assert_allclose(one, another, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(("name", "parameters", "same", "its"), EQUAL)
@given(rewards=GRADED)
def test_it_equals(name: str, parameters: dict[str, Any], same: str, its: dict[str, Any], rewards: np.ndarray) -> None:
    assert_equal(weights(name, rewards, **parameters), other(same, rewards, its))


@pytest.mark.parametrize(("name", "parameters", "same", "its"), EQUAL_IF_BINARY)
@given(rewards=BINARY)
def test_it_equals_for_rewards_0_and_1(
    name: str, parameters: dict[str, Any], same: str, its: dict[str, Any], rewards: np.ndarray
) -> None:
    assert_equal(weights(name, rewards, **parameters), other(same, rewards, its))


@given(rewards=BINARY)
def test_remax_is_nsr_where_the_greedy_answer_is_right(rewards: np.ndarray) -> None:
    assert_equal(advantages("remax", rewards, greedy_reward=np.ones_like(rewards)), weights("nsr", rewards))


def test_bnpo_is_grpo_where_the_fitted_beta_is_one_of_three_halves() -> None:
    """Mean 1/2 and sample variance 1/16: a = b = 3/2, and Beta(3/2, 3/2) has the density 8 sqrt(p q) / pi."""
    groups = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=float)
    assert_equal(advantages("bnpo", groups), advantages("grpo", groups, eps=0.0) * np.pi / 8)


def test_bnpo_is_mean_grpo_where_means_spread_as_widely_as_they_can() -> None:
    """Sample variance at least m (1 - m): no a and b above 0, and Beta(1, 1) is uniform."""
    groups = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=float)
    assert_equal(advantages("bnpo", groups), advantages("dr_grpo", groups))


def test_bnpo_looks_at_rare_solve_rates_most() -> None:
    """Of groups near one half, those farther from it have the larger weight; mean GRPO's is the same for all."""
    groups = np.array([[1, 0, 0, 0], *[[1, 1, 0, 0]] * 6, [1, 1, 1, 0]], dtype=float)
    weight = (advantages("bnpo", groups) / advantages("dr_grpo", groups))[:, 0]
    assert weight[0] == pytest.approx(weight[-1])
    assert weight[0] > 1.8 * weight[1]


def test_grpo_lead_favours_the_shorter_of_two_successes_and_weighs_signs_by_difficulty() -> None:
    """Lengths 1 and 3: z is -1 and 1. Of four rollouts, two are right, and w(1/2) is the same for both signs."""
    lengths = np.array([[1, 0, 0], [1, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=bool)
    rewards = np.array([1.0, 1.0, 0.0, 0.0])
    found = advantages("grpo_lead", rewards, token_mask=lengths, alpha=0.5, eps=0.0)
    shaped = np.array([np.exp(0.5), np.exp(-0.5), -1, -1])
    expected = (shaped - shaped.mean()) / shaped.std()
    assert_equal(found, expected * (0.4 + 1.1 / (1 + np.exp(-2.5))))


def test_grpo_lead_compares_solved_rollouts_by_length_alone() -> None:
    lengths = np.array([[1, 0, 0], [1, 1, 1]], dtype=bool)
    easy, hard = 0.4 + 1.1 / (1 + np.exp(2.5)), 0.4 + 1.1 / (1 + np.exp(-7.5))
    found = advantages("grpo_lead", np.ones(2), token_mask=lengths, eps=0.0)
    assert_equal(found, np.array([easy, -hard]))
    assert not advantages("grpo_lead", np.zeros(2), token_mask=lengths).any()


@given(rewards=GRADED)
def test_asym_grpo_tends_to_relu_as_delta_grows(rewards: np.ndarray) -> None:
    assert_equal(weights("asym_grpo", rewards, delta=1e15), weights("relu", rewards))


@given(rewards=GRADED)
def test_psr_and_nsr_add_up_to_w_reinforce(rewards: np.ndarray) -> None:
    assert_equal(weights("psr", rewards) + weights("nsr", rewards), weights("w_reinforce", rewards, success=1.0))


@given(rewards=GRADED)
def test_the_two_focused_controls_average_to_a_grae_before_its_attenuation(rewards: np.ndarray) -> None:
    """Eq. 12 is w times the hard control plus 1 - w times the easy one, at gamma 1/2, w being the mean reward."""
    w, p = rewards.mean(), (rewards > 0).mean()
    expected = w * weights("hard_focused", rewards) + (1 - w) * weights("easy_focused", rewards)
    found = weights("a_grae", rewards, alpha=1e-9) if w > 0 else expected
    if 0 < p < 1:
        assert_equal(found, expected)


@given(rewards=GRADED)
def test_softmax_is_dr_grpo_times_beta_over_g_as_beta_vanishes(rewards: np.ndarray) -> None:
    beta = 1e-7
    found = weights("softmax", rewards, beta=beta) * len(rewards) / beta
    assert_equal(found, weights("dr_grpo", rewards), tolerance=1e-6)


@given(rewards=GRADED)
def test_rs_grpo_is_dr_grpo_as_beta_vanishes(rewards: np.ndarray) -> None:
    assert_equal(weights("rs_grpo", rewards, beta=1e-7), weights("dr_grpo", rewards), tolerance=1e-6)


@given(rewards=GRADED, beta=st.floats(0.1, 20))
def test_rs_grpo_is_softmax_times_g_over_beta(rewards: np.ndarray, beta: float) -> None:
    expected = weights("softmax", rewards, beta=beta) * len(rewards) / beta
    assert_equal(weights("rs_grpo", rewards, beta=beta), expected)


@given(rewards=GRADED)
def test_softmax_shares_everything_among_the_best_as_beta_grows(rewards: np.ndarray) -> None:
    best = rewards == rewards.max()
    assert_equal(weights("softmax", rewards, beta=1e4), best / best.sum() - 1 / len(rewards))


@given(rewards=GRADED)
def test_log_mean_exp_is_rloo_over_g_as_beta_vanishes(rewards: np.ndarray) -> None:
    found = weights("log_mean_exp", rewards, beta=1e-6) * len(rewards)
    assert_equal(found, weights("rloo", rewards), tolerance=1e-4)


@given(rewards=GRADED.filter(lambda rewards: len(rewards) > 1))
def test_log_mean_exp_is_tangs_pass_at_k_as_beta_grows(rewards: np.ndarray) -> None:
    """max(r) - max(r without i), to log(G) / beta."""
    found, expected = weights("log_mean_exp", rewards, beta=1e6), weights("pass_at_k_tang", rewards)
    np.testing.assert_allclose(found, expected, atol=np.log(len(rewards)) / 1e6)


@given(rewards=GRADED)
def test_pkpo_of_the_whole_group_is_g_times_tangs_pass_at_k(rewards: np.ndarray) -> None:
    size = len(rewards)
    assert_equal(weights("pkpo", rewards, k=size), size * weights("pass_at_k_tang", rewards))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_mean_of_pkpo_times_the_score_is_an_unbiased_gradient_of_the_best_of_k(k: int) -> None:
    """Summed over every group of four actions of a softmax policy, with and without its baseline."""
    logits, reward, size = np.array([0.3, -0.2, 1.0]), np.array([1.0, 0.5, 0.0]), 4
    p = np.exp(logits) / np.exp(logits).sum()

    def best_of_k(logits: np.ndarray) -> float:
        p = np.exp(logits) / np.exp(logits).sum()
        return sum(p[list(group)].prod() * reward[list(group)].max() for group in itertools.product(range(3), repeat=k))

    step = 1e-6
    gradient = [(best_of_k(logits + d) - best_of_k(logits - d)) / (2 * step) for d in step * np.eye(3)]
    for baseline in ("none", "leave_one_out"):
        expected = np.zeros(3)
        for group in itertools.product(range(3), repeat=size):
            chosen = list(group)
            score = np.eye(3)[chosen] - p
            expected += p[chosen].prod() * (weights("pkpo", reward[chosen], k=k, baseline=baseline) @ score) / size
        np.testing.assert_allclose(expected, gradient, rtol=1e-7, atol=1e-9)


@given(rewards=GRADED)
def test_ha_dw_leaves_a_group_as_hard_as_the_past(rewards: np.ndarray) -> None:
    found = weights("ha_dw", rewards, initial=float(rewards.mean()))
    assert_equal(found, weights("grpo", rewards))


@given(rewards=GRADED)
def test_cw_grpo_leaves_tokens_of_equal_log_probability(rewards: np.ndarray) -> None:
    logp = np.full((len(rewards), 3), -0.75)
    assert_equal(advantages("cw_grpo", rewards, old_logp=logp), advantages("grpo", rewards))


@given(rewards=GRADED)
def test_cw_grpo_keeps_the_number_of_tokens(rewards: np.ndarray) -> None:
    """Its weights average to 1, whatever they are: the paper's "to maintain the expected loss"."""
    base = weights("grpo", rewards)
    if np.abs(base).min() > 0:
        ratio = weights("cw_grpo", rewards) / base[:, None]
        assert ratio.mean() == pytest.approx(1, rel=1e-12)


@given(rewards=GRADED)
def test_advantage_reweighting_leaves_certain_tokens_and_keeps_at_least_its_share_of_the_others(
    rewards: np.ndarray,
) -> None:
    base = weights("grpo", rewards)[:, None]
    logp = np.tile([0.0, -1.0, -800.0], (len(rewards), 1))
    found = advantages("advantage_reweighting", rewards, old_logp=logp, alpha=0.25)
    assert_equal(found, base * [1, 0.25 / np.e + 0.75, 0.75])


@given(rewards=GRADED)
def test_aem_keeps_the_number_of_rollouts_and_favours_the_sure_ones(rewards: np.ndarray) -> None:
    """Its weights average to 1, and fall with the entropy by a factor of e^strength at most."""
    entropy = np.arange(2.0 * len(rewards)).reshape(-1, 2)
    weight = advantages("aem", np.ones(len(rewards)), entropy=entropy, strength=2.0, base="reinforce")
    assert weight.mean() == pytest.approx(1, rel=1e-12)
    assert (np.diff(weight) < 0).all()
    if len(rewards) > 1:
        assert weight[0] / weight[-1] == pytest.approx(math.exp(2), rel=1e-12)


@given(rewards=GRADED)
def test_entropy_never_adds_more_than_its_share_of_the_advantage(rewards: np.ndarray) -> None:
    base = weights("grpo", rewards)[:, None]
    bonus = weights("entropy_advantage", rewards, alpha=1e9, kappa=2.0) - base
    assert (bonus >= 0).all()
    assert (bonus <= np.abs(base) / 2 + 1e-12).all()


@given(rewards=BINARY)
def test_chens_pass_at_k_is_nothing_where_pass_at_k_is_certain(rewards: np.ndarray) -> None:
    failures = int((rewards == 0).sum())
    k = min(failures + 1, len(rewards))
    if failures < k:
        assert not weights("pass_at_k_chen", rewards, k=k).any()


@pytest.mark.parametrize("base", sorted(REGISTRY))
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_f_grpo_works_over_every_estimator(base: str, gamma: float) -> None:
    """Also over those of tokens; at gamma 0 it is its base to the last bit."""
    rewards = np.array([[1.0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])
    logp = -1 - np.arange(24.0).reshape(3, 4, 2) % 5
    fields = {"old_logp": logp, "entropy": -logp, "greedy_reward": np.repeat([[1.0], [0.0], [1.0]], 4, axis=1)}
    share = np.array([0.75, 0.25, 1.0])
    expected = advantages(base, rewards, **fields)
    weight = (share**gamma).reshape(-1, *[1] * (expected.ndim - 1))
    np.testing.assert_array_equal(advantages("f_grpo", rewards, gamma=gamma, base=base, **fields), expected * weight)


def test_links_of_groups_weigh_advantages_of_tokens() -> None:
    """A control of difficulty after a link of tokens: each token gets its rollout's weight."""
    both = chain(estimator("entropy_advantage"), focus("hard", 1.0))
    rewards = np.array([1.0, 0, 0, 0])
    np.testing.assert_allclose(weights(both, rewards), 2 * weights("entropy_advantage", rewards), rtol=1e-15)


def test_docs_trl_says_by_how_much_the_advantages_of_grpo_and_of_trls_own_differ() -> None:
    """TRL divides by the sample's standard deviation plus 1e-4."""
    page = (Path(__file__).parent.parent / "docs" / "trl.md").read_text()
    factor, size = re.findall(r"larger by sqrt\(G / \(G - 1\)\), ([\d.]+)\s+for G = (\d+)", page)[0]
    for right in range(1, int(size)):
        rewards = [1.0] * right + [0.0] * (int(size) - right)
        trl = [(own - statistics.mean(rewards)) / (statistics.stdev(rewards) + 1e-4) for own in rewards]
        np.testing.assert_allclose(advantages("grpo", np.array(rewards)) / trl, float(factor), atol=6e-4)
        assert advantages("grpo", np.array(rewards), ddof=1, eps=1e-4) == pytest.approx(trl, rel=1e-6)

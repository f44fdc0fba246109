"""Effects of prompts on one another to first order, and of an erring verifier on a weight, against loops."""

import itertools
import math
import re

import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from simlab.estimators import advantages
from simlab.theory import (
    contrast,
    crossing_k,
    expected_speed,
    judged_masses,
    judged_speed,
    log_odds_drift,
    masses,
    pass_at_k_change,
    time_until_lost,
    transfer,
)

RATES = np.array([0.0, 1e-9, 0.01, 0.3, 0.5, 0.97, 1.0])
FEATURES = np.array([[1.0, 0.0], [0.6, 0.8], [-0.8, 0.6]])
KERNEL = FEATURES @ FEATURES.T
POLICIES = np.array([[0.5, 0.2, 0.2, 0.1], [0.6, 0.01, 0.29, 0.1], [0.25, 0.25, 0.25, 0.25]])
CORRECT = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], dtype=bool)


def speed_over_every_group(name, size, p):
    """E[(1/G) sum of A (r - Q)] / (Q (1 - Q)), over all 2^G groups of rewards."""
    total = 0.0
    for group in itertools.product((0.0, 1.0), repeat=size):
        weights = advantages(name, np.array([group]))[0]
        chance = math.prod(p if right else 1 - p for right in group)
        total += chance * sum(a * (r - p) for a, r in zip(weights, group, strict=True)) / size
    return total / (p * (1 - p))


@pytest.mark.parametrize("name", ["psr", "nsr", "w_reinforce", "grpo", "maxrl", "f_grpo", "pkpo", "a_grae"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_speed_is_that_over_every_group(name, size):
    inside = np.array([0.02, 0.4, 0.9])
    expected = [speed_over_every_group(name, size, p) for p in inside]
    np.testing.assert_allclose(expected_speed(name, size, inside), expected, rtol=1e-12, atol=1e-14)


def test_maxrl_teaches_as_one_over_q_once_the_group_holds_a_success():
    """(1 - (1 - Q)^(G - 1)) / Q, G - 1 at Q = 0."""
    inside = RATES[1:]
    expected = -np.expm1(15 * np.log1p(-np.minimum(inside, 1 - 1e-16))) / inside
    np.testing.assert_allclose(expected_speed("maxrl", 16, inside), expected, rtol=1e-6)
    assert expected_speed("maxrl", 16, np.array([0.0]))[0] == pytest.approx(15, rel=1e-12)


def advantage_of_the_first(name, rewards, **parameters):
    return advantages(name, np.array([rewards], dtype=float), **parameters)[0][0]


@pytest.mark.parametrize("size", [2, 5, 8])
@pytest.mark.parametrize(
    ("name", "parameters", "formula"),
    [
        ("grpo", {}, lambda G: 1),
        ("psr", {}, lambda G: 1),
        ("nsr", {}, lambda G: 1),
        ("maxrl", {}, lambda G: G - 1),
        ("f_grpo", {"gamma": 2.0}, lambda G: (G - 1) ** 2),
        ("power_alpha", {"alpha": 3.0}, lambda G: (G - 1) ** 2),
        ("easy_power", {"alpha": 3.0}, lambda G: (G - 1) ** -2),
    ],
)
def test_the_contrast_is_that_of_lone_successes_and_lone_failures(name, parameters, formula, size):
    rest = size - 1
    hard = advantage_of_the_first(name, [1] + [0] * rest, **parameters)
    hard -= advantage_of_the_first(name, [0] * size, **parameters)
    easy = advantage_of_the_first(name, [1] * size, **parameters)
    easy -= advantage_of_the_first(name, [0] + [1] * rest, **parameters)
    assert contrast(name, size, **parameters) == pytest.approx(hard / easy, rel=1e-12)
    assert hard / easy == pytest.approx(formula(size), rel=1e-5)  # GRPO's deviation has an epsilon


def test_a_weight_that_is_silent_on_solved_prompts_has_no_finite_contrast():
    assert contrast("pass_at_k_tang", 4) == np.inf


def naive_transfer(policies, correct, kernel, speeds, *, learning_rate, temperature):
    """Entry by entry, through the logits: dz_j = (eta / M) K_ij kappa_i grad_z Q_i, dQ_j = grad_z Q_j . dz_j."""
    prompts, actions = policies.shape
    changes = np.zeros((prompts, prompts))
    for i in range(prompts):
        for j in range(prompts):
            for a in range(actions):
                q_i, q_j = (sum(policies[m][correct[m]]) for m in (i, j))
                slope = policies[i, a] * (float(correct[i, a]) - q_i) / temperature
                moved = learning_rate / prompts * kernel[i, j] * speeds[i] * slope
                changes[i, j] += policies[j, a] * (float(correct[j, a]) - q_j) / temperature * moved
    return changes


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 5))
def test_the_transfer_is_that_of_the_loop(seed, prompts, actions):
    random = np.random.default_rng(seed)
    policies = random.dirichlet(np.full(actions, 0.5), prompts)
    correct = random.random((prompts, actions)) < 0.4
    features, speeds = random.normal(size=(prompts, 3)), random.exponential(size=prompts)
    kernel, temperature = features @ features.T, random.uniform(0.3, 3)
    changes = transfer(policies, correct, kernel, speeds, learning_rate=0.7, temperature=temperature)
    expected = naive_transfer(policies, correct, kernel, speeds, learning_rate=0.7, temperature=temperature)
    np.testing.assert_allclose(changes, expected, rtol=1e-10, atol=1e-13)


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def solve_rates_of(policies):
    return (policies * CORRECT).sum(axis=1)


def test_the_transfer_is_the_derivative_of_a_step_of_the_head():
    """Central differences of the true softmax: W gets (1/M) kappa_i grad_z Q_i h_i^T of prompt i alone."""
    speeds, solved = np.array([1.0, 2.0, 0.5]), solve_rates_of(POLICIES)
    changes = transfer(POLICIES, CORRECT, KERNEL, speeds, learning_rate=1.0)
    for i in range(3):
        step = speeds[i] / 3 * np.outer(POLICIES[i] * (CORRECT[i] - solved[i]), FEATURES[i])
        moved = [solve_rates_of(softmax(np.log(POLICIES) + size * FEATURES @ step.T)) for size in (1e-4, -1e-4)]
        np.testing.assert_allclose((moved[0] - moved[1]) / 2e-4, changes[i], atol=1e-9)


def test_prompts_that_are_unsolved_or_certain_neither_teach_nor_learn():
    policies = np.array([[0.0, 0.4, 0.6], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    correct = np.tile([True, False, False], (3, 1))
    changes = transfer(policies, correct, np.ones((3, 3)), np.ones(3), learning_rate=1.0)
    assert changes[2, 2] > 0
    changes[2, 2] = 0
    np.testing.assert_array_equal(changes, 0)
    drift = log_odds_drift(changes, np.array([0.0, 1.0, 0.2]))
    assert np.isnan(drift.own[:2]).all()
    assert np.isnan(drift.threshold).all()


def test_classes_of_equal_actions_have_the_transfer_of_the_actions_listed():
    counts, listed = np.array([1, 2, 3]), np.array([0, 1, 1, 2, 2, 2])
    policies = np.array([[0.3, 0.2, 0.1], [0.4, 0.15, 0.1]])
    correct = np.array([[True, False, False], [False, True, False]])
    kernel, speeds = np.array([[1.0, 0.3], [0.3, 1.0]]), np.array([1.0, 2.0])
    changes = transfer(policies, correct, kernel, speeds, learning_rate=1.0, counts=counts)
    expected = transfer(policies[:, listed], correct[:, listed], kernel, speeds, learning_rate=1.0)
    np.testing.assert_allclose(changes, expected, rtol=1e-12)


def test_log_odds_drift_is_own_and_incoming_change_over_q_and_its_rest():
    effects = transfer(POLICIES, CORRECT, KERNEL, np.ones(3), learning_rate=1.0)
    solved = solve_rates_of(POLICIES)
    drift = log_odds_drift(effects, solved)
    for j, q in enumerate(solved):
        spread = q * (1 - q)
        assert drift.own[j] == pytest.approx(effects[j, j] / spread, rel=1e-12)
        others = sum(effects[i, j] for i in range(3) if i != j)
        assert drift.incoming[j] == pytest.approx(others / spread, rel=1e-12)


def test_at_the_threshold_of_overlap_a_prompt_stands_still_and_beyond_it_falls():
    policies = np.array([[0.3, 0.01, 0.69], [0.6, 0.01, 0.39], [0.5, 0.02, 0.48]])
    correct = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]], bool)
    solved, speeds = np.array([0.3, 0.01, 0.02]), np.array([1.0, 1.5, 0.5])

    def drift_at(overlap):
        kernel = np.full((3, 3), overlap) + (1 - overlap) * np.eye(3)
        return log_odds_drift(transfer(policies, correct, kernel, speeds, learning_rate=0.1), solved)

    threshold = drift_at(1.0).threshold
    assert 0 < threshold[1] < 1
    for overlap, sign in ((threshold[1] * 0.99, 1), (threshold[1] * 1.01, -1)):
        assert np.sign(sum(drift_at(overlap))[1]) == sign


def naive_change(solve_rates, changes, k):
    return sum(k * (1 - q) ** (k - 1) * d for q, d in zip(solve_rates, changes, strict=True)) / len(solve_rates)


def test_the_change_of_pass_at_k_is_its_derivative():
    solved, changes = np.array([0.5, 0.01, 0.0, 1.0]), np.array([0.1, -0.004, 0.01, 0.0])
    sizes = np.array([1.0, 2.0, 7.5, 64.0])
    values = pass_at_k_change(solved, changes, sizes)
    np.testing.assert_allclose(values, [naive_change(solved, changes, k) for k in sizes], rtol=1e-12)
    ahead, behind = ((1 - (1 - solved - step * changes) ** 7.5).mean() for step in (1e-6, -1e-6))
    assert (ahead - behind) / 2e-6 == pytest.approx(pass_at_k_change(solved, changes, 7.5), rel=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(3, 6))
def test_the_crossing_is_the_last_change_of_sign_on_a_fine_grid(seed, prompts):
    random = np.random.default_rng(seed)
    solved, changes = random.uniform(0.05, 0.9, prompts), random.normal(size=prompts)
    hardest, easiest = 0, 1
    solved[hardest], changes[hardest] = 0.02, -0.2 - abs(changes[hardest])
    changes[easiest] += max(0.0, 0.1 - changes.sum())
    grid = 1 + np.linspace(0, 400, 40_001)
    signs = ((1 - solved) / (1 - solved[hardest])) ** (grid[:, None] - 1) @ changes > 0
    last = grid[np.flatnonzero(signs[:-1] != signs[1:])[-1]]
    assert last <= crossing_k(solved, changes) <= last + 0.0101


def test_of_three_crossings_it_is_the_last():
    """In y = .9^(k - 1) the sum is (y - .8)(y - .5)(y - .2) with all prompts' solve rates a power apart."""
    solved = 1 - 0.9 ** np.array([0.0, 1.0, 2.0, 3.0])
    changes = np.poly([0.8, 0.5, 0.2])[::-1].copy()
    expected = [1 + math.log(y) / math.log(0.9) for y in (0.8, 0.5, 0.2)]
    grid = np.linspace(1, 30, 10_000)
    signs = np.sign([naive_change(solved, changes, k) for k in grid])
    np.testing.assert_allclose(grid[np.flatnonzero(np.diff(signs))], expected, atol=0.01)
    assert crossing_k(solved, changes) == pytest.approx(expected[-1], rel=1e-9)


@pytest.mark.parametrize(
    ("solved", "changes"),
    [
        ([0.5, 0.1], [-0.1, -0.1]),  # pass@1 falls
        ([0.5, 0.1], [0.1, -0.1]),  # pass@1 stays
        ([0.5, 0.1], [-0.01, 0.1]),  # the hardest gain
        ([0.5, 0.1], [0.1, 0.1]),
        ([0.5, 0.1], [0.1, 0.0]),
        ([0.5], [0.1]),
        ([1.0, 1.0], [0.1, 0.1]),  # certain prompts count at k = 1 alone
        ([0.5, 0.1], [0.0, 0.0]),
        ([0.3, 0.3], [0.2, -0.1]),  # one kind
    ],
)
def test_there_is_no_crossing(solved, changes):
    assert math.isnan(crossing_k(np.array(solved), np.array(changes)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_speed("grpo", 4, np.array([0.5, 1.5])), r"solve_rates = 1\.5 is outside its range"),
        (lambda: expected_speed("grpo", 0, np.array([0.5])), r"group_size = 0 is outside its range \[1, inf"),
        (lambda: expected_speed("ppo", 4, np.array([0.5])), "estimator = 'ppo' is unknown"),
        (lambda: bad_transfer(policies=POLICIES * 2), "policy 0 has least entry 0.2 and sum 2.0; allowed: none below"),
        (lambda: bad_transfer(correct=CORRECT[:2]), r"correct has shape \(2, 4\); allowed: \(3, 4\)"),
        (lambda: bad_transfer(kernel=KERNEL[:2]), r"kernel has shape \(2, 3\); allowed: \(3, 3\)"),
        (lambda: bad_transfer(kernel=KERNEL * math.nan), "kernel holds NaN or infinity; allowed: finite numbers"),
        (lambda: bad_transfer(speeds=np.ones(2)), r"speeds has shape \(2,\); allowed: \(3,\)"),
        (lambda: bad_transfer(learning_rate=math.inf), "learning_rate = inf is outside its range"),
        (lambda: bad_transfer(temperature=0.0), r"temperature = 0\.0 is outside its range \(0, inf\)"),
        (lambda: log_odds_drift(KERNEL, np.ones(2)), r"solve_rates has shape \(2,\); allowed: \(3,\)"),
        (lambda: log_odds_drift(KERNEL[:, :2], np.ones(3)), r"effects has shape \(3, 2\); allowed: \(3, 3\)"),
        (lambda: pass_at_k_change(np.ones(2), np.ones(2), 0.5), r"k = 0\.5 is not allowed; allowed: finite numbers"),
        (lambda: pass_at_k_change(np.ones(2), np.ones(3), 2.0), r"solve_rates \(2,\) and changes \(3,\); allowed"),
        (lambda: crossing_k(np.zeros(0), np.zeros(0)), "allowed: one axis of one or more prompts each"),
        (lambda: crossing_k(np.array([0.5]), np.array([math.nan])), "changes holds NaN or infinity; allowed: finite"),
    ],
)
def test_bad_input_is_named_in_one_line(call, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert re.search(message, refusal(call))


def bad_transfer(**replaced):
    arguments = {"policies": POLICIES, "correct": CORRECT, "kernel": KERNEL, "speeds": np.ones(3)}
    return transfer(**arguments | {"learning_rate": 1.0} | replaced)


F, N = 0.2, 0.3
NAMES = ["reinforce", "psr", "nsr", "dr_grpo", "grpo", "maxrl", "f_grpo", "a_grae", "pkpo", "rs_grpo"]
SOLVED = np.array([0.0, 1e-6, 0.03, 0.4, 0.9, 1.0])


def judged_over_every_group(name, size, p, f=F, n=N):
    """E[(1/G) sum of A] by truth and verdict, and E[(1/G) sum of A (truth - p)]: all 4^G truths and verdicts."""
    landed, along = np.zeros((2, 2)), 0.0
    groups = list(itertools.product((True, False), repeat=size))
    weights = {verdicts: advantages(name, np.array([verdicts], dtype=float))[0] for verdicts in groups}
    for truths in groups:
        for verdicts in groups:
            chance = 1.0
            for truth, verdict in zip(truths, verdicts, strict=True):
                yes = 1 - n if truth else f
                chance *= (p if truth else 1 - p) * (yes if verdict else 1 - yes)
            for truth, verdict, weight in zip(truths, verdicts, weights[verdicts], strict=True):
                landed[int(not verdict), int(truth != verdict)] += chance * weight / size
                along += chance * weight * (truth - p) / size
    return landed, along


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 3])
def test_where_the_advantages_land_is_that_judged_over_every_group(name, size):
    inside = np.array([0.05, 0.5, 0.8])
    judged = judged_masses(name, size, inside, F, N)
    for index, p in enumerate(inside):
        (right_yes, wrong_yes), (right_no, wrong_no) = judged_over_every_group(name, size, p)[0]
        expected = [right_yes, wrong_yes, right_no, wrong_no]
        np.testing.assert_allclose([mass[index] for mass in judged], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("f", "n"), [(F, N), (0.0, 0.4), (0.9, 0.6)])
def test_the_speed_is_that_judged_over_every_group(name, f, n):
    inside = np.array([0.05, 0.5, 0.8])
    expected = [judged_over_every_group(name, 3, p, f, n)[1] / (p * (1 - p)) for p in inside]
    np.testing.assert_allclose(judged_speed(name, 3, inside, f, n), expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_a_verifier_without_errors_leaves_masses_and_speed_as_they_are(name):
    judged = judged_masses(name, 6, SOLVED, 0.0, 0.0)
    chances = np.array([[math.comb(6, s) * p**s * (1 - p) ** (6 - s) for s in range(7)] for p in SOLVED])
    of_groups = masses(name, 6)
    np.testing.assert_allclose(judged.rightly_accepted, chances @ of_groups.success, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(judged.rightly_rejected, -(chances @ of_groups.failure), rtol=1e-9, atol=1e-15)
    assert not np.any(judged.wrongly_accepted)
    assert not np.any(judged.wrongly_rejected)
    np.testing.assert_allclose(judged_speed(name, 6, SOLVED, 0.0, 0.0), expected_speed(name, 6, SOLVED), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_verifier_that_guesses_teaches_nothing_and_one_that_lies_the_opposite(name):
    np.testing.assert_allclose(judged_speed(name, 4, SOLVED, 0.3, 0.7), 0, atol=1e-14)
    lying, honest = judged_speed(name, 4, SOLVED, 1.0, 1.0), expected_speed(name, 4, 1 - SOLVED)
    np.testing.assert_allclose(lying, -honest, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("pace", ["one speed", "grpo", "one length"])
def test_the_time_until_a_prompt_is_lost_is_that_of_many_small_steps(pace):
    gain, pull, drop, dt = 2.0, 0.5, 0.7, 1e-3
    easy, lost, steps = math.log(0.4 / 0.6), 0.0, 0
    while lost < drop:
        rate = 1 / (1 + math.exp(-easy))
        m = {"one speed": rate * (1 - rate), "grpo": math.sqrt(rate * (1 - rate)), "one length": 1.0}[pace]
        easy, lost, steps = easy + dt * gain * m, lost + dt * pull * m, steps + 1
    assert time_until_lost(0.4, drop, own=gain, pull=pull, pace=pace) == pytest.approx(steps * dt, rel=2e-3)
    assert "pull = 0.0 is outside its range" in refusal(time_until_lost, 0.4, drop, own=gain, pull=0.0, pace=pace)


@pytest.mark.parametrize(
    ("given_rates", "message"),
    [
        ((-0.1, 0.0), "false_positive = -0.1 is outside its range [0, 1]"),
        ((0.0, 1.5), "false_negative = 1.5 is outside its range [0, 1]"),
    ],
)
def test_rates_that_are_none(given_rates, message):
    assert message in refusal(judged_speed, "grpo", 4, SOLVED, *given_rates)
    assert "solve_rates = 1.2" in refusal(judged_masses, "grpo", 4, np.array([1.2]), 0.0, 0.0)

"""The preset ``league``: whom it holds, and how its figure tells who beats whom."""

import numpy as np
import pytest

from figures.shared import league_numbers, rivals
from simlab import estimator
from simlab.estimators import REGISTRY
from simlab.problems import prompt_bank
from simlab.sweeps import Plan, Sweep
from simlab.sweeps.presets.league import LEAGUE, response_level
from simlab.theory import alike

TOKENS = {"cw_grpo", "entropy_advantage", "advantage_reweighting"}


def test_every_estimator_that_gives_a_rollout_one_advantage_takes_part():
    assert set(response_level()) == set(REGISTRY) - TOKENS - {"linked"}
    assert LEAGUE["named"]["estimators"] == response_level()


def test_its_sweeps_share_problem_batches_and_steps():
    sweeps = [Sweep(**settings) for settings in LEAGUE.values()]
    first = [Plan(sweep).distinct[0] for sweep in sweeps]
    assert len({cell.problem.fingerprint for cell in first}) == 1
    assert {(sweep.steps, sweep.group_sizes, sweep.parameters["run.prompts_per_step"]) for sweep in sweeps} == {
        (300, (8,), (8,))
    }
    assert [cell.settings.update_norm > 0 for cell in first] == [True, True, False]


def rival(*means, seeds=16, spread=0.1, seed=0):
    """Results (settings, seeds, metrics) around some means, one a setting, the same noise in every metric."""
    noise = np.random.default_rng(seed).normal(scale=spread, size=seeds)
    return np.array(means, dtype=float)[:, None, :] + (noise - noise.mean())[None, :, None]


def test_a_lead_is_in_standard_errors_of_the_difference_by_seed():
    """Differences 1 and 3: mean 2, standard deviation sqrt(2), standard error 1."""
    winner, loser = np.array([[1.0], [3.0]]), np.zeros((2, 1))
    assert rivals.margins(winner, loser) == pytest.approx([2.0])
    assert not rivals.margins(winner, winner).any()
    shared = np.random.default_rng(0).normal(scale=100, size=(2, 1))
    assert rivals.margins(winner + shared, loser + shared) == pytest.approx([2.0])


def test_who_is_beaten_is_beaten_at_every_setting_by_one_and_the_same():
    results = {
        "strong": rival([0.9, 0.9], [0.8, 0.8], seed=1),
        "weak": rival([0.5, 0.5], [0.85, 0.85], seed=2),
        "mixed": rival([0.1, 0.1], [0.99, 0.99], seed=3),  # its second setting is beaten by nobody
        "split": rival([0.1, 0.95], [0.2, 0.2], seed=4),  # its first setting is better in one metric than anyone
    }
    results["mixed"][1] += 0.2
    results["split"][0, :, 1] += 1
    found = rivals.beaters(results)
    assert set(found) == {"strong", "weak"}
    assert found["weak"][0] == "mixed"
    assert found["weak"][1] == [1, 1]


def test_it_is_judged_on_seeds_that_did_not_choose():
    """The first half says that B is beaten; in the second half it leads."""
    a, b = rival([0.9], seeds=32, seed=1), rival([0.5], seeds=32, seed=2)
    b[:, 16:] += 1
    verdict = rivals.judge({"a": a, "b": b})
    assert verdict["b"]["by"] == "a"
    assert verdict["b"]["lead"] < -2


def test_the_front_holds_whom_nobody_beats_in_both():
    results = {"a": rival([1.0, 0.0], [0.6, 0.6]), "b": rival([0.5, 0.5], [0.0, 1.0], seed=5)}
    assert rivals.front(results) == [("a", 0), ("a", 1), ("b", 1)]


def test_the_best_setting_is_that_of_the_first_half_and_of_the_scored_metrics():
    values = rival([0.5, 0.0], [0.4, 9.0], spread=0.01)
    values[1, 8:, 0] += 1
    assert rivals.best_settings({"a": values}, scored=1) == {"a": 0}
    assert rivals.best_settings({"a": values}, scored=2) == {"a": 1}


def test_the_metrics_at_a_level_of_the_first_lie_between_two_settings_of_each_seed():
    values = np.array([[[0.2, 1.0], [0.4, 3.0]], [[0.6, 2.0], [0.8, 7.0]]])  # settings, seeds, metrics
    np.testing.assert_allclose(league_numbers.at_level(values, 0.5), [[[0.5, 1.75], [0.5, 4.0]]])
    assert league_numbers.at_level(values, 0.7) is None  # the first seed ends below
    assert league_numbers.at_level(values, 0.3) is None  # the second starts above
    falling = np.array([[[0.2, 1.0]], [[0.6, 2.0]], [[0.1, 9.0]]])
    np.testing.assert_allclose(league_numbers.at_level(falling, 0.4), [[[0.4, 1.5]]])
    assert league_numbers.at_level(falling, 0.7) is None


@pytest.mark.parametrize(
    ("rival", "equal"),
    [("mean alone", "dr_grpo"), ("std", "grpo"), ("std focal", "f_grpo"), ("mean focal", "f_grpo(base=maxrl)")],
)
def test_a_chain_that_somebody_wrote_down_is_found(rival, equal):
    papers = league_numbers.written_down(["dr_grpo", "grpo", "maxrl", "f_grpo"])
    chosen = estimator("linked", **league_numbers.choices(rival))
    assert equal in [call for call, other in papers.items() if alike(chosen, other, 4)]


def test_estimators_that_are_one_up_to_a_factor_stand_together():
    assert league_numbers.kin(["dr_grpo", "grpo", "rloo", "t2t"], 4) == [["dr_grpo", "rloo"], ["grpo", "t2t"]]


def test_the_norm_of_the_first_steps_is_that_of_the_gradient():
    """One prompt of two actions, a group of two: A = 1/2 on success, -1/2 on failure, in half of the groups.

    The gradient is then (1/2) (1/2, -1/2); of its norm sqrt(1/8), the mean over 64 batches has a standard error of
    sqrt(1/8) / 16, and is half of it.
    """
    bank = prompt_bank(actions=2, modes=1, rare_modes=1, solve_rates=[0.5])
    found = league_numbers.first_norm("dr_grpo", bank, group_size=2, prompts=1)
    assert abs(found - np.sqrt(1 / 8) / 2) < 4 * np.sqrt(1 / 8) / 16

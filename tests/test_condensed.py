"""Runs compared where each has the same Q_pos, against curves whose values there are known."""

import numpy as np

from figures.shared import condensed


def test_two_runs_of_one_curve_at_different_speeds_are_equal_at_equal_mass():
    """Retained mass 1 - Q^2 / 2 whatever the speed, read off a fine and a coarse run."""
    slow, fast = (np.linspace(0.2, 0.9, points) for points in (1401, 701))
    levels = np.array([0.3, 0.55, 0.9])
    reached = [condensed.at_equal_mass(q[None], 1 - q[None] ** 2 / 2, levels)[:, 0] for q in (slow, fast)]
    np.testing.assert_allclose(reached, [1 - levels**2 / 2] * 2, atol=1e-6)


def test_a_level_counts_where_it_is_reached_first():
    q_pos, own = np.array([[0.2, 0.6, 0.3, 0.8]]), np.array([[0.0, 1.0, 2.0, 3.0]])
    np.testing.assert_allclose(condensed.at_equal_mass(q_pos, own, np.array([0.4, 0.6])), [[0.5], [1.0]], atol=1e-12)


def test_a_level_that_a_run_does_not_reach_has_no_value_and_no_mean():
    q_pos = np.array([[0.2, 0.8], [0.2, 0.5]])
    reached = condensed.at_equal_mass(q_pos, q_pos, np.array([0.1, 0.4, 0.7]))
    assert np.isnan(reached).tolist() == [[True, True], [False, False], [False, True]]
    assert [value is None for value in condensed.mean_and_error(reached)["mean"]] == [True, False, True]


def test_the_standard_error_is_that_of_the_mean_over_seeds():
    assert condensed.mean_and_error(np.array([[1.0, 2.0, 3.0, 6.0]])) == {"mean": [3.0], "error": [1.08012]}

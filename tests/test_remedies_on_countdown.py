"""The readings of the figure of remedies on countdown, by hand."""

import numpy as np
import pytest

from figures import remedies_on_countdown as figure
from figures.shared.by_optimizer import best_of_others
from figures.shared.projection_controls import dealt
from simlab.llm.training.settings import TrainingSettings, read_arm

# (rates, seeds, evaluations): the first rate is slow and keeps more, the second is fast.
PASS_1 = np.array([[[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]], [[0.1, 0.3, 0.5, 0.5], [0.1, 0.4, 0.4, 0.4]]])
PASS_64 = np.array([[[0.9, 0.9, 0.9, 0.9], [0.8, 0.8, 0.8, 0.8]], [[0.9, 0.8, 0.7, 0.7], [0.8, 0.7, 0.5, 0.5]]])


def test_readings_are_at_the_rate_that_the_other_seeds_choose():
    readings = figure.readings(np.array([PASS_1, PASS_64]), evaluation=2, gain=0.3)
    np.testing.assert_allclose(readings[figure.PASS_1], [0.5, 0.4])
    np.testing.assert_allclose(readings[figure.PASS_64], [0.7, 0.5])
    np.testing.assert_allclose(readings[figure.KEPT], [0.9, 0.8])
    np.testing.assert_allclose(readings[figure.PRICE], np.log2(3 * figure.EACH))


def test_a_rate_may_be_chosen_by_one_number_and_read_by_another():
    """Seed 0 follows seed 1, which is best at the second rate, and seed 1 follows seed 0."""
    chosen_by, read = np.array([[3.0, 1.0], [2.0, 5.0]]), np.array([[10.0, 20.0], [30.0, 40.0]])
    assert best_of_others(chosen_by, read).tolist() == [30.0, 20.0]
    chosen_by[1, 0] = np.nan
    assert best_of_others(chosen_by, read).tolist() == [10.0, 20.0], "a rate that a seed does not reach is out"


def test_a_gain_that_is_not_reached_at_any_rate_is_no_number():
    readings = figure.readings(np.array([PASS_1, PASS_64]), evaluation=2, gain=0.5)
    assert np.isnan(readings[figure.KEPT]).all()


def test_the_arms_are_those_of_a_run():
    settings = TrainingSettings(arms=tuple(figure.RUNS["arms"]))
    rates = {settings.arm_rl(name).learning_rate for name in settings.arms}
    assert rates == set(figure.RATES)
    remedies = [read_arm(name).overrides.get("remedy") for name in settings.arms]
    assert {"drop", "project", "endangered", None} == set(remedies)


@pytest.mark.parametrize("name", ["harmful prompts dropped", "F-GRPO, projected"])
def test_what_was_predicted_is_a_method_that_is_drawn(name):
    predicted, measured = figure.findings(figure.kept())
    assert name in predicted["predicted"][figure.KEPT]
    assert name in measured[figure.BESIDE]


def test_the_table_has_each_method_itself_with_its_standard_error():
    """Readings of .9 and .8 at equal pass@1: a mean of .85, whose standard error is .05."""
    *_, line = figure.own_lines({"slow": np.array([PASS_1, PASS_64])}, {"evaluation": 2, "gain": 0.3})
    assert line == "| slow | 0.450 (0.050) | 0.600 (0.100) | 0.850 (0.050) | 13.907 (0.000) |"


def test_multipliers_are_dealt_out_to_the_prompts_that_are_heard():
    targets = np.array([[0.5, -0.5], [0.0, 0.0], [0.25, -0.25], [1.0, -1.0]])
    added = np.array([2.0, 0.0, 0.0, 3.0])[:, None] * targets
    rows = dealt(added, targets, seed=1)
    multipliers = [row[0] / target[0] if target[0] else 0.0 for row, target in zip(rows, targets, strict=True)]
    assert sorted(multipliers) == pytest.approx([0, 0, 2, 3])
    assert not rows[1].any()
    orders = {tuple(dealt(added, targets, seed).ravel()) for seed in range(40)}
    assert len(orders) == 6

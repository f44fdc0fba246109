"""What the presets of ``simlab train`` promise of their arms and settings."""

import math

import pytest

from simlab.llm.tasks import task
from simlab.llm.training.arm_text import read_arm
from simlab.llm.training.paper_presets import PAPER_PRESETS
from simlab.llm.training.presets import PRESETS, preset
from simlab.llm.training.settings import Settings


def settings(name):
    return Settings.from_data(preset(name, None))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_read_and_written_back(name):
    found = settings(name)
    assert Settings.from_data(found.as_data()) == found
    assert len({str(read_arm(arm).method) + str(read_arm(arm).own) for arm in found.arms}) == len(found.arms)


@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_arms_of_a_papers_preset_pay_for_as_many_rollouts_from_one_start(name):
    found = settings(name)
    steps = [found.rl_of(arm) for arm in found.arms]
    assert len({rl.prompts * rl.group_size for rl in steps}) == 1
    assert len({rl.steps for rl in steps}) == 1
    assert found.seeds >= 3
    assert found.warm_start == settings("countdown-conflict").warm_start
    assert task(**found.task) == task(**settings("countdown-conflict").task)


def test_f_grpos_table_2_has_group_sizes_of_2_to_32_and_f_grpo_at_8():
    found = settings("f-grpo-table-2")
    by_size = {found.rl_of(arm).group_size: read_arm(arm).method.estimator_name for arm in found.arms[:-1]}
    assert by_size == dict.fromkeys((2, 4, 8, 16, 32), "grpo")
    focal = found.arms[-1]
    assert (read_arm(focal).method.floats["estimator.gamma"], found.rl_of(focal).group_size) == (0.5, 8)


def test_the_low_rate_of_f_grpos_table_3_is_that_of_its_appendix_n():
    """lambda(1/2) = B(3/2, 2) / B(3/2, 3/2) = 32 / (15 pi)."""
    found = settings("f-grpo-tables-1-3")
    (low,) = {found.rl_of(arm).learning_rate for arm in found.arms} - {found.rl.learning_rate}
    assert low == pytest.approx(found.rl.learning_rate * 32 / (15 * math.pi), rel=1e-3)


def test_the_halves_of_a_grae_are_compared_with_the_whole():
    assert {"linked(scale=std,difficulty=shift)", "linked(scale=std,sign=attenuate)", "a_grae"} <= set(
        settings("a-grae-tables-5-6").arms
    )


def test_cw_grpo_is_evaluated_at_the_checkpoints_of_its_table_3():
    found = settings("cw-grpo-table-3")
    assert {100, 150, 200} <= set(range(found.evaluation.every, found.rl.steps + 1, found.evaluation.every))


def test_fades_logarithmic_schedule_ends_with_the_run():
    found = settings("fade-fig-9")
    (arm,) = (arm for arm in found.arms if "logarithmic" in arm)
    assert read_arm(arm).method.floats["estimator.last"] == found.rl.steps


def test_fades_ablations_leave_out_one_half_of_its_schedule_each():
    arms = settings("fade-fig-9").arms
    whole = read_arm("fade@constant").method.floats
    parts = [read_arm(arm).method.floats for arm in arms if arm.startswith("fade(")]
    changed = [{name: own[name] for name in own if own[name] != whole[name]} for own in parts]
    assert changed == [{"estimator.delta_min": 1.0}, {"estimator.alpha_max": 1.0}]

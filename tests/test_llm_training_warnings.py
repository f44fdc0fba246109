"""Warnings before a run begins: arms that are one method, and groups that teach nothing."""

import pytest
from training_cases import settings

from simlab.llm.training.warnings import warnings

APART = "rl.minibatches or rl.epochs above 1 tell them apart"


def warnings_of(arms, **rl):
    return list(warnings(settings({"arms": arms, "rl": rl})))


def test_with_one_update_a_batch_surrogates_of_the_ratio_are_one_method():
    (line,) = warnings_of(["grpo", "grpo+clip_higher", "f_grpo", "gspo", "grpo+cispo"])
    assert line.startswith("warning: grpo, grpo+clip_higher, gspo, grpo+cispo are one method here")
    assert line.endswith(APART)


@pytest.mark.parametrize("rl", [{"epochs": 2}, {"minibatches": 2}, {"lag": 1, "correction": "ratio"}])
def test_with_ratios_of_their_own_they_are_not(rl):
    assert warnings_of(["grpo", "grpo+clip_higher", "gspo", "grpo+cispo"], **rl) == []


@pytest.mark.parametrize("rl", [{}, {"epochs": 2}])
def test_methods_that_are_one_at_any_ratio_are_said_to_be(rl):
    assert warnings_of(["f_grpo(gamma=0)", "maxrl", "grpo"], **rl) == [
        "warning: f_grpo(gamma=0), grpo are one method on rewards of 0 and 1"
    ]


def test_an_estimator_that_remembers_is_not_taken_for_the_one_that_it_begins_as():
    assert warnings_of(["reinforce", "running_mean"]) == []


def test_groups_of_one_teach_nothing_where_rewards_are_compared():
    assert warnings_of(["grpo", "reinforce"], group_size=1) == [
        "warning: grpo learns nothing from groups of 1, where all its coefficients are 0"
    ]


def test_a_probe_that_measures_no_step_of_an_arm_is_mentioned():
    asked = {"arms": ["grpo", "maxrl@steps=4"], "rl": {"steps": 3}, "probe": {"every": 4}}
    (line,) = warnings(settings(asked))
    assert line.startswith("warning: probe.every = 4 measures none of the 3 steps of grpo; ")


def test_arms_that_differ_are_not_mentioned():
    assert warnings_of(["grpo", "f_grpo", "maxrl", "cw_grpo", "fade", "grpo+casp(candidates=3)"]) == []

"""Which estimators are the same on rewards 0 and 1: those that algebra says are, and no others."""

import itertools

import numpy as np
import pytest

from simlab import estimator
from simlab.errors import InputError
from simlab.theory.likeness import alike, trace

SAME = [
    ({"dr_grpo": {}, "rloo": {}, "asym_grpo": {}, "power_norm": {"gamma": 0.0}}, "a factor of G / (G - 1), or none"),
    ({"grpo": {}, "power_norm": {}, "t2t": {}, "pass_at_k_chen": {"k": 1}}, "a factor of 1 - alpha, or eps"),
    ({"softmax": {"beta": 2.0}, "rs_grpo": {"beta": 2.0}}, "a factor of G / beta"),
    ({"power_alpha": {"alpha": 3.0}, "f_grpo": {"gamma": 2.0, "base": "dr_grpo"}}, "on rewards 0 and 1"),
    ({"psr": {}, "reinforce": {}}, "on rewards 0 and 1"),
]


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize(("names", "why"), SAME)
def test_a_factor_makes_no_difference(names, why, size):
    built = [estimator(name, **parameters) for name, parameters in names.items()]
    assert all(alike(one, another, size) for one, another in itertools.pairwise(built)), why


def test_at_two_rollouts_every_balanced_weight_of_a_group_is_the_same_and_at_five_it_is_not():
    one, another = estimator("grpo"), estimator("maxrl")
    assert alike(one, another, 2)
    assert not alike(one, another, 5)


@pytest.mark.parametrize(
    ("one", "another"),
    [
        (("ha_dw", {"decay": 0.9}), ("ha_dw", {"decay": 0.5})),  # alike in the first batch
        (("a_grae", {}), ("f_grpo", {})),
        (("ds_grpo", {}), ("grpo", {})),  # apart only by log-probabilities
        (("asym_rl", {}), ("dr_grpo", {})),
        (("nsr", {}), ("psr", {})),
    ],
)
def test_others_are_told_apart(one, another):
    assert not alike(estimator(one[0], **one[1]), estimator(another[0], **another[1]), 5)


def test_a_trace_has_norm_one_unless_all_is_nothing():
    assert np.linalg.norm(trace(estimator("pkpo"), 4)) == pytest.approx(1)
    assert not trace(estimator("ha_dw", scale=0.0), 4).any()


@pytest.mark.parametrize("size", [0, 13])
def test_groups_that_are_too_many_to_list_are_refused(size):
    with pytest.raises(InputError, match=rf"group_size = {size} is outside its range \[1, 12\]"):
        trace(estimator("grpo"), size)

"""What a verifier that errs makes of a weight, against loops over all truths and all verdicts of a group."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simlab.errors import InputError
from simlab.estimators import advantages
from simlab.theory import expected_speed, judged_masses, judged_speed, masses, misplaced_share

F, N = 0.2, 0.3
NAMES = ["reinforce", "psr", "nsr", "dr_grpo", "grpo", "maxrl", "f_grpo", "a_grae", "pkpo", "rs_grpo"]
RATES = np.array([0.0, 1e-6, 0.03, 0.4, 0.9, 1.0])


def over_every_group(name, size, p, f=F, n=N):
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
def test_where_the_advantages_land_is_that_over_every_group(name, size):
    inside = np.array([0.05, 0.5, 0.8])
    found = judged_masses(name, size, inside, F, N)
    for place, p in enumerate(inside):
        (right_yes, wrong_yes), (right_no, wrong_no) = over_every_group(name, size, p)[0]
        expected = [right_yes, wrong_yes, right_no, wrong_no]
        np.testing.assert_allclose([mass[place] for mass in found], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("f", "n"), [(F, N), (0.0, 0.4), (0.9, 0.6)])
def test_the_speed_is_that_over_every_group(name, f, n):
    inside = np.array([0.05, 0.5, 0.8])
    expected = [over_every_group(name, 3, p, f, n)[1] / (p * (1 - p)) for p in inside]
    np.testing.assert_allclose(judged_speed(name, 3, inside, f, n), expected, rtol=1e-11, atol=1e-14)


# Limits


@pytest.mark.parametrize("name", NAMES)
def test_a_verifier_without_errors_leaves_masses_and_speed_as_they_are(name):
    found = judged_masses(name, 6, RATES, 0.0, 0.0)
    chances = np.array([[math.comb(6, s) * p**s * (1 - p) ** (6 - s) for s in range(7)] for p in RATES])
    of_groups = masses(name, 6)
    np.testing.assert_allclose(found.rightly_accepted, chances @ of_groups.success, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.rightly_rejected, -(chances @ of_groups.failure), rtol=1e-9, atol=1e-15)
    assert not np.any(found.wrongly_accepted)
    assert not np.any(found.wrongly_rejected)
    np.testing.assert_allclose(judged_speed(name, 6, RATES, 0.0, 0.0), expected_speed(name, 6, RATES), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_verifier_that_guesses_teaches_nothing_and_one_that_lies_the_opposite(name):
    np.testing.assert_allclose(judged_speed(name, 4, RATES, 0.3, 0.7), 0, atol=1e-14)
    lying, honest = judged_speed(name, 4, RATES, 1.0, 1.0), expected_speed(name, 4, 1 - RATES)
    np.testing.assert_allclose(lying, -honest, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["psr", "grpo", "maxrl", "f_grpo"])
@pytest.mark.parametrize("size", [2, 8, 64])
def test_of_one_prompt_the_share_knows_neither_weight_nor_group_size(name, size):
    for p in (0.0, 0.01, 0.5):
        share = (1 - p) * F / ((1 - p) * F + p * (1 - N))
        assert misplaced_share(name, size, np.array([p]), F, N) == pytest.approx(share)


@given(
    rates=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6),
    errors=st.tuples(st.floats(0.001, 0.5), st.floats(0.0, 0.49)),
    size=st.integers(2, 12),
)
def test_a_focal_weight_never_misplaces_less_than_its_base(rates, errors, size):
    shares = [misplaced_share("f_grpo", size, np.array(rates), *errors, gamma=gamma) for gamma in (0.0, 0.5, 2.0)]
    if not np.isnan(shares).any():
        assert shares[0] <= shares[1] + 1e-9
        assert shares[1] <= shares[2] + 1e-9


@pytest.mark.parametrize(
    ("given_rates", "message"),
    [
        ((-0.1, 0.0), "false_positive = -0.1 is outside its range [0, 1]"),
        ((0.0, 1.5), "false_negative = 1.5 is outside its range [0, 1]"),
    ],
)
def test_rates_that_are_none(given_rates, message):
    with pytest.raises(InputError) as refused:
        judged_speed("grpo", 4, RATES, *given_rates)
    assert message in str(refused.value)
    with pytest.raises(InputError, match=r"solve_rates holds 1\.2"):
        judged_masses("grpo", 4, np.array([1.2]), 0.0, 0.0)

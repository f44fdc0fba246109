"""The preset ``interference-league``: how its figure names rivals, and how it tells a slower clock from the rest."""

import json

import numpy as np
import pytest

from figures import interference_league
from figures.shared import decomposition
from figures.shared.decomposition import PAIRS, Curves, parts
from simlab.theory import CLOSED_FORMS, closed_form

STEPS = np.arange(0, 110, 10)
PASS_AT_1 = np.tile(0.2 + 0.005 * STEPS, (3, 1)) + np.array([[0.0], [0.001], [-0.001]])
GROUP_SIZE = 8


def on_the_path(mass, seeds=0.0):
    """Pass@256 that falls as pass@1 rises, by a line that depends on nothing else but the seed."""
    return 1.0 - (mass - 0.2) + seeds


REFERENCE = Curves(PASS_AT_1, on_the_path(PASS_AT_1), STEPS)


def test_a_slower_clock_on_the_same_path_leaves_no_rest():
    slower = 0.5 * (PASS_AT_1 + 0.2)
    found = parts(REFERENCE, Curves(slower, on_the_path(slower), STEPS), 0.45)
    assert found["step"]["mean"] == pytest.approx(50, abs=0.1)
    assert found["total"]["mean"] == pytest.approx(0.125, abs=1e-3)
    assert found["clock"]["mean"] == pytest.approx(found["total"]["mean"])
    assert found["rest"]["mean"] == pytest.approx(0, abs=1e-9)


def test_both_parts_make_the_whole_and_errors_are_of_differences_by_seed():
    """What the seeds of both have in common makes no error."""
    common = np.array([[0.0], [0.2], [-0.2]])
    reference = Curves(PASS_AT_1, on_the_path(PASS_AT_1, common), STEPS)
    slower = 0.2 + 0.8 * (PASS_AT_1 - 0.2)
    own = np.array([[0.01], [0.02], [0.03]])
    found = parts(reference, Curves(slower, on_the_path(slower, common + own), STEPS), 0.45)
    assert found["total"]["mean"] == pytest.approx(found["clock"]["mean"] + found["rest"]["mean"], abs=1e-6)
    assert found["rest"]["mean"] == pytest.approx(0.02)
    assert found["rest"]["error"] == pytest.approx(0.01 / np.sqrt(3), rel=1e-4)


# What the pairs differ in, by the closed forms


def both_masses(name):
    """m_S and m_F at each number of successes."""
    return np.array(closed_form(name, np.arange(GROUP_SIZE + 1) / GROUP_SIZE, GROUP_SIZE))


def speeds(name):
    """w_S(s + 1) + w_F(s) at s of the G - 1 other rollouts [simlab:interference-speed]."""
    success, failure = both_masses(name)
    others = np.arange(GROUP_SIZE)
    return GROUP_SIZE * (success[1:] / (others + 1) + failure[:-1] / (GROUP_SIZE - others))


def same_up_to_a_factor(one, other):
    return np.allclose(one * other[0], other * one[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("first", "second"), PAIRS["difficulty"])
def test_a_pair_of_difficulty_is_balanced_and_of_two_speeds(first, second):
    for name in (first, second):
        np.testing.assert_allclose(*both_masses(name), rtol=1e-12)
    assert not same_up_to_a_factor(speeds(first), speeds(second))


@pytest.mark.parametrize(("first", "second"), PAIRS["sign"])
def test_a_pair_of_sign_has_one_speed_and_other_shares(first, second):
    assert same_up_to_a_factor(speeds(first), speeds(second))
    shares = [
        success / (success + failure) for success, failure in (both_masses(name)[:, 1:-1] for name in (first, second))
    ]
    assert np.abs(shares[0] - shares[1]).min() > 0.05


@pytest.mark.parametrize(("first", "second"), PAIRS["rollouts"])
def test_a_pair_of_rollouts_has_the_same_masses_or_none_in_closed_form(first, second):
    if second in CLOSED_FORMS:
        np.testing.assert_array_equal(both_masses(first), both_masses(second))
    else:
        assert second in {"unlikeliness", "ds_grpo"}


# What is kept


def test_both_readmes_count_the_weights_that_fall_as_the_data_do():
    """A weight at the better of its best rate and its best norm; between the two kinds lies a gap of .27."""
    at_equal_mass: dict[str, float] = {}
    for rival in json.loads(interference_league.DATA.read_text())["rivals"]:
        if rival["sweep"] in {"rate", "norm"}:
            mean = (rival["levels"][interference_league.SHOWN] or {"mean": 0.0})["mean"]
            at_equal_mass[rival["name"]] = max(mean, at_equal_mass.get(rival["name"], 0.0))
    fallen = [mean for mean in at_equal_mass.values() if 0 < mean < 0.73]
    figures_readme = interference_league.DATA.parents[1] / "README.md"
    assert f"{len(fallen)} of the {len(at_equal_mass)} weights" in figures_readme.read_text()
    assert f"{len(fallen)} of {len(at_equal_mass)} weights" in (figures_readme.parents[1] / "README.md").read_text()


def test_the_tables_hold_every_pair_and_weight():
    found = json.loads(interference_league.DATA.read_text())["decomposition"]
    pairs, weights, shares = decomposition.tables(found).split("\n\n")
    assert len(pairs.splitlines()) == 2 + sum(map(len, PAIRS.values()))
    assert len(weights.splitlines()) == 2 + len(found["norm"]["weights"])
    assert "difficulty: `rloo` to `maxrl`" in pairs
    assert [line.split(":")[0] for line in shares.splitlines()] == ["norm", "rate"]

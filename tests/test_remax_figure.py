"""The preset and figure ``remax``: equal costs, what is read at equal pass@1, and what README.md says of it."""

import json
from pathlib import Path

import numpy as np
import pytest

import figures
from figures import remax
from simlab.sweeps import Plan, Sweep
from simlab.sweeps.presets.remax import REMAX

README = (Path(figures.__file__).parent / "README.md").read_text()


@pytest.fixture(scope="module")
def data():
    return json.loads(remax.DATA.read_text())


def test_a_greedy_answer_is_paid_for_in_steps():
    """8 prompts of 8 rollouts, or of 9 answers: of 19200 rollouts, 300 steps and 266."""
    cells = Plan(Sweep(**REMAX["bank"])).distinct
    taken = {cell.settings.arm.estimator_name: int(cell.taken[-1]) for cell in cells}
    assert taken == {"remax": 266} | dict.fromkeys(("reinforce", "dr_grpo", "mc_grpo", "nsr"), 300)


def test_a_level_that_a_seed_does_not_reach_has_no_number():
    """Seed 0 comes to .6 halfway between two records, seed 1 never does."""
    runs = {
        "pass_at_1": np.array([[0.2, 0.5, 0.7], [0.2, 0.3, 0.4]]),
        "read": np.array([[1.0, 0.8, 0.4], [1, 0.9, 0.8]]),
    }
    found = remax.of_weight(runs, np.array([0.3]), 0.6)
    assert found["at_level"] == {"mean": None, "error": None}
    assert found["read"]["mean"] == [pytest.approx((1 - 0.2 / 3 + 0.9) / 2)]
    alone = {name: values[[0, 0]] for name, values in runs.items()}
    assert remax.of_weight(alone, np.array([0.3]), 0.6)["at_level"] == {"mean": pytest.approx(0.6), "error": 0.0}


def test_the_readme_has_the_table(data):
    assert remax.table(data) in README


def at_level(data, problem, name):
    own = data[problem]["weights"][name]["at_level"]
    return own["mean"], own["error"]


def test_on_a_bank_remax_keeps_more_rare_mass_than_any_baseline_and_takes_longer(data):
    kept, error = at_level(data, "bank", "remax")
    for name in ("reinforce", "dr_grpo", "mc_grpo", "nsr"):
        other, own = at_level(data, "bank", name)
        assert kept - other > 5 * np.hypot(error, own)
    cost = {name: np.argmax(np.array(own["pass_at_1"]["mean"]) >= 0.6) for name, own in data["bank"]["weights"].items()}
    assert cost["remax"] > 1.5 * cost["dr_grpo"]

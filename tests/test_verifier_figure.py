"""The preset and figure ``verifier``: how losses are computed, and that what is said of them is in the numbers."""

import itertools
import json
import math

import numpy as np
import pytest
import xarray as xr

from figures import verifier
from figures.verifier import DATA, picked
from simlab.estimators import REGISTRY
from simlab.sweeps import Plan, Sweep
from simlab.sweeps.presets.verifier import VERIFIER


@pytest.fixture(scope="module")
def data():
    return json.loads(DATA.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", VERIFIER)
def test_every_cell_of_the_preset_can_run(name):
    sweep = Sweep(**VERIFIER[name])
    assert len(Plan(sweep).cells) == len(dict(sweep.cells()))


def test_a_loss_is_the_share_of_the_gain_of_the_same_seeds_without_errors():
    """From .2: seed 0 gains .4 and keeps .3 of it, a loss of 1/4; seed 1 gains .2 and keeps .1, a loss of 1/2."""
    values = np.zeros((2, 1, 2, 2))
    values[0, 0] = [[0.6, 0.4], [0.5, 0.3]]
    names = ("k", "errors_of", "false_positive", "seed")
    final = xr.DataArray(
        values, dims=names, coords={"k": [1, 16], "errors_of": ["rollout"], "false_positive": [0.0, 0.1]}
    )
    honest, erring = verifier.rows(final, np.array([0.2, 0.5]), "errors_of", "false_positive")
    assert honest["lost"] == {"mean": 0.0, "error": 0.0}
    assert erring["lost"]["mean"] == pytest.approx(0.375)
    assert erring["lost"]["error"] == pytest.approx(0.125)
    assert erring["mean"] == [pytest.approx(0.4), 0.0]


def test_what_theory_says_is_of_the_bank_and_of_nothing_for_weights_of_failures_alone():
    assert verifier.share_at_the_start("nsr", 8, 0.1) == 0
    shares = [verifier.share_at_the_start("f_grpo", 8, 0.1, gamma=gamma) for gamma in (0.0, 1.0, 4.0)]
    assert shares == sorted(shares)
    balanced, positive = (verifier.share_at_the_start(name, 8, 0.1) for name in ("dr_grpo", "relu"))
    assert positive == pytest.approx(2 * balanced)
    assert not math.isnan(balanced)


# What README.md says of the numbers


def lost(data, name, kind="rollout", norm=0.25):
    (row,) = picked(data["weights"][name]["rows"], errors_of=kind, update_norm=norm, false_positive=0.1)
    return row["lost"]["mean"], row["lost"]["error"]


def test_hard_focus_loses_more_than_none_and_easy_focus_or_failures_alone_less(data):
    order = ["maxrl", "f_grpo", "grpo", "dr_grpo", "easy_power", "nsr"]
    found = [lost(data, name) for name in order[:-1]]
    for (more, one), (less, other) in itertools.pairwise(found):
        assert more - less > 3 * math.hypot(one, other)
    assert lost(data, "nsr")[0] < 0.06
    assert set(data["weights"]) < set(REGISTRY)


def test_the_order_of_focal_exponents_turns_round(data):
    at = {
        (gamma, rate): picked(data["focus"], errors_of="rollout", gamma=gamma, update_norm=0.25, false_positive=rate)[
            0
        ]["mean"][0]
        for gamma in (0.0, 1.0)
        for rate in (0.0, 0.1)
    }
    assert at[1.0, 0.0] - at[0.0, 0.0] > 0.02
    assert at[0.0, 0.1] - at[1.0, 0.1] > 0.02


def test_at_the_end_errors_of_answers_cost_balanced_weights_alike(data):
    found = [lost(data, name, "answer", 1.0)[0] for name in ("easy_power", "dr_grpo", "grpo", "f_grpo", "maxrl")]
    assert 0.38 < min(found) < max(found) < 0.46
    assert max(lost(data, name, "rollout", 1.0)[0] for name in ("easy_power", "dr_grpo", "grpo", "maxrl")) < 0.1


def test_corrections_are_a_clock_or_nothing(data):
    def best(name, correction, kind="rollout"):
        own = picked(data["corrections"], errors_of=kind, estimator=name, verifier_correction=correction)
        return max(row["mean"][0] for row in own)

    for kind in ("rollout", "answer"):
        for correction in ("backward", "forward"):
            for name in ("grpo", "dr_grpo"):
                assert best(name, correction, kind) == pytest.approx(best(name, "none", kind), abs=0.01)
    assert best("reinforce", "none") - best("reinforce", "forward") > 0.05


def test_the_sign_of_youdens_index_decides_and_false_positives_cost_more(data):
    base = data["base"][0]
    for row in data["youden"]:
        index = 1 - row["false_positive"] - row["false_negative"]
        if index:
            assert (row["mean"][0] > base) == (index > 0)
        else:
            assert row["mean"][0] == pytest.approx(base, abs=0.005)
        if row["false_positive"] > row["false_negative"] and index > 0:
            (mirrored,) = picked(
                data["youden"], estimator=row["estimator"], false_positive=row["false_negative"],
                false_negative=row["false_positive"],
            )  # fmt: skip
            assert mirrored["mean"][0] > row["mean"][0]

"""What became of the prediction on countdown: shares of GRPO's fall at equal pass@1, and hits and misses."""

import json

import numpy as np
import pytest

from figures.countdown_conflict import DATA, KEPT, at_the_end, judged, outcome
from figures.shared import countdown_prediction

SEEDS, STEPS = 5, [0, 10, 20, 30]
RISE = np.array([0.1, 0.2, 0.3, 0.4])
NOISE = np.array([0.004, -0.003, 0.001, -0.004, 0.002])  # of a seed: one that all its arms share


def curves(pass_at_1, pass_at_64):
    of_seeds = {"pass@1": pass_at_1 + 0 * NOISE[:, None], "pass@64": pass_at_64 + NOISE[:, None]}
    return {"step": STEPS} | {name: of_seeds.get(name, of_seeds["pass@64"]).tolist() for name in KEPT}


DATA_MADE_UP = {
    "arms": {
        "grpo": curves(RISE, np.array([0.9, 0.8, 0.7, 0.6])),
        "half the fall": curves(RISE, np.array([0.9, 0.85, 0.8, 0.75])),
        "half the pace": curves(0.1 + (RISE - 0.1) / 2, np.array([0.9, 0.85, 0.8, 0.75])),
        "twice the fall": curves(RISE, np.array([0.9, 0.7, 0.5, 0.3])),
        "no gain": curves(np.full(4, 0.1), np.array([0.9, 0.8, 0.7, 0.6])),
    }
}


def test_the_share_is_of_the_fall_at_equal_pass_at_1_whatever_the_pace():
    found = judged(DATA_MADE_UP, 0.1)
    for arm, share, step in [("half the fall", 0.5, 10), ("half the pace", 0, 20), ("twice the fall", -1, 10)]:
        assert found[arm]["mean"] == pytest.approx(share, abs=1e-9)
        assert found[arm]["step"][0] == pytest.approx(step)
        assert found[arm]["low"] <= found[arm]["mean"] <= found[arm]["high"]
    assert found["no gain"]["reached"] == 0
    assert "mean" not in found["no gain"]


@pytest.mark.parametrize(
    ("predicted", "seen", "said"),
    [
        ("keeps more", "keeps more", "hit"),
        ("keeps more", "keeps less", "miss"),
        ("keeps more", "cannot be told from GRPO", "not seen"),
        ("cannot be told from GRPO", "keeps less", "nothing predicted"),
        ("cannot be told from GRPO", "cannot be told from GRPO", "nothing predicted, nothing seen"),
        ("keeps less", "does not gain so much", "miss"),
    ],
)
def test_hits_and_misses(predicted, seen, said):
    assert outcome({"verdict": predicted}, {"verdict": seen}, {"low": 0.0}) == said


def test_nothing_is_judged_where_grpo_itself_does_not_fall_so_much_in_every_seed():
    baseline = judged(DATA_MADE_UP, 0.301)["grpo"]
    assert outcome({"verdict": "keeps more"}, {"verdict": "keeps more"}, baseline).startswith("not tested")


def test_the_ends_are_paired_by_seed():
    row = next(line for line in at_the_end(DATA_MADE_UP).splitlines() if line.startswith("| `half the fall`"))
    assert row.endswith("| 0.150(0.000) |"), "the noise that arms share is no error of their difference"


def test_every_arm_that_was_predicted_was_trained():
    kept, predicted = json.loads(DATA.read_text()), json.loads(countdown_prediction.DATA.read_text())
    for of_fall in predicted["predicted"]:
        assert of_fall.keys() <= kept["arms"].keys()
    for arm in kept["arms"].values():
        assert np.array(arm["pass@64"]).shape == (5, 11)

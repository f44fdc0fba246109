"""The prediction of what remedies keep: points are chosen on the first seeds and judged on the others, by hand."""

import numpy as np
import pytest

from figures.shared.front import Point
from figures.spend_interference import by_length, farthest, largest_gain, verdicts

CHOOSING, JUDGING = [0.5] * 4, [0.70, 0.72, 0.71, 0.69]


def point(shares, rollouts=1000.0, setting="update_norm = 0.4", method="grpo"):
    return Point("rewards", method, setting, np.full(len(shares), rollouts), np.array(shares))


def test_a_gain_is_over_what_rivals_keep_for_as_many_rollouts_and_is_judged_on_other_seeds():
    cheap, dear = point([0.45] * 4 + [0.66] * 4, 900.0), point([0.9] * 8, 2000.0)
    other = point([0.4] * 4 + [0.9] * 4)
    best, rival, gain = largest_gain([other, point(CHOOSING + JUDGING)], [cheap, dear])
    assert best.kept[0] == 0.5  # by the first four seeds alone, though the other keeps more on the last
    assert rival is cheap
    assert gain.mean == pytest.approx(np.mean(JUDGING) - 0.66)


def test_nothing_is_gained_on_rivals_that_all_need_more_rollouts():
    assert largest_gain([point(CHOOSING + JUDGING, 100.0)], [point([0.4] * 8)]) is None


def test_the_farthest_pair_of_one_length_is_told():
    near, far = point([0.5] * 8), point([0.2] * 8, setting="remedy = project, update_norm = 1.6")
    rivals = [point([0.45] * 8), point([0.5] * 4 + [0.4] * 4, setting="update_norm = 1.6")]
    pairs = by_length([near, far], rivals)
    assert [(arm.setting[-3:], rival.setting[-3:]) for arm, rival in pairs] == [("0.4", "0.4"), ("1.6", "1.6")]
    setting, difference = farthest(pairs)
    assert setting == far.setting
    assert difference.mean == pytest.approx(-0.2)


def plain(shares, rollouts, setting):
    row = {"method": "grpo", "setting": setting, "pass@64": shares, "equal": [0.3, 0.9]}
    return row | {"rollouts": [rollouts] * len(shares), "kept": shares}


def test_verdicts_by_hand():
    """The oracle keeps .97 for as many rollouts; memory some .1 more than GRPO, never .95; drop never gets there."""
    never = plain([None] * 8, None, "remedy = drop, remedy_strength = 1, update_norm = 0.4")
    shares = [0.6, 0.61, 0.6, 0.62, 0.61, 0.6, 0.62, 0.6]
    oracle = [0.97 + 0.001 * seed for seed in range(8)]
    points = {
        "rewards": [plain(shares, 900.0, "update_norm = 0.4")],
        "oracle": [plain(oracle, 1000.0, "remedy = project, remedy_strength = 1, update_norm = 0.4"), never],
        "memory": [plain([0.7, 0.71, 0.72, 0.7, 0.72, 0.71, 0.7, 0.71], 1000.0, "remedy = damp, update_norm = 0.4")],
    }
    results = {name: told for name, _, told in verdicts({"conditions": {"linear": {"base": 0.96, "points": points}}})}
    assert results == {"oracle": "hit", "no gain": "missed", "entropy": "hit", "drop": "hit"}

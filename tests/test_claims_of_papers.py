"""A claim about arms is judged by numbers alone: it holds, it does not, or it cannot be told."""

import json
from pathlib import Path

import numpy as np
import pytest

import figures
from figures.interference_papers import DATA, table
from figures.shared.claims_of_papers import FAILS, HOLDS, UNTOLD, Claim, Found, Order, in_words, judge

SPREAD = np.tile([-1.0, 1.0], 6)


def arm(mean, spread=0.001, **others):
    return {"pass@256": (mean + spread * SPREAD).tolist(), **others}


def verdict(*orders, equal=False, **arms):
    found = judge(Claim("f-grpo:table-1", "", "", orders), arms, equal_pass_at_1=equal)
    return found and found.verdict


@pytest.mark.parametrize(
    ("gap", "spread", "expected"),
    [(0.02, 0.001, HOLDS), (0.02, 0.1, UNTOLD), (0.002, 0.001, FAILS), (-0.02, 0.001, FAILS), (0.0, 0.0, FAILS)],
)
def test_an_arm_is_above_another_by_more_than_a_trifle_and_its_error(gap, spread, expected):
    arms = {"better": arm(0.5 + gap, spread), "worse": arm(0.5, -spread)}
    assert verdict(Order("pass@256", "better", "worse"), **arms) == expected


@pytest.mark.parametrize(("gap", "expected"), [(0.02, HOLDS), (0.0, HOLDS), (-0.02, FAILS)])
def test_an_arm_that_matches_another_is_not_below_it_by_more_than_a_trifle(gap, expected):
    assert verdict(Order("pass@256", "own", "other", matches=True), own=arm(0.5 + gap), other=arm(0.5)) == expected


def test_the_error_is_that_of_the_paired_difference():
    found = judge(
        Claim("f-grpo:table-1", "", "", (Order("pass@256", "one", "two"),)),
        {"one": arm(0.6, 0.2), "two": arm(0.5, 0.1)},
        equal_pass_at_1=False,
    )
    assert found.difference == pytest.approx(0.1)
    assert found.error == pytest.approx(0.1 * np.sqrt(12 / 11) / np.sqrt(12))


def test_what_is_not_reached_cannot_be_told():
    assert verdict(Order("pass@256", "own", "other"), own={"pass@256": None}, other=arm(0.5)) == UNTOLD


def test_words_name_both_readings_where_they_differ_and_other_banks_where_these_do():
    yes, no = Found(HOLDS), Found(FAILS)
    same, other = dict.fromkeys(("shared", "rare", "apart"), yes), {"shared": no, "rare": no, "apart": yes}
    assert in_words(same, same) == "holds"
    assert in_words(same, other) == ("holds at one rate, does not hold at equal pass@1; without shared features: holds")
    first_alone = {**same, "rare": no, "apart": no}
    assert in_words(first_alone, first_alone) == (
        "holds; with rare answers: does not hold; without shared features: does not hold"
    )
    assert in_words(same, dict.fromkeys(same)) == "holds"


def test_the_readme_has_the_table_of_the_numbers_that_are_kept():
    assert table(json.loads(DATA.read_text())) in (Path(figures.__file__).parent / "README.md").read_text()

"""The table of a sweep and the sentence below it, of results that are made up here, without a simulation."""

import json

import numpy as np
import xarray as xr

from simlab.sweeps.compare import compared
from simlab.sweeps.table import final_table, takeaway
from simlab.sweeps.words import in_words


def result(means, *, spread=0.01, without=(), estimators=("f_grpo", "grpo")):
    """A result of four seeds whose q_pos starts at 0.25 and ends at ``means`` (estimator, gamma)."""
    means = np.asarray(means, float)
    noise = spread * np.array([-1.5, -0.5, 0.5, 1.5])
    values = np.full((*means.shape, 4, 2), 0.25)
    values[..., 1] = means[..., None] + noise * np.arange(1, means.size + 1).reshape(*means.shape, 1)
    data = xr.Dataset(
        {"q_pos": (("estimator", "gamma", "seed", "step"), values, {"long_name": "probability of a correct action"})},
        {"estimator": list(estimators), "gamma": [0.5, 1.0][: means.shape[1]], "seed": range(4), "step": [0, 100]},
        {
            "configuration": json.dumps(
                {
                    "arms": [],
                    "estimators": estimators,
                    "surrogates": ["ppo_clip"],
                    "problem": "anchored",
                    "parameters": {},
                }
            ),
            "settled": json.dumps({"group_size": 8, "problem.actions": 12800, "run.lag": 0}),
        },
    )
    data.gamma.attrs = {"long_name": "focal exponent", "methods_without_it": json.dumps(list(without))}
    return data


def test_a_method_without_a_parameter_is_listed_once():
    lines = final_table(result([[0.5, 0.6], [0.7, 0.7]], without=["grpo"])).splitlines()
    assert lines[0].split() == ["estimator", "gamma", "q_pos"]
    rows = [line.split()[:2] for line in lines[1 : lines.index("")]]
    assert rows == [["f_grpo", "0.5"], ["f_grpo", "1"], ["grpo", "-"]]
    assert "gamma  focal exponent" in lines
    assert "q_pos  probability of a correct action" in lines


def test_the_mean_and_its_standard_error_are_those_of_the_last_record():
    (row,) = [line.split() for line in final_table(result([[0.5]], estimators=("grpo",))).splitlines()[1:2]]
    error = np.std([0.485, 0.495, 0.505, 0.515], ddof=1) / 2
    assert row == ["grpo", "0.5", f"0.50000({round(error * 1e5)})"]


def test_the_sentence_names_where_the_first_column_ends_highest_and_lowest():
    told = takeaway(result([[0.5, 0.6], [0.9, 0.9]], without=["grpo"]))
    assert told == "in short: q_pos ends highest, 0.9 at grpo, and lowest, 0.5 at f_grpo, gamma 0.5"


def test_no_difference_is_claimed_that_the_seeds_do_not_show():
    told = takeaway(result([[0.5, 0.501], [0.502, 0.503]], spread=0.1))
    assert told == "in short: no cell's q_pos differs from another's by more than 2 standard errors"


def test_of_one_cell_the_sentence_says_from_where_to_where_it_went():
    assert takeaway(result([[0.5]], estimators=("grpo",))) == "in short: q_pos went from 0.25 to 0.5"


def test_one_line_says_what_ran():
    assert in_words(result([[0.5, 0.6], [0.7, 0.7]])) == (
        "f_grpo, grpo with ppo_clip on anchored: gamma = 0.5, 1; G = 8, actions = 12,800; 4 seeds, 100 steps"
    )


def test_results_are_compared_in_the_cells_that_both_have():
    """The second lacks f_grpo, and grpo ends higher in it by 0.1 in every seed."""
    first, second = result([[0.5], [0.6]]), result([[0.5], [0.7]]).isel(estimator=[1])
    lines = compared({"a": first, "b": second}).splitlines()
    place = lines.index("less a, seed by seed:")
    assert lines[place + 2].split() == ["b", "grpo", "0.5", "0.10000(0)"]
    assert lines[-1] == (
        "in short: q_pos is higher than in a in 1 of 1 cells, lower in 0, each by more than 2 standard errors"
    )
    apart = compared({"a": first.isel(estimator=[0]), "b": second}).splitlines()
    assert apart[-1] == "in short: no cell of a stands in another result"

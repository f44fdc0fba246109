"""The table of a sweep and the sentence below it, of results that are made up here, without a simulation."""

import json

import h5py
import numpy as np
import pytest
import xarray as xr

from simlab.cli import main
from simlab.errors import InputError
from simlab.explore.results import open_dataset
from simlab.sweeps.table import compared, describe_sweep, final_table, mean_and_error, takeaway


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
                {"arms": [], "estimators": estimators, "surrogates": ["ppo_clip"], "problem": "anchored"}
                | {"parameters": {}}
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
    # deviations of .015 and .005: a variance of .0005 / 3, a standard error of .0129 / 2
    assert row == ["grpo", "0.5", "0.5000(65)"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([0.25], "0.25000"),
        ([0.2, 0.4], "0.30(10)"),
        ([10.0, 13.0], "11.5(15)"),
        ([0.1, 0.10004], "0.10002(2)"),
        ([np.nan, 0.5], "nan"),
    ],
)
def test_a_standard_error_has_two_digits(values, told):
    assert mean_and_error(np.array(values)) == told


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        (
            result([[0.5, 0.6], [0.9, 0.9]], without=["grpo"]),
            "q_pos ends highest, 0.9 at grpo, and lowest, 0.5 at f_grpo, gamma 0.5",
        ),
        # The second and the third differ by .001 with a standard error of .006, and the first by .1.
        (
            result([[0.5], [0.6], [0.601]], estimators=("rloo", "f_grpo", "grpo")),
            "q_pos ends highest, 0.601 at grpo (1 more that these seeds do not tell from it), and lowest, 0.5 at rloo",
        ),
        (
            result([[0.5, 0.501], [0.502, 0.503]], spread=0.1),
            "these seeds do not tell any cell's q_pos from another's, by 95 % intervals of the difference",
        ),
        (result([[0.5]], estimators=("grpo",)), "q_pos went from 0.25 to 0.5"),
        (result([[0.72101], [0.72102]]), "q_pos ends at 0.721 in every cell"),
    ],
)
def test_the_sentence_says_no_more_than_the_seeds_show(dataset, sentence):
    assert takeaway(dataset, "q_pos") == f"in short: {sentence}"


@pytest.mark.parametrize(
    ("group_sizes", "told"),
    [
        ([1, 8], "group_size 1: a group of one is its own baseline, and its advantage 0"),
        ([2, 8], "group_size 2: no record differs"),
    ],
)
def test_a_cell_in_which_nothing_moves_is_named(group_sizes, told):
    data = result([[0.25, 0.5]], spread=0, estimators=("grpo",)).rename(gamma="group_size")
    data["group_size"] = group_sizes
    assert final_table(data).splitlines()[-1] == f"nothing was learned at {told}"
    assert "nothing was learned" not in final_table(data.isel(group_size=[1]))


def test_sizes_at_equal_steps_are_said_to_cost_unlike():
    rows = result([[0.5, 0.6], [0.7, 0.7]])
    wide = xr.concat([rows.expand_dims(group_size=[size]) for size in (8, 512)], "group_size")
    assert final_table(wide).splitlines()[-1] == (
        "at equal steps groups of 512 draw 64 times the rollouts of groups of 8; --budget ROLLOUTS in place of --steps "
        "gives all the same"
    )
    assert final_table(rows).splitlines()[-1].startswith("in short: ")


def test_one_line_says_what_ran():
    assert describe_sweep(result([[0.5, 0.6], [0.7, 0.7]])) == (
        "f_grpo, grpo with ppo_clip on anchored: gamma = 0.5, 1; G = 8, actions = 12,800; 4 seeds, 100 steps"
    )


def test_results_are_compared_in_the_cells_that_both_have():
    """The second lacks f_grpo, and grpo ends higher in it by 0.1 in every seed."""
    first, second = result([[0.5], [0.6]]), result([[0.5], [0.7]]).isel(estimator=[1])
    lines = compared({"a": first, "b": second}).splitlines()
    place = lines.index("difference from a, paired by seed:")
    assert lines[place + 2].split() == ["b", "grpo", "0.5", "0.10000(0)"]
    assert lines[-1] == (
        "in short: compared with a, q_pos is higher in 1 and lower in 0 of 1 cell, by intervals over seeds without 0"
    )
    apart = compared({"a": first.isel(estimator=[0]), "b": second}).splitlines()
    assert apart[-1] == "in short: no cell of a stands in another result"


def test_a_result_that_would_unpack_out_of_proportion_is_refused_before_it_is_read(tmp_path, capsys):
    """Its step coordinate has 2^30 numbers, of which none is in the file of some kilobytes."""
    path = tmp_path / "packed.nc"
    with h5py.File(path, "w") as file:
        file.attrs["configuration"] = "{}"
        file.create_dataset("step", (2**30,), "f8", chunks=(2**20,), compression="gzip")
    for command in ("compare", "fit"):
        assert main([command, str(path)]) == 2
        assert "unpacks to 8589934592 bytes; allowed" in capsys.readouterr().err
    with pytest.raises(InputError, match="unpacks to 8589934592 bytes"):
        open_dataset(path)

"""The table of a sweep and the sentence below it, of results that are made up here, without a simulation."""

import json

import h5py
import numpy as np
import pytest
import xarray as xr

from simlab.cli import main
from simlab.errors import InputError
from simlab.explore.results import open_dataset
from simlab.sweeps.table import compared, final_table, mean_and_error, takeaway


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
        (
            result([[0.5], [0.9]]).isel(seed=slice(3)),
            "3 seeds are too few to say where q_pos ends highest; 4 or more may tell",
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


def test_records_that_differ_by_rounding_alone_are_no_learning():
    """A float32 resolves .25 in steps of 3e-8; a millionth of it more is learning."""
    data = result([[0.25, 0.25]], spread=0, estimators=("grpo",)).astype(np.float32)
    data.attrs["settled"] = json.dumps({"group_size": 1})
    note = "nothing was learned at any step of any cell: a group of one is its own baseline, and its advantage 0"
    for moved, told in [(3e-8, True), (1e-5, False)]:
        data["q_pos"] = data.q_pos + np.float32(moved) * (data.step > 0)
        assert (final_table(data).splitlines()[-1] == note) is told
        assert ("nothing was learned" in final_table(data)) is told


def test_results_are_compared_in_the_cells_that_both_have():
    """The second lacks f_grpo, and grpo ends higher in it by 0.1 in every seed."""
    first, second = result([[0.5], [0.6]]), result([[0.5], [0.7]]).isel(estimator=[1])
    lines = compared({"a": first, "b": second}).splitlines()
    index = lines.index("difference from a, paired by seed:")
    assert lines[index + 2].split() == ["b", "grpo", "0.5", "0.10000(0)"]
    assert lines[-1] == (
        "in short: compared with a, q_pos is higher in 1 and lower in 0 of 1 cell, by intervals over seeds without 0"
    )
    apart = compared({"a": first.isel(estimator=[0]), "b": second}).splitlines()
    assert apart[-1] == "in short: no cell of a stands in another result"


# Placebos


def paid(*rewards, ends, arms=("grpo", "maxrl"), problem="anchored", seeds=4):
    """A result of arms and rewards that ends at ``ends`` (arm, reward) in q_pos, and 0.1 higher in pass@8."""
    noise = 0.01 * np.array([-1.5, -0.5, 0.5, 1.5])[:seeds]
    ends = np.asarray(ends, float)[..., None] + noise * np.arange(1, np.size(ends) + 1).reshape(*np.shape(ends), 1)
    values = np.stack([np.full_like(ends, 0.25), ends], axis=-1)
    leading = ("arm", "reward", "seed", "step")
    data = xr.Dataset(
        {"q_pos": (leading, values), "pass_at_k": ((*leading, "k"), np.stack([values, values + 0.1], -1))},
        {"arm": list(arms), "reward": list(rewards), "seed": range(seeds), "step": [0, 100], "k": [1, 8]},
    )
    configuration = {"arms": arms, "estimators": None, "surrogates": None, "problem": problem}
    configuration |= {"parameters": {"run.reward": rewards}}
    settled = {"group_size": 8} | ({"run.reward": rewards[0]} if len(rewards) == 1 else {})
    data.q_pos.attrs["long_name"] = "probability of a correct action"
    if len(rewards) == 1:
        data = data.isel(reward=0, drop=True)
    return data.assign_attrs(configuration=json.dumps(configuration), settled=json.dumps(settled))


def told(text):
    return [line.partition(":")[0] for line in text.splitlines() if " told from " in line]


def test_a_table_says_which_arm_is_not_told_from_the_placebo_of_its_method():
    """grpo ends .3 above its placebo in every seed, up to .015, and maxrl .001 above its."""
    data = paid("true", "placebo", ends=[[0.6, 0.3], [0.301, 0.3]])
    expected = [
        "grpo, reward = true is told from grpo, reward = placebo in q_pos and pass@8",
        "maxrl, reward = true is not told from maxrl, reward = placebo",
    ]
    assert told(compared({"a": data})) == told(final_table(data)) == expected
    assert "pass@8 +0.3000(65), paired by 4 seeds" in compared({"a": data})


def test_an_arm_is_not_compared_with_the_placebo_of_another_result():
    a, b = (paid("true", "placebo", ends=[[0.6, 0.3]], arms=["grpo"]) for _ in range(2))
    assert told(compared({"a": a, "b": b})) == [
        "a, reward = true is told from a, reward = placebo in q_pos and pass@8",
        "b, reward = true is told from b, reward = placebo in q_pos and pass@8",
    ]
    alone = paid("placebo", ends=[[0.3]], arms=["grpo"])
    assert told(compared({"a": paid("true", ends=[[0.6]], arms=["grpo"]), "b": alone})) == []


def test_few_seeds_tell_no_arm_from_a_placebo_and_metrics_without_a_rate_are_all_read():
    few = paid("true", "placebo", ends=[[0.6, 0.3]], arms=["grpo"], seeds=3)
    told = "3 seeds are too few to say if reward = true differs from reward = placebo; 4 or more may tell"
    assert told in compared({"a": few}).replace("grpo, ", "")
    data = paid("true", "placebo", ends=[[0.6, 0.3]], arms=["grpo"])
    data["mine"] = 10 * data.q_pos
    assert "in mine: differences mine +3.000(65)" in compared({"a": data}, ["mine"])


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

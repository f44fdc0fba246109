"""Cells of sweeps compared where pass@1 first reaches a level, on made-up curves with known answers."""

import json

import numpy as np
import pytest
import xarray as xr

from simlab.cli import main
from simlab.columns import read_metric, usual_metrics
from simlab.errors import InputError
from simlab.sweeps.equal_level import compare_at, figure_at
from simlab.sweeps.result import write
from simlab.sweeps.table import compared

STEPS = np.arange(0, 101, 5)
KS = (1, 4, 256)
# (rate of pass@1 a step, loss of pass@256 for each unit of pass@1); pass@1 starts at .1 and stays below .9.
ARMS = {"grpo": (0.008, 0.5), "slow": (0.004, 0.5), "kept": (0.008, 0.2), "stuck": (0.001, 0.5)}


def curves(rate, loss):
    """pass@1, 4 and 256 of four seeds, (seed, step, k): each seed has a speed of its own, and a shift of pass@256."""
    speed = rate * np.array([0.9, 1.0, 1.1, 1.2])[:, None]
    pass_at_1 = np.minimum(0.1 + speed * STEPS, 0.9)
    many = 0.95 - loss * (pass_at_1 - 0.1) + np.array([-0.01, 0.0, 0.0, 0.01])[:, None]
    return np.stack([pass_at_1, (pass_at_1 + many) / 2, many], axis=-1)


def result(*arms):
    """A result of some arms, with Q_pos, pass@k, a metric of one's own, and one with a further dimension."""
    passed = np.stack([curves(*ARMS[arm]) for arm in arms])
    leading = ("arm", "seed", "step")
    data = xr.Dataset(
        {
            "q_pos": (leading, passed[..., 0]),
            "pass_at_k": ((*leading, "k"), passed),
            "mine": (leading, 10 * passed[..., 0] ** 1),
            "q_pos_by_kind": ((*leading, "kind"), passed[..., :2]),
        },
        {"arm": list(arms), "seed": range(4), "step": STEPS, "k": list(KS), "kind": ["easy", "hard"]},
        {"settled": "{}"},
    )
    configuration = {"arms": arms, "estimators": [], "surrogates": [], "problem": "network", "parameters": {}}
    return data.assign_attrs(configuration=json.dumps(configuration))


def rows(text, head):
    """The rows of the table below the line that begins with ``head``, by cell."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(head)) + 2
    end = next((number for number in range(start, len(lines)) if not lines[number]), len(lines))
    return {line.split()[0].rstrip(","): line.split()[1:] for line in lines[start:end]}


def test_each_seed_is_read_where_it_first_has_the_pass_at_1():
    """At .43, grpo's seeds are after .33 / (.008 speed) steps, slow's after twice as many, and pass@256 is the same."""
    text = compare_at({"r": result("grpo", "slow")}, 0.43, ["pass@256", "mine"])
    grpo, slow = rows(text, "each seed").values()
    steps = 0.33 / 0.008 / np.array([0.9, 1.0, 1.1, 1.2])
    assert grpo[0] == slow[0] == "4"
    assert float(grpo[1].partition("(")[0]) == pytest.approx(steps.mean(), abs=0.05)
    assert float(slow[1].partition("(")[0]) == pytest.approx(2 * steps.mean(), abs=0.05)
    assert grpo[2] == slow[2] == "0.7850(41)"  # .95 - .5 x .33; the shifts have a standard error of .0041
    assert grpo[3] == "4.30000(0)"


def test_differences_are_paired_by_seed_and_stay_between_minus_1_and_1():
    text = compare_at({"r": result("grpo", "kept")}, 0.43, ["pass@256"])
    (row,) = rows(text, "difference from grpo").values()
    assert row[:2] == ["4", "+0.00000(0)"]
    assert row[2].startswith("+0.09900(0)")  # .3 x .33 in every seed, whose shifts cancel
    apart = compare_at({"r": result("kept", "grpo")}, 0.43, ["pass@256"], baseline="grpo")
    assert "difference from grpo, paired by seed" in apart


def test_a_cell_is_told_from_its_placebo_at_the_level_or_the_placebo_does_not_reach_it():
    def stacked(*arms):
        data = xr.concat([result(arm).assign_coords(arm=["grpo"]) for arm in arms], "reward", combine_attrs="override")
        data = data.assign_coords(reward=["true", "placebo"]).transpose("arm", "reward", ...)
        configuration = json.loads(data.configuration) | {"parameters": {"run.reward": ["true", "placebo"]}}
        return {"r": data.assign_attrs(configuration=json.dumps(configuration))}

    lines = compare_at(stacked("kept", "grpo"), 0.43, ["pass@256"]).splitlines()
    assert (
        "reward = true is told from reward = placebo in pass@256: differences pass@256 +0.09900(0), paired by 4 seeds"
        in lines
    )
    lines = compare_at(stacked("grpo", "stuck"), 0.43, ["pass@256"]).splitlines()
    assert "reward = true reaches pass@1 = 0.43, and reward = placebo in no seed" in lines


def test_the_sentence_counts_cells_whose_interval_leaves_out_0():
    data = result("grpo", "kept")
    noise = xr.DataArray([0.0, 0.01, 0.02, 0.03], dims="seed") * (data.arm == "kept")
    data["pass_at_k"] = data.pass_at_k + noise * (data.k == 256)
    told = "pass@256 is higher in 1 and lower in 0 of 1 cell, by intervals over seeds without 0"
    in_short = compare_at({"r": data}, 0.43, ["pass@256"]).splitlines()[-1]
    assert in_short == f"in short: compared with grpo, {told}"


def test_a_cell_that_does_not_reach_the_level_is_named():
    text = compare_at({"r": result("grpo", "stuck", "kept")}, 0.43, ["pass@256"])
    assert "stuck: 0 of 4 seeds reach pass@1 = 0.43; it begins at 0.1 and is 0.22 at most" in text
    assert list(rows(text, "difference from grpo")) == ["kept"]
    with pytest.raises(InputError, match=r"no cell reaches pass@1 = 0\.95: r: 0 of 4 seeds"):
        compare_at({"r": result("grpo")}, 0.95)
    with pytest.raises(InputError, match=r"baseline stuck does not reach pass@1 = 0\.43; allowed: grpo"):
        compare_at({"r": result("grpo", "stuck")}, 0.43, baseline="stuck")


def test_cells_of_several_results_have_their_names_and_any_length():
    short = result("kept").isel(step=slice(0, 15))
    text = compare_at({"a": result("grpo"), "b": short}, 0.43)
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("a ", "b "))] == ["a", "b", "b"]


def test_a_metric_is_pass_at_k_a_variable_or_one_of_several_labels():
    data = result("grpo")
    assert list(read_metric(data, "pass_at_k")) == ["pass@1", "pass@4", "pass@256"]
    assert list(read_metric(data, "q_pos_by_kind")) == ["q_pos_by_kind easy", "q_pos_by_kind hard"]
    with pytest.raises(InputError, match=r"metric = 'mnie' is unknown .did you mean 'mine'"):
        read_metric(data, "mnie")


@pytest.mark.parametrize(
    ("metric", "dropped", "told"),
    [
        ("pass@8", [], "it has pass@1, pass@4, pass@256; simlab sweep --pass-at-k 1,4,8,256 records it"),
        ("pass@8", ["pass_at_k", "k"], "it has no pass@k; simlab sweep --pass-at-k 8 records it"),
        ("pass_at_k", ["pass_at_k", "k"], "it has no pass@k; simlab sweep --pass-at-k 32 records it"),
    ],
)
def test_pass_at_k_that_is_not_recorded_names_the_option_that_records_it(metric, dropped, told):
    with pytest.raises(InputError, match=f"{metric} is not recorded in the result: {told}"):
        read_metric(result("grpo").drop_vars(dropped), metric)


def test_three_seeds_name_no_winner():
    data = result("grpo", "kept").isel(seed=slice(3))
    tables = [compare_at({"r": data}, 0.43, ["pass@256"]), compared({"a": data.isel(arm=[0]), "b": data.isel(arm=[0])})]
    for table in tables:
        assert table.splitlines()[-1].startswith("in short: 3 seeds are too few to say in which cells ")


@pytest.mark.parametrize("seeds", [2, 3])
def test_fewer_than_four_seeds_have_a_standard_error_and_no_interval(seeds):
    """Student's interval of two seeds may be wider than any difference of two shares can be."""
    data = result("grpo", "kept")
    noise = xr.DataArray([0.0, 0.1, 0.2, 0.3], dims="seed") * (data.arm == "kept")
    data["pass_at_k"] = data.pass_at_k + noise * (data.k == 256)
    text = compare_at({"r": data.isel(seed=slice(seeds))}, 0.43, ["pass@256"])
    (row,) = rows(text, "difference from grpo").values()
    assert "difference from grpo, paired by seed:" in text.splitlines()
    assert len(row) == 3
    assert "[" not in "".join(row)
    assert "[" in compare_at({"r": data}, 0.43, ["pass@256"]).partition("interval over seeds]:")[2]


@pytest.mark.parametrize(
    ("every", "spread", "told"),
    [
        # grpo rises by .0072 to .0096 a step and slow by half of it; the metric falls by half of that.
        (5, 0.0, None),
        (10, 0.0, "pass@1 by up to 0.096, in grpo; simlab sweep --record-every 5 records more"),
        (20, 0.0, "pass@1 by up to 0.19, pass@256 by up to 0.096, in grpo; slow; simlab sweep --record-every 5"),
        (5, 0.2, "pass@256 by up to 0.22, in grpo; slow; simlab sweep --record-every 1 records more"),
    ],
)
def test_records_too_far_apart_for_the_level_are_said_to_be(every, spread, told):
    """A level between two records is read on a line; pass@1 or a share that moves by over .05 there is a warning."""
    data = result("grpo", "slow").sel(step=slice(None, None, every // 5))
    jumps = spread * (np.arange(data.sizes["step"]) % 2)
    data["pass_at_k"] = data.pass_at_k - xr.DataArray(jumps, dims="step") * (data.k == 256)
    warnings = [line for line in compare_at({"r": data}, 0.43, ["pass@256"]).splitlines() if "warning" in line]
    assert len(warnings) == (told is not None)
    head = "warning: the two records around pass@1 = 0.43 are far apart, and a line between them is what is read: "
    assert all(head + told in line for line in warnings)


def test_a_sweep_shows_the_largest_k_unless_every_cell_solves_all():
    data = result("grpo")
    assert usual_metrics(data, ["q_pos"]) == ["q_pos", "pass@256"]
    data["pass_at_k"] = 0 * data.pass_at_k + 1
    assert usual_metrics(data, ["q_pos"]) == ["q_pos"]


def test_the_figure_shows_metrics_against_pass_at_1_and_pass_at_k_at_the_level():
    """pass@256 falls by .5, or .2, for each unit of pass@1, on a straight line of every cell."""
    first, second, by_k, *less = figure_at({"r": result("grpo", "kept")}, 0.43, ["pass@256", "mine"]).axes
    assert [first.get_xlabel(), first.get_ylabel(), second.get_ylabel()] == ["pass@1", "pass@256", "mine"]
    for line, loss in zip(first.lines[:2], (0.5, 0.2), strict=True):
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        held = np.isfinite(y)
        assert held.sum() > 20
        np.testing.assert_allclose(y[held], 0.95 - loss * (x[held] - 0.1), atol=1e-9)
    np.testing.assert_allclose(by_k.lines[1].get_ydata(), [0.43, (0.43 + 0.884) / 2, 0.884], atol=1e-9)
    assert [less[0].get_ylabel(), less[1].get_ylabel()] == [
        "pass@256, difference from grpo",
        "pass@k, difference from grpo",
    ]
    np.testing.assert_allclose(less[0].lines[1].get_ydata()[held], 0.3 * (x[held] - 0.1), atol=1e-9)
    np.testing.assert_allclose(less[1].lines[1].get_ydata(), [0, 0.099 / 2, 0.099], atol=1e-9)


def test_the_figure_compares_with_the_baseline_and_leaves_out_cells_that_do_not_come_there():
    figure = figure_at({"r": result("grpo", "stuck", "kept")}, 0.43, ["pass@256"], "kept")
    by_k, _, less = figure.axes[1:4]
    assert less.get_ylabel() == "pass@k, difference from kept"
    assert [line.get_label() for line in by_k.lines] == [line.get_label() for line in less.lines] == ["grpo", "kept"]
    assert by_k.lines[1].get_color() == figure.axes[0].lines[2].get_color()


@pytest.mark.slow
def test_the_command_compares_files_at_their_ends_or_at_a_pass_at_1(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(result("grpo", "kept"), tmp_path / "a.nc")
    write(result("grpo"), tmp_path / "b.nc")
    assert main(["compare", "a.nc", "b.nc", "--figure", "both.png"]) == 0
    assert "difference from a, paired by seed:" in capsys.readouterr().out
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    assert main(["compare", "a.nc", "--at", "pass@1=0.43", "--metric", "pass@256", "--figure", "pk.pdf"]) == 0
    assert "difference from grpo, paired by seed" in capsys.readouterr().out
    assert (tmp_path / "pk.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--at", "20"], "--at 20 is for training runs; allowed with results of sweeps: pass@1=NUMBER"),
        (["--baseline", "grpo"], "--baseline is for training runs; allowed with results of sweeps: --figure, --metric"),
        (["--at", "pass@1=38"], "'pass@1=38' is no level of pass@1; allowed: above 0 and below 1"),
        (["--at", "pass@1=0"], "'pass@1=0' is no level of pass@1; allowed: above 0 and below 1"),
        (["--at", "pass@1=0.43", "--baseline", "maxrl"], "baseline 'maxrl' is no cell; allowed: grpo; kept"),
    ],
)
def test_what_a_sweep_does_not_have_is_refused(options, complaint, tmp_path, capsys):
    write(result("grpo", "kept"), tmp_path / "a.nc")
    assert main(["compare", str(tmp_path / "a.nc"), *options, "--figure", str(tmp_path / "c.png")]) == 2
    assert complaint in capsys.readouterr().err

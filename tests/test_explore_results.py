"""Results that the explorer opens (sweeps, training runs, reports): described, sliced, and refused in one line."""

import json
import math

import numpy as np
import pytest
import xarray as xr
from diagnose_logs import bank, log
from probe_records import PACE, planted, written
from run_folders import evaluation, metrics, write_run

from simlab.cli import main
from simlab.diagnose.diagnosis import diagnose
from simlab.diagnose.estimate import as_json
from simlab.errors import InputError
from simlab.explore import results as module
from simlab.explore.results import NONE, Results, open_dataset, result_controls

VALUES = np.random.default_rng(0).uniform(size=(2, 3, 4, 5))
VALUES[0, 0, 1:, 2] = np.nan  # one seed is left
VALUES[1, 1, :, 3] = np.nan  # none is


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "mine.nc"
    xr.Dataset(
        {
            "q_pos": (("arm", "group_size", "seed", "step"), VALUES, {"units": "1", "long_name": "correct mass"}),
            "rate": (("group_size",), [0.25, 0.5, 1.0]),
            "words": (("arm",), ["a", "b"]),
            "single": ((), 3.0),
        },
        coords={"arm": ["grpo", "maxrl"], "group_size": [2, 8, 32], "step": [0, 5, 10, 15, 20], "seed": range(4)},
    ).to_netcdf(path, engine="h5netcdf")
    return path


@pytest.fixture(scope="module")
def results(path):
    return Results((path,))


# Slices


T = 3.182446305284263  # 97.5 % of Student's t, of four seeds


def naive_summary(rows):
    """The mean of each row of shares without NaN, and Student's interval of four in log odds."""
    means, ends = [], []
    for row in rows:
        values = [value for value in row if not math.isnan(value)]
        mean = sum(values) / len(values) if values else None
        means.append(mean)
        if len(values) < 4:
            ends.append((None, None))
            continue
        scatter = sum((value - mean) ** 2 for value in values)
        step = T * (scatter / 3 / 4) ** 0.5 / (mean * (1 - mean))
        odds = [mean / (1 - mean) * math.exp(sign * step) for sign in (-1, 1)]
        ends.append(tuple(each / (1 + each) for each in odds))
    return means, ends


def test_a_result_says_its_dimensions_and_its_variables_of_numbers(results):
    (described,) = results.describe()
    assert described["name"] == "mine.nc"
    assert described["dimensions"]["arm"] == ["grpo", "maxrl"]
    assert described["dimensions"]["group_size"] == [2.0, 8.0, 32.0]
    assert set(described["variables"]) == {"q_pos", "rate"}
    assert described["variables"]["q_pos"]["description"] == "correct mass"
    json.dumps(described, allow_nan=False)


@pytest.mark.parametrize("arm", [0, 1])
def test_a_slice_holds_means_over_seeds_with_their_bands(results, arm):
    question = {"file": 0, "variable": "q_pos", "across": "step", "lines": "group_size", "at": {"arm": arm}}
    answer = results.answer(question)
    assert answer["seeds"] == 4
    for size in range(3):
        means, ends = naive_summary(VALUES[arm, size].T.tolist())
        assert answer["mean"][size] == [None if mean is None else pytest.approx(mean, rel=1e-5) for mean in means]
        for name, expected in zip(("low", "high"), zip(*ends, strict=True), strict=True):
            assert answer[name][size] == [end if end is None else pytest.approx(end, rel=1e-4) for end in expected]


def test_a_slice_without_lines_is_one_row_and_seeds_may_be_lines(results):
    rate = results.answer({"variable": "rate", "across": "group_size"})
    assert (rate["mean"], rate["low"], rate["high"]) == ([[0.25, 0.5, 1.0]], [[None] * 3], [[None] * 3])
    assert rate["seeds"] == 1
    seeds = results.answer({"variable": "q_pos", "across": "step", "lines": "seed", "at": {"group_size": 2}})
    np.testing.assert_allclose(seeds["mean"], VALUES[0, 2], rtol=1e-5)


@pytest.mark.parametrize(
    ("shift", "seeds", "told", "why"),
    [
        (0.1, 4, True, ""),
        (0.01, 4, False, "these seeds do not tell one from another"),
        (0.1, 3, False, "3 seeds are too few to say which ends highest; 4 or more may tell"),
    ],
)
def test_a_line_is_called_highest_only_where_four_seeds_or_more_tell_it_from_the_lowest(
    tmp_path, shift, seeds, told, why
):
    """The differences by seed are the shift, and .02 more or less."""
    path, noise = tmp_path / "two.nc", np.array([0.02, -0.02, 0.02, -0.02])
    values = 0.5 + np.stack([np.zeros(4), shift + noise])[..., None] * [0.0, 1.0]
    xr.Dataset({"q_pos": (("arm", "seed", "step"), values[:, :seeds])}).to_netcdf(path, engine="h5netcdf")
    answer = Results((path,)).answer({"variable": "q_pos", "across": "step", "lines": "arm"})
    assert (answer["told"], answer["untold"]) == (told, why)
    by_seed = Results((path,)).answer({"variable": "q_pos", "across": "step", "lines": "seed"})
    assert (by_seed["told"], by_seed["untold"]) == (False, "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"variable": "words", "across": "arm"}, "allowed: q_pos, rate"),
        ({"variable": "q_pos", "across": "k"}, "across = 'k'"),
        ({"variable": "q_pos", "across": "step", "lines": "step"}, "lines = 'step'"),
    ],
)
def test_what_is_no_slice_is_refused_in_one_line(results, body, reason):
    with pytest.raises(InputError, match=reason):
        results.answer(body)


def test_a_slice_of_too_many_values_is_refused(results, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_READ", 19)
    with pytest.raises(InputError, match="q_pos has 20 values"):
        results.answer({"variable": "q_pos", "across": "step"})


def test_of_a_long_dimension_places_evenly_apart_are_shown(tmp_path):
    path, steps = tmp_path / "long.nc", np.arange(10_000)
    values = np.stack([steps / 10_000, steps / 10_000 + 0.5])
    variables = {"q_pos": (("seed", "step"), values), "own": ("place", steps / 1.0)}
    xr.Dataset(variables, coords={"step": 10 * steps}).to_netcdf(path, engine="h5netcdf")
    results = Results((path,))
    (described,) = results.describe()
    assert described["every"] == {"step": 3, "place": 3}
    assert described["dimensions"]["step"] == (10.0 * steps[::3]).tolist()
    assert results.answer({"variable": "own", "across": "place"})["mean"] == [described["dimensions"]["place"]]
    answer = results.answer({"variable": "q_pos", "across": "step"})
    np.testing.assert_allclose(answer["mean"][0], values.mean(axis=0)[::3], rtol=1e-5)


def test_dimensions_are_sliders_and_the_first_view_is_correct_mass_over_steps(results):
    controls = {control.name: control for control in result_controls(results.describe())}
    usual = {name: controls[f"results.{name}"].default for name in ("variable", "across", "lines", "view", "second")}
    assert usual == {"variable": "q_pos", "across": "step", "lines": "arm", "view": "curves", "second": NONE}
    assert controls["results.group_size"].high == 2
    assert controls["results.group_size"].choices == ("2", "8", "32")
    assert all(control.help for control in controls.values())
    assert result_controls([]) == []


@pytest.mark.parametrize(("name", "content"), [("gone.nc", None), ("text.nc", b"no numbers"), ("list.json", b"[1")])
def test_a_file_that_is_no_result_is_one_line_and_exit_code_2(tmp_path, capsys, name, content):
    pytest.importorskip("starlette")
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert main(["explore", "--no-browser", "--port", "0", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert name in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", ["log.jsonl", "log.json.gz", "log.parquet"])
def test_a_log_is_told_which_command_reads_it(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=f"simlab diagnose .*{name}"):
        open_dataset(tmp_path / name)


def test_too_many_results_are_refused(path):
    with pytest.raises(InputError, match="7 results"):
        Results((path,) * 7)


# Training runs


@pytest.fixture
def run(tmp_path):
    arms = {
        "grpo": {
            0: (metrics([0.25, 0.5]), [evaluation(2, [8, 4])]),
            1: (metrics([0.75, 1.0]), [evaluation(2, [0, 4])]),
        },
        "maxrl": {0: (metrics([0.125]), [])},
    }
    return write_run(tmp_path / "run", arms, starts={0: evaluation(0, [1, 0]), 1: evaluation(0, [0, 2])})


def test_metrics_of_a_run_are_curves_over_steps_by_arm_of_two_seeds_that_are_shown_themselves(run):
    answer = Results((run,)).answer({"variable": "reward", "across": "step", "lines": "arm"})
    assert answer["mean"] == [[0.5, 0.75], [0.125, None]]
    assert answer["low"] == answer["high"] == [[None, None]] * 2
    assert answer["each"] == [[[0.25, 0.5], [0.75, 1.0]], [[0.125, None], [None, None]]]
    assert (answer["told"], answer["untold"]) == (
        False, "1 seed is too few to say which ends highest; 4 or more may tell"
    )  # fmt: skip
    assert open_dataset(run / "run.json").identical(open_dataset(run))


def test_evaluations_of_a_run_begin_with_the_start_that_its_arms_share(run):
    dataset = open_dataset(run)
    passed = dataset.pass_at_k.sel(arm="grpo")
    assert passed.sel(seed=0, k=1).values.tolist() == pytest.approx([1 / 16, 12 / 16])
    assert passed.sel(seed=1, k=1).values.tolist() == pytest.approx([2 / 16, 4 / 16])
    other = dataset.pass_at_k.sel(arm="maxrl", k=1, seed=0).values
    assert other.tolist() == [1 / 16, pytest.approx(math.nan, nan_ok=True)]
    assert dataset.k.values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    # 4 of the 56 draws of 3 from 8 samples hold none of the 4 correct.
    expected = [(1 - math.comb(6, 3) / 56) / 2, (1 - 4 / 56) / 2]
    assert passed.sel(seed=1, k=3).values.tolist() == pytest.approx(expected)
    # Pass@8 of 8 samples says whether any is correct.
    assert passed.sel(seed=1, k=8).values.tolist() == [0.5, 0.5]
    controls = {control.name: control.default for control in result_controls(Results((run,)).describe())}
    shown = [controls[f"results.{name}"] for name in ("variable", "across", "lines")]
    assert shown == ["pass_at_k", "evaluation", "arm"]


# Reports of a diagnosis


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.json"
    path.write_text(
        json.dumps({"diagnosis": as_json(diagnose(log(bank("u-shaped", 24, 0), 8, 1), others=(), rollouts=64))})
    )
    return path


@pytest.mark.slow
def test_curves_of_a_report_have_their_intervals_as_bands(report):
    content = json.loads(report.read_text())["diagnosis"]
    sizes = {row["group_size"]: row for row in content["groups"]["at_sizes"]}
    dataset = open_dataset(report)
    answer = Results((report,)).answer({"variable": "effective_prompts", "across": "group_size"})
    for index, size in enumerate(dataset.group_size.values.tolist()):
        if size in sizes:
            dead, prompts = sizes[size]["dead"], sizes[size]["effective_prompts"]
            expected = [dead[name] for name in ("value", "low", "high")]
            assert dataset.dead_groups.sel(group_size=size).values.tolist() == expected
            shown = [answer[key][0][index] for key in ("mean", "low", "high")]
            assert shown == pytest.approx([prompts[name] for name in ("value", "low", "high")], rel=1e-5)
    assert answer["seeds"] == 0
    teaching = {row["group_size"]: row["teaching"]["value"] for row in content["recommendation"]["splits"]}
    shown = dataset.teaching_groups.sel(bound="estimate", group_size=list(teaching)).values.tolist()
    assert shown == [*teaching.values()]
    passed = content["pass_at_k"]
    assert dataset.pass_at_k.sel(k=passed["beyond_k"][-1], bound="high") == passed["beyond"][-1]["high"]


def test_what_needs_answers_is_left_out_of_a_report_without_them(report, tmp_path):
    name = "groups_holding_the_typical_solution"
    assert name in open_dataset(report)
    content = json.loads(report.read_text())
    for split in content["diagnosis"]["recommendation"]["splits"]:
        split["holding"] = None  # as in a log without answers
    without = tmp_path / "without.json"
    without.write_text(json.dumps(content))
    assert name not in open_dataset(without)


def test_what_is_no_run_and_no_report_is_refused_in_one_line(tmp_path):
    path = tmp_path / "other.json"
    for content in ('{"contents": {}}', '{"diagnosis": {"groups": 3}}', "[]", "{"):
        path.write_text(content)
        with pytest.raises(InputError, match=r"other\.json") as caught:
            open_dataset(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="simlab train"):
        open_dataset(tmp_path)
    with pytest.raises(InputError, match="neither a step nor an evaluation"):
        open_dataset(write_run(tmp_path / "run", {"grpo": {0: ([], [])}}))


def test_a_band_of_different_solutions_ends_at_the_samples(tmp_path):
    """Four seeds that found 0, 0, 0 and 8 of 8."""
    arms = {"grpo": {seed: (metrics([0.5]), [evaluation(2, [8], [8 * (seed == 3)])]) for seed in range(4)}}
    answer = Results((write_run(tmp_path / "run", arms),)).answer({"variable": "distinct", "across": "evaluation"})
    ((mean,), (low,), (high,)) = (answer[name][0] for name in ("mean", "low", "high"))
    assert 0 < low < mean < high < 8


# Measurements of a probe


def test_damaged_measurements_are_named_and_left_out_and_a_folder_of_them_alone_is_refused(tmp_path, capsys):
    folder = written(tmp_path / "out" / "probe", planted(steps=2))
    path, other = sorted(folder.glob("*.npz"))
    path.write_bytes(path.read_bytes()[:500])
    assert "net_change" in open_dataset(tmp_path / "out")
    assert f"{path.name} is damaged" in capsys.readouterr().err
    other.unlink()
    with pytest.raises(InputError, match=f"{path.name} is damaged"):
        open_dataset(tmp_path / "out")


def test_a_folder_of_a_probe_is_a_map_of_prompts_by_prompts_with_the_worst_first(tmp_path):
    """Planted: the last three of twelve prompts are pushed down by .6 and by .6, by two of six sources."""
    written(tmp_path / "out" / "probe", planted())
    (described,) = Results((tmp_path / "out",)).describe()
    assert described["variables"]["clear_change"]["dimensions"] == ["source", "target"]
    assert sorted(described["dimensions"]["source"][:2]) == ["s0", "s1"]
    assert sorted(described["dimensions"]["target"][:3]) == ["p10", "p11", "p9"]
    controls = {control.name: control.default for control in result_controls([described])}
    chosen = {name.removeprefix("results."): value for name, value in controls.items()}
    expected = {"variable": "clear_change", "view": "map", "across": "target", "lines": "source"}
    assert {name: chosen[name] for name in expected} == expected

    for folder in ("out", "out/probe"):
        results = Results((tmp_path / folder,))
        question = {"file": 0, "variable": "clear_change", "across": "target", "lines": "source"}
        cells = np.array(results.answer(question)["mean"], float)
        assert cells[:2, :3] == pytest.approx(-0.6 * PACE, abs=0.1 * PACE)
        assert cells[2:, :3] == pytest.approx(0, abs=0.1 * PACE)
        assert cells[:, 3:] == pytest.approx(PACE / 6, abs=0.1 * PACE)
        net = results.answer({"file": 0, "variable": "net_change", "across": "target"})
        assert net["mean"][0][:3] == pytest.approx([-1.2 * PACE] * 3, abs=0.2 * PACE)
        assert all(
            low < mean < high for low, mean, high in zip(net["low"][0], net["mean"][0], net["high"][0], strict=True)
        )


def test_what_was_never_measured_together_is_blank_and_what_is_within_its_error_is_0(tmp_path):
    first, second = planted(1), planted(1)
    second = [record._replace(prompts=[f"b{text}" for text in record.prompts]) for record in second]
    moved = [record._replace(facts={**record.facts, "step": 99}) for record in second]
    dataset = open_dataset(written(tmp_path / "probe", [*first, *moved]))
    cells = dataset.change.sel(source="s0", target="bp0")
    assert np.isnan(cells)
    assert not np.isnan(dataset.change.sel(source="s0", target="p0"))
    within = np.abs(dataset.change) <= dataset.error
    assert within.any()
    xr.testing.assert_equal(dataset.clear_change, dataset.change.where(~within, 0).rename("clear_change"))

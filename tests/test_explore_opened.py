"""Training runs and reports of a diagnosis open in the explorer as results of sweeps do."""

import json
import math

import pytest
from diagnose_logs import bank, log
from run_folders import evaluation, metrics, write_run

from simlab.diagnose.diagnosis import diagnosis
from simlab.diagnose.estimate import as_json
from simlab.errors import InputError
from simlab.explore.opened import open_dataset
from simlab.explore.results import Results
from simlab.explore.results_controls import controls_of


@pytest.fixture
def run(tmp_path):
    """Two arms, of which the second has not yet begun its second seed, with a start for each seed."""
    arms = {
        "grpo": {
            0: (metrics([0.25, 0.5]), [evaluation(2, [8, 4])]),
            1: (metrics([0.75, 1.0]), [evaluation(2, [0, 4])]),
        },
        "maxrl": {0: (metrics([0.125]), [])},
    }
    return write_run(tmp_path / "run", arms, starts={0: evaluation(0, [1, 0]), 1: evaluation(0, [0, 2])})


def test_metrics_of_a_run_are_curves_over_steps_by_arm_with_bands_over_seeds(run):
    asked = {"variable": "reward", "across": "step", "lines": "arm"}
    found = Results((run,)).answer(asked)
    half = 1.96 * math.sqrt(2 * 0.25**2 / 2)  # of 0.25 and 0.75, and of 0.5 and 1
    assert found["mean"] == [[0.5, 0.75], [0.125, None]]
    assert found["low"] == [[pytest.approx(0.5 - half), pytest.approx(0.75 - half)], [None, None]]
    assert found["high"] == [[pytest.approx(0.5 + half), pytest.approx(0.75 + half)], [None, None]]


def test_evaluations_of_a_run_begin_with_the_start_that_its_arms_share(run):
    dataset = open_dataset(run)
    passed = dataset.pass_at_k.sel(arm="grpo", k=1)
    assert passed.sel(seed=0).values.tolist() == pytest.approx([1 / 16, 12 / 16])
    assert passed.sel(seed=1).values.tolist() == pytest.approx([2 / 16, 4 / 16])
    assert dataset.pass_at_k.sel(arm="maxrl", k=1, seed=0).values.tolist() == [
        1 / 16,
        pytest.approx(math.nan, nan_ok=True),
    ]
    assert dataset.k.values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    # Of 8 samples with 4 correct, 3 others are drawn in 4 of 56 ways.
    assert dataset.pass_at_k.sel(arm="grpo", k=3, seed=1).values.tolist() == pytest.approx(
        [(1 - math.comb(6, 3) / 56) / 2, (1 - 4 / 56) / 2]
    )
    # Pass@8 of 8 samples is whether any is correct.
    assert dataset.pass_at_k.sel(arm="grpo", k=8, seed=1).values.tolist() == [0.5, 0.5]


def test_a_run_opens_with_pass_at_k_over_its_evaluations(run):
    controls = {control.name: control for control in controls_of(Results((run,)).described())}
    assert [controls[f"results.{name}"].default for name in ("variable", "across", "lines")] == [
        "pass_at_k", "evaluation", "arm",
    ]  # fmt: skip


def test_a_run_is_named_by_its_folder_or_by_its_file(run):
    assert open_dataset(run / "run.json").identical(open_dataset(run))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.json"
    found = as_json(diagnosis(log(bank("u-shaped", 60, 0), 8, 1), rollouts=64))
    path.write_text(json.dumps({"diagnosis": found}))
    return path


def test_curves_of_a_report_have_their_intervals_as_lines(report):
    found = json.loads(report.read_text())["diagnosis"]
    dead = {one["group_size"]: one["dead"] for one in found["groups"]["at_sizes"]}
    dataset = open_dataset(report)
    for size, own in dead.items():
        expected = [own[name] for name in ("value", "low", "high")]
        assert dataset.dead_groups.sel(group_size=size).values.tolist() == expected
    teaching = {one["group_size"]: one["teaching"]["value"] for one in found["recommendation"]["splits"]}
    assert dataset.teaching_groups.sel(bound="estimate", group_size=list(teaching)).values.tolist() == [
        *teaching.values()
    ]
    passed = found["pass_at_k"]
    assert dataset.pass_at_k.sel(k=passed["beyond_k"][-1], bound="high") == passed["beyond"][-1]["high"]


def test_an_interval_of_a_report_is_drawn_as_its_band(report):
    found = json.loads(report.read_text())["diagnosis"]["groups"]["at_sizes"]
    answer = Results((report,)).answer({"variable": "effective_prompts", "across": "group_size"})
    sizes = Results((report,)).described()[0]["dimensions"]["group_size"]
    for one in found:
        place = sizes.index(one["group_size"])
        for key, name in (("mean", "value"), ("low", "low"), ("high", "high")):
            assert answer[key][0][place] == pytest.approx(one["effective_prompts"][name], rel=1e-5)
    assert answer["seeds"] == 0


def test_what_needs_answers_is_left_out_of_a_report_without_them(report, tmp_path):
    name = "groups_holding_the_typical_solution"
    assert name in open_dataset(report)
    found = json.loads(report.read_text())
    for split in found["diagnosis"]["recommendation"]["splits"]:
        split["holding"] = None  # as where a log has no answers
    without = tmp_path / "without.json"
    without.write_text(json.dumps(found))
    assert name not in open_dataset(without)


@pytest.mark.parametrize("content", ['{"contents": {}}', '{"diagnosis": {"groups": 3}}', "[]", "{"])
def test_a_file_that_is_no_report_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"other\.json") as caught:
        open_dataset(path)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="allowed: a folder that simlab train wrote"):
        open_dataset(tmp_path)


def test_a_run_that_has_not_begun_is_refused(tmp_path):
    with pytest.raises(InputError, match="neither a step nor an evaluation yet"):
        open_dataset(write_run(tmp_path / "run", {"grpo": {0: ([], [])}}))

"""``simlab fit`` and ``simlab compare --fit``: which curves they fit, and what they print and refuse."""

import numpy as np
import pytest
from run_folders import evaluation, metrics, write_run
from sweep_cases import TINY, refusal

from simlab.cli import main
from simlab.llm.compare import fit_tables, read_run
from simlab.scaling import Curves, estimates, scaling_tables
from simlab.sweeps.curves import curves
from simlab.sweeps.result import read

BANK = (
    "--problem", "prompt_bank", "--estimator", "grpo,nsr", "--group-size", "2,4", "--seeds", "3", "--steps", "12",
    "--record-every", "2", "--param", "prompts=4", "--param", "actions=8", "--param", "prompts_per_step=3",
    "--pass-at-k", "1,8",
)  # fmt: skip
PROBLEMS, SAMPLES = 4, 64


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """To save time; the tables are compared with those of as few."""
    monkeypatch.setattr(estimates, "RESAMPLES", 20)


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    """Two estimators at two group sizes on 3 of 4 prompts a step, recorded six times."""
    out = tmp_path_factory.mktemp("bank") / "bank.nc"
    assert main(["sweep", "--out", str(out), *BANK]) == 0
    return out


# Sweeps


@pytest.mark.slow
def test_a_cell_is_fitted_against_the_rollouts_of_its_steps(bank):
    """Steps times 3 prompts times G; the record at step 0 is the base model."""
    dataset = read(bank)
    found = curves(dataset, "pass@8")
    assert list(found) == [f"{name}, group_size = {size}" for name in ("grpo", "nsr") for size in (2, 4)]
    for size in (2, 4):
        own = found[f"nsr, group_size = {size}"]
        np.testing.assert_array_equal(own.compute, np.array([2, 4, 6, 8, 10, 12]) * 3 * size)
        expected = dataset.pass_at_k.sel(k=8, estimator="nsr", group_size=size).values
        np.testing.assert_allclose(np.concatenate([own.base[:, None], own.values], axis=1), expected)
        np.testing.assert_array_equal(own.seeds, [0, 1, 2])


def test_all_prompts_count_where_a_step_draws_all(tmp_path):
    out = tmp_path / "whole.nc"
    assert main(["sweep", "--out", str(out), *TINY, "--group-size", "2", "--seeds", "2"]) == 0
    (found,) = curves(read(out), "q_pos").values()
    np.testing.assert_array_equal(found.compute, [20, 40])


@pytest.mark.slow
def test_fit_prints_the_tables_of_each_metric(bank, capsys):
    assert main(["fit", str(bank), "--metric", "pass@1,pass@8", "--baseline", "grpo, group_size = 4"]) == 0
    printed = capsys.readouterr().out.splitlines()
    dataset = read(bank)
    first, second = (
        scaling_tables(metric, "rollouts", curves(dataset, metric), "grpo, group_size = 4")
        for metric in ("pass@1", "pass@8")
    )
    assert printed == [*first, "", *second]


def test_early_records_are_left_out_by_rollouts(bank, capsys):
    assert main(["fit", str(bank), "--from", "30"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "grpo, group_size = 2: too few points: 4 behind the base model; a fit takes 5 or more" in lines


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--metric", "pass@3"), "metric = 'pass@3' is unknown (did you mean 'pass@8'?); allowed: pass@1, pass@8, "),
        (("--metric", "pass_at_k"), "metric = 'pass_at_k' is unknown; allowed: pass@1, "),
        (("--baseline", "rloo"), "baseline = 'rloo' is unknown; allowed: grpo, group_size = 2, "),
        (("--from", "-1"), "from = -1.0 is outside its range [0, inf)"),
        (("--from", "x"), "argument --from: 'x' cannot be read; allowed: a number"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(bank, capsys, arguments, reason):
    assert main(["fit", str(bank), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_what_is_no_result_is_refused(tmp_path, capsys):
    assert main(["fit", str(tmp_path / "none.nc")]) == 2
    assert "does not exist" in capsys.readouterr().err


# Training runs


def rising(seed, half, most=48):
    """Evaluations of 4 problems, 64 samples each, whose pass@1 has done half of its way after ``half`` steps."""
    random = np.random.default_rng(seed)
    lines = [evaluation(0, [8, 8, 8, 8], samples=SAMPLES)]
    for step in range(10, 210, 10):
        solved = 8 + (most - 8) / (1 + (half / step) ** 2)
        lines.append(
            evaluation(
                step, (solved + random.normal(scale=0.5, size=PROBLEMS)).round().astype(int).tolist(), samples=SAMPLES
            )
        )
    return metrics([0.5]), lines


@pytest.fixture
def run(tmp_path):
    """Two arms that go to the same pass@1, one at half the pace, of 6 seeds; 8 prompts and 4 rollouts each a step."""
    arms = {name: {seed: rising(seed, half) for seed in range(6)} for name, half in (("grpo", 40), ("f_grpo", 80))}
    return write_run(tmp_path / "run", arms, rl={"prompts": 8, "group_size": 4})


def test_an_arm_is_fitted_to_its_evaluations_from_the_start_on(run):
    """The table is that of curves read from the files by hand."""
    found = fit_tables([read_run(run)], pass_at_k=[1], baseline="f_grpo")
    by_hand = {}
    for name, half in (("grpo", 40), ("f_grpo", 80)):
        rates = np.array(
            [[sum(line["correct"]) / SAMPLES / PROBLEMS for line in rising(seed, half)[1]] for seed in range(6)]
        )
        rollouts = np.arange(10.0, 210.0, 10.0) * 8 * 4
        by_hand[name] = Curves(np.arange(6), rollouts, rates[:, 1:], rates[:, 0])
    assert found == scaling_tables("pass@1", "rollouts", by_hand, "f_grpo")
    assert found[-1].endswith("same asymptote, faster")


def test_compare_adds_the_fits_behind_its_table(run, tmp_path, capsys):
    figure = tmp_path / "compare.png"
    assert main(["compare", str(run), "--figure", str(figure)]) == 0
    without = capsys.readouterr().out.splitlines()
    assert main(["compare", str(run), "--figure", str(figure), "--fit", "320", "--baseline", "grpo"]) == 0
    printed = capsys.readouterr().out.splitlines()
    tables = fit_tables([read_run(run)], 320.0, baseline="grpo")
    place = printed.index(tables[0])
    assert printed[place : place + len(tables)] == tables
    assert [line.split(" = ")[0] for line in tables if " = R0" in line] == ["pass@1", "pass@64"]
    assert not any(" = R0" in line for line in without)


def test_seeds_that_have_come_less_far_shorten_the_curve(tmp_path):
    """Of six seeds one has three evaluations: too few for a fit of all."""
    seeds = {seed: rising(seed, 40) for seed in range(6)}
    seeds[5] = (seeds[5][0], seeds[5][1][:4])
    folder = write_run(tmp_path / "run", {"grpo": seeds}, rl={"prompts": 8, "group_size": 4})
    assert "grpo: too few points: 3 behind the base model; a fit takes 5 or more" in fit_tables([read_run(folder)])


def test_runs_that_do_not_say_enough_are_refused(run, tmp_path):
    bare = write_run(tmp_path / "bare", {"grpo": {0: rising(0, 40)}})
    assert "does not say its prompts and group_size" in refusal(fit_tables, [read_run(bare)])
    lines = rising(0, 40)
    late = write_run(tmp_path / "late", {"grpo": {0: (lines[0], lines[1][1:])}}, rl={"prompts": 8, "group_size": 4})
    assert "grpo has no evaluation before its first step" in refusal(fit_tables, [read_run(late)])
    assert "pass@65 cannot be told" in refusal(fit_tables, [read_run(run)], pass_at_k=[65])
    assert "is no evaluated arm" in refusal(fit_tables, [read_run(run)], baseline="nsr")

"""TRL's own trainer: ``simlab diagnose`` reads its completion files, and its log says the same. Run with ``-m trl``."""

import pytest

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("default")]  # TRL, transformers and accelerate warn
pytest.importorskip("trl")

import numpy as np
from datasets import Dataset
from log_files import groups_of, read_groups, solutions_of
from trl import GRPOTrainer
from trl_cases import PROMPTS, reward, trainer

from simlab.adapters.trl import DiagnoseCallback, SimlabGRPOTrainer
from simlab.cli import main
from simlab.diagnose.dead_groups import observe_groups
from simlab.diagnose.live import Live, fit_metrics
from simlab.diagnose.reading import read_log
from simlab.diagnose.reading.answers import from_completion
from simlab.errors import InputError


def graded(completions, log_extra, **others):
    log_extra("letters", [len(text) for text in completions])
    return [None if text.startswith("1") else 0.25 for text in completions]


def trained(folder, *, rewards=reward, **settings):
    seen = []

    def judged(prompts, completions, trainer_state, **others):
        values = reward(completions)
        step = trainer_state.global_step + 1
        seen.extend(
            {"step": step, "prompt": prompt, "reward": value, "answer": from_completion(text)}
            for prompt, text, value in zip(prompts, completions, values, strict=True)
        )
        return values

    functions = [judged, graded] if rewards is graded else judged
    logging = {"log_completions": True, "logging_steps": 1, "max_steps": 3}
    trainer(folder, kind=GRPOTrainer, rewards=functions, settings=logging | settings).train()
    return seen, folder / "out"


def test_the_groups_are_those_that_the_reward_function_saw(tmp_path):
    seen, out = trained(tmp_path)
    assert sorted(path.name for path in (out / "completions").iterdir()) == [
        f"completions_{step:05d}.parquet" for step in (1, 2, 3)
    ]
    reading = read_log([out])
    log, expected = reading.log, groups_of(seen)
    assert (log.format, reading.files, log.refused.count, reading.notes) == ("trl", 3, 0, ())
    assert set(log.prompts) <= set(PROMPTS)
    groups = read_groups(log)
    assert {key: group[:2] for key, group in groups.items()} == {key: group[:2] for key, group in expected.items()}
    assert solutions_of(groups) == solutions_of(expected)
    assert 0 < log.correct.sum() < log.group_size.sum()


def test_several_reward_functions_are_told_from_what_else_is_logged(tmp_path, capsys):
    seen, out = trained(tmp_path, rewards=graded)
    assert main(["diagnose", str(out)]) == 0
    assert "`judged + graded` as reward, `judged` as correct" in capsys.readouterr().out
    expected = {key: group[:2] for key, group in groups_of(seen).items()}
    for named in ({}, {"reward": "judged"}, {"threshold": 1.0}):
        groups = read_groups(read_log([out], **named).log)
        assert {key: group[:2] for key, group in groups.items()} == expected


def test_rollouts_of_which_several_steps_learn_are_read_once(tmp_path):
    seen, out = trained(tmp_path, num_iterations=2, max_steps=4)
    assert len(list((out / "completions").iterdir())) == 4
    reading = read_log([out])
    assert list(dict.fromkeys(reading.log.step)) == [1, 3]
    assert reading.notes == ("steps that repeat the rollouts of the step before, and are left out: 2",)
    assert {key: group[:2] for key, group in read_groups(reading.log).items()} == {
        key: group[:2] for key, group in groups_of(seen).items()
    }


# Metrics while it trains


def observed_run(folder, *, live=None, kind=GRPOTrainer, rewards=reward, options=None, **settings):
    logging = {"log_completions": True, "logging_steps": 1, "max_steps": 4}
    run = trainer(folder, kind=kind, rewards=rewards, settings=logging | settings, **(options or {}))
    run.add_callback(DiagnoseCallback(run, live))
    run.train()
    return [line for line in run.state.log_history if "loss" in line], folder / "out"


def test_the_log_says_what_the_files_say(tmp_path):
    lines, out = observed_run(tmp_path, live=Live(every=2, window=2))
    log = read_log([out]).log
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        batch = log.select(log.step == line["step"])
        assert line["diagnose/solve_rate"] == pytest.approx(batch.correct.sum() / batch.group_size.sum())
        assert line["diagnose/dead"] == pytest.approx(observe_groups(batch).all_right + observe_groups(batch).all_wrong)
        assert ("diagnose/fitted/solve_rate" in line) == (line["step"] % 2 == 0)
    expected = fit_metrics(log.select(log.step >= 3), 0.9)
    assert {name.removeprefix("diagnose/") for name in lines[3] if "fitted" in name} == expected.keys()
    for name, value in expected.items():
        assert lines[3][f"diagnose/{name}"] == pytest.approx(value, abs=1e-6), name


def test_rollouts_are_observed_once_and_those_of_evaluations_not_at_all(tmp_path):
    """Two steps learn from the same rollouts; rollouts of evaluations lie beside those of training."""
    lines, out = observed_run(
        tmp_path, kind=SimlabGRPOTrainer, num_iterations=2, eval_strategy="steps", eval_steps=1,
        per_device_eval_batch_size=4,
        options={"eval_dataset": Dataset.from_dict({"prompt": PROMPTS[:1]}), "estimator": "f_grpo(gamma=1)"},
    )  # fmt: skip
    assert ["diagnose/dead" in line for line in lines] == [True, False, True, False]
    assert out.exists()


def test_of_several_reward_functions_the_weighted_sum_is_judged(tmp_path):
    def half(completions, **others):
        return [0.5] * len(completions)

    with pytest.raises(InputError, match=r"a reward is (0\.5|1\.5); allowed: 0 and 1"):
        observed_run(tmp_path / "a", rewards=[reward, half])
    lines, _ = observed_run(tmp_path / "b", rewards=[reward, half], live=Live(threshold=1.5), max_steps=1)
    assert lines[0]["diagnose/solve_rate"] == pytest.approx(lines[0]["rewards/reward/mean"])
    assert not np.isnan(lines[0]["diagnose/dead"])

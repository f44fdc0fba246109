"""TRL's trainer logs what a diagnosis of its completion files would say. Run with ``-m trl``."""

import pytest

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("default")]  # of TRL, transformers and accelerate
pytest.importorskip("trl")

import numpy as np
from datasets import Dataset
from trl import GRPOTrainer
from trl_cases import PROMPTS, reward, trainer

from simlab.adapters.trl import DiagnoseCallback, SimlabGRPOTrainer
from simlab.diagnose.groups import observed
from simlab.diagnose.live import Live, fitted
from simlab.diagnose.reading import read_log
from simlab.errors import InputError


def trained(folder, *, live=None, kind=GRPOTrainer, rewards=reward, own=None, **settings):
    """What a trainer has logged of each step, and its completion files, read."""
    one = trainer(
        folder,
        kind=kind,
        rewards=rewards,
        settings={"log_completions": True, "logging_steps": 1, "max_steps": 4, **settings},
        **(own or {}),
    )
    one.add_callback(DiagnoseCallback(one, live))
    one.train()
    return [line for line in one.state.log_history if "loss" in line], folder / "out"


def test_the_log_says_what_the_files_say(tmp_path):
    lines, out = trained(tmp_path, live=Live(every=2, window=2))
    log = read_log([out]).log
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        own = log.where(log.step == line["step"])
        assert line["diagnose/solve_rate"] == pytest.approx(own.correct.sum() / own.group_size.sum())
        assert line["diagnose/dead"] == pytest.approx(observed(own).all_right + observed(own).all_wrong)
        assert ("diagnose/fitted/solve_rate" in line) == (line["step"] % 2 == 0)
    expected = fitted(log.where(log.step >= 3), 0.9)
    assert {name.removeprefix("diagnose/") for name in lines[3] if "fitted" in name} == expected.keys()
    for name, value in expected.items():
        assert lines[3][f"diagnose/{name}"] == pytest.approx(value, abs=1e-6), name


def test_simlabs_trainer_takes_it_too(tmp_path):
    lines, _ = trained(tmp_path, kind=SimlabGRPOTrainer, own={"estimator": "f_grpo(gamma=1)"}, max_steps=1)
    assert 0 <= lines[0]["diagnose/dead"] <= 1


def test_rollouts_of_which_several_steps_learn_are_observed_once(tmp_path):
    lines, _ = trained(tmp_path, num_iterations=2)
    assert ["diagnose/dead" in line for line in lines] == [True, False, True, False]


def test_rollouts_of_evaluations_are_not_observed(tmp_path):
    """They are put where those of training lie."""
    lines, out = trained(
        tmp_path, num_iterations=2, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=4,
        own={"eval_dataset": Dataset.from_dict({"prompt": PROMPTS[:1]})},
    )  # fmt: skip
    assert ["diagnose/dead" in line for line in lines] == [True, False, True, False]
    assert out.exists()


def test_of_several_reward_functions_the_weighted_sum_is_judged(tmp_path):
    def half(completions, **others):
        return [0.5] * len(completions)

    with pytest.raises(InputError, match=r"a reward is (0\.5|1\.5); allowed: 0 and 1"):
        trained(tmp_path / "a", rewards=[reward, half])
    lines, _ = trained(tmp_path / "b", rewards=[reward, half], live=Live(threshold=1.5), max_steps=1)
    assert lines[0]["diagnose/solve_rate"] == pytest.approx(lines[0]["rewards/reward/mean"])
    assert not np.isnan(lines[0]["diagnose/dead"])

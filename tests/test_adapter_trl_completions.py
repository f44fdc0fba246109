"""``simlab diagnose`` reads what TRL's own trainer writes with ``log_completions=True``. Run with ``-m trl``."""

import pytest

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("default")]  # of TRL, transformers and accelerate
pytest.importorskip("trl")

from log_files import groups_of, read_groups, solutions_of
from trl import GRPOTrainer
from trl_cases import PROMPTS, reward, trainer

from simlab.cli import main
from simlab.diagnose.reading import read_log
from simlab.diagnose.reading.answers import from_completion


def graded(completions, log_extra, **others):
    """A second reward, None for some, beside a column of numbers that are no reward."""
    log_extra("letters", [len(text) for text in completions])
    return [None if text.startswith("1") else 0.25 for text in completions]


def trained(folder, *, rewards=reward, **settings):
    """What a reward function saw in a training by TRL's own trainer, and the folder that this has left."""
    seen = []

    def judged(prompts, completions, trainer_state, **others):
        found = reward(completions)
        step = trainer_state.global_step + 1
        seen.extend(
            {"step": step, "prompt": prompt, "reward": value, "answer": from_completion(text)}
            for prompt, text, value in zip(prompts, completions, found, strict=True)
        )
        return found

    functions = [judged, graded] if rewards is graded else judged
    one = trainer(
        folder,
        kind=GRPOTrainer,
        rewards=functions,
        settings={"log_completions": True, "logging_steps": 1, "max_steps": 3, **settings},
    )
    one.train()
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
    found = read_groups(log)
    assert {key: group[:2] for key, group in found.items()} == {key: group[:2] for key, group in expected.items()}
    assert solutions_of(found) == solutions_of(expected)
    assert 0 < log.correct.sum() < log.group_size.sum()


def test_several_reward_functions_are_told_from_what_else_is_logged(tmp_path, capsys):
    seen, out = trained(tmp_path, rewards=graded)
    assert main(["diagnose", str(out)]) == 2
    assert "rewards (judged + graded) are 0, 0.25, 1" in capsys.readouterr().err
    expected = {key: group[:2] for key, group in groups_of(seen).items()}
    for named in ({"reward": "judged"}, {"threshold": 1.0}):
        found = read_groups(read_log([out], **named).log)
        assert {key: group[:2] for key, group in found.items()} == expected


def test_rollouts_of_which_several_steps_learn_are_read_once(tmp_path):
    seen, out = trained(tmp_path, num_iterations=2, max_steps=4)
    assert len(list((out / "completions").iterdir())) == 4
    reading = read_log([out])
    assert list(dict.fromkeys(reading.log.step)) == [1, 3]
    assert reading.notes == ("steps that repeat the rollouts of the step before, and are left out: 2",)
    assert {key: group[:2] for key, group in read_groups(reading.log).items()} == {
        key: group[:2] for key, group in groups_of(seen).items()
    }

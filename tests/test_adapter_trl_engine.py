"""``simlab train --engine trl``: on the rollouts that our engine drew TRL takes our steps, and on its own it is a run.

Run with ``-m trl``.
"""

import functools
import json

import jax
import numpy as np
import pytest

pytestmark = [
    pytest.mark.trl,
    pytest.mark.filterwarnings("default"),  # TRL, transformers and accelerate warn
]
pytest.importorskip("trl")

from training_cases import PART_WEIGHTS, in_parts, settings, task, trainer_and_state

from simlab.adapters import trl_engine
from simlab.cli import main
from simlab.errors import InputError
from simlab.llm.checkpoint import Model, read_checkpoint, write_checkpoint
from simlab.llm.tokenizer import write_tokenizer
from simlab.llm.training.policy_gradient import Trainer
from simlab.llm.training.run import train
from simlab.llm.vocabulary import characters

BY_TRL = {"engine": "trl"}
ADDITION = ["--task", "addition", "--param", "task.digits=1", "--param", "task.evaluation_size=4"]
SMALL = [
    "--param", "model.hidden_size=16", "--param", "model.intermediate_size=16", "--param", "warm_start.steps=2",
    "--param", "evaluation.samples=4", "--prompts", "2", "--group-size", "2", "--steps", "2",
]  # fmt: skip


def lines(path):
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "checksum"} for line in records]


def arm_folder(out, name="grpo"):
    return out / "arms" / name / "seed-0"


def leaves(out, name="grpo"):
    return jax.tree.leaves(read_checkpoint(arm_folder(out, name) / "model").parameters)


@pytest.fixture
def replay(monkeypatch):
    drawn, collect = [], Trainer.collect

    def recorded(trainer, state, key):
        collected = collect(trainer, state, key)
        drawn.append(collected[0])
        return collected

    def replayed(prompts, trainer):
        groups = drawn.pop(0)
        assert list(prompts[:: trainer.num_generations]) == [problem.prompt for problem in groups.problems]
        pairs = [
            (row, mask)
            for rows, masks in zip(groups.sampled.tokens, groups.sampled.mask, strict=True)
            for row, mask in zip(rows, masks, strict=True)
        ]
        ids = [trainer.processing_class(prompt)["input_ids"] for prompt in prompts]
        return {"prompt_ids": ids, "completion_ids": [row[mask].tolist() for row, mask in pairs], "logprobs": None}

    monkeypatch.setattr(Trainer, "collect", recorded)
    monkeypatch.setattr(trl_engine, "ArmTrainer", functools.partial(trl_engine.ArmTrainer, rollout_func=replayed))


CASES = {
    "f_grpo(gamma=2)+clip_higher@token_mean": {"epochs": 2, "microbatch": 6, "learning_rate": 3e-2},
    "fade": {"temperature": 0.7, "warmup": 3, "decay": "cosine", "weight_decay": 0.5},
    "grpo+casp(quantile=0)": {"max_norm": 1e-2},
    "grpo+kl_penalty(coefficient=0.5)": {"b1": 0.5, "b2": 0.5},
    "grpo": {"optimizer": "sgd", "weight_decay": 0.5, "learning_rate": 0.3},
    "grpo@token_mean": {"minibatches": 4, "epochs": 2, "microbatch": 2, "learning_rate": 3e-2},
}


def test_both_engines_learn_from_the_parts_of_a_reward_and_record_them(replay, tmp_path):
    asked, graded = {"arms": ["gdpo"], "rl": {"steps": 2}}, task(in_parts, weights=PART_WEIGHTS)
    for engine, layers in (("own", [asked]), ("trl", [asked, BY_TRL])):
        train(settings(*layers), tmp_path / engine, own_task=graded)
    for ours, theirs in zip(leaves(tmp_path / "own", "gdpo"), leaves(tmp_path / "trl", "gdpo"), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    ours, theirs = (lines(arm_folder(tmp_path / engine, "gdpo") / "metrics.jsonl")[0] for engine in ("own", "trl"))
    rewards = {name: value for name, value in ours.items() if name.startswith("rewards/")}
    assert len(rewards) == 8
    assert {name: theirs[name] for name in rewards} == pytest.approx(rewards, rel=1e-4)
    assert theirs["solve_rate"] == ours["solve_rate"]


@pytest.mark.parametrize("name", CASES)
def test_on_the_same_rollouts_both_engines_take_the_same_steps(name, replay, tmp_path):
    asked = {"arms": [name], "rl": {"steps": 3, **CASES[name]}, "evaluation": {"every": 1}}
    train(settings(asked), tmp_path / "own", own_task=task())
    train(settings(asked, BY_TRL), tmp_path / "trl", own_task=task())
    start = jax.tree.leaves(read_checkpoint(tmp_path / "trl" / "start" / "seed-0" / "model").parameters)
    pairs = list(zip(leaves(tmp_path / "own", name), leaves(tmp_path / "trl", name), start, strict=True))
    assert max(float(abs(ours - before).max()) for ours, _, before in pairs) > 1e-3
    for ours, theirs, _ in pairs:
        np.testing.assert_allclose(theirs, ours, atol=1e-5)
    metrics = {kind: lines(arm_folder(tmp_path / kind, name) / "metrics.jsonl") for kind in ("own", "trl")}
    for ours, theirs in zip(metrics["own"], metrics["trl"], strict=True):
        shared = ours.keys() & theirs.keys() - {"seconds"}
        if "minibatches" in CASES[name]:  # TRL's is that of the first update alone
            shared -= {"entropy"}
        assert {"step", "reward", "distinct_solutions", "length", "grad_norm"} <= shared
        for key in shared:
            np.testing.assert_allclose(
                np.array(theirs[key], float), np.array(ours[key], float), rtol=1e-4, atol=1e-6, err_msg=key
            )
    evaluated = {kind: lines(arm_folder(tmp_path / kind, name) / "evaluation.jsonl") for kind in ("own", "trl")}
    assert [line["step"] for line in evaluated["trl"]] == [1, 2, 3]
    for ours, theirs in zip(evaluated["own"], evaluated["trl"], strict=True):
        assert theirs["entropy"] == pytest.approx(ours["entropy"], rel=1e-4)


@pytest.fixture
def teacher(tmp_path):
    """The folder of another model of the same tokens."""
    trainer, state = trainer_and_state("grpo", seed=5)
    write_checkpoint(tmp_path / "teacher", Model(trainer.policy.config, state.parameters))
    write_tokenizer(tmp_path / "teacher", trainer.reader.vocabulary)
    return str(tmp_path / "teacher")


def test_both_engines_follow_the_same_teacher(replay, teacher, tmp_path):
    """The second step reads a model that the teacher has moved."""
    arm, rl = "opd(gamma=0.5)+reinforce", {"steps": 2, "teacher": teacher, "learning_rate": 1e-2}
    for engine, layers in (("own", []), ("trl", [BY_TRL])):
        train(settings({"arms": [arm], "rl": rl}, *layers), tmp_path / engine, own_task=task())
    start = jax.tree.leaves(read_checkpoint(tmp_path / "trl" / "start" / "seed-0" / "model").parameters)
    ours, theirs = leaves(tmp_path / "own", arm), leaves(tmp_path / "trl", arm)
    assert max(float(abs(value - before).max()) for value, before in zip(ours, start, strict=True)) > 1e-3
    for value, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(other, value, atol=1e-5)


def test_a_teacher_that_trl_cannot_read_is_refused(teacher, tmp_path):
    asked = settings({"arms": ["opd"], "rl": {"steps": 1, "teacher": "smollm2"}}, BY_TRL)
    with pytest.raises(InputError, match=r"rl.teacher = 'smollm2'; allowed: a folder"):
        train(asked, tmp_path / "named", own_task=task())
    asked, other = (
        settings({"arms": ["opd"], "rl": {"steps": 1, "teacher": teacher}}, BY_TRL),
        characters("0123456789+=x"),
    )
    with pytest.raises(InputError, match="allowed: "):
        train(asked, tmp_path / "other", own_task=task(vocabulary=other))


class Interrupted(Exception):
    pass


def test_a_run_that_was_broken_off_goes_on_from_the_last_whole_checkpoint(tmp_path, monkeypatch):
    asked = settings(
        {"arms": ["ha_dw"], "rl": {"steps": 6}, "record": {"checkpoint_every": 2}, "evaluation": {"every": 3}}, BY_TRL
    )
    train(asked, tmp_path / "whole", own_task=task())
    reward, calls = trl_engine.ArmTrainer.reward, []

    def breaking(trainer, *arguments, **others):
        calls.append(1)
        if len(calls) == 6:
            raise Interrupted
        return reward(trainer, *arguments, **others)

    monkeypatch.setattr(trl_engine.ArmTrainer, "reward", breaking)
    with pytest.raises(Interrupted):
        train(asked, tmp_path / "broken", own_task=task())
    folder = arm_folder(tmp_path / "broken", "ha_dw")
    assert [line["step"] for line in lines(folder / "metrics.jsonl")] == [1, 2, 3, 4, 5]
    (folder / "trl" / "checkpoint-5").mkdir()  # a kill in the midst of writing one leaves it so
    train(asked, tmp_path / "broken", own_task=task())
    for name in ("metrics.jsonl", "evaluation.jsonl"):
        actual, wanted = (
            [{**line, "seconds": 0} for line in lines(arm_folder(out, "ha_dw") / name)]
            for out in (tmp_path / "broken", tmp_path / "whole")
        )
        assert actual == wanted
    for actual, wanted in zip(leaves(tmp_path / "broken", "ha_dw"), leaves(tmp_path / "whole", "ha_dw"), strict=True):
        np.testing.assert_array_equal(actual, wanted)
    before = len(calls)
    train(asked, tmp_path / "broken", own_task=task())
    assert len(calls) == before, "what is finished is not done again"


def test_the_command_ends_with_a_table_and_a_figure(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", *ADDITION, *SMALL, "--arms", "grpo,maxrl", "--engine", "trl", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "maxrl" in printed
    assert (out / "comparison.png").stat().st_size > 10_000
    assert json.loads((out / "run.json").read_text())["settings"]["engine"] == "trl"
    assert main(["train", *ADDITION, *SMALL, "--arms", "grpo,maxrl", "--out", str(out)]) == 2
    assert "engine: trl there, simlab here" in capsys.readouterr().err


@pytest.mark.parametrize(
    "setting",
    [{"rounds": 2}, {"false_positive": 0.1}, {"isolation": 0.5}, {"remedy": "damp"}, {"lag": 1}, {"reward": "placebo"}],
    ids=lambda setting: next(iter(setting)),
)
def test_what_trl_cannot_do_is_refused(setting, tmp_path):
    ((name, value),) = setting.items()
    with pytest.raises(InputError, match=rf"rl\.{name} = {value!r}"):
        train(settings({"rl": {name: value}}, BY_TRL), tmp_path / "run", own_task=task())


def test_a_reward_that_is_none_stops_the_run_in_one_line(tmp_path):
    def reward(prompt, completion):
        return float("nan")

    with pytest.raises(InputError, match="returned 'nan'; allowed: finite numbers"):
        train(settings(BY_TRL), tmp_path / "run", own_task=task(reward))

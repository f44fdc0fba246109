"""``simlab diagnose`` reads the rollouts that verl's own trainers write. Run with ``-m verl``."""

import concurrent.futures
import types

import numpy as np
import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

import torch
from log_files import groups_of, read_groups, solutions_of
from verl import DataProto
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from simlab.cli import main
from simlab.diagnose.reading import read_log

TRAINERS = {"ray": RayPPOTrainer, "v1": PPOTrainer}


def rollouts(steps=(9, 10), prompts=3, size=4):
    source = np.random.default_rng(0)
    return [
        {"step": step, "prompt": f"what is {n}+{n}? ä\u2028", "reward": float(source.integers(2)), "answer": answer}
        for step in steps for n in range(prompts) for answer in source.choice(["7", "1/2"], size)
    ]  # fmt: skip


def dumped(trainer, rows, folder, extras):
    """A step's rows, through the code with which a trainer writes them."""
    for step in {one["step"]: None for one in rows}:
        own = [one for one in rows if one["step"] == step]
        trainer._write_generations(
            [one["prompt"] for one in own],
            [f"so \\boxed{{{one['answer']}}}" for one in own],
            ["7"] * len(own),
            [one["reward"] for one in own],
            {name: function(own) for name, function in extras.items()},
            str(folder),
            step,
        )


@pytest.mark.parametrize("name", TRAINERS)
def test_what_verl_writes_is_read_back_as_the_same_groups(name, tmp_path):
    rows = rollouts()
    dumped(TRAINERS[name], rows, tmp_path, {"acc": lambda own: np.array([one["reward"] == 1 for one in own])})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10.jsonl", "9.jsonl"]
    for named in ({}, {"reward": "acc"}):  # which verl's Ray trainer writes as the text "True"
        reading = read_log([tmp_path], **named)
        assert (reading.log.format, reading.files, reading.log.refused.count) == ("verl", 2, 0)
        assert read_groups(reading.log).keys() == groups_of(rows).keys()
        assert solutions_of(read_groups(reading.log)) == solutions_of(groups_of(rows))
        assert list(reading.log.correct) == [group[1] for group in groups_of(rows).values()]


def test_a_batch_of_the_ray_trainer_is_read_back(tmp_path, capsys):
    """From token ids and token rewards, through the method that a training step calls."""
    texts = {1: "what?", 2: "where?", 3: r"\boxed{5}", 4: r"\boxed{6}"}
    tokenizer = types.SimpleNamespace(
        batch_decode=lambda ids, skip_special_tokens: ["".join(texts[int(one)] for one in row) for row in ids]
    )
    trainer = types.SimpleNamespace(tokenizer=tokenizer, global_steps=7, _dump_futures=[])
    trainer._dump_executor = concurrent.futures.ThreadPoolExecutor(1)
    trainer._write_generations = RayPPOTrainer._write_generations
    trainer._dump_generations = types.MethodType(RayPPOTrainer._dump_generations, trainer)
    batch = DataProto.from_dict(
        tensors={
            "prompts": torch.tensor([[1], [1], [1], [2]]),
            "responses": torch.tensor([[3, 3], [3, 4], [4, 4], [3, 3]]),
            "token_level_scores": torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]),
        },
        non_tensors={"reward_model": np.array([{"ground_truth": "5"}] * 4, dtype=object)},
    )
    RayPPOTrainer._log_rollout_data(trainer, batch, {"score_of": [1.0, 1.0, 0.0, 1.0]}, {}, str(tmp_path / "dump"))
    trainer._dump_executor.shutdown()
    log = read_log([tmp_path / "dump"]).log
    assert (log.prompts, list(log.step)) == (("what?", "where?"), [7, 7])
    assert (list(log.group_size), list(log.correct), list(log.answers.count)) == ([3, 1], [2, 1], [1, 1, 1])
    assert main(["diagnose", str(tmp_path / "dump"), "--contents"]) == 0
    assert "format      verl, 1 file" in capsys.readouterr().out

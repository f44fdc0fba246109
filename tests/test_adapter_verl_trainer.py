"""verl's synchronous trainer with what simlab adds to it: its steps, checkpoints and settings. Run with ``-m verl``."""

import json
import logging
import types

import numpy as np
import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

import torch
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.tensordict_utils import get_tensordict
from verl_cases import LENGTHS, PROMPTS, REWARDS, dispatched, nested, trainer
from verl_runs import prepare, train

from simlab.adapters.verl.functions import memory, supplied
from simlab.diagnose.live import Live
from simlab.errors import InputError

ESTIMATOR, LOSS = "algorithm.adv_estimator", "actor_rollout_ref.actor.policy_loss.loss_mode"
KEYS = [f"{prompt}_{row}_0" for row, prompt in enumerate(PROMPTS)]


@pytest.fixture(autouse=True)
def without_memory():
    memory.clear()


class Batch:
    keys, partition_id = KEYS, "train"

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.fields = {
            "uid": np.array(PROMPTS, dtype=object),
            "response_mask": nested(torch.ones(length, dtype=torch.long) for length in LENGTHS),
            "rm_scores": nested(
                torch.eye(length)[-1] * reward for length, reward in zip(LENGTHS, REWARDS, strict=True)
            ),
            "old_log_probs": nested(-torch.rand(length, generator=generator) for length in LENGTHS),
            "entropy": nested(torch.rand(length, generator=generator) for length in LENGTHS),
        }

    def __len__(self):
        return len(KEYS)

    def kv_batch_get(self, keys, partition_id, select_fields):
        assert (keys, partition_id) == (self.keys, self.partition_id)
        return get_tensordict({name: self.fields[name] for name in select_fields if name in self.fields})

    def kv_batch_put(self, keys, partition_id, fields):
        self.fields |= dict(fields.items())
        return self

    def padded(self, name):
        return self.fields[name].to_padded_tensor(0.0)


@pytest.fixture
def batch(monkeypatch):
    content = Batch()
    for name in ("kv_batch_get", "kv_batch_put"):
        monkeypatch.setattr(f"transfer_queue.{name}", getattr(content, name))
    return content


def test_to_verl_it_is_the_synchronous_trainer():
    run = trainer("algorithm.adv_estimator=simlab_grpo")
    assert run.trainer_mode == "sync"
    assert type(run.replay_buffer).__name__ == "ReplayBuffer"


@pytest.mark.parametrize("name", ["grpo", "a_grae", "cw_grpo", "entropy_advantage", "fade"])
def test_an_estimator_gets_the_rewards_and_tokens_of_the_whole_batch(name, batch):
    metrics = {}
    trainer(f"algorithm.adv_estimator=simlab_{name}")._compute_advantage(batch, metrics)
    assert not any(name.startswith("diagnose/") for name in metrics)
    advantages, longest = batch.padded("advantages"), max(LENGTHS)
    wide = {"old_logp": batch.padded("old_log_probs"), "entropy": batch.padded("entropy")}
    memory.clear()
    with supplied(**{field: torch.nn.functional.pad(values, (0, 1)) for field, values in wide.items()}):
        expected = dispatched(f"simlab_{name}")
    torch.testing.assert_close(advantages, expected[:, :longest])
    torch.testing.assert_close(batch.padded("returns"), advantages)


KEYS_OF_PARTS = ["++algorithm.gdpo_reward_keys=[right,form]", "++algorithm.gdpo_reward_weights=[1.0,0.3]"]


def test_gdpo_reads_the_parts_that_the_reward_function_returned(batch):
    form = [None if row % 5 == 0 else row % 3 for row in range(len(KEYS))]
    infos = [{"right": right, "form": value} for right, value in zip(REWARDS, form, strict=True)]
    batch.fields["extra_fields"] = np.array([{"reward_extra_info": info} for info in infos], dtype=object)
    trainer("algorithm.adv_estimator=simlab_gdpo", *KEYS_OF_PARTS)._compute_advantage(batch, {})
    table = torch.tensor([[right, value or 0] for right, value in zip(REWARDS, form, strict=True)])
    present = torch.tensor([[1.0, 0.3 * (value is not None)] for value in form])
    with supplied(parts=table, part_weights=present):
        expected = dispatched("simlab_gdpo")
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(batch.padded("advantages"), expected[:, : max(LENGTHS)])


def test_a_part_that_no_reward_returns_is_named(batch):
    batch.fields["extra_fields"] = np.array([{"reward_extra_info": {"acc": 1.0}} for _ in KEYS], dtype=object)
    run = trainer("algorithm.adv_estimator=simlab_gdpo", *KEYS_OF_PARTS)
    with pytest.raises(InputError, match=r"gdpo_reward_keys = 'right' is unknown; allowed: acc"):
        run._compute_advantage(batch, {})


# Metrics while training


def with_responses(batch):
    ids = [row % 3 for row in range(len(KEYS))]
    batch.fields["responses"] = nested(torch.full((length,), token) for length, token in zip(LENGTHS, ids, strict=True))
    return [f"it is {token}" for token in ids]


def test_metrics_say_what_a_diagnosis_of_the_batch_would(batch):
    texts, metrics = with_responses(batch), {}
    run = trainer("algorithm.adv_estimator=simlab_grpo", "+algorithm.simlab_diagnose.every=1")
    run.tokenizer = types.SimpleNamespace(decode=lambda ids, skip_special_tokens: f"it is {int(ids[0])}")
    run._compute_advantage(batch, metrics)
    expected = Live(every=1).observe(PROMPTS, REWARDS, texts)
    assert "diagnose/fitted/unseen_share" in expected
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


# Memory of estimators


@pytest.fixture
def saved(monkeypatch):
    def save(self):
        folder = self.config.trainer.default_local_dir
        with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as file:
            file.write(str(self.global_steps))

    def load(self):
        self.global_steps = 0 if self.config.trainer.resume_mode == "disable" else 3

    monkeypatch.setattr(PPOTrainer, "_save_checkpoint", save)
    monkeypatch.setattr(PPOTrainer, "_load_checkpoint", load)


def test_memory_goes_on_from_a_checkpoint(tmp_path, batch, saved):
    settings = ["algorithm.adv_estimator=simlab_ha_dw", f"trainer.default_local_dir={tmp_path}"]
    run = trainer(*settings)
    run._compute_advantage(batch, {})
    run.global_steps = 3
    run._save_checkpoint()
    snapshot = dict(memory)
    assert snapshot == json.loads((tmp_path / "global_step_3" / "simlab_estimator.json").read_text())
    run._compute_advantage(batch, {})
    whole = batch.padded("advantages")

    for where in ([], ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={tmp_path}/global_step_3"]):
        again = trainer(*settings, *where)
        assert not memory
        again._load_checkpoint()
        assert memory == snapshot
        again._compute_advantage(batch, {})
        torch.testing.assert_close(batch.padded("advantages"), whole)


@pytest.mark.parametrize(("name", "complaints"), [("ha_dw", ["ha_dw(), which begins without memory"]), ("grpo", [])])
def test_a_checkpoint_without_the_memory_is_noticed_where_there_is_one(name, complaints, tmp_path, saved, caplog):
    run = trainer(f"algorithm.adv_estimator=simlab_{name}", f"trainer.default_local_dir={tmp_path}")
    with caplog.at_level(logging.WARNING):
        run._load_checkpoint()
    messages = [record.getMessage() for record in caplog.records if "memory" in record.getMessage()]
    assert len(messages) == len(complaints)
    assert all(message.endswith(complaint) for message, complaint in zip(messages, complaints, strict=True))


# Bad input, before any worker starts


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ([f"{ESTIMATOR}=simlab_grop"], "'grop'"),
        ([f"{ESTIMATOR}=simlab_gdpo"], r"gdpo_reward_keys = \[\]"),
        ([f"{ESTIMATOR}=simlab_grpo", "+algorithm.simlab.gamma=1"], "'gamma'"),
        ([f"{ESTIMATOR}=grpo", "+algorithm.simlab.gamma=1"], "no effect"),
        ([f"{ESTIMATOR}=simlab_aem", "algorithm.rollout_correction.bypass_mode=True"], "bypass_mode = True"),
        ([f"{ESTIMATOR}=grpo", "+algorithm.simlab_diagnose.often=2"], "'often'"),
        ([f"{ESTIMATOR}=grpo", "+algorithm.simlab_diagnose.every=0"], "every = 0"),
        ([f"{LOSS}=simlab_casp"], "simlab_casp"),
        ([f"{LOSS}=simlab_ppo"], "'simlab_ppo'"),
        ([f"{LOSS}=simlab_ppo_clip", "actor_rollout_ref.actor.clip_ratio_low=2"], "eps_low = 2"),
    ],
)
def test_settings_are_read_before_any_worker_starts(overrides, complaint):
    with pytest.raises(InputError, match=complaint):
        trainer(*overrides)


# Whole trainings by verl's own command, on a CPU; a run takes minutes

METRICS = ["actor/grad_norm", "actor/entropy", "critic/score/mean", "critic/advantages/min", "critic/advantages/max"]
OURS = {"trainer.v1.trainer_mode": "simlab_sync"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("verl")
    prepare(path)
    return path


def shown(steps):
    return [[step[name] for name in METRICS] for step in steps]


@pytest.mark.slow
def test_grpo_of_ours_trains_as_verls_own(folder):
    theirs = train(folder, "theirs", 2, **{"algorithm.adv_estimator": "grpo"})
    settings = {
        "algorithm.adv_estimator": "simlab_grpo", "+algorithm.simlab.ddof": 1,
        "actor_rollout_ref.actor.policy_loss.loss_mode": "simlab_dual_clip",
    }  # fmt: skip
    ours = train(folder, "ours", 2, **OURS, **settings)
    assert len(theirs) == len(ours) == 2
    for actual, expected in zip(shown(ours), shown(theirs), strict=True):
        assert actual == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert all(step["actor/grad_norm"] > 0.1 for step in theirs)


@pytest.mark.slow
def test_what_an_estimator_remembers_outlives_the_process(folder):
    """FADE reads the log-probabilities of the batch too, which only this trainer hands to it."""
    settings = OURS | {"algorithm.adv_estimator": "simlab_fade", "+algorithm.simlab.beta": 0.5}
    whole = train(folder, "whole", 3, **settings)
    resumed = {"trainer.resume_mode": "resume_path", "trainer.resume_from_path": folder / "whole" / "global_step_1"}
    again = train(folder, "again", 3, **settings, **resumed)
    for actual, expected in zip(shown(again), shown(whole)[1:], strict=True):
        assert actual == pytest.approx(expected, rel=1e-4, abs=1e-6)
    memories = [json.loads((folder / name / "global_step_3" / "simlab_estimator.json").read_text())
                for name in ("whole", "again")]  # fmt: skip
    (text, numbers), (same, restored) = (next(iter(memory.items())) for memory in memories)
    assert text == same == "fade(beta=0.5)"
    assert restored == pytest.approx(numbers, rel=1e-5)
    first = json.loads((folder / "whole" / "global_step_1" / "simlab_estimator.json").read_text())
    assert first[text] != numbers, "the memory has moved since"

"""The probe of verl's workers: its features are the gradient of the last layer. Run with ``-m verl``."""

import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

import types

import numpy as np
import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import FSDPActorConfig
from verl_cases import PROMPTS, REWARDS, dispatched, nested, response_mask, trainer
from verl_runs import prepare, train

from simlab.adapters.grouping import Grouping
from simlab.adapters.verl import probe
from simlab.adapters.verl.probe import AGGREGATIONS, configured_method, measured, row_features, sketch_size
from simlab.cli import main
from simlab.errors import InputError
from simlab.estimators import estimator
from simlab.interference import read_records, rollout_weights
from simlab.rollouts import Rollouts

MEASURING = ["algorithm.adv_estimator=simlab_grpo", "+algorithm.simlab_probe.every=1"]
ROWS = [([5, 1, 4], [2, 3]), ([6], [1, 1, 0, 2]), ([2, 2], [])]  # prompts and responses
WIDTH, VOCABULARY, TEMPERATURE = 5, 7, 0.7


class Toy(torch.nn.Module):
    """A model of an embedding and a head."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, VOCABULARY, False)

    def get_output_embeddings(self):
        return self.head

    def forward(self, ids):
        return self.head(self.embedding(ids).cumsum(dim=-2))


def micro_batch():
    masks = [[1, 1], [1, 0, 1, 1], []]  # a token of a tool is not learned from
    return {
        "input_ids": nested(torch.tensor(prompt + response) for prompt, response in ROWS),
        "response_mask": nested(torch.tensor(mask, dtype=torch.long) for mask in masks),
        "temperature": TEMPERATURE,
    }, masks


def naive_gradient(model, prompt, response, mask):
    """The gradient of a rollout's log-probability by the head, from one pass over its tokens."""
    logits = model(torch.tensor([prompt + response]))[0] / TEMPERATURE
    logp = sum(
        logits[len(prompt) + t - 1].log_softmax(dim=-1)[token] for t, token in enumerate(response) if mask[t]
    )  # fmt: skip
    if not isinstance(logp, torch.Tensor):
        return torch.zeros(WIDTH * VOCABULARY)
    return torch.autograd.grad(logp, model.head.weight)[0].T.flatten()


@pytest.mark.parametrize("packed", [False, True])
def test_the_features_of_a_row_are_the_gradient_of_the_head(packed):
    model, (batch, masks) = Toy(), micro_batch()
    rows = [torch.tensor(prompt + response) for prompt, response in ROWS]
    if packed:  # one row after the other; each state is that of its own row
        states = torch.cat([model.embedding(row).cumsum(dim=-2) for row in rows])[None]
    else:
        states = torch.nn.utils.rnn.pad_sequence([model.embedding(row).cumsum(dim=-2) for row in rows], True)
    with torch.no_grad():
        features = row_features(states, model.head(states), batch)
    expected = torch.stack([naive_gradient(model, *row, mask) for row, mask in zip(ROWS, masks, strict=True)])
    torch.testing.assert_close(features, expected)
    assert features[0].abs().max() > 0.1
    assert not features[2].any()


def test_an_engine_measures_only_when_it_is_asked(monkeypatch):
    model, (batch, _) = Toy(), micro_batch()
    ids = batch["input_ids"].to_padded_tensor(0)
    engine = types.SimpleNamespace(module=model)
    asked = []

    class Engine:
        module = model

        def prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func):
            output.logits.zero_()  # verl may scale them where they are
            asked.append(output)
            return {"log_probs": None}

    monkeypatch.setattr(probe, "get_torch_device", lambda: types.SimpleNamespace(synchronize=lambda: None))
    engine = Engine()

    def outputs():
        with torch.no_grad():
            return engine.prepare_model_outputs(types.SimpleNamespace(logits=model(ids)), {}, batch, None)

    assert set(outputs()) == {"log_probs"}
    with measured(engine):
        measurements = outputs()
    assert set(measurements) == {"log_probs", probe.FEATURES, probe.HOW}
    states = model.embedding(ids).cumsum(dim=-2)
    torch.testing.assert_close(measurements[probe.FEATURES], row_features(states, model.head(states), batch).detach())
    assert measurements[probe.HOW][:, 1].tolist() == [0, 0, 0]
    assert set(outputs()) == {"log_probs"}
    assert len(asked) == 3


@pytest.mark.parametrize("mode", AGGREGATIONS)
@pytest.mark.parametrize(
    ("name", "settings"), [("grpo", {}), ("grpo", {"norm_adv_by_std_in_grpo": False}), ("simlab_maxrl", {})]
)
def test_weights_are_what_verls_loss_gives_each_token(name, settings, mode):
    """The loss is ``vanilla``, and the policy is the one that sampled."""
    every = {"actor_rollout_ref.actor.loss_agg_mode": mode, "actor_rollout_ref.actor.loss_scale_factor": 9}
    every |= {"algorithm.adv_estimator": name, **{f"algorithm.{key}": value for key, value in settings.items()}}
    config = trainer(*(f"{key}={value}" for key, value in every.items())).config
    method = configured_method(config, estimator("maxrl"))
    grouping, mask = Grouping(PROMPTS), response_mask()
    rewards = torch.tensor(REWARDS)
    rollouts = (grouping.groups(rewards), grouping.mask(rewards), grouping.groups(mask > 0))
    rewards, present, tokens = (values.numpy() for values in rollouts)
    weights, _ = rollout_weights(method, Rollouts(rewards, mask=present, token_mask=tokens))
    coefficients = grouping.rows(torch.as_tensor(weights))[:, None] * mask

    logp = torch.full(mask.shape, -1.0, requires_grad=True)
    actor = FSDPActorConfig(ppo_micro_batch_size_per_gpu=1, rollout_n=1)
    actor.global_batch_info.update(loss_scale_factor=9)
    loss, _ = get_policy_loss_fn("vanilla")(
        old_log_prob=logp.detach(), log_prob=logp, advantages=dispatched(name, **settings), response_mask=mask,
        loss_agg_mode=mode, config=actor,
    )  # fmt: skip
    loss.backward()
    torch.testing.assert_close(coefficients.float(), -logp.grad, atol=1e-5, rtol=1e-4)
    assert coefficients.abs().max() > 1e-3


def test_the_error_of_two_projections_is_that_of_one_a_little_smaller():
    assert sketch_size(16, 100) == 0
    assert sketch_size(896, 200) == 16381
    assert sketch_size(896, 150_000) == pytest.approx(1 / (1 / 256 + 1 / 16381), abs=1)


REFUSED = [
    (["algorithm.adv_estimator=rloo"], "adv_estimator = 'rloo'"),
    (["algorithm.adv_estimator=simlab_cw_grpo"], "the method reads .*old_logp"),
    (["actor_rollout_ref.actor.loss_agg_mode=token-sum"], "loss_agg_mode = 'token-sum'"),
    (["actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm"], "loss_scale_factor = None"),
    (["actor_rollout_ref.rollout.n=2"], "rollout.n = 2"),
    (["actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"], "ulysses_sequence_parallel_size = 2 splits rows"),
    (["actor_rollout_ref.model.use_fused_kernels=True"], "use_fused_kernels = True has no logits"),
    (["algorithm.rollout_correction.bypass_mode=True"], "bypass_mode = True leaves out"),
    (["+algorithm.simlab_probe.share=0"], "share = 0"),
    (["+algorithm.simlab_probe.often=0"], "'often'"),
]


@pytest.mark.parametrize(("settings", "line"), REFUSED)
def test_what_cannot_be_measured_is_refused_before_any_worker_starts(settings, line):
    with pytest.raises(InputError, match=line):
        trainer(*MEASURING, "actor_rollout_ref.rollout.n=4", *settings)


@pytest.mark.slow
def test_verls_own_command_writes_records_that_diagnose_reads(tmp_path, capsys):
    prepare(tmp_path)
    settings = {
        "trainer.v1.trainer_mode": "simlab_sync", "algorithm.adv_estimator": "simlab_grpo",
        "+algorithm.simlab_probe.every": 1, "+algorithm.simlab_probe.share": 1.0,
        "trainer.rollout_data_dir": tmp_path / "rollouts",
    }  # fmt: skip
    steps = train(tmp_path, "probed", 3, **settings)
    records = read_records(tmp_path / "rollouts" / "probe", "head")
    assert [record.step for record in records] == [1, 2, 3]
    for record, step in zip(records, steps, strict=True):
        assert 0 < step["probe/share"] < 1
        assert set(record.prompts) <= {f"{n}+{n + 1}=" for n in range(8)}
        assert record.rollouts.tolist() == [4] * 4
        assert record.solve_rate.mean() == pytest.approx(step["critic/score/mean"], abs=1e-6)
        assert record.facts["clip"] == pytest.approx(min(1, 1 / step["actor/grad_norm"]))
        assert record.facts["learning_rate"] == pytest.approx(0.01)
        assert record.facts["method"] == "simlab_grpo"
        assert np.abs(record.interference.kernel).max() > 0
    assert main(["diagnose", str(tmp_path / "rollouts")]) == 0
    assert "harm one another" in capsys.readouterr().out

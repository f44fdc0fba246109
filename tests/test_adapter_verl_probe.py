"""The probe of verl's workers: its features are gradients of the last layer or of adapters. Run with ``-m verl``."""

import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

import types

import numpy as np
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import FSDPActorConfig
from verl_cases import PROMPTS, REWARDS, dispatched, nested, response_mask, trainer
from verl_runs import prepare, train

from simlab.adapters.grouping import Grouping
from simlab.adapters.measuring import SKETCH, sketched
from simlab.adapters.verl import workers
from simlab.adapters.verl.probe import AGGREGATIONS, configured_method
from simlab.adapters.verl.workers import adapter_layers, measure_passes, row_features, sketch_size
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


class Engine:
    """The steps of verl's engine that a measurement goes through, of padded rows."""

    def __init__(self, module, batch, packed=False):
        self.module, self.batch, self.packed = module, batch, packed
        self.optimizer = torch.optim.AdamW([value for value in module.parameters() if value.requires_grad])

    def prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func):
        output.logits.zero_()  # verl may scale them where they are
        assert not output.logits.requires_grad
        return {"log_probs": None}

    def forward_step(self, micro_batch, loss_function, forward_only):
        if self.packed:  # each row is looked at alone, as attention without padding does
            logits = self.module.packed(micro_batch["input_ids"].unbind())
        else:
            logits = self.module(micro_batch["input_ids"].to_padded_tensor(0))
        return self.prepare_model_outputs(types.SimpleNamespace(logits=logits), {}, micro_batch, loss_function)

    @torch.no_grad()
    def infer(self):
        return self.forward_step(self.batch, loss_function=None, forward_only=True)


@pytest.fixture
def no_device(monkeypatch):
    monkeypatch.setattr(workers, "get_torch_device", lambda: types.SimpleNamespace(synchronize=lambda: None))


@pytest.mark.usefixtures("no_device")
def test_an_engine_measures_only_when_it_is_asked():
    model, (batch, _) = Toy(), micro_batch()
    engine = Engine(model, batch)
    assert set(engine.infer()) == {"log_probs"}
    with measure_passes(engine, "head"):
        measurements = engine.infer()
    assert set(measurements) == {"log_probs", workers.FEATURES, workers.COST}
    states = model.embedding(batch["input_ids"].to_padded_tensor(0)).cumsum(dim=-2)
    torch.testing.assert_close(measurements[workers.FEATURES], row_features(states, model.head(states), batch).detach())
    assert measurements[workers.COST][:, 1:].tolist() == [[0, 0]] * 3
    assert set(engine.infer()) == {"log_probs"}


@pytest.mark.usefixtures("no_device")
def test_features_are_not_rounded_to_the_precision_of_the_pass():
    """verl reads outputs inside of autocast, where products of float32 are rounded to bfloat16."""
    model, (batch, _) = Toy(), micro_batch()
    model.head.weight.data *= 8  # sure of its tokens: rounding 1 - p loses most of it
    states = model.embedding(batch["input_ids"].to_padded_tensor(0)).cumsum(dim=-2)
    engine = Engine(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.head(states)
        with measure_passes(engine, "head"):
            measurements = engine.infer()
    torch.testing.assert_close(measurements[workers.FEATURES], row_features(states, logits, batch).detach())


class Adapted(torch.nn.Module):
    """A model with an adapter of rank 2 in the middle, and all else frozen; states mix a row's earlier tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, VOCABULARY, False)
        self.requires_grad_(False)
        self.down, self.up = torch.nn.Linear(WIDTH, 2, False), torch.nn.Linear(2, WIDTH, False)

    def forward(self, ids):
        return self._mixed([self.embedding(ids)])

    def packed(self, rows):
        return self._mixed([self.embedding(row[None]) for row in rows])

    def _mixed(self, parts):
        sums = torch.cat([part.cumsum(dim=-2) for part in parts], dim=-2)
        adapted = self.up(self.down(sums)).tanh().split([part.shape[-2] for part in parts], dim=-2)
        return self.head(sums + torch.cat([part.cumsum(dim=-2) for part in adapted], dim=-2))


def adapter_gradients(model, masks, factors):
    """The gradient of each rollout's log-probability by the adapter, one pass a row, times ``factors``, projected."""
    rows = []
    for (prompt, response), mask in zip(ROWS, masks, strict=True):
        every = (model(torch.tensor([prompt + response]))[0] / TEMPERATURE).log_softmax(dim=-1)
        logp = sum(
            m * every[len(prompt) + t - 1, token] for t, (token, m) in enumerate(zip(response, mask, strict=True))
        )
        weights = (model.down.weight, model.up.weight)
        leaves = torch.autograd.grad(logp, weights) if response else [torch.zeros_like(each) for each in weights]
        scaled = [(leaf * factor).flatten() for leaf, factor in zip(leaves, factors, strict=True)]
        rows.append(sketched(scaled, SKETCH))
    return torch.stack(rows)


def take_a_step(engine):
    """Take a step of Adam by the gradients that are there; return M^(1/2) after it, of both weights.

    Adam divides by sqrt(v) + eps, and v is the squared gradient after one step.
    """
    factors = [(weight.grad.abs() + 1e-8) ** -0.5 for weight in (engine.module.down.weight, engine.module.up.weight)]
    engine.optimizer.step()
    engine.optimizer.zero_grad()
    return factors


@pytest.mark.usefixtures("no_device")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_full_reads_the_gradient_of_each_row_by_the_adapters(packed, scaled):
    model, (batch, masks) = Adapted(), micro_batch()
    engine = Engine(model, batch, packed)
    factors = [1.0, 1.0]
    if scaled:  # with what Adam remembers of one step
        for weight in (model.down.weight, model.up.weight):
            weight.grad = torch.rand_like(weight)
        factors = take_a_step(engine)
    expected = adapter_gradients(model, masks, factors)
    with measure_passes(engine, "full"):
        measurements = engine.infer()
    torch.testing.assert_close(measurements[workers.FEATURES], expected, rtol=1e-4, atol=1e-5)
    assert measurements[workers.FEATURES][0].abs().max() > 0.1
    assert measurements[workers.COST][:, 1:].tolist() == [[SKETCH, scaled]] * 3
    assert model.down.weight.grad is None
    assert set(engine.infer()) == {"log_probs"}


def features_of_a_shard(rank, folder):
    """In one of two processes: shard the model, take a step of Adam, and measure rows of its own twice."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    workers.get_torch_device = lambda: types.SimpleNamespace(synchronize=lambda: None)
    model, mesh = Adapted(), init_device_mesh("cpu", (2,))
    for part in (model.down, model.up, model):
        fully_shard(part, mesh=mesh, reshard_after_forward=False)
    batch, _ = micro_batch()
    if rank:  # the other rows, in another order
        batch = {name: nested(value.unbind()[::-1]) for name, value in batch.items() if name != "temperature"}
        batch["temperature"] = TEMPERATURE
    engine = Engine(model, batch)
    model(torch.tensor([[1, 2, 3]])).square().sum().backward()
    engine.optimizer.step()
    engine.optimizer.zero_grad()
    engine.infer()  # leaves parameters as a pass for a reference model does
    with measure_passes(engine, "full"):
        twice = [engine.infer()[workers.FEATURES] for _ in range(2)]
    model(torch.tensor([[1, 2, 3]])).square().sum().backward()  # training goes on
    torch.save((twice, model.down.weight.grad.full_tensor()), folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_workers_with_shards_measure_as_one_without(tmp_path):
    torch.multiprocessing.spawn(features_of_a_shard, (tmp_path,), nprocs=2)
    (first, gradient), (second, _) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))

    model, (batch, masks) = Adapted(), micro_batch()
    engine = Engine(model, batch)
    model(torch.tensor([[1, 2, 3]])).square().sum().backward()
    expected = adapter_gradients(model, masks, take_a_step(engine))
    for measurement in (*first, *(rows.flip(0) for rows in second)):
        torch.testing.assert_close(measurement, expected, rtol=1e-3, atol=1e-5)
    model(torch.tensor([[1, 2, 3]])).square().sum().backward()
    torch.testing.assert_close(gradient, model.down.weight.grad, rtol=1e-4, atol=1e-5)


def test_full_is_refused_where_more_than_adapters_is_trained():
    model = Adapted()
    assert adapter_layers(model) == {"down": model.down, "up": model.up}
    model.embedding.requires_grad_(True)
    with pytest.raises(InputError, match=r"embedding\.weight is trained; allowed: linear adapters"):
        adapter_layers(model)
    with pytest.raises(InputError, match="no layer is trained"):
        adapter_layers(model.requires_grad_(False))


@pytest.mark.usefixtures("no_device")
def test_full_is_refused_where_a_layer_is_passed_by():
    model, (batch, _) = Adapted(), micro_batch()
    model.idle = torch.nn.Linear(2, 2, False)
    engine = Engine(model, batch)
    with pytest.raises(InputError, match="idle does not see each token once"), measure_passes(engine, "full"):
        engine.infer()
    assert set(engine.infer()) == {"log_probs"}


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


FULL = [
    "+algorithm.simlab_probe.estimator=full", "actor_rollout_ref.actor.strategy=fsdp2",
    "actor_rollout_ref.model.lora_rank=4",
]  # fmt: skip
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
    (["+algorithm.simlab_probe.estimator=both"], "estimator = 'both'"),
    (["+algorithm.simlab_probe.estimator=full", "actor_rollout_ref.actor.strategy=fsdp2"], "lora_rank .*= 0"),
    ([*FULL, "+actor_rollout_ref.model.target_parameters=[mlp.experts]"], "target_parameters have no layer"),
    ([*FULL, "actor_rollout_ref.actor.optim.optimizer_impl=bitsandbytes.optim"], "moments of bitsandbytes.optim.AdamW"),
    (
        ["+algorithm.simlab_probe.estimator=full", "actor_rollout_ref.model.lora_rank=4"],
        "strategy with simlab_probe.estimator = full = 'fsdp'",
    ),
    (["+algorithm.simlab_probe.often=0"], "'often'"),
]


@pytest.mark.parametrize(("settings", "line"), REFUSED)
def test_what_cannot_be_measured_is_refused_before_any_worker_starts(settings, line):
    with pytest.raises(InputError, match=line):
        trainer(*MEASURING, "actor_rollout_ref.rollout.n=4", *settings)


ADAPTERS = {  # merged for the rollouts, which plain transformers make
    "actor_rollout_ref.model.lora_rank": 2, "actor_rollout_ref.model.lora.merge": True,
    "+algorithm.simlab_probe.estimator": "full",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "more"), [("head", {}), ("full", ADAPTERS)])
def test_verls_own_command_writes_records_that_diagnose_reads(tmp_path, capsys, kind, more):
    prepare(tmp_path)
    settings = {
        "trainer.v1.trainer_mode": "simlab_sync", "algorithm.adv_estimator": "simlab_grpo",
        "+algorithm.simlab_probe.every": 1, "+algorithm.simlab_probe.share": 1.0,
        "trainer.rollout_data_dir": tmp_path / "rollouts", **more,
    }  # fmt: skip
    steps = train(tmp_path, "probed", 3, **settings)
    records = read_records(tmp_path / "rollouts" / "probe", kind)
    assert [record.step for record in records] == [1, 2, 3]
    scaled = (
        ["none", "adam", "adam"] if kind == "full" else ["none"] * 3
    )  # Adam remembers nothing before its first step
    assert [record.facts["preconditioner"] for record in records] == scaled
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

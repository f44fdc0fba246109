"""The probe beside TRL's trainer: its features and weights are those of the update. Run with ``-m trl``."""

import pytest

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("default")]  # TRL, transformers and accelerate warn
pytest.importorskip("trl")

import numpy as np
import torch
from trl import GRPOTrainer
from trl_cases import PROMPTS, VOCABULARY, reward, trainer

from simlab.adapters import trl_probe
from simlab.adapters.measuring import sketched
from simlab.adapters.trl import SimlabGRPOTrainer, learned_tokens
from simlab.adapters.trl_probe import ProbeCallback, head_rows, trainer_method
from simlab.cli import main
from simlab.diagnose.pace import Pace
from simlab.errors import InputError
from simlab.interference import read_records
from simlab.interference.weights import rollout_weights
from simlab.rollouts import Rollouts

RATE = 1e-2
KINDS = [
    (GRPOTrainer, {}, {}),
    (GRPOTrainer, {"loss_type": "grpo", "scale_rewards": "none"}, {}),
    (GRPOTrainer, {"loss_type": "dr_grpo", "temperature": 0.7}, {}),
    (SimlabGRPOTrainer, {}, {"method": "f_grpo(gamma=1)+cispo"}),
    (SimlabGRPOTrainer, {"loss_type": "bnpo"}, {"estimator": "maxrl"}),
]


def watched(folder, kind=GRPOTrainer, *, settings=None, method=None, probe=None, rewards=reward):
    run = trainer(folder, kind=kind, settings=settings, rewards=rewards, **(method or {}))
    callback = ProbeCallback(run, **({"every": 1} | (probe or {})))
    if "share" not in (probe or {}):  # no test waits for another's time
        callback._schedule = Pace(callback._schedule.every, None)
    run.add_callback(callback)
    return run, callback


@pytest.mark.parametrize(("kind", "settings", "method"), KINDS)
def test_weights_times_features_are_the_step_of_the_head(kind, settings, method, tmp_path, monkeypatch):
    """By SGD from sampled rollouts the last layer moves by the rate times the sum over all rollouts."""
    run, callback = watched(tmp_path, kind, settings=settings, method=method)
    seen = []

    def remember(trainer_, output, count):
        seen.append((head_rows(trainer_, output, count), learned_tokens(output).numpy() > 0))
        return seen[-1][0]

    monkeypatch.setattr(trl_probe, "head_rows", remember)
    before = run.model.lm_head.weight.detach().numpy().copy()
    run.train()
    moved = (run.model.lm_head.weight.detach().numpy() - before) / RATE
    ((features, tokens),) = seen
    rewards = np.array([list(values) for values in run._logs["rewards"].values()])[0].reshape(-1, 4)
    rollouts = Rollouts(rewards, token_mask=tokens.reshape(*rewards.shape, -1))
    weights, _ = rollout_weights(trainer_method(run), rollouts)
    predicted = (weights.reshape(-1) @ features).reshape(-1, VOCABULARY.size)
    assert np.abs(moved).max() > 1e-2
    np.testing.assert_allclose(predicted.T, moved, atol=2e-4 * np.abs(moved).max())
    assert len(read_records(callback.folder, "head")) == 1


def test_a_record_says_what_was_measured_and_diagnose_reads_it(tmp_path, capsys):
    logging = {"log_completions": True, "logging_steps": 1, "max_steps": 4, "max_grad_norm": 0.1}
    run, callback = watched(tmp_path, settings=logging, probe={"every": 2})
    run.train()
    records = read_records(callback.folder, "head")
    assert [record.step for record in records] == [2, 4]
    norms = [line["grad_norm"] for line in run.state.log_history if "grad_norm" in line]
    for record in records:
        assert set(record.prompts) <= set(PROMPTS)
        assert record.facts["clip"] == pytest.approx(min(1, 0.1 / norms[record.step - 1]))
        assert (record.facts["learning_rate"], record.facts["updates"]) == (RATE, 1)
        assert record.rollouts.tolist() == [4] * len(record.prompts)
    judged = np.array(list(run._logs["rewards"]["reward"])).reshape(-1, 4)
    np.testing.assert_allclose(records[-1].solve_rate, judged.mean(axis=1))
    assert main(["diagnose", str(tmp_path / "out")]) == 0
    assert "harm one another" in capsys.readouterr().out


def test_measuring_waits_until_it_is_below_its_share_of_the_run(tmp_path, monkeypatch):
    """A step takes 10 seconds and measuring 3: a tenth of the run allows one at step 1, and the next at step 6."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    run, callback = watched(tmp_path, settings={"max_steps": 8}, probe={"share": 0.1})
    score, measure = callback._score, callback._measure

    def slow_step(inputs):
        now[0] += 10
        return score(inputs)

    def slow_measure(*arguments):
        now[0] += 3
        return measure(*arguments)

    monkeypatch.setattr(callback, "_score", slow_step)
    monkeypatch.setattr(callback, "_measure", slow_measure)
    run.train()
    steps = [record.step for record in read_records(callback.folder, "head")]
    assert steps == [1, 6]
    assert callback._schedule.spent <= 0.1 * now[0]


def test_micro_batches_and_several_updates_of_a_batch_are_measured_once(tmp_path):
    cut = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "num_iterations": 2, "max_steps": 4}
    run, callback = watched(tmp_path, settings=cut)
    run.train()
    records = read_records(callback.folder, "head")
    assert [(record.step, record.facts["updates"], len(record.prompts)) for record in records] == [(1, 2, 4), (3, 2, 4)]


def adapters():
    peft = pytest.importorskip("peft")
    return {"peft_config": peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"])}


@pytest.mark.parametrize("optim", ["sgd", "adamw_torch"])
def test_weights_times_gradients_are_the_step_of_adapters(optim, tmp_path, monkeypatch):
    """The second step, of which Adam with b1 = 0 makes g / (sqrt(v) + eps), v being that after it."""
    settings = {"max_steps": 2, "optim": optim, "adam_beta1": 0.0, "adam_beta2": 0.9, "weight_decay": 0.0}
    run, callback = watched(tmp_path, settings=settings, method=adapters(), probe={"estimator": "full", "every": 2})
    seen, measured = [], trl_probe.gradient_rows

    def exact(trainer_, output, count, scales, _):
        trained = [value for value in trainer_.model.parameters() if value.requires_grad]
        second = [trainer_.optimizer.state[value]["exp_avg_sq"].clone() for value in trained] if scales else None
        before = [value.detach().clone() for value in trained]
        rows = [measured(trainer_, output, count, each, 0) for each in (None, scales)]
        seen.append((trained, before, second, rows, learned_tokens(output).numpy() > 0))
        return measured(trainer_, output, count, scales, 16381)

    monkeypatch.setattr(trl_probe, "gradient_rows", exact)
    run.train()
    ((trained, before, second, (raw, scaled), tokens),) = seen
    moved = [(value.detach() - was) / RATE for value, was in zip(trained, before, strict=True)]
    if second:
        after = [run.optimizer.state[value]["exp_avg_sq"] / (1 - 0.9**2) for value in trained]
        moved = [value * (v.sqrt() + 1e-8) for value, v in zip(moved, after, strict=True)]
        roots = torch.cat([((v / (1 - 0.9)).sqrt() + 1e-8).flatten() ** -0.5 for v in second]).numpy()
        np.testing.assert_allclose(scaled, raw * roots, rtol=1e-4, atol=1e-6 * np.abs(scaled).max())
    moved = torch.cat([value.flatten() for value in moved]).numpy()
    rewards = np.array([list(values) for values in run._logs["rewards"].values()])[0].reshape(-1, 4)
    weights, _ = rollout_weights(trainer_method(run), Rollouts(rewards, token_mask=tokens.reshape(4, 4, -1)))
    np.testing.assert_allclose(weights.reshape(-1) @ raw, moved, atol=2e-3 * np.abs(moved).max())
    (record,) = read_records(callback.folder)
    assert record.facts["preconditioner"] == ("adam" if second else "none")
    assert (record.step, record.facts["estimator"], record.facts["sketch"]) == (2, "full", 16381)


def test_a_sketch_keeps_inner_products_up_to_what_it_says():
    random = torch.Generator().manual_seed(0)
    misses = []
    for _ in range(200):
        x = [torch.randn(3000, generator=random), torch.randn(70, generator=random)]
        y = [0.3 * first + torch.randn(first.shape, generator=random) for first in x]
        exact = sum(float(first @ second) for first, second in zip(x, y, strict=True))
        spread = sum(float(first @ first) for first in x) * sum(float(second @ second) for second in y)
        misses.append((float(sketched(x, 101) @ sketched(y, 101)) - exact) / np.sqrt((spread + exact**2) / 101))
    assert abs(np.mean(misses)) < 4 / np.sqrt(200)
    assert 0.8 < np.std(misses) < 1.2


def test_a_model_with_adapters_is_measured_by_its_frozen_head(tmp_path):
    run, callback = watched(tmp_path, method=adapters())
    run.train()
    (record,) = read_records(callback.folder, "head")
    assert len(record.prompts) == 4
    assert np.abs(record.interference.kernel).max() > 0


def test_a_rollout_that_nobody_judged_is_left_out(tmp_path):
    def some(completions, **others):
        return [None if at in (0, 4, 5) else value for at, value in enumerate(reward(completions))]

    run, callback = watched(tmp_path, rewards=some)
    run.train()
    (record,) = read_records(callback.folder, "head")
    assert record.rollouts.tolist() == [3, 4, 4], "a prompt of two rollouts is not measured"


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path):
    saving = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    run, callback = watched(tmp_path, settings=saving)
    run.train()
    (callback.folder / "00000002.head.npz").rename(callback.folder / "00000009.head.npz")
    again, _ = watched(tmp_path, settings=saving)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-1"))
    assert [record.step for record in read_records(callback.folder, "head")] == [1, 2]


REFUSED = [
    (GRPOTrainer, {"settings": {"scale_rewards": "batch"}}, "GRPOConfig.scale_rewards = 'batch' is unknown"),
    (GRPOTrainer, {"settings": {"loss_type": "luspo", "importance_sampling_level": "sequence"}}, "loss_type = 'luspo'"),
    (SimlabGRPOTrainer, {"method": {"method": "cw_grpo"}}, "the method reads .*old_logp"),
    (GRPOTrainer, {"settings": {"num_generations": 2}}, "num_generations = 2"),
    (GRPOTrainer, {"probe": {"share": 0.0}}, "share = 0"),
    (GRPOTrainer, {"probe": {"every": 0}}, "every = 0"),
]


@pytest.mark.parametrize(("kind", "options", "line"), REFUSED)
def test_what_cannot_be_measured_is_refused_before_training(kind, options, line, tmp_path):
    with pytest.raises(InputError, match=line):
        watched(tmp_path, kind, **options)


def test_graded_rewards_need_a_threshold(tmp_path):
    def half(completions, **others):
        return [value / 2 for value in reward(completions)]

    with pytest.raises(InputError, match=r"a reward is 0\.5; allowed: 0 and 1, or with threshold"):
        watched(tmp_path / "a", rewards=half)[0].train()
    run, callback = watched(tmp_path / "b", rewards=half, probe={"threshold": 0.5})
    run.train()
    assert 0 < read_records(callback.folder, "head")[0].solve_rate.mean() < 1

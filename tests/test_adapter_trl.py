"""TRL's trainer with our methods: the same advantages and the same gradient, whatever a batch is cut into.

Run with ``-m trl``.
"""

import dataclasses
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.trl,
    pytest.mark.filterwarnings("default"),  # TRL, transformers and accelerate warn
]
pytest.importorskip("trl")

import jax
import torch
from trl import GRPOConfig, GRPOTrainer
from trl_cases import model_and_tokenizer, reward, trainer

import simlab
from simlab.adapters.trl import ADVANTAGES, LOSS, SimlabGRPOMixin, SimlabGRPOTrainer
from simlab.arms import parse
from simlab.errors import InputError
from simlab.llm.checkpoint import Model, _as_tensors, read_checkpoint
from simlab.llm.completions import CompletionBatch, completion_states
from simlab.llm.model import head_of, logits_of
from simlab.llm.training.gradient import DecoderPolicy
from simlab.methods import method as named
from simlab.rollouts import Rollouts
from simlab.surrogates import ppo_clip

RATE = 1e-2


class Seen(SimlabGRPOTrainer):
    batches: list

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.batches = [*getattr(self, "batches", []), output]
        return output


def weights_of(run):
    return {name: value.detach().numpy().copy() for name, value in run.model.named_parameters()}


def trained(*arguments, **options):
    """The weights after training."""
    run = trainer(*arguments, **options)
    run.train()
    return weights_of(run)


def moved(run):
    before = weights_of(run)
    run.train()
    return {name: (before[name] - value) / RATE for name, value in weights_of(run).items()}


def assert_same(actual, wanted, atol, rtol=1e-7):
    for name, value in actual.items():
        np.testing.assert_allclose(value, wanted[name], atol=atol, rtol=rtol, err_msg=name)


def farthest(weights, others):
    return max(np.abs(others[name] - value).max() for name, value in weights.items())


def assert_same_moves(moves, wanted, run, atol):
    """Compare within ``atol``, or the rounding of the two float32 weights that a gradient is read off."""
    for name, value in weights_of(run).items():
        rounding = 2 * np.spacing(np.abs(value).max()) / RATE
        assert_same({name: moves[name]}, wanted, max(atol, rounding))


def by_group(rows):
    return np.asarray(rows).reshape(-1, 4, *np.shape(rows)[1:])


def by_the_laboratory(run, method, folder, teacher=None):
    """Advantages, and the steps down the gradient by which each weight moves."""
    (batch,) = run.batches
    weights, _ = model_and_tokenizer(folder)
    weights.save_pretrained(folder / "model")
    model = read_checkpoint(folder / "model")
    policy = DecoderPolicy(model.config, "float32", 1.0, 16)
    numpy = {name: value.numpy() for name, value in batch.items() if isinstance(value, torch.Tensor)}
    prompts = by_group(numpy["prompt_ids"])[:, 0]  # all of one length, so that nothing is filled up
    completions, mask = (by_group(numpy[name]) for name in ("completion_ids", "completion_mask"))
    lengths = np.full(len(prompts), prompts.shape[1])
    sampled = CompletionBatch(prompts, lengths, completions, mask > 0)
    rewards = by_group(run._rewards[:, 0].numpy()).astype(np.float32)
    states = completion_states(model.parameters, model.config, sampled)
    every = np.asarray(jax.nn.log_softmax(logits_of(head_of(model.parameters), states)))
    likeliest = np.argsort(-every, axis=-1)[..., :3]
    rollouts = Rollouts(
        rewards,
        old_logp=np.take_along_axis(every, completions[..., None], -1)[..., 0],
        entropy=-(np.exp(every) * every).sum(-1),
        collision=(np.exp(every) ** 2).sum(-1),
        teacher_logp=None if teacher is None else policy.logp(read_checkpoint(teacher).parameters, sampled),
        topn_logp=np.take_along_axis(every, likeliest, -1),
        token_mask=mask > 0,
    )
    advantages, _ = method.estimator.update(rollouts, method.estimator.init())
    ratio = np.ones(completions.shape, np.float32)
    coefficients = np.asarray(method.from_advantages(ratio, advantages, rollouts), np.float32)
    gradient, _ = policy.gradient(model.parameters, sampled, coefficients, likeliest.astype(np.int32))
    return advantages, {name: -value for name, value in _as_tensors(Model(model.config, gradient))}


def test_the_baseline_of_tokens_and_a_teacher_are_the_laboratorys(tmp_path):
    """A teacher is the model with every weight a tenth larger."""
    teacher, _ = model_and_tokenizer(tmp_path / "teacher")
    with torch.no_grad():
        for value in teacher.parameters():
            value.mul_(1.1)
    teacher.save_pretrained(tmp_path / "teacher")
    for method, extra in (("optimal_token_baseline+reinforce", {}), ("opd(gamma=0.5)+reinforce", {"teacher": teacher})):
        run = trainer(tmp_path, kind=Seen, method=method, **extra)
        moves = moved(run)
        folder = tmp_path / "teacher" if extra else None
        advantages, wanted = by_the_laboratory(run, parse(method).build(), tmp_path, folder)
        present = by_group(run.batches[0]["completion_mask"]) > 0
        own_advantages = by_group(run.batches[0]["advantages"])
        np.testing.assert_allclose(np.where(present, own_advantages, 0), np.where(present, advantages, 0), atol=1e-4)
        assert max(np.abs(value).max() for value in wanted.values()) > 1e-2
        assert_same(moves, wanted, 1e-4)
    with pytest.raises(InputError, match="teacher is missing, which the method follows"):
        trainer(tmp_path, method="opd")
    with pytest.raises(InputError, match="teacher has no effect on this method"):
        trainer(tmp_path, method="grpo", teacher=teacher)


METHODS = [
    "maxrl+cispo", "fade", "gspo",  # for whole responses
    "cw_grpo", "grpo+forking_tokens@token_mean",  # for tokens
    "grpo+casp(alpha=0.3,quantile=0.3)", "grpo+entropy_bonus(coefficient=0.1)",  # for candidates, and an added term
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_both_engines_give_the_same_advantages_and_first_gradient(method, tmp_path):
    run = trainer(tmp_path, kind=Seen, method=method)
    moves = moved(run)
    advantages, wanted = by_the_laboratory(run, parse(method).build(), tmp_path)
    np.testing.assert_allclose(by_group(run.batches[0]["advantages"]), advantages, atol=1e-4)
    assert max(np.abs(value).max() for value in wanted.values()) > 1e-2
    assert_same(moves, wanted, 1e-4)


@pytest.mark.parametrize("method", ["cw_grpo", "grpo+casp(quantile=0)"])
def test_micro_batches_add_up_to_the_gradient_of_the_batch(method, tmp_path):
    run = trainer(tmp_path, method=method)
    whole = moved(run)
    cut = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    assert_same_moves(moved(trainer(tmp_path, method=method, settings=cut)), whole, run, atol=1e-5)


def test_an_estimator_alone_leaves_the_loss_to_trl(tmp_path):
    """GRPO with the standard deviation of the sample and TRL's eps is TRL's own."""
    run = trainer(tmp_path, kind=GRPOTrainer)
    theirs = moved(run)
    ours = moved(trainer(tmp_path, estimator=simlab.estimator("grpo", ddof=1, eps=1e-4)))
    assert_same_moves(ours, theirs, run, atol=1e-6)
    assert farthest(theirs, moved(trainer(tmp_path, estimator="f_grpo(gamma=2)"))) > 1e-3


def test_gdpo_of_several_rewards_is_trls_own(tmp_path):
    def length(completions, **others):
        return [len(text) if len(text) % 3 else None for text in completions]

    both, weights = [reward, length], {"reward_weights": [1.0, 0.3]}
    aggregated = weights | {"multi_objective_aggregation": "normalize_then_sum"}
    run = trainer(tmp_path, kind=GRPOTrainer, rewards=both, settings=aggregated)
    theirs = moved(run)
    ours = moved(trainer(tmp_path, estimator="gdpo", rewards=both, settings=weights))
    assert_same_moves(ours, theirs, run, atol=1e-5)


def test_advantages_go_into_trls_loss_and_log(tmp_path):
    rows = trainer(tmp_path, kind=Seen, method="f_grpo(gamma=2)")
    rows.train()
    np.testing.assert_allclose(list(rows._logs["advantages"]), rows.batches[0]["advantages"], atol=1e-7)
    tokens = trainer(tmp_path, kind=Seen, estimator="cw_grpo")
    tokens.train()
    batch = tokens.batches[0]
    assert batch["advantages"].shape == batch["completion_ids"].shape
    mean = (batch["advantages"] * batch["completion_mask"]).sum(1) / batch["completion_mask"].sum(1)
    np.testing.assert_allclose(list(tokens._logs["advantages"]), mean, atol=1e-6)


def test_going_through_a_batch_again_follows_the_policy(tmp_path):
    settings = {"num_iterations": 2, "max_steps": 2, "learning_rate": 5.0}
    run = trainer(tmp_path, method="grpo", settings=settings)
    run.train()
    (inputs,) = run._buffered_inputs
    rollouts, advantages = run._batch
    rows = inputs["simlab_row"]
    first = parse("grpo").build().from_advantages(torch.ones(rollouts.token_mask.shape), advantages, rollouts)
    second = inputs["simlab_coefficients"][rows.argsort()]
    first = run._grouping.rows(first)
    clipped = (second == 0) & (first != 0)
    assert clipped.any()
    assert ((second != first) & (second != 0)).any()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"loss_type": "sapo"}, "sapo"),
        (
            {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 2e-3, "epsilon_high": 2.5e-3},
            "luspo",
        ),
    ],
)
def test_the_second_pass_over_a_batch_is_that_of_trls_own_loss(theirs, ours, tmp_path):
    weights = simlab.estimator("grpo", ddof=1, eps=1e-4)
    method = dataclasses.replace(named(ours), estimator=weights)
    settings = {"num_iterations": 2, "max_steps": 2, "learning_rate": 1.0}
    wanted = trained(tmp_path, kind=GRPOTrainer, settings=settings | theirs)
    assert_same(trained(tmp_path, settings=settings, method=method), wanted, 1e-5, rtol=1e-4)
    clip = dataclasses.replace(method, surrogate=ppo_clip())
    assert farthest(wanted, trained(tmp_path, settings=settings, method=clip)) > 1e-3


def test_forking_tokens_are_those_of_trls_top_entropy_quantile(tmp_path):
    weights = simlab.estimator("grpo", ddof=1, eps=1e-4)
    chosen = dataclasses.replace(parse("grpo+forking_tokens(share=0.5)@token_mean").build(), estimator=weights)
    theirs = moved(trainer(tmp_path, kind=GRPOTrainer, settings={"loss_type": "dapo", "top_entropy_quantile": 0.5}))
    assert_same(moved(trainer(tmp_path, method=chosen)), theirs, 1e-5)
    all_tokens = dataclasses.replace(chosen, surrogate=ppo_clip())
    assert farthest(theirs, moved(trainer(tmp_path, method=all_tokens))) > 1e-3


@pytest.mark.parametrize("method", ["grpo+kl_cov(share=0.5)@token_mean", "grpo+clip_cov(share=0.5,low=0)@token_mean"])
def test_what_chooses_among_the_tokens_of_a_batch_sees_all_of_it(method, tmp_path):
    settings = {"num_iterations": 2, "max_steps": 2, "learning_rate": 0.01}
    cut = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
    whole = trained(tmp_path, method=method, settings=settings)
    assert_same(trained(tmp_path, method=method, settings=settings | cut), whole, 1e-5, rtol=1e-5)


def test_a_reference_is_trls_beta(tmp_path):
    plain = moved(trainer(tmp_path, method="grpo"))
    assert_same(moved(trainer(tmp_path, method="grpo", settings={"beta": 0.5})), plain, 1e-5)
    with pytest.raises(InputError, match=r"kl_penalty of its own; allowed: GRPOConfig\.beta"):
        trainer(tmp_path, method="grpo+kl_penalty")


def test_what_no_reward_function_judged_is_no_rollout(tmp_path):
    def partial(completions, **others):
        return [None if index == 1 else float(index % 2 == 0) for index in range(len(completions))]

    run = trainer(tmp_path, kind=Seen, rewards=partial, method="grpo")
    run.train()
    advantages = run.batches[0]["advantages"][:4].numpy()
    np.testing.assert_allclose(advantages, [2**-0.5, 0, 2**-0.5, -(2**0.5)], atol=1e-4)


@pytest.mark.parametrize("method", ["cw_grpo", "grpo+casp(quantile=0)"])
def test_two_processes_take_the_step_that_one_takes(method, tmp_path):
    alone = trained(tmp_path, method=method, settings={"num_generations": 16, "learning_rate": 0.1})
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", free_port()]
    command += [str(Path(__file__).with_name("trl_processes.py")), str(tmp_path), method]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    together = np.load(tmp_path / "moved.npz")
    assert int(together["processes"]) == 2
    assert_same(alone, together, 1e-5)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def test_what_a_method_remembers_goes_on_from_a_checkpoint(tmp_path):
    settings = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    method = "fade(beta=0.5)+entropy_target_clip(target=99)"
    whole = trainer(tmp_path, method=method, settings=settings)
    whole.train()
    again = trainer(tmp_path, method=method, settings=settings)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    assert whole._schedule == again._schedule
    assert whole._memory == again._memory != whole._estimator.init()
    recorded = json.loads((tmp_path / "out" / "checkpoint-4" / "simlab_estimator.json").read_text())
    assert recorded[: len(jax.tree.leaves(whole._memory))] == jax.tree.leaves(whole._memory)
    assert whole._schedule.by == pytest.approx(0.04), "a step of .01 for each batch"


def test_evaluation_leaves_the_memory_alone(tmp_path):
    run = trainer(tmp_path, method="fade", settings={"per_device_eval_batch_size": 8})
    run.train()
    remembered = run._memory
    run.evaluate(run.train_dataset)
    assert run._memory == remembered


def test_lora_trains_its_own_weights_alone(tmp_path):
    peft = pytest.importorskip("peft")
    run = trainer(
        tmp_path, method="grpo+casp(quantile=0)", peft_config=peft.LoraConfig(target_modules=["q_proj", "v_proj"])
    )
    changed = {name for name, value in moved(run).items() if value.any()}
    assert changed
    assert all("lora_B" in name for name in changed), "lora_A moves only when lora_B is no longer 0"


@pytest.mark.parametrize(
    ("options", "settings", "complaint"),
    [
        ({}, {}, "method or estimator"),
        ({"estimator": "remax"}, {}, "greedy answer"),
        ({"method": "grpo"}, {"loss_type": "dr_grpo"}, r"GRPOConfig.loss_type = 'dr_grpo'"),
        ({"method": "grpo"}, {"epsilon": 0.1}, r"GRPOConfig.epsilon = 0.1"),
        ({"estimator": "grpo"}, {"scale_rewards": "batch"}, r"GRPOConfig.scale_rewards = 'batch'"),
        ({"method": "grpo"}, {"steps_per_generation": 2}, r"GRPOConfig.steps_per_generation = 2"),
    ],
)
def test_settings_that_would_have_no_effect_are_refused(options, settings, complaint, tmp_path):
    with pytest.raises(InputError, match=complaint):
        trainer(tmp_path, settings=settings, **options)


def test_settings_that_are_refused_are_trls():
    assert {*LOSS, *ADVANTAGES} <= {field.name for field in dataclasses.fields(GRPOConfig)}


def test_a_subclass_of_ones_own_takes_the_mixin(tmp_path):
    class Mine(SimlabGRPOMixin, GRPOTrainer):
        pass

    trainer(tmp_path, kind=Mine, method="f_grpo").train()
    loss = {"loss_type": "dr_grpo", "epsilon": 0.1, "beta": 0.1}  # settings of TRL's loss stay under an estimator
    trainer(tmp_path, kind=Mine, estimator="grpo", settings=loss).train()

"""Surrogates as verl's policy losses: the gradient of verl's own where it has the same one. Run with ``-m verl``."""

import dataclasses
import inspect

import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

import jax
import numpy as np
import torch
from tensordict import TensorDict
from training_cases import trainer_and_state
from transformers import AutoModelForCausalLM
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.utils.tensordict_utils import make_iterator
from verl.workers.config import FSDPActorConfig
from verl_cases import LENGTHS, LONGEST, response_mask

from simlab.adapters.verl.functions import SETTINGS
from simlab.errors import InputError
from simlab.llm.checkpoint import Model, from_tensors, write_checkpoint
from simlab.llm.training.policy_gradient import minibatches
from simlab.surrogates import SURROGATES

REFUSED = {
    "casp": "moves candidates", "entropy_target_clip": "changes from batch to batch",
    **dict.fromkeys(("clip_cov", "forking_tokens", "kl_cov"), "chooses among the tokens"),
}  # fmt: skip
NEVER = 1e6  # a bound that no ratio reaches


def actor(**settings):
    return FSDPActorConfig(ppo_micro_batch_size_per_gpu=1, rollout_n=1, **settings)


def batch(spread=0.4, rows=slice(None)):
    """Log-probabilities before and now, and advantages of either sign, 0 at some."""
    generator = torch.Generator().manual_seed(1)
    shape = (len(LENGTHS), LONGEST)
    old = -3 * torch.rand(shape, generator=generator)
    now = old + spread * torch.randn(shape, generator=generator)
    advantages = torch.randn(len(LENGTHS), 1, generator=generator).expand(shape).clone()
    advantages[2] = 0
    return {
        "old_log_prob": old[rows], "log_prob": now[rows], "advantages": advantages[rows],
        "response_mask": response_mask()[rows],
    }  # fmt: skip


def gradient(name, config, fields=None, mode="token-mean", weights=None):
    fields = dict(fields or batch())
    fields["log_prob"] = fields["log_prob"].clone().requires_grad_()
    loss, metrics = get_policy_loss_fn(name)(**fields, loss_agg_mode=mode, config=config, rollout_is_weights=weights)
    loss.backward()
    assert all(isinstance(value, float) for value in metrics.values())
    return fields["log_prob"].grad


MODES = ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


SAME = [
    ("vanilla", "ppo_clip", {"clip_ratio_c": NEVER}),
    ("vanilla", "clip_higher", {"clip_ratio_high": 0.5, "clip_ratio_c": NEVER}),
    ("vanilla", "dual_clip", {"clip_ratio_c": 1.3}),
    ("gpg", "reinforce", {}),
    ("cispo", "cispo", {"clip_ratio_low": 0.3, "clip_ratio_high": 0.3}),
    ("gspo", "sequence_clip", {"clip_ratio_low": 0.05, "clip_ratio_high": 0.05}),
    ("dppo_tv", "dppo_tv", {"clip_ratio_low": 0.05, "clip_ratio_high": 0.1, "clip_ratio_c": NEVER}),
    ("dppo_kl", "dppo_kl", {"clip_ratio_low": 0.01, "clip_ratio_high": 0.02, "clip_ratio_c": NEVER}),
]
SAME_OVER_SEQUENCES = [  # verl averages these over each sequence, whatever it is asked for
    ("sapo", "sapo", {"tau_pos": 2.0, "tau_neg": 5.0}),
    ("geo_mean", "gmpo", {"clip_ratio_low": 0.3, "clip_ratio_high": 0.5}),
]
CASES = [(*case, mode) for case in SAME for mode in ("token-sum", "seq-mean-token-sum", *MODES[:2])]
CASES += [(*case, MODES[1]) for case in SAME_OVER_SEQUENCES]


@pytest.mark.parametrize(("theirs", "ours", "settings", "mode"), CASES)
def test_the_gradient_is_that_of_verls_own(theirs, ours, settings, mode):
    actual, expected = (gradient(name, actor(**settings), mode=mode) for name in (f"simlab_{ours}", theirs))
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


def test_losses_and_settings_have_verls_names():
    theirs, ours = (inspect.signature(get_policy_loss_fn(name)).parameters for name in ("vanilla", "simlab_cispo"))
    assert set(theirs) == set(ours)
    assert {"clip_ratio", *SETTINGS.values()} <= {field.name for field in dataclasses.fields(FSDPActorConfig)}


def test_bounds_are_those_of_verls_actor():
    wide, narrow = (gradient("simlab_ppo_clip", actor(clip_ratio_high=bound)) for bound in (NEVER, 0.01))
    assert (wide != 0).sum() > (narrow != 0).sum()
    unset = actor(clip_ratio=0.01, clip_ratio_low=None, clip_ratio_high=None)
    torch.testing.assert_close(
        gradient("simlab_ppo_clip", unset),
        gradient("simlab_ppo_clip", actor(clip_ratio_low=0.01, clip_ratio_high=0.01)),
    )


def test_weights_of_the_rollout_correction_multiply_it():
    generator = torch.Generator().manual_seed(2)
    weights = torch.rand(len(LENGTHS), LONGEST, generator=generator)
    config = actor(clip_ratio_c=NEVER)
    actual, expected = (gradient(name, config, weights=weights) for name in ("simlab_ppo_clip", "vanilla"))
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(set(SURROGATES) - set(REFUSED)))
def test_micro_batches_add_up_to_the_gradient_of_the_batch(name, mode):
    config = actor(clip_ratio_low=0.1, clip_ratio_high=0.1)
    whole = gradient(f"simlab_{name}", config, mode=mode)
    config.global_batch_info.update(
        dp_size=1, batch_num_tokens=int(response_mask().sum()), global_batch_size=len(LENGTHS), loss_scale_factor=None
    )
    cuts = [slice(0, 4), slice(4, 5), slice(5, None)]
    pieces = [gradient(f"simlab_{name}", config, batch(rows=rows), mode=mode) for rows in cuts]
    torch.testing.assert_close(torch.cat(pieces), whole, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(set(SURROGATES) - set(REFUSED)))
def test_a_ratio_that_overflows_leaves_the_gradient_finite(name):
    assert gradient(f"simlab_{name}", actor(), batch(spread=500.0)).isfinite().all()


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_what_a_policy_loss_cannot_do_is_refused_by_name(name, reason):
    with pytest.raises(InputError, match=f"loss_mode = simlab_{name} {reason}"):
        gradient(f"simlab_{name}", actor())


def test_a_bound_outside_its_range_is_refused():
    with pytest.raises(InputError, match=r"eps_low = 2.0 is outside its range \[0, 1\]"):
        gradient("simlab_ppo_clip", actor(clip_ratio_low=2.0))


# A step of several updates by minibatches is verl's: its order of rows, its loss, and AdamW. verl's own parts are put
# together as its worker does: make_iterator over the rows of a batch, the policy loss of a minibatch, one optimiser
# step, the learning rate the same for all updates by one batch.

KEY = jax.random.key(7)
AGGREGATIONS = {"token_mean": "token-mean", "sequence_mean": "seq-mean-token-mean"}


def verl_order(prompts, size, number, epochs):
    rows = TensorDict({"prompt": torch.arange(prompts).repeat_interleave(size)}, batch_size=[prompts * size])
    per_update = prompts // number * size  # ppo_mini_batch_size times rollout.n, as the trainer has it
    settings = {"mini_batch_size": per_update, "epochs": epochs, "seed": 42, "dataloader_kwargs": {"shuffle": False}}
    return [batch["prompt"].tolist() for batch in make_iterator(rows, **settings)]


@pytest.mark.parametrize(("number", "epochs"), [(1, 1), (2, 1), (4, 3)])
def test_minibatches_are_of_the_same_prompts_in_the_same_order(number, epochs):
    prompts, size = 8, 3
    ours = [np.repeat(minibatch, size).tolist() for minibatch in minibatches(prompts, number)] * epochs
    assert ours == verl_order(prompts, size, number, epochs)


def rows_of(groups, advantages):
    prompts, size, length = groups.batch.tokens.shape
    starts = np.asarray(groups.batch.lengths)
    width = int(starts.max()) + length
    ids, positions = np.zeros((prompts, size, width), np.int64), np.zeros((prompts, size, length), np.int64)
    for p in range(prompts):
        first = int(starts[p])
        ids[p, :, :first] = groups.batch.prompts[p, :first]
        ids[p, :, first : first + length] = groups.batch.tokens[p]
        positions[p] = first - 1 + np.arange(length)
    fields = {
        "ids": ids, "places": positions, "responses": groups.batch.tokens.astype(np.int64),
        "old_log_prob": groups.sampled.logp, "response_mask": groups.batch.mask.astype(np.int64),
        "advantages": np.broadcast_to(advantages[..., None], groups.batch.tokens.shape).astype(np.float32),
    }  # fmt: skip
    flat = {name: np.ascontiguousarray(values).reshape(prompts * size, -1) for name, values in fields.items()}
    return TensorDict({name: torch.from_numpy(values) for name, values in flat.items()}, batch_size=[prompts * size])


def log_prob(model, rows):
    every = model(input_ids=rows["ids"]).logits.log_softmax(dim=-1)
    distributions = every.gather(1, rows["places"][..., None].expand(-1, -1, every.shape[-1]))
    return distributions.gather(-1, rows["responses"][..., None]).squeeze(-1)


@pytest.mark.parametrize(("number", "epochs", "aggregation"), [(2, 2, "token_mean"), (4, 1, "sequence_mean")])
def test_a_step_is_the_one_that_verls_loss_takes_over_verls_minibatches(number, epochs, aggregation, tmp_path):
    """Parameters to 1e-5 (float32)."""
    rl = {"minibatches": number, "epochs": epochs, "learning_rate": 0.02, "weight_decay": 0.0}
    trainer, state = trainer_and_state(f"grpo+dual_clip@{aggregation}", rl)
    config, settings = trainer.policy.config, trainer.settings
    write_checkpoint(tmp_path, Model(config, state.parameters))
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    model.get_input_embeddings().padding_idx = None  # a policy may sample the padding token, and learns from that too
    groups, _, _ = trainer.collect(state, KEY)
    mean, std = (getattr(groups.rewards, name)(axis=1, keepdims=True) for name in ("mean", "std"))
    rows = rows_of(groups, (groups.rewards - mean) / (std + 1e-6))
    told, mask = log_prob(model, rows).numpy(force=True), rows["response_mask"].numpy() > 0
    np.testing.assert_allclose(told[mask], rows["old_log_prob"].numpy()[mask], atol=1e-4)

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.rate(1, settings.steps), betas=(settings.b1, settings.b2), eps=settings.eps,
        weight_decay=0.0,
    )  # fmt: skip
    actor = FSDPActorConfig(ppo_micro_batch_size_per_gpu=1, rollout_n=1)
    per_update, clipped = len(rows) // number, []
    for batch in make_iterator(rows, per_update, epochs, seed=42, dataloader_kwargs={"shuffle": False}):
        fields = {name: batch[name] for name in ("old_log_prob", "advantages", "response_mask")}
        loss, seen = get_policy_loss_fn("vanilla")(
            **fields, log_prob=log_prob(model, batch), loss_agg_mode=AGGREGATIONS[aggregation], config=actor
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
        optimizer.step()
        clipped.append(seen["actor/pg_clipfrac"])
    assert clipped[0] == 0
    assert max(clipped) > 0, "the policy has moved away from the one that sampled"

    after, _ = trainer.step(state, KEY, False)
    tensors = {name: value.numpy(force=True) for name, value in model.state_dict().items()}
    theirs = from_tensors(tensors, config)
    for actual, wanted in zip(jax.tree.leaves(after.parameters), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(actual, wanted, atol=1e-5)

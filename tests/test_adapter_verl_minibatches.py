"""A step of several updates by minibatches is verl's: its order of rows, its loss, and AdamW. Run with ``-m verl``.

verl's own parts are put together as its worker does: ``make_iterator`` over the rows of a batch, the policy loss of a
minibatch, one optimiser step, the learning rate the same for all updates by one batch.
"""

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

from simlab.llm.checkpoint import Model, from_tensors, write_checkpoint
from simlab.llm.training.policy_gradient import minibatches

KEY = jax.random.key(7)
MODES = {"token_mean": "token-mean", "sequence_mean": "seq-mean-token-mean"}


def verl_order(prompts, size, parts, epochs):
    """The prompts of each row of each update, of a batch whose rows lie prompt by prompt."""
    rows = TensorDict({"prompt": torch.arange(prompts).repeat_interleave(size)}, batch_size=[prompts * size])
    per_update = prompts // parts * size  # ppo_mini_batch_size times rollout.n, as the trainer has it
    settings = {"mini_batch_size": per_update, "epochs": epochs, "seed": 42, "dataloader_kwargs": {"shuffle": False}}
    return [batch["prompt"].tolist() for batch in make_iterator(rows, **settings)]


@pytest.mark.parametrize(("parts", "epochs"), [(1, 1), (2, 1), (4, 3)])
def test_minibatches_are_of_the_same_prompts_in_the_same_order(parts, epochs):
    prompts, size = 8, 3
    ours = [np.repeat(part, size).tolist() for part in minibatches(prompts, parts)] * epochs
    assert ours == verl_order(prompts, size, parts, epochs)


def rows_of(groups, advantages):
    """The batch as verl has it: rows of whole sequences, log-probabilities, advantages, and the mask of responses."""
    prompts, size, length = groups.batch.tokens.shape
    starts = np.asarray(groups.batch.lengths)
    width = int(starts.max()) + length
    ids, places = np.zeros((prompts, size, width), np.int64), np.zeros((prompts, size, length), np.int64)
    for p in range(prompts):
        first = int(starts[p])
        ids[p, :, :first] = groups.batch.prompts[p, :first]
        ids[p, :, first : first + length] = groups.batch.tokens[p]
        places[p] = first - 1 + np.arange(length)
    fields = {
        "ids": ids, "places": places, "responses": groups.batch.tokens.astype(np.int64),
        "old_log_prob": groups.sampled.logp, "response_mask": groups.batch.mask.astype(np.int64),
        "advantages": np.broadcast_to(advantages[..., None], groups.batch.tokens.shape).astype(np.float32),
    }  # fmt: skip
    flat = {name: np.ascontiguousarray(values).reshape(prompts * size, -1) for name, values in fields.items()}
    return TensorDict({name: torch.from_numpy(values) for name, values in flat.items()}, batch_size=[prompts * size])


def log_prob(model, rows):
    """(rows, T) log pi of the responses."""
    every = model(input_ids=rows["ids"]).logits.log_softmax(dim=-1)
    own = every.gather(1, rows["places"][..., None].expand(-1, -1, every.shape[-1]))
    return own.gather(-1, rows["responses"][..., None]).squeeze(-1)


@pytest.mark.parametrize("aggregation", MODES)
@pytest.mark.parametrize(("parts", "epochs"), [(2, 1), (2, 2), (4, 1)])
def test_a_step_is_the_one_that_verls_loss_takes_over_verls_minibatches(parts, epochs, aggregation, tmp_path):
    """Parameters to 1e-5 (float32)."""
    rl = {"minibatches": parts, "epochs": epochs, "learning_rate": 0.02, "weight_decay": 0.0}
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
    per_update, clipped = len(rows) // parts, []
    for batch in make_iterator(rows, per_update, epochs, seed=42, dataloader_kwargs={"shuffle": False}):
        given = {name: batch[name] for name in ("old_log_prob", "advantages", "response_mask")}
        loss, seen = get_policy_loss_fn("vanilla")(
            **given, log_prob=log_prob(model, batch), loss_agg_mode=MODES[aggregation], config=actor
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
    theirs = from_tensors(tensors, config, "float32")
    for found, wanted in zip(jax.tree.leaves(after.parameters), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)

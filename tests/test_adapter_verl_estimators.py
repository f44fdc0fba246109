"""Estimators behind verl's own dispatcher give the same as outside, whatever the order of the rows.

Run with ``-m verl``, in an environment of verl's.
"""

import logging

import numpy as np
import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

import torch
from verl.utils.torch_functional import masked_whiten
from verl_cases import LENGTHS, LONGEST, PROMPTS, REWARDS, by_prompt, dispatched, response_mask

import simlab
from simlab.adapters.verl.functions import memory, supplied
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.rollouts import Rollouts

NEEDS = {name: entry.build().needs for name, entry in REGISTRY.items()}
FROM_REWARDS = sorted(name for name in REGISTRY if NEEDS[name] == {"rewards"})
OF_TOKENS = sorted(name for name in REGISTRY if {"rewards"} < NEEDS[name] <= {"rewards", "old_logp", "entropy"})
WITH_MEMORY = ["fade", "ha_dw", "running_mean"]
# Estimators whose advantages of a group depend on the other groups of the batch.
OF_BATCHES = {"a_grae", "bnpo", "curve_rl", "gpg", "reinforce_pp", "reinforce_pp_baseline", *WITH_MEMORY}


@pytest.fixture(autouse=True)
def without_memory():
    memory.clear()


def close(actual, expected, tolerance=1e-5):
    torch.testing.assert_close(actual, torch.as_tensor(np.asarray(expected)).float(), atol=tolerance, rtol=tolerance)


def in_groups(rows):
    """Rows of numbers arranged by prompt, 0 where a group is smaller than others."""
    groups = by_prompt()
    filled = np.zeros((len(groups), max(map(len, groups)), *rows.shape[1:]), rows.dtype)
    for group, members in enumerate(groups):
        filled[group, : len(members)] = rows[members]
    return filled


@pytest.mark.parametrize("name", sorted(set(FROM_REWARDS) - OF_BATCHES))
def test_a_response_gets_what_its_group_alone_gives_it(name):
    advantages = dispatched(f"simlab_{name}")
    for rows in by_prompt():
        rewards = np.array([REWARDS[row] for row in rows])
        tokens = response_mask()[rows].numpy() > 0
        expected = simlab.advantages(name, rewards[None], token_mask=tokens[None])[0]
        close(advantages[rows], expected[:, None] * tokens)


def test_settings_under_algorithm_simlab_are_the_estimators_own():
    advantages = dispatched("simlab_f_grpo", {"gamma": 2.0, "base": "dr_grpo"})
    for rows in by_prompt():
        expected = simlab.advantages("f_grpo", [REWARDS[row] for row in rows], gamma=2.0, base="dr_grpo")
        close(advantages[rows][:, 0], expected)


# verl's own estimators, on the same tensors


@pytest.mark.parametrize(
    ("theirs", "others", "ours", "settings"),
    [
        ("grpo", {}, "grpo", {"ddof": 1, "eps": 1e-6}),
        ("grpo", {"norm_adv_by_std_in_grpo": False}, "dr_grpo", {}),
        ("rloo", {}, "rloo", {}),
        ("grpo_passk", {"norm_adv_by_std_in_grpo": False}, "pass_at_k_tang", {}),
    ],
)
def test_verls_own_and_ours_agree(theirs, others, ours, settings):
    rewards = (10 * np.random.default_rng(0).standard_normal(len(PROMPTS))).round(3).tolist()
    for scores in (None, rewards):
        advantages = dispatched(f"simlab_{ours}", settings, rewards=scores)
        close(advantages, dispatched(theirs, rewards=scores, **others), 1e-4 if scores else 1e-5)


def test_reinforce_plus_plus_with_baseline_is_dr_grpo_whitened():
    advantages = masked_whiten(dispatched("simlab_dr_grpo"), response_mask()) * response_mask()
    close(advantages, dispatched("reinforce_plus_plus_baseline"))


# Rows that fill verl's batches up, and rows that it rejects


def test_rows_that_fill_a_batch_up_are_no_rollouts():
    filled = {"prompts": [*PROMPTS, "pad", "pad"], "rewards": [*REWARDS, 0.0, 0.0], "lengths": [*LENGTHS, 0, 0]}
    advantages = dispatched("simlab_a_grae", **filled)
    close(advantages[: len(PROMPTS)], dispatched("simlab_a_grae"))
    assert not advantages[len(PROMPTS) :].any()


def test_a_rejected_response_still_counts_in_its_group_as_in_verls():
    lengths = [0 if row == 3 else length for row, length in enumerate(LENGTHS)]
    advantages = dispatched("simlab_grpo", {"ddof": 1, "eps": 1e-6}, lengths=lengths)
    close(advantages, dispatched("grpo", lengths=lengths))
    assert not advantages[3].any()


# Estimators that read tokens


def sampled():
    generator = torch.Generator().manual_seed(0)
    shape = (len(PROMPTS), LONGEST)
    return {
        "old_logp": -3 * torch.rand(shape, generator=generator),
        "entropy": 2 * torch.rand(shape, generator=generator),
    }


@pytest.mark.parametrize("name", OF_TOKENS[:2])
def test_verls_own_trainer_cannot_run_what_reads_tokens(name):
    needed = ", ".join(sorted(NEEDS[name] - {"rewards"}))
    with supplied(**sampled()):
        dispatched(f"simlab_{name}")
    with pytest.raises(InputError, match=f"simlab_{name} needs {needed} .* trainer.v1.trainer_mode=simlab_sync"):
        dispatched(f"simlab_{name}")


def test_what_reads_greedy_answers_is_refused_in_any_trainer():
    for fields in ({}, sampled()):
        with supplied(**fields), pytest.raises(InputError, match=r"simlab_remax needs .* greedy answer"):
            dispatched("simlab_remax")


@pytest.mark.parametrize("name", [*OF_TOKENS, "a_grae"])
def test_with_all_of_the_batch_it_runs(name):
    fields = sampled()
    with supplied(**fields):
        advantages = dispatched(f"simlab_{name}")
    chosen = simlab.estimator(name)
    numbers = {field: in_groups(values.numpy()) for field, values in fields.items()}
    mask, tokens = in_groups(np.ones(len(REWARDS), bool)), in_groups(response_mask().numpy() > 0)
    rewards = in_groups(np.array(REWARDS, np.float32))
    expected, _ = chosen.update(Rollouts(rewards, mask=mask, token_mask=tokens, **numbers), chosen.init())
    expected = expected if expected.ndim == 3 else expected[..., None]
    for group, rows in enumerate(by_prompt()):
        close(advantages[rows], expected[group, : len(rows)] * tokens[group, : len(rows)])


# Memory of estimators


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_memory_goes_on_from_batch_to_batch(name):
    chosen = simlab.estimator(name)
    state, tokens = chosen.init(), response_mask(LENGTHS[:4]).numpy() > 0
    fields = {field: values[:4] for field, values in sampled().items()}
    for rewards in ([1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0]):
        with supplied(**fields):
            advantages = dispatched(f"simlab_{name}", prompts=list("aaaa"), rewards=rewards, lengths=LENGTHS[:4])
        numbers = {field: values.numpy()[None] for field, values in fields.items()}
        rollouts = Rollouts(np.array([rewards], np.float32), token_mask=tokens[None], **numbers)
        expected, state = chosen.update(rollouts, state)
        close(advantages[:, 0], expected[0])


def test_memory_that_no_checkpoint_keeps_is_pointed_out_once(caplog):
    with caplog.at_level(logging.WARNING):
        dispatched("simlab_ha_dw")
        dispatched("simlab_ha_dw")
    complaints = [record.getMessage() for record in caplog.records if "simlab_ha_dw remembers" in record.getMessage()]
    assert len(complaints) == 1
    assert "trainer.v1.trainer_mode=simlab_sync" in complaints[0]


# Bad input


@pytest.mark.parametrize(
    ("name", "settings", "rewards", "complaint"),
    [
        ("f_grpo", {"gama": 1.0}, None, "'gama'"),
        ("f_grpo", {"gamma": -1.0}, None, "gamma = -1.0"),
        ("maxrl", None, [2.0] * 13, r"rewards in \[0, 1\]"),
        ("grpo", None, [float("nan"), *REWARDS[1:]], "NaN"),
    ],
)
def test_bad_input_is_one_clear_line(name, settings, rewards, complaint):
    with pytest.raises(InputError, match=complaint):
        dispatched(f"simlab_{name}", settings, rewards=rewards)

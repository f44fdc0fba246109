"""Surrogates as verl's policy losses: the gradient of verl's own where it has the same one. Run with ``-m verl``."""

import pytest

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default")]  # verl and what it imports warn
pytest.importorskip("verl")

import torch
from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY, get_policy_loss_fn
from verl.workers.config import FSDPActorConfig
from verl_cases import LENGTHS, LONGEST, response_mask

from simlab.errors import InputError
from simlab.surrogates import SURROGATES

REFUSED = ["casp", "clip_cov", "forking_tokens", "kl_cov"]
NEVER = 1e6  # a bound that no ratio reaches


def actor(**settings) -> FSDPActorConfig:
    return FSDPActorConfig(ppo_micro_batch_size_per_gpu=1, rollout_n=1, **settings)


def batch(spread: float = 0.4, rows=slice(None)) -> dict[str, torch.Tensor]:
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


def gradient(name, config, given=None, mode="token-mean", weights=None):
    """(rows, T) of the loss by log pi."""
    given = dict(given or batch())
    given["log_prob"] = given["log_prob"].clone().requires_grad_()
    loss, metrics = get_policy_loss_fn(name)(**given, loss_agg_mode=mode, config=config, rollout_is_weights=weights)
    loss.backward()
    assert all(isinstance(value, float) for value in metrics.values())
    return given["log_prob"].grad


MODES = ["token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]


def test_every_surrogate_is_registered():
    assert {f"simlab_{name}" for name in SURROGATES} <= set(POLICY_LOSS_REGISTRY)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("theirs", "ours", "settings"),
    [
        ("vanilla", "ppo_clip", {"clip_ratio_c": NEVER}),
        ("vanilla", "clip_higher", {"clip_ratio_high": 0.5, "clip_ratio_c": NEVER}),
        ("vanilla", "dual_clip", {"clip_ratio_c": 1.3}),
        ("gpg", "reinforce", {}),
        ("cispo", "cispo", {"clip_ratio_low": 0.3, "clip_ratio_high": 0.3}),
        ("gspo", "sequence_clip", {"clip_ratio_low": 0.05, "clip_ratio_high": 0.05}),
    ],
)
def test_the_gradient_is_that_of_verls_own(theirs, ours, settings, mode):
    config = actor(**settings)
    found, expected = gradient(f"simlab_{ours}", config, mode=mode), gradient(theirs, config, mode=mode)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("theirs", "ours", "settings"),
    [
        ("sapo", "sapo", {"tau_pos": 2.0, "tau_neg": 5.0}),
        ("geo_mean", "gmpo", {"clip_ratio_low": 0.3, "clip_ratio_high": 0.5}),
    ],
)
def test_what_verl_averages_over_each_sequence_has_its_gradient_there(theirs, ours, settings):
    """Whatever ``loss_agg_mode`` says: verl's own read none."""
    found, expected = (gradient(name, actor(**settings), mode=MODES[2]) for name in (f"simlab_{ours}", theirs))
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_unclipped_is_the_plain_ratio():
    given = batch()
    count = given["response_mask"].sum()
    ratio = (given["log_prob"] - given["old_log_prob"]).exp()
    expected = -ratio * given["advantages"] * given["response_mask"] / count
    torch.testing.assert_close(gradient("simlab_unclipped", actor()), expected)


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
    found, expected = (gradient(name, config, weights=weights) for name in ("simlab_ppo_clip", "vanilla"))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(set(SURROGATES) - set(REFUSED)))
def test_micro_batches_add_up_to_the_gradient_of_the_batch(name, mode):
    """As verl's workers call it: with the numbers of tokens and responses of the whole mini-batch."""
    config = actor(clip_ratio_low=0.1, clip_ratio_high=0.1)
    whole = gradient(f"simlab_{name}", config, mode=mode)
    config.global_batch_info.update(
        dp_size=1, batch_num_tokens=int(response_mask().sum()), global_batch_size=len(LENGTHS), loss_scale_factor=None
    )
    cuts = [slice(0, 4), slice(4, 5), slice(5, None)]
    parts = [gradient(f"simlab_{name}", config, batch(rows=rows), mode=mode) for rows in cuts]
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(set(SURROGATES) - set(REFUSED)))
def test_a_ratio_that_overflows_leaves_the_gradient_finite(name):
    assert gradient(f"simlab_{name}", actor(), batch(spread=500.0)).isfinite().all()


def test_tokens_that_are_not_there_get_nothing():
    given = batch()
    absent = given["response_mask"] == 0
    given["log_prob"][absent], given["old_log_prob"][absent] = float("nan"), float("nan")
    found = gradient("simlab_ppo_clip", actor(), given)
    assert not found[~absent].isnan().any()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("casp", "moves candidates beside the sampled token, and verl hands policy losses no logits"),
        ("clip_cov", "chooses among the tokens of the whole batch, and verl's policy losses see micro-batches"),
        ("forking_tokens", "chooses among the tokens of the whole batch, and verl's policy losses see micro-batches"),
        ("kl_cov", "chooses among the tokens of the whole batch, and verl's policy losses see micro-batches"),
    ],
)
def test_what_a_policy_loss_cannot_do_is_refused_by_name(name, reason):
    with pytest.raises(InputError, match=f"loss_mode = simlab_{name} {reason}"):
        gradient(f"simlab_{name}", actor())


def test_a_bound_outside_its_range_is_refused():
    with pytest.raises(InputError, match=r"eps_low = 2.0 is outside its range \[0, 1\]"):
        gradient("simlab_ppo_clip", actor(clip_ratio_low=2.0))

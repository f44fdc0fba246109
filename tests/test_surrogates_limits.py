"""Where surrogates must agree: at a ratio of 1, at the ends of their parameters, and on sequences of one token."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from token_batches import PRESENT, TOKEN_MASK, Batch, at_tokens, on_policy, ragged

from simlab import Rollouts
from simlab.simulator.mismatch import importance_weights
from simlab.surrogates import SURROGATES, cispo, reinforce, surrogate, unclipped
from simlab.surrogates.clip import is_forking

# What a surrogate takes to move sampled tokens alone, and all of them: the others do with their defaults.
TO_ALL_TOKENS: dict[str, dict[str, float]] = {
    "casp": {"alpha": 0.0, "top_penalty": 1.0},
    "clip_cov": {"low": 1e3, "high": 2e3},
    "forking_tokens": {"share": 1.0},
    "kl_cov": {"share": 1.0},
}


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def of(name: str, batch: Batch, **parameters: float) -> np.ndarray:
    """The coefficients at the tokens that exist; of a surrogate of candidates those of the sampled ones."""
    found = np.asarray(surrogate(name, **parameters).coefficient(*batch))
    return at_tokens(found[..., 0] if found.ndim == 4 else found)


def of_single_tokens(seed: int = 3) -> Batch:
    """Rollouts of one token: the first of each response of the ragged batch, and a token for the one that has none."""
    batch = ragged(1.0, seed)
    first = jax.tree.map(lambda field: field[:, :, :1] if field.ndim > 2 else field, batch)
    return first._replace(rollouts=first.rollouts._replace(token_mask=np.ones_like(TOKEN_MASK[:, :, :1]), mask=None))


# A ratio of 1


@pytest.mark.parametrize("name", SURROGATES)
def test_on_policy_every_surrogate_is_the_plain_ratio(name: str) -> None:
    """With one gradient step a batch the clips, gates and sequence weights are one method."""
    batch = on_policy(ragged())
    expected = at_tokens(unclipped().coefficient(*batch))
    np.testing.assert_allclose(of(name, batch, **TO_ALL_TOKENS.get(name, {})), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", SURROGATES)
def test_off_policy_no_two_surrogates_are_the_same(name: str) -> None:
    """Each gives some token another coefficient than any other does, but for ``ALIKE``."""
    mine = of(name, ragged(), **TO_ALL_TOKENS.get(name, {}))
    for other in set(SURROGATES) - {name}:
        same = np.array_equal(mine, of(other, ragged(), **TO_ALL_TOKENS.get(other, {})))
        assert same == ({name, other} in ALIKE), other


# At the parameters of ``TO_ALL_TOKENS``, CaSP and Clip-Cov are the clip that they stand on, as the mask is.
# The bound that follows the entropy begins as clip-higher's.
ALIKE = (
    {"ppo_clip", "casp"}, {"ppo_clip", "clip_cov"}, {"casp", "clip_cov"}, {"clip_higher", "forking_tokens"},
    {"clip_higher", "entropy_target_clip"}, {"forking_tokens", "entropy_target_clip"},
)  # fmt: skip


# The ends of parameters


@pytest.mark.parametrize(
    ("name", "parameters", "other", "tolerance"),
    [
        ("ce_gppo", {"beta_low": 0.0, "beta_high": 0.0}, "ppo_clip", 0),
        ("sapo", {"tau_pos": 1e-5, "tau_neg": 1e-5}, "unclipped", 1e-8),
        ("mirror_descent", {"tau": 0.0}, "reinforce", 0),
        ("forking_tokens", {"share": 1.0}, "clip_higher", 0),
    ],
)
def test_the_end_of_a_parameter_is_another_surrogate(
    name: str, parameters: dict[str, float], other: str, tolerance: float
) -> None:
    np.testing.assert_allclose(of(name, ragged(), **parameters), of(other, ragged()), rtol=tolerance, atol=0)


@pytest.mark.parametrize("bound", [1.5, 8.0])
def test_truncated_importance_sampling_is_a_cispo(bound: float) -> None:
    """TIS, sg(min(ratio, bound)) A log pi, is no surrogate of its own: it is CISPO with these bounds.

    For a sampler that is not the policy at the start of the step it is the simulator's ``correction = truncated``.
    """
    batch = on_policy(ragged())
    weight = importance_weights(jnp.log(jnp.where(PRESENT, ragged().ratio, 1.0)), "truncated", "token", bound)
    expected = at_tokens(weight * np.where(PRESENT, reinforce().coefficient(*batch), 0.0))
    actual = at_tokens(cispo(eps_low=1.0, eps_high=bound - 1).coefficient(*ragged()))
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=0)


# Sequences of one token


@pytest.mark.parametrize(
    ("name", "parameters", "other", "others"),
    [
        ("sequence_clip", {"eps_low": 0.2, "eps_high": 0.2}, "ppo_clip", {}),
        (
            "gmpo",
            {"eps_low": 0.4, "eps_high": 0.3},
            "ppo_clip",
            {"eps_low": -math.expm1(-0.4), "eps_high": math.expm1(0.3)},
        ),
    ],
)
def test_a_sequence_of_one_token_has_the_clip_of_tokens(
    name: str, parameters: dict[str, float], other: str, others: dict[str, float]
) -> None:
    batch = of_single_tokens()
    actual, expected = (surrogate(n, **p).coefficient(*batch) for n, p in ((name, parameters), (other, others)))
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=0)
    assert 0 < np.sum(expected == 0) < expected.size


# What holds of any ratio and advantage


def one_token(ratio: float, advantage: float) -> Batch:
    """A batch of one rollout of one token."""
    return Batch(np.full((1, 1, 1), ratio), np.full((1, 1, 1), advantage), Rollouts(np.zeros((1, 1))))


RATIOS = some.floats(1e-6, 1e6)
ADVANTAGES = some.floats(-10, 10)


@pytest.mark.parametrize("name", ["sapo", "ce_gppo", "aspo", "gmpo", "vespo", "topr"])
@given(ratio=RATIOS, advantage=ADVANTAGES)
def test_a_weight_is_finite_and_never_turns_an_advantage_round(name: str, ratio: float, advantage: float) -> None:
    weight = surrogate(name).coefficient(*one_token(ratio, advantage)).item()
    assert math.isfinite(weight)
    assert weight * advantage >= 0


# The forking tokens


@pytest.mark.parametrize("share", [0.0, 0.2, 0.99])
def test_forking_tokens_are_that_share_of_all_and_those_that_tie_with_the_last(share: float) -> None:
    rollouts = ragged().rollouts
    entropy, kept = at_tokens(rollouts.entropy), at_tokens(is_forking(rollouts, share))
    wanted = math.ceil(share * len(entropy) - 1e-9)
    last = np.sort(entropy)[::-1][wanted - 1] if wanted else math.inf
    np.testing.assert_array_equal(kept, entropy >= last)
    assert kept.sum() >= wanted

"""The gradient of a batch: against single sequences, under every cut, and the tokens that it ignores."""

import jax
import numpy as np
import pytest
from naive_training import assert_trees_agree, naive_gradient, naive_logp
from training_cases import parameters_of, trainer_and_state

from simlab.llm.completions import CompletionBatch
from simlab.llm.training.gradient import DecoderPolicy, microbatches, turns

TEMPERATURE = 0.7
LENGTHS = [[3, 2, 3, 1], [1, 3, 2, 2], [3, 3, 3, 3], [2, 1, 0, 3]]  # one rollout has no token


pytestmark = pytest.mark.usefixtures("quickly")


@pytest.fixture(scope="module")
def case():
    trainer, _ = trainer_and_state("grpo")
    random, config = np.random.default_rng(5), trainer.policy.config
    mask = np.arange(3) < np.array(LENGTHS)[..., None]
    tokens = random.integers(3, config.vocab_size, size=mask.shape).astype(np.int32)
    prompts = random.integers(3, config.vocab_size, size=(4, 4)).astype(np.int32)
    batch = CompletionBatch(prompts, np.array([4, 3, 4, 4], np.int32), tokens, mask)
    coefficients = np.where(mask, random.normal(size=mask.shape), 0).astype(np.float32)
    return config, parameters_of(config), batch, coefficients


@pytest.fixture(scope="module")
def naive(case):
    config, parameters, batch, coefficients = case
    return naive_gradient(parameters, config, batch, coefficients, temperature=TEMPERATURE)


def gradient_at(microbatch, case, compute="float32"):
    config, parameters, batch, coefficients = case
    return DecoderPolicy(config, compute, TEMPERATURE, microbatch).gradient(parameters, batch, coefficients)


def assert_same(computed, expected):
    """Gradients to 1e-5 of the largest number (float32), and J."""
    assert_trees_agree(computed[0], expected[0], rtol=1e-5)
    assert computed[1] == pytest.approx(expected[1], rel=1e-5)


@pytest.mark.parametrize("microbatch", [8, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 3, 5, 1000))])
def test_the_gradient_is_the_sum_over_sequences_however_the_batch_is_cut(microbatch, case, naive):
    """Sum coefficient log pi(token | prompt, tokens before) at the temperature.

    A group of four is cut by 1 and 3, and two groups do not fit into 5.
    """
    assert_same(gradient_at(microbatch, case), naive)


# In turns


@pytest.mark.parametrize(
    ("shape", "tokens", "count"),
    [
        ((8, 16, 180), None, 1),  # never
        ((8, 16, 180), 8 * 16 * 180, 1),  # all fit
        ((8, 16, 180), 8192, 4),  # two prompts of 2,880 tokens do
        ((8, 16, 180, 5), 8192, 4),  # candidates of a token do not count
        ((6, 1, 10), 40, 2),  # four of six would: turns are of equally many
        ((3, 1, 10), 20, 3),
        ((4, 64, 1000), 8192, 4),  # one prompt alone is too much
    ],
)
def test_a_program_takes_as_few_turns_as_may_be(shape, tokens, count):
    assert turns(shape, tokens) == count


@pytest.mark.parametrize(("tokens", "checkpointing"), [(12, False), (24, True)])
def test_the_gradient_is_the_same_in_turns_of_one_and_two_prompts(tokens, checkpointing, case, naive, monkeypatch):
    monkeypatch.setattr("simlab.llm.training.gradient.CPU_TOKENS", tokens)
    config, parameters, batch, coefficients = case
    policy = DecoderPolicy(config, "float32", TEMPERATURE, 16, checkpointing=checkpointing)
    assert_same(policy.gradient(parameters, batch, coefficients), naive)


@pytest.mark.parametrize("microbatch", [1, 2, 3, 4, 5, 8, 11, 16, 1000])
def test_microbatches_hold_every_token_once_and_no_more_rollouts_than_allowed(microbatch, case):
    _, _, batch, coefficients = case
    seen, values = np.zeros(batch.mask.shape, int), np.zeros(batch.mask.shape, np.float32)
    for piece in microbatches(batch, microbatch):
        rows, members = len(piece.prompts), piece.rollouts.shape[1]
        assert rows * members <= microbatch
        seen[piece.prompts, piece.rollouts, : piece.tokens] += piece.batch.mask[:rows, :members, : piece.tokens]
        assert piece.batch.mask.sum() == piece.batch.mask[:rows, :members, : piece.tokens].sum()
        assert (piece.batch.lengths >= 1).all()
        piece.scatter(piece.gather(coefficients), values)
    np.testing.assert_array_equal(seen, batch.mask)
    np.testing.assert_array_equal(values, coefficients)


def test_what_has_coefficient_0_contributes_exactly_0(case):
    """Any tokens may stand there, of probability 0 in float32 too; coefficients of 0 alone give 0."""
    config, parameters, batch, coefficients = case
    policy = DecoderPolicy(config, "float32", TEMPERATURE, 8)
    silent = coefficients.copy()
    silent[:, 2:] = 0
    other = batch._replace(tokens=batch.tokens.copy())
    other.tokens[:, 2:] = 7
    huge = parameters | {"norm": parameters["norm"] * 1e30}
    for weights in (parameters, huge):
        first, second = (policy.gradient(weights, each, silent)[0] for each in (batch, other))
        jax.tree.map(np.testing.assert_array_equal, first, second)
    nothing, objective = policy.gradient(huge, batch, np.zeros_like(coefficients))
    assert objective == 0
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(nothing))


@pytest.mark.slow
@pytest.mark.parametrize("microbatch", [2, 8])
def test_groups_whose_coefficients_are_all_0_are_not_computed(microbatch, case, monkeypatch):
    config, parameters, batch, coefficients = case
    silent = coefficients.copy()
    silent[[0, 2]] = 0
    silent[1, :2] = 0
    computed = []

    def cut(batch, rollouts):
        for piece in microbatches(batch, rollouts):
            computed.append({(int(p), int(g)) for p in piece.prompts.ravel() for g in piece.rollouts.ravel()})
            yield piece

    monkeypatch.setattr("simlab.llm.training.gradient.microbatches", cut)
    computed_gradient = gradient_at(microbatch, (config, parameters, batch, silent))
    wanted = {(p, g) for p in (1, 3) for g in range(4)}
    assert set().union(*computed) == (wanted - {(1, 0), (1, 1)} if microbatch == 2 else wanted)
    assert_same(computed_gradient, naive_gradient(parameters, config, batch, silent, temperature=TEMPERATURE))


@pytest.mark.slow
def test_coefficients_of_candidates_weigh_their_log_probabilities(case):
    """Coefficients (P, G, T, 1 + C) begin with the sampled token's; they may leave out candidates."""
    config, parameters, batch, coefficients = case
    random = np.random.default_rng(6)
    candidates = random.integers(0, config.vocab_size, size=(*batch.mask.shape, 5)).astype(np.int32)
    spread = (coefficients[..., None] * random.random(size=(*batch.mask.shape, 4))).astype(np.float32)
    policy = DecoderPolicy(config, "float32", TEMPERATURE, 8)
    wanted = naive_gradient(parameters, config, batch, spread, candidates=candidates[..., :3], temperature=TEMPERATURE)
    assert_same(policy.gradient(parameters, batch, spread, candidates), wanted)


@pytest.mark.slow
def test_bfloat16_computes_roughly_the_same_and_its_gradients_are_float32(case, naive):
    """Its numbers have 8 bits, so that 16 roundings in a row make some per cent of the largest."""
    gradient, _ = gradient_at(8, case, "bfloat16")
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(gradient)} == {"float32"}
    assert_trees_agree(gradient, naive[0], rtol=0.1)


def test_log_probabilities_of_a_batch_are_those_of_whole_sequences_and_0_where_no_token_is(case):
    config, parameters, batch, _ = case
    logp = DecoderPolicy(config, "float32", TEMPERATURE, 8).logp(parameters, batch)
    np.testing.assert_allclose(logp, naive_logp(parameters, config, batch, TEMPERATURE), atol=1e-5)
    assert not logp[~batch.mask].any()

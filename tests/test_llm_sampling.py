"""Sampling of groups: against full forward passes, exact enumeration, and itself beside others."""

import math
import threading
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_cases import refusal

from simlab.llm import batch, batch_layout, model, sampling
from simlab.llm.batch_layout import (
    BatchLayout,
    BatchSize,
    batch_size,
    part_count,
    regrouped,
    rounded_length,
    rounded_up,
    row_width,
    rows_needed,
    smaller_shape,
)
from simlab.llm.config import ModelConfig
from simlab.llm.distribution import Truncation, draw_token, entropy, log_distribution, most_likely, nucleus
from simlab.llm.model import forward, shapes
from simlab.llm.sampling import compiled_once, sample, side_by_side

KEY = jax.random.key(3)
CONFIG = ModelConfig(
    vocab_size=7,
    hidden_size=8,
    intermediate_size=12,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    max_positions=64,
    architecture="qwen3",
    eos_ids=(2, 5),
)
PROMPTS = [[1, 3, 4], [6], [1, 1, 2, 3, 4, 5, 0]]


def random_parameters(config, scale=0.6):
    random = np.random.default_rng(1)
    return jax.tree.map(
        lambda shape: scale * random.normal(size=shape).astype("float32"),
        shapes(config),
        is_leaf=lambda shape: isinstance(shape, tuple),
    )


PARAMETERS = random_parameters(CONFIG)
run = jax.jit(forward, static_argnums=1)


def naive_log_distribution(logits, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0):
    """The log-probabilities of a token in float64, after ``top_k``, then ``top_p``, then ``min_p``."""
    logits = np.asarray(logits, float) / temperature
    p = np.exp(logits - logits.max())
    p /= p.sum()
    if top_k:
        p = np.where(p >= np.sort(p)[-min(top_k, len(p))], p, 0)
        p /= p.sum()
    order = np.argsort(-p, kind="stable")
    count = np.searchsorted(np.cumsum(p[order]), top_p) + 1
    mask = (p >= p[order[min(count, len(p)) - 1]]) & (p > 0)
    mask &= p >= min_p * p.max()
    with np.errstate(divide="ignore"):
        return np.log(np.where(mask, p, 0) / p[mask].sum())


pytestmark = pytest.mark.usefixtures("quickly")


@pytest.fixture(scope="module")
def sampled():
    moves, move = [], batch.move
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "move", lambda *arguments: moves.append(1) or move(*arguments))
        samples = sample(PARAMETERS, CONFIG, PROMPTS, 5, 11, key=KEY, temperature=1.3, top_n=3)
    assert moves
    return samples


# Records


def tokens_of(sampled):
    rows = np.zeros((15, 18), int)
    for row, (p, g) in enumerate(np.ndindex(3, 5)):
        completion = sampled.tokens[p, g][sampled.mask[p, g]].tolist()
        rows[row, : len(PROMPTS[p]) + len(completion)] = PROMPTS[p] + completion
    logits = np.asarray(run(PARAMETERS, CONFIG, rows)).reshape(3, 5, 18, -1)
    for p, g, t in zip(*np.nonzero(sampled.mask), strict=True):
        yield (p, g, t), sampled.tokens[p, g, t], logits[p, g, len(PROMPTS[p]) - 1 + t]


def test_what_is_recorded_is_what_a_full_forward_pass_says(sampled):
    """Log-probabilities, entropies and candidates at the temperature, to 1e-5 (float32)."""
    for index, token, logits in tokens_of(sampled):
        logp = naive_log_distribution(logits, 1.3)
        assert sampled.logp[index] == pytest.approx(logp[token], abs=1e-5)
        assert sampled.entropy[index] == pytest.approx(-np.sum(np.exp(logp) * logp), abs=1e-5)
        best = np.argsort(-logp)[:3]
        assert sampled.topn_ids[index].tolist() == best.tolist()
        np.testing.assert_allclose(sampled.topn_logp[index], logp[best], atol=1e-5)


def test_a_completion_ends_with_its_first_stop_token(sampled):
    lengths = sampled.mask.sum(axis=-1)
    assert lengths.min() < 3
    assert lengths.max() == 11
    for p, g in np.ndindex(3, 5):
        length = lengths[p, g]
        assert sampled.mask[p, g, :length].all()
        assert not np.isin(sampled.tokens[p, g, : length - 1], CONFIG.eos_ids).any()
        assert length == 11 or sampled.tokens[p, g, length - 1] in CONFIG.eos_ids
    for field in sampled:
        assert not field[~sampled.mask].any()


# Draws


@pytest.mark.parametrize("tokens", [7, 300])
def test_tokens_are_drawn_with_their_probabilities(tokens):
    """Frequencies of 20,000 draws within 4.5 standard errors; a token of probability 0 is never drawn."""
    logp = naive_log_distribution(np.random.default_rng(0).normal(size=tokens, scale=1.5))
    logp[3] = -np.inf
    p = np.exp(logp) / np.exp(logp).sum()
    drawn = jax.jit(jax.vmap(draw_token, (0, None)))(jax.random.split(KEY, 20_000), jnp.log(p))
    counts = np.bincount(np.asarray(drawn), minlength=tokens)
    assert counts[3] == 0
    assert np.all(np.abs(counts / 20_000 - p) <= 4.5 * np.sqrt(p * (1 - p) / 20_000))


@pytest.mark.slow
def test_completions_have_the_probabilities_of_the_model():
    """All completions of up to two tokens, enumerated; their frequencies among 6144 lie within 4 standard errors."""
    many = sample(PARAMETERS, CONFIG, [PROMPTS[0]], 6144, 2, key=KEY)
    counts = np.zeros((7, 7))
    np.add.at(counts, (many.tokens[0, :, 0], many.tokens[0, :, 1]), 1)
    logits = np.asarray(run(PARAMETERS, CONFIG, np.array([[*PROMPTS[0], token] for token in range(7)])))
    first = np.exp(naive_log_distribution(logits[0, -2]))
    second = np.exp([naive_log_distribution(after) for after in logits[:, -1]])
    second[list(CONFIG.eos_ids)] = np.eye(7)[0]  # there is no second token, which is written as 0
    p = first[:, None] * second
    assert np.all(np.abs(counts / 6144 - p) <= 4 * np.sqrt(p * (1 - p) / 6144))


def test_a_completion_does_not_depend_on_what_is_sampled_beside_it(sampled):
    """The same tokens in a larger group, beside other prompts, up to another limit, and unstopped."""
    asked = {"key": KEY, "temperature": 1.3, "stop_ids": (), "top_n": 3}
    unstopped = sample(PARAMETERS, CONFIG, PROMPTS, 5, 11, **asked)
    larger = sample(PARAMETERS, CONFIG, PROMPTS, 6, 9, **asked)
    others = sample(PARAMETERS, CONFIG, [PROMPTS[0], [4] * 7, [0]], 5, 11, **asked)
    np.testing.assert_array_equal(np.where(sampled.mask, unstopped.tokens, 0), sampled.tokens)
    np.testing.assert_array_equal(others.tokens[0], unstopped.tokens[0])
    np.testing.assert_array_equal(larger.tokens[:, :5], unstopped.tokens[:, :, :9])
    np.testing.assert_allclose(larger.logp[:, :5], unstopped.logp[:, :, :9], atol=1e-6)
    assert len(np.unique(unstopped.tokens[0], axis=0)) == 5
    other_key = sample(PARAMETERS, CONFIG, PROMPTS, 5, 11, **asked | {"key": jax.random.key(4)})
    assert (other_key.tokens != unstopped.tokens).any(axis=-1).mean() > 0.5


def test_at_temperature_0_the_likeliest_token_is_taken():
    greedy = sample(PARAMETERS, CONFIG, PROMPTS, 5, 11, key=KEY, temperature=0.0, top_n=3)
    assert (greedy.tokens == greedy.tokens[:, :1]).all()
    assert all(token == np.argmax(logits) for _, token, logits in tokens_of(greedy))
    assert not greedy.logp.any()
    assert not greedy.entropy.any()
    assert (greedy.topn_logp[greedy.mask] == [0, -np.inf, -np.inf]).all()


@pytest.mark.parametrize(
    "truncation",
    [
        {"top_p": 0.6},
        {"top_k": 4, "top_p": 0.8, "min_p": 0.2},
        {"top_k": 99, "min_p": 1.0},
    ],
    ids=str,
)
def test_of_a_truncated_distribution_only_what_is_left_is_drawn_and_its_own_probabilities_are_recorded(truncation):
    top = sample(PARAMETERS, CONFIG, PROMPTS, 5, 11, key=KEY, temperature=1.3, top_n=3, **truncation)
    for index, token, logits in tokens_of(top):
        logp = naive_log_distribution(logits, 1.3, **truncation)
        assert top.logp[index] == pytest.approx(logp[token], abs=1e-5)
        assert top.topn_logp[index].tolist() == pytest.approx(np.sort(logp)[:-4:-1].tolist(), abs=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_nucleus_is_the_smallest_set_of_likeliest_tokens_that_reaches_top_p(dtype):
    with jax.enable_x64(dtype == "float64"):
        random = np.random.default_rng(0)
        p = random.dirichlet(np.full(9, 0.3), size=200).astype(dtype)
        p[0] = [0.4, 0.2, 0.2, 0.2, *[0] * 5]  # a tie at the border stays whole
        p[1] = np.eye(9)[4]
        nuclei = np.asarray(nucleus(jnp.asarray(p), jnp.asarray(0.55, dtype)))
        three = np.asarray(most_likely(jnp.asarray(p), jnp.int32(3)))
    assert nuclei[0].tolist() == [True] * 4 + [False] * 5
    assert nuclei[1].tolist() == np.eye(9, dtype=bool)[4].tolist()
    for row, chosen in zip(p[2:].astype(float), nuclei[2:], strict=True):
        assert chosen.sum() == np.searchsorted(np.cumsum(np.sort(row)[::-1]), 0.55) + 1
        assert row[chosen].min() > row[~chosen].max()
    assert three[0].tolist() == [True] * 4 + [False] * 5, "a tie at the border stays whole here too"
    for row, chosen in zip(p[2:], three[2:], strict=True):
        assert sorted(row[chosen]) == sorted(row)[-3:]


def test_a_tiny_temperature_is_no_overflow():
    logits = jnp.array([[1e3, -1e38, 999.0, 1e3]])
    logp = log_distribution(logits, jnp.float32(1e-30), Truncation(jnp.int32(0), jnp.float32(1), jnp.float32(0)))[0]
    np.testing.assert_allclose(logp, [np.log(0.5), -np.inf, -1e30, np.log(0.5)], rtol=1e-6)
    np.testing.assert_allclose(entropy(jnp.log(jnp.array([0.5, 0.0, 0.5]))), np.log(2), rtol=1e-6)


# Cost


def test_lengths_of_prompts_are_rounded_up_by_an_eighth_at_most_and_sizes_by_less_than_half():
    assert [rounded_length(n) for n in (1, 7, 16, 17, 33, 65, 310)] == [1, 7, 16, 18, 36, 72, 320]
    assert all(n <= rounded_length(n) <= 1.125 * n for n in range(1, 3000))
    assert [rounded_up(n) for n in (1, 2, 3, 5, 7, 9, 12, 13, 17, 310)] == [1, 2, 3, 6, 8, 12, 12, 16, 24, 384]
    assert all(n <= rounded_up(n) < 1.5 * n for n in range(2, 3000))


def test_nothing_is_compiled_anew_for_another_group_size_limit_or_temperature(sampled):
    before = batch.start._cache_size(), batch.go_on._cache_size()
    for group_size, limit, temperature, top_p in ((6, 9, 0.7, 1.0), (5, 12, 0.0, 0.5)):
        choices = {"temperature": temperature, "top_p": top_p, "top_k": limit, "min_p": 0.1, "stop_ids": ()}
        sample(PARAMETERS, CONFIG, PROMPTS, group_size, limit, key=KEY, top_n=3, **choices)
    assert (batch.start._cache_size(), batch.go_on._cache_size()) == before


def in_float64():
    """The parameters, where JAX has 64 bits."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), PARAMETERS)


def waited(prompts, group_size, limit, at_once, parameters=PARAMETERS, **asked):
    seen = []

    def noted(function, *arguments, **named):
        result = compiled_once(function, *arguments, **named)
        if function is batch.go_on:
            seen.append((*result.alive.shape, result.capacity, int(result.step)))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "compiled_once", noted)
        samples = sample(parameters, CONFIG, prompts, group_size, limit, key=KEY, at_once=at_once, **asked)
    return samples, np.array(seen)


def test_a_batch_ends_with_its_last_completion():
    some, seen = waited(PROMPTS, 5, 11, None, top_n=3, stop_ids=range(7))
    assert seen[:, 3].tolist() == [1]
    assert some.mask.sum(axis=-1).tolist() == [[1] * 5] * 3


MANY = [[number % 7] * (1 + number % 3) for number in range(11)]


@pytest.fixture(scope="module")
def whole():
    """Eleven groups of four, sampled all at once in one thread."""
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_layout, "FEWEST_OF_A_PART", 100)
        return sample(in_float64(), CONFIG, MANY, 4, 11, key=KEY, top_n=2)


def of_parts(whole, at_once):
    """Sample at most ``at_once`` completions at a time: the same tokens, and log-probabilities to 1e-6."""
    with jax.enable_x64(True):
        samples, seen = waited(MANY, 4, 11, at_once, in_float64(), top_n=2)
    assert samples.logp.dtype == "float64"
    np.testing.assert_array_equal(samples.tokens, whole.tokens)
    np.testing.assert_array_equal(samples.mask, whole.mask)
    np.testing.assert_array_equal(samples.topn_ids[samples.mask], whole.topn_ids[samples.mask])
    for name in ("logp", "entropy", "topn_logp"):
        np.testing.assert_allclose(getattr(samples, name), getattr(whole, name), atol=1e-6)
    return seen


@pytest.mark.slow
def test_completions_that_wait_are_those_of_a_batch_of_all_and_get_room_as_they_need_it(monkeypatch, whole):
    """The room grows from 2 slots to 4, 8, and 12 for eleven tokens."""
    monkeypatch.setattr(sampling, "FIRST_CAPACITY", 2)
    seen = of_parts(whole, 13)
    assert tuple(seen[0, :2]) == (3, 4)
    assert (seen[:, 0] * seen[:, 1]).max() <= 13
    assert sorted(set(seen[:, 2])) == [2, 4, 8, 12]


@pytest.mark.slow
def test_two_halves_of_the_prompts_are_sampled_at_the_same_time(monkeypatch, whole):
    counts = []
    monkeypatch.setattr(sampling, "side_by_side", lambda calls: counts.append(len(calls)) or side_by_side(calls))
    of_parts(whole, 32)
    assert counts == [2]


# Side by side


def test_results_come_in_the_order_of_the_calls():
    """The first call waits for the second: calls in turn would never end."""
    second = threading.Event()

    def first():
        assert second.wait(60)
        return "first"

    assert side_by_side([first, lambda: second.set() or "second"]) == ["first", "second"]


def test_a_program_that_two_need_is_compiled_once():
    traced = []

    @jax.jit
    def twice(values):
        traced.append(values.shape)
        return 2 * values

    calls = [lambda size=size: compiled_once(twice, jnp.ones(size)) for size in (3, 3, 3, 4)]
    assert [float(result.sum()) for result in side_by_side(calls)] == [6, 6, 6, 8]
    assert sorted(traced) == [(3,), (4,)]


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompts": [[1], []]}, "prompt 1 is empty"),
        ({"prompts": [[1], [1] * 54]}, "prompt 1 has 54 tokens, and 11 new ones are asked for; allowed: 64 in all"),
        ({"top_n": 8}, "top_n = 8 is outside its range [0, 7]"),
    ],
    ids=str,
)
def test_what_cannot_be_sampled_is_refused(arguments, message):
    asked = {"prompts": PROMPTS, "group_size": 5, "max_new_tokens": 11, "key": KEY} | arguments
    assert message in refusal(sample, PARAMETERS, CONFIG, **asked)


@pytest.mark.slow
def test_logits_of_a_large_vocabulary_are_computed_for_some_completions_at_a_time(monkeypatch, sampled):
    """Three groups of five completions, 21 logits at once: the same tokens, and log-probabilities to 1e-6."""
    monkeypatch.setattr(model, "LOGITS_AT_ONCE", 21)
    jax.clear_caches()  # the bound is no argument of the program
    samples = sample(PARAMETERS, CONFIG, PROMPTS, 5, 11, key=KEY, temperature=1.3, top_n=3)
    jax.clear_caches()
    np.testing.assert_array_equal(samples.tokens, sampled.tokens)
    np.testing.assert_array_equal(samples.topn_ids, sampled.topn_ids)
    np.testing.assert_allclose(samples.logp, sampled.logp, atol=1e-6)


# The layout of a batch that changes: it loses no completion and mixes no prompts


def completions(layout):
    return sorted(zip(layout.prompt[layout.filled], layout.member[layout.filled], strict=True))


def test_those_alive_move_together_and_lose_nothing():
    """In 600 random batches each living completion has a slot of its group after the move, in 2^n rows of 4."""
    random = np.random.default_rng(0)
    layout = BatchLayout.of(5, 11, 6, 12)
    powers = np.array([1, 2, 4, 8, 16, 32])
    moves = 0
    for _ in range(600):
        alive = layout.filled & (random.random((6, 12)) < random.random() * random.random((6, 1)))
        if not alive.any():
            continue
        needed = sum(math.ceil(count / 4) for count in alive.sum(axis=1))
        shape = smaller_shape(layout, alive)
        assert shape == (powers[powers >= needed].min(), 4)
        move = regrouped(layout, alive, shape)
        moved = layout.moved(*move)
        moves += 1
        assert completions(moved) == sorted(zip(*np.nonzero(alive), strict=True))
        assert (moved.prompt == moved.prompt[:, :1]).all()
        assert moved.group.max() < shape[0]
    assert moves > 500


@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 10_000))
def test_those_of_a_prompt_fill_as_few_rows_as_they_can(prompts, group_size, seed):
    """Groups in rows of ``row_width`` move twice, after some completions end."""
    random = np.random.default_rng(seed)
    width = row_width(group_size)
    rows = prompts * group_size // width + seed % 3
    whole = BatchLayout.of(prompts, group_size, prompts, group_size)
    layout = BatchLayout.of(0, 0, rows, width).with_rows(0, whole)
    for share in random.random(2):
        alive = layout.filled & (random.random(layout.filled.shape) < share)
        before = sorted(zip(layout.prompt[alive], layout.member[alive], strict=True))
        move = regrouped(layout, alive, alive.shape)
        layout = layout.moved(*move)
        assert completions(layout) == before
        left = Counter(prompt for prompt, _ in before)
        needed = sum(math.ceil(count / width) for count in left.values())
        assert rows_needed(layout.filled, layout.prompt, width) == needed
        assert layout.filled.any(axis=1).tolist() == [True] * needed + [False] * (rows - needed)
        assert (layout.prompt == layout.prompt[:, :1]).all()


@given(st.integers(1, 100), st.integers(1, 40), st.integers(1, 5000))
def test_a_batch_has_room_for_what_is_sampled_at_once(prompts, group_size, most):
    at_once = max(most, group_size)
    size = batch_size(prompts, group_size, at_once)
    if prompts * group_size <= at_once:
        assert size == batch_size(prompts, group_size) == BatchSize(*size[:2], 0)
        assert size.rows >= prompts
        assert size.width >= group_size
    else:
        assert size.rows * size.width <= at_once
        assert group_size % size.width == 0
        assert size.joining >= 1
        assert size.joining * group_size <= size.rows * size.width


@pytest.mark.parametrize(("group_size", "width"), [(1, 1), (4, 4), (6, 3), (7, 1), (10, 2), (16, 4), (64, 4)])
def test_a_row_has_the_largest_divisor_of_a_group_up_to_four(group_size, width):
    assert row_width(group_size) == width


@pytest.mark.parametrize(
    ("prompts", "group_size", "at_once", "count"),
    [(2, 16, None, 2), (1, 64, None, 1), (4, 6, None, 1), (64, 16, 32, 2), (64, 64, 127, 1), (64, 64, 128, 2)],
)
def test_two_parts_are_sampled_side_by_side_where_each_has_16_places_and_a_group(prompts, group_size, at_once, count):
    assert part_count(prompts, group_size, at_once) == count

"""Checks of what every estimator promises; a user's own can be held to them as well.

Each check takes an estimator, makes its own batches, which carry every field of ``Rollouts``, and asserts.
"""

from collections.abc import Callable

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simlab import Rollouts
from simlab.errors import InputError
from simlab.estimators import Estimator
from simlab.rollouts import FIELDS, TOKEN_FIELDS

PROMPTS, GROUP = 4, 6


def batch(seed=0, rewards=None, group=GROUP, tokens=3):
    """A NumPy float64 batch with every field; rewards are random zeros and ones unless given."""
    draw = np.random.default_rng(seed)
    rewards = draw.integers(0, 2, (PROMPTS, group)) if rewards is None else np.asarray(rewards)
    shape = (*rewards.shape, tokens)
    return Rollouts(
        rewards=rewards.astype(float),
        old_logp=-draw.exponential(size=shape),
        entropy=draw.exponential(size=shape),
        topn_logp=-np.sort(draw.exponential(size=(*shape, 2))),
        collision=1 - 0.1 * draw.random(shape),
        teacher_logp=-draw.exponential(size=shape),
        ref_logp=-draw.exponential(size=shape),
        noise=draw.random(shape),
        greedy_reward=np.repeat(draw.integers(0, 2, (len(rewards), 1)), rewards.shape[1], axis=1).astype(float),
        parts=np.stack([rewards, draw.integers(0, 3, rewards.shape)], axis=-1).astype(float),
        part_weights=draw.integers(0, 2, (*rewards.shape, 2)) + np.array([0.5, 0.0]),  # the second part may be missing
        role=np.repeat(np.arange(len(rewards))[:, None], rewards.shape[1], axis=1).astype(float),
    )


def map_fields(record, change):
    """The record with each of its arrays changed."""
    return Rollouts(*(None if field is None else change(field) for field in record))


def advantages_of(chosen, record):
    return np.asarray(chosen.update(record, chosen.init())[0])


def run(chosen, batches):
    """Advantages of each batch in turn, and the state after the last."""
    state, history = chosen.init(), []
    for record in batches:
        advantages, state = chosen.update(record, state)
        history.append(advantages)
    return history, state


def stack(batches):
    return jax.tree.map(lambda *fields: jnp.stack(fields), *batches)


def assert_close(actual, expected):
    """Trees of arrays agree to float64 rounding."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15), actual, expected)


def one_program_serves_jit_vmap_and_scan(chosen):
    """Three batches in turn, in two sequences side by side: uniform groups among them, and the state carried."""

    def step(state, record):
        advantages, state = chosen.update(record, state)
        return state, advantages

    uniform = batch(rewards=[[1] * GROUP, [0] * GROUP, [1] + [0] * (GROUP - 1), [1] * GROUP])
    sequences = [[batch(0), uniform, batch(1)], [batch(2), batch(3), uniform]]
    program = jax.jit(jax.vmap(lambda batches: jax.lax.scan(step, chosen.init(), batches)))
    states, histories = program(stack([stack(batches) for batches in sequences]))
    for index, batches in enumerate(sequences):
        state, history = jax.tree.map(lambda array: array[index], (states, histories))  # noqa: B023
        assert_close((list(history), state), run(chosen, batches))


def the_array_api_is_enough(chosen):
    batches = [batch(seed) for seed in range(2)]
    strict = jax.tree.map(array_api_strict.asarray, batches)
    for actual, expected in zip(run(chosen, strict)[0], run(chosen, batches)[0], strict=True):
        assert_close(np.asarray(actual), expected)


def the_dtype_is_kept(chosen):
    """Advantages and state have the dtype of the rewards, also where JAX traces and 64 bits are at hand."""
    for dtype in ("float32", "float64"):
        arrays = [map_fields(batch(seed), lambda field: field.astype(dtype)) for seed in range(2)]  # noqa: B023
        if dtype == "float32":  # at 64 bits the checks of numbers would show another
            for history, state in (run(chosen, arrays), run(chosen, jax.tree.map(array_api_strict.asarray, arrays))):
                assert all(str(array.dtype).endswith(dtype) for array in [*history, *jax.tree.leaves(state)])
        traced, state = jax.eval_shape(lambda batches: run(chosen, batches), arrays)
        assert {leaf.dtype for leaf in [*traced, *jax.tree.leaves(state)]} == {np.dtype(dtype)}


def absent_rollouts_and_prompts_are_not_there(chosen):
    """Nonsense that the mask excludes, wherever it stands, leaves the advantages and the state as they are.

    An estimator that is not declared exchangeable refuses such a batch instead, and takes one whose mask excludes
    nothing as if it had none.
    """
    for seed, filler in enumerate((np.nan, 0.0, 1.0, 0.0, 1.0, np.nan)):
        present = batch(seed, group=GROUP - 2)
        present_at = np.sort(np.random.default_rng(seed).permutation(GROUP)[: GROUP - 2])
        mask = np.zeros((PROMPTS + 1, GROUP), dtype=bool)
        mask[:PROMPTS, present_at] = True

        def spread(field, present_at=present_at, filler=filler):
            wide = np.full((PROMPTS + 1, GROUP, *field.shape[2:]), filler)
            wide[:PROMPTS, present_at] = field
            return wide

        sparse = map_fields(present, spread)._replace(mask=mask)
        if not chosen.exchangeable:
            with pytest.raises(InputError, match="mask leaves out rollouts"):
                chosen.update(sparse, chosen.init())
            full = present._replace(mask=np.ones_like(present.rewards, dtype=bool))
            assert_close(run(chosen, [full]), run(chosen, [present]))
            continue
        (advantages,), state = run(chosen, [sparse])
        (expected,), expected_state = run(chosen, [present])
        assert_close((advantages[:PROMPTS, present_at], state), (expected, expected_state))
        assert not advantages[~mask].any()


def absent_tokens_are_not_there(chosen):
    """Two more tokens that the token mask excludes change no advantage, and have none themselves.

    An estimator that is not declared exchangeable may refuse them instead.
    """
    present = batch(tokens=2)._replace(token_mask=np.ones((PROMPTS, GROUP, 2), dtype=bool))
    expected = advantages_of(chosen, present)
    for more in (np.nan, 0.0, -3.0):

        def pad(field, more=more):
            filler = False if field.dtype == bool else more
            return np.pad(field, [(0, 0), (0, 0), (0, 2)] + [(0, 0)] * (field.ndim - 3), constant_values=filler)

        longer = present._replace(**{name: pad(getattr(present, name)) for name in (*TOKEN_FIELDS, "token_mask")})
        if not chosen.exchangeable and (chosen.needs & set(TOKEN_FIELDS) or expected.ndim == 3):
            with pytest.raises(InputError, match="token_mask leaves out tokens"):
                chosen.update(longer, chosen.init())
            continue
        advantages = advantages_of(chosen, longer)
        if advantages.ndim == 3:
            assert not advantages[..., 2:].any()
            advantages = advantages[..., :2]
        assert_close(advantages, expected)


def order_does_not_matter(chosen):
    """Prompts, and rollouts of a group, may come in any order; estimators that are not exchangeable may mind it."""
    if not chosen.exchangeable:
        return
    for seed in range(4):
        record = batch(seed)
        for axis in (0, 1):
            order = np.random.default_rng(seed + 1).permutation(record.rewards.shape[axis])
            reordered = map_fields(record, lambda field: np.take(field, order, axis=axis))  # noqa: B023
            assert_close(advantages_of(chosen, reordered), np.take(advantages_of(chosen, record), order, axis=axis))


def degenerate_groups_are_finite(chosen):
    """All right, all wrong, a batch without a correct rollout, single rollouts, ties, and one group alone."""
    graded = chosen.domain != "binary"
    batches = [
        [[1, 1, 1], [0, 0, 0], [1, 0, 0]],
        [[0, 0, 0], [0, 0, 0]],
        [[1, 1, 1], [1, 1, 1]],
        [[1], [0]],
        [[0]],
        [[0.5, 0.5, 0.5], [0.5, 0.5, 0.0], [1.0, 0.5, 0.5]] if graded else [[1, 1, 0, 0]],
        [[0.1] * 3] if graded else [[1, 0]],
    ]
    for rewards in batches:
        record = batch(rewards=rewards)
        certain = record._replace(old_logp=0 * record.old_logp, entropy=0 * record.entropy)
        for rollouts in (record, certain):
            advantages, state = chosen.update(rollouts, chosen.init())
            for values in (advantages, *jax.tree.leaves(state)):
                assert np.isfinite(np.asarray(values)).all(), rewards


def update_is_pure(chosen):
    record, state = batch(), chosen.init()
    for name in FIELDS:
        getattr(record, name).flags.writeable = False
    first, second = chosen.update(record, state), chosen.update(record, state)
    jax.tree.map(np.testing.assert_array_equal, first, second)


def the_policy_gradient_is_the_advantage_times_the_score(chosen):
    """Under ``jax.grad`` of a softmax policy's loss, uniform groups included: no NaN, and A is a constant."""
    draw = np.random.default_rng(2)
    logits, actions = draw.normal(size=(PROMPTS, 3)), draw.integers(0, 3, (PROMPTS, GROUP))
    record = batch(rewards=[[1] * GROUP, [0] * GROUP, [1, 0, 0, 1, 0, 0], [0, 1, 1, 1, 1, 1]], tokens=1)

    def objective(logits):
        logp = jnp.take_along_axis(jax.nn.log_softmax(logits), actions, axis=1)
        sampled = record._replace(old_logp=jax.lax.stop_gradient(logp)[..., None])
        return jnp.sum(chosen.update(sampled, chosen.init())[0].reshape(logp.shape) * logp)

    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    sampled = record._replace(old_logp=np.log(np.take_along_axis(probabilities, actions, axis=1))[..., None])
    advantages = advantages_of(chosen, sampled).reshape(actions.shape)
    expected = np.zeros_like(logits)
    for p in range(PROMPTS):
        for g in range(GROUP):
            expected[p] += advantages[p, g] * (np.eye(3)[actions[p, g]] - probabilities[p])
    np.testing.assert_allclose(jax.grad(objective)(logits), expected, rtol=1e-12, atol=1e-12)


CHECKS: dict[str, Callable[[Estimator], None]] = {
    check.__name__: check
    for check in (
        one_program_serves_jit_vmap_and_scan,
        the_array_api_is_enough,
        the_dtype_is_kept,
        absent_rollouts_and_prompts_are_not_there,
        absent_tokens_are_not_there,
        order_does_not_matter,
        degenerate_groups_are_finite,
        update_is_pure,
        the_policy_gradient_is_the_advantage_times_the_score,
    )
}

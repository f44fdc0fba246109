"""Remedies in the trainer: a step uses what its rollouts say of interference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import trainer_and_state

from simlab.interference.kernel import solve_rate_weights
from simlab.llm.training.features import root_preconditioner
from simlab.llm.training.remedies import NOBODY, Change, change, prompt_numbers
from simlab.llm.training.settings import ProbeSettings

KEY = jax.random.key(7)
EXACT = ProbeSettings(sketch=0)

pytestmark = pytest.mark.usefixtures("quickly")


def after_steps(optimizer, steps=1, prompts=16, method="grpo", **others):
    """A trainer after some steps, and the next batch as the remedy sees it."""
    rl = {"optimizer": optimizer, "prompts": prompts, "group_size": 6} | others
    trainer, state = trainer_and_state(method, rl)
    trainer = trainer._replace(probe=EXACT)
    for step in range(steps):
        state, _ = trainer.step(state, jax.random.fold_in(KEY, step), False)
    groups = trainer.collect(state, jax.random.fold_in(KEY, 99))[0]
    rollouts = trainer.rollouts(groups, groups.sampled.logp, KEY)
    return trainer, state, groups, rollouts


def measured_batch(trainer, state, groups, rollouts, probe=EXACT):
    return trainer._replace(probe=probe).measured(state, groups, rollouts)


def coefficients_of(trainer, state, groups, rollouts):
    advantages, _ = trainer.method.estimator.update(rollouts, state.estimator)
    ratio = np.ones(groups.batch.tokens.shape, np.float32)
    return np.asarray(trainer.method.from_advantages(ratio, advantages, rollouts), np.float32)


def gradient(trainer, state, groups, coefficients):
    """The gradient of the sum of coefficient log pi, as one vector."""
    slopes, _ = trainer.policy.gradient(state.parameters, groups.batch, np.asarray(coefficients, np.float32))
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(slopes)]).astype(float)


def solve_rate_directions(trainer, state, groups):
    """u of each prompt by a gradient of its own, one prompt after another."""
    right = np.asarray(groups.correct, float)
    weights = (right - right.mean(axis=1, keepdims=True)) / (right.shape[1] - 1)
    for row in range(len(right)):
        only = np.zeros(groups.batch.tokens.shape)
        only[row] = weights[row][:, None]
        yield gradient(trainer, state, groups, only * groups.batch.mask)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_projected_update_pushes_no_prompt_down(optimizer):
    """By gradients of whole prompts, the addition lifts the net push on each prompt in danger to 0, to 1 %."""
    trainer, state, groups, rollouts = after_steps(optimizer, learning_rate=0.01)
    interference = measured_batch(trainer, state, groups, rollouts)
    remedy = change(interference, "project", 1.0, range(16))
    assert remedy.in_danger.sum() >= 2, "the test could see a difference"
    plain = coefficients_of(trainer, state, groups, rollouts)
    root = root_preconditioner(trainer.settings, state.optimizer)
    metric = 1.0 if root is None else np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(root)]) ** 2
    before, after = (
        gradient(trainer, state, groups, each) for each in (plain, remedy.applied(plain, groups.batch.mask))
    )
    directions = np.array(list(solve_rate_directions(trainer, state, groups)))
    lifted = directions @ (metric * (after - before))
    net, scale = interference.net + lifted, np.abs(interference.net).max()
    assert (net > -0.01 * scale).all(), (interference.net, lifted)
    assert (remedy.added.any(axis=1) <= directions.any(axis=1)).all(), "of whom nothing is known gets nothing"


def test_the_net_pushes_are_those_of_whole_prompts_by_their_own_gradients():
    """Off the diagonal <u_j, g_i> of two gradients, to rounding; a sketch correlates by more than .98."""
    trainer, state, groups, rollouts = after_steps("sgd")
    interference = measured_batch(trainer, state, groups, rollouts)
    plain, directions = coefficients_of(trainer, state, groups, rollouts), []
    sources = []
    for row in range(16):
        only = np.zeros_like(plain)
        only[row] = plain[row]
        sources.append(gradient(trainer, state, groups, only))
    directions = np.array(list(solve_rate_directions(trainer, state, groups)))
    expected, others = np.array(sources) @ directions.T, ~np.eye(16, dtype=bool)
    np.testing.assert_allclose(interference.kernel[others], expected[others], atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(interference.inner, directions @ directions.T, atol=1e-4 * interference.inner.max())
    sketched = measured_batch(trainer, state, groups, rollouts, ProbeSettings(sketch=4093))
    assert np.corrcoef(sketched.net, interference.net)[0, 1] > 0.98


@pytest.mark.parametrize("remedy", ["damp", "drop"])
def test_weighed_prompts_move_a_step_by_their_share(remedy):
    trainer, state, groups, rollouts = after_steps("sgd", learning_rate=0.05)
    interference = measured_batch(trainer, state, groups, rollouts)
    changed = change(interference, remedy, 0.7, range(16))
    harm = np.where((interference.kernel < 0) & (interference.net < 0), -interference.kernel, 0).sum(axis=1)
    assert harm.max() > 0
    if remedy == "damp":
        np.testing.assert_allclose(changed.factors, 1 - 0.7 * harm / harm.max())
    else:
        dropped = np.argsort(-harm)[: int(np.ceil(0.7 * (harm > 0).sum()))]
        np.testing.assert_array_equal(np.flatnonzero(changed.factors == 0), np.sort(dropped))
    plain = coefficients_of(trainer, state, groups, rollouts)
    np.testing.assert_allclose(
        changed.applied(plain, groups.batch.mask), plain * changed.factors[:, None, None], rtol=1e-6
    )


@pytest.mark.parametrize("remedy", ["damp", "drop", "project", "endangered"])
@pytest.mark.parametrize("estimator", ["full", "head"])
def test_a_strength_of_0_changes_no_bit(remedy, estimator):
    trainer, state = trainer_and_state("f_grpo", {"remedy": remedy, "remedy_strength": 0.0})
    plain, same = trainer_and_state("f_grpo")
    trainer = trainer._replace(probe=ProbeSettings(estimator=estimator))
    for step in range(2):
        state, line = trainer.step(state, jax.random.fold_in(KEY, step), False)
        same, other = plain.step(same, jax.random.fold_in(KEY, step), False)
        np.testing.assert_equal({name: line[name] for name in other}, other)
        assert line["remedied"] == 0
    for mine, theirs in zip(jax.tree.leaves(state.parameters), jax.tree.leaves(same.parameters), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert same.again == (), "a checkpoint without a remedy holds what it always did"


@pytest.mark.parametrize("remedy", ["damp", "drop", "project"])
def test_a_remedy_changes_a_step_and_says_so(remedy):
    trainer, state = trainer_and_state("grpo", {"prompts": 12, "remedy": remedy, "remedy_strength": 1.0})
    plain, same = trainer_and_state("grpo", {"prompts": 12})
    after, line = trainer.step(state, KEY, False)
    without, _ = plain.step(same, KEY, False)
    assert 0 < line["in_danger"] < 1
    assert line["remedied"] > 0
    apart = [jnp.abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, (after, without)), strict=True)]
    assert max(apart) > 0


def test_prompts_in_danger_come_again_on_their_share_of_the_seats():
    """The batch keeps its size; its new prompts go on where the last batch ended."""
    trainer, state = trainer_and_state("grpo", {"prompts": 8, "remedy": "endangered", "remedy_strength": 0.25})
    seen = []
    for step in range(3):
        state, line = trainer.step(state, jax.random.fold_in(KEY, step), False, lambda groups, _: seen.append(groups))
        assert line["remedied"] <= 0.25
    again = [int((np.asarray(state.again) != NOBODY).sum())]
    assert again[0] <= 2
    assert state.cursor < 24, "some prompt came again"
    batches = [[problem.prompt for problem in groups.problems] for groups in seen]
    assert all(len(batch) == 8 for batch in batches)
    repeated = set(batches[1][:2]) & set(batches[0])
    assert repeated, "the second batch begins with prompts of the first"
    assert prompt_numbers([5, 3, NOBODY], 100, 20, 4) == [5, 3, 120, 121]


def test_candidates_beside_the_sampled_tokens_get_nothing_added():
    mask = np.ones((1, 2, 3), bool)
    mask[0, 1, 2] = False
    remedy = Change(np.array([0.5]), np.array([[1.0, -1.0]]), None, np.array([True]))
    coefficients = remedy.applied(np.ones((1, 2, 3, 2), np.float32), mask)
    assert coefficients.dtype == np.float32
    np.testing.assert_array_equal(coefficients[..., 1], 0.5)
    np.testing.assert_array_equal(coefficients[0, :, :, 0], [[1.5, 1.5, 1.5], [-0.5, -0.5, 0.5]])
    np.testing.assert_allclose(solve_rate_weights(np.array([[1.0, 0.0]]), np.ones((1, 2))), [[0.5, -0.5]])


def test_of_rewards_of_0_and_1_a_projection_is_a_weight_of_prompts():
    """Under a loss that divides by no length a prompt's update and u are one vector up to a factor, and so its
    coefficients are those before, scaled up."""
    trainer, state, groups, rollouts = after_steps("adamw", method="dr_grpo", learning_rate=0.01)
    remedy = change(measured_batch(trainer, state, groups, rollouts), "project", 1.0, range(16))
    plain, mask = coefficients_of(trainer, state, groups, rollouts), groups.batch.mask
    changed = remedy.applied(plain, mask)
    for row in np.flatnonzero(remedy.added.any(axis=1)):
        factors = (changed / np.where(plain == 0, 1, plain))[row][mask[row]]
        np.testing.assert_allclose(factors, factors[0], rtol=1e-4)
        assert factors[0] > 1

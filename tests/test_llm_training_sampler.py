"""A sampler that is not the policy: older, or of another dtype; against a textbook's loss, one sequence at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive_training import NaiveAdamW, assert_trees_agree, naive_gradient, naive_logp, standardised, textbook_loss
from training_cases import parameters_of, trainer_and_state

KEY = jax.random.key(7)
BOUND = 1.2

pytestmark = pytest.mark.usefixtures("quickly")


def after_step(trainer, state, key=KEY):
    return trainer.step(state._replace(optimizer=jax.tree.map(jnp.copy, state.optimizer)), key, False)[0]


# Who samples


@pytest.mark.slow
def test_the_sampler_is_the_policy_of_as_many_steps_before_and_at_first_the_start():
    lag = 2
    trainer, state = trainer_and_state("grpo", {"lag": lag, "learning_rate": 0.1})
    states = [state]
    for step in range(5):
        states.append(after_step(trainer, states[-1], jax.random.fold_in(KEY, step)))
    plain, of_plain = trainer_and_state("grpo")
    for step, now in enumerate(states):
        sampler = states[max(0, step - lag)].parameters
        groups, _, _ = trainer.collect(now, KEY)
        wanted, _, _ = plain.collect(of_plain._replace(parameters=sampler, cursor=now.cursor), KEY)
        np.testing.assert_array_equal(groups.batch.tokens, wanted.batch.tokens)
        np.testing.assert_array_equal(groups.sampled.logp, wanted.sampled.logp)
        assert len(now.older) == lag


@pytest.mark.slow
def test_a_sampler_of_another_dtype_is_that_of_a_model_in_it_and_the_policy_is_not():
    trainer, state = trainer_and_state("grpo", {"sampler": "bfloat16"})
    rounded, of_rounded = trainer_and_state("grpo", model={"dtype": "bfloat16"})
    groups, wanted = (arm.collect(each, KEY)[0] for arm, each in ((trainer, state), (rounded, of_rounded)))
    np.testing.assert_array_equal(groups.sampled.logp, wanted.sampled.logp)
    proximal = trainer.proximal(state.parameters, groups)
    np.testing.assert_allclose(proximal, naive_logp(state.parameters, trainer.policy.config, groups.batch), atol=1e-5)
    assert 1e-4 < np.abs(proximal - groups.sampled.logp).max() < 0.5


# Steps


def naive_importance(log_ratio, mask, correction, unit):
    """The weights, token by token, from log(proximal / sampler)."""
    weights = np.ones(mask.shape)
    if correction in ("none", "ratio"):
        return weights
    for p, g, t in np.ndindex(mask.shape):
        terms = [log_ratio[p, g, t]] if unit == "token" else log_ratio[p, g][mask[p, g]]
        weight = float(np.exp(sum(terms)))
        if correction == "truncated":
            weight = min(weight, BOUND)
        if correction == "masked" and not 1 / BOUND <= weight <= BOUND:
            weight = 0.0
        weights[p, g, t] = weight
    return weights


@pytest.mark.parametrize(
    ("correction", "unit"),
    [
        ("none", "token"), ("ratio", "token"), ("decoupled", "token"), ("decoupled", "sequence"),
        ("truncated", "token"), ("truncated", "sequence"), ("masked", "token"), ("masked", "sequence"),
    ],
)  # fmt: skip
def test_a_step_is_that_of_a_textbook(correction, unit):
    """Two updates by groups of an older policy; parameters to 1e-5 of the largest (float32)."""
    rl = {"lag": 1, "epochs": 2, "learning_rate": 0.02, "correction": correction, "correction_unit": unit}
    trainer, state = trainer_and_state("grpo(ddof=1,eps=1e-6)", rl | {"correction_bound": BOUND})
    config, parameters = trainer.policy.config, state.parameters
    noise = parameters_of(config, scale=0.04, seed=2)
    state = state._replace(older=(jax.tree.map(jnp.add, parameters, noise),))
    groups, _, _ = trainer.collect(state, KEY)
    after = after_step(trainer, state)

    advantages, mask = standardised(groups.rewards), groups.batch.mask
    sampler = naive_logp(state.older[0], config, groups.batch)
    proximal = naive_logp(parameters, config, groups.batch)
    weights = naive_importance(proximal - sampler, mask, correction, unit)
    if correction in ("truncated", "masked"):
        ratios = np.exp(proximal - sampler)[mask]
        assert ratios.max() > BOUND, "the bound acts"
    against = sampler if correction == "ratio" else proximal
    naive = NaiveAdamW(parameters, trainer.settings)
    for _ in range(2):
        logp = naive_logp(parameters, config, groups.batch)
        slopes = jax.grad(textbook_loss)(*map(jnp.float32, (logp, against, mask, advantages, weights)))
        total, _ = naive_gradient(parameters, config, groups.batch, np.asarray(slopes, float))
        parameters, _ = naive.descend(parameters, total, trainer.settings.rate(1, 2))
        parameters = jax.tree.map(np.float32, parameters)
    assert_trees_agree(after.parameters, parameters, rtol=1e-5)


@pytest.mark.parametrize("correction", ["none", "ratio", "truncated"])
def test_no_lag_of_a_policy_that_does_not_move_changes_anything(correction):
    """The policy is then its own sampler, so no correction changes a step beyond rounding."""
    trainer, state = trainer_and_state("grpo", {"lag": 1, "correction": correction})
    plain, of_plain = trainer_and_state("grpo")
    after, wanted = after_step(trainer, state), after_step(plain, of_plain)
    assert_trees_agree(after.parameters, wanted.parameters, rtol=1e-4)

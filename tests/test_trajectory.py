"""Single runs step by step: the theorem rule, what must not move, and what a frozen policy misses."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import naive_simulator
import numpy as np
import pytest
import runs
from naive_simulator import Setting

from simlab.simulator.call import seed_keys
from simlab.simulator.runner import run
from simlab.theory.redistribution import correct_mass_change, unsampled_correct_mass_change
from simlab.theory.tail_miss import active, tail_miss

RECORDED = (1, 2, 5, 6, 12, 24)
LOGITS = tuple(np.random.default_rng(0).normal(scale=1.5, size=50).round(2).tolist())
BASE = Setting(LOGITS, frozenset(range(0, 50, 3)), frozenset(range(0, 21, 3)), group_size=8)

THEOREM = {"estimator": "reinforce", "update_rule": "theorem", "rewards": (1.0, -0.5)}
THEOREM |= {"optimizer_parameters": {"learning_rate": 0.5}}


def records(setting, seeds, recorded, dtype="float64"):
    settings = [runs.settings(setting, dtype)] * len(seeds)
    return run(runs.problem(setting), settings, seeds, np.array(recorded))


def test_the_theorem_rule_is_the_theorem():
    """dQ_pos [f-grpo:eq-17] and dQ_upos [f-grpo:prop-3.2] of the group that was drawn, to float64."""
    setting = replace(BASE, **THEOREM)
    rows = records(setting, [3], RECORDED)
    history = runs.replay(setting, 3, RECORDED[-1])
    correct = np.isin(np.arange(50), list(setting.correct))
    for place, step in enumerate(RECORDED, start=1):
        before, group, _ = history[step - 1]
        arguments = {"correct_reward": 1.0, "incorrect_reward": -0.5, "learning_rate": 0.5, "group_size": 8}
        arguments |= {"correct": correct, "sampled": np.isin(np.arange(50), group)}
        policy = naive_simulator.probabilities(before, 1.0)
        gained, shifted = rows["d_q_pos_predicted"][0, place], rows["d_q_upos_predicted"][0, place]
        assert gained == pytest.approx(correct_mass_change(policy, **arguments), rel=0, abs=1e-12)
        assert shifted == pytest.approx(unsampled_correct_mass_change(policy, **arguments), rel=0, abs=1e-12)
        assert abs(gained) > 1e-6 < abs(shifted)


def rarely_drawn(actions, group_size, estimator, optimizer):
    """One action in five is correct, Q_pos .99; the second half of all actions is too rare to be drawn.

    Adam's eps is so small that it moves a logit by about the learning rate whatever the size of the gradient.
    """
    index = np.arange(actions)
    logits = np.where(index % 5 == 0, 7.0, 1.0) + np.sin(index)
    logits[actions // 2 :] -= 14
    places = tuple(logits.tolist()), frozenset(index[index % 5 == 0].tolist()), frozenset({0})
    return Setting(*places, group_size, estimator, optimizer=optimizer, optimizer_parameters={"eps": 1e-20})


def train(setting, dtype, steps=300):
    """Initial and final logits, and which actions were ever drawn."""

    def learnt(laid, key, traced):
        learner = runs.learner(setting, dtype, laid, traced, key)

        def step(index, carry):
            state = learner.step(index, carry[0])
            return state, carry[1].at[state.last.groups.slots[0]].set(True)

        state, touched = jax.lax.fori_loop(0, steps, step, (learner.start(), jnp.zeros_like(laid.correct)))
        return laid.logits, state.parameters, touched

    with jax.enable_x64(dtype == "float64"):
        laid, traced = runs.arrays(setting, dtype)
        initial, final, touched = jax.jit(learnt)(laid, runs.run_key(0), traced)
        return np.asarray(initial), np.asarray(final), np.asarray(touched)


@pytest.mark.parametrize(
    ("estimator", "actions", "group_size", "dtype"),
    [
        ("grpo", 100, 12, "float32"),
        ("f_grpo", 20_000, 1000, "float32"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                *((name, 100, 12, "float32") for name in ("dr_grpo", "rloo", "maxrl", "power_alpha")),
                ("rloo", 20_000, 1000, "float64"),
            ]
        ),
    ],
)
def test_zero_sum_weights_leave_untouched_logits_as_they_were(estimator, actions, group_size, dtype):
    """The trap: rounding noise in the gradient, which Adam enlarges. Bit by bit, after 300 steps of Adam.

    Groups are nearly uniform and no power of two, where a rounded mean would leave the most noise.
    """
    initial, final, touched = train(rarely_drawn(actions, group_size, estimator, "adam"), dtype)
    assert (~touched).sum() >= actions // 2
    np.testing.assert_array_equal(final[~touched], initial[~touched])
    assert np.any(np.abs(final - initial)[touched] > 0.1)


@pytest.mark.parametrize(
    ("estimator", "optimizer"), [("psr", "adam"), pytest.param("dr_grpo", "adamw", marks=pytest.mark.slow)]
)
def test_other_weights_and_weight_decay_move_every_logit(estimator, optimizer):
    initial, final, touched = train(rarely_drawn(100, 12, estimator, optimizer), "float32")
    assert np.all(final[~touched] != initial[~touched])


FROZEN_STEPS, FROZEN_SEEDS = 400, 64


@pytest.mark.parametrize(
    ("group_size", "correct", "target"), [(63, 10, 3), (63, 1, 1), pytest.param(3, 19, 2, marks=pytest.mark.slow)]
)
def test_a_frozen_policy_misses_its_target_as_lemma_3_1_says(group_size, correct, target):
    """Both rates [f-grpo:lemma-3.1] at learning rate 0; standard error sqrt(q (1 - q) / groups)."""
    logits = tuple(np.linspace(-2, 1, 20).tolist())
    still = {"optimizer_parameters": {"learning_rate": 0.0}}
    frozen = Setting(logits, frozenset(range(correct)), frozenset(range(target)), group_size, "psr", **still)
    rows = records(frozen, range(FROZEN_SEEDS), (FROZEN_STEPS,), "float32")
    p = naive_simulator.probabilities(np.array(logits), 1.0)
    mu, tau = p[:correct].sum(), p[:target].sum()
    expected = {"active_rate": active(group_size, mu), "tail_miss_rate": tail_miss(group_size, mu, tau)}
    for rate, q in expected.items():
        standard_error = np.sqrt(q * (1 - q) / (FROZEN_STEPS * FROZEN_SEEDS))
        assert abs(rows[rate][:, 1].mean(dtype=np.float64) - q) <= 4 * standard_error, rate
    for metric in ("q_pos", "entropy", "retained_mass", "share_correct_kept"):
        np.testing.assert_array_equal(rows[metric][:, 1], rows[metric][:, 0], err_msg=metric)
    assert np.all(rows["share_correct_kept"] == 1)


def test_keys_are_those_of_jax():
    seeds = np.array([0, 1, 2**31, 2**32 - 1])
    expected = jnp.stack([jax.random.key(int(seed), impl="threefry2x32") for seed in seeds])
    np.testing.assert_array_equal(jax.random.key_data(seed_keys(seeds)), jax.random.key_data(expected))
    assert jax.random.key_impl(seed_keys(seeds[0, ...])) == jax.random.key_impl(expected)

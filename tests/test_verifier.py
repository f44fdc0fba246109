"""A verifier that errs: its rates, the subject of an error, the expected step, and corrections."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problem_contract import ROWS, Bench, Kind, key_of

from simlab.errors import InputError
from simlab.problems import anchored, custom
from simlab.simulator.runner import judged_rewards, simulate
from simlab.simulator.settings import Settings
from simlab.simulator.verifier import correct_rewards

pytestmark = pytest.mark.usefixtures("quickly")

F, N = 0.2, 0.3  # rates of false positives and negatives
RATES = {"false_positive": F, "false_negative": N}
LOGITS, CORRECT = [0.7, -0.4, 0.2], [0]
P = np.exp(LOGITS) / np.exp(LOGITS).sum()
STEPS = 300


def judged(name, storage, errors_of, steps=STEPS):
    """For each step of one run: the prompts, the slots of their rollouts, which are correct, and which are accepted."""
    bench = Bench(
        ROWS[name], Kind({"optimizer_parameters": {"learning_rate": 0.0}}), storage, errors_of=errors_of, **RATES
    )

    def step(learner, state, index):
        state, keys, prompts, drawn = learner.draw(index, state)
        batch, _ = learner.weigh(keys, prompts, drawn, state)
        size = bench.group_size
        right = learner.map_prompts(lambda slots, group, correct: group.label(correct, learner.storage, slots, size))
        truth = right(learner.select_rows(state.slots, prompts), drawn.groups, learner.select(learner.correct, prompts))
        return state, (prompts, drawn.groups.slots, truth, batch.correct)

    def run(key, *arrays):
        learner = bench.learner(*arrays, key)
        return jax.lax.scan(functools.partial(step, learner), learner.start(), jnp.arange(steps, dtype=jnp.int32))[1]

    with jax.enable_x64(True):
        prompts, *of_rollouts = (np.asarray(array) for array in jax.jit(run)(key_of(0), *bench.arrays()))
    return prompts, *(values[..., : bench.group_size] for values in of_rollouts)  # without those that only fill it up


def near(share, rate, count):
    """Within five standard errors."""
    return abs(share - rate) <= 5 * math.sqrt(rate * (1 - rate) / count)


@pytest.mark.parametrize(
    ("name", "storage"), [("anchored", "dense"), pytest.param("prompt_bank", "lumped", marks=pytest.mark.slow)]
)
def test_each_rollout_is_misjudged_as_often_as_the_rates_say(name, storage):
    _, _, correct, accepted = judged(name, storage, "rollout")
    assert near(accepted[~correct].mean(), F, (~correct).sum())
    assert near(1 - accepted[correct].mean(), N, correct.sum())


@pytest.mark.parametrize(
    ("name", "storage"), [("custom", "dense"), pytest.param("linear_softmax", "lumped", marks=pytest.mark.slow)]
)
def test_an_answer_is_judged_alike_whenever_it_is_drawn_and_a_prompt_whatever_is_drawn(name, storage):
    prompts, slots, correct, accepted = judged(name, storage, "answer")
    each = np.broadcast_to(prompts[:, :, None], slots.shape)
    verdicts = {}
    for m, slot, verdict in zip(each.ravel(), slots.ravel(), accepted.ravel(), strict=True):
        verdicts.setdefault((m, slot), set()).add(bool(verdict))
    assert {len(values) for values in verdicts.values()} == {1}
    prompts, slots, correct, accepted = judged(name, storage, "prompt")
    verdicts = {}
    for m, right, verdict in zip(each.ravel(), correct.ravel(), accepted.ravel(), strict=True):
        verdicts.setdefault((m, bool(right)), set()).add(bool(verdict))
    assert {len(values) for values in verdicts.values()} == {1}


def expected_step(weigh, rewards=(1.0, 0.0), rates=(F, N), group_size=2):
    """E[mean of A_i (e_i - p)] over all groups of two and all verdicts about them."""
    total = np.zeros(3)
    for group in itertools.product(range(3), repeat=group_size):
        for verdict in itertools.product([True, False], repeat=group_size):
            chance = 1.0
            for action, yes in zip(group, verdict, strict=True):
                says_yes = 1 - rates[1] if action in CORRECT else rates[0]
                chance *= P[action] * (says_yes if yes else 1 - says_yes)
            advantages = weigh([rewards[0] if yes else rewards[1] for yes in verdict])
            for action, advantage in zip(group, advantages, strict=True):
                total += chance * advantage / group_size * (np.eye(3)[action] - P)
    return total


def centred(rewards):
    return [reward - sum(rewards) / len(rewards) for reward in rewards]


def first_step(estimator, seeds=20_000, **settings):
    """The mean over seeds of the first step of rate 1, and its standard error."""
    problem = custom(LOGITS, CORRECT, CORRECT)
    bench = Bench(
        ROWS["custom"]._replace(problem=problem),
        Kind({"estimator": estimator, "optimizer_parameters": {"learning_rate": 1.0}}),
        "dense",
        group_size=2,
        **{**RATES, **settings},
    )
    moved = bench.first_steps(seeds).parameters - np.array(LOGITS)
    return moved.mean(axis=0), moved.std(axis=0) / math.sqrt(seeds)


def shares(correction):
    return {"none": (1.0, 0.0), "backward": ((1 - F) / 0.5, -F / 0.5), "forward": (N, N - 1)}[correction]


@pytest.mark.parametrize(
    ("estimator", "weigh", "correction"),
    [
        ("dr_grpo", centred, "forward"),
        ("reinforce", list, "backward"),
        pytest.param("dr_grpo", centred, "none", marks=pytest.mark.slow),
    ],
)
def test_the_mean_step_is_that_of_all_groups_and_all_verdicts(estimator, weigh, correction):
    """20,000 seeds, 5 standard errors."""
    mean, error = first_step(estimator, verifier_correction=correction)
    wanted = expected_step(weigh, shares(correction))
    np.testing.assert_array_less(np.abs(mean - wanted), 5 * error)


def test_corrections_are_what_they_are_said_to_be():
    for correction in ("none", "backward", "forward"):
        corrected = correct_rewards(np.array([1.0, 0.0]), correction, F, N)
        np.testing.assert_allclose(corrected, shares(correction))
        settings = Settings("grpo", verifier_correction=correction, **RATES)
        rewards = judged_rewards(anchored(9, 3, reward_incorrect=-1.0), settings)
        np.testing.assert_allclose(rewards[0], -1 + 2 * np.array(shares(correction)))


def test_runs_without_errors_share_a_program_whatever_their_errors_would_belong_to():
    clean, erring = (
        [Settings("grpo", false_positive=rate, errors_of=name).static for name in ("rollout", "answer", "prompt")]
        for rate in (0.0, 0.1)
    )
    assert clean[0] == clean[1] == clean[2]
    assert len(set(erring)) == 3


def test_a_correction_that_makes_accepted_rollouts_incorrect_ones_is_refused():
    """The forward one gives them n, and R_w + n (R_c - R_w) in general."""
    with pytest.raises(InputError, match="accepted rollouts the reward 0;"):
        simulate(anchored(20, 4), "psr", false_positive=0.1, verifier_correction="forward", steps=1)
    signed = anchored(20, 4, reward_incorrect=-1.0)
    with pytest.raises(InputError, match=r"the reward -0\.4;"):
        simulate(signed, "grpo", **RATES, verifier_correction="forward", steps=1)
    with pytest.raises(InputError, match="power_alpha is defined for"):
        simulate(anchored(20, 4), "power_alpha", **RATES, verifier_correction="backward", steps=1)

"""A number that is not finite ends a run in every storage, in one line that says whose, when, and of what group."""

import re

import numpy as np
import pytest
from sweep_cases import command

import simlab
from simlab import chain
from simlab.errors import Diverged
from simlab.estimators import center, stateless
from simlab.methods import Method
from simlab.problems import anchored, custom, linear_softmax, prompt_bank, tree
from simlab.rollouts import group_std
from simlab.simulator.call import Call
from simlab.simulator.draw import counts_suffice
from simlab.simulator.runner import run, simulate
from simlab.simulator.settings import Settings
from simlab.surrogates import Surrogate, ppo_clip


def divide_by_span(advantages, rollouts):
    """0 / 0 where all rewards of a group are equal."""
    rewards = rollouts.rewards
    return advantages / (rewards.max(-1, keepdims=True) - rewards.min(-1, keepdims=True))


SPAN = chain(center("mean"), divide_by_span)


def divide_by_variance(advantages, rollouts):
    """Divide by the deviation of the rollouts that exist."""
    return advantages / group_std(rollouts.rewards, rollouts, 0)


DECLARED = chain(center("mean"), stateless(divide_by_variance, exchangeable=True))
BY_SPAN, BY_VARIANCE = Method(SPAN, ppo_clip()), Method(DECLARED, ppo_clip())


def complaint(problem, settings, steps=60, seeds=2):
    with pytest.raises(Diverged) as refusal:
        run(problem, [settings] * seeds, range(seeds), np.array([steps]))
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


CASES = {
    "dense": (anchored(100, 10), Settings(BY_SPAN, 4, storage="dense")),
    "lumped": (anchored(100, 10), Settings(BY_SPAN, 4, storage="lumped")),
    "lumped, padded": (anchored(100, 10), Settings(BY_VARIANCE, 4, storage="lumped")),
    "sgd": (anchored(100, 10), Settings(BY_VARIANCE, 4, storage="lumped", optimizer="sgd")),
    "sharded": (anchored(100, 10), Settings(BY_SPAN, 4, storage="sharded")),
    "counted": (custom([0.0, 8.0, 20.0], [1, 2]), Settings(BY_VARIANCE, 4096, storage="dense")),
    "tree": (tree(), Settings(BY_SPAN, 4)),
}


def with_slow(names, quick):
    """Compiling takes seconds a case: only the quick ones run by default."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", with_slow(CASES, {"lumped"}))
def test_an_advantage_that_is_not_finite_ends_a_run_in_every_storage(name):
    problem, settings = CASES[name]
    message = complaint(problem, settings)
    where = r"seed [01], step [1-9]\d*: an advantage is not finite in float32"
    assert re.search(rf"divide_by_.*, {where}, where all {settings.group_size} rewards are [01]", message)
    if name == "counted":
        assert counts_suffice(settings.static, settings.method, problem)
    if name == "sgd":
        assert not Call(problem, [settings], [0], np.array([5]), None).are_sparse().any()


BANKS = {
    "bank": (prompt_bank(prompts=4, actions=8), "dense"),
    "bank, lumped": (prompt_bank(prompts=4, actions=8), "lumped"),
    "heads, sharded": (linear_softmax(prompts=16), "sharded"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", with_slow(BANKS, {"bank"}))
def test_of_a_bank_the_prompt_is_named(kind):
    problem, storage = BANKS[kind]
    message = complaint(problem, Settings(BY_SPAN, 4, storage=storage), steps=20)
    assert re.search(r"seed 0, step \d+, prompt \d+: an advantage .*, where all 4 rewards are [01];", message)


STORAGES = ("dense", "lumped", "sharded")


@pytest.mark.parametrize("storage", with_slow(STORAGES, {"dense"}))
def test_coefficients_logits_and_moments_are_looked_at(storage):
    """The moments of Adam square a gradient: beyond 1.8e19 nothing would move in float32, without a word."""
    problem = anchored(100, 10)
    broken = Method(simlab.estimator("grpo"), Surrogate(lambda ratio, advantages, rollouts: advantages / (0 * ratio)))
    message = complaint(problem, Settings(broken, 4, storage=storage))
    assert ", seed 0, step 1: a coefficient is not finite" in message
    steep = Settings("dr_grpo", 4, storage=storage, optimizer_parameters={"learning_rate": 3e38})
    assert ": a logit is not finite" in complaint(problem, steep)
    rich = anchored(100, 10, reward_correct=1e25)
    assert ": the optimiser's state is not finite" in complaint(rich, Settings("dr_grpo", 4, storage=storage))


@pytest.mark.slow
@pytest.mark.parametrize("storage", with_slow(STORAGES, {"lumped"}))
def test_a_logit_far_below_the_others_is_an_action_in_every_storage(storage):
    """Logits of -1e37 are below those of slots without an action."""
    far = Settings("nsr", 8, storage=storage, optimizer="sgd", optimizer_parameters={"learning_rate": 1e38})
    rows = run(anchored(100, 10), [far] * 8, range(8), np.array([1]))
    has_failed = rows["d_q_pos"][:, 1] > 0.01
    assert has_failed.any()
    assert (rows["share_correct_kept"][has_failed, 1] == np.float32(0.1)).all()  # the likeliest action alone


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["dense", "lumped"])
def test_a_run_that_diverges_leaves_its_neighbours_as_they_are(storage, monkeypatch):
    """Eight runs of one call, one of them broken: the records of the others are the same bits as without it."""
    monkeypatch.setattr("simlab.simulator.call.raise_faults", lambda settings, seeds, fault, problem: None)
    good, bad = (
        Settings("grpo", 4, storage=storage, optimizer_parameters={"learning_rate": rate}) for rate in (0.01, 3e38)
    )
    others = [0, 1, 2, 4, 5, 6, 7]
    alone = run(anchored(100, 10), [good] * 8, range(8), np.array([30]))
    beside = run(anchored(100, 10), [*[good] * 3, bad, *[good] * 4], range(8), np.array([30]))
    for metric, values in alone.items():
        np.testing.assert_array_equal(values[others], beside[metric][others], err_msg=metric)


@pytest.mark.slow
def test_a_sweep_with_a_cell_that_diverges_keeps_the_others_and_ends_with_one_line(tmp_path):
    """All cells share a call of eight runs. Without the bad one, everything is there already."""
    options = ["--estimator", "dr_grpo", "--group-size", "4", "--seeds", "2", "--steps", "20", "--out"]
    small = ["--param", "actions=50", "--param", "correct=5"]
    rates = ["--param", "learning_rate=0.01,0.02,3e38"]
    code, _, message = command("sweep", *options, tmp_path / "out.nc", *small, *rates)
    assert code == 2
    assert re.fullmatch(r"simlab: dr_grpo\+ppo_clip@token_mean, seed 0, step \d+: a logit is not finite.*\n", message)
    assert len(list((tmp_path / "out.nc.parts").glob("*.npz"))) == 2


@pytest.mark.slow
def test_tiny_probabilities_and_impossible_actions_are_no_fault():
    simulate(custom([0.0, -200.0, -1e6], [1]), "psr", group_size=4, storage="dense", steps=5)


POWERS = ("f_grpo(gamma=0.5)", "power_alpha(alpha=1.5)", "asym_power(alpha_success=1.5,alpha_failure=1.5)")
POWERS += ("fade", "a_grae")
SOLVED = custom([0.0, 1.0, 2.0], [0, 1, 2])


SIZES = [("lumped", 41), ("lumped", 3), ("lumped", 13), ("dense", 7), ("sharded", 7)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "storage", "size"),
    [(name, *case) for name in POWERS for case in SIZES],
)
def test_solved_groups_of_any_size_weigh_nothing(name, storage, size):
    """A step on a group that is all right weighs it 0: 1 - 3 / 3 is no -3e-8, however a compiler divides."""
    result = simulate(SOLVED, name, group_size=size, optimizer="sgd", storage=storage, seeds=2, steps=2)
    np.testing.assert_allclose(result.entropy, result.entropy[0, 0], rtol=1e-6)


def test_advantages_that_are_not_finite_are_refused_with_their_rewards():
    rewards = np.array([[1.0, 0.0], [0.5, 0.5]])
    told = r"advantages of group 1 are not finite, where all 2 rewards are 0.5; allowed"
    with pytest.raises(Diverged, match=told), np.errstate(all="ignore"):
        simlab.advantages(SPAN, rewards)


@pytest.mark.parametrize(("scale", "ddof"), [(1e-30, 0), (1.0, 1), (1e20, 0), (1e37, 1)])
def test_standardised_rewards_do_not_depend_on_their_scale_in_float32(scale, ddof):
    rewards = np.float32(scale) * np.array([[3, 1, 0, -2], [1, 1, 1, 1]], np.float32)
    advantages = simlab.advantages("grpo", rewards, eps=0.0, ddof=ddof)
    expected = simlab.advantages("grpo", np.array([[3.0, 1, 0, -2], [1, 1, 1, 1]]), eps=0.0, ddof=ddof)
    assert advantages.dtype == np.float32
    np.testing.assert_allclose(advantages, expected, rtol=1e-5)

"""One step: against a textbook's script, with several updates by a batch, and the input of each stage."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive_training import (
    NaiveAdamW,
    assert_trees_agree,
    naive_gradient,
    naive_logp,
    sequence_tables,
    standardised,
    textbook_loss,
)  # fmt: skip
from refusals import refusal
from training_cases import parameters_of, settings, task, trainer_and_state

from simlab.errors import Diverged
from simlab.estimators import REGISTRY, chain, estimator
from simlab.llm import sampling
from simlab.llm.checkpoint import Model, write_checkpoint
from simlab.llm.tokenizer import write_tokenizer
from simlab.llm.training import groups as groups_of_training
from simlab.llm.training.groups import Reader
from simlab.llm.training.setup import Setup
from simlab.llm.vocabulary import characters
from simlab.rollouts import check_rollouts
from simlab.surrogates import Surrogate

KEY = jax.random.key(7)
STATEFUL = sorted(
    name for name in REGISTRY if jax.tree.leaves(estimator(name).init()) and "role" not in estimator(name).needs
)


pytestmark = pytest.mark.usefixtures("quickly")


def keys(count):
    return [jax.random.fold_in(KEY, step) for step in range(count)]


def stepped(trainer, state, count):
    lines = []
    for key in keys(count):
        state, line = trainer.step(state, key, False)
        lines.append(line)
    return state, lines


def copied(state):
    return state._replace(optimizer=jax.tree.map(jnp.copy, state.optimizer))


# Against a textbook


@pytest.mark.parametrize(("epochs", "minibatches", "isolation"), [(1, 1, 0), (2, 2, 0), (1, 2, 0.15)])
def test_a_step_of_grpo_is_that_of_a_textbook(epochs, minibatches, isolation):
    """Advantages, the clipped loss by autodiff and AdamW by hand; parameters to 1e-5 of the largest (float32)."""
    rl = {"epochs": epochs, "minibatches": minibatches, "learning_rate": 0.05, "isolation": isolation}
    trainer, state = trainer_and_state("grpo(ddof=1,eps=1e-6)", rl)
    config, parameters, rate = trainer.policy.config, state.parameters, trainer.settings.rate(1, 2)
    groups, _, _ = trainer.collect(state, KEY)
    after, metrics = trainer.step(copied(state), KEY, False)

    advantages, mask = standardised(groups.rewards), groups.batch.mask
    naive, norms, clipped, drifts = NaiveAdamW(parameters, trainer.settings), [], [], []
    each_prompt = np.arange(len(groups.problems)).reshape(minibatches, -1)
    unlikely = np.exp(groups.sampled.logp) < isolation
    turns = [unlikely, ~unlikely] if isolation else [mask]
    assert all((turn & mask).any() for turn in turns)
    for turn, rows in itertools.product(turns, [*each_prompt] * epochs):
        logp, slopes = naive_logp(parameters, config, groups.batch), np.zeros(mask.shape)
        arrays = np.float32(logp), groups.sampled.logp, mask, advantages
        slopes[rows] = jax.grad(textbook_loss)(*(values[rows] for values in arrays))
        total, _ = naive_gradient(parameters, config, groups.batch, slopes * turn)
        own_mask, log_ratio = mask[rows], (logp - groups.sampled.logp)[rows]
        clipped.append(((slopes == 0) & (advantages != 0)[..., None])[rows][own_mask].mean())
        drifts.append((np.abs(log_ratio)[own_mask].mean(), (np.exp(log_ratio) - 1 - log_ratio)[own_mask].mean()))
        parameters, norm = naive.descend(parameters, total, rate)
        parameters = jax.tree.map(np.float32, parameters)
        norms.append(norm)
    assert_trees_agree(after.parameters, parameters, rtol=1e-5)
    assert metrics["grad_norm"] == pytest.approx(np.mean(norms), rel=1e-5)
    assert norms[0] > 0
    assert (sum(clipped) > 0) == (len(norms) > 1), "the ratio is 1 at first, and far enough from it then"
    assert metrics["clipped_share"] == pytest.approx(np.mean(clipped))
    seen = [metrics["ratio_drift"], metrics["policy_kl"]]
    np.testing.assert_allclose(seen, drifts[-1] if len(norms) > 1 else [0, 0], rtol=1e-3)
    assert metrics["learning_rate"] == rate
    assert (after.step, after.cursor) == (1, 4)
    assert metrics["reward"] == pytest.approx(groups.rewards.mean())


def test_the_temperature_is_that_of_sampling_and_of_the_gradient():
    """At temperature t the policy is that of a head divided by t; its tied embedding apart, which the norm undoes."""
    trainer, state = trainer_and_state("grpo", {"temperature": 0.5})
    groups, _, _ = trainer.collect(state, KEY)
    colder = state.parameters | {"norm": state.parameters["norm"] / 0.5}
    plain, other = trainer_and_state("grpo")
    same, _, _ = plain.collect(other._replace(parameters=colder), KEY)
    np.testing.assert_array_equal(groups.batch.tokens, same.batch.tokens)
    np.testing.assert_allclose(groups.sampled.logp, same.sampled.logp, atol=1e-5)
    weights = groups.batch.mask.astype(np.float32)
    hot, _ = trainer.policy.gradient(state.parameters, groups.batch, weights)
    cold, _ = plain.policy.gradient(colder, groups.batch, weights)
    assert_trees_agree(hot["layers"], cold["layers"], rtol=1e-4)
    assert_trees_agree({"norm": hot["norm"]}, {"norm": np.asarray(cold["norm"]) / 0.5}, rtol=1e-4)


@pytest.mark.slow
def test_in_bfloat16_ratios_of_a_policy_that_has_not_moved_are_1(monkeypatch):
    """A sampler that rounds otherwise than the trainer has other log-probabilities, which would clip tokens of GSPO."""

    def rounded_otherwise(*asked, **named):
        samples = sampling.sample(*asked, **named)
        return samples._replace(logp=samples.logp - np.float32(0.05))

    monkeypatch.setattr(groups_of_training, "sample", rounded_otherwise)
    rl = {"epochs": 2, "minibatches": 2, "learning_rate": 0.0, "prompts": 8}
    trainer, state = trainer_and_state("gspo", rl, model={"dtype": "bfloat16"})
    groups, _, _ = trainer.collect(state, KEY)
    assert np.abs(trainer.policy.logp(state.parameters, groups.batch) - groups.sampled.logp).max() > 0.02
    _, metrics = trainer.step(state, KEY, False)
    assert [metrics[name] for name in ("clipped_share", "ratio_drift", "policy_kl")] == [0, 0, 0]


@pytest.mark.slow
def test_bfloat16_has_masters_in_float32_that_keep_updates_below_its_resolution():
    """AdamW moves every number by up to 1e-6, of numbers around .4 whose bfloat16 neighbours are 1e-3 away."""
    rl = {"epochs": 2, "minibatches": 2, "learning_rate": 1e-6, "weight_decay": 0.0, "prompts": 8}
    trainer, state = trainer_and_state("gspo", rl, model={"dtype": "bfloat16"})
    after, _ = trainer.step(copied(state), KEY, False)
    for before, now in zip(jax.tree.leaves(state.parameters), jax.tree.leaves(after.parameters), strict=True):
        assert now.dtype == np.float32
        assert 0 < np.abs(now - before).max() < 1e-5
        assert np.mean(now.astype("bfloat16") == before.astype("bfloat16")) > 0.9
    assert {leaf.dtype for leaf in jax.tree.leaves(after.optimizer) if leaf.ndim} == {np.dtype("float32")}


def test_completions_without_an_end_are_unfinished():
    """An unfinished completion has three tokens, the limit, and its last is no end."""
    trainer, state = trainer_and_state("grpo")
    groups, _, _ = trainer.collect(state, KEY)
    ends = trainer.reader.stop_ids
    naive = [
        len(answer) == 3 and answer[-1] not in ends
        for rollouts, masks in zip(groups.batch.tokens, groups.batch.mask, strict=True)
        for answer in (list(tokens[mask]) for tokens, mask in zip(rollouts, masks, strict=True))
    ]
    _, metrics = trainer.step(state, KEY, False)
    assert 0 < metrics["unfinished"] == np.mean(naive) < 1


def test_a_penalised_arm_records_how_far_it_is_from_the_start():
    """The mean of ratio - 1 - log ratio over the tokens, with the ratio of the start to the policy: k3."""
    trainer, state = trainer_and_state("grpo+kl_penalty(coefficient=1.0)")
    config, start = trainer.policy.config, trainer.reference
    state = state._replace(parameters=parameters_of(config, seed=3))
    groups, _, _ = trainer.collect(state, KEY)
    gap = (naive_logp(start, config, groups.batch) - groups.sampled.logp)[groups.batch.mask]
    _, metrics = trainer.step(state, KEY, False)
    assert metrics["reference_kl"] == pytest.approx(np.mean(np.exp(gap) - 1 - gap), rel=1e-3)


@pytest.mark.slow
def test_a_batch_that_is_sampled_in_parts_is_the_same_batch():
    whole, split = (trainer_and_state("grpo", {"rollouts": most, "minibatches": 2}) for most in (4096, 7))
    (groups, cursor, seen), (other, *rest) = (trainer.collect(state, KEY) for trainer, state in (whole, split))
    assert (groups.problems, groups.solutions, cursor, seen) == (other.problems, other.solutions, *rest)
    np.testing.assert_array_equal(groups.batch.tokens, other.batch.tokens)
    np.testing.assert_allclose(groups.sampled.logp, other.sampled.logp, atol=1e-5)
    (after, _), (beside, _) = (trainer.step(copied(state), KEY, False) for trainer, state in (whole, split))
    assert_trees_agree(beside.parameters, after.parameters, rtol=1e-5)


# The memory of an estimator


@pytest.mark.slow
def test_a_surrogate_that_changes_does_so_once_a_batch_whatever_the_epochs():
    warmed, state = trainer_and_state("grpo+casp(quantile=0,alpha=0.5,warm_up=2)", {"epochs": 2})
    plain, other = trainer_and_state("grpo@sequence_mean", {"epochs": 2})
    (during, _), (grpo, _) = stepped(warmed, copied(state), 2), stepped(plain, copied(other), 2)
    assert_trees_agree(during.parameters, grpo.parameters, rtol=1e-6)
    assert [float(leaf) for leaf in jax.tree.leaves(during.surrogate)] == [2]
    after, _ = stepped(warmed, copied(state), 3)
    further, _ = stepped(plain, copied(other), 3)
    apart = jax.tree.map(lambda value, other: np.abs(value - other).max(), after.parameters, further.parameters)
    assert max(jax.tree.leaves(apart)) > 1e-5


def test_advantages_and_coefficients_that_are_not_finite_end_the_step_with_the_rewards_of_their_group():
    def broken(advantages, rollouts):
        return advantages + np.float32(np.nan)

    trainer, state = trainer_and_state("grpo")
    for changes, told in (
        ({"estimator": chain(broken)}, "chain(broken): advantages of group 0 are not finite, where "),
        (
            {"surrogate": Surrogate(lambda ratio, a, rollouts: a / (0 * ratio), exchangeable=True)},
            "surrogate <lambda>: coefficients of group ",
        ),
    ):
        changed = trainer._replace(method=dataclasses.replace(trainer.method, **changes))
        with pytest.raises(Diverged) as refusal, np.errstate(all="ignore"):
            changed.step(state._replace(estimator=changed.method.estimator.init()), KEY, False)
        assert told in str(refusal.value)
        assert "rewards " in str(refusal.value)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", STATEFUL)
def test_estimators_with_a_memory_follow_the_batches(name):
    """Their memory after two steps of two epochs is that of two updates by the rollouts, and it has moved."""
    trainer, state = trainer_and_state(name, {"epochs": 2})
    first = remembered = state.estimator
    for key in keys(2):
        groups, _, _ = trainer.collect(state, key)
        rollouts = trainer.rollouts(groups, trainer.proximal(state.parameters, groups), KEY)
        check_rollouts(rollouts, trainer.method.needs)
        _, remembered = trainer.method.estimator.update(rollouts, remembered)
        state, _ = trainer.step(state, key, False)
        np.testing.assert_array_equal(jax.tree.leaves(state.estimator), jax.tree.leaves(remembered))
    assert jax.tree.leaves(remembered) != jax.tree.leaves(first)


# Methods


def test_the_reference_of_a_penalty_is_the_start_and_it_pulls_there():
    """With equal rewards nothing else acts: the squared gap on a fixed batch falls to less than half in 12 steps."""
    rl, constant = {"learning_rate": 5e-3}, task(lambda prompt, completion: 0.0)
    trainer, state = trainer_and_state("grpo+kl_penalty(coefficient=1.0,form=k2)", rl, own_task=constant)
    config, start = trainer.policy.config, trainer.reference
    moved = jax.tree.map(lambda leaf, noise: leaf + 0.1 * noise, start, parameters_of(config, scale=1.0, seed=9))
    state = state._replace(parameters=moved)
    groups, _, _ = trainer.collect(state, KEY)
    rollouts = trainer.rollouts(groups, groups.sampled.logp, KEY)
    np.testing.assert_allclose(rollouts.ref_logp, naive_logp(start, config, groups.batch), atol=1e-5)

    def gap(parameters):
        return np.mean((trainer.policy.logp(parameters, groups.batch) - rollouts.ref_logp)[groups.batch.mask] ** 2)

    far = gap(moved)
    state, _ = stepped(trainer, state, 12)
    assert gap(state.parameters) < far / 2
    _, metrics = trainer.step(state._replace(parameters=start), KEY, False)
    assert metrics["grad_norm"] < 1e-4, "at the start there is no pull"


def test_a_teacher_is_approached_whatever_is_rewarded():
    """The gap to the teacher's log-probabilities, on the policy's own answers, falls to less than half in 20 steps."""
    rl, constant = {"learning_rate": 1e-2, "teacher": "FOLDER"}, task(lambda prompt, completion: 0.0)
    trainer, state = trainer_and_state("opd", rl, own_task=constant)
    teacher = parameters_of(trainer.policy.config, seed=5)
    trainer = trainer._replace(teacher=(trainer.policy, teacher))
    groups, _, _ = trainer.collect(state, KEY)
    rollouts = trainer.rollouts(groups, groups.sampled.logp, KEY)
    np.testing.assert_allclose(
        rollouts.teacher_logp, naive_logp(teacher, trainer.policy.config, groups.batch), atol=1e-5
    )

    def gap(state):
        groups, _, _ = trainer.collect(state, KEY)
        return np.mean((groups.sampled.logp - trainer.policy.logp(teacher, groups.batch))[groups.batch.mask])

    before = gap(state)
    state, _ = stepped(trainer, state, 20)
    assert gap(state) < before / 2


def test_a_teacher_reads_the_same_tokens(tmp_path):
    trainer, state = trainer_and_state("grpo")
    asked = settings({"arms": ["opd"], "rl": {"teacher": str(tmp_path / "teacher")}})
    write_checkpoint(tmp_path / "teacher", Model(trainer.policy.config, state.parameters))
    write_tokenizer(tmp_path / "teacher", trainer.reader.vocabulary)
    groups, _, _ = trainer.collect(state, KEY)
    policy, parameters = Setup(asked, task()).teacher(asked.rl)
    np.testing.assert_allclose(policy.logp(parameters, groups.batch), groups.sampled.logp, atol=1e-5)
    other = task(vocabulary=characters("0123456789+=x"))
    assert "allowed: " in refusal(Setup(asked, other).teacher, asked.rl)


def test_the_baseline_of_tokens_reads_the_squares_of_the_sampled_distribution():
    trainer, state = trainer_and_state("optimal_token_baseline")
    groups, _, _ = trainer.collect(state, KEY)
    rollouts = trainer.rollouts(groups, groups.sampled.logp, KEY)
    for (p, g), table, _ in sequence_tables(state.parameters, trainer.policy.config, groups.batch):
        for t, row in enumerate(table):
            assert rollouts.collision[p, g, t] == pytest.approx(np.sum(np.exp(2 * np.asarray(row, float))), rel=1e-5)
    state, metrics = trainer.step(state, KEY, False)
    assert np.isfinite(metrics["grad_norm"])


# Dynamic filtering


@pytest.fixture
def sampled(monkeypatch):
    draws, sample = [], Reader.sample

    def recorded(*arguments, **named):
        draws.append(sample(*arguments, **named))
        return draws[-1]

    monkeypatch.setattr(Reader, "sample", recorded)
    return draws


def of_some_prompts(prompt, completion):
    """Pay nothing for prompts that begin with 1 or 2, and the others by their first digit."""
    return float(prompt[0] in "34" and completion[:1] in set("01234"))


def test_with_rounds_only_mixed_groups_are_learnt_from(sampled):
    trainer, state = trainer_and_state("grpo", {"rounds": 5}, own_task=task(of_some_prompts))
    groups, cursor, seen = trainer.collect(state, KEY)
    assert 1 < len(sampled) <= 5
    mixed = [draw.mixed.sum() for draw in sampled]
    assert sum(mixed[:-1]) < 4 <= sum(mixed)
    assert len(groups.problems) == 4
    assert (groups.rewards.min(axis=1) < groups.rewards.max(axis=1)).all()
    every = [problem for draw in sampled for problem in draw.problems]
    assert every == [trainer.reader.task.training(index) for index in range(cursor)]
    assert seen == {"reward": np.mean([draw.rewards for draw in sampled]), "sampled_groups": len(every)}
    wanted = [(draw, row) for draw in sampled for row in np.flatnonzero(draw.mixed)][:4]
    for index, (draw, where) in enumerate(wanted):
        assert groups.problems[index] == draw.problems[where]
        assert groups.solutions[index] == draw.solutions[where]
        np.testing.assert_array_equal(groups.rewards[index], draw.rewards[where])
        np.testing.assert_array_equal(groups.batch.tokens[index], draw.batch.tokens[where])
        np.testing.assert_array_equal(groups.sampled.logp[index], draw.sampled.logp[where])


@pytest.mark.slow
def test_remax_compares_with_the_reward_of_the_answer_at_temperature_0():
    """The policy that samples gives it; each prompt has one, after any number of rounds."""
    trainer, state = trainer_and_state("remax", {"rounds": 5}, own_task=task(of_some_prompts))
    groups, *_ = trainer.collect(state, KEY)
    alone = [trainer.reader.sample(state.parameters, [case], 1, key=KEY, temperature=0.0) for case in groups.problems]
    greedy = np.array([draw.rewards[0, 0] for draw in alone])
    assert len(greedy) == 4
    np.testing.assert_array_equal(groups.greedy_reward, np.repeat(greedy[:, None], 4, axis=1))
    seen = []
    trainer.step(state, KEY, False, watch=lambda groups, advantages: seen.append((groups.rewards, advantages)))
    ((rewards, advantages),) = seen
    np.testing.assert_array_equal(advantages, rewards - greedy[:, None])


def test_rounds_that_are_used_up_leave_fewer_groups(sampled):
    trainer, state = trainer_and_state("grpo", {"rounds": 2}, own_task=task(of_some_prompts))
    groups, cursor, _ = trainer.collect(state, KEY)
    assert len(sampled) == 2
    assert cursor == 8
    assert 0 < len(groups.problems) == sum(draw.mixed.sum() for draw in sampled) < 4


def test_where_no_group_is_mixed_the_step_moves_nothing_by_itself(sampled):
    trainer, state = trainer_and_state("grpo", {"rounds": 3}, own_task=task(lambda prompt, completion: 0.0))
    after, metrics = trainer.step(state, KEY, False)
    assert len(sampled) == 3
    assert (after.cursor, metrics["sampled_groups"], metrics["reward"], metrics["grad_norm"]) == (12, 12, 0, 0)


def test_rounds_draw_other_rollouts_of_a_prompt(sampled):
    addition = task(lambda prompt, completion: 0.0, training=["1+1=", "1+2=", "1+3=", "1+4="])
    trainer, state = trainer_and_state("grpo", {"rounds": 3}, own_task=addition)
    trainer.collect(state, KEY)
    first, second, third = (draw.batch.tokens for draw in sampled)
    assert (first != second).any()
    assert (second != third).any()


@pytest.mark.slow
def test_a_step_of_casp_is_the_gradient_of_its_coefficients():
    trainer, state = trainer_and_state("grpo+casp(alpha=0.5,candidates=2,quantile=0)", record={"top_n": 5})
    groups, _, _ = trainer.collect(state, KEY)
    assert groups.sampled.topn_ids.shape == (4, 4, 3, 5)
    rollouts = trainer.rollouts(groups, groups.sampled.logp, KEY)
    advantages, _ = trainer.method.estimator.update(rollouts, state.estimator)
    coefficients = trainer.method.from_advantages(np.ones((4, 4, 3), np.float32), advantages, rollouts)
    lengths = groups.batch.mask.sum(axis=2)
    total = jax.tree.map(lambda leaf: np.zeros(leaf.shape), state.parameters)
    for (p, g), table, jacobian in sequence_tables(state.parameters, trainer.policy.config, groups.batch):
        for t, row in enumerate(table):
            best = np.argsort(-row)[:2]
            share = 0.5 if advantages[p, g] > 0 else 0.0
            penalty = 1.1 if advantages[p, g] < 0 and groups.batch.tokens[p, g, t] == best[0] else 1.0
            weight = advantages[p, g] * penalty / lengths[p, g] / 16
            for token, scale in ((groups.batch.tokens[p, g, t], 1 - share), *((each, share / 2) for each in best)):
                total = jax.tree.map(lambda sum_, d, at=(t, token), c=weight * scale: sum_ + c * d[at], total, jacobian)
    gradient, _ = trainer.policy.gradient(state.parameters, groups.batch, coefficients, groups.sampled.topn_ids)
    assert_trees_agree(gradient, total, rtol=1e-4)

"""The kernel between prompts, from rollouts: against loops, in expectation over all groups, and its errors."""

import itertools
import json
import math

import numpy as np
import pytest
from probe_records import PACE, measurement

from simlab.diagnose.interference import harm_by_source
from simlab.diagnose.interference_map import sorted_moves
from simlab.errors import InputError
from simlab.interference import (
    Push,
    Record,
    danger,
    log_odds,
    measure,
    push,
    read_record,
    read_records,
    record,
    rollout_weights,
    write_record,
)
from simlab.interference.record import remove_later
from simlab.methods import method
from simlab.rollouts import Rollouts
from simlab.seals import Damaged

# Two prompts of three actions on one head: logits W h. Action 0 is right for the first, where the second mostly errs.
POLICIES = np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3]])
FEATURES = np.array([[1.0, 0.2], [0.7, -0.8]])
CORRECT = np.array([[True, False, False], [False, True, False]])


def score(prompt, action):
    """grad log p by the head, in loops."""
    return np.array([(float(a == action) - POLICIES[prompt, a]) * h for a in range(3) for h in FEATURES[prompt]])


SCORES = np.array([[score(prompt, action) for action in range(3)] for prompt in range(2)])


def groups(size):
    """Every group of a prompt, with its chance."""
    return list(itertools.product(range(3), repeat=size))


def chance(prompt, actions):
    return np.prod([POLICIES[prompt, action] for action in actions])


def weights_of(rewards, prompts=2):
    """GRPO's, (r - mean) / std over the group and the batch; 0 in groups of one reward."""
    mean, spread = sum(rewards) / len(rewards), np.std(rewards)
    return [(r - mean) / spread / len(rewards) / prompts if spread else 0.0 for r in rewards]


def true_gradient(prompt):
    """grad Q, from its definition."""
    return sum(POLICIES[prompt, a] * CORRECT[prompt, a] * SCORES[prompt, a] for a in range(3))


def expected_update(prompt, size):
    total = 0.0
    for actions in groups(size):
        weights = weights_of([float(CORRECT[prompt, a]) for a in actions])
        total += chance(prompt, actions) * sum(w * SCORES[prompt, a] for w, a in zip(weights, actions, strict=True))
    return total


def binomial_update(prompt, size):
    """Expected update of large groups: a mean over the number of successes, whose rollouts are alike."""
    rate = sum(POLICIES[prompt, a] for a in range(3) if CORRECT[prompt, a])
    total = 0.0
    for successes in range(1, size):
        ways = math.comb(size, successes) * rate**successes * (1 - rate) ** (size - successes)
        weights = weights_of([1.0] * successes + [0.0] * (size - successes))
        total += ways * (successes * weights[0] / rate - (size - successes) * weights[-1] / (1 - rate))
    return total * true_gradient(prompt)


def measured(draws):
    """Measure each of many batches (draws, 2, G) of actions, under GRPO."""
    draws = np.array(draws)
    rows, size = np.arange(2)[:, None], draws.shape[2]
    correct = CORRECT[rows, draws]
    rollouts = Rollouts(correct.reshape(-1, size).astype(float))
    weights, without = rollout_weights(method("grpo"), rollouts, prompts=2)
    arrays = correct, weights.reshape(draws.shape), without.reshape(*draws.shape, size)
    return [measure([SCORES[rows, actions]], *each) for actions, *each in zip(draws, *arrays, strict=True)]


def random_case(seed=0, prompts=3, size=5, layers=2):
    random = np.random.default_rng(seed)
    features = [random.normal(size=(prompts, size, 4)) for _ in range(layers)]
    correct = random.random((prompts, size)) < 0.5
    return features, correct, random.normal(size=(prompts, size)), random.normal(size=(prompts, size, size))


def naive_kernel(features, correct, weights, without):
    """Loop over pairs of rollouts: all of two prompts, and of one prompt all but a rollout with itself."""
    prompts, size = correct.shape
    kernel = np.zeros((prompts, prompts))
    for i, j in np.ndindex(prompts, prompts):
        for target, source in np.ndindex(size, size):
            others = [float(correct[j, k]) for k in range(size) if k != target]
            surprise = float(correct[j, target]) - sum(others) / (size - 1)
            product = sum(float(a * b) for a, b in zip(features[j, target], features[i, source], strict=True))
            if i != j:
                kernel[i, j] += surprise / size * weights[i, source] * product
            elif target != source:
                kernel[i, j] += surprise / size * without[i, target, source] * product
    return kernel


def test_the_kernel_is_a_sum_over_pairs_of_rollouts_that_never_pairs_one_with_itself():
    features, *others = random_case()
    result = measure(features, *others, batch=np.array([True, False, True]))
    wanted = naive_kernel(np.concatenate(features, axis=2), *others)
    np.testing.assert_allclose(result.kernel, wanted, rtol=1e-12)
    for j in range(3):
        sources = [i for i in (0, 2) if i != j]
        assert result.push.own[j] == pytest.approx(wanted[j, j])
        assert result.push.others[j] == pytest.approx(sum(wanted[i, j] for i in sources))
        assert result.push.net[j] == pytest.approx(result.push.others[j] + (wanted[j, j] if j != 1 else 0))
    np.testing.assert_allclose(result.own_layers.sum(axis=0), result.push.own, rtol=1e-9)
    np.testing.assert_allclose(result.net_layers.sum(axis=0), result.push.net, rtol=1e-9)


def test_it_is_exact_in_expectation_over_all_groups_and_the_plain_product_is_not():
    """All 27 x 27 pairs of groups of three; GRPO's own weights, of two rollouts where one is left out."""
    pairs = list(itertools.product(groups(3), groups(3)))
    chances = np.array([chance(0, first) * chance(1, second) for first, second in pairs])
    expected = np.einsum("d,dij->ij", chances, [each.kernel for each in measured(pairs)])
    for i, j in np.ndindex(2, 2):
        truth = true_gradient(j) @ expected_update(i, 2 if i == j else 3)
        assert expected[i, j] == pytest.approx(truth, rel=1e-4), "GRPO has an eps of 1e-6 beside the std"
    assert expected[0, 1] < 0 < expected[1, 1], "the first's answer is the second's error"
    for prompt in range(2):
        plain = 0.0
        for actions in groups(3):
            rewards = [float(CORRECT[prompt, a]) for a in actions]
            scores = [SCORES[prompt, a] for a in actions]
            update = sum(w * s for w, s in zip(weights_of(rewards), scores, strict=True))
            gradient = sum((r - sum(rewards) / 3) / 2 * s for r, s in zip(rewards, scores, strict=True))
            plain += chance(prompt, actions) * gradient @ update
        assert plain > 1.5 * true_gradient(prompt) @ expected_update(prompt, 3), "noise alone looks like help"


def test_it_is_right_in_the_mean_of_many_draws_and_its_standard_errors_are_those_of_the_draws():
    """2,000 draws of groups of 16. Errors are right to a fifth but on the hard prompt's net push, where they are safe:
    up to half too large, since its own push and that of the other cancel."""
    random = np.random.default_rng(3)
    draws = [[random.choice(3, size=16, p=POLICIES[prompt]) for prompt in range(2)] for _ in range(2000)]
    results = measured(draws)
    kernels = np.array([each.kernel for each in results])
    for i, j in np.ndindex(2, 2):
        truth = true_gradient(j) @ binomial_update(i, 15 if i == j else 16)
        assert abs(kernels[:, i, j].mean() - truth) < 4 * kernels[:, i, j].std() / np.sqrt(2000)
    pairs = [(kernels, [each.kernel_error for each in results])]
    pairs += [([getattr(each.push, n) for each in results], [getattr(each.error, n) for each in results])
              for n in ("others", "net")]  # fmt: skip
    for values, errors in pairs:
        ratio = np.sqrt(np.mean(np.square(errors), axis=0) / np.var(values, axis=0))
        assert (ratio > 0.85).all(), ratio
        assert (ratio < (1.5 if values is pairs[2][0] else 1.2)).all(), ratio
    halves, net = (np.array([value(each) for each in results]) for value in (lambda m: m.halves, lambda m: m.push.net))
    assert (abs(halves.mean(axis=0) - net.mean(axis=0)) < 4 * halves.std(axis=0) / np.sqrt(2000)).all()


def test_a_random_projection_adds_its_error():
    """Random signs onto 64 numbers, of features of 400: the spread over 400 projections is what the formula says, and
    the errors that are stated hold it (those of the rollouts grow with the projection too)."""
    random = np.random.default_rng(5)
    features, (_, *others) = random.normal(size=(3, 5, 400)), random_case(3)
    correct, weights = others[:2]
    exact = measure([features], *others)
    signs = random.choice([-1.0, 1.0], size=(400, 400, 64)) / 8
    drawn = [measure([features @ each], *others, sketch=64) for each in signs]
    spread = np.std([each.kernel for each in drawn], axis=0)
    updates = [sum(w * s for w, s in zip(weights[i], features[i], strict=True)) for i in range(3)]
    rates = correct.mean(axis=1)
    gradients = [sum((c - rates[j]) / 4 * s for c, s in zip(correct[j], features[j], strict=True)) for j in range(3)]
    for i, j in itertools.permutations(range(3), 2):
        square = (updates[i] @ updates[i]) * (gradients[j] @ gradients[j])
        formula = np.sqrt((square + exact.kernel[i, j] ** 2) / 64)
        assert spread[i, j] == pytest.approx(formula, rel=0.12)
    for name in ("own", "others", "net"):
        spread = np.std([getattr(each.push, name) for each in drawn], axis=0)
        stated = np.mean([getattr(each.error, name) ** 2 for each in drawn], axis=0)
        assert (spread < np.sqrt(stated - getattr(exact.error, name) ** 2)).all(), name


def test_rollouts_that_do_not_exist_change_nothing():
    features, *others = random_case()
    more = [np.concatenate([layer, np.full((3, 2, 4), 7.0)], axis=1) for layer in features]
    correct, weights = (np.pad(each, ((0, 0), (0, 2)), constant_values=1) for each in others[:2])
    without = np.pad(others[2], ((0, 0), (0, 2), (0, 2)), constant_values=3.0)
    alone, beside = (
        measure(features, *others),
        measure(more, correct, weights, without, present=np.arange(7) < [[5]] * 3),
    )
    for first, second in zip(arrays_of(alone), arrays_of(beside), strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-9)


def arrays_of(tree):
    return [leaf for each in tree for leaf in (arrays_of(each) if isinstance(each, tuple) else [each])]


def test_nothing_is_known_of_a_prompt_that_never_or_always_succeeds():
    (result,) = measured([[[0, 0, 1, 2], [0, 2, 2, 0]]])
    assert (result.kernel[:, 1] == 0).all()
    assert result.error.net[1] == 0
    assert np.isnan(danger(result.push.net, result.error.net)).tolist() == [False, True]


def test_a_batch_is_a_sum_over_its_sources_as_often_as_each_is_in_it():
    kernel = np.array([[2.0, -3.0], [1.0, 1.0]])
    twice = push(kernel, np.array([2.0, 1.0]))
    assert twice.others.tolist() == [1.0, -6.0]
    assert twice.net.tolist() == [5.0, -5.0]
    np.testing.assert_allclose(log_odds(twice.net, np.array([0.5, 0.01])), [20.0, -5 / 0.0099])


def test_groups_of_a_prompt_are_weighed_one_by_one():
    """Two groups of three of each of two prompts, in a batch of five: where one is left out, the other group stays."""
    rewards = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
    weights, without = rollout_weights(method("dr_grpo"), Rollouts(rewards), groups=2, prompts=5)
    assert weights.shape == (2, 6)
    for prompt, group, member in np.ndindex(2, 2, 3):
        row = rewards[2 * prompt + group]
        assert weights[prompt, 3 * group + member] == pytest.approx((row[member] - row.mean()) / 3 / 2 / 5)
        others = [k for k in range(3) if k != member]
        mean = (row.sum() - row[member]) / 2
        for k in others:
            left = without[prompt, 3 * group + member, 3 * group + k]
            assert left == pytest.approx((row[k] - mean) / 2 / 2 / 5)
        elsewhere = slice(3 * (1 - group), 3 * (1 - group) + 3)
        np.testing.assert_allclose(without[prompt, 3 * group + member, elsewhere], weights[prompt, elsewhere])


def record_of(step=10, estimator="full"):
    features, *others = random_case()
    batch = np.array([True, True, False])
    facts = {
        "step": step, "estimator": estimator, "preconditioner": "adam", "optimizer": "adamw", "method": "grpo",
        "learning_rate": 1e-3, "clip": 0.5, "updates": 2, "sketch": 0, "group_size": 5, "temperature": 1.0,
    }  # fmt: skip
    result = measure(features, *others, batch=batch)
    prompts = ["1+1=", "2+2=", "three\nlines and \N{SNOWMAN}"]
    return Record(facts, prompts, batch, np.full(3, 5), others[0].mean(axis=1), result)


def test_only_the_records_of_later_steps_are_removed(tmp_path):
    staying = ["00000002.head.npz", "2026.mine.npz", "00000009.mine.npz", "backup of 00000009.full.npz"]
    for name in [*staying, "00000003.full.npz", "00000009.head.npz"]:
        (tmp_path / name).touch()
    remove_later(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == set(staying)


def test_a_record_is_read_as_it_was_written(tmp_path):
    for step in (20, 10):
        write_record(tmp_path, record_of(step))
    write_record(tmp_path, record_of(10, "head"))
    first, second = read_records(tmp_path)
    assert (first.step, second.step) == (10, 20)
    assert first.prompts == record_of().prompts
    assert first.pace == pytest.approx(1e-3)
    np.testing.assert_allclose(first.interference.kernel, record_of().interference.kernel, rtol=1e-6)
    np.testing.assert_allclose(first.danger, record_of().danger, rtol=1e-4)
    worst = first.harm(2)
    assert worst == sorted(worst, key=lambda pair: pair[1])
    assert all(source in (0, 1) and push < 0 for source, push in worst)
    assert read_records(tmp_path / "absent") == []


def test_a_record_of_many_prompts_keeps_the_columns_of_the_others_and_of_those_in_danger(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "WHOLE", 5)
    monkeypatch.setattr(record, "COLUMNS", 3)
    sources, targets = [f"s{number}" for number in range(6)], ["t0", "t1"]
    kernel = np.random.default_rng(0).normal(size=(6, 2))
    many = measurement(10, sources, targets, kernel, 0.1)
    net, error = np.array([3.0, 1.0, -2.0, 1.0, -1.0, 2.0, 5.0, 5.0]), np.full(8, 0.5)
    pushes = many.interference._replace(push=Push(net, net, net), error=Push(error, error, error))
    read = read_record(write_record(tmp_path, many._replace(interference=pushes)))
    assert [text for text, mask in zip(read.prompts, read.recorded, strict=True) if mask] == ["s2", "t0", "t1"]
    np.testing.assert_allclose(read.interference.kernel[:6, 6:], kernel, rtol=1e-6)
    np.testing.assert_allclose(read.interference.kernel_error[:6, 6:], 0.1, rtol=1e-6)
    np.testing.assert_array_equal(read.interference.push.net, net)
    assert read.harm(0) == []
    assert harm_by_source([read], {"t0"}).mean == pytest.approx(PACE * kernel[:, 0])
    moves = sorted_moves([read])
    assert np.isfinite(moves.change).all()


def test_a_damaged_record_is_refused_in_one_line(tmp_path):
    path = write_record(tmp_path, record_of())
    whole = path.read_bytes()
    for content in (whole[:-40], whole[:300] + bytes([whole[300] ^ 1]) + whole[301:], b"none"):
        path.write_bytes(content)
        with pytest.raises(Damaged, match=r"is damaged \(") as error:
            read_record(path)
        assert "\n" not in str(error.value)
    np.savez_compressed(path, facts=np.array(json.dumps({"version": 9})), prompts=np.array("[]"))
    with pytest.raises(Damaged, match="another version"):
        read_record(path)


def test_two_rollouts_of_a_prompt_are_too_few():
    features, correct, weights, without = random_case()
    with pytest.raises(InputError, match="rollouts of a prompt = 2; allowed: 3"):
        measure([features[0][:, :2]], correct[:, :2], weights[:, :2], without[:, :2, :2])

"""Lumped storage is dense storage: exactly the same distribution over outcomes."""

import itertools
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problem_contract import Bench, Kind, Row, key_of
from refusals import refusal

from simlab.problems import LinearSoftmax, PromptBank, anchored, custom
from simlab.simulator import call, lumped
from simlab.simulator.compiled import cached
from simlab.simulator.draw import assign_slots
from simlab.simulator.learner import Learner
from simlab.simulator.lumped import Count, Lumped, uniform_below
from simlab.simulator.policy import Listed
from simlab.simulator.runner import run, simulate
from simlab.simulator.settings import Settings
from simlab.simulator.sparse import Sparse, SparseLearner
from simlab.simulator.state import Samples
from simlab.simulator.storage import StoredProblem

# Actions of two classes, whose members start alike; the first is correct, and the target.
FIRST = np.array([[True, False]] * 2)
COUNTS = {"counts": np.array([1, 2])}
FEATURES = np.array([[0.6, 0.8], [1.0, -0.3]])


def row(problem, own_rows=0):
    """A problem whose naive loops are not needed here."""
    return Row(problem, None, None, own_rows=own_rows)


TIED = row(custom([0.5, -0.2, 0.5, -0.2, -0.2], [0, 2], [0, 2]))
BANK = row(PromptBank(np.array([[0.4, -0.3], [-0.2, 0.5]]), FIRST, FIRST, **COUNTS), own_rows=1)
HEAD = row(LinearSoftmax(np.array([[0.4, 1.0], [-0.3, 0.2]]), FEATURES, FIRST, FIRST, **COUNTS))
FAST = {"group_size": 2, "surrogate": "reinforce", "optimizer_parameters": {"learning_rate": 0.3}, "top_n": 0}


def kind(estimator, optimizer="sgd", prompts=1, **others):
    return Kind(FAST | {"estimator": estimator, "optimizer": optimizer} | others, prompts)


CLIPPED = {"surrogate": "ppo_clip", "surrogate_parameters": {"eps_low": 0.1, "eps_high": 0.15}, "epochs": 2}
ALL, ONE = 0, 1  # prompts of a step
# Steps, problem and kind of step.
CASES = {
    "zero-sum, adam": (2, TIED, kind("grpo", "adam")),
    "not zero-sum": (2, TIED, kind("psr", "adamw")),
    "log-probabilities": (2, TIED, kind("unlikeliness")),
    "several gradient steps": (2, TIED, kind("nsr", "adam", **CLIPPED)),
    "regularised": (2, TIED, kind("dr_grpo", temperature=1.6, kl=0.5, entropy_bonus=0.2, epochs=2)),
    "updates of one norm": (2, TIED, kind("nsr", "adam", update_norm=0.3)),
    "bank": (2, BANK, kind("grpo", "adam", ONE)),
    "bank, all prompts, not zero-sum": (1, BANK, kind("psr", "adamw", ALL, update_norm=0.3, kl=0.2)),
    "head": (2, HEAD, kind("grpo", "adam", ONE)),
    "head, all prompts, not zero-sum": (1, HEAD, kind("psr", "adamw", ALL, update_norm=0.3, kl=0.2)),
}


class Outcomes:
    """Every path of a storage, with its exact probability; subclasses say what a group is.

    A group is told by its chance and, draw by draw, the slot and two words that choose a member of a class.
    """

    def __init__(self, storage, row, kind):
        self.bench = Bench(row, kind, storage)
        self.arrays, self.learn = self.bench.arrays(), jax.jit(self.learnt)
        self.p = jax.jit(self.probabilities)

    def learner(self):
        return self.bench.learner(*self.arrays, key_of(0))

    def probabilities(self, state, prompts):
        """(P, S) of each action of a slot."""
        learner = self.learner()
        return learner.map_prompts(lambda _, policy: policy.p)(None, learner.policies(state, prompts))

    def batches(self):
        """The batches of prompts that a step may have, all equally likely."""
        prompts = range(self.bench.problem.prompts)
        chosen = itertools.combinations(prompts, self.bench.static.prompts_per_step or len(prompts))
        return [jnp.asarray(batch, jnp.int32) for batch in chosen]

    def distribution(self, steps):
        """Probability of each final policy, told by the sorted parameters of each class's members."""
        bench, paths, batches = self.bench, [(1.0, self.learner().start())], self.batches()
        for _ in range(steps):
            paths = [
                (probability * chance / len(batches), self.learn(state, batch, slots, words))
                for probability, state in paths
                for batch in batches
                for chance, slots, words in self.groups(state, batch)
            ]
        chances = defaultdict(float)
        for probability, state in paths:
            parameters, slots = jax.tree.map(np.asarray, (state.parameters, state.slots))
            listed = bench.listed(parameters, bench.actions_of(slots), slots)
            chances[bench.alike(listed, decimals=9)] += probability
        return chances

    def learnt(self, state, prompts, slots, words):
        learner = self.learner()
        policies = learner.policies(state, prompts)
        state, policies, slots = self.placed(learner, state, prompts, policies, (slots, words))
        present = None if learner.present is None else jnp.broadcast_to(learner.present, slots.shape)
        top = learner.map_prompts(lambda _, policy: policy.top(0))(None, policies)
        keys = jax.random.split(key_of(0), len(prompts))
        batch, memory = learner.weigh(keys, prompts, Samples(policies, Listed(slots, present), *top), state)
        return learner.ascend(batch, state._replace(memory=memory))


class Dense(Outcomes):
    def groups(self, state, batch):
        p, size = np.asarray(self.p(state, batch)), self.bench.group_size
        of_each = [list(itertools.product(range(p.shape[1]), repeat=size))] * len(p)
        for groups in itertools.product(*of_each):
            yield np.prod([probs[list(group)] for probs, group in zip(p, groups, strict=True)]), np.array(groups), None

    def placed(self, learner, state, prompts, policies, drawn):
        slots, _ = drawn
        return state, policies, slots


class ByClasses(Outcomes):
    def groups(self, state, batch):
        """Each draw is a touched action or a member of a class, which the step has drawn before or not.

        Prompts that share parameters share the members of their classes.
        """
        is_bank = self.bench.problem.has_own_parameters
        p, of_all = np.asarray(self.p(state, batch)), state.slots
        of_each = [jax.tree.map(lambda leaf, m=m: leaf[m], of_all) if is_bank else of_all for m in batch.tolist()]
        left = [np.asarray(slots.remaining("float64")).astype(int).tolist() for slots in of_each]
        draws = [*itertools.product(range(len(batch)), range(self.bench.group_size))]

        def extend(drawn, chance, known):
            if len(drawn) == len(draws):
                yield chance, *self.told(draws, drawn, len(batch))
                return
            prompt, _ = draws[len(drawn)]
            classes, holder = len(left[prompt]), prompt if is_bank else None
            for touched in range(classes, classes + int(of_each[prompt].touched)):
                yield from extend([*drawn, (touched, 0)], chance * p[prompt, touched], known)
            for label, count in enumerate(left[prompt]):
                seen, alike = known.get((holder, label), 0), chance * p[prompt, label]
                for member in range(seen):
                    yield from extend([*drawn, (label, word_of(member, count))], alike, known)
                if count > seen:
                    more = known | {(holder, label): seen + 1}
                    yield from extend([*drawn, (label, word_of(seen, count))], alike * (count - seen), more)

        yield from extend([], 1.0, {})

    def told(self, draws, drawn, prompts):
        """Slots (P, G) and words (P, 2, G); absent rollouts have 0."""
        size = self.learner().group_size
        slots, words = np.zeros((prompts, size), int), np.zeros((prompts, 2, size), np.uint32)
        for (prompt, draw), (slot, word) in zip(draws, drawn, strict=True):
            slots[prompt, draw], words[prompt, :, draw] = slot, (word >> 32, word % 2**32)
        return slots, words

    def placed(self, learner, state, prompts, policies, drawn):
        slots, words = drawn
        return assign_slots(learner, prompts, state, policies, slots, words=words)


def word_of(member, count):
    """A random word of 64 bits that chooses this member of ``count``."""
    return -(-(int(member) << 64) // int(count))


QUICK = {"zero-sum, adam"}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_both_storages_have_the_same_distribution_over_outcomes(name):
    steps, problem, chosen = CASES[name]
    with jax.enable_x64(True):
        dense = Dense("dense", problem, chosen).distribution(steps)
        by_classes = ByClasses("lumped", problem, chosen).distribution(steps)
    assert sum(dense.values()) == pytest.approx(1, abs=1e-12)
    assert len(dense) > 4
    assert dense.keys() == by_classes.keys()
    for outcome, probability in dense.items():
        assert by_classes[outcome] == pytest.approx(probability, abs=1e-12)


def test_a_whole_number_below_a_count_is_the_high_word_of_the_exact_product():
    generator = np.random.default_rng(0)
    counts = np.concatenate([generator.integers(1, 10**18, 400), generator.integers(2**32 - 9, 2**32 + 9, 200), [1, 2]])
    random = generator.integers(0, 2**64, counts.size, dtype=np.uint64)
    products = uniform_below(Count.from_integers(counts), Count.from_integers(random))
    together = [int(high) << 32 | int(low) for high, low in zip(products.high, products.low, strict=True)]
    assert together == [int(count) * int(word) >> 64 for count, word in zip(counts, random, strict=True)]


def test_counts_lose_members_exactly():
    generator = np.random.default_rng(1)
    counts = np.concatenate([generator.integers(2**32, 10**18, 300), [2**32, 10**18, 7]])
    taken = np.minimum(generator.integers(0, 2**32, counts.size), counts)
    left = Count.from_integers(counts).subtract(jnp.asarray(taken, jnp.uint32))
    together = [int(high) << 32 | int(low) for high, low in zip(left.high, left.low, strict=True)]
    assert together == (counts - taken).tolist()


def test_a_class_of_10_to_the_18_is_counted_exactly():
    """Zero-sum weights leave the untouched logits exactly where they were; every member that left is counted."""
    settings, storage = Settings("grpo", 32, storage="lumped"), Lumped(1024)
    problem = anchored(10**18, 10**17, correct_logit=0.0, anchor_logit=40.0)
    traced = jax.tree.map(lambda value: jnp.asarray(value, "float32"), settings.traced)
    laid, slots = storage.load(problem, "float32"), storage.initial_slots(problem)
    learner = Learner(settings.static, StoredProblem(laid, storage, slots), key_of(0), traced)
    state = jax.jit(lambda state: jax.lax.fori_loop(0, 25, learner.step, state))(learner.start())
    left = state.slots.counts.subtract(state.slots.departed)
    together = [int(high) << 32 | int(low) for high, low in zip(left.high, left.low, strict=True)]
    assert sum(together) == 10**18 - int(state.slots.touched)
    assert 100 < int(state.slots.touched) <= 25 * 32
    untouched = np.flatnonzero(together)
    np.testing.assert_array_equal(np.asarray(state.parameters)[untouched], laid.logits[untouched])


@pytest.mark.slow
def test_a_run_is_the_same_whatever_runs_beside_it_in_any_number_of_slots(monkeypatch):
    """All records are the same bit for bit: a neighbour that needs more slots makes no difference."""
    settings = Settings("psr", 20, storage="lumped", entropy_bonus=0.01, top_n=2)
    steps, problem = np.array([2, 120]), anchored(100_000, 200)
    grown = run(problem, [settings] * 3, range(3), steps)  # from 2048 slots
    monkeypatch.setattr(lumped, "FEWEST_SLOTS", 8192)
    roomy = run(problem, [settings] * 4, (2, 7, 0, 1), steps)
    for metric, values in grown.items():
        np.testing.assert_array_equal(values, roomy[metric][[2, 3, 0]], err_msg=metric)


@pytest.mark.slow
def test_one_program_serves_every_group_size_of_a_range_and_any_number_of_steps(monkeypatch):
    names = []
    monkeypatch.setattr(call, "cached", lambda key, compile_it: names.append(key) or cached(key, compile_it))
    for group_size, steps in [(2, [4]), (31, [3, 5]), (32, [6])]:
        run(anchored(200, 20), [Settings("psr", group_size, storage="lumped")], [0], np.array(steps))
    assert [name for name, *_ in names] == ["run"] * 3
    assert len(set(names)) == 1


@pytest.mark.parametrize("kind", [Lumped, Sparse])
def test_storage_grows_by_slots_whatever_else_is_as_long(kind):
    """There are 1024 classes and 1024 slots: the counts of classes stay."""
    storage, problem = kind(1024), custom(np.linspace(0, 1, 1024).tolist(), [0]).by_classes()
    settings = Settings("dr_grpo", 2, optimizer="sgd" if kind is Sparse else "adam", storage="lumped")
    traced = jax.tree.map(jnp.asarray, settings.traced)
    stored = StoredProblem(storage.load(problem, "float32"), storage, storage.initial_slots(problem))
    before = (SparseLearner if kind is Sparse else Learner)(settings.static, stored, key_of(0), traced).start()
    after, larger = storage.grow(before, 2048, axis=0)
    assert larger == kind(2048)
    for name in ("counts", "departed", "touched"):
        jax.tree.map(np.testing.assert_array_equal, getattr(after.slots, name), getattr(before.slots, name))
    for old, new in ((before.slots.class_of, after.slots.class_of), (before.parameters, after.parameters)):
        np.testing.assert_array_equal(new, np.pad(old, (0, 1024)))


def test_what_a_storage_cannot_hold_is_refused():
    assert "actions = 1000000000000" in refusal(simulate, anchored(10**12, 10**9), "grpo", steps=2, storage="dense")
    assert "a logit is 1e+30" in refusal(simulate, custom([0.0, 1e30], [0]), "grpo", steps=2, storage="lumped")
    correct = np.array([[True]])
    assert "count = 2" in refusal(PromptBank, np.zeros((1, 1)), correct, correct, counts=np.array([2 * 10**18]))

"""The lumped engine is the dense one: exactly the same distribution over outcomes, and the same records in the mean."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product

import engine
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive_simulator import Setting
from simlab.simulate.counts import Count, uniform_below
from simlab.simulate.lane import Drawn, Lane
from sweep_cases import command

from simlab.errors import InputError
from simlab.problems import Classes, anchored, custom
from simlab.simulate import Numbers, Program, run_lanes, simulate, windows
from simlab.simulate.compiled import kept
from simlab.simulate.lumped import LumpedLane
from simlab.simulate.policy import EMPTY, softmax
from simlab.sweep.result import read

TIED = (0.5, -0.2, 0.5, -0.2, -0.2)  # two classes: two correct actions, three incorrect ones
FAST = {"learning_rate": 0.3}


def setting(group_size, estimator, optimizer="sgd", logits=TIED, **others):
    """Actions 0 and 2 are correct, and the target."""
    base = {"surrogate": "reinforce", "optimizer_parameters": FAST, "pass_at_k": (), "top_n": 0}
    places = logits, frozenset({0, 2}), frozenset({0, 2})
    return Setting(*places, group_size, estimator, optimizer=optimizer, **(base | others))


CLIPPED = {"surrogate": "ppo_clip", "surrogate_parameters": {"eps_low": 0.1, "eps_high": 0.15}, "gradient_steps": 2}
# Steps and setting.
CASES = {
    "zero-sum": (2, setting(2, "dr_grpo")),
    "zero-sum, adam": (2, setting(2, "grpo", "adam")),
    "groups of four": (1, setting(4, "maxrl")),
    "not zero-sum": (2, setting(2, "psr", "adamw")),
    "theorem": (2, setting(2, "psr", update_rule="theorem")),
    "literal": (2, setting(2, "f_grpo", update_rule="simulator_literal", estimator_parameters={"gamma": 1.0})),
    "with memory": (2, setting(2, "running_mean", "adam")),
    "log-probabilities": (2, setting(2, "unlikeliness")),
    "several gradient steps": (2, setting(2, "nsr", "adam", **CLIPPED)),
    "regularised": (2, setting(2, "dr_grpo", temperature=1.6, kl=0.5, entropy_bonus=0.2, gradient_steps=2)),
    "three steps": (3, setting(2, "reinforce", "adam", logits=(0.3, 0.0, 0.3))),
}


class Outcomes:
    """Every path of an engine, with its exact probability; subclasses say what a group is and how the lane takes it."""

    def __init__(self, chosen):
        self.chosen, self.problem = chosen, engine.problem(chosen)
        self.program = engine.program(chosen)
        self.numbers = jax.tree.map(lambda value: jnp.asarray(value, "float64"), engine.numbers(chosen))
        self.learn = jax.jit(self.learnt)

    def distribution(self, steps):
        """Probability of each final policy: of each class, the sorted logits of its members."""
        paths = [(1.0, self.lane().start())]
        for _ in range(steps):
            paths = [
                (probability * chance, self.learn(state, group))
                for probability, state in paths
                for chance, group in self.groups(state)
            ]
        found = defaultdict(float)
        for probability, state in paths:
            found[self.policy(state)] += probability
        return found


class Dense(Outcomes):
    def lane(self):
        place, _ = engine.arrays(self.chosen, "float64")
        return Lane(self.program, place, engine.lane_key(0), self.numbers)

    def groups(self, state):
        p = np.asarray(softmax(state.logits, self.numbers.temperature).p)
        for group in product(range(len(p)), repeat=self.chosen.group_size):
            yield np.prod(p[list(group)]), jnp.asarray(group)

    def learnt(self, state, group):
        policy = softmax(state.logits, self.numbers.temperature)
        return self.lane().learn(engine.lane_key(0), state, Drawn(policy, group, *policy.top(0)))

    def policy(self, state):
        logits = np.asarray(state.logits).round(9) + 0.0
        classes = [(self.chosen.logits[a], a in self.chosen.correct) for a in range(len(logits))]
        return tuple(tuple(sorted(logits[[c == one for c in classes]])) for one in sorted(set(classes)))


class Lumped(Outcomes):
    PLACES = 1024

    def lane(self):
        fixed = windows.prepared(self.program, self.problem, [(0, engine.numbers(self.chosen))])
        return LumpedLane(self.program, fixed.shared, self.PLACES, fixed.keys, self.numbers)

    def groups(self, state):
        """Each draw is a touched action, or of a class: one that this group has drawn before, or a new one."""
        lane = self.lane()
        left = np.asarray(lane.remaining(state)).astype(int)
        p = np.asarray(softmax(state.logits, self.numbers.temperature, lane.remaining(state)).p)
        touched = [place for place in np.flatnonzero(state.logits > EMPTY / 2) if place >= len(left)]

        def extend(group, chance, drawn):
            if len(group) == self.chosen.group_size:
                yield chance, tuple(jnp.asarray(column, jnp.int32) for column in zip(*group, strict=True))
                return
            for place in touched:
                yield from extend([*group, (place, 0)], chance * p[place], drawn)
            for label, count in enumerate(left):
                known = drawn.get(label, 0)
                for ordinal in range(known):
                    yield from extend([*group, (label, ordinal)], chance * p[label], drawn)
                if count > known:
                    more = drawn | {label: known + 1}
                    yield from extend([*group, (label, known)], chance * p[label] * (count - known), more)

        yield from extend([], 1.0, {})

    def learnt(self, state, group):
        lane, (places, ordinals) = self.lane(), group
        policy = softmax(state.logits, self.numbers.temperature, lane.remaining(state))
        lumped = places < len(lane.place.logits)
        state, policy, actions = lane.single_out(state, policy, places, ordinals, lumped)
        return lane.learn(engine.lane_key(0), state, Drawn(policy, actions, *policy.top(0)))

    def policy(self, state):
        classes, logits = self.problem.classes, np.asarray(state.logits).round(9) + 0.0
        found = {}
        for label, (first, correct) in enumerate(zip(classes.class_logits, classes.class_correct, strict=True)):
            own = [logits[label]] * int(self.lane().remaining(state)[label])
            for place in np.flatnonzero(logits > EMPTY / 2):
                if place >= len(classes.counts) and state.lumps.class_of[place] == label:
                    own.append(logits[place])
            found[(first, bool(correct))] = tuple(sorted(own))
        return tuple(found[one] for one in sorted(found))


def some_by_hand(names, by_default):
    """Compiling takes seconds a case: the others run with ``-m slow``."""
    return [name if name in by_default else pytest.param(name, marks=pytest.mark.slow) for name in names]


IN_SHORT = {"zero-sum, adam", "several gradient steps"}


@pytest.mark.parametrize("name", some_by_hand(CASES, IN_SHORT))
def test_both_engines_have_the_same_distribution_over_outcomes(name):
    steps, chosen = CASES[name]
    with jax.enable_x64(True):
        dense, lumped = Dense(chosen).distribution(steps), Lumped(chosen).distribution(steps)
    assert sum(dense.values()) == pytest.approx(1, abs=1e-12)
    assert len(dense) > 4
    assert dense.keys() == lumped.keys()
    for outcome, probability in dense.items():
        assert lumped[outcome] == pytest.approx(probability, abs=1e-12)


# The law of the draws: what the enumeration above takes as given.


def test_a_whole_number_below_a_count_is_the_high_word_of_the_exact_product():
    generator = np.random.default_rng(0)
    counts = np.concatenate([generator.integers(1, 10**18, 400), generator.integers(2**32 - 9, 2**32 + 9, 200), [1, 2]])
    random = generator.integers(0, 2**64, counts.size, dtype=np.uint64)
    found = uniform_below(Count.of(counts), Count.of(random))
    together = [int(high) << 32 | int(low) for high, low in zip(found.high, found.low, strict=True)]
    assert together == [int(count) * int(word) >> 64 for count, word in zip(counts, random, strict=True)]


def test_counts_lose_members_exactly():
    generator = np.random.default_rng(1)
    counts = np.concatenate([generator.integers(2**32, 10**18, 300), [2**32, 10**18, 7]])
    taken = np.minimum(generator.integers(0, 2**32, counts.size), counts)
    left = Count.of(counts).less(jnp.asarray(taken, jnp.uint32))
    together = [int(high) << 32 | int(low) for high, low in zip(left.high, left.low, strict=True)]
    assert together == (counts - taken).tolist()


@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_members_of_a_class_repeat_as_often_as_in_a_uniform_draw(members):
    """Patterns of repeats in groups of 4 from one class, against members^-4 a sequence; within 5 standard errors."""
    lanes, size = 40_000, 4
    problem = custom([0.0] * members, range(members), range(members))
    fixed = windows.prepared(Program(size, "psr"), problem, [(0, Numbers({}, {}, {}, 1.0, 0.0))])
    lane = LumpedLane(Program(size, "psr"), fixed.shared, 1024, fixed.keys, fixed.numbers)
    drawn, state = jnp.zeros(size, jnp.int32), lane.start()
    ordinals = jax.jit(jax.vmap(lambda words: lane.which_member(words, state, drawn, drawn == 0)))(
        jax.random.bits(jax.random.key(3), (lanes, 2, size))
    )
    expected = defaultdict(float)
    for sequence in product(range(members), repeat=size):
        order = list(dict.fromkeys(sequence))
        expected[tuple(order.index(member) for member in sequence)] += members**-size
    found = Counter(map(tuple, np.asarray(ordinals).tolist()))
    assert found.keys() <= expected.keys()
    for pattern, probability in expected.items():
        standard_error = np.sqrt(probability * (1 - probability) / lanes)
        assert abs(found[pattern] / lanes - probability) <= 5 * standard_error


# Whole runs: all records.

RUNS = {
    "dr_grpo": Program(32, "dr_grpo", pass_at_k=(1, 64), top_n=3),
    "f_grpo": Program(32, "f_grpo", pass_at_k=(1, 64), top_n=3),
    "psr": Program(32, "psr", pass_at_k=(1, 64), top_n=3),
    "nsr": Program(32, "nsr", pass_at_k=(1, 64), top_n=3),
    "unlikeliness": Program(32, "unlikeliness", pass_at_k=(1, 64), top_n=3),
    "casp": Program(32, "grpo", surrogate="casp", gradient_steps=2, pass_at_k=(1, 64), top_n=3),
    "kl and entropy": Program(32, "grpo", uses_kl=True, uses_entropy_bonus=True, pass_at_k=(1, 64), top_n=3),
}


@pytest.mark.parametrize("name", some_by_hand(RUNS, ()))
def test_at_128000_actions_all_records_agree_in_the_mean(name, monkeypatch):
    """Means over 24 seeds of each engine differ by at most 4.5 standard errors in every record (about 150 a case)."""
    program, seeds = RUNS[name], 24
    if name != "dr_grpo":  # which grows, as the others would; but compiling takes the longest
        monkeypatch.setattr(windows, "FEWEST_PLACES", 4096)
    extra = {"gamma": 1.0} if name == "f_grpo" else {}
    regularised = {"kl": 0.1, "entropy_bonus": 0.01} if program.uses_kl else {}
    numbers = Numbers(extra, {}, {"learning_rate": 0.05}, **regularised)
    runs = {}
    for engine_name in ("dense", "lumped"):
        lanes = [(seed + 1000 * (engine_name == "lumped"), numbers) for seed in range(seeds)]
        chosen = replace(program, engine=engine_name)
        runs[engine_name] = run_lanes(chosen, anchored(target=500), np.array([3, 40, 80]), lanes)
    assert runs["dense"].keys() == runs["lumped"].keys()
    for metric, dense in runs["dense"].items():
        lumped = runs["lumped"][metric]
        assert dense.shape == lumped.shape
        gap = np.abs(dense.mean(axis=0, dtype=float) - lumped.mean(axis=0, dtype=float))
        error = np.sqrt((dense.var(axis=0, ddof=1, dtype=float) + lumped.var(axis=0, ddof=1, dtype=float)) / seeds)
        rounding = 2e-5 * np.maximum(1, np.abs(dense.mean(axis=0)))
        within = (gap <= 4.5 * error + rounding) | np.isnan(gap)
        assert within.all(), (metric, gap, error)


def test_a_class_of_10_to_the_18_is_counted_exactly():
    """Zero-sum weights leave the untouched logits exactly where they were; every member that left is counted."""
    program = Program(32, "grpo", engine="lumped")
    problem = anchored(10**18, 10**17, correct_logit=0.0, anchor_logit=40.0)
    fixed = windows.prepared(program, problem, [(0, Numbers({}, {}, {}, 1.0, 0.0))])
    lane = LumpedLane(program, fixed.shared, 1024, fixed.keys, fixed.numbers)
    state = jax.jit(lambda state: jax.lax.fori_loop(0, 25, lane.step, state))(lane.start())
    left = lane.counts.less(state.lumps.taken)
    together = [int(high) << 32 | int(low) for high, low in zip(left.high, left.low, strict=True)]
    assert sum(together) == 10**18 - int(state.lumps.touched)
    assert 100 < int(state.lumps.touched) <= 25 * 32
    untouched = [place for place in range(len(together)) if together[place]]
    np.testing.assert_array_equal(np.asarray(state.logits)[untouched], fixed.shared.place.logits[np.array(untouched)])


@pytest.mark.slow
def test_a_lane_is_the_same_whatever_runs_beside_it_in_any_number_of_places(monkeypatch):
    """All records are the same bit for bit: a neighbour that needs more places makes no difference."""
    program = Program(20, "psr", engine="lumped", uses_entropy_bonus=True, top_n=2)
    numbers = Numbers({}, {}, {}, 1.0, 0.0, entropy_bonus=0.01)
    steps, problem = np.array([2, 120]), anchored(100_000, 200)
    grown = run_lanes(program, problem, steps, [(seed, numbers) for seed in range(3)])  # from 2048 places
    monkeypatch.setattr(windows, "FEWEST_PLACES", 8192)
    roomy = run_lanes(program, problem, steps, [(seed, numbers) for seed in (2, 7, 0, 1)])
    for metric, values in grown.items():
        np.testing.assert_array_equal(values, roomy[metric][[2, 3, 0]], err_msg=metric)


def test_one_program_serves_every_group_size_of_a_range_and_any_number_of_steps(monkeypatch):
    names = []
    monkeypatch.setattr(windows, "kept", lambda key, compile_it: names.append(key) or kept(key, compile_it))
    for group_size, steps in [(2, [4]), (31, [3, 5]), (32, [6])]:
        program = Program(group_size, "psr", engine="lumped")
        run_lanes(program, anchored(200, 20), np.array(steps), [(0, Numbers({}, {}, {}))])
    assert len(names) > 6
    assert len(set(names)) == 3  # to start, to go on, and to record


def test_what_the_lumped_engine_cannot_run_is_refused():
    with pytest.raises(
        InputError, match=r"actions = 10{12} cannot be listed; allowed: up to 2147483647, or the lumped"
    ):
        simulate(anchored(10**12, 10**9), Program(4, "grpo", engine="dense"), steps=2)
    with pytest.raises(InputError, match="a logit is 1e\\+30; allowed in float32, lumped: up to 1e\\+29"):
        simulate(custom([0.0, 1e30], [0]), Program(4, "grpo", engine="lumped"), steps=2)
    with pytest.raises(InputError, match=r"count = 20{18} is outside its range \[1, 10{18}\]"):
        Classes(np.zeros(1), np.array([2 * 10**18]), np.array([True]), np.array([True]))
    with pytest.raises(InputError, match="engine = 'sparse' is unknown; allowed: auto, dense, lumped"):
        Program(4, "grpo", engine="sparse")


@pytest.mark.slow
def test_a_sweep_of_10_to_the_12_actions(tmp_path):
    """From the command line; the result says which engine made it."""
    out = tmp_path / "sweep.nc"
    options = ["--estimator", "f_grpo", "--group-size", "4", "--seeds", "2", "--steps", "20"]
    wide = ["--param", "actions=1000000000000", "--param", "correct=80000000000"]
    code, table, complaints = command("sweep", "--out", out, *options, *wide)
    assert (code, complaints) == (0, "")
    result = read(out)
    assert json.loads(result.attrs["configuration"])["engine"] == "auto"
    assert result.q_pos.sel(step=0).values == pytest.approx(np.exp(3) * 8 / (np.exp(3) * 8 + 92), rel=1e-5)
    assert "engine lumped for G = 4" in table
    assert str(out) in table


def test_a_problem_too_large_for_the_dense_engine_is_one_line():
    options = ["--engine", "dense", "--param", "actions=1000000000000", "--estimator", "grpo", "--group-size", "4"]
    code, _, complaint = command("sweep", *options)
    limits = "allowed: up to 2147483647, or the lumped engine"
    assert (code, complaint) == (2, f"simlab: actions = 1000000000000 cannot be listed; {limits}\n")

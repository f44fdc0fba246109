"""A bank of prompts: how it starts, every step and record against naive loops, what is exact, and what is refused."""

import dataclasses
import functools
import itertools
import math

import engine
import jax
import jax.numpy as jnp
import mpmath
import naive_bank
import naive_simulator
import numpy as np
import pytest
import xarray as xr
from naive_bank import Bank
from naive_simulator import Setting
from sweep_cases import asked, parts_of, refusal

from simlab import cli
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.problems import PromptBank, prompt_bank
from simlab.problems.solve_rates import beta_rates
from simlab.simulate import Numbers, Program, run_lanes, simulate
from simlab.simulate.bank_lane import BankLane
from simlab.simulate.bank_metrics import BANK_DESCRIPTIONS, effective_size
from simlab.simulate.engine import step_costs
from simlab.simulate.lane import Drawn, Landscape, Lane
from simlab.surrogates import SURROGATES
from simlab.sweep.result import read
from simlab.sweep.run import parts_folder, run
from simlab.theory.power_law import fit_shifted_power_law, power_laws

# How a bank starts


@pytest.mark.parametrize("rare_modes", [1, 3, 4])
def test_prompts_start_at_their_solve_rates_with_rare_and_common_modes(rare_modes):
    rates = [1e-9, 0.02, 0.5, 1 - 1e-6]
    bank = prompt_bank(actions=9, solve_rates=rates, modes=4, rare_modes=rare_modes, rare_ratio=0.1)
    p = np.exp(bank.logits) / np.exp(bank.logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.where(bank.correct, p, 0).sum(axis=1), rates, rtol=1e-12)
    np.testing.assert_allclose(bank.solve_rates, rates, rtol=1e-12)
    assert bank.correct.sum(axis=1).tolist() == [4] * 4
    assert bank.target.sum(axis=1).tolist() == [rare_modes] * 4
    for own, correct, target in zip(p, bank.correct, bank.target, strict=True):
        assert np.ptp(own[~correct]) == np.ptp(own[target]) == 0
        if rare_modes < 4:
            np.testing.assert_allclose(own[target][0], 0.1 * own[correct & ~target], rtol=1e-12)


def test_the_solve_rates_of_a_beta_are_its_quantiles():
    """Beta(1/2, 1/2) has the distribution function (2 / pi) asin(sqrt(p)), Beta(3, 1) has p^3."""
    middle = (np.arange(64) + 0.5) / 64
    np.testing.assert_allclose(prompt_bank().solve_rates, np.sin(np.pi / 2 * middle) ** 2, rtol=1e-12)
    np.testing.assert_allclose(beta_rates(5, 3.0, 1.0), ((np.arange(5) + 0.5) / 5) ** (1 / 3), rtol=1e-12)


def test_a_mixture_has_the_share_of_either_beta():
    mixed = prompt_bank(prompts=10, beta_a=1.0, beta_b=9.0, second_a=30.0, second_b=2.0, second_share=0.3).solve_rates
    expected = np.sort([*beta_rates(7, 1.0, 9.0), *beta_rates(3, 30.0, 2.0)])
    np.testing.assert_allclose(mixed, expected, rtol=1e-12)


@pytest.mark.parametrize("suffix", ["npy", "txt"])
def test_measured_solve_rates_come_from_a_file(tmp_path, suffix):
    measured, path = np.array([0.5, 0.0, 1.0, 0.25]), tmp_path / f"rates.{suffix}"
    {"npy": np.save, "txt": np.savetxt}[suffix](path, measured)
    bank = prompt_bank(solve_rates=str(path), margin=0.125)
    np.testing.assert_allclose(bank.solve_rates, [0.5, 0.125, 0.875, 0.25], rtol=1e-12)
    np.testing.assert_allclose(
        prompt_bank(prompts=2, solve_rates=str(path), margin=0.125).solve_rates, [0.125, 0.5], rtol=1e-12
    )


def test_a_bank_is_known_by_all_that_it_is():
    base = {"solve_rates": [0.25, 0.5], "actions": 6}
    banks = [prompt_bank(**base), *(prompt_bank(**base | {name: value}) for name, value in CHANGES.items())]
    assert len({bank.fingerprint for bank in banks}) == len(banks)
    assert prompt_bank(**base).fingerprint == banks[0].fingerprint


CHANGES = {"solve_rates": [0.5, 0.25], "actions": 7, "modes": 3, "rare_modes": 2, "rare_ratio": 0.5}
CHANGES |= {"reward_correct": 2.0, "reward_incorrect": -1.0}

# Steps and records against naive loops

LOGITS = tuple(map(tuple, np.random.default_rng(1).normal(scale=1.5, size=(5, 6)).round(2).tolist()))
BASE = Setting((), frozenset({0, 2, 3}), frozenset({3}), 4, "grpo", optimizer_parameters={"learning_rate": 0.3})
ADAM = {"optimizer": "adam", "optimizer_parameters": {"learning_rate": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-5}}
CLIPPED = {"gradient_steps": 3, "surrogate_parameters": {"eps_low": 0.1, "eps_high": 0.15}}
CASP = {"alpha": 0.3, "candidates": 3, "quantile": 0.0, "top_penalty": 1.15}
SETTINGS = {
    "zero-sum, sgd": (3, {}),
    "remembers batches, several steps, adam": (2, ADAM | CLIPPED | {"estimator": "ha_dw", "temperature": 1.3}),
    "reads the batch, all prompts": (5, {"estimator": "a_grae"}),
    "remembers entropies, regularised": (
        4,
        ADAM
        | {"estimator": "fade", "estimator_parameters": {"beta": 0.7, "target_entropy": 1.2}}
        | {"kl": 0.3, "entropy_bonus": 0.05},
    ),
    "not zero-sum, adam": (2, ADAM | {"estimator": "w_reinforce", "rewards": (2.0, -0.5), "temperature": 1.3}),
    "theorem, one rollout": (2, {"estimator": "psr", "group_size": 1, "update_rule": "theorem"}),
    "candidates": (3, {"estimator": "dr_grpo", "surrogate": "casp", "surrogate_parameters": CASP}),
}
QUICK = tuple(SETTINGS)[:2]
STEPS, COMPARED = 200, 12


def some_slow(names, quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def naive(name):
    prompts_per_step, changes = SETTINGS[name]
    return Bank(LOGITS, dataclasses.replace(BASE, **changes), prompts_per_step)


def program(bank, dtype="float64"):
    return dataclasses.replace(engine.program(bank.setting, dtype), prompts_per_step=bank.prompts_per_step)


def problem(bank):
    logits, setting = np.array(bank.logits), bank.setting
    correct, target = (
        np.broadcast_to(np.isin(np.arange(logits.shape[1]), list(members)), logits.shape)
        for members in (setting.correct, setting.target)
    )
    return PromptBank(logits, correct, target, *setting.rewards)


def on_device(place, dtype):
    return Landscape(jnp.asarray(place.logits, dtype), jnp.asarray(place.correct), jnp.asarray(place.target))


def arrays(bank, dtype):
    return on_device(problem(bank), dtype), jax.tree.map(
        lambda value: jnp.asarray(value, dtype), engine.numbers(bank.setting)
    )


def every_step(bank, seed, steps=STEPS, dtype="float64"):
    """Of each step of the engine's lane of that seed: the groups by prompt, the logits after it, and its record."""

    def run(place, numbers):
        lane = BankLane(program(bank, dtype), place, engine.lane_key(seed), numbers)

        def step(state, index):
            following = lane.step(index, lane.counted_anew(state))
            row = lane.record(state.logits, following, jnp.int32(1))
            return following, (following.bank.prompts, following.actions, following.logits, row)

        return jax.lax.scan(step, lane.start(), jnp.arange(steps, dtype=jnp.int32))[1]

    with jax.enable_x64(dtype == "float64"):
        prompts, actions, logits, rows = jax.tree.map(np.asarray, jax.jit(run)(*arrays(bank, dtype)))
    groups = [dict(zip(*pair, strict=True)) for pair in zip(prompts.tolist(), actions.tolist(), strict=True)]
    return groups, logits, rows


@functools.cache
def lane_of(name):
    """All steps of one lane of seed 3 of a setting."""
    return every_step(naive(name), 3)


@pytest.mark.parametrize("name", some_slow(SETTINGS, QUICK))
def test_every_step_and_record_equals_the_naive_loops(name):
    bank, (groups, logits, rows) = naive(name), lane_of(name)
    assert rows.keys() == BANK_DESCRIPTIONS.keys()
    memory = naive_bank.start(bank)
    for index, group in enumerate(groups[:COMPARED]):
        following = naive_bank.step(bank, memory, group)
        np.testing.assert_allclose(logits[index], following.logits, rtol=0, atol=1e-9)
        expected = naive_bank.policy_record(bank, following.logits) | naive_bank.batch_record(bank, memory, group)
        expected |= naive_bank.update_record(bank, memory.logits, following.logits, group)
        assert expected.keys() == rows.keys()
        for metric, value in expected.items():
            np.testing.assert_allclose(rows[metric][index], value, rtol=0, atol=1e-9, err_msg=metric)
        memory = following


def test_clipping_bites_when_a_batch_is_used_more_than_once():
    """So that the case above tests clipping: without it the naive lane ends elsewhere."""
    clipped = naive("remembers batches, several steps, adam")
    free = dataclasses.replace(clipped.setting, surrogate_parameters={"eps_low": 1.0, "eps_high": 99.0})
    ends = []
    for bank in (clipped, dataclasses.replace(clipped, setting=free)):
        memory = naive_bank.start(bank)
        for group in lane_of("remembers batches, several steps, adam")[0][:COMPARED]:
            memory = naive_bank.step(bank, memory, group)
        ends.append(memory.logits)
    assert np.abs(ends[0] - ends[1]).max() > 1e-3


@pytest.mark.parametrize("name", some_slow(SETTINGS, ()))
def test_a_run_records_the_same_lane_in_windows(name):
    """Of the policy and the last update what the single steps say; of a window's batches the mean over its steps."""
    bank, (_, _, steps) = naive(name), lane_of(name)
    recorded, lanes = np.array([1, 7, 12]), [(3, engine.numbers(bank.setting))]
    rows = {metric: row[0] for metric, row in run_lanes(program(bank), problem(bank), recorded, lanes).items()}
    counted = {"active_rate", "tail_miss_rate", "unsolved_rate", "effective_prompts", "effective_rollouts"}
    counted |= {"success_mass", "failure_mass"}
    for metric, row in rows.items():
        for place, (first, last) in enumerate(itertools.pairwise((0, *recorded)), start=1):
            of_window = steps[metric][first:last].mean(axis=0) if metric in counted else steps[metric][last - 1]
            np.testing.assert_allclose(row[place], of_window, rtol=0, atol=1e-12, err_msg=metric)
    initial = naive_bank.policy_record(bank, np.array(LOGITS))
    for metric, row in rows.items():
        np.testing.assert_allclose(row[0], initial.get(metric, np.full_like(row[0], np.nan)), atol=1e-12)


def test_a_batch_holds_different_prompts_and_all_prompts_come():
    seen = [frozenset(group) for group in lane_of("zero-sum, sgd")[0]]
    assert {len(batch) for batch in seen} == {3}
    assert len(set(seen)) == math.comb(5, 3)
    counts = np.array([sum(prompt in batch for batch in seen) for prompt in range(5)])
    assert np.all(np.abs(counts - STEPS * 0.6) < 4 * math.sqrt(STEPS * 0.6 * 0.4))


@pytest.mark.slow
def test_what_a_prompt_draws_at_first_does_not_depend_on_the_prompts_beside_it():
    every = dataclasses.replace(naive("zero-sum, sgd"), prompts_per_step=5)
    all_prompts, few = every_step(every, 3, steps=1)[0][0], lane_of("zero-sum, sgd")[0][0]
    assert list(all_prompts) == list(range(5))
    assert few.items() < all_prompts.items()


@pytest.mark.parametrize("name", QUICK)
def test_a_prompt_outside_the_batch_is_moved_by_the_memory_of_adam_alone(name):
    groups, logits, _ = lane_of(name)
    moved = np.abs(np.diff(logits, axis=0)).max(axis=2) > 0
    drawn_before, outside = set(groups[0]), set()
    for group, changed in zip(groups[1:], moved, strict=True):
        beside = set(np.flatnonzero(changed).tolist()) - set(group)
        assert beside <= drawn_before
        outside |= beside
        drawn_before |= set(group)
    assert outside == (set(range(5)) if name.endswith("adam") else set())


# The untouched stay untouched


@pytest.mark.parametrize("estimator", some_slow(["grpo", "rloo", "f_grpo", "power_alpha"], ["grpo"]))
def test_an_action_never_drawn_moves_by_exactly_zero_under_zero_sum_weights(estimator):
    """Bit by bit, after 200 steps of an Adam whose eps is so small that rounding noise would show."""
    rare = np.where(np.arange(40) < 20, 0.0, -30.0) + np.sin(np.arange(40)) + 3.0 * (np.arange(40) % 4 == 0)
    setting = Setting(
        (), frozenset(range(0, 40, 4)), frozenset({0}), 7, estimator, optimizer="adam",
        optimizer_parameters={"eps": 1e-20}, pass_at_k=(), top_n=0,
    )  # fmt: skip
    bank = Bank(tuple(tuple((rare + shift).tolist()) for shift in range(6)), setting, 3)
    groups, logits, _ = every_step(bank, 0, dtype="float32")
    touched = np.zeros((6, 40), bool)
    for group in groups:
        for prompt, actions in group.items():
            touched[prompt, actions] = True
    initial = np.array(bank.logits, np.float32)
    assert (~touched).sum() >= 100
    np.testing.assert_array_equal(logits[-1][~touched], initial[~touched])
    assert np.abs(logits[-1] - initial)[touched].max() > 0.1


# Exact expectations

LANES = 20_000
SMALL = Bank(
    ((0.7, -0.4, 0.2), (-1.1, 0.5, 0.9), (0.1, 0.2, -0.6)),
    Setting((), frozenset({0}), frozenset({0}), 2, "a_grae", optimizer_parameters={"learning_rate": 0.3}, top_n=0),
    2,
)
ENUMERATED = {
    "reads the batch": SMALL,
    "not zero-sum, adam": dataclasses.replace(
        SMALL,
        setting=dataclasses.replace(
            SMALL.setting, estimator="w_reinforce", optimizer="adam", rewards=(1.0, -0.5), temperature=0.8
        ),
    ),
}


def outcomes(bank):
    """Every batch of a first step with its probability, and its change of the logits."""
    p = [naive_simulator.probabilities(np.array(logits), bank.setting.temperature) for logits in bank.logits]
    batches = list(itertools.combinations(range(len(p)), bank.prompts_per_step))
    draws = list(itertools.product(range(len(p[0])), repeat=bank.setting.group_size))
    for batch in batches:
        for groups in itertools.product(draws, repeat=len(batch)):
            chance = math.prod(p[m][a] for m, group in zip(batch, groups, strict=True) for a in group) / len(batches)
            named = {m: list(group) for m, group in zip(batch, groups, strict=True)}
            memory = naive_bank.start(bank)
            yield chance, naive_bank.step(bank, memory, named).logits - memory.logits


@pytest.mark.parametrize("name", some_slow(ENUMERATED, ["reads the batch"]))
def test_the_engines_mean_change_is_the_exact_expectation(name):
    """Every batch of two of three prompts, every pair of groups of two; within 4 standard errors, for fixed seeds."""
    bank = ENUMERATED[name]
    chances, changes = map(np.array, zip(*outcomes(bank), strict=True))
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    mean = np.einsum("i,ijk->jk", chances, changes)
    error = np.sqrt(np.einsum("i,ijk->jk", chances, (changes - mean) ** 2) / LANES)

    def first_step(place, numbers, seed):
        lane = BankLane(program(bank), place, engine.lane_key(seed), numbers)
        return lane.step(jnp.int32(0), lane.start()).logits

    with jax.enable_x64(True):
        place, numbers = arrays(bank, "float64")
        after = jax.jit(jax.vmap(first_step, (None, None, 0)))(place, numbers, jnp.arange(LANES, dtype=jnp.uint32))
    found = np.asarray(after).mean(axis=0) - np.array(bank.logits)
    assert np.all(np.abs(found - mean) <= np.maximum(4 * error, 1e-9))
    assert np.abs(mean).max() > 10 * error.max()


@pytest.mark.parametrize("estimator", some_slow(["fade", "psr"], ["fade"]))
def test_a_bank_of_one_prompt_steps_as_that_prompt_alone_does(estimator):
    """Given the same group, bit by bit; its records are in law those of the dense engine, as both equal naive loops."""
    setting = dataclasses.replace(
        BASE, logits=LOGITS[0], estimator=estimator, gradient_steps=2, kl=0.2, entropy_bonus=0.1, **ADAM
    )
    bank = Bank((LOGITS[0],), setting, 1)

    def both(single, place, numbers):
        key, group = engine.lane_key(0), jnp.array([0, 1, 1, 5], jnp.int32)
        alone = Lane(engine.program(setting), single, key, numbers)
        beside = BankLane(program(bank), place, key, numbers)
        first, second = alone.start(), beside.start()
        first = alone.learn(key, first, Drawn(alone.initial, group, *alone.initial.top(0)))
        nothing = jnp.zeros((1, 0)), jnp.zeros((1, 0), jnp.int32)
        second = beside.learn(key[None], second, Drawn(beside.initial, group[None], *nothing))
        return first, second

    with jax.enable_x64(True):
        place, numbers = arrays(bank, "float64")
        first, second = jax.jit(both)(jax.tree.map(lambda values: values[0], place), place, numbers)
    np.testing.assert_array_equal(first.logits, second.logits[0])
    assert np.abs(np.asarray(first.logits) - np.array(LOGITS[0])).max() > 1e-3
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(a == b), first.estimator, second.estimator))
    assert (first.active, first.tail_missed) == (second.active, second.tail_missed)


@pytest.mark.slow
def test_one_prompt_draws_as_the_dense_engine_does():
    """Frequencies of the actions of 20,000 first groups of four, within 4 standard errors of the policy."""
    bank = Bank((LOGITS[0],), dataclasses.replace(BASE, top_n=0), 1)
    p = naive_simulator.probabilities(np.array(LOGITS[0]), 1.0)

    def group(place, numbers, seed):
        lane = BankLane(program(bank, "float32"), place, engine.lane_key(seed), numbers)
        return lane.step(jnp.int32(0), lane.start()).actions[0]

    place, numbers = arrays(bank, "float32")
    drawn = jax.jit(jax.vmap(group, (None, None, 0)))(place, numbers, jnp.arange(LANES, dtype=jnp.uint32))
    found = np.bincount(np.asarray(drawn).reshape(-1), minlength=6) / drawn.size
    assert np.all(np.abs(found - p) <= 4 * np.sqrt(p * (1 - p) / drawn.size))


# Metrics


def at_start(bank, **choices):
    """The record of step 0."""
    code = Program(2, top_n=1, **choices)
    with jax.enable_x64(code.dtype == "float64"):
        numbers = jax.tree.map(lambda value: jnp.asarray(value, code.dtype), Numbers({}, {}, {}, 1.0, 0.0))
        place = on_device(bank, code.dtype)

        def first(place):
            lane = BankLane(code, place, engine.lane_key(0), numbers)
            return lane.policy_metrics(lane.start())

        return jax.tree.map(np.asarray, jax.jit(first)(place))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float64", 1e-13)])
def test_pass_at_k_of_the_bank_is_exact_up_to_a_million_samples(dtype, tolerance):
    """And every prompt counts alike; 2^20 samples solve one of rate 3e-7 with chance .27: it counts as unsolved."""
    rates, ks = [1e-9, 3e-7, 1e-5, 0.02, 0.9], (1, 64, 2**20)
    row = at_start(prompt_bank(actions=8, solve_rates=rates), pass_at_k=ks, dtype=dtype)
    with mpmath.workdps(50):
        exact = [float(mpmath.fsum(1 - (1 - mpmath.mpf(p)) ** k for p in rates) / len(rates)) for k in ks]
    np.testing.assert_allclose(row["pass_at_k"], exact, rtol=tolerance)
    assert row["unsolved_prompts"] == 2
    np.testing.assert_allclose(row["solve_rate_histogram"], [0.8, *[0] * 8, 0.2], atol=1e-6)


@pytest.mark.parametrize(
    ("weights", "size"), [([1, 1, 1, 1], 4), ([3, 0, 0, 0], 1), ([0, 0], 0), ([3e-30, 1e-30], 1.6), ([1e30, 1e30], 2)]
)
def test_the_effective_size_is_kishs(weights, size):
    assert float(effective_size(jnp.array(weights, jnp.float32))) == pytest.approx(size, rel=1e-6)


@pytest.mark.parametrize("group_size", some_slow([1, 4], [1]))
def test_groups_that_teach_nothing_leave_the_bank_as_it_is(group_size):
    """All wrong, all right, or a single rollout: GRPO has nothing to learn from, and nothing is NaN."""
    bank = prompt_bank(actions=8, solve_rates=[1e-12, 1 - 1e-12, *[0.5] * (group_size == 1)])
    result = simulate(bank, Program(group_size, "grpo", pass_at_k=(1,), dtype="float64"), seeds=2, steps=4)
    for name in ("q_pos", "entropy", "retained_mass"):
        np.testing.assert_array_equal(result[name][:, -1], result[name][:, 0])
    for name in ("active_rate", "effective_prompts", "effective_rollouts", "success_mass", "failure_mass"):
        assert not result[name][:, 1:].any()
    assert all(np.isfinite(values[:, 1:]).all() for values in result.data_vars.values())
    assert (result.unsolved_rate[:, 1:] > 0.3).all()


# Every estimator, surrogate and optimiser

HERE = prompt_bank(prompts=6, actions=8)
DRAWING = {"estimator": "unlikeliness", "surrogate": "clip_cov", "gradient_steps": 2, "optimizer": "adamw"}
MOVING = {"estimator": "cw_grpo", "surrogate": "casp"}
ALONE = [{"estimator": name} for name in REGISTRY] + [{"surrogate": name, "gradient_steps": 2} for name in SURROGATES]


@pytest.mark.parametrize("choices", some_slow([DRAWING, MOVING, *ALONE], []), ids=str)
def test_everything_runs_on_a_bank(choices):
    """Groups are larger than k of the pass@k weights: of k rollouts there is one subset, which teaches nothing."""
    result = simulate(HERE, Program(8, prompts_per_step=3, **choices), seeds=2, steps=10, record_every=5)
    assert all(np.isfinite(values[:, 1:]).all() for values in result.data_vars.values())
    assert (result.entropy[:, -1] != result.entropy[:, 0]).all()


@pytest.mark.slow
def test_lanes_do_not_influence_each_other():
    """Eleven lanes of different seeds and numbers, in two calls of eight; reversed; and one of them alone."""
    bank = naive("not zero-sum, adam")
    code, place, recorded = program(bank), problem(bank), np.array([3, 6])
    lanes = [
        (seed, engine.numbers(dataclasses.replace(bank.setting, temperature=0.5 + seed / 10))) for seed in range(11)
    ]
    together, reverse = (run_lanes(code, place, recorded, some) for some in (lanes, lanes[::-1]))
    alone = run_lanes(code, place, recorded, lanes[7:8])
    assert len(np.unique(together["q_pos"][:, -1])) == 11
    for metric, rows in together.items():
        np.testing.assert_array_equal(rows, reverse[metric][::-1], err_msg=metric)
        np.testing.assert_array_equal(rows[7:8], alone[metric], err_msg=metric)


# The power law


def test_the_fit_finds_the_law_that_made_a_curve():
    k = 2.0 ** np.arange(21)
    for truth in ((2.0, 0.5, 3.0), (0.3, 1.5, -0.5), (5.0, 0.2, 40.0)):
        scale, exponent, shift = truth
        law = fit_shifted_power_law(k, np.exp(-scale * (k + shift) ** -exponent))
        np.testing.assert_allclose((law.scale, law.exponent, law.shift), truth, rtol=1e-4)
        np.testing.assert_allclose(law(k), np.exp(-scale * (k + shift) ** -exponent), atol=1e-9)


def test_starts_so_steep_that_they_overflow_are_passed_over():
    """A solved bank's pass@k of FADE's Figure 11, of which a line through the last points has 10^778 for its scale."""
    curve = [0.43744493, 0.63382281, 0.73834435, 0.80119572, 0.84237116, 0.87126075, 0.89273128, 0.90944689, 0.92290749]
    k, measured = np.arange(1, 11), np.array([*curve, 0.9339207])
    law = fit_shifted_power_law(k, measured)
    for name, factor in itertools.product(("scale", "exponent", "shift"), (0.99, 1.01)):
        beside = dataclasses.replace(law, **{name: factor * getattr(law, name)})
        assert np.sqrt(np.mean((beside(k) - measured) ** 2)) > law.residual


def test_the_errors_of_the_fit_are_those_of_noise():
    """The spread of fits to a curve with independent noise, against the mean of the errors each of them gives."""
    k, random = np.geomspace(1, 1000, 40), np.random.default_rng(0)
    curve = np.exp(-2 * (k + 3) ** -0.5)
    laws = [fit_shifted_power_law(k, curve + random.normal(scale=1e-3, size=40)) for _ in range(100)]
    spread = np.std([(law.scale, law.exponent, law.shift) for law in laws], axis=0)
    np.testing.assert_allclose(np.mean([law.errors for law in laws], axis=0), spread, rtol=0.25)


def test_a_results_curves_are_fitted_one_by_one():
    """On a bank of Beta(1/2, 1) solve rates, whose pass@k misses 1 by (1/2) k^-1/2 Gamma(1/2) to leading order."""
    ks = tuple(2**power for power in range(13))
    row = at_start(prompt_bank(prompts=4000, actions=6, beta_b=1.0), pass_at_k=ks)
    curves = xr.DataArray([row["pass_at_k"], np.ones(13)], {"k": list(ks)}, ("seed", "k"))
    laws = power_laws(curves)
    assert laws.exponent.dims == ("seed",)
    np.testing.assert_allclose(laws.exponent[0], 0.5, atol=0.1)
    assert laws.residual[0] < 0.01
    assert np.isnan(laws.exponent[1])
    assert "recorded at 3 k; allowed: four or more" in refusal(power_laws, curves.isel(k=slice(3)))


@pytest.mark.parametrize(
    ("k", "curve", "message"),
    [
        ([1, 2, 4], [0.1, 0.2, 0.3], "four or more different numbers"),
        ([1, 2, 4, 8], [0.1, 0.2, 0.3], "of equal length"),
        ([1, 2, 4, 8], [0.1, 0.2, 0.3, 1.5], "pass@k = 1.5 is outside"),
        ([1, 2, 4, 8], [0.1, 1, 1, 1], "at three or more"),
        ([1, 2, 4, 8], [0.4, 0.3, 0.2, 0.1], "does not rise"),
    ],
)
def test_curves_that_cannot_be_fitted_are_refused(k, curve, message):
    assert message in refusal(fit_shifted_power_law, np.array(k), np.array(curve))


# Sweeps

OPTIONS = (
    "--problem", "prompt_bank", "--param", "prompts=6", "--param", "actions=8", "--param", "prompts_per_step=2",
    "--estimator", "ha_dw", "--group-size", "4", "--learning-rate", "0.1,0.2", "--seeds", "12", "--steps", "8",
    "--record-every", "4", "--pass-at-k", "1,1048576",
)  # fmt: skip
SWEEP = asked(*OPTIONS)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    out = tmp_path_factory.mktemp("bank") / "bank.nc"
    run(SWEEP, out)
    return out


def test_the_result_of_a_bank_is_labelled_and_described(unbroken):
    dataset = read(unbroken)
    assert dataset.sizes == {
        "estimator": 1, "group_size": 1, "learning_rate": 2, "seed": 12, "step": 3, "k": 2, "rank": 5, "bin": 10
    }  # fmt: skip
    assert {name: values.attrs["long_name"] for name, values in dataset.data_vars.items()} == BANK_DESCRIPTIONS
    assert not dataset.isel(step=slice(1, None)).isnull().any().to_array().any()
    np.testing.assert_allclose(dataset.bin, np.arange(0.05, 1, 0.1))
    assert dataset.solve_rate_histogram.dims[-2:] == ("step", "bin")


def test_a_cell_is_the_simulation_of_its_program_and_numbers(unbroken):
    (cell,) = (cell for index, cell in SWEEP.cells() if index == (0, 0, 0))
    place = SWEEP.build_problem(cell)
    choices = SWEEP.program(cell), SWEEP.numbers(cell, place)
    alone = simulate(place, choices[0], numbers=choices[1], seeds=12, steps=8, record_every=4)
    within = read(unbroken).sel(estimator="ha_dw", group_size=4, learning_rate=0.1)
    for name in alone.data_vars:
        np.testing.assert_array_equal(within[name].values, alone[name].values, name)


def test_the_command_shards_merges_and_makes_a_lost_part_anew(unbroken, tmp_path, capsys):
    out = tmp_path / "bank.nc"
    for number in (1, 2):
        assert cli.main(["sweep", *OPTIONS, "--out", str(out), "--shard", f"{number}/2"]) == 0
    assert cli.main(["merge", str(out)]) == 0
    assert read(out).identical(read(unbroken))
    next(parts_folder(out).glob("*.npz")).unlink()
    capsys.readouterr()
    assert cli.main(["sweep", *OPTIONS, "--out", str(out)]) == 0
    output, complaints = capsys.readouterr()
    assert "3 of 4 units are finished already" in complaints
    assert "engine dense for G = 4" in output
    assert parts_of(out) == parts_of(unbroken)
    assert read(out).identical(read(unbroken))
    assert out.with_suffix(".png").exists()


def test_the_cost_model_counts_all_prompts_and_their_rollouts():
    costs = step_costs(Program(8, prompts_per_step=2), prompt_bank(prompts=100, actions=50), 10)
    more = step_costs(Program(8), prompt_bank(prompts=100, actions=50), 10)
    assert costs.lumped == math.inf
    assert costs.dense < more.dense


# What is refused


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prompts": -1}, "prompts = -1 is outside its range"),
        ({"actions": 4}, "actions = 4 is outside its range [5, "),
        ({"modes": 0}, "modes = 0"),
        ({"rare_modes": 5}, "rare_modes = 5 is outside its range [1, 4]"),
        ({"rare_ratio": 0.0}, "rare_ratio = 0.0 is outside its range (0, 1]"),
        ({"rare_ratio": 1.5}, "rare_ratio = 1.5"),
        ({"beta_a": 0.0}, "Beta parameter = 0.0"),
        ({"second_share": 1.5}, "second_share = 1.5"),
        ({"margin": 0.6}, "margin = 0.6"),
        ({"solve_rates": [0.5, 1.5]}, "solve rate 1 = 1.5 is outside its range [0, 1]"),
        ({"solve_rates": [0.5, float("nan")]}, "solve rate 1 = nan"),
        ({"solve_rates": [0.5, 1.0]}, "solve rate 1 is 1; allowed: from 1e-30 to below 1, or a margin such as"),
        ({"beta_a": 0.01}, "solve rate 0 is "),
        ({"solve_rates": "nowhere.txt"}, "solve_rates = 'nowhere.txt' is neither a list of numbers nor a file"),
        ({"prompts": 2**20, "actions": 2**10}, "prompts x actions = 1073741824"),
        ({"reward_correct": 0.0}, "reward_correct = 0.0"),
    ],
    ids=str,
)
def test_a_bank_that_cannot_be_is_refused_with_what_is_allowed(parameters, message):
    assert message in refusal(prompt_bank, **parameters)


def test_a_file_without_a_number_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    assert "holds no number" in refusal(prompt_bank, solve_rates=str(tmp_path / "empty.txt"))


YES, NO = np.ones((2, 3), bool), np.zeros((2, 3), bool)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((np.zeros(3), YES[0], YES[0]), "allowed: one shape (prompts, actions)"),
        ((np.zeros((2, 3)), YES, YES[:1]), "allowed: one shape (prompts, actions)"),
        ((np.array([[0, 0, 0], [0, np.inf, 0]]), YES, YES), "prompt 1: logit 1 is inf"),
        ((np.zeros((2, 3)), np.array([YES[0], NO[0]]), YES), "prompt 1: the correct set is empty"),
        ((np.zeros((2, 3)), YES, np.array([NO[0], YES[0]])), "prompt 0: the target set must be"),
    ],
)
def test_arrays_that_are_no_bank_are_refused(arrays, message):
    with pytest.raises((InputError, TypeError)) as error:
        PromptBank(*arrays)
    assert isinstance(error.value, TypeError) or message in str(error.value)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"engine": "lumped"}, "engine = 'lumped' does not run a bank of prompts; allowed: auto, dense"),
        ({"prompts_per_step": 7}, "prompts_per_step = 7 is outside its range [0, 6]"),
        ({"top_n": 9}, "top_n = 9 is outside its range [0, 8]"),
        ({"surrogate": "casp", "surrogate_choices": (("candidates", 9),)}, "candidates = 9"),
    ],
)
def test_programs_that_no_bank_can_run_are_refused(choices, message):
    assert message in refusal(simulate, HERE, Program(4, **choices))


def test_a_single_policy_has_one_prompt(tmp_path):
    two = asked("--param", "prompts_per_step=2", "--param", "actions=20", "--param", "correct=2")
    assert "prompts_per_step = 2 is outside its range [0, 1]" in refusal(run, two, tmp_path / "sweep.nc")

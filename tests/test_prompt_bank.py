"""A bank of prompts: its start, the draws and moves of its prompts, exact quantities, and refusals.

test_problem_contract.py has the properties of every problem.
"""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import xarray as xr
from problem_contract import KINDS, ROWS, Bench, key_of
from refusals import refusal

from simlab.arms import parse
from simlab.errors import InputError
from simlab.problems import PromptBank, prompt_bank
from simlab.problems.prompt_bank import beta_rates
from simlab.simulator.learner import Learner
from simlab.simulator.runner import simulate
from simlab.simulator.settings import Settings
from simlab.simulator.storage import DENSE, StoredProblem
from simlab.simulator.trajectory import policy_records
from simlab.theory.power_law import fit_shifted_power_law, power_laws


@pytest.mark.parametrize("rare_modes", [1, 3, 4])
def test_prompts_start_at_their_solve_rates_with_rare_and_common_modes(rare_modes):
    rates = [1e-9, 0.02, 0.5, 1 - 1e-6]
    bank = prompt_bank(actions=9, solve_rates=rates, modes=4, rare_modes=rare_modes, rare_ratio=0.1).listed()
    p = np.exp(bank.logits) / np.exp(bank.logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.where(bank.correct, p, 0).sum(axis=1), rates, rtol=1e-12)
    np.testing.assert_allclose(bank.solve_rates, rates, rtol=1e-12)
    assert bank.correct.sum(axis=1).tolist() == [4] * 4
    assert bank.target.sum(axis=1).tolist() == [rare_modes] * 4
    for policy, correct, target in zip(p, bank.correct, bank.target, strict=True):
        assert np.ptp(policy[~correct]) == np.ptp(policy[target]) == 0
        if rare_modes < 4:
            np.testing.assert_allclose(policy[target][0], 0.1 * policy[correct & ~target], rtol=1e-12)


def test_the_solve_rates_of_a_beta_are_its_quantiles():
    """Beta(1/2, 1/2) has the distribution function (2 / pi) asin(sqrt(p)), Beta(3, 1) has p^3."""
    middle = (np.arange(64) + 0.5) / 64
    np.testing.assert_allclose(prompt_bank().solve_rates, np.sin(np.pi / 2 * middle) ** 2, rtol=1e-12)
    np.testing.assert_allclose(beta_rates(5, 3.0, 1.0), ((np.arange(5) + 0.5) / 5) ** (1 / 3), rtol=1e-12)


def test_measured_solve_rates_come_from_a_file(tmp_path):
    path = tmp_path / "rates.txt"
    np.savetxt(path, [0.5, 0.0, 1.0, 0.25])
    bank = prompt_bank(solve_rates=str(path), margin=0.125)
    np.testing.assert_allclose(bank.solve_rates, [0.5, 0.125, 0.875, 0.25], rtol=1e-12)
    np.testing.assert_allclose(
        prompt_bank(prompts=2, solve_rates=str(path), margin=0.125).solve_rates, [0.125, 0.5], rtol=1e-12
    )


OWN = ROWS["prompt_bank"]
STEPS = 200


def test_a_batch_holds_different_prompts_and_all_prompts_come():
    seen = [frozenset(groups) for groups in Bench(OWN, KINDS["rewards"], "dense").run(3, STEPS).groups]
    assert {len(batch) for batch in seen} == {2}
    assert len(set(seen)) == math.comb(4, 2)
    counts = np.array([sum(prompt in batch for batch in seen) for prompt in range(4)])
    assert np.all(np.abs(counts - STEPS * 0.5) < 4 * math.sqrt(STEPS * 0.5 * 0.5))


@pytest.mark.slow
def test_minibatches_of_all_prompts_are_parts_of_another_order_at_each_step():
    """The 24 orders of four prompts are equally likely, to 4 standard errors."""
    orders = [tuple(groups) for groups in Bench(OWN, KINDS["all prompts in minibatches"], "dense").run(3, STEPS).groups]
    assert {frozenset(order) for order in orders} == {frozenset(range(4))}
    counts = np.array([orders.count(order) for order in itertools.permutations(range(4))])
    assert np.all(np.abs(counts - STEPS / 24) < 4 * math.sqrt(STEPS / 24))


def test_minibatches_that_do_not_divide_the_prompts_are_refused():
    wanted = "minibatches = 3 of 4 prompts a step; allowed: whole numbers that divide it"
    with pytest.raises(InputError, match=wanted):
        simulate(OWN.problem, "grpo", minibatches=3, steps=1)
    with pytest.raises(InputError, match="minibatches = 2 of 1 prompts a step"):
        simulate(ROWS["custom"].problem, "grpo", minibatches=2, steps=1)


def at_start(bank, ks, dtype="float32"):
    """The record of step 0."""
    settings = Settings(parse("grpo"), 2, pass_at_k=ks, top_n=1, dtype=dtype, storage="dense")
    with jax.enable_x64(dtype == "float64"):
        traced = jax.tree.map(lambda value: jnp.asarray(value, dtype), settings.traced)

        def first(laid):
            learner = Learner(settings.static, StoredProblem(laid, DENSE, None), key_of(0), traced)
            return policy_records(learner, learner.start())

        return jax.tree.map(np.asarray, jax.jit(first)(DENSE.load(bank, dtype)))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float64", 1e-13)])
def test_pass_at_k_of_the_bank_is_exact_up_to_a_million_samples(dtype, tolerance):
    """Every prompt counts alike; 2^20 samples solve one of rate 3e-7 with chance .27: it counts as unsolved."""
    rates, ks = [1e-9, 3e-7, 1e-5, 0.02, 0.9], (1, 64, 2**20)
    row = at_start(prompt_bank(actions=8, solve_rates=rates), ks, dtype)
    with mpmath.workdps(50):
        exact = [float(mpmath.fsum(1 - (1 - mpmath.mpf(p)) ** k for p in rates) / len(rates)) for k in ks]
    np.testing.assert_allclose(row["pass_at_k"], exact, rtol=tolerance)
    assert row["unsolved_prompts"] == 2
    np.testing.assert_allclose(row["solve_rate_histogram"], [0.8, *[0] * 8, 0.2], atol=1e-6)


def test_the_fit_finds_the_law_that_made_a_curve():
    k = 2.0 ** np.arange(21)
    for truth in ((2.0, 0.5, 3.0), (0.3, 1.5, -0.5), (5.0, 0.2, 40.0)):
        scale, exponent, shift = truth
        law = fit_shifted_power_law(k, np.exp(-scale * (k + shift) ** -exponent))
        np.testing.assert_allclose((law.scale, law.exponent, law.shift), truth, rtol=1e-4)
        np.testing.assert_allclose(law(k), np.exp(-scale * (k + shift) ** -exponent), atol=1e-9)


def test_starts_so_steep_that_they_overflow_are_passed_over():
    """A line through the last points of a solved bank's pass@k, FADE's Figure 11, has 10^778 for its scale."""
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
    row = at_start(prompt_bank(prompts=4000, actions=6, beta_b=1.0), ks)
    curves = xr.DataArray([row["pass_at_k"], np.ones(13)], {"k": list(ks)}, ("seed", "k"))
    laws = power_laws(curves)
    assert laws.exponent.dims == ("seed",)
    np.testing.assert_allclose(laws.exponent[0], 0.5, atol=0.1)
    assert laws.residual[0] < 0.01
    assert np.isnan(laws.exponent[1])
    assert "recorded at 3 k; allowed: four or more" in refusal(power_laws, curves.isel(k=slice(3)))


def test_curves_that_cannot_be_fitted_are_refused():
    for k, curve, message in (
        ([1, 2, 4], [0.1, 0.2, 0.3], "four or more different numbers"),
        ([1, 2, 4, 8], [0.1, 0.2, 0.3], "of equal length"),
        ([1, 2, 4, 8], [0.1, 0.2, 0.3, 1.5], "pass@k = 1.5 is outside"),
        ([1, 2, 4, 8], [0.1, 1, 1, 1], "at three or more"),
        ([1, 2, 4, 8], [0.4, 0.3, 0.2, 0.1], "does not rise"),
    ):
        assert message in refusal(fit_shifted_power_law, np.array(k), np.array(curve))


REFUSED = [
    ({"prompts": -1}, "prompts = -1 is outside its range"),
    ({"actions": 4}, "actions = 4 is outside its range [5, "),
    ({"rare_modes": 5}, "rare_modes = 5 is outside its range [1, 4]"),
    ({"rare_ratio": 0.0}, "rare_ratio = 0.0 is outside its range (0, 1]"),
    ({"beta_a": 0.0}, "Beta parameter = 0.0"),
    ({"margin": 0.6}, "margin = 0.6"),
    ({"solve_rates": [0.5, 1.5]}, "solve rate 1 = 1.5 is outside its range [0, 1]"),
    ({"solve_rates": [0.5, 1.0]}, "solve rate 1 is 1; allowed: from 1e-30 to below 1, or a margin such as"),
    ({"beta_a": 0.01}, "solve rate 0 is "),
    ({"solve_rates": "nowhere.txt"}, "solve_rates = 'nowhere.txt' is neither a list of numbers nor a file"),
    ({"reward_correct": 0.0}, "reward_correct = 0.0"),
]


def test_a_bank_that_cannot_be_is_refused_with_what_is_allowed():
    for parameters, message in REFUSED:
        assert message in refusal(prompt_bank, **parameters)


YES, NO = np.ones((2, 3), bool), np.zeros((2, 3), bool)


def test_arrays_that_are_no_bank_are_refused():
    for arrays, message in (
        ((np.zeros(3), YES[0], YES[0]), "allowed: one shape (prompts, actions)"),
        ((np.array([[0, 0, 0], [0, np.inf, 0]]), YES, YES), "prompt 1: logit 1 is inf"),
        ((np.zeros((2, 3)), np.array([YES[0], NO[0]]), YES), "prompt 1: the correct set is empty"),
        ((np.zeros((2, 3)), YES, np.array([NO[0], YES[0]])), "prompt 0: the target set must be"),
    ):
        with pytest.raises((InputError, TypeError)) as error:
            PromptBank(*arrays)
        assert isinstance(error.value, TypeError) or message in str(error.value)

"""Easy and hard prompts that share features: how they start, the phenomenon itself, and what is refused.

What holds of every problem, every record among it, is in test_problem_contract.py.
"""

import math

import jax.numpy as jnp
import naive_simulator
import numpy as np
import pytest
from refusals import refusal

import simlab
from simlab.problems import PromptBank, interference
from simlab.simulator.head_metrics import crossing


def policies(problem):
    listed = problem.listed()
    return np.array([naive_simulator.probabilities(logits, 1.0) for logits in listed.features @ listed.weights.T])


def test_prompts_start_at_their_solve_rates_with_the_shared_answer_or_their_own():
    problem = interference(
        6, 30, conflict=0.5, easy_share=1 / 3, easy_rate=0.6, hard_rate=1e-3, rare_modes=2, rare_ratio=0.1,
        distractor_share=0.4,
    )  # fmt: skip
    p, correct = policies(problem), problem.listed().correct
    np.testing.assert_allclose(problem.solve_rates, [0.6, 0.6, *[1e-3] * 4], rtol=1e-9)
    assert problem.hard.tolist() == [False, False, True, True, True, True]
    mains = [0, 0, 1, 0, 2, 0]  # prompts 2 and 4 have answers of their own
    for prompt, main in enumerate(mains):
        rare = [3 + 2 * prompt, 4 + 2 * prompt]
        assert np.flatnonzero(correct[prompt]).tolist() == sorted([main, *rare])
        assert np.flatnonzero(problem.listed().target[prompt]).tolist() == rare
        expected = np.zeros(30)
        wrong = [a for a in range(30) if a not in (main, *rare)]
        rate = problem.solve_rates[prompt]
        if main:
            expected[wrong] = (1 - rate) * 0.6 / (len(wrong) - 1)
            expected[0] = (1 - rate) * 0.4
        else:
            expected[wrong] = (1 - rate) / len(wrong)
        expected[main], expected[rare] = rate / 1.2, rate * 0.1 / 1.2
        np.testing.assert_allclose(p[prompt], expected, rtol=1e-9)


@pytest.mark.parametrize("overlap", [-1.0, -0.3, 0.0, 0.5, 1.0])
def test_the_cosine_of_an_easy_and_a_hard_prompt_is_the_overlap(overlap):
    problem = interference(4, overlap=overlap)
    kinds = np.equal.outer(problem.hard, problem.hard)
    wanted = np.where(np.eye(4) > 0, 1, np.where(kinds, abs(overlap), overlap))
    np.testing.assert_allclose(problem.kernel, wanted, atol=1e-12)


@pytest.mark.parametrize("suffix", [".npy", ".txt"])
def test_features_from_a_file_are_taken_as_they_are(tmp_path, suffix):
    rows, path = np.random.default_rng(0).normal(size=(4, 3)), tmp_path / f"features{suffix}"
    np.save(path, np.asfortranarray(rows)) if suffix == ".npy" else np.savetxt(path, rows)
    np.testing.assert_allclose(interference(4, overlap=0.0, features=str(path)).kernel, rows @ rows.T)


def test_hard_prompts_are_those_with_the_lowest_solve_rates_wherever_they_come_from():
    problem = interference(solve_rates=[0.2, 0.7, 0.1, 0.4, 0.05], easy_share=0.4)
    assert problem.hard.tolist() == [True, False, True, False, True]
    beta = interference(8, solve_rates="beta", beta_a=2.0, beta_b=5.0)
    assert isinstance(beta.tabular, PromptBank)
    assert (np.diff(beta.solve_rates) > 0).all()
    assert beta.hard.tolist() == [True] * 4 + [False] * 4
    # Quantiles 1/4 and 3/4 of the log-uniform distribution from 1e-4 to 1.
    np.testing.assert_allclose(
        interference(2, solve_rates="log-uniform", hard_rate=1e-4, easy_rate=0.9999).solve_rates, [1e-3, 0.1], rtol=1e-3
    )


GOLDEN = (1 + 5**0.5) / 2


def test_curves_cross_at_the_k_that_can_be_found_by_hand():
    for base, now, k in (
        ([0.5, 0.5], [0.5, 0.5], math.inf),
        ([0.5, 0.1], [0.6, 0.2], math.inf),
        ([0.5, 0.1], [0.4, 0.1], 1.0),
        ([0.5, 0.0], [1.0, 0.0], math.inf),
        ([0.2, 0.36], [1.0, 0.0], math.log(GOLDEN) / math.log(1.25)),  # .8^k + .64^k = 1
        ([0.3, 1e-4], [0.30001, 1e-4 * (1 - 1e-7)], math.inf),  # by less than float32 can tell
    ):
        assert float(crossing(jnp.array(base), jnp.array(now))) == pytest.approx(k, rel=1e-4)


def trained(method, overlap=0.3, seeds=32, **changes):
    """The set-up of the trial that the problem was made for: 400 plain steps of rate 1, G = 8, all prompts a step."""
    settings = {"group_size": 8, "steps": 400, "record_every": 200, "optimizer": "sgd", "pass_at_k": (1, 4, 256)}
    rate = {"learning_rate": 1.0}
    problem = interference(overlap=overlap, **changes)
    return simlab.simulate(problem, method, seeds=seeds, optimizer_parameters=rate, **settings)


def mean_and_error(values):
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


@pytest.mark.slow
def test_pass_at_1_rises_and_pass_at_256_falls_below_the_base_model_where_features_overlap_and_answers_conflict():
    """By 20 standard errors and more; without overlap, or without conflict, neither curve falls."""
    end = trained("grpo").isel(step=-1)
    for k, sign in ((1, 1), (4, 1), (256, -1)):
        gain, error = mean_and_error(end.pass_at_k_gain.sel(k=k))
        assert sign * gain > 20 * error
    of_hard, error = mean_and_error(end.pass_at_k_by_kind.sel(kind="hard", k=256))
    assert of_hard + 20 * error < 1 - 0.99**256
    assert (end.pass_at_k_by_kind.sel(kind="easy", k=256) > 0.999).all()
    assert ((end.crossing_k > 4) & (end.crossing_k < 256)).all()
    for harmless in ({"overlap": 0.0}, {"conflict": 0.0}):
        gains = trained("grpo", seeds=8, **harmless).isel(step=-1).pass_at_k_gain
        assert (gains > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(("overlap", "sign"), [(0.3, -1), pytest.param(-0.3, 1, marks=pytest.mark.slow)])
def test_what_easy_prompts_do_to_hard_ones_has_the_opposite_sign_of_the_overlap(overlap, sign):
    """In the first ten steps, by 20 standard errors; and a step does what first order says, but for a hundredth."""
    problem, rate = interference(overlap=overlap), {"learning_rate": 0.1}
    result = simlab.simulate(
        problem, "grpo", steps=10, record_every=1, seeds=32, optimizer="sgd", optimizer_parameters=rate
    )
    pair = {"source": "easy", "kind": "hard"}
    first_order, measured = (result[name].sel(pair)[:, 1:] for name in ("effect", "effect_measured"))
    gain, error = mean_and_error(first_order.mean("step"))
    assert sign * gain > 20 * error
    np.testing.assert_allclose(measured, first_order, rtol=0.01, atol=1e-5)


REFUSED = [
    ({"overlap": 1.5}, "overlap = 1.5 is outside its range [-1, 1]"),
    ({"conflict": -0.1}, "conflict = -0.1 is outside its range [0, 1]"),
    ({"actions": 17}, "actions = 17 is outside its range [18, "),
    ({"distractor_share": 1.0}, "distractor_share = 1.0 is outside its range"),
    ({"hard_rate": 0.0}, "solve rate 16 is 0; allowed: from 1e-30 to below 1"),
    ({"dimension": 3}, "dimension = 3 and feature_seed = 0 are of random features, not 'own'"),
    ({"features": "nowhere.npy"}, "features = 'nowhere.npy' is neither a list of numbers nor a file of them"),
    ({"solve_rates": "nowhere.txt"}, "solve_rates = 'nowhere.txt' is neither a list of numbers nor a file of them"),
]


def test_bad_input_is_one_line():
    for changes, line in REFUSED:
        assert refusal(interference, **changes).startswith(line)

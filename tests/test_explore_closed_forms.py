"""The closed forms of the page, in JavaScript, against the functions of the library, at hundreds of points."""

import itertools
import math

import numpy as np
import pytest
from explorer_cases import browsing, explorer, watched

from simlab.explore.description import description
from simlab.problems.exact import pass_at_k
from simlab.problems.prompt_bank import prompt_bank
from simlab.problems.tree import tree
from simlab.theory import (
    CLOSED_FORMS,
    active,
    closed_form,
    conditional_tail_miss,
    correct_mass_change,
    first_order_change,
    logit_update,
    tail_miss,
    unsampled_correct_mass_change,
)

pytestmark = pytest.mark.browser

RATES = np.concatenate([[0, 1, 0.5, 1e-9, 1 - 1e-9, 1e-4], np.random.default_rng(0).uniform(size=9)])


@pytest.fixture(scope="module")
def called():
    """Calls an exported function of a module of the page with each of many lists of arguments, after shared ones."""
    with browsing() as browser, explorer() as server, watched(browser, server.address) as found:
        found.open(server.address)
        handles = {}

        def call(module, name, arguments, *shared):
            if module not in handles:
                address = f"{server.address}page/{module}.js"
                handles[module] = found.page.evaluate_handle(f"() => import('{address}')")
            # Numbers that JSON has no word for travel as themselves in Playwright's own encoding.
            return handles[module].evaluate(
                "(module, [name, shared, all]) => all.map((own) => module[name](...shared, ...own))",
                [name, list(shared), arguments],
            )

        yield call


def close(found, expected, rtol=1e-12, atol=1e-300):
    np.testing.assert_allclose(np.array(found, dtype=float), np.array(expected, dtype=float), rtol=rtol, atol=atol)


def tail_points():
    """Group sizes, correct and target masses, with the limits 0 and 1 and target equal to the correct mass."""
    generator = np.random.default_rng(1)
    masses = [0.0, 1e-12, 0.3, 0.999999, 1.0, *generator.uniform(size=4)]
    shares = [0.0, 1e-9, 0.5, 1.0]
    return [[size, mu, mu * share] for size, mu, share in itertools.product([1, 2, 3, 17, 1024, 2**17], masses, shares)]


def test_tail_miss_and_its_parts(called):
    points = tail_points()
    size, mu, tau = np.array(points).T
    assert len(points) > 200
    close(called("tail_miss", "tailMiss", points), tail_miss(size, mu, tau), rtol=1e-11)
    close(called("tail_miss", "active", [point[:2] for point in points]), active(size, mu), rtol=1e-11)
    close(called("tail_miss", "conditionalTailMiss", points), conditional_tail_miss(size, mu, tau), rtol=1e-11)


def test_the_terms_of_the_lemma_add_up_to_it(called):
    points = [[size, mu, mu * 0.1] for size in (2, 5, 40) for mu in (0.1, 0.5, 0.9)]
    terms = np.array(called("tail_miss", "lemmaTerms", points))
    size, mu, tau = np.array(points).T
    close(terms[:, 0] - terms[:, 1] - terms[:, 2], tail_miss(size, mu, tau), rtol=1e-9)


@pytest.mark.parametrize("name", sorted(CLOSED_FORMS))
def test_masses_of_every_estimator_with_a_closed_form(called, name):
    told = description(server=False)["estimators"]
    defaults = {other: own["defaults"] for other, own in told.items()}
    variants = [{}] + [
        {key: int(value) if own["whole"] else value}
        for key, own in told[name]["parameters"].items()
        for value in (own["choices"] or (own["low"], own["high"], (own["low"] + own["high"]) / 2))
        if own["choices"] or not own["whole"] or float(value).is_integer()
    ]
    points, expected = [], []
    for given, size in itertools.product(variants, (1, 2, 7, 33, math.inf)):
        if math.isinf(size) and "pass_at_k_tang" in (name, given.get("base")):
            continue
        rates = RATES if math.isinf(size) else np.arange(size + 1) / size
        expected += np.stack(closed_form(name, rates, size, **given), axis=1).tolist()
        points += [[name, given, rate, size] for rate in rates.tolist()]
    close(called("masses", "masses", points, defaults), expected, rtol=1e-10, atol=1e-14)


def test_which_estimators_have_a_limit_of_large_groups(called):
    defaults = {name: own["defaults"] for name, own in description(server=False)["estimators"].items()}
    found = called("masses", "hasLimit", [[name, {}] for name in sorted(CLOSED_FORMS)], defaults)
    without = [name for name, limit in zip(sorted(CLOSED_FORMS), found, strict=True) if not limit]
    assert without == ["log_mean_exp", "pass_at_k_tang", "softmax"]
    assert called("masses", "hasLimit", [["f_grpo", {"base": "softmax"}]], defaults) == [False]


def steps(count):
    """Random policies, correct and sampled sets, and rewards; the last of them all sampled, or all correct."""
    generator = np.random.default_rng(2)
    for number in range(count):
        actions = int(generator.integers(2, 17))
        policy = generator.dirichlet(np.full(actions, 0.5))
        correct, sampled = generator.uniform(size=(2, actions)) < 0.5
        sampled[generator.integers(actions)] = True
        if number % 10 == 0:
            sampled[:] = True
        if number % 10 == 1:
            correct[:] = number % 20 == 1
        rewards = float(generator.uniform(0, 2)), -float(generator.uniform(0, 2))
        yield policy, correct, sampled, rewards, float(generator.uniform(0.1, 9)), int(generator.integers(16, 40))


def test_redistribution_term_by_term(called):
    arguments, expected = [], []
    for policy, correct, sampled, (right, wrong), rate, size in steps(200):
        options = {"correct_reward": right, "incorrect_reward": wrong, "learning_rate": rate, "group_size": size}
        step = {
            "policy": policy.tolist(), "correct": correct.tolist(), "sampled": sampled.tolist(), "rewardCorrect": right,
            "rewardIncorrect": wrong, "learningRate": rate, "groupSize": size,
        }  # fmt: skip
        arguments.append([step])
        update = logit_update(policy, correct, sampled, **options)
        expected.append(
            (
                update,
                first_order_change(policy, update),
                correct_mass_change(policy, correct, sampled, **options),
                unsampled_correct_mass_change(policy, correct, sampled, **options),
            )
        )
    updates = called("redistribution", "logitUpdate", arguments)
    moved = [[step["policy"], update] for (step,), update in zip(arguments, updates, strict=True)]
    changes = called("redistribution", "firstOrderChange", moved)
    gained = called("redistribution", "correctMassTerms", arguments)
    lost = called("redistribution", "unsampledCorrectTerms", arguments)
    for number, (update, change, correct_change, unsampled_change) in enumerate(expected):
        close(updates[number], update, rtol=1e-9, atol=1e-14)
        close(changes[number], change, rtol=1e-9, atol=1e-14)
        close(sum(gained[number]), correct_change, rtol=1e-9, atol=1e-14)
        close(sum(lost[number]), unsampled_change, rtol=1e-9, atol=1e-14)


def banks(count):
    generator = np.random.default_rng(3)
    for _ in range(count):
        low, high = np.log(0.05), np.log(20)
        a, b, second_a, second_b = np.exp(generator.uniform(low, high, size=4)).tolist()
        share = float(generator.choice([0.0, 1.0, 0.5, generator.uniform()]))
        yield {
            "prompts": int(generator.integers(1, 100)), "beta_a": a, "beta_b": b, "second_a": second_a,
            "second_b": second_b, "second_share": share,
        }  # fmt: skip


def test_solve_rates_and_pass_at_k_of_a_bank(called):
    modes = {"modes": 5, "rare_modes": 2, "rare_ratio": 0.05}
    cases = list(banks(25))
    found = called("bank", "solveRates", [[case] for case in cases])
    (share,) = called("bank", "rareShare", [[modes]])
    for case, rates in zip(cases, found, strict=True):
        bank = prompt_bank(margin=1e-6, **modes, **case).listed()
        close(rates, bank.solve_rates, rtol=1e-8)
        close(1 - np.array(rates), 1 - bank.solve_rates, rtol=1e-8)
        weights = np.exp(bank.logits)
        close(share * np.array(rates), (weights * bank.target).sum(1) / weights.sum(1), rtol=1e-8)
        ks = [1, 3, 64, 2**20]
        expected = [pass_at_k(bank.solve_rates, k).mean() for k in ks]
        close(called("bank", "bankPassAtK", [[rates, k] for k in ks]), expected, rtol=1e-8)


def test_probabilities_of_a_tree(called):
    generator = np.random.default_rng(4)
    logits = [generator.normal(scale=scale, size=(21, 4)) for scale in (0, 1, 30) for _ in range(5)]
    policies = called("tree", "softmaxNodes", [[own.tolist()] for own in logits])
    leaves = called("tree", "leaves", [[own] for own in policies])
    for own, found in zip(logits, leaves, strict=True):
        close(found, np.exp(tree(logits=own.reshape(-1)).leaf_logp), rtol=1e-10, atol=1e-200)
    words = called("tree", "word", [[leaf, 3, 4] for leaf in range(64)])
    assert [words[leaf] for leaf in tree().modes] == tree().mode_words


def test_the_policy_of_one_step_is_geometric(called):
    (found,) = called("redistribution", "geometric", [[4, 0.6, 0.5]])
    close(found, 0.6 * np.array([8, 4, 2, 1]) / 15)

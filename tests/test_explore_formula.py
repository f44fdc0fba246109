"""A weight written as a formula: read, evaluated and refused by Python, without running anything as code."""

import math
import random

import numpy as np
import pytest

import simlab
from simlab.constructors import estimator_constructor
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.estimators.registry import forget
from simlab.explore.formula import (
    FUNCTIONS,
    MOST_REGISTERED,
    NAMES,
    TAG,
    evaluate,
    has_g,
    python_lines,
    read,
    register_formula,
)
from simlab.explore.weights import arm_text, hold_weight, read_weight


@pytest.fixture(autouse=True)
def _registry_as_before():
    """Other tests go through all registered estimators."""
    yield
    for name in [name for name, entry in REGISTRY.items() if entry.tag == TAG]:
        forget(name)


# Formulas, and the same numbers by hand for a rollout of reward r in a group of G of which X are correct.
FORMULAS = {
    "r - p": lambda r, X, G, g: r - X / G,
    "(1 - p)^g * (r - p)/s": lambda r, X, G, g: (1 - X / G) ** g * (r - X / G) / math.sqrt(X / G * (1 - X / G)),
    "-2^2": lambda r, X, G, g: -4.0,
    "2^3^2 / 8": lambda r, X, G, g: 64.0,
    "1 - 2 - 3": lambda r, X, G, g: -4.0,
    "8 / 4 / 2": lambda r, X, G, g: 1.0,
    "min(G, 3) + max(p, q)": lambda r, X, G, g: min(G, 3) + max(X / G, 1 - X / G),
    "sqrt(abs(r - p)) * exp(-p) + log(G)": lambda r, X, G, g: (
        math.sqrt(abs(r - X / G)) * math.exp(-X / G) + math.log(G)
    ),
    "r*1.5e0 - .5": lambda r, X, G, g: 1.5 * r - 0.5,
    "--r": lambda r, X, G, g: float(r),
}
GROUPS = [[1.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0], [1.0] * 3 + [0.0] * 13]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("g", [0.0, 0.5, 2.0])
def test_a_formula_weighs_every_rollout_as_by_hand(formula, g):
    weight = f"={formula}@g={g}" if has_g(read(formula)) else f"={formula}"
    name, parameters = read_weight(weight)
    for group in GROUPS:
        expected = [FORMULAS[formula](r, sum(group), len(group), g) for r in group]
        np.testing.assert_allclose(simlab.advantages(name, np.array(group), **parameters), expected, rtol=1e-13)


def test_what_is_not_finite_counts_as_nothing():
    for formula in ("(r - p)/s", "log(p - 1)", "1/0", "(p - 2)^0.5", "exp(exp(99))"):
        name, parameters = read_weight(f"={formula}")
        with np.errstate(all="ignore"):
            assert simlab.advantages(name, np.ones(4), **parameters).tolist() == [0.0] * 4


def test_the_focal_weight_as_a_formula_is_f_grpo():
    group = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    name, parameters = read_weight("=(1 - p)^g * (r - p)/s@g=0.5")
    built = simlab.advantages("f_grpo", group, gamma=0.5)
    np.testing.assert_allclose(simlab.advantages(name, group, **parameters), built, rtol=1e-5)  # grpo adds eps to s


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "formula '' cannot be read; allowed: p, q, r, s, G, g, numbers, "),
        ("p +", "formula 'p +' cannot be read"),
        ("p p", "cannot be read"),
        ("__import__('os').system('true')", "cannot be read at character 1"),
        ("p.__class__", "cannot be read at character 2"),
        ("sqrt(p, q)", "cannot be read"),
        ("min(p)", "cannot be read"),
        ("min", "cannot be read"),
        ("p(q)", "cannot be read"),
        ("p//q", "cannot be read"),
        ("p, q", "cannot be read"),
        ("(p", "cannot be read"),
        ("1e999", "cannot be read"),
        ("p" + "+p" * 200, "is too long; allowed: up to 200 characters"),
    ],
)
def test_what_is_no_formula_is_refused_in_one_line(text, reason):
    with pytest.raises(InputError) as caught:
        read(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_any_text_is_a_formula_or_is_refused_in_one_line():
    moments, signs = random.Random(0), [*NAMES, *FUNCTIONS, *"+-*/^(),. 12e@=;&x'\"\0é", "1e9", "__"]
    trees, refusals = [], []
    for _ in range(3000):
        text = "".join(moments.choice(signs) for _ in range(moments.randrange(1, 8)))
        try:
            trees.append(read(text))
        except InputError as error:
            refusals.append(str(error))
    assert len(trees) > 50
    assert len(refusals) > 1000
    assert not any("\n" in line for line in refusals)
    half = np.array([0.5])
    for tree in trees:
        with np.errstate(all="ignore"):
            assert np.isfinite(evaluate(tree, half, half, half, half)).all()


def test_few_formulas_are_registered_at_a_time_and_one_that_was_forgotten_comes_back():
    first, _ = register_formula("=p * 0.125")
    for number in range(MOST_REGISTERED):
        register_formula(f"=p + {number}")
    kept = [name for name, entry in REGISTRY.items() if entry.tag == TAG]
    assert len(kept) == MOST_REGISTERED
    assert first not in REGISTRY
    assert register_formula("=p * 0.125")[0] == first
    assert first in REGISTRY


def test_the_text_of_a_formula_is_kept_and_its_number_held_to_what_is_allowed():
    assert hold_weight("=  p^g@g=1.50", closed=True) == ("=p^g@g=1.5", "")
    assert hold_weight("=p@g=3", closed=False) == ("=p", "")
    assert arm_text("grpo") == "grpo"
    assert arm_text("=p^g@g=1.5").endswith("(g=1.5)")
    with pytest.raises(InputError, match=r"g = '-1' is not allowed; allowed: \[0, 8\]"):
        hold_weight("=p^g@g=-1", closed=True)


@pytest.mark.parametrize(
    "formula", ["(1 - p)^g * (r - p)/s", "min(G, 3) + max(p, q)", "sqrt(abs(r - p)) * exp(-p) + log(G)"]
)
def test_the_python_lines_of_a_formula_make_the_estimator_that_it_is(formula, tmp_path):
    weight = f"={formula}@g=0.5" if has_g(read(formula)) else f"={formula}"
    (tmp_path / "mine.py").write_text(python_lines(weight))
    own = estimator_constructor(f"{tmp_path}/mine.py:weight")()
    for group in GROUPS:
        expected = [FORMULAS[formula](r, sum(group), len(group), 0.5) for r in group]
        np.testing.assert_allclose(simlab.advantages(own, np.array(group)), expected, rtol=1e-12)

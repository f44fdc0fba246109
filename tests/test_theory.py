"""Exact facts of a weight: its scale, its variance, and the other weights that it equals up to a pace."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import figures
from figures.shared import clock_table
from simlab import estimator
from simlab.errors import InputError
from simlab.estimators import REGISTRY, chain, stateless
from simlab.theory import clock
from simlab.theory.likeness import alike
from simlab.theory.weight_variance import focal_scale, peak_constant, power_alpha_variance, weight_variance

# Learning rates and variances of a weight


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 3.7])
def test_it_is_the_average_reduction_of_the_advantages_over_the_solve_rate(gamma):
    """A midpoint sum over p of sqrt(p (1 - p)) (1 - p)^gamma, over that without the focal weight."""
    p = (np.arange(200_000) + 0.5) / 200_000
    size = np.sqrt(p * (1 - p))
    assert focal_scale(gamma) == pytest.approx((size * (1 - p) ** gamma).sum() / size.sum(), rel=1e-6)


RATES = np.array([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])


def over_every_group(weights, p):
    """The variance over all 2^G sequences of right and wrong."""
    size = len(weights) - 1
    values, chances = [], []
    for group in itertools.product((0, 1), repeat=size):
        values.append(weights[sum(group)])
        chances.append(np.prod([p if right else 1 - p for right in group]))
    mean = sum(c * w for c, w in zip(chances, values, strict=True))
    return sum(c * (w - mean) ** 2 for c, w in zip(chances, values, strict=True))


def power(rate, alpha):
    return (1 + alpha) ** (1 + alpha) / (4 * alpha**alpha) * rate * (1 - rate) ** alpha


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_the_exact_variance_is_that_over_every_group(size):
    weights = np.random.default_rng(size).normal(size=size + 1)
    expected = [over_every_group(weights, p) for p in RATES]
    np.testing.assert_allclose(weight_variance(weights, RATES), expected, atol=1e-14)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.5])
def test_the_constant_brings_the_peak_to_a_quarter(alpha):
    rates = np.linspace(0, 1, 100_001)
    assert np.max(peak_constant(alpha) * rates * (1 - rates) ** alpha) == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
def test_the_first_order_is_the_limit_of_large_groups(alpha):
    """The difference falls as 1/G^2: times G it falls to a tenth from G = 400 to 4000."""
    inside = np.array([0.1, 0.4, 0.7])
    gaps = []
    for size in (400, 4000):
        exact = weight_variance(power(np.arange(size + 1) / size, alpha), inside)
        gaps.append(size * np.abs(exact - power_alpha_variance(inside, alpha, size)))
    np.testing.assert_allclose(gaps[1] / gaps[0], 0.1, rtol=0.05)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: peak_constant(0.0), r"alpha = 0\.0 is outside its range \(0, inf"),
        (lambda: power_alpha_variance(RATES, 0.4, 16), r"alpha = 0\.4 is outside"),
        (lambda: power_alpha_variance(RATES, 2.0, 0), r"group_size = 0"),
        (lambda: power_alpha_variance(np.array([1.5]), 2.0, 4), r"p = 1\.5 is outside its range \[0, 1\]"),
        (lambda: weight_variance(np.array([0.0, 1.0]), np.array([-0.1])), r"p = -0\.1 is outside"),
        (lambda: weight_variance(np.array([1.0]), RATES), r"weights have shape \(1,\); allowed: one axis of two"),
    ],
)
def test_bad_input_is_one_clear_line(call, complaint):
    with pytest.raises(InputError, match=complaint):
        call()


# Estimators that are the same on rewards 0 and 1: algebra's list, and no others


SAME = [
    ({"dr_grpo": {}, "rloo": {}, "asym_grpo": {}, "power_norm": {"gamma": 0.0}}, "a factor of G / (G - 1), or none"),
    ({"grpo": {}, "power_norm": {}, "t2t": {}, "pass_at_k_chen": {"k": 1}}, "a factor of 1 - alpha, or eps"),
    ({"softmax": {"beta": 2.0}, "rs_grpo": {"beta": 2.0}}, "a factor of G / beta"),
    ({"power_alpha": {"alpha": 3.0}, "f_grpo": {"gamma": 2.0, "base": "dr_grpo"}}, "on rewards 0 and 1"),
    ({"psr": {}, "reinforce": {}}, "on rewards 0 and 1"),
]


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize(("names", "why"), SAME)
def test_a_factor_makes_no_difference(names, why, size):
    built = [estimator(name, **parameters) for name, parameters in names.items()]
    assert all(alike(left, right, size) for left, right in itertools.pairwise(built)), why


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("ha_dw", {"decay": 0.9}), ("ha_dw", {"decay": 0.5})),  # alike in the first batch
        (("a_grae", {}), ("f_grpo", {})),
        (("ds_grpo", {}), ("grpo", {})),  # apart only by log-probabilities
        (("asym_rl", {}), ("dr_grpo", {})),
        (("nsr", {}), ("psr", {})),
    ],
)
def test_others_are_told_apart(left, right):
    assert not alike(estimator(left[0], **left[1]), estimator(right[0], **right[1]), 5)


# Estimators that are others at another pace: algebra's list, with algebra's factors


README = (Path(figures.__file__).parent / "README.md").read_text()


def test_a_factor_of_the_solve_rate_is_a_clock():
    """MaxRL divides the advantages of mean GRPO by p, which is 1/4, 1/2 and 3/4 in mixed groups of four."""
    pace = clock(estimator("maxrl"), estimator("dr_grpo"), 4)
    np.testing.assert_allclose(pace.factors, [np.nan, 4, 2, 4 / 3, np.nan], rtol=1e-12)
    assert pace.depends_on == "p"


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("psr", "dr_grpo"),  # successes alone
        ("a_grae", "grpo"),  # successes weaker than failures
        ("ds_grpo", "grpo"),  # another advantage for each rollout
        ("reinforce", "relu"),  # solved groups, where the other one is 0
        ("reinforce_pp", "dr_grpo"),
    ],
)
def test_what_pushes_a_group_elsewhere_is_no_clock(name, base):
    assert clock(estimator(name), estimator(base), 5) is None


def test_a_factor_is_neither_negative_nor_0_everywhere():
    negative = chain(estimator("dr_grpo"), stateless(lambda advantages, _: -advantages))
    nothing = chain(estimator("dr_grpo"), stateless(lambda advantages, _: 0 * advantages))
    assert clock(negative, estimator("dr_grpo"), 4) is None
    assert clock(nothing, estimator("dr_grpo"), 4) is None


def test_a_factor_that_rollouts_of_one_solve_rate_do_not_share_is_none():
    """Groups whose first rollout is right move twice as far."""
    uneven = chain(
        estimator("dr_grpo"), stateless(lambda advantages, rollouts: advantages * (1 + rollouts.rewards[:, :1]))
    )
    assert clock(uneven, estimator("dr_grpo"), 4) is None


def test_lengths_tell_apart_what_equal_lengths_do_not():
    assert clock(estimator("opo"), estimator("dr_grpo"), 4).depends_on == "nothing"
    assert clock(estimator("opo"), estimator("dr_grpo"), 4, lengths=3) is None
    assert clock(estimator("grpo"), estimator("dr_grpo"), 4, lengths=3).depends_on == "p"


# The table


def value(formula, p, size):
    """A formula of the table, by the rules of its head."""
    failures, k = round(size * (1 - p)), min(4, size)
    known = {"sqrt": math.sqrt, "e": math.e, "C": math.comb, "p": p, "q": 1 - p, "G": size, "F": failures, "k": k}
    known["w"] = math.comb(failures + 15, 15) / math.comb(size + 15, 15)
    known["R"] = 1 - math.comb(failures, k) / math.comb(size, k)
    written = formula.replace("^", "**").replace("p = 1/G", "round(p * G) == 1")
    return float(eval(written, {"__builtins__": {"round": round}}, known))


FIRST = {member.name: first for first, members in clock_table.families().items() for member in members}


@pytest.mark.parametrize("name", clock_table.FACTORS)
def test_each_formula_gives_the_factors(name):
    for size in (2, 5, 8):
        pace = clock_table.relation(name, FIRST[name], size)
        if pace is None:  # 0 in every group of so few
            assert (name, size) == ("pass_at_k_chen", 2)
            continue
        known = np.flatnonzero(~np.isnan(pace.factors))
        by_formula = [value(clock_table.FACTORS[name], count / size, size) for count in known]
        np.testing.assert_allclose(pace.factors[known], by_formula, rtol=1e-4, err_msg=f"G = {size}")


def test_every_estimator_stands_in_the_table_once():
    table = clock_table.table()
    rows, rest = [line for line in table.splitlines() if line.startswith("| `")], table.split("\n- ")[1:]
    members = [line.split("`")[1] for line in rows]
    assert set(members) == set(clock_table.FACTORS) | set(clock_table.OF_BATCHES)
    others = [name for line in rest for name in line.split("`")[1::2]]
    firsts = {line.split("`")[3] for line in rows}
    assert sorted([*members, *others, *firsts]) == sorted(set(REGISTRY) - {"linked", "gdpo", "rae"})


def test_the_readme_has_the_table():
    assert clock_table.table() in README


def test_the_readme_counts_as_the_table_does():
    known = clock_table.families()
    compared = sum(1 + len(members) for members in known.values())
    assert f"**{1 + len(known['dr_grpo'])} of {compared} methods are mean GRPO times one number a group**" in README

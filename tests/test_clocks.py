"""Which estimators are others at another pace: those that algebra says are, by the factor that it says."""

import math
from pathlib import Path

import numpy as np
import pytest

import figures
from figures.shared import clock_table
from simlab import estimator
from simlab.estimators import REGISTRY, chain, stateless
from simlab.theory import clock
from simlab.theory.likeness import alike

README = (Path(figures.__file__).parent / "README.md").read_text()


def test_a_factor_of_the_solve_rate_is_a_clock():
    """MaxRL divides the advantages of mean GRPO by p, which is 1/4, 1/2 and 3/4 in mixed groups of four."""
    found = clock(estimator("maxrl"), estimator("dr_grpo"), 4)
    np.testing.assert_allclose(found.factors, [np.nan, 4, 2, 4 / 3, np.nan], rtol=1e-12)
    assert found.depends_on == "p"


@pytest.mark.parametrize(("name", "kind"), [("rloo", "nothing"), ("grpo", "p"), ("gpg", "batch"), ("bnpo", "batch")])
def test_it_is_told_what_a_factor_depends_on(name, kind):
    assert clock(estimator(name), estimator("dr_grpo"), 6).depends_on == kind


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("psr", "dr_grpo"),  # successes alone
        ("a_grae", "grpo"),  # successes weaker than failures
        ("ds_grpo", "grpo"),  # another advantage for each rollout
        ("reinforce", "relu"),  # solved groups, where the other one is 0
        ("reinforce_pp", "dr_grpo"),
    ],
)
def test_what_pushes_a_group_elsewhere_is_no_clock(one, another):
    assert clock(estimator(one), estimator(another), 5) is None


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
    known["R"] = 1 - math.comb(failures, k) / math.comb(size, k)
    written = formula.replace("^", "**").replace("p = 1/G", "round(p * G) == 1")
    return float(eval(written, {"__builtins__": {"round": round}}, known))


FIRST = {own.name: first for first, members in clock_table.families().items() for own in members}


@pytest.mark.parametrize("name", clock_table.FACTORS)
def test_each_formula_gives_the_factors(name):
    for size in (2, 5, 8):
        found = clock_table.relation(name, FIRST[name], size)
        if found is None:  # 0 in every group of so few
            assert (name, size) == ("pass_at_k_chen", 2)
            continue
        known = np.flatnonzero(~np.isnan(found.factors))
        by_formula = [value(clock_table.FACTORS[name], count / size, size) for count in known]
        np.testing.assert_allclose(found.factors[known], by_formula, rtol=1e-4, err_msg=f"G = {size}")


def test_every_estimator_stands_in_the_table_once():
    table = clock_table.table()
    rows, rest = [line for line in table.splitlines() if line.startswith("| `")], table.split("\n- ")[1:]
    members = [line.split("`")[1] for line in rows]
    assert set(members) == set(clock_table.FACTORS) | set(clock_table.OF_BATCHES)
    others = [name for line in rest for name in line.split("`")[1::2]]
    firsts = {line.split("`")[3] for line in rows}
    assert sorted([*members, *others, *firsts]) == sorted(set(REGISTRY) - {"linked"})


def test_a_constant_factor_is_what_alike_calls_the_same():
    """Of the smaller groups too."""
    for own in (own for members in clock_table.families().values() for own in members if own.constant_at):
        assert alike(estimator(own.name), estimator(FIRST[own.name]), own.constant_at[-1]), own.name


def test_the_readme_has_the_table():
    assert clock_table.table() in README


def test_the_readme_counts_as_the_table_does():
    known = clock_table.families()
    compared = sum(1 + len(members) for members in known.values())
    assert f"**{1 + len(known['dr_grpo'])} of {compared} methods are mean GRPO times one number a group**" in README

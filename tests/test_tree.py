"""A tree of decisions: its shape, exact quantities of a sequence and its tokens, and refusals.

test_problem_contract.py has the properties of every problem.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problem_contract import ROWS, Bench, Kind, naive_of
from refusals import refusal
from sweep_cases import asked

from simlab.errors import InputError
from simlab.problems import Tree, tree
from simlab.problems.tree_paths import leaf_of, path_sums, paths, word
from simlab.simulator.sampling import exact_segment_sums
from simlab.sweeps.run import run

# The problem


def test_the_default_is_casps_toy():
    toy = tree()
    assert toy.mode_words == ["ACB", "ACD", "BDA", "BDC", "CAB", "DBA"]
    assert (toy.depth, toy.branching, toy.actions, toy.logits.shape) == (3, 4, 64, (21, 4))
    np.testing.assert_allclose(np.exp(toy.leaf_logp), 1 / 64, rtol=1e-14)
    assert [word(int(leaf), 3, 4) for leaf in np.flatnonzero(toy.target)] == ["DBA"]


def test_a_path_leads_from_node_to_node_to_its_leaf():
    """Node n leads to n B + 1 + a; after T actions, past all nodes, lies the leaf."""
    nodes, actions = paths(np.arange(27), 3, 3)
    assert not nodes[:, 0].any()
    np.testing.assert_array_equal(nodes[:, 1:], nodes[:, :-1] * 3 + 1 + actions[:, :-1])
    np.testing.assert_array_equal(nodes[:, -1] * 3 + 1 + actions[:, -1], 13 + np.arange(27))
    values = np.random.default_rng(0).normal(size=(13, 3))
    np.testing.assert_allclose(path_sums(values), values[nodes, actions].sum(axis=1), rtol=1e-13)
    assert [leaf_of("a", word(leaf, 3, 3), 3, 3) for leaf in range(27)] == list(range(27))


def test_leaves_are_named_by_words_numbers_or_a_file(tmp_path):
    np.savetxt(tmp_path / "leaves.txt", [1, 6])
    same = [tree(2, 3, rewarded=rewarded) for rewarded in ("AB CA", "AB,CA", ["AB", "CA"], [1.0, 6.0], ("1", "6"))]
    same.append(tree(2, 3, rewarded=str(tmp_path / "leaves.txt")))
    assert {problem.fingerprint for problem in same} == {same[0].fingerprint}
    assert same[0].mode_words == ["AB", "CA"]


# A sequence and its tokens

OWN = ROWS["tree"]


# A tree of one level


# The untouched stay untouched

of_segments = jax.jit(exact_segment_sums, static_argnums=2)


def test_sums_that_are_no_more_than_rounding_are_exactly_zero_segment_by_segment():
    random = np.random.default_rng(0)
    for count in (1, 7):
        half = random.normal(size=300).astype(np.float32)
        values = np.concatenate([half, *np.split(-half, 10)[::-1], [0.25]])
        owner = random.integers(0, count, 300)
        segments = np.concatenate([owner, *np.split(owner, 10)[::-1], [count - 1]])
        order = random.permutation(len(values))
        sums = np.asarray(of_segments(jnp.asarray(values[order]), jnp.asarray(segments[order]), count))
        assert not sums[:-1].any()
        np.testing.assert_allclose(sums[-1], 0.25, rtol=1e-5)


def test_a_group_of_equal_rewards_moves_nothing_and_another_only_the_nodes_it_passes():
    """Bit by bit; where the weights of a node sum to 0, as at the root, nor does an action move that was not drawn."""
    kind = Kind({"group_size": 3})
    groups = np.array([[0, 7, 7], [1, 2, 26], [0, 1, 9]])[:, None]
    changes = Bench(OWN, kind, "dense").taught(np.zeros((3, 1)), groups) - OWN.problem.logits
    assert not changes[:2].any()
    moved = np.abs(changes[2]) > 0
    passed = {(), (0,), (0, 0), (1,), (1, 0)}
    assert {node for node, row in zip(naive_of(OWN, kind).nodes, moved, strict=True) if row.any()} == passed
    assert moved[0].tolist() == [True, True, False]


# Sweeps


def test_trees_of_different_depths_are_not_one_sweep(tmp_path):
    depths = asked("--problem", "tree", "--param", "depth=2,3", "--param", "rewarded=1,2", "--steps", "2")
    told = refusal(run, depths, tmp_path / "tree.nc")
    assert "the problems of this sweep differ in what they record, or in its labels" in told


# Refusals


REFUSED = [
    ({"depth": 0}, "depth = 0 is outside its range [1, 20]"),
    ({"branching": 1}, "branching = 1 is outside its range [2, "),
    ({"depth": 11, "branching": 4}, "leaves = 4194304 is outside its range [1, 1048576]"),
    ({"rewarded": "ACD ACE"}, "rewarded leaf 'ACE' is no path of the tree; allowed: 3 letters of A to D each"),
    ({"rewarded": [64.0]}, "rewarded leaf = 64.0 is outside its range [0, 63]"),
    ({"rewarded": ()}, "rewarded lists no leaf"),
    ({"target": "AAA"}, "the target set must be a non-empty subset"),
    ({"anchor": "AAA"}, "anchor = 'AAA' is not rewarded"),
    ({"logits": [0.0, 1.0]}, "logits are 2; allowed: 84, 4 of 21 nodes"),
    ({"logits": [math.inf] * 84}, "logit 0 is inf; allowed: finite numbers"),
    ({"reward_correct": 0.0}, "reward_correct = 0.0"),
]


def test_a_tree_that_cannot_be_is_refused_with_what_is_allowed():
    for parameters, message in REFUSED:
        assert message in refusal(tree, **parameters)


@pytest.mark.parametrize("shapes", [((4, 3), 8, 8), ((3, 3), 9, 9), ((4, 3), 9, 8), ((3, 1), 1, 1), ((1, 2), 1, 1)])
def test_arrays_that_are_no_tree_are_refused(shapes):
    logits, correct, target = (np.zeros(shapes[0]), *(np.ones(count, bool) for count in shapes[1:]))
    with pytest.raises((InputError, TypeError)) as error:
        Tree(logits, correct, target)
    assert isinstance(error.value, TypeError) or "allowed: ((B^T - 1) / (B - 1), B) logits" in str(error.value)

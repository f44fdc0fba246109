"""Numbers of nodes and leaves in a full tree of depth T and branching B, the paths to leaves, and their words.

Nodes are numbered level by level from the root, node 0: action a of node n leads to node n B + 1 + a. Leaves count from
0: the T digits of a leaf in base B are the actions on its path, as letters its word, A the first action.
"""

import string
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from jaxtyping import Int, Shaped

from simlab.errors import InputError, check_range
from simlab.rollouts import Array

LETTERS = string.ascii_uppercase


def first_node(level: int, branching: int) -> int:
    """The first node of a level, which is also how many nodes the levels above it have."""
    leaves: int = branching**level
    return (leaves - 1) // (branching - 1)


def depth_of(leaves: int, branching: int) -> int:
    """T of a tree of B^T leaves, rounded up where they are no power of B."""
    depth = 0
    while branching**depth < leaves:
        depth += 1
    return depth


def paths(
    leaves: Int[Array, "*shape"], depth: int, branching: int
) -> tuple[Int[Array, "*shape T"], Int[Array, "*shape T"]]:
    """The nodes on the way to some leaves, and the action taken at each."""
    xp = array_namespace(leaves)
    below = [branching ** (depth - level) for level in range(depth)]
    starts = [first_node(level, branching) for level in range(depth)]
    leaves_below, first = (xp.asarray(values, dtype=leaves.dtype) for values in (below, starts))
    nodes = first + leaves[..., None] // leaves_below
    return nodes, leaves[..., None] // (leaves_below // branching) % branching


def prefix_sums(values: Shaped[Array, "nodes B"]) -> list[Shaped[Array, " ends"]]:
    """The sums of a value of each action along all paths of one step, of two, ..., of T: (B,), (B^2,), ..., (B^T,)."""
    xp = array_namespace(values)
    branching = int(values.shape[1])
    sums, first = [values[0]], 1
    while first < values.shape[0]:
        above = sums[-1]
        here = values[first : first + above.shape[0]]
        sums.append(xp.reshape(above[:, None] + here, (-1,)))
        first = first * branching + 1
    return sums


def path_sums(values: Shaped[Array, "nodes B"]) -> Shaped[Array, " leaves"]:
    """The sum of a value of each action along the path to each leaf."""
    return prefix_sums(values)[-1]


def word(leaf: int, depth: int, branching: int) -> str:
    """The letters of a leaf's actions, or its number where there are more actions than letters.

    >>> word(11, 3, 4)
    'ACD'
    """
    if branching > len(LETTERS):
        return str(leaf)
    return "".join(LETTERS[leaf // branching ** (depth - 1 - level) % branching] for level in range(depth))


def leaf_of(name: str, item: Any, depth: int, branching: int) -> int:
    """The leaf of a word or of a number; ``InputError`` if there is none.

    >>> leaf_of("rewarded", "ACD", 3, 4)
    11
    """
    if isinstance(item, str) and not item.isdecimal():
        letters = LETTERS[:branching]
        if len(item) != depth or any(letter not in letters for letter in item):
            allowed = f"{depth} letters of A to {letters[-1]} each, numbers of leaves, or the path of a file of these"
            raise InputError(f"{name} leaf {item!r} is no path of the tree; allowed: {allowed}")
        return sum(letters.index(letter) * branching ** (depth - 1 - level) for level, letter in enumerate(item))
    number = float(item)
    check_range(f"{name} leaf", number, 0, branching**depth - 1)
    if number != np.floor(number):
        raise InputError(f"{name} leaf {number:.15g} is no whole number; allowed: 0 to {branching**depth - 1}")
    return int(number)

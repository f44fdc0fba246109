"""A tree of decisions: a rollout takes T actions, with a softmax policy of its own at every node; some leaves pay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from simlab.errors import InputError, check_range, check_whole
from simlab.estimators.tokens import TOP_PERCENT
from simlab.problems.base import Problem, check_logits, check_sets, members, numbers
from simlab.problems.tree_paths import depth_of, first_node, leaf_of, path_sums, paths, word

LARGEST_TREE = 2**20  # leaves
MOST_MODES = 64  # whose probabilities are recorded one by one
FIRST = "first"
CASP_TOY = ("ACD", "ACB", "BDC", "BDA", "CAB", "DBA")
Leaves = Sequence[str] | Sequence[float] | np.ndarray | str


@dataclass(frozen=True, eq=False)
class Tree(Problem):
    """A full tree of depth T and branching B with a softmax policy at every node and verifiable rewards at the leaves.

    Nodes and leaves are numbered as in ``simlab.problems.tree_paths``. ``InputError`` for arrays that make no such
    tree.

    Attributes:
        logits: (nodes, B) initial logits, (B^T - 1) / (B - 1) nodes level by level.
        correct: (B^T,) true for rewarded leaves.
        target: (B^T,) true for the target set of the tail-miss rate, a subset of the rewarded leaves.
        modes: the rewarded leaves, at most the first 64, whose probabilities are recorded one by one.
    """

    logits: Float[np.ndarray, "nodes B"]
    correct: Bool[np.ndarray, " leaves"]
    target: Bool[np.ndarray, " leaves"]
    modes: Int[np.ndarray, " modes"] = field(init=False)

    over_actions: ClassVar[Mapping[str, int]] = {"correct": 0, "target": 0}
    lumps = shards = False

    def __post_init__(self) -> None:
        shapes = {name: getattr(self, name).shape for name in ("logits", "correct", "target")}
        fitting = self.logits.ndim == 2 and self.branching > 1 and self.depth > 0
        if fitting:
            nodes, leaves = first_node(self.depth, self.branching), (self.branching**self.depth,)
            fitting = (len(self.logits), self.correct.shape, self.target.shape) == (nodes, leaves, leaves)
        if not fitting:
            allowed = "((B^T - 1) / (B - 1), B) logits at B from 2 up, and B^T leaves"
            raise InputError(f"arrays have shapes {shapes}; allowed: {allowed}")
        check_range("leaves", self.actions, 1, LARGEST_TREE)
        check_logits(self.logits.reshape(-1))
        check_sets(self.correct, self.target)
        super().__post_init__()
        object.__setattr__(self, "modes", np.flatnonzero(self.correct)[:MOST_MODES])

    @property
    def branching(self) -> int:
        """B, the actions of one node."""
        return int(self.logits.shape[1])

    @property
    def depth(self) -> int:
        """T, the actions of one rollout."""
        return depth_of(int(self.correct.shape[0]), self.branching)

    @property
    def numbers(self) -> int:
        """The logits of all nodes."""
        return self.logits.size

    @property
    def choices(self) -> int:
        """B."""
        return self.branching

    @property
    def tokens(self) -> int:
        """T."""
        return self.depth

    def pullback(
        self, gradients: Float[Array, "1 nodes B"], parameters: Any, prompts: Int[Array, " P"]
    ) -> Float[Array, "nodes B"]:
        """The gradient itself."""
        return gradients[0]

    def policy(self, logits: Float[Array, "nodes B"], temperature: Any, storage: Any, slots: Any) -> Any:
        """The policies of all nodes."""
        from simlab.simulator.tree import tree_policy  # noqa: PLC0415  # the simulator imports problems

        return tree_policy(logits, temperature, self.depth)

    def drawn_logits(self, parameters: Array, prompts: Any, groups: Any, look_up: Any) -> Float[Array, "1 G T"]:
        """The logits of the actions on the way to the leaves of a group."""
        nodes, actions = paths(groups.slots, self.depth, self.branching)
        return parameters[nodes, actions]

    @property
    def metrics(self) -> tuple[Any, ...]:
        """Metrics of a policy over leaves, of modes, of nodes, and of the tokens of a group."""
        from simlab.simulator.tree import tree_metrics  # noqa: PLC0415

        return tree_metrics(self.modes)

    def labels(self) -> Mapping[str, Sequence[Any]]:
        """The words of the modes, the levels, and the percentages of tokens over which covariances are taken."""
        return {"mode": self.mode_words, "level": range(self.depth), "percent": TOP_PERCENT}

    def check(self, settings: Any) -> None:
        """Raise ``InputError`` for an update rule that only single policies have."""
        if settings.update_rule != "simulator":
            raise InputError(f"update_rule = {settings.update_rule!r} on a tree; allowed: simulator")

    @property
    def leaf_logp(self) -> Float[np.ndarray, " leaves"]:
        """(B^T,) the initial log-probability of each leaf, the sum of those of the actions on its path."""
        highest = self.logits.max(axis=1, keepdims=True)
        logp = self.logits - highest - np.log(np.exp(self.logits - highest).sum(axis=1, keepdims=True))
        leaves: Float[np.ndarray, " leaves"] = path_sums(logp)
        return leaves

    @property
    def mode_words(self) -> list[str]:
        """The words of ``modes``."""
        return [word(int(leaf), self.depth, self.branching) for leaf in self.modes]


def tree(
    depth: int = 3,
    branching: int = 4,
    *,
    rewarded: Leaves = CASP_TOY,
    target: Leaves = (),
    logits: Sequence[float] | np.ndarray | str = (),
    anchor: str = FIRST,
    anchor_logit: float = 0.0,
    reward_correct: float = 1.0,
    reward_incorrect: float = 0.0,
) -> Tree:
    """A full tree with a few rewarded leaves; by default CaSP's toy (its Figure 5, ``[casp:figure-5-runs]``).

    The toy's initial policy is not given; it is uniform here.

    Args:
        depth: T.
        branching: B.
        rewarded: the rewarded leaves, as words such as ACD (a string of words is split at spaces and commas), as
            numbers, or as the path of a ``.npy`` or text file of numbers.
        target: the target set, likewise; by default the least likely rewarded leaf, of equally likely ones the last.
        logits: initial logits, node after node, or the path of a file of them; by default 0.
        anchor: the rewarded leaf to start with an advantage, a word or a number; ``"first"`` is the first one listed.
        anchor_logit: added to the logit of every action on the way to the anchor.

    >>> toy = tree()
    >>> toy.mode_words, toy.logits.shape
    (['ACB', 'ACD', 'BDA', 'BDC', 'CAB', 'DBA'], (21, 4))
    """
    check_whole("branching", branching, 2, LARGEST_TREE)
    check_whole("depth", depth, 1, depth_of(LARGEST_TREE, 2))
    check_range("anchor_logit", anchor_logit)
    check_range("leaves", branching**depth, 1, LARGEST_TREE)
    rewarded_leaves = _leaves("rewarded", rewarded, depth, branching)
    if not rewarded_leaves:
        raise InputError("rewarded lists no leaf; allowed: one or more")
    shape = (first_node(depth, branching), branching)
    values = numbers("logits", logits) if len(logits) else np.zeros(shape)
    if values.size != np.prod(shape):
        raise InputError(f"logits are {values.size}; allowed: {np.prod(shape)}, {branching} of {shape[0]} nodes")
    values = values.reshape(shape)
    start = rewarded_leaves[0] if anchor == FIRST else leaf_of("anchor", anchor, depth, branching)
    if start not in rewarded_leaves:
        raise InputError(f"anchor = {anchor!r} is not rewarded; allowed: one of the rewarded leaves")
    values[paths(np.array(start), depth, branching)] += anchor_logit
    correct = members("rewarded", rewarded_leaves, branching**depth)
    rewards: dict[str, Any] = {"reward_correct": reward_correct, "reward_incorrect": reward_incorrect}
    bare = Tree(values, correct, correct, **rewards)
    chosen = _leaves("target", target, depth, branching)
    if not chosen:
        logp = np.where(correct, bare.leaf_logp, np.inf)
        chosen = [int(np.flatnonzero(logp <= logp.min() + 1e-12)[-1])]
    return Tree(values, correct, members("target", chosen, bare.actions), **rewards)


def _leaves(name: str, source: Leaves, depth: int, branching: int) -> list[int]:
    """Leaves by word or number, in the order in which they are listed."""
    items: Any = source
    if isinstance(source, str):
        items = numbers(name, source) if Path(source).is_file() else source.replace(",", " ").split()
    return [leaf_of(name, item, depth, branching) for item in items]

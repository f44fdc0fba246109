"""Actions that start alike, carried as one class with a count: a policy over up to 10^18 actions in a few numbers."""

import functools
import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from simlab.errors import InputError, check_range

LARGEST_ARRAY = 2**31 - 1
LARGEST_COUNT = 10**18


@dataclass(frozen=True, eq=False)
class Classes:
    """A softmax policy with verifiable rewards whose actions fall into classes of equal ones.

    Actions are numbered class after class. The arrays of ``Categorical`` are properties here, made on demand, and
    refused where there are too many actions to list.

    Attributes:
        class_logits: (C,) initial logit of each action of the class.
        counts: (C,) how many actions each class has, at least 1 and in all at most 10^18.
        class_correct: (C,) true for classes of correct actions.
        class_target: (C,) true for classes of target actions, which are correct too.
        reward_correct: reward of a correct action, above 0.
        reward_incorrect: reward of an incorrect action, at most 0.

    Raises:
        InputError: for logits that are not finite, arrays of different lengths, counts outside their range, no correct
            class, a target outside the correct set, or rewards of the wrong sign.
    """

    class_logits: Float[np.ndarray, " C"]
    counts: Int[np.ndarray, " C"]
    class_correct: Bool[np.ndarray, " C"]
    class_target: Bool[np.ndarray, " C"]
    reward_correct: float = 1.0
    reward_incorrect: float = 0.0

    def __post_init__(self) -> None:
        names = ("class_logits", "counts", "class_correct", "class_target")
        lengths = {name: len(getattr(self, name)) for name in names}
        if len(set(lengths.values())) > 1:
            raise InputError(f"arrays have different lengths {lengths}; allowed: one length, the number of classes")
        if not np.issubdtype(np.asarray(self.counts).dtype, np.integer):
            raise InputError(f"counts have dtype {np.asarray(self.counts).dtype}; allowed: whole numbers")
        for count in self.counts:
            check_range("count", int(count), 1, LARGEST_COUNT)
        check_range("actions", self.actions, 1, LARGEST_COUNT)
        check_policy(self.class_logits, self.class_correct, self.class_target)
        check_rewards(self.reward_correct, self.reward_incorrect)

    @property
    def actions(self) -> int:
        """N."""
        return sum(int(count) for count in self.counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N,), the shape of the logits, which need not be listed."""
        return (self.actions,)

    @property
    def classes(self) -> "Classes":
        """Itself."""
        return self

    @functools.cached_property
    def logits(self) -> Float[np.ndarray, " N"]:
        """(N,) initial logits."""
        return self._listed(self.class_logits)

    @functools.cached_property
    def correct(self) -> Bool[np.ndarray, " N"]:
        """(N,) true for correct actions."""
        return self._listed(self.class_correct)

    @functools.cached_property
    def target(self) -> Bool[np.ndarray, " N"]:
        """(N,) true for the target set of the tail-miss rate."""
        return self._listed(self.class_target)

    def _listed(self, values: np.ndarray) -> np.ndarray:
        check_listed(self.actions)
        return np.repeat(values, self.counts)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of everything that the problem is."""
        rewards = (self.reward_correct, self.reward_incorrect)
        return hashed(rewards, self.class_logits, self.counts, self.class_correct, self.class_target)


def check_listed(actions: int) -> None:
    """Raise ``InputError`` if actions are too many for arrays of them."""
    if actions > LARGEST_ARRAY:
        raise InputError(f"actions = {actions} cannot be listed; allowed: up to {LARGEST_ARRAY}, or the lumped engine")


def check_policy(
    logits: Float[np.ndarray, " n"], correct: Bool[np.ndarray, " n"], target: Bool[np.ndarray, " n"]
) -> None:
    """Raise ``InputError`` unless logits are finite, something is correct, and the target is part of that."""
    check_logits(logits)
    check_sets(correct, target)


def check_logits(logits: Float[np.ndarray, " n"]) -> None:
    """Raise ``InputError`` unless logits are real and finite."""
    if not np.issubdtype(logits.dtype, np.floating):
        raise InputError(f"logits have dtype {logits.dtype}; allowed: floats")
    if not np.all(np.isfinite(logits)):
        place = int(np.flatnonzero(~np.isfinite(logits))[0])
        raise InputError(f"logit {place} is {logits[place]}; allowed: finite numbers")


def check_sets(correct: Bool[np.ndarray, " n"], target: Bool[np.ndarray, " n"]) -> None:
    """Raise ``InputError`` unless something is correct, and the target is part of that."""
    for name, members in (("correct", correct), ("target", target)):
        if members.dtype != bool:
            raise InputError(f"{name} has dtype {members.dtype}; allowed: bool, true for the members")
    if not correct.any():
        raise InputError("the correct set is empty; at least one action must be correct")
    if not target.any() or np.any(target & ~correct):
        raise InputError("the target set must be a non-empty subset of the correct actions")


def check_rewards(correct: float, incorrect: float) -> None:
    """Raise ``InputError`` for rewards of the wrong sign."""
    check_range("reward_correct", correct, 0, open_low=True)
    check_range("reward_incorrect", incorrect, high=0)


def hashed(rewards: tuple[float, float], *arrays: np.ndarray) -> str:
    """A hash of a problem's rewards and arrays."""
    digest = hashlib.sha256(repr(rewards).encode())
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()


def grouped(logits: np.ndarray, correct: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first action of each class of equal actions, in the order of these, and the size of the class."""
    table = np.rec.fromarrays([logits, correct, target])
    _, first, counts = np.unique(table, return_index=True, return_counts=True)
    order = np.argsort(first)
    return first[order], counts[order]

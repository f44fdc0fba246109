"""Keep only actions that were ever sampled one by one: lumped storage, for up to 10^18 actions.

Actions that start alike and were never sampled stay alike, for every coordinate-wise optimiser. A class of them takes
one slot, with one logit, one optimiser state and a count; the first C slots are those of the classes. An action that
is drawn leaves its class for a slot of its own, the next free one. Two classes, of 1000 and of 5 actions, after a
group drew the first class twice (two different actions of it) and the second once::

    slot         0      1     2       3       4       5 ...
    holds        998    4     one of  one of  one of  nothing yet
                 alike  alike class 0 class 0 class 1
    logit        z0     z1    z0+d    z0+d    z1-e    EMPTY
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt32

from simlab.simulator.sampling import CHUNK, row_sums, tree_sum
from simlab.simulator.storage import EMPTY, MOVING, Dense, to_device
from simlab.truths import all_true

FEWEST_SLOTS = 2 * CHUNK
# Few sizes, for the price of some empty slots: a program of another size takes 5 seconds of a core to compile.
GROWTH = 4
START_SHARE = 4  # of the slots that a run may need, a quarter


class Count(NamedTuple):
    """A whole number up to 2^63, high 2^32 + low: counts of 10^18 actions stay exact without 64-bit types."""

    high: UInt32[Array, "*n"]
    low: UInt32[Array, "*n"]

    @classmethod
    def from_integers(cls, values: np.ndarray) -> "Count":
        """Split NumPy integers into words."""
        wide = values.astype(np.uint64)
        return cls(jnp.asarray(wide >> np.uint64(32), jnp.uint32), jnp.asarray(wide & np.uint64(2**32 - 1), jnp.uint32))

    def subtract(self, word: UInt32[Array, "*n"]) -> "Count":
        """Subtract a number of one word, which must not be larger."""
        return Count(self.high - (word > self.low).astype(jnp.uint32), self.low - word)

    def floats(self, dtype: jnp.dtype) -> Float[Array, "*n"]:
        """Convert to floats, exactly where the dtype can hold the number."""
        return self.high.astype(dtype) * 2.0**32 + self.low.astype(dtype)


def uniform_below(count: Count, random: Count) -> Count:
    """Return a whole number in [0, count) from 64 random bits: floor(count * random / 2^64), off by less than 2^-64.

    >>> half = uniform_below(Count.from_integers(np.array(10**18)), Count.from_integers(np.array(2**63)))
    >>> int(half.high) * 2**32 + int(half.low) == 10**18 // 2
    True
    """
    # Schoolbook multiplication; each partial product is split into its words, which carry upwards.
    low_carry = jax.lax.mulhi(count.low, random.low)
    first, second = count.high * random.low, count.low * random.high
    middle = first + second
    carry = (middle < first).astype(jnp.uint32)
    summed = middle + low_carry
    carry = carry + (summed < middle).astype(jnp.uint32)
    third, fourth = jax.lax.mulhi(count.high, random.low), jax.lax.mulhi(count.low, random.high)
    top = count.high * random.high
    low = top + third
    overflow = (low < top).astype(jnp.uint32)
    low_two = low + fourth
    overflow = overflow + (low_two < low).astype(jnp.uint32)
    low_three = low_two + carry
    overflow = overflow + (low_three < low_two).astype(jnp.uint32)
    return Count(jax.lax.mulhi(count.high, random.high) + overflow, low_three)


class SlotTable(NamedTuple):
    """The state of S slots, of which the first C hold the classes."""

    counts: Count  # of each class at the start
    class_of: Int[Array, " S"]  # that the action of a slot came from
    touched: Int[Array, ""]  # actions with slots of their own
    departed: UInt32[Array, " C"]  # how many actions have left each class
    cache: Any = None  # the weights that sparse steps keep, see ``simlab.simulator.sparse``

    @property
    def classes(self) -> int:
        """C."""
        return int(self.departed.shape[-1])

    @property
    def members(self) -> Count:
        """The number of actions that are still in each class."""
        return self.counts.subtract(self.departed)

    def remaining(self, dtype: Any) -> Float[Array, " C"]:
        """Return ``members`` as floats."""
        return self.members.floats(jnp.dtype(dtype))

    @property
    def occupied(self) -> Bool[Array, " S"]:
        """True for slots that hold an action."""
        slot, classes = jnp.arange(self.class_of.shape[-1]), self.classes
        members = self.members
        filled_classes = jnp.pad((members.high > 0) | (members.low > 0), (0, len(slot) - classes))
        return filled_classes | (slot >= classes) & (slot < classes + self.touched)


class SlotMoves(NamedTuple):
    """The slots that actions move to, and those that they are copied from."""

    target: Int[Array, " n"]
    source: Int[Array, " n"]

    def __call__(self, values: Shaped[Array, "S ..."]) -> Shaped[Array, "S ..."]:
        """Copy values from the sources to the targets."""
        return values.at[self.target].set(values[self.source], mode="drop")


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Lumped(Dense):
    """Classes of actions, and a slot for each action that was ever drawn, up to ``size`` slots."""

    size: int
    name = "lumped"

    def load(self, problem: Any, dtype: str) -> Any:
        """Put the problem on the device, by classes."""
        return to_device(dataclasses.replace(problem.by_classes(), counts=None), dtype)

    def initial_slots(self, problem: Any) -> SlotTable:
        """Return slots with all actions in their classes; those of each prompt, where prompts have own parameters."""
        classes = len(problem.counts)
        class_of = jnp.pad(jnp.arange(classes, dtype=jnp.int32), (0, self.size - classes))
        counts, departed = Count.from_integers(problem.counts), jnp.zeros(classes, jnp.uint32)
        slots = SlotTable(counts, class_of, jnp.zeros((), jnp.int32), departed)
        if not problem.has_own_parameters:
            return slots
        by_prompt: SlotTable = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (problem.prompts, *leaf.shape)), slots)
        return by_prompt

    def spread(self, values: Shaped[Array, "C ..."]) -> Shaped[Array, "S ..."]:
        """Place the values of the classes at their slots, and 0 at the others."""
        return jnp.pad(values, [(0, self.size - len(values))] + [(0, 0)] * (values.ndim - 1))

    def at_slots(self, values: Shaped[Array, "C ..."], slots: SlotTable) -> Shaped[Array, "S ..."]:
        """Look up the value of the class that the action of each slot came from."""
        return values[slots.class_of]

    def at_draws(self, values: Shaped[Array, " C"], drawn: Int[Array, " G"], slots: SlotTable) -> Shaped[Array, " G"]:
        """Look up the value of the class that each drawn action came from."""
        return values[slots.class_of[drawn]]

    def fill_empty(self, values: Shaped[Array, " S"], fill: float, slots: SlotTable) -> Shaped[Array, " S"]:
        """Replace the values of slots that hold no action."""
        return jnp.where(slots.occupied, values, fill)

    def is_finite(self, values: Float[Array, "S ..."], slots: SlotTable) -> Bool[Array, ""]:
        """Return True if values are finite at all slots that hold actions."""
        occupied = slots.occupied.reshape(-1, *[1] * (values.ndim - 1))
        return all_true(jnp.isfinite(values) | ~occupied)

    def multiplicity(self, slots: SlotTable, dtype: Any) -> Float[Array, " S"]:
        """Return how many actions each slot stands for."""
        members = slots.remaining(dtype)
        return slots.occupied.astype(dtype).at[: len(members)].set(members)

    def sum(self, values: Shaped[Array, " S"]) -> Shaped[Array, ""]:
        """Return the sum over all slots, the same bits whatever the number of free ones at the end."""
        return tree_sum(row_sums(values))

    def align(self, parameters: Any, before: SlotTable, after: SlotTable) -> Any:
        """Extend the parameters before a step to the slots that the step has given to actions."""
        slot = jnp.arange(self.size)
        fresh = (slot >= after.classes + before.touched) & (slot < after.classes + after.touched)
        return jnp.where(fresh.reshape(-1, *[1] * (parameters.ndim - 1)), parameters[after.class_of], parameters)

    def allocate(
        self, slots: SlotTable, drawn: Int[Array, " n"], ordinals: Int[Array, " n"], is_class: Bool[Array, " n"]
    ) -> tuple[SlotTable, SlotMoves, Int[Array, " n"]]:
        """Give slots to the drawn members of classes; draws of a class with equal ordinals are one action.

        In the table above, a group that draws slots 0, 3, 0 and 1 with ordinals 0, -, 1 and 0 gets slots 5, 3, 6 and 7.
        Returns the new table, the moves that fill the new slots, and the slot of each draw.
        """
        classes = slots.classes
        label = jnp.where(is_class, drawn, classes)
        new = jnp.zeros(classes, jnp.int32).at[label].max(ordinals + 1, mode="drop")
        first = classes + slots.touched + jnp.cumsum(new, dtype=jnp.int32) - new
        assigned = jnp.where(is_class, first[jnp.minimum(label, classes - 1)] + ordinals, drawn)
        moves = SlotMoves(jnp.where(is_class, assigned, self.size), drawn)  # one past the last: not written
        touched, departed = slots.touched + jnp.sum(new, dtype=jnp.int32), slots.departed + new.astype(jnp.uint32)
        slots = slots._replace(class_of=moves(slots.class_of), touched=touched, departed=departed)
        return slots, moves, assigned

    def fits(self, slots: SlotTable, new: Any) -> Bool[Array, ""]:
        """Return True if there is a slot for each of so many new actions, or for all that are left in classes."""
        classes, members = slots.classes, slots.members
        few = jnp.sum(jnp.where(members.high > 0, 2**30 // classes, jnp.minimum(members.low, 2**30 // classes)), -1)
        fits = slots.touched + jnp.minimum(new, few) <= self.size - classes
        return jnp.all(fits)

    def grow(self, state: Any, size: int, axis: int) -> tuple[Any, "Lumped"]:
        """Return the state with more slots, the new ones free, and their storage; ``axis`` is that of the slots."""

        def widen(values: Array) -> Array:
            if values.ndim <= axis:  # a number of each run, such as the optimiser's count of steps
                return values
            return jnp.pad(values, [(0, size - self.size if number == axis else 0) for number in range(values.ndim)])

        arrays = {name: jax.tree.map(widen, getattr(state, name)) for name in MOVING}
        slots = state.slots._replace(class_of=widen(state.slots.class_of))
        return state._replace(slots=slots, **arrays), dataclasses.replace(self, size=size)


def relative_scores(
    logits: Float[Array, " n"], temperature: Float[Array, ""], reference: Float[Array, ""]
) -> Float[Array, " n"]:
    """Return (logits - reference) / temperature, finite and above ``EMPTY`` however far below the reference."""
    return jnp.maximum((logits - reference) / temperature, EMPTY / 4)


def draw_members(
    words: UInt32[Array, "2 n"], slots: SlotTable, drawn: Int[Array, " n"], is_class: Bool[Array, " n"]
) -> Int[Array, " n"]:
    """Draw, for each draw of a class, which of the members that this group drew it is, from 0 in order of draws.

    With d members of n drawn, the next draw is each of them with probability 1 / n: the i-th where a uniform whole
    number below n is i < d, and a new one otherwise. Three draws of a class of 5, whose uniform numbers are 3, 0 and 4:
    the first is new (0), the second is member 0 again, and the third, with d = 1, is new (1). Without repeats d is the
    number of draws before; so ordinals start as 0, 1, 2, and each repeat, few, is set and lowers those after it.
    """
    label = jnp.where(is_class, drawn, 0)
    members = slots.members
    member = uniform_below(Count(members.high[label], members.low[label]), Count(words[0], words[1]))
    small = is_class & (member.high == 0) & (member.low < len(drawn))
    candidate = jnp.where(small, member.low, len(drawn)).astype(jnp.int32)
    index = jnp.arange(len(drawn), dtype=jnp.int32)

    def repeats(after: Int[Array, ""], ordinals: Int[Array, " G"]) -> Bool[Array, " G"]:
        return (candidate < ordinals) & (index > after)

    def settle(carry: tuple[Int[Array, ""], Int[Array, " G"]]) -> tuple[Int[Array, ""], Int[Array, " G"]]:
        after, ordinals = carry
        repeat = jnp.argmax(repeats(after, ordinals)).astype(jnp.int32)
        later = is_class & (drawn == drawn[repeat]) & (index > repeat)
        return repeat, jnp.where(index == repeat, candidate, ordinals - later)

    first = jnp.full((), -1, jnp.int32), rank_within_label(drawn, is_class)
    _, ordinals = jax.lax.while_loop(lambda carry: jnp.any(repeats(*carry)), settle, first)
    return ordinals


def rank_within_label(labels: Int[Array, " G"], counted: Bool[Array, " G"]) -> Int[Array, " G"]:
    """Return how many counted entries before each have its label; 0 for those not counted."""
    if len(labels) <= 128:
        index = jnp.arange(len(labels))
        same = (labels[:, None] == labels) & counted[:, None] & counted & (index[:, None] > index)
        return jnp.sum(same, axis=1, dtype=jnp.int32)
    order = jnp.argsort(jnp.where(counted, labels, -1), stable=True)
    ordered = labels[order]
    starts = jnp.searchsorted(jnp.where(counted[order], ordered, -1), ordered).astype(jnp.int32)
    ranks = jnp.zeros_like(labels).at[order].set(jnp.arange(len(labels), dtype=jnp.int32) - starts)
    return jnp.where(counted, ranks, 0)


def round_up(count: int, smallest: int = FEWEST_SLOTS) -> int:
    """Return the next of ``smallest``, 4 times that, 16 times that, ...: a number of slots that hold so many."""
    size = smallest
    while size < count:
        size *= GROWTH
    return size


def most_new(problem: Any, prompts: int, rollouts: Any, candidates: int) -> Any:
    """Return how many new actions a step on so many prompts may need slots for, in one set of slots."""
    groups = 1 if problem.has_own_parameters else prompts
    return groups * (rollouts + candidates)


def most_touched(problem: Any, settings: Any, steps: int) -> int:
    """Return how many actions of one set of slots a run of so many steps may touch; a fuller storage grows.

    A prompt is drawn in a share P / M of the steps; fewer than one in 10^9 exceeds the bound on its draws.
    """
    prompts, candidates = problem.prompts_a_step(settings), settings.build().surrogate.candidates
    draws = steps
    if problem.has_own_parameters and settings.prompts_per_step:
        mean = steps * settings.prompts_per_step / problem.prompts
        draws = min(steps, math.ceil(mean + 6 * math.sqrt(mean) + 12))
    return int(min(problem.actions, draws * most_new(problem, prompts, settings.group_size, candidates)))


def initial_size(problem: Any, settings: Any, steps: int) -> int:
    """Return how many slots a run of so many steps begins with."""
    most, fewest = (most_touched(problem, settings, number) for number in (steps, 1))
    return round_up(problem.by_classes().entries + max(most // START_SHARE, fewest))

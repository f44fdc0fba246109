"""Keep only actions that were ever sampled one by one: lumped storage, for up to 10^18 actions.

Actions that start alike and were never sampled stay alike, for every coordinate-wise optimiser. A class of them takes
one place, with one logit, one optimiser state and a count; the first C places are those of the classes. An action that
is drawn leaves its class for a place of its own, the next free one. Two classes, of 1000 and of 5 actions, after a
group drew the first class twice (two different actions of it) and the second once::

    place        0      1     2       3       4       5 ...
    holds        998    4     one of  one of  one of  nothing yet
                 alike  alike class 0 class 0 class 1
    logit        z0     z1    z0+d    z0+d    z1-e    EMPTY
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped, UInt32

from simlab.simulator.barrier import barrier
from simlab.simulator.optimizers import moments_kept
from simlab.simulator.sampling import random_words
from simlab.simulator.storage import EMPTY, Dense, on_device
from simlab.simulator.sum_tree import CHUNK, ROW, descend, row_sums, total
from simlab.simulator.wide_integers import Count, uniform_below
from simlab.truths import all_true

if TYPE_CHECKING:
    from simlab.problems.base import Problem
    from simlab.simulator.learner import Learner
    from simlab.simulator.policy import Policy
    from simlab.simulator.settings import Settings, StaticSettings
    from simlab.simulator.state import Drawn, State

FEWEST_PLACES = 2 * CHUNK
# Few sizes, for the price of some empty places: a program of another size takes 5 seconds of a core to compile.
GROWTH = 4
START_SHARE = 4  # of the places that a run may need, a quarter
# For each place: the state three times, old, grown, and once more while it is copied; of every prompt, what a record
# computes; of every prompt drawn, what a step does. Set by hand, above what single prompts, banks of 200 prompts and
# heads of 32 took at their start and after growing.
STATES, FLOATS_A_PROMPT, FLOATS_A_DRAWN_PROMPT = 3, 12, 9
FLOATS_A_ROLLOUT = 32 * 3


class Places(NamedTuple):
    """What is known of S places, of which the first C are those of the classes.

    Attributes:
        counts: (C,) how many actions each class had at the start.
        class_of: (S,) the class that the action of a place came from.
        touched: how many places hold an action of their own.
        taken: (C,) how many actions have left each class.
        kept: what sparse steps keep of the policy, see ``simlab.simulator.sparse``; None in ordinary ones.
    """

    counts: Count
    class_of: Int[Array, " S"]
    touched: Int[Array, ""]
    taken: UInt32[Array, " C"]
    kept: Any = None

    @property
    def classes(self) -> int:
        """C."""
        return int(self.taken.shape[-1])

    def left(self, dtype: Any) -> Float[Array, " C"]:
        """How many actions are left in each class."""
        return self.counts.less(self.taken).floats(jnp.dtype(dtype))

    @property
    def held(self) -> Bool[Array, " S"]:
        """Which places hold an action."""
        place, classes = jnp.arange(self.class_of.shape[-1]), self.classes
        left = self.counts.less(self.taken)
        whole = jnp.pad((left.high > 0) | (left.low > 0), (0, len(place) - classes))
        return whole | (place >= classes) & (place < classes + self.touched)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Lumped(Dense):
    """Classes of actions, and a place for each action that was ever drawn, up to ``size`` places."""

    size: int
    name = "lumped"

    def laid_out(self, problem: "Problem", dtype: str) -> "Problem":
        """The problem on the device, by classes."""
        return on_device(dataclasses.replace(problem.by_classes(), counts=None), dtype)

    def first_places(self, problem: "Problem") -> Places:
        """All actions in their classes; of each prompt, where prompts have parameters of their own."""
        assert problem.counts is not None
        classes = len(problem.counts)
        class_of = jnp.pad(jnp.arange(classes, dtype=jnp.int32), (0, self.size - classes))
        places = Places(Count.of(problem.counts), class_of, jnp.zeros((), jnp.int32), jnp.zeros(classes, jnp.uint32))
        if not problem.has_own_parameters:
            return places
        own: Places = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (problem.prompts, *leaf.shape)), places)
        return own

    def spread(self, values: Shaped[Array, "C ..."]) -> Shaped[Array, "S ..."]:
        """Values of the classes at their places, and 0 at the others."""
        return jnp.pad(values, [(0, self.size - len(values))] + [(0, 0)] * (values.ndim - 1))

    def everywhere(self, values: Shaped[Array, "C ..."], places: Places) -> Shaped[Array, "S ..."]:
        """What a problem says of the action of each place."""
        return values[places.class_of]

    def of(self, values: Shaped[Array, " C"], drawn: Int[Array, " G"], places: Places) -> Shaped[Array, " G"]:
        """What a problem says of the actions of some places."""
        return values[places.class_of[drawn]]

    def filled(self, values: Shaped[Array, " S"], free: float, places: Places) -> Shaped[Array, " S"]:
        """The values, but ``free`` at places that hold no action."""
        return jnp.where(places.held, values, free)

    def is_finite(self, values: Float[Array, "S ..."], places: Places) -> Bool[Array, ""]:
        """Whether values are finite at all places of actions."""
        held = places.held.reshape(-1, *[1] * (values.ndim - 1))
        return all_true(jnp.isfinite(values) | ~held)

    def softmax(self, logits: Float[Array, " S"], temperature: Float[Array, ""], places: Places) -> "Policy":
        """The policy of some logits."""
        from simlab.simulator.policy import Policy  # noqa: PLC0415  # a policy holds its storage

        counts, highest = places.left(logits.dtype), jnp.max(self.filled(logits, -jnp.inf, places))
        scores = self.filled(relative_scores(logits, temperature, highest), EMPTY, places)
        weights = barrier(jnp.exp(scores))  # or XLA computes them again for each of their uses
        # Adding what the counts add to a row, instead of multiplying in place, spares a copy of all weights.
        more = weights[: len(counts)] * (counts - 1)
        more = row_sums(jnp.pad(more, (0, -len(more) % ROW)))
        rows = row_sums(weights)
        rows += jnp.pad(more, (0, len(rows) - len(more)))
        return Policy(scores, weights, total(rows), counts, rows, row_sums(rows), self)

    def members(self, places: Places, dtype: Any) -> Float[Array, " S"]:
        """How many actions each place stands for."""
        left = places.left(dtype)
        return places.held.astype(dtype).at[: len(left)].set(left)

    def sum(self, values: Shaped[Array, " S"]) -> Shaped[Array, ""]:
        """The sum over all places, whatever the number of free ones at the end."""
        return total(row_sums(values))

    def sample(
        self, learner: "Learner", keys: Key[Array, " P"], prompts: Int[Array, " P"], state: "State"
    ) -> tuple["State", "Drawn"]:
        """Draw a group for each prompt, and give what was drawn, or is moved as a candidate, places of its own."""
        from simlab.simulator.groups import Listed  # noqa: PLC0415
        from simlab.simulator.state import Drawn  # noqa: PLC0415

        policies, count = learner.samplers(state, prompts), learner.surrogate.candidates
        top = learner.each(lambda _, own: own.top(count))(None, policies)
        if count:
            # No candidate comes twice, so that the n-th of a class is its n-th member.
            state, _, candidates = self.given_places(learner, prompts, state, policies, top[1], words=None)
            top, policies = (top[0], candidates), learner.samplers(state, prompts)
        words = learner.each(lambda _, key: random_words(key, 5, learner.group_size))(None, keys)
        drawn = learner.each(_descended)(None, policies, words)
        state, policies, places = self.given_places(learner, prompts, state, policies, drawn, words=words[:, 3:])
        present = None if learner.present is None else jnp.broadcast_to(learner.present, places.shape)
        return state, Drawn(policies, Listed(places, present), *top)

    def given_places(
        self,
        learner: "Learner",
        prompts: Int[Array, " P"],
        state: "State",
        policies: "Policy",
        drawn: Int[Array, "P n"],
        *,
        words: UInt32[Array, "P 2 n"] | None,
    ) -> tuple["State", "Policy", Int[Array, "P n"]]:
        """Give the members of classes that were drawn places of their own; ``words`` say which member each draw is.

        Where prompts share parameters, what they drew goes into one set of places, and each where they do not.
        """

        classes, size = state.places.classes, drawn.shape[-1]
        lumped = drawn < classes
        if words is not None and learner.present is not None:
            lumped &= learner.present

        def given(
            places: Places, kept: Any, drawn: Array, lumped: Array, member: Array
        ) -> tuple[Places, Any, Array, Moved]:
            ordinals = member if words is None else which_member(member, places, drawn, lumped)
            places, moved, own = self.settled(places, drawn, ordinals, lumped)
            return places, jax.tree.map(moved.__call__, kept), own, moved

        # Alike for all prompts, as dense storage has it: candidates of a class are its first members.
        member = jax.vmap(rank)(drawn, lumped) if words is None else words

        kept = learner.kept_by_place(state)
        if learner.problem.has_own_parameters:
            own_places, own_kept = learner.rows((state.places, kept), prompts)
            places, moved_rows, own, moved = jax.vmap(given)(own_places, own_kept, drawn, lumped, member)
            places, kept = learner.put((state.places, kept), prompts, (places, moved_rows))
            scores, weights = (
                jax.vmap(lambda move, own: move(own))(moved, v) for v in (policies.scores, policies.weights)
            )
            counts = jax.vmap(lambda own: own.left(scores.dtype))(learner.rows(places, prompts))
        else:
            # (P, G) as (P G,), and (P, 2, G) as (2, P G).
            flat = jnp.moveaxis(member, 0, -2).reshape(*member.shape[1:-1], -1)
            places, kept, own, moved = given(state.places, kept, drawn.reshape(-1), lumped.reshape(-1), flat)
            own = own.reshape(-1, size)
            scores, weights = (
                learner.each(lambda _, v: moved(v))(None, v) for v in (policies.scores, policies.weights)
            )
            left = places.left(scores.dtype)
            counts = jnp.broadcast_to(left, (len(scores), *left.shape))
        policies = policies._replace(scores=scores, weights=weights, counts=counts, rows=None, chunks=None)
        return learner.with_kept(state, places, kept), policies, own

    def settled(
        self, places: Places, drawn: Int[Array, " n"], ordinals: Int[Array, " n"], lumped: Bool[Array, " n"]
    ) -> tuple[Places, "Moved", Int[Array, " n"]]:
        """The places after members of classes got some of their own; equal ordinals of a class are one action."""
        classes = places.classes
        of_class = jnp.where(lumped, drawn, classes)
        new = jnp.zeros(classes, jnp.int32).at[of_class].max(ordinals + 1, mode="drop")
        first = classes + places.touched + jnp.cumsum(new, dtype=jnp.int32) - new
        own = jnp.where(lumped, first[jnp.minimum(of_class, classes - 1)] + ordinals, drawn)
        moved = Moved(jnp.where(lumped, own, self.size), drawn)  # one past the last: not written
        touched, taken = places.touched + jnp.sum(new, dtype=jnp.int32), places.taken + new.astype(jnp.uint32)
        places = places._replace(class_of=moved(places.class_of), touched=touched, taken=taken)
        return places, moved, own

    def has_room(self, learner: "Learner", state: "State") -> Bool[Array, ""]:
        """Whether there is a place for every action that the next step may draw."""
        candidates = learner.surrogate.candidates
        new = most_new(learner.problem, learner.prompts_per_step, learner.rollouts_present, candidates)
        classes, everything = state.places.classes, state.places.counts.less(state.places.taken)
        few = jnp.sum(
            jnp.where(everything.high > 0, 2**30 // classes, jnp.minimum(everything.low, 2**30 // classes)), -1
        )
        fits = state.places.touched + jnp.minimum(new, few) <= self.size - classes
        return jnp.all(fits)

    def grown(self, state: "State", problem: "Problem", size: int, *, batched: bool) -> tuple["State", "Lumped"]:
        """The same state in more places, the new ones free; ``batched`` states have a first axis of runs."""
        larger = dataclasses.replace(self, size=size)
        axis = int(batched) + int(problem.has_own_parameters)

        from simlab.simulator.state import MOVING  # noqa: PLC0415  # a state holds what a storage knows

        def wider(values: Array) -> Array:
            if values.ndim <= axis:  # a number of each run, such as the optimiser's count of steps
                return values
            return jnp.pad(values, [(0, size - self.size if place == axis else 0) for place in range(values.ndim)])

        parts = {name: jax.tree.map(wider, getattr(state, name)) for name in MOVING}
        places = state.places._replace(class_of=wider(state.places.class_of))
        return state._replace(places=places, **parts), larger

    def bytes_for(self, problem: "Problem", settings: "StaticSettings") -> int:
        """Bytes that a run takes at most when it has just grown to these places."""
        drawn, parameters = problem.prompts_a_step(settings), np.size(problem.parameters) // problem.entries
        state = parameters * (1 + moments_kept(settings.optimizer) + problem.histories + settings.lag)
        a_place = STATES * state + FLOATS_A_PROMPT * problem.prompts + FLOATS_A_DRAWN_PROMPT * drawn
        floats = self.size * a_place + drawn * settings.group_size * FLOATS_A_ROLLOUT
        return floats * np.dtype(settings.dtype).itemsize

    def at_last_step(self, parameters: Any, before: Places, after: Places) -> Any:
        """Parameters before a step, with a place for every action that the step drew."""
        place = jnp.arange(self.size)
        fresh = (place >= after.classes + before.touched) & (place < after.classes + after.touched)
        return jnp.where(fresh.reshape(-1, *[1] * (parameters.ndim - 1)), parameters[after.class_of], parameters)


class Moved(NamedTuple):
    """Which places are new, and from which one each is copied."""

    fresh: Int[Array, " n"]
    source: Int[Array, " n"]

    def __call__(self, values: Shaped[Array, "S ..."]) -> Shaped[Array, "S ..."]:
        """Values by place, those of new places copied."""
        return values.at[self.fresh].set(values[self.source], mode="drop")


def relative_scores(
    logits: Float[Array, " n"], temperature: Float[Array, ""], reference: Float[Array, ""]
) -> Float[Array, " n"]:
    """(logits - reference) / temperature, exactly 0 at the reference; finite and no ``EMPTY`` however far below it."""
    return jnp.maximum((logits - reference) / temperature, EMPTY / 4)


def _descended(_: None, policy: "Policy", words: UInt32[Array, "5 G"]) -> Int[Array, " G"]:
    assert policy.counts is not None
    assert policy.rows is not None
    assert policy.chunks is not None
    return descend(words[:3], policy.weights, policy.counts, policy.rows, policy.chunks)


def which_member(
    words: UInt32[Array, "2 n"], places: Places, drawn: Int[Array, " n"], lumped: Bool[Array, " n"]
) -> Int[Array, " n"]:
    """For each draw of a class, which of the members that this group drew it is, counted from 0 in order of draws.

    With d members of n drawn, the next draw is one of them with probability d / n, each being as likely: the i-th
    where a uniform whole number below n is i < d, and a new one otherwise. Without repeats d is the number of draws
    before it; the repeats, few, are settled one after the other.
    """
    of_class = jnp.where(lumped, drawn, 0)
    member = uniform_below(places.counts.less(places.taken).take(of_class), Count(words[0], words[1]))
    small = lumped & (member.high == 0) & (member.low < len(drawn))
    member_low = jnp.where(small, member.low, len(drawn)).astype(jnp.int32)
    index = jnp.arange(len(drawn), dtype=jnp.int32)

    def repeats(after: Int[Array, ""], ordinals: Int[Array, " G"]) -> Bool[Array, " G"]:
        return (member_low < ordinals) & (index > after)

    def settle(carry: tuple[Int[Array, ""], Int[Array, " G"]]) -> tuple[Int[Array, ""], Int[Array, " G"]]:
        after, ordinals = carry
        this = jnp.argmax(repeats(after, ordinals)).astype(jnp.int32)
        later = lumped & (drawn == drawn[this]) & (index > this)
        return this, jnp.where(index == this, member_low, ordinals - later)

    first = jnp.full((), -1, jnp.int32), rank(drawn, lumped)
    _, ordinals = jax.lax.while_loop(lambda carry: jnp.any(repeats(*carry)), settle, first)
    return ordinals


def rank(labels: Int[Array, " G"], counted: Bool[Array, " G"]) -> Int[Array, " G"]:
    """How many counted entries before each have its label; 0 for those not counted."""
    if len(labels) <= 128:
        index = jnp.arange(len(labels))
        same = (labels[:, None] == labels) & counted[:, None] & counted & (index[:, None] > index)
        return jnp.sum(same, axis=1, dtype=jnp.int32)
    order = jnp.argsort(jnp.where(counted, labels, -1), stable=True)
    ordered = labels[order]
    starts = jnp.searchsorted(jnp.where(counted[order], ordered, -1), ordered).astype(jnp.int32)
    ranks = jnp.zeros_like(labels).at[order].set(jnp.arange(len(labels), dtype=jnp.int32) - starts)
    return jnp.where(counted, ranks, 0)


def enough_places(classes: int, actions: int) -> int:
    """Places for the classes and so many actions of their own: the next of 2048, 8192, 32768, ..."""
    places = FEWEST_PLACES
    while places < classes + actions:
        places *= GROWTH
    return places


def most_new(problem: "Problem", prompts: int, rollouts: Any, candidates: int) -> Any:
    """How many new actions a step on so many prompts may need places for, in one set of places."""
    groups = 1 if problem.has_own_parameters else prompts
    return groups * (rollouts + candidates)


def most_drawn(problem: "Problem", settings: "Settings", steps: int) -> int:
    """In how many steps one set of places is drawn from, at most.

    A prompt of a bank is drawn in a share P / M of the steps. The bound lies six standard deviations and 12 above the
    mean, which fewer than one prompt in 10^9 exceeds.
    """
    if not (problem.has_own_parameters and settings.prompts_per_step):
        return steps
    mean = steps * settings.prompts_per_step / problem.prompts
    return min(steps, math.ceil(mean + 6 * math.sqrt(mean) + 12))


def most_touched(problem: "Problem", settings: "Settings", steps: int) -> int:
    """How many actions of one set of places a run of so many steps is to have places for; a fuller storage grows."""
    prompts, candidates = problem.prompts_a_step(settings), settings.build().surrogate.candidates
    a_step: int = most_new(problem, prompts, settings.group_size, candidates)
    return min(problem.actions, a_step * most_drawn(problem, settings, steps))


def size_at_start(problem: "Problem", settings: "Settings", steps: int) -> int:
    """How many places a run of so many steps begins with."""
    most, fewest = (most_touched(problem, settings, taken) for taken in (steps, 1))
    return enough_places(problem.by_classes().entries, max(most // START_SHARE, fewest))

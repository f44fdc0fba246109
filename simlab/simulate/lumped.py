"""The lumped engine: only actions that were ever sampled are carried one by one.

Actions that start alike and were never sampled stay alike, for every coordinate-wise optimiser. A class of them takes
one place, with one logit, one optimiser state and a count; the first C places are those of the classes. An action that
is drawn leaves its class for a place of its own, the next free one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped, UInt32

from simlab.simulate.counts import Count, uniform_below
from simlab.simulate.descent import descend
from simlab.simulate.lane import Drawn, Group, Landscape, Lane, State
from simlab.simulate.policy import EMPTY, Policy, softmax
from simlab.simulate.program import Numbers, Program
from simlab.simulate.sampling import random_words


class Lumps(NamedTuple):
    """What is known of S places, of which the first C are those of the classes.

    Attributes:
        class_of: (S,) the class that the action of a place came from.
        touched: how many places hold an action of their own.
        taken: (C,) how many actions have left each class.
    """

    class_of: Int[Array, " S"]
    touched: Int[Array, ""]
    taken: UInt32[Array, " C"]


class Shared(NamedTuple):
    """What all lanes of a run share: the arrays of the classes, how many actions each has, and the group size."""

    place: Landscape
    counts: Count
    group_size: Int[Array, ""]


class LumpedLane(Lane):
    """A lane of the lumped engine, with ``places`` places; its program may be for larger groups than its own, if it is
    exchangeable.
    """

    def __init__(self, program: Program, shared: Shared, places: int, key: PRNGKeyArray, numbers: Numbers):
        self.counts, self.places = shared.counts, places
        self.rollout_exists = jnp.arange(program.group_size) < shared.group_size
        present = self.rollout_exists if program.exchangeable else None
        super().__init__(program, shared.place, key, numbers, present)

    def initial_policy(self) -> Policy:
        """The policy before the first step, summed as the later ones are."""
        none_taken = jnp.zeros_like(self.counts.low)
        return softmax(self._spread(self.place.logits, EMPTY), self.numbers.temperature, self._left(none_taken))

    def _spread(self, values: Shaped[Array, " C"], free: float) -> Shaped[Array, " S"]:
        """Values of the classes at their places, and ``free`` at the others."""
        return jnp.pad(values, (0, self.places - len(values)), constant_values=free)

    def _left(self, taken: UInt32[Array, " C"]) -> Float[Array, " C"]:
        return self.counts.less(taken).floats(jnp.dtype(self.program.dtype))

    def start(self) -> State:
        """The state before the first step: all actions in their classes."""
        state, classes = super().start(), jnp.arange(len(self.place.logits), dtype=jnp.int32)
        logits = self._spread(self.place.logits, EMPTY)
        lumps = Lumps(self._spread(classes, 0), jnp.zeros((), jnp.int32), jnp.zeros(len(classes), jnp.uint32))
        return state._replace(logits=logits, optimizer=self.optimizer.init(logits), lumps=lumps)

    def remaining(self, state: State) -> Float[Array, " C"]:
        """How many actions are left in each class."""
        return self._left(state.lumps.taken)

    def moved(self, logits: Float[Array, " S"], change: Float[Array, " S"]) -> Float[Array, " S"]:
        """The logits after an update; a place without an action stays as it is, and NaN is no such place."""
        return jnp.where(logits <= EMPTY / 2, EMPTY, logits + change)

    def drawn_logits(self, state: State, group: Group) -> Float[Array, " G"]:
        """The logits of the places that a group drew; NaN where one would count as no action."""
        logits = super().drawn_logits(state, group)
        return jnp.where(logits > EMPTY / 2, logits, jnp.nan)

    def is_finite(self, values: Float[Array, " S"], state: State) -> Bool[Array, ""]:
        """Whether logits or moments are finite at all places of actions, and not as low as where there is none."""
        classes, place = len(self.place.logits), jnp.arange(self.places)
        left = jnp.pad(self.remaining(state) > 0, (0, self.places - classes))
        taken = (place >= classes) & (place < classes + state.lumps.touched)
        return jnp.all(jnp.isfinite(values) & (values > EMPTY / 2) | ~(left | taken))

    def at_places(self, values: Shaped[Array, " C"], state: State) -> Shaped[Array, " S"]:
        """What the problem says of the actions of each place."""
        return values[state.lumps.class_of]

    def at(self, values: Shaped[Array, " C"], places: Int[Array, " G"], state: State) -> Shaped[Array, " G"]:
        """What the problem says of the actions of some places."""
        return values[state.lumps.class_of[places]]

    def sample(self, key: PRNGKeyArray, state: State) -> tuple[State, Drawn]:
        """Draw a group; the likeliest actions, if the surrogate moves them, and those drawn get places of their own."""
        policy = self.policy(state)
        top_logp, candidates = policy.top(self.surrogate.candidates)
        if self.surrogate.candidates:
            lumped = candidates < len(self.place.logits)
            state, _, candidates = self.single_out(state, policy, candidates, rank(candidates, lumped), lumped)
            policy = self.policy(state)
        assert policy.counts is not None
        assert policy.rows is not None
        assert policy.chunks is not None
        words = random_words(key, 5, self.program.group_size)
        drawn = descend(words[:3], policy.weights, policy.counts, policy.rows, policy.chunks)
        lumped = (drawn < len(self.place.logits)) & self.rollout_exists
        ordinals = self.which_member(words[3:], state, drawn, lumped)
        state, policy, actions = self.single_out(state, policy, drawn, ordinals, lumped)
        return state, Drawn(policy, actions, top_logp, candidates)

    def which_member(
        self, words: UInt32[Array, "2 G"], state: State, drawn: Int[Array, " G"], lumped: Bool[Array, " G"]
    ) -> Int[Array, " G"]:
        """For each draw of a class, which of the members that this group drew it is, counted from 0 in order of draws.

        With d members of n drawn, the next draw is one of them with probability d / n, each being as likely: the i-th
        where a uniform whole number below n is i < d, and a new one otherwise. Without repeats d is the number of draws
        before it; the repeats, few, are settled one after the other.
        """
        of_class = jnp.where(lumped, drawn, 0)
        member = uniform_below(self.counts.less(state.lumps.taken).take(of_class), Count(words[0], words[1]))
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

    def single_out(
        self,
        state: State,
        policy: Policy,
        drawn: Int[Array, " G"],
        ordinals: Int[Array, " G"],
        lumped: Bool[Array, " G"],
    ) -> tuple[State, Policy, Int[Array, " G"]]:
        """Give drawn members of classes places of their own; equal ordinals of a class are one action."""
        lumps, classes = state.lumps, len(self.place.logits)
        of_class = jnp.where(lumped, drawn, classes)
        new = jnp.zeros(classes, jnp.int32).at[of_class].max(ordinals + 1, mode="drop")
        first = classes + lumps.touched + jnp.cumsum(new, dtype=jnp.int32) - new
        places = jnp.where(lumped, first[jnp.minimum(of_class, classes - 1)] + ordinals, drawn)
        fresh = jnp.where(lumped, places, self.places)  # one past the last: not written

        def copied(values: Any) -> Any:
            return values.at[fresh].set(values[drawn], mode="drop") if values.ndim else values

        taken = lumps.taken + new.astype(jnp.uint32)
        left = self._left(taken)
        logits = copied(state.logits)
        state = state._replace(
            logits=logits.at[:classes].set(jnp.where(left > 0, logits[:classes], EMPTY)),
            optimizer=jax.tree.map(copied, state.optimizer),
            lumps=Lumps(copied(lumps.class_of), lumps.touched + jnp.sum(new, dtype=jnp.int32), taken),
        )
        return state, Policy(copied(policy.scores), copied(policy.weights), policy.total, left), places

    def before_last_step(self, before: State, state: State) -> Float[Array, " S"]:
        """The logits of ``before``, where every action that the one step to ``state`` drew has a place of its own."""
        places, classes = jnp.arange(self.places), len(self.place.logits)
        fresh = (places >= classes + before.lumps.touched) & (places < classes + state.lumps.touched)
        logits = jnp.where(fresh, before.logits[state.lumps.class_of], before.logits)
        return logits.at[:classes].set(jnp.where(self.remaining(state) > 0, logits[:classes], EMPTY))


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

"""Running lumped lanes: window after window of steps, in programs for a number of places that grows with use.

One program serves every number of steps and every problem of as many classes, and, where rollouts are exchangeable,
every group size up to its own.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PRNGKeyArray

from simlab.problems import Problem
from simlab.simulate.compiled import kept
from simlab.simulate.counts import Count
from simlab.simulate.dense import lane_arrays
from simlab.simulate.descent import CHUNK
from simlab.simulate.faults import Fault, complain
from simlab.simulate.lane import Landscape, State
from simlab.simulate.lumped import LumpedLane, Shared
from simlab.simulate.metrics import Row
from simlab.simulate.policy import EMPTY
from simlab.simulate.program import LARGEST_INT, Numbers, Program
from simlab.simulate.sparse import SparseLane, may_be_sparse

FEWEST_PLACES = 2 * CHUNK
GROWTH = 2
START_SHARE = 4  # of the places that a run may need, a quarter: fewer programs, for the price of some empty places
SMALLEST_GROUP = 32
FLOATS_A_PLACE = 24  # state, its copy while it grows, and what a step computes
FLOATS_A_ROLLOUT = 32 * 3


class Shape(NamedTuple):
    """What a compiled window is for: its program, of padded group size, its places, whether lanes are batched, and
    whether their steps are sparse.
    """

    program: Program
    places: int
    batched: bool
    sparse: bool = False


Carry = tuple[Int[Array, ""], State]  # the step that comes next, and the lanes


class Window(NamedTuple):
    """The steps from ``start`` to ``last`` - 1, after a record that was taken at step ``first``."""

    first: Any
    start: Any
    last: Any


class Fixed(NamedTuple):
    """What stays as it is from window to window, with the number of actions, up to that of an int."""

    shared: Shared
    actions: Int[Array, ""]
    keys: Key[Array, "*lanes"]
    numbers: Numbers

    def lane(self, shape: Shape, key: PRNGKeyArray, numbers: Numbers) -> LumpedLane:
        """One lane."""
        if shape.sparse:
            return self.sparse_lane(shape, key, numbers)
        return LumpedLane(shape.program, self.shared, shape.places, key, numbers)

    def sparse_lane(self, shape: Shape, key: PRNGKeyArray, numbers: Numbers) -> SparseLane:
        """One lane of sparse steps."""
        return SparseLane(shape.program, self.shared, shape.places, key, numbers)


def padded(program: Program) -> int:
    """The group size that is compiled for: the next of 32, 128, 512, ...; its own where nothing absent may be seen."""
    if not program.exchangeable:
        return program.group_size
    size = SMALLEST_GROUP
    while size < program.group_size:
        size *= 4
    return size


def enough_places(classes: int, actions: int) -> int:
    """Places for the classes and so many actions of their own: the next of 2048, 4096, 8192, ..."""
    places = FEWEST_PLACES
    while places < classes + actions:
        places *= GROWTH
    return places


def run_windows(
    program: Program, problem: Problem, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]]
) -> dict[str, np.ndarray]:
    """Simulate lanes on the lumped engine, in lockstep; the records of ``run_lanes``.

    Those whose steps are sparse run together, and the others: what a lane draws does not depend on those beside it.

    Raises:
        Diverged: for a lane with a number that is not finite, when it is to be recorded next.
    """
    sparse = are_sparse(program, problem, lanes)
    rows: dict[str, np.ndarray] = {}
    for kind in np.unique(sparse):
        chosen = np.flatnonzero(sparse == kind)
        filled = [lanes[int(place)] for place in np.resize(chosen, len(lanes))]
        for name, values in _run(program, problem, steps, filled, sparse=bool(kind)).items():
            rows.setdefault(name, np.empty_like(values))[chosen] = values[: len(chosen)]
    return rows


def are_sparse(program: Program, problem: Problem, lanes: Sequence[tuple[int, Numbers]]) -> np.ndarray:
    """For each lane whether its steps are sparse: whether its coefficients sum to exactly 0 in every group.

    Rewards are binary and rollouts interchangeable: for any number of correct rollouts two orders of them are tried.
    """
    if not may_be_sparse(program):
        return np.zeros(len(lanes), bool)
    fixed, size = prepared(program, problem, lanes), padded(program)
    shape = Shape(dataclasses.replace(program, group_size=size), FEWEST_PLACES, len(lanes) > 1, sparse=True)
    ranks = np.full((2, size), size, np.int32)
    ranks[:, : program.group_size] = (
        np.arange(program.group_size),
        np.random.default_rng(0).permutation(program.group_size),
    )
    return np.atleast_1d(_compiled("decide", _sum_to_zero, shape, fixed, jnp.asarray(ranks)))


def _sum_to_zero(shape: Shape, fixed: Fixed, ranks: Int[Array, "2 G"]) -> Bool[Array, "*lanes"]:
    """Whether coefficients sum to exactly 0 where the c rollouts of the lowest ranks are correct, for all c."""

    def always(key: PRNGKeyArray, numbers: Numbers) -> Bool[Array, ""]:
        lane = fixed.sparse_lane(shape, key, numbers)
        numbers_correct = jnp.arange(shape.program.group_size + 1, dtype=jnp.int32)
        return jnp.all(jax.lax.map(lambda correct: jax.vmap(lane.sum_to_zero)(ranks < correct), numbers_correct))

    decided: Bool[Array, "*lanes"] = _each(shape)(always)(fixed.keys, fixed.numbers)
    return decided


def _run(
    program: Program, problem: Problem, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]], *, sparse: bool
) -> dict[str, np.ndarray]:
    fixed = prepared(program, problem, lanes)
    wide = dataclasses.replace(program, group_size=padded(program))
    most, fewest = most_touched(program, problem, int(steps[-1])), most_touched(program, problem, 1)
    places = enough_places(len(problem.classes.counts), max(most // START_SHARE, fewest))
    shape = Shape(wide, enough_places(len(problem.classes.counts), 0), batched=len(lanes) > 1, sparse=sparse)
    # One program starts runs of any length; free places at the end change nothing.
    state, row = _compiled("start", _start, shape, fixed)
    shape, state, rows = shape._replace(places=places), _grown(state, places), [row]
    for first, last in zip([0, *steps[:-1]], steps, strict=True):
        shape, state = _steps(shape, fixed, state, Window(first, first, last - 1))
        before = state
        shape, state = _steps(shape, fixed, state, Window(first, last - 1, last))
        before = _grown(before, shape.places)
        row, fault = _compiled("record", _record, shape, fixed, before, state, np.int32(last - first))
        complain(program, lanes, fault)
        rows.append(row)
    return _joined([jax.tree.map(np.asarray, row) for row in rows], shape.batched)


def _steps(shape: Shape, fixed: Fixed, state: State, window: Window) -> tuple[Shape, State]:
    """Take the steps of a window, in as many places as they need."""
    index = window.start
    while index < window.last:
        window = Window(*(np.int32(value) for value in (window.first, index, window.last)))
        state, reached = _compiled("advance", _advance, shape, fixed, state, window)
        index = int(reached)
        if index < window.last:
            shape = shape._replace(places=GROWTH * shape.places)
            state = _grown(state, shape.places)
    return shape, state


def most_bytes(program: Program, problem: Problem, steps: int, together: int) -> int:
    """Bytes that ``together`` lanes take at most: if every draw were of a new action, and places had just grown."""
    places = enough_places(len(problem.classes.counts), most_touched(program, problem, steps))
    floats = (places * FLOATS_A_PLACE + padded(program) * FLOATS_A_ROLLOUT) * together
    return floats * np.dtype(program.dtype).itemsize


def touched_a_step(program: Program) -> int:
    """How many new actions a step may need places for."""
    return program.group_size + program.build_surrogate({}).candidates


def most_touched(program: Program, problem: Problem, steps: int) -> int:
    """How many actions a run of so many steps may need places for."""
    return min(problem.actions, touched_a_step(program) * steps)


def prepared(program: Program, problem: Problem, lanes: Sequence[tuple[int, Numbers]]) -> Fixed:
    """The arrays of a run of these lanes; without the axis of lanes if there is one alone."""
    classes, dtype = problem.classes, program.dtype
    keys, numbers = lane_arrays(program, lanes)
    if len(lanes) == 1:
        keys, numbers = jax.tree.map(lambda leaf: leaf[0], (keys, numbers))
    place = Landscape(
        jnp.asarray(classes.class_logits, dtype), jnp.asarray(classes.class_correct), jnp.asarray(classes.class_target)
    )
    actions = jnp.asarray(min(problem.actions, LARGEST_INT), jnp.int32)
    shared = Shared(place, Count.of(classes.counts), jnp.asarray(program.group_size, jnp.int32))
    return Fixed(shared, actions, keys, numbers)


def _compiled(name: str, function: Callable[..., Any], shape: Shape, *arguments: Any) -> Any:
    leaves, structure = jax.tree.flatten(arguments)
    key = (name, shape, structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
    code = kept(key, lambda: jax.jit(lambda *given: function(shape, *given)).lower(*arguments).compile())
    return code.call(*arguments)


def _each(shape: Shape) -> Callable[..., Any]:
    """Lanes in lockstep: one function of a lane as one of all lanes."""
    return jax.vmap if shape.batched else lambda function: function


def _start(shape: Shape, fixed: Fixed) -> tuple[State, Row]:
    def start(key: PRNGKeyArray, numbers: Numbers) -> tuple[State, Row]:
        lane = fixed.lane(shape, key, numbers)
        state = lane.start()
        return state, lane.policy_metrics(state)

    started: tuple[State, Row] = _each(shape)(start)(fixed.keys, fixed.numbers)
    return started


def _advance(shape: Shape, fixed: Fixed, state: State, window: Window) -> tuple[State, Int[Array, ""]]:
    """The steps of a window, as far as the places suffice; and the step that comes next."""

    def sample(index: Int[Array, ""], state: State) -> Any:
        def one(key: PRNGKeyArray, numbers: Numbers, state: State) -> Any:
            lane = fixed.lane(shape, key, numbers)
            key = jax.random.fold_in(key, index)
            return key, *lane.sample(key, state)

        return _each(shape)(one)(fixed.keys, fixed.numbers, state)

    def learn(sampled: Any) -> State:
        def one(key: PRNGKeyArray, numbers: Numbers, sampled: Any) -> State:
            return fixed.lane(shape, key, numbers).learn(*sampled)

        learnt: State = _each(shape)(one)(fixed.keys, fixed.numbers, sampled)
        return learnt

    def has_room(state: State) -> Bool[Array, ""]:
        most = jnp.max(state.lumps.touched) + fixed.shared.group_size + shape.program.build_surrogate({}).candidates
        room: Bool[Array, ""] = jnp.minimum(most, fixed.actions) <= shape.places - len(fixed.shared.place.logits)
        return room

    def goes_on(carry: Carry) -> Bool[Array, ""]:
        more: Bool[Array, ""] = (carry[0] < window.last) & has_room(carry[1])
        return more

    def step(carry: Carry) -> Carry:
        index, state = carry
        return index + 1, learn(sample(index, state))

    def refresh(state: State) -> State:
        def one(key: PRNGKeyArray, numbers: Numbers, state: State) -> State:
            return fixed.sparse_lane(shape, key, numbers).refreshed(state)

        refreshed: State = _each(shape)(one)(fixed.keys, fixed.numbers, state)
        return refreshed

    def sparse_steps(carry: Carry) -> Carry:
        """The steps until the weights of a lane are stale, at least one; no weights are left stale."""
        index, state = jax.lax.while_loop(lambda carry: goes_on(carry) & ~jnp.any(carry[1].tree.is_stale), step, carry)
        return index, jax.lax.cond(jnp.any(state.tree.is_stale), refresh, lambda state: state, state)

    counted = (window.start > window.first).astype(state.active.dtype)  # 0 where the window begins
    state = state._replace(active=counted * state.active, tail_missed=counted * state.tail_missed)
    index, state = jax.lax.while_loop(goes_on, sparse_steps if shape.sparse else step, (window.start, state))
    return state, index


def _record(shape: Shape, fixed: Fixed, before: State, state: State, length: Int[Array, ""]) -> tuple[Row, Fault]:
    """The records of a window of ``length`` steps, of which the last went from ``before`` to ``state``, and faults."""

    def record(key: PRNGKeyArray, numbers: Numbers, before: State, state: State) -> tuple[Row, Fault]:
        lane = fixed.lane(shape, key, numbers)
        row = lane.record(lane.before_last_step(before, state), state, length)
        return row, lane.looked_over(state).fault

    recorded: tuple[Row, Fault] = _each(shape)(record)(fixed.keys, fixed.numbers, before, state)
    return recorded


def _grown(state: State, places: int) -> State:
    """The same state with free places at the end."""

    def wider(values: Array, free: float = 0) -> Array:
        if values.ndim == state.active.ndim or values.shape[-1] == places:
            return values
        widths = [(0, 0)] * (values.ndim - 1) + [(0, places - values.shape[-1])]
        return jnp.pad(values, widths, constant_values=free)

    lumps = state.lumps._replace(class_of=wider(state.lumps.class_of))
    moments = jax.tree.map(wider, state.optimizer)
    tree = None if state.tree is None else state.tree.grown(places)
    return state._replace(logits=wider(state.logits, EMPTY), optimizer=moments, lumps=lumps, tree=tree)


def _joined(rows: list[dict[str, np.ndarray]], batched: bool) -> dict[str, np.ndarray]:
    """Records of windows as (lanes, R + 1, ...), NaN where step 0 has none."""
    filled = [{name: np.full_like(values, np.nan) for name, values in rows[1].items()} | rows[0], *rows[1:]]
    axis = 1 if batched else 0
    joined = {name: np.stack([row[name] for row in filled], axis) for name in filled[0]}
    return joined if batched else {name: values[None] for name, values in joined.items()}

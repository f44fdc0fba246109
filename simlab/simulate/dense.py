"""The dense engine: every action's logit is carried, stepped and updated.

A program is compiled once for a problem's shape, and called for seeds and numbers.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray

from simlab.problems import LinearSoftmax, Problem, Tree
from simlab.simulate.axis import WHOLE, Axis
from simlab.simulate.bank_lane import BankLane
from simlab.simulate.compiled import Compiled, kept
from simlab.simulate.counted import CountedLane, counts_suffice
from simlab.simulate.faults import Fault, complain
from simlab.simulate.lane import Landscape, Lane, State
from simlab.simulate.linear_lane import LinearLane
from simlab.simulate.metrics import Row, join
from simlab.simulate.program import Numbers, Program
from simlab.simulate.tree_lane import TreeLane


def lane_kind(program: Program, place: Landscape) -> type[Lane]:
    """What kind of lane runs the program there."""
    if place.modes is not None:
        return TreeLane
    if place.correct.ndim == 2:
        return BankLane if place.features is None else LinearLane
    counted = program.engine != "sharded" and counts_suffice(program, len(place.logits))
    return CountedLane if counted else Lane


def trajectory(
    program: Program,
    place: Landscape,
    steps: Int[Array, " R"],
    key: PRNGKeyArray,
    numbers: Numbers,
    *,
    axis: Axis = WHOLE,
) -> tuple[Row, Fault]:
    """Simulate one lane and return its records, each (R + 1, ...): step 0 and the steps in ``steps``; and its fault."""
    lane = lane_kind(program, place)(program, place, key, numbers, axis=axis)

    def window(state: State, bounds: Int[Array, " 2"]) -> tuple[State, Row]:
        first, last = bounds[0], bounds[1]
        state = lane.counted_anew(state)
        # Two loops over one body, so that recording does not change the arithmetic of a step.
        state = jax.lax.fori_loop(first, last - 1, lane.step, state)
        before = state.logits
        state = lane.looked_over(jax.lax.fori_loop(last - 1, last, lane.step, state))
        return state, lane.record(before, state, last - first)

    bounds = jnp.stack([jnp.concatenate([jnp.zeros_like(steps[:1]), steps[:-1]]), steps], axis=1)
    state, rows = jax.lax.scan(window, lane.start(), bounds)
    return join(lane.policy_metrics(lane.start()), rows), state.fault


def compiled(program: Program, problem: Problem, records: int, numbers: Numbers, together: int) -> Compiled:
    """The program of ``together`` lanes of a problem's shape, and what it takes."""
    shared = problem.features.shape if isinstance(problem, LinearSoftmax) else None
    modes = len(problem.modes) if isinstance(problem, Tree) else None
    key = (program, problem.shape, shared, modes, records, jax.tree.structure(numbers), together)

    def batch(place: Landscape, steps: Array, keys: Array, numbers: Numbers) -> tuple[Row, Fault]:
        def run(key: Array, numbers: Numbers) -> tuple[Row, Fault]:
            return trajectory(program, place, steps, key, numbers)

        if together > 1:
            batched: tuple[Row, Fault] = jax.vmap(run)(keys, numbers)
            return batched
        alone = run(*jax.tree.map(lambda leaf: leaf[0], (keys, numbers)))
        only: tuple[Row, Fault] = jax.tree.map(lambda leaf: leaf[None], alone)
        return only

    def compile_it() -> Any:
        arguments = _arguments(program, problem, np.arange(1, records + 1), [(0, numbers)] * together)
        return jax.jit(batch).lower(*arguments).compile()

    return kept(key, compile_it)


def run_dense(
    program: Program, problem: Problem, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]]
) -> dict[str, np.ndarray]:
    """Simulate lanes, in one call; the records of ``run_lanes``.

    Raises:
        Diverged: for a lane with a number that is not finite.
    """
    code = compiled(program, problem, len(steps), lanes[0][1], len(lanes))
    rows, fault = code.call(*_arguments(program, problem, steps, lanes))
    complain(program, lanes, fault)
    return {name: np.asarray(row) for name, row in rows.items()}


def _arguments(
    program: Program, problem: Problem, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]]
) -> tuple[Landscape, Array, Array, Numbers]:
    return landscape(program, problem), jnp.asarray(steps, jnp.int32), *lane_arrays(program, lanes)


def landscape(program: Program, problem: Problem) -> Landscape:
    """The problem on the device, in the dtype of the program."""
    correct, target = jnp.asarray(problem.correct), jnp.asarray(problem.target)
    if isinstance(problem, LinearSoftmax):
        weights, features = (jnp.asarray(values, program.dtype) for values in (problem.weights, problem.features))
        return Landscape(weights, correct, target, features=features)
    modes = jnp.asarray(problem.modes, jnp.int32) if isinstance(problem, Tree) else None
    return Landscape(jnp.asarray(problem.logits, program.dtype), correct, target, modes=modes)


def lane_arrays(program: Program, lanes: Sequence[tuple[int, Numbers]]) -> tuple[Key[Array, " lanes"], Numbers]:
    """The keys and numbers of some lanes, along a first axis."""
    keys = jnp.stack([jax.random.key(seed, impl="threefry2x32") for seed, _ in lanes])
    return keys, jax.tree.map(lambda *leaves: jnp.asarray(leaves, program.dtype), *(numbers for _, numbers in lanes))

"""Running lanes: compiling a program once for a problem's shape, and calling it for seeds and numbers.

Lanes are batched by ``vmap`` where actions are few or the device is a GPU, and run alone, one a thread, where a lane
keeps a CPU core busy by itself.
"""

import collections
import dataclasses
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from simlab.errors import InputError, check_range
from simlab.estimators.registry import check_domain
from simlab.problems import Categorical
from simlab.simulate.dense import Landscape, Numbers, Program, trajectory
from simlab.simulate.metrics import Row


def check(program: Program, problem: Categorical) -> None:
    """Raise ``InputError`` if the program cannot run on the problem."""
    rewards = np.array([[problem.reward_correct, problem.reward_incorrect]])
    check_domain(program.build_estimator({}), rewards)
    check_range("top_n", program.top_n, 0, problem.actions)
    check_range("candidates", program.build_surrogate({}).candidates, 0, problem.actions)
    largest = np.finfo(program.dtype).max
    for logit in (problem.logits.min(), problem.logits.max()):
        if abs(logit) > largest:
            raise InputError(f"a logit is {logit:g}; allowed in {program.dtype}: up to {largest:g}")


def with_rewards(program: Program, problem: Categorical, numbers: Numbers) -> Numbers:
    """The numbers, with the problem's rewards where they give none.

    Raises:
        InputError: for rewards that the problem or the program's estimator does not allow.
    """
    given = {"reward_correct": numbers.reward_correct, "reward_incorrect": numbers.reward_incorrect}
    rewards = {name: getattr(problem, name) if value is None else value for name, value in given.items()}
    check(program, dataclasses.replace(problem, **rewards))
    return numbers._replace(**rewards)


def lanes_together(actions: int, platform: str) -> int:
    """How many lanes one vmapped call holds.

    Fixed by problem size and platform alone, never by the number of seeds or the memory budget, so that a lane's
    numbers do not depend on what ran beside it. On a CPU a lane of 16384 actions or more fills the vector units and
    runs alone, in a thread of its own; on a GPU some 2^23 actions fill the device.
    """
    if platform == "cpu":
        return 1 if actions >= 16384 else 8
    return max(1, min(256, 2**23 // actions))


class Compiled(NamedTuple):
    """A compiled batch of ``together`` lanes, and the bytes it takes while it runs."""

    call: Any
    together: int
    memory: int


# Each compiled program keeps some 20 MB; a sweep goes through its programs one after the other.
KEPT_PROGRAMS = 8
# The problem's arrays on the host, and their copies on the way to the device.
HOST_BYTES_AN_ACTION = 48

_compiled: dict[Any, Compiled] = {}
_locks: collections.defaultdict[Any, threading.Lock] = collections.defaultdict(threading.Lock)


def compiled(program: Program, problem: Categorical, records: int, numbers: Numbers) -> Compiled:
    """Compile a program for a problem's shape, once; threads that ask meanwhile wait.

    Raises:
        InputError: if the program cannot run on the problem.
    """
    check(program, problem)
    key = (program, problem.actions, records, jax.tree.structure(numbers))
    with _locks[key]:
        code = _compiled.pop(key, None) or _compile(program, problem, records, numbers)
        _compiled[key] = code  # the latest used comes last
    for oldest in list(_compiled)[:-KEPT_PROGRAMS]:
        _compiled.pop(oldest, None)
    return code


def _compile(program: Program, problem: Categorical, records: int, numbers: Numbers) -> Compiled:
    together = lanes_together(problem.actions, jax.default_backend())

    def batch(place: Landscape, steps: Array, keys: Array, numbers: Numbers) -> Row:
        def run(key: Array, numbers: Numbers) -> Row:
            return trajectory(program, place, steps, key, numbers)

        if together > 1:
            return dict(jax.vmap(run)(keys, numbers))
        rows = run(*jax.tree.map(lambda leaf: leaf[0], (keys, numbers)))
        return {name: row[None] for name, row in rows.items()}

    with jax.enable_x64(program.dtype == "float64"):
        arguments = _arguments(program, problem, np.arange(1, records + 1), [(0, numbers)] * together)
        call = jax.jit(batch).lower(*arguments).compile()
    usage: Any = call.memory_analysis()
    taken = usage.temp_size_in_bytes + usage.argument_size_in_bytes + usage.output_size_in_bytes
    return Compiled(call, together, taken + HOST_BYTES_AN_ACTION * problem.actions)


def _arguments(
    program: Program, problem: Categorical, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]]
) -> tuple[Landscape, Array, Array, Numbers]:
    place = Landscape(
        jnp.asarray(problem.logits, program.dtype), jnp.asarray(problem.correct), jnp.asarray(problem.target)
    )
    keys = jnp.stack([jax.random.key(seed, impl="threefry2x32") for seed, _ in lanes])
    numbers = jax.tree.map(lambda *leaves: jnp.asarray(leaves, program.dtype), *(numbers for _, numbers in lanes))
    return place, jnp.asarray(steps, jnp.int32), keys, numbers


def run_lanes(
    program: Program, problem: Categorical, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]]
) -> dict[str, np.ndarray]:
    """Simulate some lanes, each a seed and its numbers, and return their records.

    Args:
        steps: the R steps after which to record, increasing, the last one being the length of the run.

    Returns:
        Arrays (lanes, R + 1, ...) named as in ``metrics.DESCRIPTIONS``; the first record is step 0.

    Raises:
        InputError: if the program cannot run on the problem.
    """
    lanes = [(seed, with_rewards(program, problem, numbers)) for seed, numbers in lanes]
    code = compiled(program, problem, len(steps), lanes[0][1])
    parts = []
    with jax.enable_x64(program.dtype == "float64"):
        for first in range(0, len(lanes), code.together):
            some = list(lanes[first : first + code.together])
            filled = some + [some[-1]] * (code.together - len(some))
            rows = code.call(*_arguments(program, problem, steps, filled))
            parts.append({name: np.asarray(rows[name])[: len(some)] for name in rows})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

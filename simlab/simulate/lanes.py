"""Running lanes, on any engine: how many at once and where, what they need, and what cannot run.

Lanes are batched by ``vmap`` where actions are few or the device is a GPU, and run alone, one a thread, where a lane
keeps a CPU core busy by itself or takes several devices.
"""

import contextlib
import dataclasses
import math
from collections.abc import Sequence

import jax
import numpy as np

from simlab.errors import InputError, check_range, check_whole
from simlab.estimators.registry import check_domain
from simlab.problems import LinearSoftmax, Problem, PromptBank, Tree, problem_size
from simlab.problems.classes import check_listed
from simlab.simulate import dense, sharded, windows
from simlab.simulate.devices import Group, groups, own_memory
from simlab.simulate.engine import resolved
from simlab.simulate.policy import EMPTY
from simlab.simulate.program import LARGEST_INT, Numbers, Program, check_numbers

LARGEST_SEED = 2**32 - 1  # of a larger one JAX reads the last 32 bits alone


def check(program: Program, problem: Problem) -> None:
    """Raise ``InputError`` if the program cannot run on the problem."""
    rewards = np.array([[problem.reward_correct, problem.reward_incorrect]])
    check_domain(program.build_estimator({}), rewards)
    check_range("top_n", program.top_n, 0, problem.actions)
    prompts = problem.prompts if isinstance(problem, PromptBank | LinearSoftmax) else 1
    check_range("prompts_per_step", program.prompts_per_step, 0, prompts)
    check_range("candidates", program.build_surrogate({}).candidates, 0, problem.shape[-1])
    if isinstance(problem, Tree) and program.update_rule != "simulator":
        raise InputError(f"update_rule = {program.update_rule!r} on a tree; allowed: simulator")
    if program.engine == "sharded" and isinstance(problem, PromptBank | LinearSoftmax | Tree):
        kind = "a tree" if isinstance(problem, Tree) else "a bank of prompts"
        raise InputError(f"engine = 'sharded' does not run {kind}; allowed: auto, dense")
    logits = problem.classes.class_logits if program.engine == "lumped" else problem.logits
    has_empty_places = program.engine in ("lumped", "sharded")
    largest = abs(EMPTY) / 10 if has_empty_places else float(np.finfo(program.dtype).max)
    for logit in (logits.min(), logits.max()):
        if abs(logit) > largest:
            where = f"{program.dtype}, {program.engine}"
            raise InputError(f"a logit is {logit:g}; allowed in {where}: up to {largest:g}")


def check_shards(program: Program, problem: Problem, shards: int) -> None:
    """Raise ``InputError`` unless a simulation of the program can be spread over so many devices."""
    if program.engine != "sharded":
        raise InputError(f"shard_actions = {shards} with the {program.engine} engine; allowed: the sharded engine")
    groups(shards)
    if shards > problem.actions:
        raise InputError(f"shard_actions = {shards} of {problem.actions} actions; allowed: up to one an action")


def with_rewards(program: Program, problem: Problem, numbers: Numbers) -> Numbers:
    """The numbers, with the problem's rewards where they give none.

    Raises:
        InputError: for numbers that the program does not take, or rewards that the problem or the program's estimator
            does not allow.
    """
    given = {"reward_correct": numbers.reward_correct, "reward_incorrect": numbers.reward_incorrect}
    rewards = {name: getattr(problem, name) if value is None else value for name, value in given.items()}
    numbers = numbers._replace(**rewards)
    check_numbers(program, numbers)
    check(program, dataclasses.replace(problem, **rewards))
    return numbers


def check_run(steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]]) -> None:
    """Raise ``InputError`` for recorded steps that do not increase from 1 up, no lane, or a seed outside its range."""
    if np.ndim(steps) != 1 or not len(steps) or not np.issubdtype(np.asarray(steps).dtype, np.integer):
        raise InputError(f"steps = {steps!r}; allowed: one or more whole numbers, increasing")
    check_whole("steps", int(steps[-1]), 1, LARGEST_INT)
    if int(steps[0]) < 1 or np.any(np.diff(steps) < 1):
        raise InputError(f"steps = {list(map(int, steps))}; allowed: whole numbers from 1 up, increasing")
    if not lanes:
        raise InputError("there is no lane to run; allowed: one or more")
    for seed, _ in lanes:
        check_whole("seed", seed, 0, LARGEST_SEED)


def lanes_together(program: Program, size: int, platform: str) -> int:
    """How many lanes of so many numbers, logits as a rule, one call holds.

    Fixed by engine, problem size and platform alone, never by the number of seeds or devices or the memory budget, so
    that a lane's numbers do not depend on what ran beside it. On a CPU a lane of 16384 logits or more fills the vector
    units and runs alone, in a thread of its own; on a GPU some 2^23 logits fill the device.
    """
    if program.engine == "sharded":
        return 1
    if platform == "cpu":
        return 8 if program.engine == "lumped" or size < 16384 else 1
    return 256 if program.engine == "lumped" else max(1, min(256, 2**23 // size))


# The problem's arrays on the host, and their copies on the way to the device.
HOST_BYTES_A_LOGIT = 48


def host_bytes(program: Program, size: int) -> int:
    """Bytes that the problem's own arrays take.

    Raises:
        InputError: for more actions than can be listed, on an engine that lists them.
    """
    if program.engine == "lumped":
        return 0
    check_listed(size)
    return HOST_BYTES_A_LOGIT * size


def device_bytes(
    program: Program, problem: Problem, steps: np.ndarray, numbers: Numbers, *, together: int, devices: Group
) -> int:
    """Bytes that ``together`` lanes take of each device that they run on, at most; compiles what tells it."""
    if program.engine == "lumped":
        return windows.most_bytes(program, problem, int(steps[-1]), together)
    with jax.enable_x64(program.dtype == "float64"), _on(devices):
        if program.engine == "sharded":
            return sharded.compiled(program, problem, len(steps), numbers, devices).memory
        return dense.compiled(program, problem, len(steps), numbers, together).memory


def needed_bytes(
    program: Program,
    problem: Problem,
    steps: np.ndarray,
    numbers: Numbers,
    together: int,
    *,
    devices: Group | None = None,
) -> int:
    """Bytes of the host's memory that ``together`` lanes take while they run, at most; compiles what tells it.

    On CPUs, where several devices share it, that is what all of them take.

    Raises:
        InputError: if the program cannot run on the problem, or a device has too little memory of its own.
    """
    program = resolved(program, problem, int(steps[-1])).identified()
    check(program, problem)
    devices = devices or groups(1)[0]
    each = device_bytes(program, problem, steps, numbers, together=together, devices=devices)
    host, room = host_bytes(program, problem_size(problem)), own_memory(devices[0])
    if room is None:
        return host + len(devices) * each
    if each > room:
        raise InputError(f"{_too_large(problem, each, room)}; allowed: fewer actions, or the sharded engine")
    return host


def shards_needed(program: Program, problem: Problem, steps: np.ndarray, numbers: Numbers) -> int:
    """Over how many devices a lane is spread: as few as hold it, and one of the other engines.

    Raises:
        InputError: if all devices of the process together do not.
    """
    room = own_memory(jax.local_devices()[0])
    if program.engine != "sharded" or room is None:
        return 1
    program = program.identified()
    shards, most = 1, min(jax.local_device_count(), problem.actions)
    while True:
        each = device_bytes(program, problem, steps, numbers, together=1, devices=groups(shards)[0])
        if each <= room:
            return shards
        if shards == most:
            raise InputError(f"{_too_large(problem, each, room)} with {most} of them; allowed: more devices")
        shards = min(most, max(shards + 1, math.ceil(shards * each / room)))


def _too_large(problem: Problem, needed: int, room: int) -> str:
    need, given = (f"{value / 2**20:.0f}MB" for value in (needed, room))
    return f"a simulation of {problem.actions} actions takes {need} of each device, which has {given}"


def _on(devices: Group | None) -> contextlib.AbstractContextManager[object]:
    return jax.default_device(devices[0]) if devices else contextlib.nullcontext()


def run_lanes(
    program: Program,
    problem: Problem,
    steps: np.ndarray,
    lanes: Sequence[tuple[int, Numbers]],
    devices: Group | None = None,
) -> dict[str, np.ndarray]:
    """Simulate some lanes, each a seed and its numbers, and return their records.

    Args:
        steps: the R steps after which to record, increasing, the last one being the length of the run.
        lanes: seeds, from 0 to 2^32 - 1, and numbers.
        devices: where they run: one device, or those that the sharded engine spreads each lane over. By default JAX's
            own choice, and as few as hold a lane.

    Returns:
        Arrays (lanes, R + 1, ...) named as in ``metrics.DESCRIPTIONS``, of a bank ``bank_metrics.BANK_DESCRIPTIONS``,
        of prompts that share a head ``linear_metrics.LINEAR_DESCRIPTIONS``, of a tree
        ``tree_metrics.TREE_DESCRIPTIONS``; the first record is step 0.

    Raises:
        InputError: if the program cannot run on the problem or the devices, or with these numbers.
        Diverged: if an advantage, a coefficient, a logit or a moment of a lane is not finite.
    """
    check_run(steps, lanes)
    program = resolved(program, problem, int(steps[-1])).identified()
    checked = {key: with_rewards(program, problem, numbers) for key, numbers in {id(n): n for _, n in lanes}.items()}
    lanes = [(seed, checked[id(numbers)]) for seed, numbers in lanes]
    together = lanes_together(program, problem_size(problem), jax.default_backend())
    if devices and len(devices) > 1:
        check_shards(program, problem, len(devices))
    if program.engine == "sharded":
        devices = devices or groups(shards_needed(program, problem, steps, lanes[0][1]))[0]
    parts = []
    with jax.enable_x64(program.dtype == "float64"), _on(devices):
        for first in range(0, len(lanes), together):
            some = list(lanes[first : first + together])
            filled = some + [some[-1]] * (together - len(some))
            if program.engine == "lumped":
                rows = windows.run_windows(program, problem, steps, filled)
            elif devices and program.engine == "sharded":
                rows = sharded.run_sharded(program, problem, steps, filled, devices)
            else:
                rows = dense.run_dense(program, problem, steps, filled)
            parts.append({name: values[: len(some)] for name, values in rows.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

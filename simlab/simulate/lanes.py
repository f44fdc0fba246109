"""Running lanes, on either engine: how many at once, what they need, and what cannot run.

Lanes are batched by ``vmap`` where actions are few or the device is a GPU, and run alone, one a thread, where a lane
keeps a CPU core busy by itself.
"""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from simlab.errors import InputError, check_range
from simlab.estimators.registry import check_domain
from simlab.problems import LinearSoftmax, Problem, PromptBank, Tree, problem_size
from simlab.problems.classes import check_listed
from simlab.simulate import dense, windows
from simlab.simulate.engine import resolved
from simlab.simulate.policy import EMPTY
from simlab.simulate.program import Numbers, Program


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
    logits = problem.classes.class_logits if program.engine == "lumped" else problem.logits
    largest = abs(EMPTY) / 10 if program.engine == "lumped" else float(np.finfo(program.dtype).max)
    for logit in (logits.min(), logits.max()):
        if abs(logit) > largest:
            where = f"{program.dtype}, {program.engine}"
            raise InputError(f"a logit is {logit:g}; allowed in {where}: up to {largest:g}")


def with_rewards(program: Program, problem: Problem, numbers: Numbers) -> Numbers:
    """The numbers, with the problem's rewards where they give none.

    Raises:
        InputError: for rewards that the problem or the program's estimator does not allow.
    """
    given = {"reward_correct": numbers.reward_correct, "reward_incorrect": numbers.reward_incorrect}
    rewards = {name: getattr(problem, name) if value is None else value for name, value in given.items()}
    check(program, dataclasses.replace(problem, **rewards))
    return numbers._replace(**rewards)


def lanes_together(program: Program, size: int, platform: str) -> int:
    """How many lanes of so many numbers, logits as a rule, one call holds.

    Fixed by engine, problem size and platform alone, never by the number of seeds or the memory budget, so that a
    lane's numbers do not depend on what ran beside it. On a CPU a lane of 16384 logits or more fills the vector units
    and runs alone, in a thread of its own; on a GPU some 2^23 logits fill the device.
    """
    if platform == "cpu":
        return 8 if program.engine == "lumped" or size < 16384 else 1
    return 256 if program.engine == "lumped" else max(1, min(256, 2**23 // size))


# The problem's arrays on the host, and their copies on the way to the device.
HOST_BYTES_A_LOGIT = 48


def host_bytes(program: Program, size: int) -> int:
    """Bytes that the problem's own arrays take.

    Raises:
        InputError: for more actions than can be listed, on the dense engine.
    """
    if program.engine == "lumped":
        return 0
    check_listed(size)
    return HOST_BYTES_A_LOGIT * size


def needed_bytes(program: Program, problem: Problem, steps: np.ndarray, numbers: Numbers, together: int) -> int:
    """Bytes that ``together`` lanes take while they run, at most; compiles what tells it.

    Raises:
        InputError: if the program cannot run on the problem.
    """
    program = resolved(program, problem, int(steps[-1]))
    check(program, problem)
    if program.engine == "lumped":
        return windows.most_bytes(program, problem, int(steps[-1]), together)
    with jax.enable_x64(program.dtype == "float64"):
        code = dense.compiled(program, problem, len(steps), numbers, together)
    return code.memory + host_bytes(program, problem_size(problem))


def run_lanes(
    program: Program, problem: Problem, steps: np.ndarray, lanes: Sequence[tuple[int, Numbers]]
) -> dict[str, np.ndarray]:
    """Simulate some lanes, each a seed and its numbers, and return their records.

    Args:
        steps: the R steps after which to record, increasing, the last one being the length of the run.

    Returns:
        Arrays (lanes, R + 1, ...) named as in ``metrics.DESCRIPTIONS``, of a bank ``bank_metrics.BANK_DESCRIPTIONS``,
        of prompts that share a head ``linear_metrics.LINEAR_DESCRIPTIONS``, of a tree
        ``tree_metrics.TREE_DESCRIPTIONS``; the first record is step 0.

    Raises:
        InputError: if the program cannot run on the problem.
    """
    program = resolved(program, problem, int(steps[-1]))
    lanes = [(seed, with_rewards(program, problem, numbers)) for seed, numbers in lanes]
    together = lanes_together(program, problem_size(problem), jax.default_backend())
    parts = []
    with jax.enable_x64(program.dtype == "float64"):
        for first in range(0, len(lanes), together):
            some = list(lanes[first : first + together])
            filled = some + [some[-1]] * (together - len(some))
            if program.engine == "lumped":
                rows = windows.run_windows(program, problem, steps, filled)
            else:
                rows = dense.run_dense(program, problem, steps, filled)
            parts.append({name: values[: len(some)] for name, values in rows.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

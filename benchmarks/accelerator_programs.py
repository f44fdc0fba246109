"""Compute what the programs of a GPU hold and move, from the programs lowered for it: no GPU is needed.

    python -m benchmarks.accelerator_programs            # a minute or two
    python -m benchmarks.accelerator_programs --quick    # small sizes; prints, writes nothing

A row is one step of the runs that a call holds on a GPU, or a token of rollouts, or a gradient. Nothing is compiled and
nothing is run. Two models of a compiler (see ``benchmarks.program_memory``) estimate the bytes that a program holds at
its peak and the bytes that it moves: one fuses every element-wise operation, the other none. XLA counts the moves of
the latter too. A program moves at least its state and its other inputs, once.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cell import ACTIONS, TIMED_GAMMA, Cell, step_bytes
from benchmarks.language_cases import MAZE_MODEL
from benchmarks.machine import RESULTS, describe, in_words, table
from benchmarks.program_memory import estimate
from benchmarks.training_programs import Computed, gradient_program, sampling_programs
from simlab.problems import linear_softmax, prompt_bank, tree
from simlab.problems.base import Problem
from simlab.simulator.call import Call, computing, make_learners, pads_groups
from simlab.simulator.learner import Learner
from simlab.simulator.resources import batch_size
from simlab.simulator.settings import Settings
from simlab.simulator.trajectory import Inputs

PLATFORM, KIND = "cuda", "gpu"  # names in XLA and in JAX
STEPS = 1000
MIB = 2**20


class Program(NamedTuple):
    """A program by its trace, its runs, the inputs that it does not use up, and what a dense step must move."""

    name: str
    runs: int
    traced: Any
    kept: list[bool]
    must_move: int | None = None


def step_of(name: str, problem: Problem, settings: Settings, must_move: int | None = None) -> Program:
    """A step of the runs that one call holds on a GPU."""
    runs = batch_size(problem, settings, KIND)
    with computing(settings, None):
        call = Call(problem, [settings] * runs, list(range(runs)), np.array([STEPS]), None)
        inputs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), call.inputs(call.storage))

        def learners(inputs: Inputs) -> Any:
            return make_learners(call.static, call.storage, inputs, are_padded=pads_groups(call.static))

        def step(inputs: Inputs, index: jax.Array, state: Any) -> Any:
            return learners(inputs).map(lambda learner, state: learner.step(index, state))(state)

        state = jax.eval_shape(lambda inputs: learners(inputs).map(Learner.start)(), inputs)
        traced = jax.jit(step, donate_argnums=2).trace(inputs, jax.ShapeDtypeStruct((), jnp.int32), state)
    reuse = [True] * (len(jax.tree.leaves(inputs)) + 1) + [False] * len(jax.tree.leaves(state))
    return Program(name, runs, traced, reuse, must_move and must_move * runs)


def simulator(quick: bool) -> Iterator[Program]:
    """The steps of the accelerator's benchmark, and of the other kinds of problem at their defaults."""
    actions = 2000 if quick else ACTIONS
    for storage, sizes in (("dense", (8, 256, 8192)), ("lumped", (2, 8, 32))):
        for group_size in sizes:
            cell = Cell(storage, group_size, TIMED_GAMMA, STEPS, actions)
            must = step_bytes(actions, group_size) if storage == "dense" else None
            yield step_of(f"{storage}, G = {group_size}", cell.problem, cell.settings, must)
    for name, problem in (("bank", prompt_bank()), ("head", linear_softmax()), ("tree", tree())):
        yield step_of(f"{name}, G = 16", problem, Settings("grpo", group_size=16, storage="dense"))


def decoder(quick: bool) -> Iterator[Program]:
    """The maze model at the batch of the benchmark of language models: a token of rollouts, and a gradient."""
    for dtype in ("float32",) if quick else ("float32", "bfloat16"):
        case = Computed(2, 4, 64, 32, dtype) if quick else Computed(8, 16, 310, 180, dtype)
        further = sampling_programs(case, MAZE_MODEL)["further tokens"]
        parameters, _, state, *choices = further.arguments
        pairs = [(parameters, True), (state, False), (choices, True)]
        batch = f"{case.prompts} x {case.members}, {dtype}"
        yield Program(f"a token of rollouts, {batch}", 1, further.trace(), _flag_leaves(pairs))
        gradient = gradient_program(case, MAZE_MODEL)
        pairs = [(gradient.arguments, True), (gradient.named["terms"], True)]
        yield Program(f"gradient, {batch}", 1, gradient.trace(), _flag_leaves(pairs))


def _flag_leaves(pairs: list[tuple[Any, bool]]) -> list[bool]:
    return [flag for argument, flag in pairs for _ in jax.tree.leaves(argument)]


def measured(program: Program) -> dict[str, Any]:
    """Bytes of a program by both models, and by XLA's count."""
    jaxpr = program.traced.jaxpr
    fused, apart = (estimate(jaxpr, PLATFORM, program.kept, fused=is_fused) for is_fused in (True, False))
    lowered = program.traced.lower(lowering_platforms=(PLATFORM,))
    return {
        "program": program.name,
        "runs": program.runs,
        "held": fused.held,
        "peak_fused": fused.peak,
        "peak_apart": apart.peak,
        "moved_least": fused.least,
        "moved_fused": fused.moved,
        "moved_apart": apart.moved,
        "moved_by_xla": int((lowered.cost_analysis() or {}).get("bytes accessed", 0)),
        "step_bytes": program.must_move,
    }


HEADER = ["program", "runs", "held", "peak, fused", "peak, apart", "moved at least", "step_bytes", "moved, fused"]
HEADER += ["moved, apart", "moved, by XLA"]


def report(rows: list[dict[str, Any]]) -> str:
    """The table, in MiB."""
    order = ("held", "peak_fused", "peak_apart", "moved_least", "step_bytes", "moved_fused", "moved_apart")

    def shown(value: int | None) -> str:
        return "" if value is None else f"{value / MIB:.4g}"

    return table(
        HEADER,
        [[row["program"], str(row["runs"]), *(shown(row[name]) for name in (*order, "moved_by_xla"))] for row in rows],
    )


EXPLANATION = """MiB of one step of so many runs, of one token of all rollouts, or of one gradient. Held: what the
program is given, its state with it. Fused and apart: by a compiler that fuses every element-wise operation into what
reads it, and by one that fuses none. Moved at least: the state and what else is read, once. step_bytes: what
benchmarks.cell says of a dense step. By XLA: what it counts in the lowered program, loops once. Computed, not measured:
nothing was compiled, and no GPU was at hand."""


def main() -> None:
    """Compute, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes; write nothing")
    quick = parser.parse_args().quick
    rows = [measured(program) for programs in (simulator, decoder) for program in programs(quick)]
    machine = describe("jax", "jaxlib")
    text = f"# Programs for a GPU\n\n{report(rows)}\n\n{EXPLANATION}\n\n{in_words(machine)}.\n"
    print(text)
    if not quick:
        content = {"machine": machine, "programs": rows}
        (RESULTS / "accelerator_programs.json").write_text(json.dumps(content, indent=1) + "\n")
        (RESULTS / "accelerator_programs.md").write_text(text)


if __name__ == "__main__":
    main()

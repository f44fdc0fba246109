"""Time steps of prompts that share a network: simlab, the same in PyTorch, and their bounds.

    python -m benchmarks.network            # ten minutes on an otherwise idle machine
    python -m benchmarks.network --quick    # a minute; prints, writes nothing

The problem is ``network()``: 32 prompts, 64 actions, one hidden layer of 64 units; GRPO with Adam in groups of 8.
Simlab runs calls of several seeds, a thread a core, as a sweep does, records included; the peer records nothing, and
counts with one thread or with one a core, whichever is faster. Before anything is timed both must take the same steps
from the same actions.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks import arithmetic
from benchmarks.cell import CORES
from benchmarks.cores import bandwidth
from benchmarks.device_speeds import device_speeds
from benchmarks.machine import RESULTS, describe, in_words, table
from benchmarks.peer_torch_network import GROUP, LEARNING_RATE, Learners
from simlab.problems import network
from simlab.simulator.learner import Learner
from simlab.simulator.resources import batch_size
from simlab.simulator.runner import run
from simlab.simulator.settings import Settings
from simlab.simulator.storage import DENSE, StoredProblem

SEEDS = (1, 8, 64, 512)
STEPS = 400  # in simlab's calls, as in the sweeps of this problem
CHECKED, AGREE = 5, 1e-10
PROBLEM = network().listed()
ARRAYS = {name: np.asarray(values) for name, values in PROBLEM.parameters.items()}
PARAMETERS = sum(values.size for values in ARRAYS.values())


def settings(dtype: str = "float32") -> Settings:
    """The method and optimiser of both programs."""
    steps = {"optimizer": "adam", "optimizer_parameters": {"learning_rate": LEARNING_RATE}, "storage": "dense"}
    return Settings("grpo+reinforce", GROUP, **steps, pass_at_k=(1, 256), top_n=0, dtype=dtype)


TOGETHER = batch_size(PROBLEM, settings(), "cpu")  # seeds of a call


def agreement() -> float:
    """The largest difference of a parameter after some steps on the actions that simlab drew, in float64.

    Raises:
        SystemExit: if it is more than rounding.
    """
    with jax.enable_x64(True):
        chosen = settings("float64")
        traced = jax.tree.map(lambda value: jnp.asarray(value, "float64"), chosen.traced)
        stored = StoredProblem(DENSE.load(PROBLEM, "float64"), DENSE, None)
        learner = Learner(chosen.static, stored, jax.random.key(0, impl="threefry2x32"), traced)

        def step(state, index):
            state = learner.step(index, state)
            return state, state.last.groups.slots

        state, actions = jax.jit(lambda: jax.lax.scan(step, learner.start(), jnp.arange(CHECKED, dtype=jnp.int32)))()
    torch.set_default_dtype(torch.float64)
    peer = Learners(ARRAYS, PROBLEM.inputs, PROBLEM.correct, 1)
    for group in np.asarray(actions):
        peer.step(torch.tensor(group[None], dtype=torch.int64))
    torch.set_default_dtype(torch.float32)
    after = {name: np.asarray(values) for name, values in state.parameters.items()}
    moved = max(np.abs(after[name] - ARRAYS[name]).max() for name in ARRAYS)
    gap = max(np.abs(after[name] - peer.parameters[name].detach().numpy()[0]).max() for name in ARRAYS)
    if not gap < AGREE < moved:
        raise SystemExit(f"the programs disagree by {gap:.3g}, having moved by {moved:.3g}: nothing was timed")
    return float(gap)


def simlab_seconds(seeds: int, steps: int) -> float:
    """Seconds of all seeds, in calls of the size that the runner chooses, a thread a core."""
    chosen = settings()
    together = min(seeds, TOGETHER)

    def call(first: int) -> None:
        run(PROBLEM, [chosen] * together, range(first, first + together), np.array([steps]))

    start = time.perf_counter()
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(call, range(0, seeds, together)))
    return time.perf_counter() - start


def operations() -> int:
    """Multiplications and additions of the products of a seed-step: 2 M (2 d w + 3 w A).

    The product of M inputs with a matrix of n entries takes 2 M n operations, forwards, for the gradient of the matrix,
    and, in the head alone, for that of its input.
    """
    return 2 * PROBLEM.prompts * (2 * ARRAYS["weights_1"].size + 3 * ARRAYS["head"].size)


def moved_bytes() -> int:
    """Bytes of a seed-step: parameters and the two moments of Adam, each read and written; the rest fits caches."""
    return 6 * 4 * PARAMETERS


def limit() -> dict[str, float]:
    """The seconds that a seed-step needs on this machine, by memory, and by arithmetic; the least of several counts.

    Memory: three arrays as large as the parameters and moments of a call's seeds. Arithmetic: the products at the speed
    of a large one; two random words a rollout; and an exponential, a root and a quotient a logit, which leaves out
    most of Adam's.
    """
    memory, products = bandwidth(TOGETHER * PARAMETERS), device_speeds(1, 2048)["operations"]
    words, functions = arithmetic.speeds()
    of_words = 2 * PROBLEM.prompts * GROUP / words
    of_functions = PROBLEM.prompts * PROBLEM.actions / functions
    of_products = operations() / products
    return {
        "memory_seconds": moved_bytes() / memory,
        "products_seconds": of_products,
        "arithmetic_seconds": of_products + of_words + of_functions,
    }


def measure(seeds: int, steps: int, rounds: int) -> dict[str, object]:
    """The programs in turn for some rounds, and the medians in seconds a seed-step."""
    peer = Learners(ARRAYS, PROBLEM.inputs, PROBLEM.correct, seeds)
    programs: dict[str, Callable[[], float]] = {"simlab": lambda: simlab_seconds(seeds, STEPS) / STEPS}
    for threads in dict.fromkeys((1, CORES)):
        programs[f"torch, {threads}"] = lambda threads=threads: peer.seconds(steps, threads) / steps
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, seconds in programs.items():
            times[name].append(seconds() / seeds)
    median = {name: statistics.median(values) for name, values in times.items()}
    median["torch"] = min(value for name, value in median.items() if name != "simlab")
    return {"seeds": seeds, "seconds": median, "every_round": times, "load_average": round(os.getloadavg()[0], 2)}


def report(cells: list[dict], least: float) -> str:
    """The table: seed-steps a second, and how far ours are from the limit."""
    header = ["seeds", "simlab, seed-steps/s", "PyTorch, seed-steps/s", "times as fast", "simlab, us", "limit, us"]
    rows = []
    for cell in cells:
        ours, theirs = (cell["seconds"][name] for name in ("simlab", "torch"))
        row = [f"{cell['seeds']}", f"{1 / ours:.0f}", f"{1 / theirs:.0f}", f"{theirs / ours:.1f}"]
        rows.append([*row, f"{1e6 * ours:.0f}", f"{1e6 * least:.1f}", f"{ours / least:.1f}", f"{cell['load_average']}"])
    return table([*header, "simlab / limit", "load"], rows)


def main() -> None:
    """Check, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="interleaved repeats (default 3)")
    parser.add_argument("--quick", action="store_true", help="few steps, one round; write nothing")
    options = parser.parse_args()
    machine = describe("jax", "jaxlib", "torch", "numpy")
    with tempfile.TemporaryDirectory() as folder:  # so that the first call compiles
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        gap = agreement()
        print(f"the programs agree to {gap:.1e} after {CHECKED} steps", file=sys.stderr)
        first = simlab_seconds(1, 1)
        steps = {seeds: max(5, (200 if options.quick else 1600) // max(seeds, 8)) for seeds in SEEDS}
        cells = [measure(seeds, steps[seeds], 1 if options.quick else options.rounds) for seeds in SEEDS]
    limits = [limit() for _ in SEEDS]
    least = {name: min(each[name] for each in limits) for name in limits[0] if name.endswith("_seconds")}
    counts = {"operations": operations(), "bytes": moved_bytes()}
    larger = max(least["memory_seconds"], least["arithmetic_seconds"])
    text = (
        f"{report(cells, larger)}\n\nMedians. The first call of simlab takes {first:.1f} s, and all later ones share "
        f"its program. A seed-step takes {counts['operations'] / 1e6:.2f} million operations of products and moves "
        f"{counts['bytes'] / 1e3:.0f} kB: {1e6 * least['memory_seconds']:.1f} us of memory and "
        f"{1e6 * least['arithmetic_seconds']:.1f} us of arithmetic on this machine, all cores. Both programs agree to "
        f"{gap:.0e} after {CHECKED} steps in float64. {in_words(machine)}.\n"
    )
    print(text)
    if not options.quick:
        measured = {"first_seconds": first, "counts": counts, "limit": least, "cells": cells}
        content = {"machine": machine, "agreement": gap} | measured
        (RESULTS / "network.json").write_text(json.dumps(content, indent=1) + "\n")
        (RESULTS / "network.md").write_text(text)


if __name__ == "__main__":
    main()

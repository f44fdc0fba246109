"""Time tuned constants beside other values, at the sizes for which they were chosen.

    python -m benchmarks.constants            # ten minutes on an otherwise idle machine; prints, writes nothing
    python -m benchmarks.constants --quick    # a minute

Each line is a constant, a case, and microseconds at each value; the value in the library has a star. The costs of
storages have a benchmark of their own, ``benchmarks.storages``, and memory has ``benchmarks.memory``.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.machine import describe, in_words
from simlab.llm import product
from simlab.problems import anchored
from simlab.simulator import multinomial, resources, runner, sampling
from simlab.simulator.settings import Settings

MATRICES = ((576, 192, 30), (576, 1536, 30), (1536, 576, 30), (576, 49_152, 1))  # SmolLM2's


class Case(NamedTuple):
    """A constant at some values, the call to time at each, and the library's value."""

    constant: str
    case: str
    values: Sequence[Any]
    own: Any
    timed: Callable[[Any], Callable[[], Any]]


def weights_of(actions: int) -> jax.Array:
    """The weights of F-GRPO's App. J: an anchor, and rare actions of two probabilities."""
    logits = np.asarray(anchored(actions, actions * 10 // 128).listed().logits)
    return jnp.asarray(np.exp(logits - logits.max()), jnp.float32)


def compiled(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """A call of a function that is compiled already."""
    program = jax.jit(function).lower(*arguments).compile()
    return lambda: jax.block_until_ready(program(*arguments))


def drawing(actions: int, group_size: int) -> Iterator[Case]:
    """Sizes of the blocks that a group is drawn from."""
    weights, key = weights_of(actions), jax.random.key(0, impl="threefry2x32")
    case = f"N = {actions}, G = {group_size}"

    def rows(count: int) -> Callable[[], Any]:
        return compiled(lambda key, weights: sampling.draw(key, weights, group_size, rows=count), key, weights)

    def few(count: int) -> Callable[[], Any]:
        with patch.object(sampling, "FEW", count):
            return compiled(lambda key, weights: sampling.draw_few(key, weights, group_size), key, weights)

    yield Case("sampling.ROWS", case, (32, 64, 128, 256, 512), sampling.ROWS, rows)
    if 50 * group_size <= actions:
        yield Case("sampling.FEW", case, (4, 8, 16, 32), sampling.FEW, few)


def counting(actions: int, group_size: int) -> Iterator[Case]:
    """The group size from which counts replace rollouts, and the constants of their draw."""
    weights, key = weights_of(actions), jax.random.key(0, impl="threefry2x32")
    total, case = jnp.sum(weights), f"N = {actions}, G = {group_size}"

    def drawn(counted: bool) -> Callable[[], Any]:
        def listed(key: jax.Array, weights: jax.Array, total: jax.Array) -> jax.Array:
            indices = sampling.draw(key, weights, group_size)
            return jnp.zeros(actions, jnp.int32).at[indices].add(1)

        def counts(key: jax.Array, weights: jax.Array, total: jax.Array) -> jax.Array:
            return multinomial.multinomial(key, weights, total, group_size)

        return compiled(counts if counted else listed, key, weights, total)

    def mean(largest: float) -> Callable[[], Any]:
        with patch.object(multinomial, "LARGEST_MEAN", largest):
            return drawn(True)

    def spread(deviations: float) -> Callable[[], Any]:
        with patch.object(multinomial, "SPREAD", deviations):
            return drawn(True)

    yield Case("groups: counts are drawn", case, (False, True), group_size >= max(4096, actions / 2), drawn)
    if group_size >= actions:
        yield Case("multinomial.LARGEST_MEAN", case, (2.0, 4.0, 8.0), multinomial.LARGEST_MEAN, mean)
        yield Case("multinomial.SPREAD", case, (2.0, 3.0, 4.0), multinomial.SPREAD, spread)


def batching(actions: int) -> Iterator[Case]:
    """The runs that one call of dense storage holds, in one thread; a sweep calls from a thread a core."""
    problem = anchored(actions, actions * 10 // 128)
    settings, steps = Settings("grpo", group_size=32, storage="dense"), 50
    current = resources.batch_size(problem, settings, "cpu")

    def together(runs: int) -> Callable[[], Any]:
        def eight_runs() -> Any:
            with patch.object(runner, "batch_size", lambda *_: runs):
                return runner.run(problem, [settings] * 8, range(8), np.array([steps]))

        eight_runs()
        return eight_runs

    yield Case("resources.batch_size", f"N = {actions}, G = 32, 8 runs of {steps} steps", (1, 8), current, together)


def multiplying(count: int, wide: int, out: int, matrices: int) -> Case:
    """Rows of a matrix first or not, for a number of values to multiply; more matrices than a cache holds."""

    def rows_first(first: bool) -> Callable[[], Any]:
        values = jnp.ones((count, wide), jnp.float32)
        rows = [jnp.full((out, wide), number, jnp.float32) for number in range(matrices)]
        with patch.object(product, "MOST", count if first else 0):
            return compiled(lambda values, rows: [product.with_rows(values, matrix) for matrix in rows], values, rows)

    current = product.FEWEST <= count <= product.MOST
    case = f"{count} values, {matrices} matrices of {wide} x {out}"
    return Case("product: rows come first", case, (False, True), current, rows_first)


def best(call: Callable[[], Any], seconds: float) -> float:
    """Microseconds of the fastest of some calls."""
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes, shorter measurements")
    quick = parser.parse_args().quick
    cases = [*drawing(128_000, 256)] if quick else []
    if quick:
        cases += [*counting(8192, 8192), *batching(4096), multiplying(16, 576, 1536, 30)]
    else:
        for group_size in (32, 256, 2048, 16384, 131072):
            cases += drawing(128_000, group_size)
        for share in (8, 4, 2, 1):
            cases += counting(65536, 65536 // share)
        for actions in (1024, 2048, 4096, 8192):
            cases += counting(actions, actions)
        for actions in (2048, 8192, 16384, 65536):
            cases += batching(actions)
        for count, (wide, out, matrices) in itertools.product((2, 4, 8, 16, 32, 64), MATRICES):
            cases.append(multiplying(count, wide, out, matrices))
    for trial in cases:
        times = {value: best(trial.timed(value), 0.2 if quick else 2.0) for value in trial.values}
        listed = ", ".join(f"{value}{'*' * (value == trial.own)}: {taken:.0f}" for value, taken in times.items())
        print(f"{trial.constant} ({trial.case}): {listed} us", flush=True)
    print(in_words(describe("jax", "jaxlib", "numpy")))


if __name__ == "__main__":
    main()

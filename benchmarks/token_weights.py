"""Time CW-GRPO and GRPO on a large batch of tokens, beside the memory traffic that bounds them.

    python -m benchmarks.token_weights            # 4096 prompts x 64 rollouts x 512 tokens, some three minutes
    python -m benchmarks.token_weights --quick    # an eighth of the prompts; prints, writes nothing

CW-GRPO reads a log-probability for each token and writes an advantage; GRPO reads the ratio of each token and writes
its coefficient, ratio * A. No program can do either in less time than it takes to read one such array and write
another. Two such copies are timed in the same run: into new memory, as every program here that returns an array, and
into memory that the process has written before, the bandwidth of the memory alone. The peers are the same estimators,
the same source, in NumPy and in PyTorch. A second table shows how every estimator grows with the size of the group, at
a fixed number of rollouts.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.machine import RESULTS, describe, in_words, table
from simlab import Rollouts, estimator
from simlab.estimators import REGISTRY
from simlab.surrogates import unclipped

ROLLOUTS, TOKENS, ROUNDS = 64, 512, 5
CORES = os.cpu_count() or 1
THREADS = ThreadPoolExecutor(CORES)
PROMPTS_AT_ONCE = 32  # 4 MiB of float32, which a core's cache holds
GROUP_SIZES = (64, 512, 4096)
ROLLOUTS_IN_ALL = 2**20
Batch = tuple[Any, Any]  # rewards (P, G) and a number of each token (P, G, T)


def cw_grpo(rewards: Any, logp: Any) -> Any:
    """Advantages of tokens, (P, G, T)."""
    chosen = estimator("cw_grpo")
    return chosen.update(Rollouts(rewards, old_logp=logp), chosen.init())[0]


def grpo(rewards: Any, ratio: Any) -> Any:
    """Coefficients of tokens, (P, G, T)."""
    chosen = estimator("grpo")
    rollouts = Rollouts(rewards)
    return unclipped().coefficient(ratio, chosen.update(rollouts, chosen.init())[0][..., None], rollouts)


def copy(rewards: Any, tokens: Any) -> Any:
    """One read and one write of every token's number."""
    return tokens * 2


def in_blocks(weights: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A few prompts at a time, as an engine with much data would: groups do not see each other."""

    def weigh(batch: Batch) -> Any:
        return weights(batch[0][None], batch[1][None])[0]

    return lambda rewards, tokens: jax.lax.map(weigh, (rewards, tokens), batch_size=PROMPTS_AT_ONCE)


def copy_into(source: np.ndarray, target: np.ndarray) -> Callable[[], Any]:
    """The same into memory that has been written before, a thread a core."""
    pairs = list(zip(np.array_split(source, CORES), np.array_split(target, CORES), strict=True))
    return lambda: list(THREADS.map(lambda pair: np.multiply(pair[0], 2, out=pair[1]), pairs))


def a_thread_a_core(weights: Callable[[Any, Any], Any], rewards: np.ndarray, tokens: np.ndarray) -> Callable[[], Any]:
    """A few prompts at a time, each core with blocks of its own, as an engine that streams would: nothing is joined."""
    blocks = [slice(first, first + PROMPTS_AT_ONCE) for first in range(0, len(rewards), PROMPTS_AT_ONCE)]
    call = jax.jit(weights).lower(rewards[blocks[0]], tokens[blocks[0]]).compile()
    return lambda: list(THREADS.map(lambda few: call(rewards[few], tokens[few]).block_until_ready(), blocks))


def seconds(work: Callable[[], Any]) -> float:
    """Median of a few runs, after one that is not counted."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def compiled(weights: Callable[[Any, Any], Any], rewards: np.ndarray, tokens: np.ndarray) -> tuple[float, float]:
    """Seconds to compile for JAX, and to run."""
    on_device = jnp.asarray(rewards), jnp.asarray(tokens)
    start = time.perf_counter()
    call = jax.jit(weights).lower(*on_device).compile()
    compiling = time.perf_counter() - start
    return compiling, seconds(lambda: call(*on_device).block_until_ready())


def check(rewards: np.ndarray, tokens: np.ndarray) -> None:
    """All programs give the same numbers, or nothing is timed."""
    few = rewards[:64], tokens[:64]
    for weights in (cw_grpo, grpo):
        expected = np.asarray(weights(*few))
        for result in (jax.jit(weights)(*few), jax.jit(in_blocks(weights))(*few), as_torch(weights, *few)()):
            np.testing.assert_allclose(np.asarray(result), expected, rtol=2e-4, atol=1e-6)


def as_torch(weights: Callable[[Any, Any], Any], rewards: np.ndarray, tokens: np.ndarray) -> Callable[[], Any]:
    """The same function on torch tensors."""
    import torch  # noqa: PLC0415

    tensors = torch.from_numpy(rewards), torch.from_numpy(tokens)

    def call() -> Any:
        with torch.no_grad():
            return weights(*tensors)

    return call


def of_tokens(prompts: int) -> list[list[str]]:
    """A row a program: its name, its seconds, and their ratios to both copies'."""
    draw = np.random.default_rng(0)
    rewards = draw.integers(0, 2, (prompts, ROLLOUTS)).astype(np.float32)
    tokens = draw.random((prompts, ROLLOUTS, TOKENS), dtype=np.float32) - 2
    check(rewards, tokens)
    ways = {
        ("copy", "into new memory"): compiled(copy, rewards, tokens),
        ("copy", "into old memory"): (0.0, seconds(copy_into(tokens, np.zeros_like(tokens)))),
    }
    for name, weights in (("GRPO", grpo), ("CW-GRPO", cw_grpo)):
        streamed = a_thread_a_core(weights, rewards, tokens)
        ways |= {
            (name, "JAX, all prompts at once"): compiled(weights, rewards, tokens),
            (name, f"JAX, {PROMPTS_AT_ONCE} prompts at a time"): compiled(in_blocks(weights), rewards, tokens),
            (name, f"JAX, {PROMPTS_AT_ONCE} prompts at a time on each core"): (0.0, seconds(streamed)),
            (name, "PyTorch"): (0.0, seconds(as_torch(weights, rewards, tokens))),
            (name, "NumPy"): (0.0, seconds(lambda: weights(rewards, tokens))),  # noqa: B023
        }
    (_, fresh), (_, warm), *_ = ways.values()
    return [
        [
            *what,
            f"{compiling:.2f}" if compiling else "",
            f"{running:.3f}",
            f"{running / fresh:.2f}",
            f"{running / warm:.1f}",
        ]
        for what, (compiling, running) in ways.items()
    ]


def of_groups() -> list[list[str]]:
    """A row an estimator: nanoseconds a rollout at each size of the group, one token a rollout, compiled."""
    draw, rows = np.random.default_rng(0), []
    for name in REGISTRY:
        cells = [name]
        for size in GROUP_SIZES:
            shape = (ROLLOUTS_IN_ALL // size, size)
            rewards = draw.integers(0, 2, shape).astype(np.float32)
            logp = -draw.random((*shape, 1), dtype=np.float32)
            chosen = estimator(name)

            def weights(rewards: Any, logp: Any, chosen: Any = chosen) -> Any:
                return chosen.update(Rollouts(rewards, old_logp=logp, entropy=-logp), chosen.init())[0]

            cells.append(f"{compiled(weights, rewards, logp)[1] / ROLLOUTS_IN_ALL * 1e9:.1f}")
        rows.append([*cells, f"{float(cells[-1]) / float(cells[1]):.1f}"])
    return rows


def report(prompts: int) -> str:
    """Both tables, in Markdown."""
    machine = describe("jax", "numpy", "torch")
    growth = f"{GROUP_SIZES[-1]} / {GROUP_SIZES[0]}"
    bytes_moved = 2 * 4 * prompts * ROLLOUTS * TOKENS
    lines = [
        f"{prompts} prompts x {ROLLOUTS} rollouts x {TOKENS} tokens, float32; {bytes_moved / 2e9:.2f} GB read and as",
        f"much written by each. Median of {ROUNDS} runs. {in_words(machine)}.",
        "",
        table(["weights", "program", "compile s", "run s", "/ new copy", "/ old copy"], of_tokens(prompts)),
        "",
        f"Nanoseconds a rollout, {ROLLOUTS_IN_ALL} rollouts in groups of each size, JAX compiled. Linear work stays",
        "level, sorting grows with log G; what is quadratic in the group would grow 64-fold.",
        "",
        table(["estimator", *(f"G = {size}" for size in GROUP_SIZES), growth], of_groups()),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run, print, and unless ``--quick`` keep the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="an eighth of the prompts; writes nothing")
    options = parser.parse_args()
    text = report(512 if options.quick else 4096)
    print(text)
    if not options.quick:
        (RESULTS / "token_weights.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

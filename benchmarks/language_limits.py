"""The least time that rollouts and a training step can take on this machine, whatever the program is.

A multiplication and an addition are two operations, at the speed of a large product of matrices measured in the same
run; memory is the least that has to be read, at the speed of a copy measured in the same run. A program that works as
little as possible reads a prompt once for its whole group.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.language_cases import Case
from simlab.llm.config import ModelConfig

FLOAT = 4  # bytes


def speeds(rounds: int = 5) -> dict[str, float]:
    """Operations and bytes a second, all cores: of a product of matrices and of a copy."""
    matrix = np.ones((2048, 2048), np.float32)
    product = min(_seconds(lambda: matrix @ matrix) for _ in range(rounds))
    cores = os.cpu_count() or 1
    pairs = [(np.ones(2**25, np.float32), np.ones(2**25, np.float32)) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as pool:
        copy = min(_seconds(lambda: list(pool.map(lambda pair: np.copyto(*pair), pairs))) for _ in range(rounds))
    return {"operations": 2 * 2048**3 / product, "bytes": 2 * cores * pairs[0][0].nbytes / copy}


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rollouts(case: Case, config: ModelConfig, speed: dict[str, float], size: int = FLOAT) -> float:
    """Seconds of all rollouts at full length: prompts once, then token by token; ``size`` is the bytes of a number."""
    count, total = len(case.prompts) * case.group_size, 0.0
    prompts = sum(map(len, case.prompts))
    total += _matrices(config) * 2 * prompts / speed["operations"]
    for step in range(1, case.new_tokens):
        seen = sum(case.group_size * (len(prompt) + step) for prompt in case.prompts)
        operations = 2 * count * (_matrices(config) + _head(config)) + _attention(config) * seen
        entries = prompts + count * step  # keys and values: a prompt's serve its whole group
        read = size * (_matrices(config) + _head(config) + entries * _memory(config))
        total += max(operations / speed["operations"], read / speed["bytes"])
    return total


def training_step(case: Case, config: ModelConfig, speed: dict[str, float], shared: bool) -> float:
    """Seconds of the products of matrices of one update: forward, and twice as much backward.

    With ``shared`` each prompt is computed once for its whole group.
    """
    T, G = case.new_tokens, case.group_size
    operations = 0.0
    for prompt in case.prompts:
        S = len(prompt)
        tokens = S * (1 if shared else G) + G * T
        pairs = (1 if shared else G) * S * S / 2 + G * (T * S + T * T / 2)
        operations += 2 * tokens * _matrices(config) + 2 * G * T * _head(config) + _attention(config) * pairs
    return 3 * operations / speed["operations"]


def _matrices(config: ModelConfig) -> int:
    """Numbers in the matrices of all layers."""
    heads = config.head_dim * (2 * config.num_heads + 2 * config.num_kv_heads)
    return config.num_layers * config.hidden_size * (heads + 3 * config.intermediate_size)


def _head(config: ModelConfig) -> int:
    return config.vocab_size * config.hidden_size


def _attention(config: ModelConfig) -> int:
    """Operations for a token that sees another, in all layers."""
    return config.num_layers * 4 * config.num_heads * config.head_dim


def _memory(config: ModelConfig) -> int:
    """Numbers kept of a token, in all layers."""
    return config.num_layers * 2 * config.num_kv_heads * config.head_dim

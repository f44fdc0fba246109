"""Cut a batch into microbatches, whose gradients are computed one by one and summed, so that memory is bounded.

Sizes are rounded up to those of ``simlab.llm.sampling``, so that one compiled program serves microbatches of similar
size. With several devices, each computes a microbatch at a time.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from simlab.llm.batch_layout import rounded_length, rounded_up
from simlab.llm.completions import CompletionBatch

# The maze model's gradient of 128 rollouts of 180 tokens takes 7.4 s on two cores in turns of 32 rollouts, 7.8 in turns
# of 64, 8.2 in turns of 16, and 9 to 13 at once: a CPU clears all memory that a program asks for, page by page.
CPU_TOKENS = 8192


class Microbatch(NamedTuple):
    """Some rollouts of some prompts of a batch.

    Attributes:
        batch: prompts and completions, padded to rounded sizes; padding has no token in the mask.
        prompts: (p, 1) rows of the prompts in the whole batch.
        rollouts: (1, g) columns of the rollouts.
        tokens: length of the longest completion.
    """

    batch: CompletionBatch
    prompts: np.ndarray
    rollouts: np.ndarray
    tokens: int

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Return the microbatch of an array (P, G, T, ...), padded with zeros."""
        rows = values[self.prompts, self.rollouts, : self.tokens]
        padded = np.zeros((*self.batch.tokens.shape, *values.shape[3:]), values.dtype)
        padded[: rows.shape[0], : rows.shape[1], : self.tokens] = rows
        return padded

    def scatter(self, values: np.ndarray, target: np.ndarray) -> None:
        """Write values of the microbatch into their entries of an array (P, G, T, ...)."""
        height, width = len(self.prompts), self.rollouts.shape[1]
        target[self.prompts, self.rollouts, : self.tokens] = values[:height, :width, : self.tokens]


def microbatches(batch: CompletionBatch, rollouts: int) -> Iterator[Microbatch]:
    """Cut a batch into microbatches of at most ``rollouts`` rollouts, of prompts with completions of similar length.

    Prompts without a token are left out, and so are rollouts if no rollout of their microbatch has a token.

    With ``rollouts=8``, 4 prompts of 4 rollouts make two microbatches of 2 prompts, the longest completions first; with
    ``rollouts=3`` they make 8, of 3 rollouts and of 1 rollout of each prompt.
    """
    lengths = np.asarray(batch.mask).sum(axis=2)
    groups, members = int(np.count_nonzero(lengths.any(axis=1))), batch.tokens.shape[1]
    width = min(members, rollouts)
    height = max(1, min(groups, rollouts // width))
    order = np.argsort(-lengths.max(axis=1), kind="stable")[:groups]
    for first in range(0, groups, height):
        rows = order[first : first + height]
        for start in range(0, members, width):
            columns = np.arange(start, min(start + width, members))
            longest = int(lengths[np.ix_(rows, columns)].max())
            if longest:
                yield _microbatch(batch, rows, columns, longest, (height, width))


def _microbatch(
    batch: CompletionBatch, rows: np.ndarray, columns: np.ndarray, longest: int, shape: tuple[int, int]
) -> Microbatch:
    prompts = np.asarray(batch.prompts)[rows]
    lengths = np.asarray(batch.lengths)[rows]
    height, width = map(rounded_up, shape)
    padded = np.zeros((height, rounded_length(int(lengths.max()))), np.int32)
    padded[: len(rows), : lengths.max()] = prompts[:, : lengths.max()]
    empty = CompletionBatch(
        padded,
        np.concatenate([lengths, np.ones(height - len(rows), lengths.dtype)]).astype(np.int32),
        np.zeros((height, width, rounded_up(longest)), np.int32),
        np.zeros((height, width, rounded_up(longest)), bool),
    )
    microbatch = Microbatch(empty, rows[:, None], columns[None], longest)
    tokens, mask = (microbatch.gather(np.asarray(values)) for values in (batch.tokens, batch.mask))
    return microbatch._replace(batch=empty._replace(tokens=tokens.astype(np.int32), mask=mask))


def tokens_at_once(platform: str) -> int | None:
    """Return the most tokens of completions whose gradient a program computes at once; None for no limit."""
    return CPU_TOKENS if platform == "cpu" else None


def turns(shape: Sequence[int], tokens: int | None) -> int:
    """Return the fewest turns of equally many prompts in which a program computes arrays (P, G, T, ...).

    >>> turns((6, 1, 10), 40)  # four of six prompts would fit, but turns of three are equal
    2
    """
    if tokens is None:
        return 1
    prompts, size = shape[0], math.prod(shape[1:3])
    fewest = math.ceil(prompts / max(1, tokens // size))
    return next(count for count in range(fewest, prompts + 1) if prompts % count == 0)


def compute_on_devices(
    devices: Sequence[jax.Device], compute: Callable[..., Any], pieces: Iterable[Any], *arrays: Any
) -> Iterator[Any]:
    """Yield ``compute(piece, *arrays)`` of each piece in their order: the i-th on device i modulo their number.

    The results do not depend on the number of devices: one device computes a piece alone, by the same program on every
    device, so that its bits are the same on devices of one kind. The results are on the first device.

    Args:
        devices: one or more. No more are used than there are pieces.
        compute: must return arrays that JAX still computes, so that the devices work at once.
        pieces: each device gets its next piece when all devices have finished theirs, so that no more results than
            devices are waiting.
        arrays: nested arrays, copied to every device.
    """
    if len(devices) == 1:
        yield from (compute(piece, *arrays) for piece in pieces)
        return
    copies, remaining = [arrays], iter(pieces)
    while turn := list(itertools.islice(remaining, len(devices))):
        for device in devices[len(copies) : len(turn)]:
            copies.append(jax.device_put(arrays, device))
        results = [compute(piece, *copy) for piece, copy in zip(turn, copies, strict=False)]
        jax.block_until_ready(results)  # type: ignore[no-untyped-call]
        yield from (_move(result, devices[0]) for result in results)


def _move(result: Any, device: jax.Device) -> Any:
    """Move the JAX arrays of a result to this device; NumPy's, as in a microbatch, stay as they are."""
    return jax.tree.map(lambda leaf: jax.device_put(leaf, device) if isinstance(leaf, jax.Array) else leaf, result)

"""Cut a batch into microbatches, whose gradients are computed one by one and summed, so that memory is bounded.

Sizes are rounded up to those of ``simlab.llm.sampling``, so that one compiled program serves microbatches of about one
size.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simlab.llm.completions import Batch
from simlab.llm.places import rounded_length, rounded_up

# The maze model's gradient of 128 rollouts of 180 tokens takes 7.4 s on two cores in turns of 32 rollouts, 7.8 in turns
# of 64, 8.2 in turns of 16, and 9 to 13 at once: a CPU clears all memory that a program asks for, page by page.
CPU_TOKENS = 8192


class Microbatch(NamedTuple):
    """Some rollouts of some prompts of a batch.

    Attributes:
        batch: filled up to rounded sizes; what was filled in has no token.
        prompts: (p, 1) which prompts of the whole batch they are.
        rollouts: (1, g) which rollouts of each.
        tokens: how many tokens of each are there; the others have none.
    """

    batch: Batch
    prompts: np.ndarray
    rollouts: np.ndarray
    tokens: int

    def gather(self, values: np.ndarray) -> np.ndarray:
        """The microbatch of an array (P, G, T, ...), filled up with zeros."""
        own = values[self.prompts, self.rollouts, : self.tokens]
        room = np.zeros((*self.batch.tokens.shape, *values.shape[3:]), values.dtype)
        room[: own.shape[0], : own.shape[1], : self.tokens] = own
        return room

    def scatter(self, values: np.ndarray, whole: np.ndarray) -> None:
        """Write values of the microbatch to where they belong in an array (P, G, T, ...)."""
        rows, members = len(self.prompts), self.rollouts.shape[1]
        whole[self.prompts, self.rollouts, : self.tokens] = values[:rows, :members, : self.tokens]


def microbatches(batch: Batch, rollouts: int) -> Iterator[Microbatch]:
    """Cut a batch into microbatches of at most ``rollouts`` rollouts, of prompts whose completions are about as long.

    Prompts without a token are left out, and rollouts without one where all of their microbatch are.
    """
    lengths = np.asarray(batch.mask).sum(axis=2)
    groups, members = int(np.count_nonzero(lengths.any(axis=1))), batch.tokens.shape[1]
    width = min(members, rollouts)
    height = max(1, min(groups, rollouts // width))
    order = np.argsort(-lengths.max(axis=1), kind="stable")[:groups]
    for first in range(0, groups, height):
        chosen = order[first : first + height]
        for start in range(0, members, width):
            own = np.arange(start, min(start + width, members))
            longest = int(lengths[np.ix_(chosen, own)].max())
            if longest:
                yield _microbatch(batch, chosen, own, longest, (height, width))


def tokens_at_once(platform: str) -> int | None:
    """Most tokens of completions whose gradient a program computes at once on such a platform; None for no limit."""
    return CPU_TOKENS if platform == "cpu" else None


def turns(shape: Sequence[int], tokens: int | None) -> int:
    """In how many turns a program computes arrays (P, G, T, ...), each of as many prompts: as few as may be."""
    if tokens is None:
        return 1
    prompts, each = shape[0], math.prod(shape[1:3])
    fewest = math.ceil(prompts / max(1, tokens // each))
    return next(count for count in range(fewest, prompts + 1) if prompts % count == 0)


def _microbatch(batch: Batch, chosen: np.ndarray, own: np.ndarray, longest: int, shape: tuple[int, int]) -> Microbatch:
    prompts = np.asarray(batch.prompts)[chosen]
    lengths = np.asarray(batch.lengths)[chosen]
    height, width = map(rounded_up, shape)
    filled = np.zeros((height, rounded_length(int(lengths.max()))), np.int32)
    filled[: len(chosen), : lengths.max()] = prompts[:, : lengths.max()]
    room = Batch(
        filled,
        np.concatenate([lengths, np.ones(height - len(chosen), lengths.dtype)]).astype(np.int32),
        np.zeros((height, width, rounded_up(longest)), np.int32),
        np.zeros((height, width, rounded_up(longest)), bool),
    )
    microbatch = Microbatch(room, chosen[:, None], own[None], longest)
    tokens, mask = (microbatch.gather(np.asarray(values)) for values in (batch.tokens, batch.mask))
    return microbatch._replace(batch=room._replace(tokens=tokens.astype(np.int32), mask=mask))

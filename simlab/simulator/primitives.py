"""Small building blocks of compiled programs: a barrier, Threefry's random words, and integers of two 32-bit words."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

Values = TypeVar("Values")
Words = UInt32[Array, "..."]
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
WORD = 2.0**32


def barrier(values: Values) -> Values:
    """Return the same values, computed once and here: XLA moves or repeats no computation across this point."""
    computed: Values = jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]
    return computed


def threefry(key: PRNGKeyArray, first: Words, second: Words) -> tuple[Words, Words]:
    """Return two random words for each two words of a counter, by Threefry-2x32 (Salmon et al. 2011).

    The words are those of ``jax.extend.random.threefry_2x32``, which on a CPU loops over the rounds and stores every
    word after each. Here the 20 rounds are written out in one pass, and XLA makes the words where they are used.
    """
    words: UInt32[Array, " 2"] = jax.random.key_data(key)
    schedule = (words[0], words[1], words[0] ^ words[1] ^ PARITY)
    first, second = first + schedule[0], second + schedule[1]
    for block in range(5):
        for distance in ROTATIONS[block % 2]:
            first = first + second
            second = ((second << distance) | (second >> (32 - distance))) ^ first
        first = first + schedule[(block + 1) % 3]
        second = second + schedule[(block + 2) % 3] + (block + 1)
    return first, second


class Count(NamedTuple):
    """A whole number up to 2^63, high 2^32 + low: counts of 10^18 actions stay exact without 64-bit types."""

    high: UInt32[Array, "*n"]
    low: UInt32[Array, "*n"]

    @classmethod
    def from_integers(cls, values: np.ndarray) -> "Count":
        """Split NumPy integers into words."""
        wide = values.astype(np.uint64)
        return cls(jnp.asarray(wide >> np.uint64(32), jnp.uint32), jnp.asarray(wide & np.uint64(2**32 - 1), jnp.uint32))

    def take(self, index: Int[Array, "*m"]) -> "Count":
        """Look up some of the numbers."""
        return Count(self.high[index], self.low[index])

    def subtract(self, word: UInt32[Array, "*n"]) -> "Count":
        """Subtract a number of one word, which must not be larger."""
        return Count(self.high - (word > self.low).astype(jnp.uint32), self.low - word)

    def floats(self, dtype: jnp.dtype) -> Float[Array, "*n"]:
        """Convert to floats, exactly where the dtype can hold the number."""
        return self.high.astype(dtype) * WORD + self.low.astype(dtype)


def uniform_below(count: Count, random: Count) -> Count:
    """Return a whole number in [0, count) from 64 random bits: floor(count * random / 2^64).

    A number's probability is off by less than 2^-64.

    Half of all random numbers lie below 2^63, whose word of high bits is 2^31, and that one gives half of the count:

    >>> count, random = Count.from_integers(np.array(10**18)), Count.from_integers(np.array(2**63))
    >>> int(random.high) == 2**31, int(count.high) * 2**32 + int(count.low) == 10**18
    (True, True)
    >>> half = uniform_below(count, random)
    >>> int(half.high) * 2**32 + int(half.low) == 10**18 // 2
    True
    """
    # Schoolbook multiplication; each partial product is split into its words, which carry upwards.
    low_carry = jax.lax.mulhi(count.low, random.low)
    first, second = count.high * random.low, count.low * random.high
    middle = first + second
    carry = (middle < first).astype(jnp.uint32)
    summed = middle + low_carry
    carry = carry + (summed < middle).astype(jnp.uint32)
    third, fourth = jax.lax.mulhi(count.high, random.low), jax.lax.mulhi(count.low, random.high)
    top = count.high * random.high
    low = top + third
    overflow = (low < top).astype(jnp.uint32)
    low_two = low + fourth
    overflow = overflow + (low_two < low).astype(jnp.uint32)
    low_three = low_two + carry
    overflow = overflow + (low_three < low_two).astype(jnp.uint32)
    return Count(jax.lax.mulhi(count.high, random.high) + overflow, low_three)

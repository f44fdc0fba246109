"""Whole numbers up to 2^63 in two 32-bit words, so that counts of 10^18 actions stay exact without 64-bit types."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

Words = UInt32[Array, "*n"]
WORD = 2.0**32


class Count(NamedTuple):
    """high 2^32 + low."""

    high: Words
    low: Words

    @classmethod
    def of(cls, values: np.ndarray) -> "Count":
        """From NumPy integers."""
        wide = values.astype(np.uint64)
        return cls(jnp.asarray(wide >> np.uint64(32), jnp.uint32), jnp.asarray(wide & np.uint64(2**32 - 1), jnp.uint32))

    def take(self, index: Int[Array, "*m"]) -> "Count":
        """Those at some places."""
        return Count(self.high[index], self.low[index])

    def less(self, taken: Words) -> "Count":
        """Minus a count of one word, which must not be larger."""
        return Count(self.high - (taken > self.low).astype(jnp.uint32), self.low - taken)

    def floats(self, dtype: jnp.dtype) -> Float[Array, "*n"]:
        """As floats, exact where the dtype can hold the number."""
        return self.high.astype(dtype) * WORD + self.low.astype(dtype)


def uniform_below(count: Count, random: Count) -> Count:
    """A whole number in [0, count) from 64 random bits: floor(count * random / 2^64).

    A number's probability is off by less than 2^-64.

    Half of all random numbers lie below 2^63, whose word of high bits is 2^31, and that one gives half of the count:

    >>> count, random = Count.of(np.array(10**18)), Count.of(np.array(2**63))
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

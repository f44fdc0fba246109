"""Make random words by Threefry-2x32 (Salmon et al. 2011), with its 20 rounds written out.

The same words as ``jax.extend.random.threefry_2x32``, which on a CPU loops over the rounds and stores every word after
each; written out, the rounds are one pass, and XLA makes the words where they are used.
"""

import jax
from jaxtyping import Array, PRNGKeyArray, UInt32

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
Words = UInt32[Array, "..."]


def threefry(key: PRNGKeyArray, first: Words, second: Words) -> tuple[Words, Words]:
    """Two random words for each two words of a counter."""
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

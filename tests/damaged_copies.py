"""Damage to files, seeded: bits that flip, ends that are cut off, blocks that are zero, bytes that go or come."""

import random


def flipped(content, chance):
    """One bit is another."""
    place = chance.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]


def cut(content, chance):
    """The end is missing."""
    return content[: chance.randrange(len(content))]


def zeroed(content, chance):
    """A block is zero, as a file system may leave it that had no time to write it."""
    start = chance.randrange(len(content))
    size = chance.choice([1, 16, 512, 4096])
    return content[:start] + bytes(len(content[start : start + size])) + content[start + size :]


def removed(content, chance):
    """A byte is missing."""
    place = chance.randrange(len(content))
    return content[:place] + content[place + 1 :]


def doubled(content, chance):
    """A stretch is there twice."""
    start = chance.randrange(len(content))
    stop = min(len(content), start + chance.choice([1, 7, 64]))
    return content[:stop] + content[start:]


KINDS = (flipped, flipped, flipped, flipped, cut, zeroed, removed, doubled)


def damaged(content, count, seed=0):
    """Copies of a file that are damaged, one kind after the other, each unlike the file."""
    chance = random.Random(seed)
    for number in range(count):
        copy = content
        while copy == content:
            copy = KINDS[number % len(KINDS)](content, chance)
        yield copy

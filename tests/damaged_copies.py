"""Damage to files, seeded: bits that flip, ends that are cut off, blocks that are zero, bytes that go or come."""

import random


def copy_of(content, kind, chance):
    """A copy with one damage; a file system may leave a block zero that it had no time to write."""
    place = chance.randrange(len(content))
    before, after = content[:place], content[place:]
    match kind:
        case "zeroed":
            size = len(after[: chance.choice([1, 16, 512, 4096])])
            return before + bytes(size) + after[size:]
        case "doubled":
            stretch = after[: chance.choice([1, 7, 64])]
            return before + stretch + after
        case "cut":
            return before
        case "removed":
            return before + after[1:]
    return before + bytes([after[0] ^ 1 << chance.randrange(8)]) + after[1:]


def damaged(content, count, seed=0):
    """Copies of a file that are damaged, one kind after the other, each unlike the file."""
    chance = random.Random(seed)
    for number in range(count):
        copy = content
        while copy == content:
            copy = copy_of(content, [*["flipped"] * 4, "cut", "zeroed", "removed", "doubled"][number % 8], chance)
        yield copy

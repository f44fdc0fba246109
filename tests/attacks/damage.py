"""Seeded damage to files, and how a reader took it."""

from collections import Counter

from simlab.errors import InputError


def damaged(content, random_numbers):
    """The content with up to six bytes changed, and one time in five cut off."""
    changed = bytearray(content)
    for _ in range(random_numbers.randint(1, 6)):
        changed[random_numbers.randrange(len(changed))] = random_numbers.randrange(256)
    return bytes(changed[: random_numbers.randrange(len(changed))] if random_numbers.random() < 0.2 else changed)


def outcome(read, *arguments):
    """``read`` or ``refused``, the latter in one line; whatever else is raised fails the test."""
    try:
        read(*arguments)
    except InputError as error:
        if "\n" in str(error) or len(str(error)) > 2000:
            raise AssertionError(f"no short line: {error}") from error
        return "refused"
    return "read"


def outcomes(read, cases):
    """How many cases were read and how many refused."""
    return Counter(outcome(read, case) for case in cases)

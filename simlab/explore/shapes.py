"""Round sizes up to the few for which programs are compiled."""

SEEDS = 4  # of one block
GROUPS = (32, 128, 512)
ACTIONS = (256, 2048, 32768)


def filled_to(size: int, sizes: tuple[int, ...]) -> int:
    """The least of some sizes that holds ``size``.

    >>> filled_to(33, (32, 128, 512))
    128
    """
    return next(larger for larger in sizes if larger >= size)

"""Which rewards are those of a correct rollout: 1 of 0 and 1, or those that reach a threshold."""

from simlab.errors import InputError

LOOKED_AT = 10_000  # rows of graded rewards after which a threshold is asked for
NAMED = 6  # rewards that are named then


class Rewards:
    """Judges rewards, and notices where a threshold is needed.

    Args:
        threshold: the least reward of a correct rollout; None where all rewards are 0 or 1.
        names: the columns that they come from, for the error message.
    """

    def __init__(self, threshold: float | None, names: tuple[str, ...]):
        self.threshold, self.names = threshold, names
        self.rows = 0
        self.different: set[float] = set()

    def reach(self, reward: float) -> bool:
        """Whether it is the reward of a correct rollout."""
        return reward >= (1 if self.threshold is None else self.threshold)

    def count(self, reward: float) -> None:
        """Take in the reward of a row.

        Raises:
            InputError: as ``check``, once enough rows have been seen.
        """
        self.rows += 1
        if self.threshold is None and len(self.different) <= NAMED:
            self.different.add(reward)
        if self.rows >= LOOKED_AT:
            self.check()

    def check(self) -> None:
        """Raise ``InputError`` where a threshold is needed: for any reward other than 0 and 1."""
        if self.threshold is not None or self.different <= {0, 1}:
            return
        values = sorted(self.different)
        seen = ", ".join(f"{value:g}" for value in values[:NAMED]) + (", ..." if len(values) > NAMED else "")
        columns = " + ".join(self.names)
        others = ", or --reward NAME for one of them alone" if len(self.names) > 1 else ""
        raise InputError(
            f"rewards ({columns}) are {seen}; needed: --threshold X, the least reward of a correct rollout{others}"
        )

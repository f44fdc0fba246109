"""Schedule measurements beside a run, so that they take a bounded share of its time."""

import time
from collections.abc import Callable

from simlab.errors import check_range, check_whole


class Pace:
    """Say when a measurement is due, and which share of the run's time they took.

    Args:
        every: steps from one measurement to the next.
        share: the most of the run's time that they may take: one that would take more waits. The first measures the
            time of one, and is made when it is due. None for no bound.
        clock: the time in seconds; by default ``time.perf_counter``.

    Attributes:
        every: as above.
        spent: seconds that measurements took.

    Raises: InputError: for numbers outside of their range.
    """

    def __init__(self, every: int, share: float | None, clock: Callable[[], float] | None = None):
        check_whole("every", every, 1)
        if share is not None:
            check_range("share", share, 0, 1, open_low=True)
        self.every, self._share, self._clock = every, share, clock or time.perf_counter
        self.spent, self._latest = 0.0, 0.0
        self.begin(0)

    def begin(self, step: int) -> None:
        """Begin the clock, after so many steps."""
        self._began, self._step = self._clock(), step

    def is_due(self, step: int) -> bool:
        """Return True where this step is measured."""
        if step < self._step + self.every:
            return False
        allowed = float("inf") if self._share is None else self._share * (self._clock() - self._began)
        return not self._latest or self.spent + self._latest <= allowed

    def spend(self, step: int, seconds: float) -> float:
        """Add a measurement; return the share of the run's time that all took."""
        self._step, self._latest = step, seconds
        self.spent += seconds
        return self.spent / max(self._clock() - self._began, 1e-9)

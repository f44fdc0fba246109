"""Queue jobs for the simulating process: first come, first served, one job for each page."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from simlab.explore.process import Event
from simlab.explore.refused import Refused

MOST_WAITING = 512


class Job:
    """A job, the page that asks for it, and the events that it has brought so far."""

    def __init__(self, asked: dict[str, Any], page: str = ""):
        self.asked, self.page = asked, page
        self.key = json.dumps(asked, sort_keys=True)
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.ahead = 0

    def tell(self, event: Event) -> None:
        """Bring an event to whoever waits for this job."""
        self.events.put_nowait(event)

    def fail(self, message: str) -> None:
        """Bring the job to its end."""
        self.tell({"event": "error", "error": message})


class Line:
    """Jobs that wait for their turn.

    A page waits with one job at a time: a newer one takes the place of the older, so that a slider that is dragged
    neither holds up others nor falls behind itself. A job without a page stands by itself.
    """

    def __init__(self) -> None:
        self.waiting: list[Job] = []
        self.running: Job | None = None
        self.arrived = asyncio.Event()

    def join(self, job: Job) -> None:
        """Put a job in line.

        Raises:
            Refused: if too many wait already.
        """
        older = [other for other in self.waiting if job.page and other.page == job.page]
        if older:
            self.waiting[self.waiting.index(older[0])] = job
            older[0].fail("a newer simulation of the same page took its place")
        elif len(self.waiting) < MOST_WAITING:
            self.waiting.append(job)
        else:
            raise Refused(503, f"{len(self.waiting)} simulations wait already; allowed: {MOST_WAITING} at a time")
        self.arrived.set()
        self._tell_places()

    def leave(self, job: Job) -> None:
        """Take a job out of the line, if it still waits there."""
        if job in self.waiting:
            self.waiting.remove(job)
            self._tell_places()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[Job]:
        """The next job, as soon as there is one; the others wait until it is done with."""
        while not self.waiting:
            self.arrived.clear()
            await self.arrived.wait()
        self.running = job = self.waiting.pop(0)
        self._tell_places()
        try:
            yield job
        finally:
            self.running = None

    def _tell_places(self) -> None:
        """Tell each job that waits how many are ahead of it, where that is another number than before."""
        for ahead, job in enumerate(self.waiting, start=int(self.running is not None)):
            if ahead != job.ahead:
                job.ahead = ahead
                job.tell({"event": "waiting", "ahead": ahead})

"""Simulate for the server: queue jobs, run one at a time in the simulating process, and keep the results."""

import asyncio
import collections
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from simlab.explore.line import Job, Line
from simlab.explore.process import LAST, WORKER, Ended, Event, Process

KEPT_RESULTS = 64  # of blocks, each up to .4 MiB


class Laboratory:
    """Runs jobs in a process of their own; the same settings and seeds give the same result, which is kept."""

    def __init__(self, worker: tuple[str, ...] = WORKER):
        self.process, self.line = Process(worker), Line()
        self.results: collections.OrderedDict[str, Event] = collections.OrderedDict()
        self.serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process, and do jobs as they come."""
        await self.process.start()
        self.serving = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        """End the process, and every job that is not done."""
        if self.serving is None:
            return
        left = [*self.line.waiting, *filter(None, [self.line.running])]
        self.serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.serving
        self.serving = None
        await self.process.stop()
        for job in left:
            job.fail("the server was stopped")

    def submit(self, asked: dict[str, Any], page: str = "") -> Job:
        """Put a job in line, unless its result is known.

        Raises:
            Refused: if too many wait already.
        """
        job = Job(asked, page)
        if not self._answer_from_kept(job):
            self.line.join(job)
        return job

    async def events(self, job: Job) -> AsyncGenerator[Event, None]:
        """The events of a job up to its result or error; whoever leaves before it is done leaves the line."""
        try:
            while True:
                event = await job.events.get()
                yield event
                if event["event"] in LAST:
                    return
        finally:
            self.line.leave(job)

    async def _serve(self) -> None:
        while True:
            async with self.line.turn() as job:
                if not self._answer_from_kept(job):
                    await self._run(job)

    async def _run(self, job: Job) -> None:
        try:
            async with contextlib.aclosing(self.process.run(job.asked)) as events:
                async for event in events:
                    job.tell(event)
                    if event["event"] == "result":
                        self._keep(job, event)
        except (Ended, OSError) as error:
            job.fail(str(error))

    def _keep(self, job: Job, result: Event) -> None:
        self.results[job.key] = result
        while len(self.results) > KEPT_RESULTS:
            self.results.popitem(last=False)

    def _answer_from_kept(self, job: Job) -> bool:
        """Bring the result of the same job, if it was done before; whether it was."""
        if job.key not in self.results:
            return False
        self.results.move_to_end(job.key)
        job.tell(self.results[job.key])
        return True

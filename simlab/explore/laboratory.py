"""Simulate for the server: queue jobs, run one at a time in a process of its own, and keep the results.

The process (``worker``) reads jobs and writes events, a line of JSON each. It is killed when a job takes longer than
``COMPILE_SECONDS`` until its program is compiled, or ``JOB_SECONDS`` from then on, and the next job starts it anew.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

SimulationEvent = dict[str, Any]

WORKER = (sys.executable, "-m", "simlab.explore.worker")
JOB_SECONDS = 20.0
COMPILE_SECONDS = 120.0
LONGEST_LINE = 2**24  # bytes of one event
KEPT_RESULTS = 64  # of blocks, each up to .4 MiB
LAST_EVENTS = ("result", "error")


class SimulationJob:
    """A job, the page that sent it, and its events so far."""

    def __init__(self, body: dict[str, Any], page: str = ""):
        self.body, self.page = body, page
        self.key = json.dumps(body, sort_keys=True)
        self.events: asyncio.Queue[SimulationEvent] = asyncio.Queue()
        self.ahead = 0

    def fail(self, message: str) -> None:
        """End the job with an error."""
        self.events.put_nowait({"event": "error", "error": message})


class Laboratory:
    """Runs jobs one at a time, first come, first served; the same job gives the same result, which is kept.

    A page waits with one job at a time: a newer one takes the place of the older, so that a slider that is dragged
    neither holds up others nor falls behind itself. A job without a page stands by itself.
    """

    def __init__(self, command: tuple[str, ...] = WORKER):
        self.command = command
        self.to_compile: int | None = None  # programs of presets, of which the process tells between jobs
        self.waiting: list[SimulationJob] = []
        self.running: SimulationJob | None = None
        self.results: dict[str, SimulationEvent] = {}  # the latest used is the last
        self._arrived = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._heard: asyncio.Queue[SimulationEvent | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the process, and do jobs as they come."""
        await self._launch()
        self._tasks.append(asyncio.create_task(self._serve()))

    async def stop(self) -> None:
        """End the process, and every job that is not done."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._kill()
        for job in (*self.waiting, *filter(None, [self.running])):
            job.fail("the server was stopped")

    def submit(self, body: dict[str, Any], page: str = "") -> SimulationJob:
        """Put a job in line, unless its result is there."""
        job = SimulationJob(body, page)
        if self._answer(job):
            return job
        older = next((other for other in self.waiting if page and other.page == page), None)
        if older:
            self.waiting[self.waiting.index(older)] = job
            older.fail("a newer simulation of the same page took its place")
        else:
            self.waiting.append(job)
        self._arrived.set()
        self._tell_places()
        return job

    async def events(self, job: SimulationJob) -> AsyncGenerator[SimulationEvent, None]:
        """Yield the events of a job up to its result or error; whoever leaves before leaves the line."""
        try:
            while True:
                event = await job.events.get()
                yield event
                if event["event"] in LAST_EVENTS:
                    return
        finally:
            if job in self.waiting:
                self.waiting.remove(job)
                self._tell_places()

    def _tell_places(self) -> None:
        """Tell each waiting job how many are ahead of it, if that is another number than before."""
        for ahead, job in enumerate(self.waiting, start=int(self.running is not None)):
            if ahead != job.ahead:
                job.ahead = ahead
                job.events.put_nowait({"event": "waiting", "ahead": ahead})

    def _answer(self, job: SimulationJob) -> bool:
        """Send the result of the same job, if it was done before; return True if it was."""
        if job.key not in self.results:
            return False
        self.results[job.key] = event = self.results.pop(job.key)
        job.events.put_nowait(event)
        return True

    async def _serve(self) -> None:
        while True:
            while not self.waiting:
                self._arrived.clear()
                await self._arrived.wait()
            self.running = job = self.waiting.pop(0)
            self._tell_places()
            if not self._answer(job):
                try:
                    await self._run(job)
                except (OSError, TimeoutError) as error:
                    await self._kill()
                    job.fail(f"{error}; the next change starts the simulating process anew")
            self.running = None

    async def _run(self, job: SimulationJob) -> None:
        """Have the process do a job; raises ``OSError`` if it ends, and ``TimeoutError`` if it takes too long."""
        if self._process is None or self._process.returncode is not None:
            await self._launch()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job.body).encode() + b"\n")
        seconds = COMPILE_SECONDS
        while True:
            try:
                event = await asyncio.wait_for(self._heard.get(), seconds)
            except TimeoutError:
                raise TimeoutError(f"the simulation took longer than {seconds:g} s and was stopped") from None
            if event is None:
                raise OSError("the simulating process ended")
            job.events.put_nowait(event)
            if event["event"] == "result":
                self.results[job.key] = event
                for oldest in list(self.results)[:-KEPT_RESULTS]:
                    del self.results[oldest]
            if event["event"] in LAST_EVENTS:
                return
            seconds = JOB_SECONDS if event["event"] == "simulating" else COMPILE_SECONDS

    async def _launch(self) -> None:
        """Start the process, which compiles while it has nothing to do."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, limit=LONGEST_LINE, start_new_session=True
        )
        self._heard = asyncio.Queue()
        self._tasks.append(asyncio.create_task(self._listen(self._process, self._heard)))

    async def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _listen(self, process: asyncio.subprocess.Process, heard: asyncio.Queue[SimulationEvent | None]) -> None:
        """Queue the events of a process up to its end, which is None."""
        assert process.stdout is not None
        async for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "warm":
                self.to_compile = event["left"]
            else:
                heard.put_nowait(event)
        heard.put_nowait(None)

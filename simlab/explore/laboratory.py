"""The server's side of the simulating process: jobs wait in line, one runs at a time, and one that hangs is stopped."""

import asyncio
import collections
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

from simlab.explore.refused import Refused

Event = dict[str, Any]
KEPT_RESULTS = 128
MOST_WAITING = 32  # jobs that wait for the simulating process
JOB_SECONDS = 20.0  # of one block of seeds, after which its process is stopped
COMPILE_SECONDS = 300.0
LONGEST_LINE = 2**24  # bytes of one event
WORKER = (sys.executable, "-m", "simlab.explore.worker")
STOPPING_SECONDS = 2.0


class Job:
    """A job in line, and the events that it has brought so far."""

    def __init__(self, asked: dict[str, Any]):
        self.asked, self.events = asked, asyncio.Queue[Event]()
        self.key = json.dumps(asked, sort_keys=True)
        self.given_up = False


class Laboratory:
    """Runs jobs in a process of their own.

    A job whose client has gone is dropped before it starts, so that the latest values win. Results are kept: the same
    settings and seeds give the same result.
    """

    def __init__(self, worker: tuple[str, ...] = WORKER):
        self.command = worker
        self.waiting: collections.deque[Job] = collections.deque()
        self.arrived = asyncio.Event()
        self.results: collections.OrderedDict[str, Event] = collections.OrderedDict()
        self.process: asyncio.subprocess.Process | None = None
        self.to_compile: int | None = None
        self.served: asyncio.Task[None] | None = None
        self.count = 0

    async def start(self) -> None:
        """Start the process, which compiles while it has nothing to do."""
        await self._start_process()
        self.served = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        """End the process and everything that waits for it."""
        if self.served:
            self.served.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.served
        await self._stop_process()

    def submit(self, asked: dict[str, Any]) -> Job:
        """Put a job in line.

        Raises:
            Refused: if too many wait already.
        """
        self.waiting = collections.deque(job for job in self.waiting if not job.given_up)
        if len(self.waiting) >= MOST_WAITING:
            raise Refused(503, f"busy: {len(self.waiting)} simulations wait already; try again in a second")
        job = Job(asked)
        self.waiting.append(job)
        self.arrived.set()
        return job

    async def events(self, job: Job) -> AsyncGenerator[Event, None]:
        """The events of a job up to its result or error; leaving gives the job up."""
        try:
            while True:
                event = await job.events.get()
                yield event
                if event["event"] in ("result", "error"):
                    return
        finally:
            job.given_up = True

    async def _serve(self) -> None:
        while True:
            if not self.waiting:
                self.arrived.clear()
                await self._listen_until_arrival()
                continue
            job = self.waiting.popleft()
            if job.given_up:
                continue
            if job.key in self.results:
                self.results.move_to_end(job.key)
                job.events.put_nowait(self.results[job.key])
                continue
            await self._run(job)

    async def _listen_until_arrival(self) -> None:
        """Hear what the process says of its compiling until a job arrives."""
        arrival = asyncio.create_task(self.arrived.wait())
        try:
            while not arrival.done():
                heard = asyncio.create_task(self._read())
                await asyncio.wait({arrival, heard}, return_when=asyncio.FIRST_COMPLETED)
                if not heard.done():
                    heard.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await heard
                elif heard.result() is None:
                    await arrival  # a process that has ended is started again for the next job
        finally:
            arrival.cancel()

    async def _run(self, job: Job) -> None:
        if self.process is None or self.process.returncode is not None:
            await self._start_process()
        assert self.process is not None
        assert self.process.stdin is not None
        self.count += 1
        line = json.dumps({"id": self.count, **job.asked}) + "\n"
        seconds = COMPILE_SECONDS  # the process may be compiling for the start, which cannot be interrupted
        try:
            self.process.stdin.write(line.encode())
            await self.process.stdin.drain()
            while True:
                event = await asyncio.wait_for(self._read(self.count), seconds)
                if event is None:
                    raise ConnectionResetError
                job.events.put_nowait({key: value for key, value in event.items() if key != "id"})
                if event["event"] in ("result", "error"):
                    break
                seconds = COMPILE_SECONDS if event["event"] == "compiling" else JOB_SECONDS
        except TimeoutError:
            await self._stop_process()
            job.events.put_nowait(_error(f"the simulation took longer than {seconds:g} s and was stopped"))
        except OSError:
            await self._stop_process()
            job.events.put_nowait(_error("the simulating process ended; the next change starts it anew"))
        else:
            if event["event"] == "result":
                self.results[job.key] = {"event": "result", "result": event["result"]}
                while len(self.results) > KEPT_RESULTS:
                    self.results.popitem(last=False)

    async def _read(self, number: int | None = None) -> Event | None:
        """The next event of a job, or any next one; None where the process has ended."""
        output = self.process.stdout if self.process else None
        while output and (line := await output.readline()):
            event: Event = json.loads(line)
            if event["event"] == "warm":
                self.to_compile = event["left"]
            if number is None or event["id"] == number:
                return event
        return None

    async def _start_process(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, limit=LONGEST_LINE, start_new_session=True
        )

    async def _stop_process(self) -> None:
        process, self.process = self.process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOPPING_SECONDS)


def _error(message: str) -> Event:
    return {"event": "error", "error": message}

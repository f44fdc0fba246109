"""Start, feed and kill the simulating process: jobs go in, events come out, and a process that hangs is killed.

Three limits hold. The process says each second that it is alive, also while it compiles or simulates; it is killed
after ``SILENT_SECONDS`` of silence. A job has ``COMPILE_SECONDS`` until its program is compiled, since a compilation
cannot be interrupted, and ``JOB_SECONDS`` from then on.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from typing import Any

Event = dict[str, Any]

WORKER = (sys.executable, "-m", "simlab.explore.worker")
SILENT_SECONDS = 10.0
JOB_SECONDS = 20.0
COMPILE_SECONDS = 120.0
STOPPING_SECONDS = 2.0
LONGEST_LINE = 2**24  # bytes of one event
# What the process may say, and what each of these holds beside the number of the job (see ``worker``).
EVENTS: dict[str, tuple[str, ...]] = {
    "alive": (),
    "warm": ("left",),
    "compiling": (),
    "simulating": (),
    "result": ("result",),
    "error": ("error",),
}
LAST = ("result", "error")


class Ended(Exception):
    """The process has ended, or had to be; the message says why."""


class Process:
    """The simulating process; if it has ended, the next job restarts it."""

    def __init__(self, command: tuple[str, ...] = WORKER):
        self.command = command
        self.to_compile: int | None = None
        self.jobs = 0
        self.process: asyncio.subprocess.Process | None = None
        self.heard: asyncio.Queue[Event | Ended] = asyncio.Queue()
        self.listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process, which compiles while it has nothing to do."""
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, limit=LONGEST_LINE, start_new_session=True
        )
        self.heard = asyncio.Queue()
        self.listening = asyncio.create_task(self._listen(self.process))

    async def stop(self) -> None:
        """End the process."""
        if self.process and self.listening:
            await _end(self.process)
            await self.listening

    async def run(self, asked: dict[str, Any]) -> AsyncGenerator[Event, None]:
        """The events of a job, up to its result or error.

        Raises:
            Ended: if the process ends, falls silent, says what is no event, or takes too long.
        """
        if self.listening is None or self.listening.done():
            await self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.jobs += 1
        self.process.stdin.write(json.dumps({"id": self.jobs, **asked}).encode() + b"\n")
        seconds = COMPILE_SECONDS
        while True:
            try:
                event = await asyncio.wait_for(self.heard.get(), seconds)
            except TimeoutError:
                await self.stop()
                raise Ended(f"the simulation took longer than {seconds:g} s and was stopped") from None
            if isinstance(event, Ended):
                raise event
            yield event
            if event["event"] in LAST:
                return
            seconds = JOB_SECONDS if event["event"] == "simulating" else COMPILE_SECONDS

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Hear what the process says, to its end; end it where it is silent or says what is no event."""
        assert process.stdout is not None
        reason = "ended"
        try:
            while line := await asyncio.wait_for(process.stdout.readline(), SILENT_SECONDS):
                self._hear(_event_of(line))
        except TimeoutError:
            reason = f"was silent for {SILENT_SECONDS:g} s and was killed"
        except ValueError:
            reason = "said what is no event and was killed"
        await _end(process)
        self.heard.put_nowait(Ended(f"the simulating process {reason}; the next change starts it anew"))

    def _hear(self, event: Event) -> None:
        if event["event"] == "warm":
            self.to_compile = event["left"]
        if event["id"] == self.jobs:
            self.heard.put_nowait({key: value for key, value in event.items() if key != "id"})


def _event_of(line: bytes) -> Event:
    """The event that a line holds; raises ``ValueError`` if it holds none, or is too long to be read."""
    try:
        event = json.loads(line)
    except RecursionError:
        raise ValueError(line) from None
    known = isinstance(event, dict) and isinstance(event.get("event"), str) and event["event"] in EVENTS
    if not known or not {"id", *EVENTS[event["event"]]} <= event.keys():
        raise ValueError(line)
    return dict(event)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a process, also one that is stopped."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            # Not by its own kill, which may take the exit code of a process that ends by itself from asyncio.
            os.kill(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), STOPPING_SECONDS)

"""Simulate for the server: jobs run one at a time in a process of its own (``worker``), killed if it hangs."""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

SimulationEvent = dict[str, Any]

WORKER = (sys.executable, "-m", "simlab.explore.worker")
JOB_SECONDS = 20.0
COMPILE_SECONDS = 120.0
LONGEST_LINE = 2**24  # bytes of one event


class Laboratory:
    """Runs jobs one at a time, first come, first served; who leaves before the result leaves the line."""

    def __init__(self, command: tuple[str, ...] = WORKER):
        self.command = command
        self.to_compile: int | None = None  # programs of presets, of which the process tells between jobs
        self.line: list[int] = []  # numbers of jobs, the running one first
        self.is_stopped = False
        self._numbers = itertools.count()
        self._moved = asyncio.Event()  # set, and replaced, when a job leaves the line
        self._process: asyncio.subprocess.Process | None = None
        self._heard: asyncio.Queue[SimulationEvent | None] = asyncio.Queue()
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process, which compiles while it has nothing to do."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, limit=LONGEST_LINE, start_new_session=True
        )
        self._heard = asyncio.Queue()
        self._listening = asyncio.create_task(self._listen(self._process, self._heard))

    async def stop(self) -> None:
        """End the process, and every job that is not done."""
        self.is_stopped = True
        await self._kill()

    async def events(self, body: dict[str, Any]) -> AsyncGenerator[SimulationEvent, None]:
        """Yield the events of a job: how many are ahead of it, then its own up to a ``result`` or an ``error``."""
        number, seconds = next(self._numbers), COMPILE_SECONDS
        self.line.append(number)
        try:
            while ahead := self.line.index(number):
                moved = self._moved
                yield {"event": "waiting", "ahead": ahead}
                await moved.wait()
            process = await self._running_process()
            process.stdin.write(json.dumps({**body, "job": number}).encode() + b"\n")
            while True:
                event = await asyncio.wait_for(self._heard.get(), seconds)
                if event is None:
                    raise OSError("the simulating process ended")
                if event["job"] != number:  # whose client has left
                    continue
                yield event
                if event["event"] in ("result", "error"):
                    return
                seconds = JOB_SECONDS if event["event"] == "simulating" else COMPILE_SECONDS
        except (OSError, TimeoutError) as error:
            await self._kill()
            reason = str(error) or f"the simulation took longer than {seconds:g} s and was stopped"
            yield {"event": "error", "error": f"{reason}; the next change starts the simulating process anew"}
        finally:
            self.line.remove(number)
            self._moved.set()
            self._moved = asyncio.Event()

    async def _running_process(self) -> Any:
        if self.is_stopped:
            raise OSError("the server was stopped")
        if self._process is None or self._process.returncode is not None:
            await self.start()
        return self._process

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

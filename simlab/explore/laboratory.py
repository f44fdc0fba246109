"""Simulate for the server: jobs run one at a time in a process of its own, which is killed if it hangs.

The process reads jobs and writes events, a line of JSON each, until nothing more is written to it.

    {"job": 7, "panel": "run", "settings": {...}, "first": 0}   ->   {"event": "compiling", "job": 7}
                                                                     {"event": "simulating", "job": 7}
                                                                     {"event": "result", "job": 7, "result": {...}}

``compiling`` comes if a program is not compiled yet. Between jobs the process compiles the programs of the presets. Its
arguments are the estimators of the user's own files.
"""

import asyncio
import contextlib
import ctypes
import functools
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from typing import Any

SimulationEvent = dict[str, Any]

WORKER = (sys.executable, "-m", "simlab.explore.laboratory")
JOB_SECONDS = 20.0
COMPILE_SECONDS = 120.0
LONGEST_LINE = 2**24  # bytes of one event
JOBS_A_TRIM = 32


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


# The process


def main() -> None:
    """Work as the simulating process until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the server, which then ends this process
    # Libraries print to the standard error; events have the standard output to themselves.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from simlab.errors import InputError  # noqa: PLC0415  # its imports may print
    from simlab.explore.panel_runs import compile_presets, simulate_panel  # noqa: PLC0415
    from simlab.explore.weights import register_files  # noqa: PLC0415

    register_files(sys.argv[1:])
    writing = threading.Lock()

    def say(event: str, **more: object) -> None:
        with writing:
            try:
                events.write(json.dumps({"event": event, **more}) + "\n")
                events.flush()
            except BrokenPipeError:
                os._exit(0)  # the server is gone

    def warm() -> None:
        for remaining in compile_presets():
            say("warm", left=remaining)

    threading.Thread(target=warm, daemon=True).start()
    for count, line in enumerate(sys.stdin, start=1):
        body = json.loads(line)
        tell = functools.partial(say, job=body["job"])
        try:
            tell("result", result=simulate_panel(body["panel"], body["settings"], body["first"], tell))
        except (InputError, MemoryError) as error:
            tell("error", error=str(error) or "too little memory for this")
        if count % JOBS_A_TRIM == 0:
            # glibc keeps freed memory, in pieces, up to .3 MiB more with each simulation; others have no such function.
            with contextlib.suppress(AttributeError, OSError, TypeError):
                ctypes.CDLL(None).malloc_trim(0)
    os._exit(0)  # not by sys.exit, which would wait for a compilation


if __name__ == "__main__":
    main()

"""The simulating process: read jobs and write events, a line each, until nothing more is written to it.

    {"id": 7, "panel": "run", "settings": {...}, "first": 0}   ->   {"id": 7, "event": "compiling"}
                                                                    {"id": 7, "event": "simulating"}
                                                                    {"id": 7, "event": "result", "result": {...}}

``compiling`` comes if a program is not compiled yet, ``simulating`` once it is; a job of several programs says both
several times. Between jobs the process compiles the programs of the presets, so that a first drag need not wait, and
each second it says that it is alive. Its arguments are the estimators of
the user's own files.
"""

import contextlib
import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO

ALIVE_SECONDS = 1.0
JOBS_A_TRIM = 32


def main() -> None:
    """Work until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the server, which then closes the input
    # What libraries print goes to the standard error; events have the standard output to themselves.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    _beside(_live, events)
    _beside(_read, sys.stdin, jobs)
    from simlab.explore.jobs import compiled, done  # noqa: PLC0415  # JAX takes seconds: it comes after a sign of life
    from simlab.explore.own import register_files  # noqa: PLC0415

    register_files(sys.argv[1:])

    def warm() -> None:
        for left in compiled():
            _write(events, None, {"event": "warm", "left": left})

    _beside(warm)
    for count, job in enumerate(iter(jobs.get, None), start=1):
        number = job["id"]
        _write(events, number, done(job, partial(_say, events, number)))
        if count % JOBS_A_TRIM == 0:
            _give_memory_back()
    # Not by sys.exit, which would wait for a compilation.
    os._exit(0)


def _give_memory_back() -> None:
    """Return to the system what simulations have freed; glibc keeps it, in pieces, up to .3 MiB more with each."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other systems have no such function
        ctypes.CDLL(None).malloc_trim(0)


def _beside(function: Callable[..., Any], *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()


def _say(events: TextIO, number: int, stage: str) -> None:
    _write(events, number, {"event": stage})


def _live(events: TextIO) -> None:
    while True:
        _write(events, None, {"event": "alive"})
        time.sleep(ALIVE_SECONDS)


def _read(lines: TextIO, jobs: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in lines:
        jobs.put(json.loads(line))
    jobs.put(None)


_one_line = threading.Lock()


def _write(events: TextIO, number: int | None, event: dict[str, Any]) -> None:
    """Write an event of a job, or of none."""
    line = json.dumps({"id": number} | event) + "\n"
    with _one_line:
        try:
            events.write(line)
            events.flush()
        except BrokenPipeError:
            os._exit(0)  # the server is gone


if __name__ == "__main__":
    main()

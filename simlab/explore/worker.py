"""The process that simulates: reads a job a line, and writes events, one a line; it ends when nobody writes any more.

    {"id": 7, "panel": "run", "settings": {...}, "first": 0}   ->   {"id": 7, "event": "compiling"}
                                                                    {"id": 7, "event": "result", "result": {...}}

Beside the jobs it compiles the programs of the presets, so that the first drag finds them there.
"""

import json
import os
import queue
import signal
import sys
import threading
from typing import Any, TextIO

from simlab.errors import InputError
from simlab.explore.presets import WARM
from simlab.explore.settings import hold_panel
from simlab.explore.simulation import compile_for, simulate_policy, simulate_tree

SIMULATED = {"run": simulate_policy, "tree": simulate_tree}


def main() -> None:
    """Work until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the server, which then closes the input
    # What libraries print goes to the standard error; events have the standard output to themselves.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin, jobs), daemon=True).start()
    threading.Thread(target=_warm, args=(events,), daemon=True).start()
    while (job := jobs.get()) is not None:
        _work(job, events)
    # Not by sys.exit, which would wait for a compilation.
    os._exit(0)


def _warm(events: TextIO) -> None:
    """Compile what the presets need, beside the jobs."""
    for left, (panel, settings) in zip(reversed(range(len(WARM))), WARM, strict=True):
        compile_for(panel, hold_panel(panel, settings)[0])
        _write(events, {"id": None, "event": "warm", "left": left})


def _read(lines: TextIO, jobs: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in lines:
        jobs.put(json.loads(line))
    jobs.put(None)


def _work(job: dict[str, Any], events: TextIO) -> None:
    def say(event: str) -> None:
        _write(events, {"id": job["id"], "event": event})

    try:
        result = SIMULATED[job["panel"]](job["settings"], job["first"], say)
    except (InputError, MemoryError) as error:
        _write(events, {"id": job["id"], "event": "error", "error": str(error) or "too little memory for this"})
    else:
        _write(events, {"id": job["id"], "event": "result", "result": result})


_one_line = threading.Lock()


def _write(events: TextIO, event: dict[str, Any]) -> None:
    with _one_line:
        events.write(json.dumps(event) + "\n")
        events.flush()


if __name__ == "__main__":
    main()

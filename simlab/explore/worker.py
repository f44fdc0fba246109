"""The simulating process: read jobs and write events, a line of JSON each, until nothing more is written to it.

    {"panel": "run", "settings": {...}, "first": 0}   ->   {"event": "compiling"}
                                                           {"event": "simulating"}
                                                           {"event": "result", "result": {...}}

``compiling`` comes if a program is not compiled yet, ``simulating`` once it is; a job of several programs says both
several times. Between jobs the process compiles the programs of the presets, so that a first drag need not wait. Its
arguments are the estimators of the user's own files.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
from typing import Any, TextIO

JOBS_A_TRIM = 32
_write_lock = threading.Lock()


def main() -> None:
    """Work until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the server, which then ends this process
    # Libraries print to the standard error; events have the standard output to themselves.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from simlab.explore.panel_runs import compile_presets  # noqa: PLC0415  # its imports may print
    from simlab.explore.weights import register_files  # noqa: PLC0415

    register_files(sys.argv[1:])

    def warm() -> None:
        for remaining in compile_presets():
            _write(events, {"event": "warm", "left": remaining})

    threading.Thread(target=warm, daemon=True).start()
    for count, line in enumerate(sys.stdin, start=1):
        _write(events, _run(json.loads(line), events))
        if count % JOBS_A_TRIM == 0:
            _give_memory_back()
    os._exit(0)  # not by sys.exit, which would wait for a compilation


def _run(job: dict[str, Any], events: TextIO) -> dict[str, Any]:
    """Run a job; return its last event, a result or an error."""
    from simlab.errors import InputError  # noqa: PLC0415
    from simlab.explore.panel_runs import SIMULATIONS  # noqa: PLC0415

    try:
        result = SIMULATIONS[job["panel"]](
            job["settings"], job["first"], lambda stage: _write(events, {"event": stage})
        )
    except (InputError, MemoryError) as error:
        return {"event": "error", "error": str(error) or "too little memory for this"}
    return {"event": "result", "result": result}


def _give_memory_back() -> None:
    """Return freed memory to the system; glibc keeps it, in pieces, up to .3 MiB more with each simulation."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other systems have no such function
        ctypes.CDLL(None).malloc_trim(0)


def _write(events: TextIO, event: dict[str, Any]) -> None:
    with _write_lock:
        try:
            events.write(json.dumps(event) + "\n")
            events.flush()
        except BrokenPipeError:
            os._exit(0)  # the server is gone


if __name__ == "__main__":
    main()

"""The simulating process: read jobs and write events, a line of JSON each, until nothing more is written to it.

    {"job": 7, "panel": "run", "settings": {...}, "first": 0}   ->   {"event": "compiling", "job": 7}
                                                                     {"event": "simulating", "job": 7}
                                                                     {"event": "result", "job": 7, "result": {...}}

``compiling`` comes if a program is not compiled yet. Between jobs the process compiles the programs of the presets. Its
arguments are the estimators of the user's own files.
"""

import contextlib
import ctypes
import functools
import json
import os
import signal
import sys
import threading

JOBS_A_TRIM = 32


def main() -> None:
    """Work until the input ends."""
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

"""Let Ctrl-C end training after the step that runs, so that no finished step is lost."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

SAID = "\nstops after this step and keeps it; Ctrl-C again stops at once"


@contextlib.contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """While it is entered, the first Ctrl-C is only remembered; the second one is a ``KeyboardInterrupt`` as ever.

    Yields whether there was one. Signals reach the main thread alone: in another one nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked, former = [], signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, former)
        print(SAID, file=sys.stderr, flush=True)

    signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, former)

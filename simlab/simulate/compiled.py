"""Compiled programs, kept for the next call: threads that ask for the same one wait for its only compilation."""

import collections
import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

# Each compiled program keeps some 20 MB; a sweep goes through its programs one after the other.
KEPT_PROGRAMS = 16


class Compiled(NamedTuple):
    """A compiled call, and the bytes it takes while it runs."""

    call: Any
    memory: int


_kept: dict[Hashable, Compiled] = {}
_locks: collections.defaultdict[Hashable, threading.Lock] = collections.defaultdict(threading.Lock)


def kept(key: Hashable, compile_it: Callable[[], Any]) -> Compiled:
    """The program of a key, compiled at the first call by ``compile_it``."""
    with _locks[key]:
        code = _kept.pop(key, None) or _measured(compile_it())
        _kept[key] = code  # the latest used comes last
    for oldest in list(_kept)[:-KEPT_PROGRAMS]:
        _kept.pop(oldest, None)
    return code


def _measured(call: Any) -> Compiled:
    usage: Any = call.memory_analysis()
    return Compiled(call, usage.temp_size_in_bytes + usage.argument_size_in_bytes + usage.output_size_in_bytes)

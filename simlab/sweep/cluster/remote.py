"""What a worker answers, and how work is packed for it."""

import functools
import pickle
import threading
from dataclasses import replace
from typing import Any

import numpy as np

from simlab.sweep.work import Budget, Work, maker, simulated


def told() -> dict[str, Any]:
    """Who makes the numbers there."""
    return maker()


def packed(work: Work) -> bytes:
    """Work as it is sent, without what its problem has computed of itself."""
    return pickle.dumps(work._replace(problem=replace(work.problem)))


def records(code: str, platform: str, memory: int, work: bytes) -> dict[str, np.ndarray] | str:
    """The records of packed work, if this is the code and the platform that is meant; else what differs.

    Raises:
        InputError: if the work cannot be done, or needs more memory.
    """
    here = maker()
    for name, wanted in (("code", code), ("platform", platform)):
        if here[name] != wanted:
            return f"its {name} is {here[name]}, that of the sweep {wanted}"
    # Unpacked only now: other code might read something else in it.
    given: Work = pickle.loads(work)
    if given.program.identified() != given.program:
        return f"its code of {given.name} is not that of the sweep"
    rows = simulated(given, _budget(memory), threading.Event())
    assert rows is not None  # nobody sets the event
    return rows


@functools.cache
def _budget(memory: int) -> Budget:
    """One budget for all threads of the process."""
    return Budget(memory)

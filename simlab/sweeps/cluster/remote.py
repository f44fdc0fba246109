"""Answer requests on a worker, and pack work for it."""

import functools
import pickle
from dataclasses import replace
from typing import Any

import numpy as np

from simlab.errors import InputError
from simlab.sweeps.executor import Budget, simulated
from simlab.sweeps.plan import Work, digest, maker, own_code


def told() -> dict[str, Any]:
    """Who makes the numbers there."""
    return maker()


def packed(work: Work) -> bytes:
    """Work as it is sent, without what its problem has computed of itself; the names of the user's files come first."""
    return pickle.dumps((work.files, pickle.dumps(work._replace(problem=replace(work.problem)))))


def records(code: str, platform: str, memory: int, sent: bytes) -> dict[str, np.ndarray] | str:
    """The records of packed work, if code and platform match the request; otherwise what differs.

    Raises:
        InputError: if the work cannot be done, or needs more memory.
    """
    here = maker()
    for name, wanted in (("code", code), ("platform", platform)):
        if here[name] != wanted:
            return f"its {name} is {here[name]}, that of the sweep {wanted}"
    # Unpacked only now: other code might read something else in it.
    work = _unpacked(sent)
    return work if isinstance(work, str) else simulated(work, _budget(memory))


def _unpacked(sent: bytes) -> Work | str:
    """Packed work, if the user's own code is that of the sweep; else what differs."""
    files, packed_work = pickle.loads(sent)
    for name, wanted in files.items():
        try:
            found = digest(name)  # runs the file, in which the type of a problem may be
        except InputError as error:
            return f"it lacks a file of the sweep ({error})"
        if found != wanted:
            return f"its {name} is not that of the sweep"
    try:
        work: Work = pickle.loads(packed_work)
    except (ImportError, AttributeError) as error:
        return f"it cannot find code of the sweep ({error}); the files must lie where they do for the sweep"
    if own_code(work.name, work.problem, work.settings[0]) != work.own:
        return f"its code of {work.name} is not that of the sweep"
    return work


@functools.cache
def _budget(memory: int) -> Budget:
    """One budget for all threads of the process."""
    return Budget(memory)

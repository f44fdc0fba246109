"""Work of a sweep: lanes of one program and problem, which this process simulates within its memory, or another one."""

import json
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np

from simlab.errors import InputError
from simlab.identity.code import code_fingerprint
from simlab.identity.processor import processor
from simlab.identity.versions import commit, versions
from simlab.problems import Problem, problem_size
from simlab.simulate.devices import Group
from simlab.simulate.lanes import lanes_together, needed_bytes, run_lanes
from simlab.simulate.program import Numbers, Program

# Set aside for Python, JAX and its compiler; the rest of the budget is for simulations.
RESERVED = 640 * 2**20
PROCESSOR = "processor"  # among the records: what computed each lane, as JSON


class Work(NamedTuple):
    """What ``run_lanes`` is to simulate, and what to call it in a message."""

    name: str
    program: Program
    problem: Problem
    steps: np.ndarray
    lanes: list[tuple[int, Numbers]]


class Budget:
    """Bytes that running simulations may take together; a simulation waits until there is room for it.

    ``memory`` is that of the whole process, of which ``RESERVED`` bytes are set aside.
    """

    def __init__(self, memory: int):
        self.memory, self.free = memory, memory - RESERVED
        self.changed = threading.Condition()

    @contextmanager
    def take(self, amount: int) -> Iterator[None]:
        """Hold ``amount`` bytes.

        Raises:
            InputError: if the whole budget is smaller than that.
        """
        check_memory(self.memory, amount)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= amount)
            self.free -= amount
        try:
            yield
        finally:
            with self.changed:
                self.free += amount
                self.changed.notify_all()


def check_memory(memory: int, amount: int) -> None:
    """Raise ``InputError`` if ``amount`` bytes do not fit into ``memory`` beside what is set aside."""
    if amount + RESERVED > memory:
        need = math.ceil((amount + RESERVED) / 2**20)
        given = f"{memory / 2**20:.0f}MB"
        raise InputError(f"--memory {given} is too small for a sweep of this size; allowed: {need}MB or more")


def simulated(
    work: Work, budget: Budget, stop: threading.Event, devices: Group | None = None
) -> dict[str, np.ndarray] | None:
    """The records of ``run_lanes``, call after call as there is room for it; None if ``stop`` is set before the end.

    ``devices`` are those of ``run_lanes``. With them, as ``PROCESSOR``, goes what computed each lane: on a cluster it
    is not the same for all.

    Raises:
        InputError: if the work cannot be done, or needs more memory than there is.
    """
    together = lanes_together(work.program, problem_size(work.problem), jax.default_backend())
    needed = needed_bytes(work.program, work.problem, work.steps, work.lanes[0][1], together, devices=devices)
    chunks: list[dict[str, np.ndarray]] = []
    for first in range(0, len(work.lanes), together):
        if stop.is_set():
            return None
        with budget.take(needed):
            some = work.lanes[first : first + together]
            chunks.append(run_lanes(work.program, work.problem, work.steps, some, devices))
    records = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    kind = json.dumps(processor(jax.local_devices()[0].device_kind), sort_keys=True)
    return records | {PROCESSOR: np.full(len(work.lanes), kind)}


def maker() -> dict[str, Any]:
    """Who makes the numbers of this process, as a manifest has it: code, platform, versions and commit."""
    return {"code": code_fingerprint(), "platform": jax.default_backend(), "versions": versions(), "commit": commit()}


class Workers(ABC):
    """Other processes that simulate."""

    @abstractmethod
    def maker(self) -> dict[str, Any]:
        """What ``maker`` says there.

        Raises:
            InputError: if it cannot be asked, or the code there is not that of this process.
        """

    @abstractmethod
    def simulate(
        self, works: Iterable[Work], made_by: Mapping[str, Any], memory: int
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The number of each work and what ``simulated`` returns for it, in the order in which they end.

        Args:
            works: what to simulate; read as there is room for it.
            made_by: who must do so, as ``maker`` has it.
            memory: bytes that each process may take.

        Raises:
            InputError: if a work cannot be done, or all contact is lost.
        """

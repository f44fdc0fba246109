"""Keep track of a scheduler's workers: who is there, who may take part, and how to ask them."""

import math
import sys
import time
from collections.abc import Callable, Set
from typing import Any, no_type_check
from uuid import uuid4

from distributed import Client, Future
from tqdm import tqdm

from simlab.errors import InputError

GLANCE = 1.0  # seconds between two looks at who is there
GONE = 75.0  # seconds without a process that should be there, which has 60 to begin
SILENT = 20.0  # seconds without a word to the scheduler; a worker speaks to it each second, also while it works


class Members:
    """Those who are connected to a scheduler.

    ``threads`` are the workers that take part, each with the number of its threads, as they were seen last. One that
    falls silent, stopped or cut off, takes no part until it speaks again; a scheduler forgets it only after minutes.
    """

    def __init__(self, client: Client, scheduler: str):
        self.client, self.scheduler = client, scheduler
        self.threads: dict[str, int] = {}
        self.silent: set[str] = set()
        self._left_out: set[str] = set()
        self._spoke: dict[str, tuple[float, float]] = {}  # when, by the scheduler's clock, and when that was seen here
        self._up: dict[Any, float] = {}  # processes of this machine, by name, and when each was last seen
        self._looked, self._waiting = -math.inf, False

    def look(self) -> None:
        """Check who is there, unless that was done a moment ago; say who has gone, and when nobody is left.

        Raises:
            InputError: if the scheduler is gone.
        """
        if time.monotonic() < self._looked + GLANCE:
            return
        try:
            there = self.client.scheduler_info(n_workers=-1)["workers"]
        except OSError:
            raise self.lost() from None
        self._looked = time.monotonic()
        self._renew()
        self._listen({worker: told["last_seen"] for worker, told in there.items()})
        for worker in self.threads.keys() - there.keys():
            say(f"worker {worker} is gone; what it was at is begun again")
        away = self._left_out | self.silent
        self.threads = {worker: told["nthreads"] for worker, told in there.items() if worker not in away}
        if not self.threads and not self._waiting:
            say(f"no worker at {self.scheduler}: waiting for one")
        self._waiting = not self.threads

    def _renew(self) -> None:
        """Begin a process of this machine again under a new name if it has been gone for too long.

        Dask begins it again itself, unless it is killed or fails while it starts.
        """
        processes = self.client.cluster
        if processes is None:
            return
        wanted, up = len(processes.worker_spec), processes.workers
        self._up = {
            name: self._looked if name in up and up[name].is_alive() else self._up.get(name, self._looked)
            for name in processes.worker_spec
        }
        if gone := [name for name, seen in self._up.items() if seen < self._looked - GONE]:
            processes.scale(wanted + len(gone))  # names that are new
            for name in gone:
                del processes.worker_spec[name]
            processes.scale(wanted)

    def _listen(self, spoke: dict[str, float]) -> None:
        """Note who spoke when; say who has fallen silent, and who speaks again."""
        before = self._spoke
        self._spoke = {
            worker: before[worker] if worker in before and before[worker][0] == when else (when, self._looked)
            for worker, when in spoke.items()
        }
        silent = {worker for worker, (_, seen) in self._spoke.items() if seen < self._looked - SILENT}
        for worker in silent - self.silent:
            say(f"worker {worker} is silent for {SILENT:g} s; what it was at is begun again")
        for worker in self.silent & self._spoke.keys() - silent:
            say(f"worker {worker} speaks again")
        self.silent = silent

    def leave_out(self, worker: str, reason: str) -> None:
        """Give a worker no more work, and say why."""
        if worker not in self._left_out:
            say(f"worker {worker} is left out: {reason}")
        self._left_out.add(worker)
        self.threads.pop(worker, None)

    def but_for(self, busy: Set[str] = frozenset()) -> Set[str]:
        """Whom to ask: everyone who takes part except some; empty where anyone will do."""
        return self.threads.keys() - busy if busy or self._left_out or self.silent else frozenset()

    def ask(self, *request: Any, among: Set[str] = frozenset()) -> Future:
        """Ask a worker to answer a request: one of ``among``, or any.

        Dask keeps a request for ever whose named workers are all gone.
        """
        key = f"simlab-{uuid4().hex}"  # Dask would take two equal requests for one
        return self.client.submit(_answering(), *request, key=key, workers=sorted(among) or None)

    def is_stuck(self, future: Future) -> bool:
        """Whether a request or its answer is with a worker that has fallen silent, while others take part."""
        if not self.silent or not self.threads:
            return False
        return bool(self.silent & (self.busy_with(future) | set(self.client.who_has([future])[future.key])))

    def busy_with(self, future: Future) -> set[str]:
        """The workers that have a request in hand."""
        return {worker for worker, keys in self.client.processing().items() if future.key in keys}

    def lost(self) -> InputError:
        """The complaint that the scheduler is gone."""
        return InputError(
            f"the scheduler at {self.scheduler} is gone; finished parts are kept, the same command goes on from them"
        )


def say(line: str) -> None:
    """A line for the user, beside the bar of progress."""
    tqdm.write(line, file=sys.stderr)


@no_type_check  # it travels as it stands here, without what checks types in the tests
def _answering() -> Callable[..., tuple[str, Any]]:
    """The function that is sent: a worker's address, and what a function of ``remote`` returns there.

    Made within another, it is sent itself, not its name: Dask's scheduler needs no simlab, and a worker without it can
    say so.
    """

    def answer(function: str, *arguments: Any) -> tuple[str, Any]:
        from distributed import get_worker  # noqa: PLC0415  # no globals travel with it

        try:
            from simlab.sweeps.cluster import remote  # noqa: PLC0415
        except ImportError as error:
            return get_worker().address, f"it cannot import simlab.sweeps.cluster ({error})"
        return get_worker().address, getattr(remote, function)(*arguments)

    return answer

"""Hand out work: one piece a thread; again if it is lost, and to a second worker if it takes too long."""

import concurrent.futures
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Future, KilledWorker
from distributed.comm.core import CommClosedError

from simlab.errors import InputError
from simlab.sweeps.cluster.members import GLANCE, Members, say
from simlab.sweeps.executor import PROCESSOR, Rows
from simlab.sweeps.plan import Work

# Where nothing is left to hand out, work that takes so much longer than all before it is begun once more elsewhere.
PATIENCE, LATE = 10.0, 3.0  # seconds at least, and times
FETCHING = 60.0  # seconds for an answer to come here
ATTEMPTS = 3  # at a work; Dask itself tries each some times


@dataclass(eq=False)
class Job:
    """A piece of work, and how many workers have died while doing it."""

    number: int
    work: Work
    fatal: int = 0


@dataclass(frozen=True, eq=False)
class Attempt:
    """A job in some worker's hands."""

    job: Job
    future: Future
    among: Set[str]  # who may take it; anyone, if empty
    began: float


class Handout:
    """Works, handed out to the members of a cluster by ``send``, which asks one of those named, or any."""

    def __init__(self, members: Members, works: Iterable[Work], send: Callable[[Work, Set[str]], Future]):
        self.members, self.send = members, send
        self.unread = (Job(number, work) for number, work in enumerate(works))
        self.waiting: deque[Job] = deque()
        self.running: dict[Hashable, Attempt] = {}
        self.ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self.longest = 0.0

    def results(self) -> Iterator[tuple[int, Rows]]:
        """The number of each work and its records, in the order in which they end.

        Raises:
            InputError: if a work cannot be done, kills worker after worker, or the scheduler is gone.
        """
        self._hand_out()
        while self.running or self._is_left():
            self._take_back()
            attempt = self._next_ended()
            self._hand_out()  # before the answer is fetched and written: its worker need not wait for that
            if attempt is None:
                continue
            rows = self._rows(attempt)
            if rows is None:
                self._put_back(attempt.job)
                continue
            self.longest = max(self.longest, time.monotonic() - attempt.began)
            for key in [key for key, other in self.running.items() if other.job is attempt.job]:
                self.running.pop(key).future.cancel()
            yield attempt.job.number, rows

    def _is_left(self) -> bool:
        """Whether work is left to hand out; the next is read."""
        if not self.waiting:
            self.waiting.extend(itertools.islice(self.unread, 1))
        return bool(self.waiting)

    def _hand_out(self) -> None:
        """Give every free thread something to do."""
        self.members.look()
        room = sum(self.members.threads.values()) - len(self.running)
        while room > 0 and self._is_left():
            self._begin(self.waiting.popleft(), self.members.but_for())
            room -= 1
        for attempt in self._late()[: max(0, room)]:
            futures = [other.future for other in self.running.values() if other.job is attempt.job]
            busy = set().union(*map(self.members.busy_with, futures))
            among = self.members.but_for(busy)
            if among or not busy:  # nobody has it: Dask lost it when its worker died
                say(f"{attempt.job.work.name} takes long; begun once more on another worker")
                self._begin(attempt.job, among)

    def _take_back(self) -> None:
        """Take back what none of those who may take it is there for, and what a worker has that fell silent."""
        for key, attempt in list(self.running.items()):
            is_left = attempt.among and attempt.among.isdisjoint(self.members.threads)
            if is_left or self.members.is_stuck(attempt.future):
                self.running.pop(key).future.cancel()
                self._put_back(attempt.job)

    def _put_back(self, job: Job) -> None:
        """Have a job handed out again, unless another attempt at it is running."""
        if all(other.job is not job for other in self.running.values()):
            self.waiting.append(job)

    def _begin(self, job: Job, among: Set[str]) -> None:
        future = self.send(job.work, among)
        self.running[future.key] = Attempt(job, future, among, time.monotonic())
        future.add_done_callback(self.ended.put)

    def _late(self) -> list[Attempt]:
        """The newest attempts at their jobs, where they take much longer than all before them."""
        if not self.longest:
            return []
        began = time.monotonic() - max(PATIENCE, LATE * self.longest)
        newest = {attempt.job: attempt for attempt in self.running.values()}
        return [attempt for attempt in newest.values() if attempt.began < began]

    def _next_ended(self) -> Attempt | None:
        """An attempt that has ended, if one does within a moment."""
        try:
            future = self.ended.get(timeout=GLANCE)
        except queue.Empty:
            return None
        return self.running.pop(future.key, None)  # None: another attempt came first

    def _rows(self, attempt: Attempt) -> Rows | None:
        """What an attempt has brought; None where it must be made again."""
        try:
            worker, answer = self._fetched(attempt.future)
        except TimeoutError:
            return None
        except KilledWorker as error:
            self._mourn(attempt.job, error)
            return None
        except (CancelledError, CommClosedError):
            raise self.members.lost() from None
        reason = answer if isinstance(answer, str) else _wrong(answer, attempt.job.work)
        if reason:
            self.members.leave_out(worker, reason)
            return None
        return dict(answer)

    def _fetched(self, future: Future) -> tuple[str, Any]:
        """The worker and its answer.

        Raises:
            TimeoutError: if it takes longer than ``FETCHING``, or the worker falls silent before it is here.
        """
        fetching: concurrent.futures.Future[tuple[str, Any]] = concurrent.futures.Future()
        threading.Thread(target=_fetch, args=(future, fetching), daemon=True).start()
        while not concurrent.futures.wait([fetching], timeout=GLANCE).done:
            self.members.look()
            if self.members.is_stuck(future):
                raise TimeoutError
        return fetching.result()

    def _mourn(self, job: Job, error: KilledWorker) -> None:
        """Note that workers died at a job; raise ``InputError`` if too many have for it to be chance."""
        job.fatal += 1
        if job.fatal == ATTEMPTS:
            deaths = ATTEMPTS * (error.allowed_failures + 1)
            reason = "perhaps for want of memory; allowed: workers that have the memory of --memory"
            raise InputError(
                f"{deaths} workers died while computing {job.work.name}, {reason}; finished parts are kept"
            )


def _fetch(future: Future, fetching: "concurrent.futures.Future[tuple[str, Any]]") -> None:
    """Bring an answer here, or what went wrong with it."""
    try:
        fetching.set_result(future.result(timeout=FETCHING))
    except BaseException as error:  # whatever it is, whoever waits for the answer hears of it
        fetching.set_exception(error)


def _wrong(answer: Any, work: Work) -> str:
    """What of an answer cannot be the records of a work; nothing if it can."""
    if not isinstance(answer, Mapping) or not answer:
        return f"it answered {type(answer).__name__}, not records"
    shape = (len(work.seeds), len(work.steps) + 1)
    for name in answer.keys() - {PROCESSOR}:
        values = answer[name]
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
            return f"its {name} is no array of numbers"
        if values.shape[:2] != shape:
            return f"its {name} has the shape {values.shape}, and not {shape[0]} runs of {shape[1]} records"
    kinds = answer.get(PROCESSOR)
    if not isinstance(kinds, np.ndarray) or kinds.dtype.kind != "U" or kinds.shape != shape[:1]:
        return f"it does not say the {PROCESSOR} of each run"
    return ""

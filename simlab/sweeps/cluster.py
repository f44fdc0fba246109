"""Simulate on the workers of a Dask cluster, which are trusted: Dask unpickles what they send. Extra ``dask``."""

import functools
import itertools
import logging
import multiprocessing
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any, no_type_check

import dask
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed
from distributed.utils import silence_logging_cmgr
from tqdm import tqdm

from simlab.errors import InputError
from simlab.sweeps.executor import MemoryBudget, Rows, simulate_work
from simlab.sweeps.options import parse_scheduler
from simlab.sweeps.plan import Work, digest, hash_user_code, maker

RETRIES = 3  # of a unit that a worker refuses, as one of other code does that has joined later
CONFIGURATION = {
    "distributed.scheduler.worker-ttl": "1 minute",  # a process that is silent for so long is started anew
    **{f"distributed.{of}.http.routes": [] for of in ("scheduler", "worker")},  # no pages
}


@contextmanager
def connected(scheduler: str) -> Iterator["Cluster"]:
    """Connect to ``tcp://HOST:PORT`` or ``tls://HOST:PORT``, or start ``local:N``, N processes that end with it."""
    address: Any = parse_scheduler(scheduler)
    with ExitStack() as stack:
        stack.enter_context(silence_logging_cmgr(logging.CRITICAL))  # errors are raised as ``InputError``
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "Sending large graph")  # a problem of millions of logits
        try:
            if isinstance(address, int):
                stack.enter_context(dask.config.set(CONFIGURATION))
                others = set(multiprocessing.active_children())
                address = _start_processes(address)
                stack.callback(_close, address, others)
            client = stack.enter_context(Client(address, set_as_default=False))
        except (OSError, RuntimeError, TypeError) as error:  # a TypeError where tls:// has no certificates
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"no Dask scheduler answers at {scheduler} ({reason})") from None
        yield Cluster(client, scheduler)


def _start_processes(number: int) -> LocalCluster:
    """Start a scheduler in this process and workers in others, to which nobody else can speak, and no Ctrl-C either."""
    resource_tracker.ensure_running()  # it would unblock the signal
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # without it one at port 8787
            scheduler_kwargs={"dashboard": False},
            death_timeout=60,  # seconds for a process to begin
            memory_limit=0,  # simulations keep to a budget of their own
            security=True,  # with certificates made for it
            silence_logs=logging.CRITICAL,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _close(processes: LocalCluster, others: Set[BaseProcess]) -> None:
    """End the processes, also what Dask forgets: one that it is just starting, or that is stopped."""
    try:
        with suppress(AssertionError):
            processes.close()
    finally:
        for child in set(multiprocessing.active_children()) - others:
            child.kill()


class Cluster:
    """The workers of a scheduler, as a sweep sees them."""

    def __init__(self, client: Client, scheduler: str):
        self.client, self.scheduler = client, scheduler

    def maker(self) -> dict[str, Any]:
        """Return ``plan.maker()`` of the workers, of which there must be one or more."""
        if not self.client.nthreads():
            tqdm.write(f"no worker at {self.scheduler}: waiting for one", file=sys.stderr)
        here, answers = maker(), dict[str, Any]()
        while not answers:  # a worker that dies meanwhile does not answer: Dask begins it again
            self.client.wait_for_workers(1)
            replies = self.client.run(_remote(), "maker", on_error="return")
            answers = {worker: reply for worker, reply in replies.items() if not isinstance(reply, OSError)}
        for worker, there in answers.items():
            reason = there
            if not isinstance(there, BaseException):
                if there["code"] == here["code"]:
                    continue
                reason = f"its code is {there['code']}, that of this process {here['code']}"
            raise InputError(f"worker {worker} cannot take part: {reason}; allowed: the same simlab, jax and Python")
        return dict(there)

    def simulate(self, works: Iterable[Work], made_by: Mapping[str, Any], memory: int) -> Iterator[tuple[int, Rows]]:
        """Yield the number of each work and its records, as they end, by the code and platform of ``made_by``."""
        waiting, running = enumerate(works), dict[Any, tuple[int, str]]()

        def submit() -> Iterator[Future]:
            room = max(1, 2 * sum(self.client.nthreads().values())) - len(running)
            for number, work in itertools.islice(waiting, max(0, room)):
                request = (made_by["code"], made_by["platform"], memory, work.files, _packed(work))
                future = self.client.submit(_remote(), "records", *request, pure=False, retries=RETRIES)
                running[future.key] = number, work.name
                yield future

        try:
            futures = as_completed(list(submit()), loop=self.client.loop)
            for future in futures:
                number, name = running.pop(future.key)
                rows = _result(future, name)
                futures.update(list(submit()))
                yield number, rows
        except (CancelledError, OSError):
            kept = "finished parts are kept, the same command goes on from them"
            raise InputError(f"the scheduler at {self.scheduler} is gone; {kept}") from None


def _result(future: Future, name: str) -> Rows:
    try:
        result: Rows | InputError = future.result()
    except KilledWorker as error:
        reason = "perhaps for want of memory; allowed: workers that have the memory of --memory"
        deaths = f"{error.allowed_failures + 1} workers died while computing {name}"
        raise InputError(f"{deaths}, {reason}; finished parts are kept") from None
    if isinstance(result, InputError):
        raise result
    return result


@no_type_check  # it travels as it stands here, without what checks types in the tests
def _remote() -> Callable[..., Any]:
    """Return a function that is sent to a worker itself, not its name: a worker without simlab can say so."""

    def call(name: str, *arguments: Any) -> Any:
        import importlib  # noqa: PLC0415  # no globals travel with it

        return getattr(importlib.import_module("simlab.sweeps.cluster"), name)(*arguments)

    return call


def _packed(work: Work) -> bytes:
    return pickle.dumps(work._replace(problem=replace(work.problem)))  # without what the problem has computed of itself


def records(code: str, platform: str, memory: int, files: Mapping[str, str], packed_work: bytes) -> Rows | InputError:
    """Simulate packed work on this worker; raise for other code, platform or files, which another worker may have."""
    here = maker()
    if (here["code"], here["platform"]) != (code, platform):
        raise InputError(f"a worker has code {here['code']} on {here['platform']}, the sweep {code} on {platform}")
    for name, sha256 in files.items():
        if digest(name) != sha256:  # runs the file, in which the type of a problem may be
            raise InputError(f"{name} of a worker is not that of the sweep")
    work: Work = pickle.loads(packed_work)  # only now: other code might read something else in it
    if hash_user_code(work.name, work.problem, work.settings[0]) != work.user_code:
        raise InputError(f"a worker's code of {work.name} is not that of the sweep")
    try:
        return simulate_work(work, _budget(memory))
    except InputError as error:
        return error


_budget = functools.cache(MemoryBudget)  # one for all threads of this process

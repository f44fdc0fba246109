"""Connect to a Dask cluster: an existing one, or a scheduler and processes on this machine."""

import logging
import signal
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster, Security
from distributed.utils import silence_logging_cmgr

from simlab.errors import InputError
from simlab.identity import code_fingerprint
from simlab.sweeps.cluster.handout import Handout
from simlab.sweeps.cluster.members import GLANCE, Members
from simlab.sweeps.cluster.remote import packed
from simlab.sweeps.executor import Rows, Workers
from simlab.sweeps.options import parse_scheduler
from simlab.sweeps.plan import Work

CONFIGURATION = {
    "distributed.scheduler.worker-ttl": "1 minute",  # a process that is silent for so long is started anew
    "distributed.deploy.lost-worker-timeout": "1 day",  # for one that takes long to begin anew: see Members
    "distributed.scheduler.http.routes": [],  # nothing to look at
    "distributed.worker.http.routes": [],
}


@contextmanager
def connected(scheduler: str) -> Iterator["Cluster"]:
    """The workers of a Dask scheduler.

    Args:
        scheduler: ``tcp://HOST:PORT`` or ``tls://HOST:PORT``, or ``local:N`` for N processes of this machine, which end
            when the context does.

    Raises:
        InputError: for anything else, or if no scheduler answers there.
    """
    place = parse_scheduler(scheduler)
    if scheduler.startswith("tls:"):
        _check_certificates(scheduler)
    with ExitStack() as stack:
        stack.enter_context(silence_logging_cmgr(logging.CRITICAL))  # what matters of it is said in other words
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "Sending large graph")  # a problem of millions of logits
        try:
            there = place
            if isinstance(place, int):
                stack.enter_context(dask.config.set(CONFIGURATION))
                there = stack.enter_context(_processes(place))
            client = stack.enter_context(Client(there, set_as_default=False))
        except (OSError, RuntimeError) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"no Dask scheduler answers at {scheduler} ({reason})") from None
        yield Cluster(Members(client, scheduler))


def _check_certificates(scheduler: str) -> None:
    """Raise ``InputError`` unless Dask's configuration names certificates."""
    try:
        reason = "" if Security().get_connection_args("client")["ssl_context"] else "there are none"
    except OSError as error:
        reason = str(error)
    if reason:
        allowed = "allowed: certificates in Dask's configuration, distributed.comm.tls"
        raise InputError(f"--scheduler {scheduler} needs certificates ({reason}); {allowed}")


def _processes(number: int) -> LocalCluster:
    """A scheduler in this process and workers in others; nobody else can speak to them."""
    with _uninterrupted():
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


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Threads that begin meanwhile, and processes that they start, are not told of a Ctrl-C: it is for this one."""
    resource_tracker.ensure_running()  # it would let them be told again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Cluster(Workers):
    """The workers of a scheduler, as a sweep sees them."""

    def __init__(self, members: Members):
        self.members = members

    def maker(self) -> dict[str, Any]:
        """What the first worker to answer says of itself.

        Raises:
            InputError: if it cannot take part, for want of simlab or because its code is not that of this process.
        """
        future = self.members.ask("told")
        while not future.done():
            self.members.look()
            if self.members.is_stuck(future):
                future.cancel()
                future = self.members.ask("told", among=self.members.but_for())
            time.sleep(GLANCE / 10)
        try:
            worker, told = future.result()
        except KilledWorker:
            raise InputError(f"the workers at {self.members.scheduler} die when they import simlab") from None
        except CancelledError:
            raise self.members.lost() from None
        if isinstance(told, str):
            raise InputError(f"worker {worker} cannot take part: {told}; allowed: the same simlab as here")
        if told["code"] != code_fingerprint():
            reason = f"its code is {told['code']}, that of this process {code_fingerprint()}"
            raise InputError(f"worker {worker} cannot take part: {reason}; allowed: the same simlab, jax and Python")
        return dict(told)

    def simulate(self, works: Iterable[Work], made_by: Mapping[str, Any], memory: int) -> Iterator[tuple[int, Rows]]:
        """See ``Workers.simulate``. If a worker dies, vanishes or falls silent, others do its work."""

        def send(work: Work, among: Set[str]) -> Future:
            request = ("records", made_by["code"], made_by["platform"], memory, packed(work))
            return self.members.ask(*request, among=among)

        return Handout(self.members, works, send).results()

"""Being connected to a cluster: one that is there, or a scheduler and processes of this machine."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from typing import Any

import dask
from distributed import Client, Future, LocalCluster

from simlab.errors import InputError
from simlab.sweep.cluster.handout import Handout, Rows
from simlab.sweep.cluster.members import GLANCE, Members
from simlab.sweep.cluster.remote import packed
from simlab.sweep.options import parse_scheduler
from simlab.sweep.provenance import code_fingerprint
from simlab.sweep.work import Work, Workers

CONFIGURATION = {
    "distributed.scheduler.worker-ttl": "1 minute",  # a process that is silent for so long is started anew
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
    with ExitStack() as stack:
        try:
            there = stack.enter_context(_processes(place)) if isinstance(place, int) else place
            client = stack.enter_context(Client(there, set_as_default=False))
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"no Dask scheduler answers at {scheduler} ({reason})") from None
        yield Cluster(Members(client, scheduler))


def _processes(number: int) -> LocalCluster:
    """A scheduler in this process and workers in others; nobody else can speak to them."""
    with dask.config.set(CONFIGURATION):
        return LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # without it one at port 8787
            scheduler_kwargs={"dashboard": False},
            memory_limit=0,  # simulations keep to a budget of their own
            security=True,  # with certificates made for it
            silence_logs=logging.CRITICAL,
        )


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
            time.sleep(GLANCE / 10)
        worker, told = future.result()
        if isinstance(told, str):
            raise InputError(f"worker {worker} cannot take part: {told}; allowed: the same simlab as here")
        if told["code"] != code_fingerprint():
            reason = f"its code is {told['code']}, that of this process {code_fingerprint()}"
            raise InputError(f"worker {worker} cannot take part: {reason}; allowed: the same simlab, jax and optax")
        return dict(told)

    def simulate(self, works: Iterable[Work], made_by: Mapping[str, Any], memory: int) -> Iterator[tuple[int, Rows]]:
        """See ``Workers.simulate``. What a worker that dies, vanishes or falls silent was at is done by others."""

        def send(work: Work, but_not: Set[str]) -> Future:
            request = ("records", made_by["code"], made_by["platform"], memory, packed(work))
            return self.members.ask(*request, but_not=but_not)

        return Handout(self.members, works, send).results()

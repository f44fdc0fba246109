"""Processes that each run one seed of a peer script."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor


class Processes:
    """Some processes, started once, that wait idle between measurements."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.workers = [ProcessPoolExecutor(1, mp_context=context) for _ in range(count)]

    def seconds_per_step(self, loop: Callable[..., float], group_size: int, gamma: float, steps: int) -> float:
        """Seconds of one step of one seed, while every process runs ``loop`` on a seed of its own.

        ``loop(group_size, gamma, steps, seed)`` returns the seconds of its own loop, so that neither set-up nor
        talk between processes counts.
        """
        jobs = [worker.submit(loop, group_size, gamma, steps, seed) for seed, worker in enumerate(self.workers)]
        return max(job.result() for job in jobs) / (steps * len(jobs))

"""Show the progress of a phase of training, and let Ctrl-C end it after the step that runs."""

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tqdm import tqdm

SECONDS = 30.0  # between two lines of a log


class TrainingProgress(contextlib.ExitStack):
    """A bar on a terminal, and elsewhere a line every half minute; a context manager."""

    def __init__(self, name: str, total: int, done: int):
        super().__init__()
        self.name, self.total, self.first = name, total, done
        self.numbers: dict[str, float] = {}
        self.began = self.printed = time.monotonic()
        hidden = not sys.stderr.isatty()
        self.bar = tqdm(desc=name, total=total, initial=done, unit="step", file=sys.stderr, disable=hidden)
        self.callback(self.bar.close)

    def evaluated(self, line: Mapping[str, Any]) -> None:
        """Show pass@1 and the pass@k of the largest k from now on."""
        pass_at_k = {int(k): value["mean"] for k, value in line["pass_at_k"].items()}
        self.numbers |= {f"pass@{k}": pass_at_k[k] for k in sorted({min(pass_at_k), max(pass_at_k)})}

    def step(self, step: int, **numbers: float) -> None:
        """Show the number of finished steps, and numbers of the last one."""
        self.numbers = numbers | {name: value for name, value in self.numbers.items() if name not in numbers}
        if not self.bar.disable:
            self.bar.set_postfix({name: f"{value:.3f}" for name, value in self.numbers.items()})
            self.bar.update(step - self.bar.n)
        elif step in (self.first + 1, self.total) or time.monotonic() - self.printed >= SECONDS:
            self.printed = time.monotonic()
            shown = [f"{name} {value:.3f}" for name, value in self.numbers.items()]
            line = ", ".join([f"{self.name}: step {step} of {self.total}", *self._times(step), *shown])
            print(line, file=sys.stderr, flush=True)

    def trained(self, step: int, line: Mapping[str, Any]) -> None:
        """Show a line of an arm's metrics."""
        self.step(step, reward=line["reward"], entropy=line["entropy"])

    def _times(self, step: int) -> list[str]:
        """Return rate and remaining time; none at the first step, which compiles programs."""
        if step == self.first + 1:
            return []
        seconds = (time.monotonic() - self.began) / (step - self.first)
        left = seconds * (self.total - step)
        remaining = [f"{tqdm.format_interval(left)} left"] if left else []
        return [f"{seconds:.2g} s a step", *remaining]


@contextlib.contextmanager
def catch_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after the first Ctrl-C; the second one raises ``KeyboardInterrupt`` as
    usual."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    signals, former = [], signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: Any) -> None:
        signals.append(number)
        signal.signal(signal.SIGINT, former)
        print("\nstops after this step and keeps it; Ctrl-C again stops at once", file=sys.stderr, flush=True)

    signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(signals)
    finally:
        signal.signal(signal.SIGINT, former)

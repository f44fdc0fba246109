"""Show how far a phase of training is: a bar on a terminal, and elsewhere a line now and then."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tqdm import tqdm

SECONDS = 30.0  # between two lines of a log
TIMES = (("h", 3600), ("min", 60), ("s", 1))


class Progress:
    """A context manager for the steps of one arm and seed, or of a warm start.

    Args:
        name: the name of the phase.
        total: its steps.
        done: those that a former process did.
        file: the text file that it is shown in; standard error by default.
        clock: the time in seconds.
    """

    def __init__(self, name: str, total: int, done: int, file: Any = None, clock: Callable[[], float] = time.monotonic):
        self.name, self.total, self.first, self.clock = name, total, done, clock
        self.file = sys.stderr if file is None else file
        self.numbers: dict[str, float] = {}
        self.began = self.said = clock()
        self.bar = tqdm(desc=name, total=total, initial=done, unit="step", file=self.file, disable=not self._is_shown())

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *raised: Any) -> None:
        self.bar.close()

    def evaluated(self, line: Mapping[str, Any]) -> None:
        """Keep pass@1 and the pass@k of the largest k of an evaluation, to show them from now on."""
        found = {int(k): value["mean"] for k, value in line["pass_at_k"].items()}
        self.numbers |= {f"pass@{k}": found[k] for k in sorted({min(found), max(found)})}

    def step(self, step: int, **numbers: float) -> None:
        """Show that so many steps are done, and what was seen of the last one."""
        self.numbers = numbers | {name: value for name, value in self.numbers.items() if name not in numbers}
        if not self.bar.disable:
            self.bar.set_postfix({name: f"{value:.3f}" for name, value in self.numbers.items()})
            self.bar.update(step - self.bar.n)
        elif step in (self.first + 1, self.total) or self.clock() - self.said >= SECONDS:
            self.said = self.clock()
            print(self._line(step), file=self.file, flush=True)

    def trained(self, step: int, line: Mapping[str, Any]) -> None:
        """As ``step``, of a line of an arm's metrics."""
        self.step(step, reward=line["reward"], entropy=line["entropy"])

    def _is_shown(self) -> bool:
        return self.file.isatty()

    def _line(self, step: int) -> str:
        seen = [f"{name} {value:.3f}" for name, value in self.numbers.items()]
        return ", ".join([f"{self.name}: step {step} of {self.total}", *self._times(step), *seen])

    def _times(self, step: int) -> list[str]:
        """Rate and time left; the first step tells neither, since programs are compiled in it."""
        if step == self.first + 1:
            return []
        seconds = (self.clock() - self.began) / (step - self.first)
        left = [f"{in_words(seconds * (self.total - step))} left"] if step < self.total else []
        return [f"{in_words(seconds)} a step", *left]


def in_words(seconds: float) -> str:
    """A duration, to two digits or so.

    >>> in_words(0.034), in_words(8.26), in_words(150), in_words(9000)
    ('0.034 s', '8.3 s', '2.5 min', '2.5 h')
    """
    unit, size = next(((unit, size) for unit, size in TIMES if seconds >= size), TIMES[-1])
    value = seconds / size
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"

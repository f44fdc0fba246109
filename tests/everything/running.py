"""Run parts side by side, each with a time limit, and keep what each came to in a file."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from .environments import ROOT
from .parts import Part

GRACE = 10  # seconds between asking a part to end and killing it


@dataclass(frozen=True)
class Outcome:
    """What a part came to. ``ended`` is empty where pytest ended by itself; the part is then done."""

    part: str
    passed: int
    failed: tuple[str, ...]
    skipped: dict[str, int]
    seconds: float
    day: str
    ended: str = ""

    @property
    def done(self) -> bool:
        return not self.ended


def outcome_of(part: str, results: Path) -> Outcome | None:
    """What a part came to in an earlier call, if it ran then."""
    path = results / f"{_file(part)}.json"
    if not path.is_file():
        return None
    told = json.loads(path.read_text())
    return Outcome(**told | {"failed": tuple(told["failed"])})


def run_all(
    parts: Iterable[Part], results: Path, limit: float, processes: int, unchanged: Callable[[], bool] = lambda: True
) -> None:
    """Run the parts that are not done, as many at a time as keep so many processes busy.

    A part that takes longer than ``limit`` seconds is ended with all that it has started. One during which the checkout
    has changed does not count. Interrupted, this ends what is running; those parts run again at the next call.
    """
    results.mkdir(parents=True, exist_ok=True)
    waiting = [part for part in parts if not ((before := outcome_of(part.name, results)) and before.done)]
    running: list[_Running] = []
    try:
        while waiting or running:
            busy = sum(one.part.processes for one in running)
            fitting = (part for part in waiting if not running or busy + part.processes <= processes)
            if part := next(fitting, None):
                waiting.remove(part)
                running.append(_Running(part, results))
                continue
            time.sleep(0.1)
            for one in [one for one in running if one.ended(limit)]:
                running.remove(one)
                _keep(one.outcome("" if unchanged() else "the checkout changed while it ran"), results)
    finally:
        for one in running:
            one.kill()


class _Running:
    """A part that is running, in a process group of its own."""

    def __init__(self, part: Part, results: Path):
        self.part = part
        self.began = time.monotonic()
        self.late = False
        self.report = results / f"{_file(part.name)}.xml"
        self.report.unlink(missing_ok=True)
        with (results / f"{_file(part.name)}.log").open("w") as log:
            self.process = subprocess.Popen(
                [*part.command, f"--junitxml={self.report}"],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | part.variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ended(self, limit: float) -> bool:
        """Whether it has ended, by itself or because its time is up."""
        if self.process.poll() is None and time.monotonic() - self.began > limit:
            self.late = True
            self.kill()
        return self.process.poll() is not None

    def kill(self) -> None:
        """End the part and every process that it has started and that stayed in its group."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE)

    def outcome(self, ended: str) -> Outcome:
        """What it came to, read from pytest's report."""
        seconds = time.monotonic() - self.began
        if self.late:
            ended = f"ended after {seconds:.0f} s, its limit"
        elif self.process.returncode not in {0, 1, 5}:  # passed, failed, no tests
            ended = f"ended with exit code {self.process.returncode}"
        elif not self.report.is_file():
            ended = "ended without a report"
        passed, failed, skipped = (0, (), {}) if ended else counted(self.report)
        return Outcome(self.part.name, passed, failed, skipped, seconds, f"{datetime.now(UTC):%Y-%m-%d}", ended)


def counted(report: Path) -> tuple[int, tuple[str, ...], dict[str, int]]:
    """How many tests passed, which failed, and how many were skipped for which reason, in a report of pytest's."""
    passed, failed, skipped = 0, [], Counter[str]()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        verdicts = {child.tag: child for child in case}
        if {"failure", "error"} & set(verdicts):
            failed.append("::".join(filter(None, (case.get("classname"), case.get("name")))))
        elif "skipped" in verdicts:
            skipped[_reason(verdicts["skipped"])] += 1
        else:
            passed += 1
    return passed, tuple(failed), dict(skipped)


def _reason(skipped: ElementTree.Element) -> str:
    """Why a test was skipped; of a whole file pytest tells it as (path, line, reason)."""
    reason = skipped.get("message", "")
    if reason == "collection skipped":
        reason = literal_eval(skipped.text or "")[2]
    return reason.removeprefix("Skipped: ").splitlines()[0]


def _keep(outcome: Outcome, results: Path) -> None:
    """Write it whole or not at all, and say it."""
    path = results / f"{_file(outcome.part)}.json"
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(asdict(outcome)))
    os.replace(unfinished, path)
    told = outcome.ended or (
        f"{outcome.passed} passed, {len(outcome.failed)} failed, {sum(outcome.skipped.values())} skipped"
    )
    print(f"{outcome.part}: {told}, {outcome.seconds:.0f} s", file=sys.stderr, flush=True)


def _file(part: str) -> str:
    return part.replace("/", "--")


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end this program as an interrupt does, so that it takes its parts with it."""

    def interrupted(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupted) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

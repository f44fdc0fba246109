"""Processor time of each part of the Figure 2 sweep, with an empty and with a full cache of compiled programs.

    python -m benchmarks.sweep_parts

Each sweep is a process of its own on one core, where one batch of runs comes after the other, so that every second of
the processor belongs to one part. ``benchmarks.whole_sweeps`` times the command as it is used.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.machine import RESULTS, describe, in_words, table

OPTIONS = ("--preset", "f-grpo-fig2")
CACHES = ("empty cache", "full cache")
RANGES = ((0, "up to 4096"), (4097, "8192 to 32,768"), (32769, "65,536 and 131,072"))  # group sizes in dense storage
ALL = "all of it"
Seconds = dict[str, float]


def part_of(kind: str, storage: str, group_size: int) -> str:
    """The part that a program belongs to when it is made, or run."""
    if kind == "made":
        return f"programs of {storage} storage: traced, and compiled or read"
    if storage != "dense":
        return f"steps in {storage} storage"
    [*_, sizes] = [words for least, words in RANGES if group_size >= least]
    return f"steps in dense storage, G = {sizes}"


class Parts:
    """Processor seconds of the parts of a process, measured in ``call.cached``, which returns every program."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that adds its processor time to a part."""

        def call(*arguments: Any) -> Any:
            import jax  # noqa: PLC0415  # the parent does without

            start = time.process_time()
            done = jax.block_until_ready(function(*arguments))  # type: ignore[no-untyped-call]
            self.seconds[name] += time.process_time() - start
            return done

        return call

    def cached(self, cached: Callable[..., Any]) -> Callable[..., Any]:
        """``cached``, its compilations and the calls of its programs timed."""

        def timed(key: tuple[Any, ...], compile_it: Callable[[], Any]) -> Any:
            _, static, storage, *_ = key
            made, run = (part_of(kind, storage.name, static.group_size) for kind in ("made", "run"))
            return self.timed(run, cached(key, self.timed_compilation(made, compile_it)))

        return timed

    def timed_compilation(self, name: str, compile_it: Callable[[], Any]) -> Callable[[], Any]:
        """A compilation that adds its processor time to a part."""

        def compiled() -> Any:
            start = time.process_time()
            program = compile_it()
            self.seconds[name] += time.process_time() - start
            return program

        return compiled


def sweep(options: Sequence[str]) -> Seconds:
    """Run a sweep in this process, on one core, and return the processor seconds of its parts.

    Raises:
        RuntimeError: if it fails.
    """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from simlab import cli  # noqa: PLC0415  # so that its import counts, on one core
    from simlab.simulator import call, compiled  # noqa: PLC0415

    clock = Parts()
    timed = mock.patch.object(call, "cached", clock.cached(compiled.cached))
    with timed, contextlib.redirect_stdout(io.StringIO()):
        code = cli.main(["sweep", *options])
    if code:
        raise RuntimeError(f"the sweep ends with {code}")
    rest = time.process_time() - sum(clock.seconds.values())
    return {**clock.seconds, "start, plan, records, result and figure": rest}


def in_a_process(options: Sequence[str], cache: Path) -> Seconds:
    """``sweep`` in a process of its own, with its compiled programs kept in a folder."""
    command = [sys.executable, "-m", "benchmarks.sweep_parts", *options]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    seconds: Seconds = json.loads(done.stdout)
    return seconds


def measured(options: Sequence[str]) -> dict[str, Seconds]:
    """The parts of a sweep with an empty cache, and then with the one that it has filled."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            cache: in_a_process([*options, "--out", str(Path(folder) / f"{cache}.nc")], Path(folder))
            for cache in CACHES
        }


def rows(seconds: dict[str, Seconds]) -> list[list[str]]:
    """A row for each part, and one for their sums."""
    names = list(dict.fromkeys(name for column in seconds.values() for name in column))
    each = [[name, *(f"{column.get(name, 0):.1f}" for column in seconds.values())] for name in names]
    return [*each, [ALL, *(f"{sum(column.values()):.1f}" for column in seconds.values())]]


def main() -> None:
    """Measure both, and write the results; with options of a sweep, print its parts as JSON."""
    if options := sys.argv[1:]:
        print(json.dumps(sweep(options)))
        return
    machine = describe("jax", "jaxlib", "numpy")
    seconds = measured(OPTIONS)
    text = json.dumps({"machine": machine, "seconds": seconds}, indent=1)
    (RESULTS / "sweep_parts.json").write_text(text + "\n", encoding="utf-8")
    shown = table(["processor seconds", *seconds], rows(seconds))
    report = f"# Parts of the Figure 2 sweep\n\n{shown}\n\n{in_words(machine)}\n"
    (RESULTS / "sweep_parts.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()

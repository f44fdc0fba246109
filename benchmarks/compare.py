"""Two commits side by side: processor and wall time of the same commands, run in turns.

    python -m benchmarks.compare main HEAD                        # every short command below, five pairs each
    python -m benchmarks.compare v0.1 HEAD --measure dense,help   # some of them
    python -m benchmarks.compare main HEAD --cold                 # each run compiles everything
    python -m benchmarks.compare main HEAD --measure fig2         # a whole sweep, a minute a run: only where asked for

Both commits are checked out into folders of their own. Each run is a fresh process; the first run of each commit is not
counted, and fills its own compile cache. Runs alternate, old and new then new and old, so that a machine that slows
down slows both. The ratio new / old is a geometric mean over the pairs with its 95 % t-interval; an interval that
holds 1 tells nothing. Wall time depends on what else the machine does; processor time less so.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from benchmarks.machine import describe, in_words, table
from simlab.errors import InputError, check_choice, check_whole

COMMAND = ("-m", "simlab.cli")
SWEEP = (*COMMAND, "sweep", "--arms", "grpo", "--out", "sweep.nc", "--figure", "sweep.png", "--seeds", "4")
# Commands run from an empty folder. Sizes were chosen so that no run but the longest takes over some ten seconds on two
# cores.
MEASUREMENTS: dict[str, tuple[str, ...]] = {
    "import": ("-c", "import simlab"),
    "help": (*COMMAND, "--help"),
    "dense": (*SWEEP, "--storage", "dense", "--group-size", "8,512", "--steps", "100",
              "--param", "actions=20000", "--param", "correct=2000"),
    "lumped": (*SWEEP, "--storage", "lumped", "--group-size", "8,512", "--steps", "300",
               "--param", "actions=1000000", "--param", "correct=80000"),
    "bank": (*SWEEP, "--problem", "prompt_bank", "--group-size", "8", "--steps", "200"),
    "train": (*COMMAND, "train", "--arms", "grpo", "--steps", "5", "--param", "warm_start.steps=20", "--out", "run",
              "--param", "task.evaluation_size=8", "--param", "evaluation.samples=4"),
    "fig2": (*COMMAND, "sweep", "--preset", "f-grpo-fig2", "--out", "sweep.nc", "--figure", "sweep.png"),
}  # fmt: skip
LONGEST = "fig2"
LEVEL = 0.95


class Times(NamedTuple):
    """Seconds of one run."""

    processor: float
    wall: float


class Ratio(NamedTuple):
    """New over old, a geometric mean over pairs with its interval."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """The interval in words."""
        if self.low <= 1 <= self.high:
            return "not told apart"
        return f"{'faster' if self.high < 1 else 'slower'} by {max(self.value, 1 / self.value):.2f}"


def ratio(old: list[float], new: list[float]) -> Ratio:
    """The ratio of paired times, from the logarithms of the single ratios."""
    logs = np.log(np.array(new) / np.array(old))
    mean = float(logs.mean())
    half = float(stdtrit(len(logs) - 1, (1 + LEVEL) / 2) * logs.std(ddof=1) / np.sqrt(len(logs)))
    return Ratio(float(np.exp(mean)), float(np.exp(mean - half)), float(np.exp(mean + half)))


@contextlib.contextmanager
def checked_out(repository: Path, revision: str) -> Iterator[Path]:
    """A folder with the files of a revision, which is gone afterwards.

    Raises:
        InputError: for a revision that the repository does not have.
    """
    commit = _git(repository, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", check=False)
    if not commit:
        raise InputError(f"revision {revision!r} is unknown; allowed: what git rev-parse takes, such as HEAD~1")
    folder = Path(tempfile.mkdtemp()) / "checkout"
    _git(repository, "worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield folder
    finally:
        _git(repository, "worktree", "remove", "--force", str(folder))
        shutil.rmtree(folder.parent)


def _git(repository: Path, *arguments: str, check: bool = True) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=check, capture_output=True, text=True).stdout.strip()


def run_once(checkout: Path, command: tuple[str, ...], cache: Path) -> Times:
    """Run a command of a checkout in an empty folder.

    Raises:
        InputError: for a command that fails, with its last line of output.
    """
    settings = {"PYTHONPATH": str(checkout), "JAX_COMPILATION_CACHE_DIR": str(cache)}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        begun = time.perf_counter()
        # Not subprocess.run: only wait4 gives the processor time of this one child.
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=os.environ | settings, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - begun
        if process.returncode:
            output.seek(0)
            last = (output.read().decode(errors="replace").strip().splitlines() or [""])[-1]
            raise InputError(f"{' '.join(command)} ends with {process.returncode} in {checkout.name}: {last}")
    return Times(usage.ru_utime + usage.ru_stime, wall)


def compared(old: Path, new: Path, command: tuple[str, ...], pairs: int, cold: bool) -> tuple[list[Times], list[Times]]:
    """Times of both checkouts, pair by pair."""
    times: dict[Path, list[Times]] = {old: [], new: []}
    with contextlib.ExitStack() as folders:
        caches = {checkout: Path(folders.enter_context(tempfile.TemporaryDirectory())) for checkout in (old, new)}
        for checkout in () if cold else (old, new):
            run_once(checkout, command, caches[checkout])
        for pair in range(pairs):
            for checkout in (old, new) if pair % 2 == 0 else (new, old):
                if cold:
                    caches[checkout] = Path(folders.enter_context(tempfile.TemporaryDirectory()))
                times[checkout].append(run_once(checkout, command, caches[checkout]))
    return times[old], times[new]


def row(name: str, old: list[Times], new: list[Times]) -> list[str]:
    """A measurement in words: seconds of the processor at the median, and both ratios."""
    processor = ratio([times.processor for times in old], [times.processor for times in new])
    wall = ratio([times.wall for times in old], [times.wall for times in new])
    medians = [f"{np.median([times.processor for times in runs]):.2f}" for runs in (old, new)]
    return [name, *medians, *(f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]" for mean in (processor, wall)),
            processor.verdict]  # fmt: skip


HEADER = ["run", "old, s", "new, s", "processor, new / old", "wall, new / old", "new is"]


def compare(repository: Path, old: str, new: str, names: list[str], *, pairs: int, cold: bool) -> str:
    """The table of two revisions.

    Raises:
        InputError: for an unknown revision or measurement, fewer than two pairs, or a command that fails.
    """
    check_whole("pairs", pairs, 2)
    for name in names:
        check_choice("measure", name, tuple(MEASUREMENTS))
    with checked_out(repository, old) as before, checked_out(repository, new) as after:
        rows = []
        for name in names:
            print(f"{name} ...", file=sys.stderr)
            rows.append(row(name, *compared(before, after, MEASUREMENTS[name], pairs, cold)))
    return table(HEADER, rows)


def main() -> int:
    """Compare two revisions of this repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a revision")
    parser.add_argument("new", help="another")
    usual = ",".join(name for name in MEASUREMENTS if name != LONGEST)
    parser.add_argument("--measure", default=usual, help=f"of {', '.join(MEASUREMENTS)} (default all but {LONGEST})")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--cold", action="store_true", help="give each run an empty compile cache")
    options = parser.parse_args()
    try:
        names = options.measure.split(",")
        report = compare(Path(__file__).parent, options.old, options.new, names, pairs=options.pairs, cold=options.cold)
    except InputError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    print(f"{in_words(describe('jax', 'numpy'))}\n\n{report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

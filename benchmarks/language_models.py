"""Rollouts and training steps of language models: simlab beside TRL or Tunix, in the same run, on the CPU.

    python -m benchmarks.language_models --peer trl      # in an environment that has TRL; see the README
    python -m benchmarks.language_models --peer tunix
    python -m benchmarks.language_models --peer trl --quick    # small batches; agreement, no speeds

Both programs get the same weights, prompts and completions, in float32, at temperature 1, with all cores. Each has a
process of its own, which waits while the other one works. They have to agree on the log-probabilities of the
completions and on the norm of the gradient before anything is timed.
"""

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks import language_limits
from benchmarks.language_cases import Case, maze, smollm2
from benchmarks.machine import RESULTS, describe, in_words, table
from simlab.llm.config import from_hugging_face
from simlab.reading import read_json

PEERS = {
    "trl": ("benchmarks.peer_trl", ("jax", "torch", "transformers", "trl")),
    "tunix": ("benchmarks.peer_tunix", ("jax", "flax", "google-tunix")),
}
ROUNDS = 3
TOLERANCE = 1e-4  # in log-probabilities; a program may add them up in another order


class Worker:
    """A process that has one program and one case."""

    def __init__(self, module: str, case: Case):
        self.pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self.pool.submit(_start, module, case).result()

    def timed(self, name: str, *arguments: object) -> tuple:
        """The result of a method of the program, and the seconds it took there."""
        return self.pool.submit(_timed, name, *arguments).result()

    def close(self) -> None:
        """End the process, so that its memory is free."""
        self.pool.shutdown()


def _start(module: str, case: Case) -> None:
    globals()["program"] = importlib.import_module(module).Program(case)


def _timed(name: str, *arguments: object) -> tuple:
    start = time.perf_counter()
    value = getattr(globals()["program"], name)(*arguments)
    return value, time.perf_counter() - start


def compare(case: Case, peer: str, rounds: int) -> dict:
    """All measurements of one case: both programs in turn, round after round."""
    workers = {"simlab": Worker("benchmarks.language_simlab", case), peer: Worker(PEERS[peer][0], case)}
    logp = {name: worker.timed("logp")[0] for name, worker in workers.items()}
    difference = float(np.abs(logp["simlab"] - logp[peer]).max())
    if difference > TOLERANCE:
        raise SystemExit(f"{case.name}: the log-probabilities of simlab and {peer} differ by {difference:.1e}")
    result = {"case": case.name, "shape": case.shape, "logp_difference": difference, "programs": {}}
    calls = {"full": ("rollouts", ()), "stopped": ("rollouts", case.stops), "step": ("step", None)}
    for kind, (name, stops) in calls.items():
        for round_ in range(rounds + 2):  # the first two may compile
            for program, worker in workers.items():
                value, seconds = worker.timed(name, *(() if stops is None else (round_, stops)))
                entry = result["programs"].setdefault(program, {}).setdefault(kind, {"values": [], "seconds": []})
                entry["values"].append(value)
                entry["seconds"].append(seconds)
                print(case.name, program, kind, round_, value, round(seconds, 3), file=sys.stderr)
    for worker in workers.values():
        worker.close()
    norms = [result["programs"][program]["step"]["values"][0] for program in workers]
    result["norm_difference"] = abs(norms[0] / norms[1] - 1)
    return result


def limits(case: Case) -> dict[str, float]:
    """The speeds of this machine, and the seconds that follow from them."""
    config, speed = from_hugging_face(read_json(Path(case.folder) / "config.json")), language_limits.speeds()
    return {
        "operations_per_second": speed["operations"],
        "bytes_per_second": speed["bytes"],
        "full": language_limits.rollouts(case, config, speed),
        "step": language_limits.training_step(case, config, speed, shared=True),
        "step_unshared": language_limits.training_step(case, config, speed, shared=False),
    }


def report(result: dict, peer: str) -> str:
    """The table of one case."""
    programs, limit = result["programs"], result["limits"]
    header = ["", "simlab", peer, f"{peer} / simlab", "limit", "simlab / limit", f"{peer} / limit"]
    full, step = ({name: min(run[kind]["seconds"][2:]) for name, run in programs.items()} for kind in ("full", "step"))
    stopped = {name: _seconds_per_token(run["stopped"], slice(2, None)) for name, run in programs.items()}
    tokens = programs["simlab"]["full"]["values"][0]
    rows = [
        _row("rollouts of full length, tokens/s", full, limit["full"], lambda value: f"{tokens / value:.0f}"),
        _row("rollouts with stops, tokens/s", stopped, None, lambda value: f"{1 / value:.0f}"),
        _row("training step, s", step, limit["step"], lambda value: f"{value:.2f}"),
    ]
    for label, kind in (("rollouts", "full"), ("rollouts with stops", "stopped"), ("training step", "step")):
        first = {name: run[kind]["seconds"][0] for name, run in programs.items()}
        rows.append(_row(f"first call, {label}, s", first, None, lambda value: f"{value:.1f}"))
    return f"{agreement(result)}\n\n{table(header, rows)}"


def agreement(result: dict) -> str:
    """The agreement of both programs in one case."""
    return (
        f"{result['case']}: {result['shape']} tokens. Log-probabilities differ by {result['logp_difference']:.0e} at "
        f"most, the norms of the first gradients by a part of {result['norm_difference']:.0e}."
    )


def _seconds_per_token(entry: dict, rounds: slice) -> float:
    """The median of some rounds; their lengths differ, and so does the work of each."""
    return statistics.median(s / v for s, v in zip(entry["seconds"][rounds], entry["values"][rounds], strict=True))


def _row(label: str, seconds: dict[str, float], limit: float | None, write: Callable[[float], str]) -> list[str]:
    ours, theirs = seconds.values()
    bounds = ["", "", ""] if limit is None else [write(limit), f"{ours / limit:.1f}", f"{theirs / limit:.1f}"]
    return [label, write(ours), write(theirs), f"{theirs / ours:.2f}", *bounds]


def main() -> None:
    """Check, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=PEERS, required=True, help="the other program")
    parser.add_argument("--quick", action="store_true", help="small batches and one round; show how far they agree")
    options = parser.parse_args()
    machine = describe(*PEERS[options.peer][1], "numpy")
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for make in (maze, smollm2):
            case = make(Path(folder) / make.__name__, options.quick)
            bounds = limits(case)
            cases.append(compare(case, options.peer, 1 if options.quick else ROUNDS) | {"limits": bounds})
    if options.quick:
        print(*map(agreement, cases), "One timed call of small batches is no result: no speeds are shown.", sep="\n\n")
        return
    speeds = cases[0]["limits"]
    text = "\n\n".join(report(result, options.peer) for result in cases) + (
        f"\n\nFastest of {ROUNDS} calls after two; with stops, the median. The limit: "
        f"{speeds['operations_per_second'] / 1e9:.0f} GFLOP/s and {speeds['bytes_per_second'] / 1e9:.1f} GB/s, as "
        f"measured; see benchmarks/language_limits.py. {in_words(machine)}.\n"
    )
    print(text)
    name = f"language_models_{options.peer}"
    content = {"machine": machine, "cases": cases}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text)


if __name__ == "__main__":
    main()

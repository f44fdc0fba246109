"""Time rollouts some of which wait: refilled places, beside batches one after the other.

    python -m benchmarks.refilling           # some minutes
    python -m benchmarks.refilling --quick   # small sizes; prints, writes nothing

Both ways draw the same tokens. They take turns after a call of each, which compiles; the fastest of three counts. The
completions of the benchmarks of language models end by themselves: of a new maze model at about one token in 32, of
SmolLM2 with a line.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.language_cases import Case, maze, smollm2
from benchmarks.machine import RESULTS, describe, in_words, table
from simlab.files import write_whole
from simlab.llm.checkpoint import read_checkpoint
from simlab.llm.sampling import Sampled, sample

DATA = RESULTS / "refilling.json"
TIMES = 4  # times the prompts of the case
CALLS = 3


def of_case(case: Case) -> dict[str, Any]:
    """The seconds of both ways, and how many tokens they draw."""
    config, parameters = read_checkpoint(case.folder)
    prompts, at_once = case.prompts * TIMES, len(case.prompts) * case.group_size

    def drawn(prompts: tuple[tuple[int, ...], ...], first: int = 0) -> Sampled:
        return sample(
            parameters,
            config,
            prompts,
            case.group_size,
            case.new_tokens,
            key=jax.random.key(0),
            stop_ids=case.stops,
            first_prompt=first,
            at_once=at_once,
        )

    def one_after_the_other() -> np.ndarray:
        size = len(case.prompts)
        batches = [drawn(prompts[first : first + size], first) for first in range(0, len(prompts), size)]
        return np.concatenate([batch.tokens for batch in batches])

    ways: dict[str, Callable[[], np.ndarray]] = {
        "taken anew": lambda: drawn(prompts).tokens,
        "one after the other": one_after_the_other,
    }
    tokens = {name: way() for name, way in ways.items()}
    # Sums of other shapes round otherwise: now and then a token is another one, and so are all after it.
    alike = float((tokens["taken anew"] == tokens["one after the other"]).mean())
    assert alike > 0.95, "both ways draw the same tokens"
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(CALLS):
        for name, way in ways.items():
            before = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - before)
    return {
        "case": f"{case.name}: {TIMES} times {case.shape}, {at_once} at once",
        "mean_tokens": float((tokens["taken anew"] != 0).sum(axis=2).mean()),
        "tokens_alike": alike,
        "seconds": {name: min(times) for name, times in seconds.items()},
    }


def in_table(cases: list[dict[str, Any]]) -> str:
    """A row a case."""
    header = ["", "tokens of a completion", "taken anew, s", "one after the other, s", "times as fast"]
    rows = []
    for case in cases:
        new, old = (case["seconds"][way] for way in ("taken anew", "one after the other"))
        rows.append([case["case"], f"{case['mean_tokens']:.1f}", f"{new:.2f}", f"{old:.2f}", f"{old / new:.2f}"])
    return table(header, rows)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; prints, writes nothing")
    options = parser.parse_args()
    machine = describe("jax", "numpy")
    with tempfile.TemporaryDirectory() as folder:
        cases = [of_case(make(Path(folder) / make.__name__, options.quick)) for make in (maze, smollm2)]
    text = f"{in_table(cases)}\n\n{in_words(machine)}.\n"
    print(text, *["Small batches are no result."] * options.quick)
    if not options.quick:
        write_whole(DATA, (json.dumps({"machine": machine, "cases": cases}, indent=1) + "\n").encode())
        write_whole(DATA.with_suffix(".md"), text.encode())


if __name__ == "__main__":
    main()

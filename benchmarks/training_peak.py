"""Compare the memory that ``simlab train`` states before its first step with the peak of the whole process.

    python -m benchmarks.training_peak            # every run; writes the table
    python -m benchmarks.training_peak --quick    # the smallest run; prints, writes nothing

Each run is a process of its own, of one step, one arm and one evaluation; its peak is what the system reports when it
ends. ``benchmarks.training_memory`` compares program by program, and needs no run.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.children import run_simlab
from benchmarks.machine import RESULTS, describe, in_words, table

SHORT = ["--steps", "1", "--arms", "grpo", "--param", "warm_start.steps=0", "--param", "record.keep_checkpoint=true"]
MAZE = ["--preset", "maze", "--param", "task.evaluation_size=8", "--param", "evaluation.samples=16"]
WIDE = ["model.hidden_size=512", "model.intermediate_size=2048", "model.num_layers=8"]
RUNS = {
    "addition": [],
    "addition, hidden size 512, 8 layers": [option for value in WIDE for option in ("--param", value)],
    "maze, 8 x 16, microbatch 16": [*MAZE, "--prompts", "8", "--param", "rl.microbatch=16"],
    "maze, 8 x 16, microbatch 64": [*MAZE, "--prompts", "8", "--param", "rl.microbatch=64"],
    "maze, 8 x 16, microbatch 64, gradient checkpointing": [
        *(*MAZE, "--prompts", "8", "--param", "rl.microbatch=64"),
        *("--param", "model.gradient_checkpointing=true"),
    ],
}
UNITS = {"MiB": 2**20, "GiB": 2**30}


def stated_bytes(output: str) -> float:
    """What the command's line ``memory: about 5.8 GiB (...)`` says.

    >>> stated_bytes("memory: about 5 MiB (parameters 5 MiB)") / 2**20
    5.0
    """
    found = re.search(r"^memory: about ([\d.]+) ([MG]iB)", output, re.MULTILINE)
    assert found, output
    return float(found[1]) * UNITS[found[2]]


def measure(name: str) -> dict[str, object]:
    """One run.

    Raises:
        SystemExit: if it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        child = run_simlab(["train", *SHORT, *RUNS[name], "--out", str(Path(folder) / "run")])
    if child.code:
        raise SystemExit(f"the run {name} failed: {child.complaint}")
    stated = stated_bytes(child.output)
    return {
        "run": name,
        "stated_mib": round(stated / 2**20),
        "peak_mib": round(child.peak / 2**20),
        "stated_over_peak": round(stated / child.peak, 2),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="the smallest run; write nothing")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the runs whose name holds TEXT; write nothing")
    options = parser.parse_args()
    machine, found = describe("jax", "jaxlib", "numpy"), []
    for name in [name for name in RUNS if options.only in name][: 1 if options.quick else None]:
        found.append(measure(name))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    header = ["run", "stated MiB", "peak MiB", "stated / peak"]
    text = f"{table(header, [[str(value) for value in row.values()] for row in found])}\n\n{in_words(machine)}.\n"
    print(text)
    if not options.quick and not options.only:
        options.out.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"machine": machine, "runs": found}, indent=1) + "\n"
        (options.out / "training_peak.json").write_text(content)
        (options.out / "training_peak.md").write_text(text)


if __name__ == "__main__":
    main()

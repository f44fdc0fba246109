"""Peak memory of ``simlab sweep`` under several budgets.

    python -m benchmarks.memory            # a quarter of an hour
    python -m benchmarks.memory --quick    # fewer seeds; prints, writes nothing

Each sweep is a process of its own; its peak is the ``ru_maxrss`` that the system reports when it ends, of it and its
children. All must stay within their budget.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.children import run_simlab
from benchmarks.machine import RESULTS, describe, in_words, table

BUDGETS = ("700MB", "1GB", "2GB")
APP_J = ["--preset", "f-grpo-fig2", "--gamma", "0", "--steps", "20"]
SMALL = [*APP_J, "--param", "actions=1000", "--param", "correct=100"]
TINY = ["--param", "actions=100", "--param", "correct=10", "--steps", "200", "--record-every", "1"]
# Options of the sweep, and its seeds: the paper's problem at both ends of the grid, many runs of a small problem, few
# of a large one, and a result that is large itself.
SWEEPS = {
    "128,000 actions, G = 32": ([*APP_J, "--group-size", "32"], 1000),
    "128,000 actions, G = 131,072": ([*APP_J, "--group-size", "131072"], 1000),
    "1,000 actions, G = 32": ([*SMALL, "--group-size", "32"], 50_000),
    "1,000 actions, G = 131,072": ([*SMALL, "--group-size", "131072"], 400),
    "3,000,000 actions, G = 32": ([*APP_J, "--group-size", "32", "--param", "actions=3000000"], 16),
    "100 actions, G = 2, every step recorded": ([*APP_J, "--group-size", "2", *TINY], 20_000),
}


def measure(name: str, budget: str, scale: float) -> dict[str, object]:
    """One sweep under one budget.

    Raises:
        SystemExit: if the sweep fails other than by saying that the budget is too small.
    """
    options, seeds = SWEEPS[name]
    seeds = max(4, round(seeds * scale))
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "sweep.nc")
        child = run_simlab(["sweep", *options, "--seeds", str(seeds), "--memory", budget, "--out", out])
    refused = child.code == 2 and "too small" in child.complaint
    if child.code and not refused:
        raise SystemExit(f"the sweep {name} failed: {child.complaint}")
    allowed = float(budget[:-2]) * (2**30 if budget.endswith("GB") else 2**20)
    return {
        "sweep": name,
        "seeds": seeds,
        "budget": budget,
        "peak_mib": round(child.peak / 2**20),
        "share_of_budget": round(child.peak / allowed, 3),
        "outcome": "refused: " + child.complaint.partition(": ")[2]
        if refused
        else "over"
        if child.peak > allowed
        else "within",
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the seeds; write nothing")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the sweeps whose name holds TEXT")
    options = parser.parse_args()
    machine, rows = describe("jax", "jaxlib", "numpy"), []
    for name in (name for name in SWEEPS if options.only in name):
        for budget in BUDGETS:
            rows.append(measure(name, budget, 0.02 if options.quick else 1.0))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    header = ["sweep", "seeds", "--memory", "peak MiB", "share", "outcome"]
    text = f"{table(header, [[str(value) for value in row.values()] for row in rows])}\n\n{in_words(machine)}.\n"
    print(text)
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "memory.json").write_text(json.dumps({"machine": machine, "sweeps": rows}, indent=1) + "\n")
        (options.out / "memory.md").write_text(text)
    if any(row["outcome"] == "over" for row in rows):
        raise SystemExit("a sweep took more than its budget")


if __name__ == "__main__":
    main()

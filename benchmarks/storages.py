"""Dense storage, lumped storage and a PyTorch script on the grid of F-GRPO's Figure 2; the cost model; whole sweeps.

    python -m benchmarks.storages            # an hour on an otherwise idle machine
    python -m benchmarks.storages --quick    # fewer sizes and steps, no sweeps; prints, writes nothing

Settings are those of the preset f-grpo-fig2, records included; the PyTorch script records nothing. The share of correct
actions is the preset's at every number of actions. Compilation is timed apart, by the first run of each cell; it counts
in the sweeps, each a process of its own, once with an empty cache of compiled programs and once with a full one.
"""

import argparse
import json
import sys

import jax

from benchmarks import peer_torch
from benchmarks.cell import ACTIONS, TIMED_GAMMA, Cell
from benchmarks.machine import RESULTS, describe, in_words, table
from benchmarks.processes import Processes
from benchmarks.whole_sweeps import sweep_seconds
from simlab.simulator.resources import step_costs

SIZES = [2**power for power in range(1, 18)]
LARGEST_LUMPED = 2**15  # above it a group takes lumped storage seconds
ROUNDS = 3
RUNS_A_SIZE = 8 * 1000  # seed-steps of one group size in the preset: two gammas, four seeds, 1000 steps
SWEEPS = {
    "f-grpo-fig2": ("--preset", "f-grpo-fig2"),
    "1000 seeds, G = 32": ("--preset", "f-grpo-fig2", "--group-size", "32", "--gamma", "0", "--seeds", "1000"),
}


def beside(group_size: int, steps: int, torch: Processes) -> dict[str, float | str]:
    """Both storages and the script, in turn; of each the fastest of some rounds, because others may use the machine."""
    # Of large groups so few steps that they draw as many as there are actions: later steps cost more, not less.
    few = steps if group_size <= 2048 else min(steps, 2**17 // group_size)
    cells = {"dense": Cell("dense", group_size, TIMED_GAMMA, steps)}
    if group_size <= LARGEST_LUMPED:
        cells["lumped"] = Cell("lumped", group_size, TIMED_GAMMA, few)
    first = {f"{storage}_first_run": cell.first_seconds() for storage, cell in cells.items()}
    rounds: dict[str, list[float]] = {name: [] for name in (*cells, "torch")}
    for _ in range(ROUNDS):
        for storage, cell in cells.items():
            rounds[storage].append(cell.seconds_per_step())
        script = torch.seconds_per_step(peer_torch.loop_seconds_all_cores, group_size, TIMED_GAMMA, min(steps, 200))
        rounds["torch"].append(script)
    seconds = {name: min(values) for name, values in rounds.items()}
    costs = step_costs(cells["dense"].problem, cells["dense"].settings, steps)
    model = {"dense_model": 1e-6 * costs.dense, "lumped_model": 1e-6 * costs.lumped}
    chosen = "lumped" if costs.lumped < costs.dense else "dense"
    return {"group_size": group_size, **seconds, **first, **model, "chosen": chosen}


def report(storages: list[dict]) -> str:
    """The table of all group sizes, in microseconds per seed-step, and how often the choice was right."""
    header = ["G", "lumped us", "dense us", "torch us", "dense / lumped", "torch / chosen", "chosen", "right"]
    header += ["lumped first s", "dense first s"]
    rows, measured, right = [], 0, 0
    for row in storages:
        both = "lumped" in row
        is_right = both and (row["lumped"] < row["dense"]) == (row["chosen"] == "lumped")
        measured, right = measured + both, right + is_right
        rows.append(
            [
                str(row["group_size"]),
                *(f"{1e6 * row[name]:.0f}" if name in row else "not run" for name in ("lumped", "dense", "torch")),
                f"{row['dense'] / row['lumped']:.2f}" if both else "",
                f"{row['torch'] / row[row['chosen']]:.1f}",
                row["chosen"],
                "yes" if is_right else "no" if both else "",
                f"{row['lumped_first_run']:.1f}" if both else "",
                f"{row['dense_first_run']:.1f}",
            ]
        )
    ours = RUNS_A_SIZE * sum(row[row["chosen"]] for row in storages)
    torch = RUNS_A_SIZE * sum(row["torch"] for row in storages)
    total = f"The grid's seed-steps: {ours:.0f} s in the chosen storage, {torch:.0f} s in PyTorch, {torch / ours:.1f}"
    choice = f"The choice is right in {right} of the {measured} cells with both storages."
    return f"{table(header, rows)}\n\n{choice} {total} times as long."


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="200 steps, three group sizes, no sweeps; write nothing")
    options = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # first runs are to compile
    machine, torch = describe("jax", "jaxlib", "torch", "numpy"), Processes(1)
    steps, sizes = (200, [2, 32, 512]) if options.quick else (1000, SIZES)
    many = (10**5, 10**9) if options.quick else (10**5, 10**7, 10**9, 10**12, 10**15)
    storages = []
    for size in sizes:
        storages.append(beside(size, steps, torch))
        print(json.dumps(storages[-1]), file=sys.stderr)
    growth = []
    for actions in many:
        cell = Cell("lumped", 32, TIMED_GAMMA, steps, actions)
        cell.run(0)
        growth.append({"actions": actions, "lumped": min(cell.seconds_per_step() for _ in range(3))})
    sweeps = {} if options.quick else {name: sweep_seconds(chosen) for name, chosen in SWEEPS.items()}
    wide = [[f"{row['actions']:.0e}", f"{1e6 * row['lumped']:.0f}"] for row in growth]
    whole = [[name, *(f"{value:.0f}" for value in seconds.values())] for name, seconds in sweeps.items()]
    text = (
        f"{ACTIONS} actions:\n\n{report(storages)}\n\nG = 32:\n\n{table(['actions', 'lumped us'], wide)}\n\n"
        f"Whole sweeps, seconds of wall time:\n\n{table(['sweep', 'empty cache', 'full cache'], whole)}\n\n"
        f"Microseconds per seed-step over {steps} steps, all cores busy. {in_words(machine)}.\n"
    )
    print(text)
    if not options.quick:
        content = {"machine": machine, "steps": steps, "storages": storages, "growth": growth, "sweeps": sweeps}
        (RESULTS / "storages.json").write_text(json.dumps(content, indent=1) + "\n")
        (RESULTS / "storages.md").write_text(text)


if __name__ == "__main__":
    main()

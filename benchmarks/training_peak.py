"""Compare the memory that ``simlab train`` states before its first step with the peak of the whole process.

    python -m benchmarks.training_peak            # every run; writes the table
    python -m benchmarks.training_peak --quick    # the smallest run; prints, writes nothing

Each run is a process of its own, of one step, one evaluation of the start and one of each arm; its peak is what the
system reports when it ends. A verifier that errs makes groups of unequal rewards, so that there is a gradient although
the model has learnt nothing. No program is compiled before: with compiled programs a process takes less than the
statement says.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.children import run_simlab
from benchmarks.machine import RESULTS, describe, in_words, table

SHORT: dict[str, object] = {
    "rl.steps": 1, "rl.false_positive": 0.3, "warm_start.steps": 0, "record.keep_checkpoint": "true",
}  # fmt: skip
WIDE: dict[str, object] = {"model.hidden_size": 512, "model.intermediate_size": 2048, "model.num_layers": 8}
DEEP: dict[str, object] = {
    "model.hidden_size": 576, "model.intermediate_size": 1536, "model.num_layers": 24, "model.num_heads": 9,
    "model.num_kv_heads": 3, "rl.prompts": 32, "task.evaluation_size": 32, "evaluation.samples": 8,
    "record.weight_changes": "false",  # they take minutes
}  # fmt: skip
SIZES = ["grpo", "grpo@group_size=4", "grpo@group_size=2"]
MAZE: dict[str, object] = {"task.size": 7, "task.evaluation_size": 8, "evaluation.samples": 16, "rl.prompts": 8}
CHECKPOINTING: dict[str, object] = {"rl.microbatch": 64, "model.gradient_checkpointing": "true"}
LONG: dict[str, object] = {
    "task.max_new_tokens": 700, "model.max_positions": 1024, "rl.prompts": 2, "rl.group_size": 4, "rl.microbatch": 4,
    "task.evaluation_size": 2, "evaluation.samples": 4,
}  # fmt: skip
PROBED: dict[str, object] = {"probe.every": 1, "probe.estimator": "both", "probe.panel": 64, "probe.rollouts": 64}
# The constants of simlab.llm.training.memory were fitted to these. Of the others, the peaks of the groups, the
# adapters and bfloat16 were known by then.
FITTED: dict[str, tuple[str, list[str], dict[str, object]]] = {
    "addition": ("addition", ["grpo"], {}),
    "countdown": ("countdown", ["grpo"], {}),
    "maze of size 7, microbatch 16": ("maze", ["grpo"], {**MAZE, "rl.microbatch": 16}),
    "maze of size 7, microbatch 64, gradient checkpointing": ("maze", ["grpo"], {**MAZE, **CHECKPOINTING}),
    "addition, hidden size 512, 8 layers": ("addition", ["grpo"], WIDE),
    "addition, 24 layers of SmolLM2-135M, gradient checkpointing": ("addition", ["grpo"], {**DEEP, **CHECKPOINTING}),
}
RUNS = FITTED | {
    "addition, groups of 8, 4 and 2": ("addition", SIZES, {}),
    "maze of size 11, microbatch 16": ("maze", ["grpo"], {**MAZE, "task.size": 11, "rl.microbatch": 16}),
    "maze of size 7, 2 prompts, completions of up to 700 tokens": ("maze", ["grpo"], {**MAZE, **LONG}),
    "addition, hidden size 512, 8 layers, adapters of rank 16": ("addition", ["grpo"], {**WIDE, "model.lora_rank": 16}),
    "addition, hidden size 512, 8 layers, bfloat16, gradient checkpointing": (
        "addition", ["grpo"], {**WIDE, **CHECKPOINTING, "model.dtype": "bfloat16"},
    ),
    "countdown, a probe of 64 problems by both estimators": ("countdown", ["grpo"], PROBED),
}  # fmt: skip
UNITS = {"MiB": 2**20, "GiB": 2**30}


def stated_bytes(output: str) -> float:
    """The bytes in the command's line ``memory: about 5.8 GiB (...)``.

    >>> stated_bytes("memory: about 5 MiB (parameters 5 MiB)") / 2**20
    5.0
    """
    match = re.search(r"^memory: about ([\d.]+) ([MG]iB)", output, re.MULTILINE)
    assert match, output
    return float(match[1]) * UNITS[match[2]]


def measure(name: str) -> dict[str, object]:
    """One run, with nothing compiled before.

    Raises:
        SystemExit: if it fails.
    """
    preset, arms, settings = RUNS[name]
    chosen = [word for key, value in {**SHORT, **settings}.items() for word in ("--param", f"{key}={value}")]
    arguments = ["train", "--preset", preset, "--arms", ",".join(arms), "--seeds", "1", *chosen]
    with tempfile.TemporaryDirectory() as folder:
        child = run_simlab([*arguments, "--out", f"{folder}/out"], {"XDG_CACHE_HOME": folder})
    if child.code:
        raise SystemExit(f"the run {name} failed: {child.complaint}")
    stated = stated_bytes(child.output)
    return {
        "run": name,
        "fitted": name in FITTED,
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
    machine, runs = describe("jax", "jaxlib", "numpy"), list[dict[str, object]]()
    for name in [name for name in RUNS if options.only in name][: 1 if options.quick else None]:
        runs.append(measure(name))
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
        if not options.quick and not options.only:
            _write(options.out, machine, runs)
    print(_text(machine, runs))


def _text(machine: dict[str, object], runs: list[dict[str, object]]) -> str:
    header = ["run", "fitted to", "stated MiB", "peak MiB", "stated / peak"]
    rows = [
        ["yes" if value is True else "" if value is False else str(value) for value in row.values()] for row in runs
    ]
    missing = [name for name in RUNS if name not in {row["run"] for row in runs}]
    not_measured = f"Not measured yet: {'; '.join(missing)}.\n\n" if missing else ""
    return f"{table(header, rows)}\n\n{not_measured}{in_words(machine)}.\n"


def _write(out: Path, machine: dict[str, object], runs: list[dict[str, object]]) -> None:
    """Write the runs so far, so that a benchmark that is stopped leaves what it measured."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "training_peak.json").write_text(json.dumps({"machine": machine, "runs": runs}, indent=1) + "\n")
    (out / "training_peak.md").write_text(_text(machine, runs))


if __name__ == "__main__":
    main()

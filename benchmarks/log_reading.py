"""Rows per second and peak memory of ``simlab diagnose`` as it reads a log of two million rollouts.

    python -m benchmarks.log_reading            # ten minutes
    python -m benchmarks.log_reading --quick    # a fiftieth of the rows; prints, writes nothing

The log has groups of 8, 10,000 prompts in turn, and completions of 600 characters; a step has 8,000 rows. Each format
is read by a process of its own. The system reports its peak (``ru_maxrss``) and its time on the processor when it ends;
beside the peak stands that of a log of one step. On a machine that others use too, compare the time on the
processor.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.machine import RESULTS, describe, in_words, table

ROWS, ROWS_OF_A_STEP, GROUP_SIZE, PROMPTS = 2_000_000, 8_000, 8, 10_000
FILLER = "and therefore " * 40

Row = dict[str, object]


def steps(rows: int) -> Iterator[tuple[int, list[Row]]]:
    """The rows of each step; prompts differ in their solve rate and in how many answers they have."""
    source = np.random.default_rng(0)
    rates, kinds = source.beta(0.4, 0.6, PROMPTS), source.integers(1, 50, PROMPTS)
    for step in range(rows // ROWS_OF_A_STEP):
        groups = ROWS_OF_A_STEP // GROUP_SIZE
        prompts = np.repeat((step * groups + np.arange(groups)) % PROMPTS, GROUP_SIZE)
        rewards = source.random(len(prompts)) < rates[prompts]
        answers = (source.random(len(prompts)) ** 2 * kinds[prompts]).astype(int)
        yield (
            step,
            [
                {
                    "step": step,
                    "prompt": f"Problem {prompt}: which number is meant here?",
                    "completion": f"{FILLER} \\boxed{{{answer}}}",
                    "reward": float(reward),
                }
                for prompt, reward, answer in zip(prompts, rewards, answers, strict=True)
            ],
        )


def write_csv(folder: Path, rows: int) -> None:
    """One CSV file."""
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["step", "prompt", "completion", "reward"])
        writer.writeheader()
        for _, records in steps(rows):
            writer.writerows(records)


def write_verl(folder: Path, rows: int) -> None:
    """A JSONL file a step, as verl writes it."""
    for step, records in steps(rows):
        lines = (
            {"input": row["prompt"], "output": row["completion"], "gts": "1", "score": row["reward"], "step": step}
            for row in records
        )
        (folder / f"{step}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_trl(folder: Path, rows: int) -> None:
    """A parquet file a step, as TRL writes it."""
    import pyarrow  # noqa: PLC0415  # from an extra
    from pyarrow import parquet  # noqa: PLC0415

    for step, records in steps(rows):
        columns = {name: [row[name] for row in records] for name in ("step", "prompt", "completion", "reward")}
        frame = pyarrow.table({**columns, "advantage": [float(step)] * len(records)})
        parquet.write_table(frame, folder / f"completions_{step:05d}.parquet")


WRITERS: dict[str, Callable[[Path, int], None]] = {"csv": write_csv, "verl": write_verl, "trl": write_trl}


def read(folder: Path) -> tuple[float, float, int, str]:
    """Seconds, seconds of the processor and peak bytes of the command, and its output.

    Raises:
        SystemExit: if it fails.
    """
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        # Not subprocess.run: only wait4 gives the peak of this one child.
        command = [sys.executable, "-m", "simlab.cli", "diagnose", "--contents", str(folder)]
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        words = output.read().decode()
    if process.returncode:
        raise SystemExit(f"the command ended with {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, words


def measure(form: str, rows: int) -> dict[str, object]:
    """One format: a log of all rows, and one of a step."""
    readings = {}
    for name, count in (("small", ROWS_OF_A_STEP), ("large", rows)):
        with tempfile.TemporaryDirectory() as folder:
            WRITERS[form](Path(folder), count)
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
            readings[name] = read(Path(folder))
        assert f"rows        {count:,}, and 0 refused" in readings[name][3]
    seconds, busy, peak, _ = readings["large"]
    return {
        "format": form,
        "rows": rows,
        "MiB": round(size / 2**20),
        "seconds": round(seconds, 1),
        "seconds_of_the_processor": round(busy, 1),
        "rows_per_second_of_the_processor": round(rows / busy),
        "peak_mib": round(peak / 2**20),
        "peak_mib_of_one_step": round(readings["small"][2] / 2**20),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the rows; write nothing")
    options = parser.parse_args()
    machine, rows = describe("numpy", "pyarrow"), []
    for form in WRITERS:
        rows.append(measure(form, ROWS // 50 if options.quick else ROWS))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    header = ["format", "rows", "MiB", "seconds", "of the processor", "rows/s of it", "peak MiB", "of one step"]
    text = f"{table(header, [[str(value) for value in row.values()] for row in rows])}\n\n{in_words(machine)}.\n"
    print(text)
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"machine": machine, "logs": rows}
        (options.out / "log_reading.json").write_text(json.dumps(content, indent=1) + "\n")
        (options.out / "log_reading.md").write_text(text)


if __name__ == "__main__":
    main()

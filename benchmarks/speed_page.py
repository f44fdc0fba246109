"""Write ``docs/speed.md``: every measurement beside its peer and its limit, from ``benchmarks/results``.

    python -m benchmarks.speed_page              # from the stored results
    python -m benchmarks.speed_page --measure    # runs every benchmark of the page first: hours, on an idle machine

Each part names its command, and the date and commit of its numbers.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import sweep_parts
from benchmarks.cell import ACTIONS, OPERATIONS_A_WORD, step_bytes, step_functions, step_words
from benchmarks.machine import RESULTS, table
from simlab.files import write_whole

PAGE = Path(__file__).parent.parent / "docs" / "speed.md"
HEADER = ["what", "simlab", "peer", "times as fast", "limit", "simlab / limit"]
GROUPS = (32, 2048, 131072)  # the simulator's cells that are shown
KINDS = {"full": "rollouts of full length", "step": "training step"}

Row = list[str]


def results(name: str) -> dict[str, Any]:
    """Results of a benchmark."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def number(value: float) -> str:
    """Three digits.

    >>> number(0.123456), number(1234.5), number(12.0)
    ('0.123', '1234', '12')
    """
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def simulator_rows() -> list[Row]:
    """A step of one seed in dense storage, beside PyTorch and NumPy and the memory traffic that it cannot avoid."""
    rows = []
    for cell in results("dense_storage")["cells"]:
        if cell["group_size"] not in GROUPS:
            continue
        seconds = cell["seconds_per_seed_step"]
        for peer, name in (("torch_processes", "PyTorch, a process a core"), ("numpy", "NumPy, a process a core")):
            rows.append(
                [
                    f"step of 128,000 actions, G = {cell['group_size']}, ms",
                    number(1000 * seconds["simlab"]),
                    f"{name}: {number(1000 * seconds[peer])}",
                    number(seconds[peer] / seconds["simlab"]),
                    number(1000 * cell["floor_seconds"]),
                    number(cell["times_floor"]),
                ]
            )
    return rows


def limit_rows() -> list[Row]:
    """The least that each cell's step moves, draws and computes, and its time over the larger limit."""
    rows = []
    for cell in results("dense_storage")["cells"]:
        size = cell["group_size"]
        words = step_words(ACTIONS, size)
        counted = step_bytes(ACTIONS, size), words, OPERATIONS_A_WORD * words, step_functions(ACTIONS)
        seconds = cell["seconds_per_seed_step"]["simlab"], cell["floor_seconds"], cell["arithmetic_seconds"]
        times = *(1000 * duration for duration in seconds), cell["times_larger_limit"]
        rows.append([str(size), *(f"{value / 1e6:.3g}" for value in counted), *map(number, times)])
    return rows


def storage_rows() -> list[Row]:
    """The same step in the storage that the cost model chooses."""
    rows = []
    for cell in results("storages")["storages"]:
        if cell["group_size"] in GROUPS and cell.get(cell["chosen"]):
            seconds = cell[cell["chosen"]]
            rows.append(
                [
                    f"the same, {cell['chosen']} storage as chosen, G = {cell['group_size']}, ms",
                    number(1000 * seconds),
                    f"PyTorch: {number(1000 * cell['torch'])}",
                    number(cell["torch"] / seconds),
                    "",
                    "",
                ]
            )
    return rows


def network_rows() -> list[Row]:
    """Steps of a network by number of seeds, beside PyTorch and the larger of the limits of memory and arithmetic."""
    content = results("network")
    least = max(content["limit"]["memory_seconds"], content["limit"]["arithmetic_seconds"])
    rows = []
    for cell in content["cells"]:
        ours, peer = (cell["seconds"][name] for name in ("simlab", "torch"))
        rates = number(1 / ours), f"PyTorch: {number(1 / peer)}", number(peer / ours), number(1 / least)
        rows.append(
            [f"{cell['seeds']} seeds at load {cell['load_average']:.0f}, seed-steps/s", *rates, number(ours / least)]
        )
    return rows


def level_rows() -> list[Row]:
    """Steps of lumped storage by actions and distinct reward levels, beside dense storage with the same levels."""
    cells = results("graded_levels")["cells"]
    dense = {cell["levels"]: cell for cell in cells if cell["storage"] == "dense"}
    return [
        [
            f"{cell['actions']:.0e}",
            f"{cell['levels']:,}",
            number(1e6 * cell["seconds"]),
            number(1e6 * dense[cell["levels"]]["seconds"]),
        ]
        for cell in cells
        if cell["storage"] == "lumped"
    ]


def sweep_rows() -> list[Row]:
    """The parts of the Figure 2 sweep, all of it last."""
    return sweep_parts.rows(results("sweep_parts")["seconds"])


def trainer_rows(peer: str) -> list[Row]:
    """Rows of the table of language models that say a rate or a time, as they stand in the report."""
    rows, case = [], ""
    for line in (RESULTS / f"language_models_{peer}.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if ": " in line and not line.startswith("|") and "prompts of" in line:
            case = line.split(":")[0]
        elif line.startswith("|") and len(cells) == 7 and cells[0] and not cells[0].startswith("---"):
            what, ours, other, ratio, limit, of_limit, _ = cells
            rows.append([f"{case}: {what}", ours, f"{peer.upper()}: {other}", ratio, limit, of_limit])
    return rows


def start_rows() -> list[Row]:
    """Start-up beside an import of JAX."""
    content = results("start_up")
    medians = {name: statistics.median(times) for name, times in content["seconds"].items()}
    jax = medians["import jax"]
    return [
        [f"{name}, s", number(medians[name]), f"import jax: {number(jax)}", number(jax / medians[name]), "", ""]
        for name in content["targets"]
    ]


class Part(NamedTuple):
    """A table of the page: its title, the benchmark and its options, the result that it leaves, header and rows."""

    title: str
    command: tuple[str, ...]
    source: str
    rows: Callable[[], list[Row]]
    header: list[str] = HEADER
    words: str = ""

    def written(self) -> str:
        """The heading, the origin of the numbers, and the table."""
        machine = results(self.source)["machine"]
        made = f"{machine['cpu']}, {machine['cores']} cores, {machine['date']}, commit {machine['commit'][:8]}"
        return (
            f"## {self.title}\n\n`python -m {' '.join(self.command)}` measures it anew "
            f"([all numbers](../benchmarks/results/{self.source}.md)); {made}.\n\n"
            f"{self.words}{table(self.header, self.rows())}\n"
        )


LIMIT_HEADER = ["G", "MB", "random words, M", "their operations, M", "exp, root, quotient, M"]
LIMIT_HEADER += ["simlab, ms", "limit of memory, ms", "of arithmetic, ms", "simlab / larger limit"]
LIMIT_WORDS = """A step of one run in dense storage with Adam, N = 128,000 actions, in millions (`benchmarks.cell`):

- it moves 4 (8 N + 6 G) bytes: logits and two moments read and written, weights written and read, draws;
- it draws 2 G random words; for groups of half as many rollouts as actions or more, N + G / 4, one for each count. A
  word of Threefry-2x32 takes 58.5 integer operations;
- it takes N exponentials, N square roots and N quotients.

The limit of memory is the time of the bytes alone, that of arithmetic the time of the words and functions alone, both
at speeds that were measured beside each cell (`benchmarks.arithmetic`): those of kernels that do nothing else. A
program may do both at once, so that the larger one bounds it. Neither holds what a particular way of drawing computes
besides, such as the distribution of each count.

"""
NETWORK_WORDS = """The problem `network`: 32 prompts, 64 actions, one hidden layer of 64 units, GRPO, Adam, G = 8. By M
prompts, d inputs, w units and A actions a seed-step takes 2 M (2 d w + 3 w A) operations of products, 1.06 million, and
moves parameters and moments, 152 kB; draws and functions count too. A call holds 8 seeds, so that one alone costs as
much as 8. PyTorch has the seeds as an axis of every tensor, and counts with one thread or one a core, whichever is
faster. At a load average far above 0 other work shared the cores, which may cost one more than the other.

"""
SWEEP_WORDS = """Seconds of one core, in one process, of `simlab sweep --preset f-grpo-fig2`: 136 runs of 1000 steps.
With a full cache programs are still traced, since what is traced names the program on disk.

"""
LEVEL_HEADER = ["actions", "reward levels", "lumped, us", "dense storage of 131,072 actions, us"]
LEVEL_WORDS = """Actions of one logit are one class of lumped storage if their rewards are equal too. A step goes over
the classes and the actions that were drawn so far, whatever N is: its time grows with the number of distinct reward
levels (of all parts together), not with N. With tens of thousands of levels dense storage is faster, and `auto` takes
it where it fits. Processor microseconds of a step, G = 32, Adam.

"""
TRL, TUNIX = (("benchmarks.language_models", "--peer", peer) for peer in ("trl", "tunix"))
PARTS = (
    Part("The simulator", ("benchmarks.dense_storage",), "dense_storage", simulator_rows),
    Part("What bounds a step", ("benchmarks.dense_storage",), "dense_storage", limit_rows, LIMIT_HEADER, LIMIT_WORDS),
    Part("Prompts that share a network", ("benchmarks.network",), "network", network_rows, words=NETWORK_WORDS),
    Part("Storages", ("benchmarks.storages",), "storages", storage_rows),
    Part(
        "Reward levels in lumped storage",
        ("benchmarks.graded_levels",),
        "graded_levels",
        level_rows,
        LEVEL_HEADER,
        LEVEL_WORDS,
    ),
    Part(
        "What the Figure 2 sweep consists of",
        ("benchmarks.sweep_parts",),
        "sweep_parts",
        sweep_rows,
        ["processor seconds", *sweep_parts.CACHES],
        SWEEP_WORDS,
    ),
    Part("The trainer beside TRL", TRL, "language_models_trl", lambda: trainer_rows("trl")),
    Part("The trainer beside Tunix", TUNIX, "language_models_tunix", lambda: trainer_rows("tunix")),
    Part("Start-up", ("benchmarks.start_up",), "start_up", start_rows),
)


def page() -> str:
    """The whole page."""
    return BEGINNING + "\n".join(section.written() for section in PARTS) + END


def measure() -> None:
    """Run every benchmark of the page, each once."""
    for command in dict.fromkeys(section.command for section in PARTS):
        subprocess.run([sys.executable, "-m", *command], check=True)


BEGINNING = """# Speed

Every row stands beside a named peer that was measured in the same run; machines are noisy, ratios less so. The limit
is what no program can avoid on that machine: memory traffic of a dense step, or operations and bytes of a language
model. `python -m benchmarks.speed_page` writes this page from what the benchmarks have left; with `--measure` it runs
them all first.

"""
END = """
## Elsewhere

- [Memory under a budget](../benchmarks/results/memory.md), [reading logs](../benchmarks/results/log_reading.md) and
  [live metrics](../benchmarks/results/live_overhead.md).
- The explorer's [answers](../benchmarks/results/explorer.md) and [memory](../benchmarks/results/explorer_use.md).
- `python -m benchmarks.accelerator` is for whoever has a GPU; nobody has committed its table yet.
- `python -m benchmarks.compare OLD NEW` pairs two commits in one run.
"""


def main() -> None:
    """Write the page, measured anew if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="run every benchmark of the page first")
    if parser.parse_args().measure:
        measure()
    write_whole(PAGE, page().encode())


if __name__ == "__main__":
    main()

"""Write ``docs/speed.md``: every measurement beside its peer and its limit, from what ``benchmarks/results`` holds.

    python -m benchmarks.speed_page

Nothing is measured here; each part names the command that measures it anew.
"""

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, table
from simlab.files import write_whole

PAGE = Path(__file__).parent.parent / "docs" / "speed.md"
HEADER = ["what", "simlab", "peer", "times as fast", "limit", "simlab / limit"]
GROUPS = (32, 2048, 131072)  # of the simulator's cells, those that are shown
KINDS = {"full": "rollouts of full length", "step": "training step"}

Row = list[str]


def results(name: str) -> dict[str, Any]:
    """What a benchmark has left."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


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
        own = cell["seconds_per_seed_step"]
        for peer, name in (("torch_processes", "PyTorch, a process a core"), ("numpy", "NumPy, a process a core")):
            rows.append(
                [
                    f"step of 128,000 actions, G = {cell['group_size']}, ms",
                    number(1000 * own["simlab"]),
                    f"{name}: {number(1000 * own[peer])}",
                    number(own[peer] / own["simlab"]),
                    number(1000 * cell["floor_seconds"]),
                    number(cell["times_floor"]),
                ]
            )
    return rows


def storage_rows() -> list[Row]:
    """The same step in the storage that the cost model chooses."""
    rows = []
    for cell in results("storages")["storages"]:
        if cell["group_size"] in GROUPS and cell.get(cell["chosen"]):
            own = cell[cell["chosen"]]
            rows.append(
                [
                    f"the same, {cell['chosen']} storage as chosen, G = {cell['group_size']}, ms",
                    number(1000 * own),
                    f"PyTorch: {number(1000 * cell['torch'])}",
                    number(cell["torch"] / own),
                    "",
                    "",
                ]
            )
    return rows


def trainer_rows() -> list[Row]:
    """Rows of the tables of language models that say a rate or a time, as they stand in their reports."""
    rows = []
    for peer in ("trl", "tunix"):
        case = ""
        for line in (RESULTS / f"language_models_{peer}.md").read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if ": " in line and not line.startswith("|") and "prompts of" in line:
                case = line.split(":")[0]
            elif line.startswith("|") and len(cells) == 7 and cells[0] and not cells[0].startswith("---"):
                what, own, other, ratio, limit, of_limit, _ = cells
                rows.append([f"{case}: {what}", own, f"{peer.upper()}: {other}", ratio, limit, of_limit])
    return rows


def start_rows() -> list[Row]:
    """Start-up beside an import of JAX."""
    found = results("start_up")
    medians = {name: statistics.median(own) for name, own in found["seconds"].items()}
    jax = medians["import jax"]
    return [
        [f"{name}, s", number(medians[name]), f"import jax: {number(jax)}", number(jax / medians[name]), "", ""]
        for name in found["targets"]
    ]


def machine_of(name: str) -> str:
    """Where a benchmark ran."""
    machine = results(name)["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores"


def part(title: str, command: str, source: str, rows: list[Row]) -> str:
    """A heading, where it comes from, and the table."""
    return (
        f"## {title}\n\n`{command}` measures it anew ([all numbers](../benchmarks/results/{source}.md)); "
        f"{machine_of(source)}.\n\n{table(HEADER, rows)}\n"
    )


def page() -> str:
    """The whole page."""
    parts = [
        part("The simulator", "python -m benchmarks.dense_storage", "dense_storage", simulator_rows()),
        part("Storages", "python -m benchmarks.storages", "storages", storage_rows()),
        part("The trainer", "python -m benchmarks.language_models --peer trl", "language_models_trl", trainer_rows()),
        part("Start-up", "python -m benchmarks.start_up", "start_up", start_rows()),
    ]
    return BEGINNING + "\n".join(parts) + END


BEGINNING = """# Speed

Every row stands beside a named peer that was measured in the same run; machines are noisy, ratios less so. The limit
is what no program can avoid on that machine: memory traffic of a dense step, or operations and bytes of a language
model. `python -m benchmarks.speed_page` writes this page from what the benchmarks have left.

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
    """Write the page."""
    write_whole(PAGE, page().encode())


if __name__ == "__main__":
    main()

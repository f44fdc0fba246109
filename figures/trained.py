"""What the figures of trained language models share: a run folder condensed to one file, and compared again from it."""

import json
import tempfile
from pathlib import Path
from typing import Any

from condensed import rounded

from simlab.llm.compare import comparison_table, read_run
from simlab.llm.compare.figure import comparison_figure
from simlab.plotting import save_everywhere

KEPT = ("step", "reward", "entropy", "loss", "distinct_solutions", "all_wrong", "all_right", "grad_norm", "seconds")
DATA = Path(__file__).parent / "data"


def condense(run: Path) -> dict[str, Any]:
    """The files of a run by their places in it, without models, and of the metrics those in ``KEPT``."""
    files: dict[str, Any] = {"run.json": json.loads((run / "run.json").read_text())}
    for path in sorted(run.glob("*/**/*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if path.name == "metrics.jsonl":
            lines = [{name: _short(line[name]) for name in KEPT if name in line} for line in lines]
        files[path.relative_to(run).as_posix()] = lines
    return files


def _short(value: Any) -> Any:
    return rounded(value) if isinstance(value, float) else value


def expand(files: dict[str, Any], folder: Path) -> None:
    """A run folder of condensed files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = content if name.endswith(".jsonl") else [content]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def draw(name: str, here: Path, arguments: list[str], baseline: str = "grpo") -> None:
    """Condense a run if one is given, print its table, and draw its figure."""
    data = DATA / f"{name}.json"
    if arguments:
        data.write_text(json.dumps(condense(Path(arguments[0])), separators=(",", ":")) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        expand(json.loads(data.read_text()), Path(folder))
        runs = [read_run(Path(folder))]
    if arguments:
        print(comparison_table(runs, baseline=baseline))
    save_everywhere(comparison_figure(runs), here / name)

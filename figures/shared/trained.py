"""Condense a run folder of trained language models to one file, and compare its arms again from that file."""

import json
import tempfile
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from figures.shared.condensed import keep, rounded
from simlab.llm.compare import comparison_table, read_run
from simlab.llm.compare.figure import comparison_figure
from simlab.llm.compare.runs import Run
from simlab.seals import CHECKSUM

KEPT = ("step", "reward", "entropy", "loss", "distinct_solutions", "all_wrong", "all_right", "grad_norm", "seconds")


def condense(run: Path) -> dict[str, Any]:
    """Return the files of a run by their paths in it, without models, and the metrics in ``KEPT`` alone."""
    files: dict[str, Any] = {"run.json": _bare((run / "run.json").read_text())}
    for path in sorted(run.glob("*/**/*.jsonl")):
        lines = [_bare(line) for line in path.read_text().splitlines()]
        if path.name == "metrics.jsonl":
            lines = [{name: _short(line[name]) for name in KEPT if name in line} for line in lines]
        files[path.relative_to(run).as_posix()] = lines
    return files


def _bare(text: str) -> dict[str, Any]:
    """An object without its checksum, which is not that of what is left when it is condensed."""
    return {name: value for name, value in json.loads(text).items() if name != CHECKSUM}


def _short(value: Any) -> Any:
    return rounded(value) if isinstance(value, float) else value


def expand(files: dict[str, Any], folder: Path) -> None:
    """Write condensed files as a run folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = content if name.endswith(".jsonl") else [content]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def runs_of(files: dict[str, Any]) -> list[Run]:
    """A condensed run, read as ``simlab compare`` reads its folder."""
    with tempfile.TemporaryDirectory() as folder:
        expand(files, Path(folder))
        return [read_run(Path(folder))]


def keep_run(path: Path, run: Path, baseline: str = "grpo") -> Path:
    """Condense a run into ``path``, or where ``kept_in`` says; print its table, and return that path."""
    written = keep(path, condense(run))
    print(comparison_table(runs_of(json.loads(written.read_text())), baseline=baseline))
    return written


def draw(files: dict[str, Any]) -> Figure:
    """The figure of a condensed run."""
    return comparison_figure(runs_of(files))

"""The runs of small language models that CaSP's Figures 2, 3, 7 to 9 and 11 to 16 are drawn from, and their models."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from figures.shared.condensed import rounded
from simlab.llm.checkpoint import Model, read_checkpoint
from simlab.llm.tasks import task
from simlab.llm.training.groups import Reader

ARMS = {
    "grpo": ("GRPO", "C0", "-"),
    "psr": ("PSR", "C1", "--"),
    "nsr": ("NSR", "C2", ":"),
    "casp": ("CaSP", "C3", "-."),
    "grpo+casp(alpha=0.1)": (r"CaSP, $\alpha$ = .1", "C6", (0, (5, 1, 1, 1, 1, 1))),
}
BASE = "base"
SEED = 0
_METRICS = ("step", "reward", "entropy", "sample_logp", "rank_logp")


def run_file(run: Path) -> dict[str, Any]:
    """Settings, commit and versions of a run folder."""
    content: dict[str, Any] = json.loads((run / "run.json").read_text())
    return content


def metrics(run: Path, arm: str) -> dict[str, Any]:
    """Each of the metrics along the steps of an arm."""
    lines = [
        json.loads(line) for line in (run / "arms" / arm / f"seed-{SEED}" / "metrics.jsonl").read_text().splitlines()
    ]
    return {name: rounded([line[name] for line in lines]) for name in _METRICS}


def model(run: Path, arm: str, seed: int = SEED) -> Model:
    """The model that an arm ended with, or that all began from."""
    folder = run / "start" if arm == BASE else run / "arms" / arm
    return read_checkpoint(folder / f"seed-{seed}" / "model")


def reader(run: Path, checkpoint: Model) -> Reader:
    """Return a reader that puts the run's task to a model of the run."""
    of_run = task(**run_file(run)["settings"]["task"])
    assert of_run.vocabulary is not None
    return Reader(of_run, checkpoint.config, of_run.vocabulary)


def mean_over_tokens(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(N,) means of (P, G, T, N) over the tokens that are there."""
    means: np.ndarray = values[mask].mean(axis=0)
    return means

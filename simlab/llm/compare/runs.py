"""Read a training run's folder; what has not begun is left out, and the later of two lines of a step counts."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Num

from simlab.errors import InputError
from simlab.llm.instruments.batch_metrics import PROBABILITIES
from simlab.llm.instruments.pass_at_k import unbiased_pass_at_k
from simlab.llm.training.folder import EVALUATIONS, METRICS, RUN, arm_folder, read_lines
from simlab.llm.training.origin import describe_changes
from simlab.reading import read_json
from simlab.seals import Damaged, verified


@dataclass(frozen=True)
class EvaluationResult:
    """Counts of correct samples of P problems, each sampled several times.

    Attributes:
        step: training steps before it; 0 at the start.
        samples, correct: completions of each problem, and how many are correct.
        distinct: different solutions among the correct ones; NaN where nobody counted.
        entropies, candidates: tokens with an entropy in each bin of ``simlab.llm.instruments.batch_metrics``, and with
            probabilities of the likeliest candidates, by rank; empty where nobody counted.
        sets: if the run has several evaluation sets, the evaluation on each, by name; the first is this one.
    """

    step: int
    samples: int
    correct: Int[np.ndarray, " P"]
    distinct: Float[np.ndarray, " P"]
    entropies: Int[np.ndarray, " E"] = field(default_factory=lambda: np.zeros(0, int))
    candidates: Int[np.ndarray, "N B"] = field(default_factory=lambda: np.zeros((0, PROBABILITIES), int))
    sets: Mapping[str, "EvaluationResult"] = field(default_factory=dict)

    def pass_at_k(self, k: int) -> Float[np.ndarray, " P"]:
        """Return the unbiased pass@k of each problem."""
        return unbiased_pass_at_k(self.correct, self.samples, k)


@dataclass(frozen=True)
class Training:
    """One seed of one arm: by name, a number of each step or several, NaN where there is none; and evaluations."""

    metrics: Mapping[str, Num[np.ndarray, "S ..."]]
    evaluations: tuple[EvaluationResult, ...]


@dataclass(frozen=True)
class Run:
    """A folder that ``simlab train`` wrote.

    Attributes:
        arms: trainings that have begun, by the arm's name and seed.
        starts: by seed, the supervised warm start that all arms start from; its evaluation is their step 0.
        changes: the steps from which other code or another processor continued it, in words.
    """

    folder: Path
    settings: Mapping[str, Any]
    arms: Mapping[str, Mapping[int, Training]]
    starts: Mapping[int, Training]
    changes: tuple[str, ...] = ()

    def evaluations(self) -> Iterator[EvaluationResult]:
        """Yield all evaluations, those of the warm start first."""
        for seeds in (self.starts, *self.arms.values()):
            for training in seeds.values():
                yield from training.evaluations


def read_run(folder: str | os.PathLike) -> Run:
    """Read the run of a folder; an ``InputError`` names the line of a damaged file."""
    folder = Path(folder)
    path = folder / RUN
    if not path.is_file():
        raise InputError(f"{folder} is not a training run: it has no {RUN}; allowed: a folder that simlab train wrote")
    try:
        entries = verified(read_json(path), RUN)
    except Damaged as reason:
        raise InputError(f"{path} is damaged: {reason}") from None
    start, *arms = (
        {seed: _read_training(path) for seed in entries["seeds"] if (path := parent / f"seed-{seed}").is_dir()}
        for parent in (folder / "start", *(arm_folder(folder, arm) for arm in entries["arms"]))
    )
    trainings = dict(zip(entries["arms"], arms, strict=True))
    return Run(folder, entries["settings"], trainings, start, tuple(describe_changes(entries)))


def set_names(run: Run) -> list[str]:
    """Return the evaluation sets of a run that has several; none of a run with one."""
    return list(dict.fromkeys(name for evaluation in run.evaluations() for name in evaluation.sets))


def select_set(run: Run, name: str) -> Run:
    """Return the run with the evaluations on one of its sets, which all of them have."""
    if name not in set_names(run):
        names = ", ".join(set_names(run)) or "none, it has one"
        raise InputError(f"{run.folder} has no evaluation set {name!r}; allowed: {names}")
    for evaluation in run.evaluations():
        if name not in evaluation.sets:
            raise InputError(f"the evaluation of {run.folder} at step {evaluation.step} lacks the set {name}")

    def select(seeds: Mapping[int, Training]) -> dict[int, Training]:
        return {
            seed: replace(training, evaluations=tuple(each.sets[name] for each in training.evaluations))
            for seed, training in seeds.items()
        }

    return replace(run, arms={arm: select(seeds) for arm, seeds in run.arms.items()}, starts=select(run.starts))


def _read_training(folder: Path) -> Training:
    evaluations = tuple(_make_evaluation(line) for line in _lines_by_step(folder / EVALUATIONS))
    metrics = _lines_by_step(folder / METRICS)
    names = dict.fromkeys(["step", *(name for line in metrics for name in line)])
    return Training({name: _column([line.get(name) for line in metrics], name) for name in names}, evaluations)


def _lines_by_step(path: Path) -> list[dict[str, Any]]:
    """Return the last line of each step, in the order of the steps; a missing file has none."""
    by_step = {line["step"]: line for line in read_lines(path)}
    return [by_step[step] for step in sorted(by_step)]


def _column(values: list[Any], name: str) -> np.ndarray:
    """Return an array of numbers, or a matrix of lists; NaN for null, and where a list is shorter than another."""
    if not any(isinstance(value, list) for value in values):
        return np.array(values, dtype=int if name == "step" else float)
    rows = [value if isinstance(value, list) else [value] for value in values]  # a number among lists is a list of one
    width = max(1, *map(len, rows))
    return np.array([row + [None] * (width - len(row)) for row in rows], dtype=float)


def _make_evaluation(line: dict[str, Any]) -> EvaluationResult:
    evaluation = EvaluationResult(
        line["step"],
        line["samples"],
        np.array(line["correct"]),
        np.array(line["distinct"], dtype=float),
        np.array(line.get("entropy_histogram", []), dtype=int),
        np.array(line.get("candidate_histogram", []), dtype=int).reshape(-1, PROBABILITIES),
    )
    if "set" not in line:
        return evaluation
    others = {name: _make_evaluation({**other, "step": line["step"]}) for name, other in line.get("sets", {}).items()}
    return replace(evaluation, sets={line["set"]: evaluation, **others})

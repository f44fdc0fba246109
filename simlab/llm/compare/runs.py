"""Read the folder of a training run: ``run.json``, and lines of JSON with metrics and evaluations.

A run may still be going, or have been killed: arms and seeds that have not begun are left out, and so is a last line
that is cut off. A run that resumes from a checkpoint may write a step twice; the later line counts.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float, Int, Num

from simlab.errors import InputError
from simlab.llm.instruments.batch_metrics import ENTROPIES, PROBABILITIES
from simlab.llm.training.folder import EVALUATIONS, METRICS, RUN, arm_folder
from simlab.llm.training.lines import read_lines
from simlab.llm.training.origin import changes
from simlab.reading import read_json
from simlab.seals import CHECKSUM, Damaged, verified

NUMBERS = {int, float, type(None)}  # types of a number in JSON; null where there is none


@dataclass(frozen=True)
class Evaluation:
    """How many of P problems a model solves, each sampled several times.

    Attributes:
        step: training steps before it; 0 at the start.
        samples: completions of each problem.
        correct: (P,) correct completions.
        distinct: (P,) different solutions among the correct ones; NaN where nobody counted.
        entropies: tokens with an entropy in each bin of ``simlab.llm.instruments.batch_metrics``; empty where nobody
            counted.
        candidates: (N, B) the same for the probabilities of the likeliest candidates, by rank.
        sets: if the run has several evaluation sets, the evaluation on each, by name; the first is this one.
    """

    step: int
    samples: int
    correct: Int[np.ndarray, " P"]
    distinct: Float[np.ndarray, " P"]
    entropies: Int[np.ndarray, " E"] = field(default_factory=lambda: np.zeros(0, int))
    candidates: Int[np.ndarray, "N B"] = field(default_factory=lambda: np.zeros((0, PROBABILITIES), int))
    sets: Mapping[str, "Evaluation"] = field(default_factory=dict)


@dataclass(frozen=True)
class Training:
    """One seed of one arm.

    Attributes:
        metrics: by name, a number of each step, (S,), or several, (S, N); NaN where there is none. ``step``, (S,), has
            the steps.
        evaluations: in the order of their steps.
    """

    metrics: Mapping[str, Num[np.ndarray, "S ..."]]
    evaluations: tuple[Evaluation, ...]


@dataclass(frozen=True)
class Run:
    """A folder that ``simlab train`` wrote.

    Attributes:
        folder: the path.
        settings: the settings of the run.
        arms: trainings that have begun, by the arm's name and seed.
        starts: by seed, the supervised warm start that all arms start from; its evaluation is their step 0.
        changes: the steps from which other code or another processor continued it, in words.
    """

    folder: Path
    settings: Mapping[str, Any]
    arms: Mapping[str, Mapping[int, Training]]
    starts: Mapping[int, Training]
    changes: tuple[str, ...] = ()


def read_run(folder: str | os.PathLike) -> Run:
    """Read the run of a folder.

    Raises:
        InputError: for a folder that is no run, and for a damaged file; the message names the line.
    """
    folder = Path(folder)
    path = folder / RUN
    if not path.is_file():
        raise InputError(f"{folder} is not a training run: it has no {RUN}; allowed: a folder that simlab train wrote")
    entries = read_json(path)
    sealed = CHECKSUM in entries  # as all lines are then; earlier versions wrote no checksums
    if sealed:
        try:
            entries = verified(entries, RUN)
        except Damaged as reason:
            _raise_damaged(str(path), str(reason))
    settings, arms, seeds = (entries.get(name) for name in ("settings", "arms", "seeds"))
    if not isinstance(settings, dict):
        raise InputError(f"{path} is damaged: it has no settings")
    if not isinstance(arms, list) or not arms or not all(isinstance(arm, str) for arm in arms):
        raise InputError(f"{path} is damaged: arms is no list of names")
    if not isinstance(seeds, list) or not seeds or not all(_is_whole(seed) for seed in seeds):
        raise InputError(f"{path} is damaged: seeds is no list of whole numbers")
    trainings = {arm: _read_trainings(arm_folder(folder, arm), seeds, sealed) for arm in arms}
    starts = _read_trainings(folder / "start", seeds, sealed)
    return Run(folder, settings, trainings, starts, tuple(changes(entries)) if sealed else ())


def set_names(run: Run) -> list[str]:
    """Return the evaluation sets of a run that has several; none of a run with one."""
    trainings = [training for seeds in (run.starts, *run.arms.values()) for training in seeds.values()]
    names = (name for training in trainings for evaluation in training.evaluations for name in evaluation.sets)
    return list(dict.fromkeys(names))


def select_set(run: Run, name: str) -> Run:
    """Return the run with the evaluations on one of its sets.

    Raises:
        InputError: if it has no such set, or an evaluation of it lacks the set.
    """
    names = set_names(run)
    if name not in names:
        raise InputError(
            f"{run.folder} has no evaluation set {name!r}; allowed: {', '.join(names) or 'none, it has one'}"
        )

    def select(training: Training) -> Training:
        for evaluation in training.evaluations:
            if name not in evaluation.sets:
                _raise_damaged(f"the evaluation of {run.folder} at step {evaluation.step}", f"it lacks the set {name}")
        return replace(training, evaluations=tuple(evaluation.sets[name] for evaluation in training.evaluations))

    arms = {arm: {seed: select(training) for seed, training in seeds.items()} for arm, seeds in run.arms.items()}
    return replace(run, arms=arms, starts={seed: select(training) for seed, training in run.starts.items()})


def _read_trainings(folder: Path, seeds: list[int], sealed: bool) -> dict[int, Training]:
    """Read the seeds that have begun."""
    paths = {seed: folder / f"seed-{seed}" for seed in seeds}
    return {seed: _read_training(path, sealed) for seed, path in paths.items() if path.is_dir()}


def _read_training(folder: Path, sealed: bool) -> Training:
    evaluations = [_parse_evaluation(line, where) for line, where in _lines_by_step(folder / EVALUATIONS, sealed)]
    metrics = [line for line, _ in _lines_by_step(folder / METRICS, sealed)]
    return Training(_columns(metrics, folder / METRICS), tuple(evaluations))


def _lines_by_step(path: Path, sealed: bool) -> list[tuple[dict[str, Any], str]]:
    """Return the last line of each step with its number in words, in the order of the steps."""
    by_step = {}
    for line, where in _sealed_lines(path) if sealed else _bare_lines(path):
        if not _is_whole(line.get("step")) or line["step"] < 0:
            _raise_damaged(where, f"step is {line.get('step')!r}; allowed: whole numbers from 0 up")
        by_step[line["step"]] = line, where
    return [by_step[step] for step in sorted(by_step)]


def _sealed_lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the verified lines of a file and where they stand; a missing file has none."""
    try:
        content = read_lines(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if content.damage:
        raise InputError(content.damage)
    for number, line in enumerate(content.lines, 1):
        yield line, f"{path} line {number}"


def _bare_lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects of a file without checksums and where they stand; a missing file has none."""
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        try:
            entries = json.loads(line)
        except ValueError:
            if number == len(lines):
                return
            _raise_damaged(f"{path} line {number}", "it is no JSON")
        if not isinstance(entries, dict):
            _raise_damaged(f"{path} line {number}", "it is no JSON object")
        if CHECKSUM in entries:
            _raise_damaged(f"the {RUN} of {path}", "it has no checksum, but the lines have")
        yield entries, f"{path} line {number}"


def _columns(lines: list[dict[str, Any]], path: Path) -> dict[str, np.ndarray]:
    names = dict.fromkeys(["step", *(name for line in lines for name in line)])
    return {name: _column([line.get(name) for line in lines], name, path) for name in names}


def _column(values: list[Any], name: str, path: Path) -> np.ndarray:
    """Return (S,) of numbers, (S, N) of lists; NaN for null, and where a list is shorter than another."""
    if name == "step":
        return np.array(values, dtype=int)
    lists = [value for value in values if isinstance(value, list)]
    types = (set(map(type, values)) - {list}).union(*(map(type, items) for items in lists))
    if not types <= NUMBERS:
        _raise_damaged(str(path), f"{name} has other things than numbers and lists of numbers")
    if not lists:
        return np.array(values, dtype=float)
    width = max(1, *map(len, lists))  # a number among lists is a list of one
    rows = [value if isinstance(value, list) else [value] for value in values]
    return np.array([row + [None] * (width - len(row)) for row in rows], dtype=float)


def _parse_evaluation(line: dict[str, Any], where: str) -> Evaluation:
    samples, correct, distinct = (line.get(name) for name in ("samples", "correct", "distinct"))
    if samples is None or not _is_whole(samples) or samples < 1:
        _raise_damaged(where, f"samples is {samples!r}; allowed: whole numbers from 1 up")
    if not isinstance(correct, list) or not correct or not all(_is_whole(c) and 0 <= c <= samples for c in correct):
        _raise_damaged(where, f"correct is no list of whole numbers from 0 to {samples}")
    if not isinstance(distinct, list) or not set(map(type, distinct)) <= NUMBERS:
        _raise_damaged(where, "distinct is no list of numbers")
    if len(distinct) != len(correct):
        _raise_damaged(where, f"distinct has {len(distinct)} problems, correct {len(correct)}")
    entropies, candidates = line.get("entropy_histogram", []), line.get("candidate_histogram", [])
    if not _are_counts(entropies, (0, ENTROPIES)):
        _raise_damaged(where, f"entropy_histogram is no list of {ENTROPIES} counts")
    if not isinstance(candidates, list) or not all(_are_counts(counts, (PROBABILITIES,)) for counts in candidates):
        _raise_damaged(where, f"candidate_histogram is no list of lists of {PROBABILITIES} counts")
    evaluation = Evaluation(
        line["step"],
        samples,
        np.array(correct),
        np.array(distinct, dtype=float),
        np.array(entropies, dtype=int),
        np.array(candidates, dtype=int).reshape(-1, PROBABILITIES),
    )
    first, others = line.get("set"), line.get("sets", {})
    if first is None and not others:
        return evaluation
    if (
        not isinstance(first, str)
        or not isinstance(others, dict)
        or not all(isinstance(other, dict) for other in others.values())
    ):
        _raise_damaged(where, "sets is no mapping from names to evaluations, or set no name")
    sets = {name: _parse_evaluation({**other, "step": line["step"]}, where) for name, other in others.items()}
    return replace(evaluation, sets={first: evaluation, **sets})


def _are_counts(value: Any, sizes: tuple[int, ...]) -> bool:
    return isinstance(value, list) and len(value) in sizes and all(_is_whole(count) and count >= 0 for count in value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _raise_damaged(where: str, reason: str) -> NoReturn:
    raise InputError(f"{where} is damaged: {reason}")

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
from simlab.llm.instruments.histograms import ENTROPIES, PROBABILITIES
from simlab.llm.training.folder import EVALUATIONS, METRICS, RUN, arm_folder
from simlab.llm.training.lines import read_lines
from simlab.llm.training.origin import changes
from simlab.reading import read_json
from simlab.seals import CHECKSUM, Damaged, verified

NUMBERS = {int, float, type(None)}  # what JSON may have for a number; null where there is none


@dataclass(frozen=True)
class Evaluation:
    """How many of P problems a model solves, each sampled several times.

    Attributes:
        step: training steps before it; 0 at the start.
        samples: completions of each problem.
        correct: (P,) how many of them are correct.
        distinct: (P,) different solutions among the correct ones; NaN where nobody counted.
        entropies: how many tokens have an entropy in each bin of ``simlab.llm.instruments.histograms``; empty where
            nobody counted.
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
        metrics: by name, a number of each step, (S,), or several, (S, N); NaN where there is none. ``step``, (S,), says
            which steps these are.
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
        arms: by the arm's name and seed, what has begun.
        starts: by seed, the supervised warm start that all arms go on from; its evaluation is their step 0.
        changes: the steps from which other code or another processor continued it, in words.
    """

    folder: Path
    settings: Mapping[str, Any]
    arms: Mapping[str, Mapping[int, Training]]
    starts: Mapping[int, Training]
    changes: tuple[str, ...] = ()


def read_run(folder: str | os.PathLike) -> Run:
    """The run of a folder.

    Raises:
        InputError: for a folder that is no run, and for a damaged file; the line says which line of it.
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
            _damaged(str(path), str(reason))
    settings, arms, seeds = (entries.get(name) for name in ("settings", "arms", "seeds"))
    if not isinstance(settings, dict):
        raise InputError(f"{path} is damaged: it has no settings")
    if not isinstance(arms, list) or not arms or not all(isinstance(arm, str) for arm in arms):
        raise InputError(f"{path} is damaged: arms is no list of names")
    if not isinstance(seeds, list) or not seeds or not all(_is_whole(seed) for seed in seeds):
        raise InputError(f"{path} is damaged: seeds is no list of whole numbers")
    trainings = {arm: _trainings(arm_folder(folder, arm), seeds, sealed) for arm in arms}
    starts = _trainings(folder / "start", seeds, sealed)
    return Run(folder, settings, trainings, starts, tuple(changes(entries)) if sealed else ())


def set_names(run: Run) -> list[str]:
    """The evaluation sets of a run that has several; none of a run with one."""
    trainings = [training for seeds in (run.starts, *run.arms.values()) for training in seeds.values()]
    names = (name for training in trainings for evaluation in training.evaluations for name in evaluation.sets)
    return list(dict.fromkeys(names))


def of_set(run: Run, name: str) -> Run:
    """The run with the evaluations on one of its sets.

    Raises:
        InputError: if it has no such set, or an evaluation of it lacks the set.
    """
    known = set_names(run)
    if name not in known:
        raise InputError(
            f"{run.folder} has no evaluation set {name!r}; allowed: {', '.join(known) or 'none, it has one'}"
        )

    def chosen(training: Training) -> Training:
        return replace(training, evaluations=tuple(_of_set(own, name, run) for own in training.evaluations))

    arms = {arm: {seed: chosen(own) for seed, own in seeds.items()} for arm, seeds in run.arms.items()}
    return replace(run, arms=arms, starts={seed: chosen(own) for seed, own in run.starts.items()})


def _of_set(evaluation: Evaluation, name: str, run: Run) -> Evaluation:
    if name not in evaluation.sets:
        _damaged(f"the evaluation of {run.folder} at step {evaluation.step}", f"it lacks the set {name}")
    return evaluation.sets[name]


def _trainings(folder: Path, seeds: list[int], sealed: bool) -> dict[int, Training]:
    """What a folder has of each seed, of those that have begun."""
    places = {seed: folder / f"seed-{seed}" for seed in seeds}
    return {seed: _training(place, sealed) for seed, place in places.items() if place.is_dir()}


def _training(folder: Path, sealed: bool) -> Training:
    metrics, evaluations = folder / METRICS, folder / EVALUATIONS
    found = [_evaluation(line, where) for line, where in _by_step(evaluations, sealed)]
    return Training(_columns([line for line, _ in _by_step(metrics, sealed)], metrics), tuple(found))


def _by_step(path: Path, sealed: bool) -> list[tuple[dict[str, Any], str]]:
    """The lines of a file and where they stand, the last of each step, in the order of the steps."""
    found = {}
    for line, where in _sealed_lines(path) if sealed else _bare_lines(path):
        if not _is_whole(line.get("step")) or line["step"] < 0:
            _damaged(where, f"step is {line.get('step')!r}; allowed: whole numbers from 0 up")
        found[line["step"]] = line, where
    return [found[step] for step in sorted(found)]


def _sealed_lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The verified lines of a file and where they stand; no file has none."""
    try:
        found = read_lines(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if found.damage:
        raise InputError(found.damage)
    for number, line in enumerate(found.lines, 1):
        yield line, f"{path} line {number}"


def _bare_lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a file that has one a line, without checksums, and where they stand; no file has none."""
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
            _damaged(f"{path} line {number}", "it is no JSON")
        if not isinstance(entries, dict):
            _damaged(f"{path} line {number}", "it is no JSON object")
        if CHECKSUM in entries:
            _damaged(f"the {RUN} of {path}", "it has no checksum, but the lines have")
        yield entries, f"{path} line {number}"


def _columns(lines: list[dict[str, Any]], path: Path) -> dict[str, np.ndarray]:
    names = dict.fromkeys(["step", *(name for line in lines for name in line)])
    return {name: _column([line.get(name) for line in lines], name, path) for name in names}


def _column(values: list[Any], name: str, path: Path) -> np.ndarray:
    """(S,) of numbers, (S, N) of lists; NaN for null, and where a list is shorter than another."""
    if name == "step":
        return np.array(values, dtype=int)
    lists = [value for value in values if isinstance(value, list)]
    kinds = (set(map(type, values)) - {list}).union(*(map(type, items) for items in lists))
    if not kinds <= NUMBERS:
        _damaged(str(path), f"{name} has other things than numbers and lists of numbers")
    if not lists:
        return np.array(values, dtype=float)
    width = max(1, *map(len, lists))  # a number among lists is a list of one
    rows = [value if isinstance(value, list) else [value] for value in values]
    return np.array([row + [None] * (width - len(row)) for row in rows], dtype=float)


def _evaluation(line: dict[str, Any], where: str) -> Evaluation:
    samples, correct, distinct = (line.get(name) for name in ("samples", "correct", "distinct"))
    if samples is None or not _is_whole(samples) or samples < 1:
        _damaged(where, f"samples is {samples!r}; allowed: whole numbers from 1 up")
    if not isinstance(correct, list) or not correct or not all(_is_whole(c) and 0 <= c <= samples for c in correct):
        _damaged(where, f"correct is no list of whole numbers from 0 to {samples}")
    if not isinstance(distinct, list) or not set(map(type, distinct)) <= NUMBERS:
        _damaged(where, "distinct is no list of numbers")
    if len(distinct) != len(correct):
        _damaged(where, f"distinct has {len(distinct)} problems, correct {len(correct)}")
    entropies, candidates = line.get("entropy_histogram", []), line.get("candidate_histogram", [])
    if not _are_counts(entropies, (0, ENTROPIES)):
        _damaged(where, f"entropy_histogram is no list of {ENTROPIES} counts")
    if not isinstance(candidates, list) or not all(_are_counts(own, (PROBABILITIES,)) for own in candidates):
        _damaged(where, f"candidate_histogram is no list of lists of {PROBABILITIES} counts")
    found = Evaluation(
        line["step"],
        samples,
        np.array(correct),
        np.array(distinct, dtype=float),
        np.array(entropies, dtype=int),
        np.array(candidates, dtype=int).reshape(-1, PROBABILITIES),
    )
    first, others = line.get("set"), line.get("sets", {})
    if first is None and not others:
        return found
    if (
        not isinstance(first, str)
        or not isinstance(others, dict)
        or not all(isinstance(o, dict) for o in others.values())
    ):
        _damaged(where, "sets is no mapping from names to evaluations, or set no name")
    named = {name: _evaluation({**own, "step": line["step"]}, where) for name, own in others.items()}
    return replace(found, sets={first: found, **named})


def _are_counts(value: Any, sizes: tuple[int, ...]) -> bool:
    return isinstance(value, list) and len(value) in sizes and all(_is_whole(own) and own >= 0 for own in value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _damaged(where: str, reason: str) -> NoReturn:
    raise InputError(f"{where} is damaged: {reason}")

"""Gather the arms of several runs: name them, choose an evaluation of each, and check that they can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simlab import arms
from simlab.errors import InputError
from simlab.llm.compare.moments import chosen
from simlab.llm.compare.runs import Evaluation, Run, Training
from simlab.llm.training.arm_text import read_arm


@dataclass(frozen=True)
class Arm:
    """An arm by the name it has beside the others.

    Attributes:
        name: unlike that of any other arm.
        seeds: its trainings by seed.
        starts: by seed, an evaluation of the model that the training goes on from, where there is one.
        rollouts: the rollouts of a step; None where its run does not say.
    """

    name: str
    seeds: Mapping[int, Training]
    starts: Mapping[int, Evaluation]
    rollouts: int | None = None


class Shown(NamedTuple):
    """An arm with one evaluation of each seed that has any, and what those seeds were trained like."""

    name: str
    evaluations: Mapping[int, Evaluation]
    trainings: Mapping[int, Training]


def check_comparable(runs: Sequence[Run]) -> None:
    """Raise ``InputError`` for no run or one given twice, for one without evaluation, and for different problems."""
    if not runs:
        raise InputError("there is no run to compare; allowed: one or more")
    folders = [run.folder.resolve() for run in runs]
    for run, folder in zip(runs, folders, strict=True):
        if folders.count(folder) > 1:
            raise InputError(f"{run.folder} is given twice; allowed: each run once")
        if not any(training.evaluations for seeds in run.arms.values() for training in seeds.values()):
            raise InputError(f"{run.folder} has no evaluation yet; allowed: runs of which an arm has been evaluated")
    sizes = {
        len(evaluation.correct): run.folder
        for run in runs
        for seeds in (run.starts, *run.arms.values())
        for training in seeds.values()
        for evaluation in training.evaluations
    }
    if len(sizes) > 1:
        found = ", ".join(f"{size} in {folder}" for size, folder in sorted(sizes.items()))
        raise InputError(f"evaluation problems differ: {found}; allowed: evaluations of the same problems")


def arms_of(runs: Sequence[Run]) -> list[Arm]:
    """The arms of all runs, in order; names that several runs have get the folder's name before them."""
    found = [(run, name) for run in runs for name in run.arms]
    names = _unlike(found)
    return [
        Arm(shown, run.arms[name], _starts(run), _rollouts(run, name))
        for shown, (run, name) in zip(names, found, strict=True)
    ]


def starts_of(runs: Sequence[Run]) -> list[Shown]:
    """The models that the arms of each run go on from, not trained yet; none of a run that has not evaluated them."""
    found = [(run, starts) for run in runs if (starts := _starts(run))]
    names = _unlike([(run, "start") for run, _ in found])
    return [
        Shown(name, starts, dict.fromkeys(starts, Training({}, ())))
        for name, (_, starts) in zip(names, found, strict=True)
    ]


def _starts(run: Run) -> dict[int, Evaluation]:
    """By seed, the evaluation of the warm start, or else that at step 0 of an arm: all arms have the same."""
    found = {}
    for seeds in (*run.arms.values(), run.starts):
        for seed, training in seeds.items():
            if training.evaluations and training.evaluations[0].step == 0:
                found[seed] = training.evaluations[0]
    return found


def _unlike(found: Sequence[tuple[Run, str]]) -> list[str]:
    """The names, those that several runs have after their folders."""
    names = [name for _, name in found]
    last_parts = [folder.name for folder in {run.folder.resolve() for run, _ in found}]

    def folder_of(run: Run) -> str:
        last = run.folder.resolve().name
        return last if last_parts.count(last) == 1 else str(run.folder)

    return [f"{folder_of(run)}/{name}" if names.count(name) > 1 else name for run, name in found]


def shown_at(arm: Arm, at: str | int) -> Shown:
    """Of each seed the evaluation of a moment (``simlab.llm.compare.moments``); seeds that have none are left out.

    Raises:
        InputError: as ``simlab.llm.compare.moments.chosen``.
    """
    trainings = {seed: training for seed, training in arm.seeds.items() if training.evaluations}
    found = {
        seed: chosen(at, f"{arm.name}, seed {seed}", own.evaluations, arm.rollouts) for seed, own in trainings.items()
    }
    evaluations = {seed: evaluation for seed, evaluation in found.items() if evaluation is not None}
    return Shown(arm.name, evaluations, {seed: trainings[seed] for seed in evaluations})


def _rollouts(run: Run, name: str) -> int | None:
    """Of a step: P times G, as the run says or the arm for itself, and P greedy answers where the method reads them."""
    settings: Any = run.settings.get("rl")
    try:
        arm = read_arm(name)
        settings = dict(settings) | arm.own
        return int(settings["prompts"]) * (int(settings["group_size"]) + _samples_greedy(arm.method))
    except (InputError, KeyError, TypeError, ValueError):
        return None


def _samples_greedy(method: arms.Arm) -> bool:
    """Whether a method reads the greedy answer's reward; nothing is run that a file holds."""
    try:
        return not method.files and "greedy_reward" in method.build().needs
    except InputError:  # of a run of another version
        return False

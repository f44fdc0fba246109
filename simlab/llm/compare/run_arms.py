"""Gather the arms of several runs: name them, choose an evaluation of each, and check that they can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simlab import arms
from simlab.errors import InputError
from simlab.llm.compare.runs import EvaluationResult, Run, Training
from simlab.llm.training.settings import read_arm
from simlab.text import read_number

ALLOWED = "last, best, a step, rollouts=NUMBER or pass@1=NUMBER"
EQUAL = ("rollouts", "pass@1")


@dataclass(frozen=True)
class ComparedArm:
    """An arm beside the arms of other runs.

    Attributes:
        name: unlike that of any other arm.
        seeds: its trainings by seed.
        starts: by seed, an evaluation of the model that the training starts from, where there is one.
        rollouts: the rollouts of a step; None where its run does not say.
    """

    name: str
    seeds: Mapping[int, Training]
    starts: Mapping[int, EvaluationResult]
    rollouts: int | None = None


class ShownArm(NamedTuple):
    """An arm with one evaluation of each seed that has any, and the trainings of those seeds."""

    name: str
    evaluations: Mapping[int, EvaluationResult]
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
        counts = ", ".join(f"{size} in {folder}" for size, folder in sorted(sizes.items()))
        raise InputError(f"evaluation problems differ: {counts}; allowed: evaluations of the same problems")


def gather_arms(runs: Sequence[Run]) -> list[ComparedArm]:
    """Return the arms of all runs, in order; names that several runs have get the folder's name before them."""
    pairs = [(run, name) for run in runs for name in run.arms]
    return [
        ComparedArm(unique, run.arms[name], _starts(run), _rollouts_of_step(run, name))
        for unique, (run, name) in zip(_unique_names(pairs), pairs, strict=True)
    ]


def gather_starts(runs: Sequence[Run]) -> list[ShownArm]:
    """Return the untrained models that the arms of each run start from, for runs that have evaluated them."""
    pairs = [(run, starts) for run in runs if (starts := _starts(run))]
    names = _unique_names([(run, "start") for run, _ in pairs])
    return [
        ShownArm(name, starts, dict.fromkeys(starts, Training({}, ())))
        for name, (_, starts) in zip(names, pairs, strict=True)
    ]


def _starts(run: Run) -> dict[int, EvaluationResult]:
    """Return by seed the evaluation of the warm start, or else that at step 0 of an arm: all arms have the same."""
    starts = {}
    for seeds in (*run.arms.values(), run.starts):
        for seed, training in seeds.items():
            if training.evaluations and training.evaluations[0].step == 0:
                starts[seed] = training.evaluations[0]
    return starts


def _unique_names(pairs: Sequence[tuple[Run, str]]) -> list[str]:
    """Return the names, with the folder before those that several runs have."""
    names = [name for _, name in pairs]
    folders = [folder.name for folder in {run.folder.resolve() for run, _ in pairs}]

    def folder_name(run: Run) -> str:
        name = run.folder.resolve().name
        return name if folders.count(name) == 1 else str(run.folder)

    return [f"{folder_name(run)}/{name}" if names.count(name) > 1 else name for run, name in pairs]


def _rollouts_of_step(run: Run, name: str) -> int | None:
    """Return P times G, as the run says or the arm for itself, plus P greedy answers where the method reads them."""
    settings: Any = run.settings.get("rl")
    try:
        arm = read_arm(name)
        settings = dict(settings) | arm.overrides
        return int(settings["prompts"]) * (int(settings["group_size"]) + _samples_greedy(arm.method))
    except (InputError, KeyError, TypeError, ValueError):
        return None


def _samples_greedy(method: arms.Arm) -> bool:
    """Return True if a method reads the greedy answer's reward; no code of a user's file is run."""
    try:
        return not method.files and "greedy_reward" in method.build().needs
    except InputError:  # of a run of another version
        return False


# Moments: the evaluation of each training that is compared


def read_moment(text: str) -> str | int:
    """Parse a moment: ``last``, ``best``, a step, ``rollouts=NUMBER`` or ``pass@1=NUMBER``.

    Raises:
        InputError: for anything else.

    >>> read_moment("20"), read_moment("pass@1=0.5")
    (20, 'pass@1=0.5')
    """
    if text in ("last", "best"):
        return text
    name, _, number = text.partition("=")
    try:
        value = read_number(number if name in EQUAL else text)
    except InputError:
        value = None
    if value is None or (name not in EQUAL and not isinstance(value, int)):
        raise InputError(f"{text!r} cannot be read; allowed: {ALLOWED}")
    return text if name in EQUAL else int(value)


def describe_moment(at: str | int) -> str:
    """Write a moment for a table's head."""
    if isinstance(at, int):
        return f"step {at}"
    name, _, number = at.partition("=")
    words = {
        "rollouts": f"last evaluation within {number} rollouts",
        "pass@1": f"first evaluation with a pass@1 of {number} or more",
    }
    return words.get(name, f"{at} evaluation")


def abbreviate_moment(at: str | int) -> str:
    """Write a moment for a figure's title."""
    return str(at).replace("=", " ") if str(at).startswith(EQUAL) else describe_moment(at)


def choose_evaluations(arm: ComparedArm, at: str | int) -> ShownArm:
    """Choose the evaluation of a moment for each seed; seeds that have none are left out.

    Raises:
        InputError: for an unknown moment, a step without an evaluation, and rollouts that are not known.
    """
    trainings = {seed: training for seed, training in arm.seeds.items() if training.evaluations}
    chosen = {
        seed: _choose(at, f"{arm.name}, seed {seed}", training.evaluations, arm.rollouts)
        for seed, training in trainings.items()
    }
    evaluations = {seed: evaluation for seed, evaluation in chosen.items() if evaluation is not None}
    return ShownArm(arm.name, evaluations, {seed: trainings[seed] for seed in evaluations})


def _choose(
    at: str | int, who: str, evaluations: Sequence[EvaluationResult], rollouts: int | None
) -> EvaluationResult | None:
    """Return the evaluation of a moment; None where pass@1 was not reached, or none was within so many rollouts.

    The best is that of the highest pass@1, the first of several: its measures are too good by that choice.
    """
    if at == "last":
        return evaluations[-1]
    if at == "best":
        return max(evaluations, key=_pass_at_1)
    name, _, number = str(at).partition("=")
    if name == "pass@1":
        return next((evaluation for evaluation in evaluations if _pass_at_1(evaluation) >= float(number)), None)
    if name == "rollouts":
        if rollouts is None:
            raise InputError(f"{who}: its run does not say its prompts and group_size; allowed: runs that do")
        return next((last for last in reversed(evaluations) if last.step * rollouts <= float(number)), None)
    steps = [evaluation.step for evaluation in evaluations]
    if at not in steps:
        raise InputError(f"{who}, was not evaluated at {at!r}; allowed: last, best, or a step of {steps}")
    return evaluations[steps.index(int(at))]


def _pass_at_1(evaluation: EvaluationResult) -> float:
    return float(evaluation.correct.mean() / evaluation.samples)

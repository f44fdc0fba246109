"""Gather the arms of several runs: name them, choose an evaluation of each, and measure it with an interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError, check_whole
from simlab.intervals import ANY, SHARE, Bounds, bounds_of, over_seeds, within
from simlab.llm.compare.runs import EvaluationResult, Run, Training
from simlab.llm.instruments.pass_at_k import interval, powers
from simlab.llm.instruments.significance import crossed_interval
from simlab.llm.training.settings import TrainingArm, read_arm
from simlab.simulator.settings import TRUE_REWARD
from simlab.text import read_number

ALLOWED = "last, best, a step, rollouts=NUMBER or pass@1=NUMBER"
EQUAL = ("rollouts", "pass@1")
TRAINING_METRICS = ("reward", "entropy")
PART_METRICS = ("mean", "spread", "silent", "driven")  # of simlab.llm.instruments.batch_metrics.part_metrics
LAST_PART = 10  # they are averaged over the last of so many equal parts of the steps
SEED, RESAMPLES = 0, 2000  # of the intervals over problems: the same table every time, a figure in a moment


@dataclass(frozen=True)
class ComparedArm:
    """An arm beside the arms of other runs: its trainings, and evaluations of their ``starts``, by seed.

    ``method`` is all that its name says, in one spelling, but for the ``reward`` that it is paid. ``rollouts`` is
    P times G, and P greedy answers where the method reads them; None where the run does not say.
    """

    name: str
    seeds: Mapping[int, Training]
    starts: Mapping[int, EvaluationResult]
    method: str
    reward: str = TRUE_REWARD
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
    sizes = {len(evaluation.correct): run.folder for run in runs for evaluation in run.evaluations()}
    if len(sizes) > 1:
        counts = ", ".join(f"{size} in {folder}" for size, folder in sorted(sizes.items()))
        raise InputError(f"evaluation problems differ: {counts}; allowed: evaluations of the same problems")


def gather_arms(runs: Sequence[Run]) -> list[ComparedArm]:
    """Return the arms of all runs, in order; names that several runs have get the folder's name before them."""
    pairs = [(run, name) for run in runs for name in run.arms]
    return [
        ComparedArm(unique, run.arms[name], _starts(run), **_read_settings(run, name))
        for unique, (run, name) in zip(_unique_names(pairs), pairs, strict=True)
    ]


def gather_starts(runs: Sequence[Run]) -> list[ShownArm]:
    """Return the untrained models that the arms of each run start from, for runs that have evaluated them."""
    begun = [(run, starts) for run in runs if (starts := _starts(run))]
    names = _unique_names([(run, "start") for run, _ in begun])
    return [
        ShownArm(name, starts, dict.fromkeys(starts, Training({}, ())))
        for name, (_, starts) in zip(names, begun, strict=True)
    ]


def _starts(run: Run) -> dict[int, EvaluationResult]:
    """Return by seed the evaluation of the warm start, or else that at step 0 of an arm: all arms have the same."""
    return {
        seed: training.evaluations[0]
        for seeds in (*run.arms.values(), run.starts)
        for seed, training in seeds.items()
        if training.evaluations and training.evaluations[0].step == 0
    }


def _unique_names(pairs: Sequence[tuple[Run, str]]) -> list[str]:
    """Return the names, with the folder before those that several runs have."""
    names = [name for _, name in pairs]
    folders = [folder.name for folder in {run.folder.resolve() for run, _ in pairs}]

    def folder_name(run: Run) -> str:
        name = run.folder.resolve().name
        return name if folders.count(name) == 1 else str(run.folder)

    return [f"{folder_name(run)}/{name}" if names.count(name) > 1 else name for run, name in pairs]


def _read_settings(run: Run, name: str) -> dict[str, Any]:
    """Return ``method``, ``reward`` and ``rollouts`` of a ``ComparedArm``, as the run says or the arm for itself."""
    try:
        arm = read_arm(name)
    except InputError:  # of a name that a later version does not know
        return {"method": name}
    settings = {**run.settings.get("rl", {}), **arm.overrides}
    paid = {"method": _spelled(arm, "reward"), "reward": str(settings.get("reward", TRUE_REWARD)).lower()}
    try:
        # No code of a user's file is run.
        reads_greedy = not arm.method.files and "greedy_reward" in arm.method.build().needs
        return paid | {"rollouts": settings["prompts"] * (settings["group_size"] + reads_greedy)}
    except (InputError, KeyError):
        return paid


# Moments: the evaluation of each training that is compared


def read_moment(text: str) -> str | int:
    """Parse a moment: ``last``, ``best``, a step, ``rollouts=NUMBER`` or ``pass@1=NUMBER``.

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
    if name == "rollouts" and value <= 0:
        raise InputError(f"{text!r} is no number of rollouts; allowed: above 0")
    if name == "pass@1" and not 0 < value < 1:
        raise InputError(f"{text!r} is no level of pass@1; allowed: above 0 and below 1")
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
    """Choose the evaluation of a moment for each seed; seeds that have none are left out."""
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
    """Return the evaluation of a moment, the first of several best ones; None where there is none."""
    rates = [float(evaluation.correct.mean() / evaluation.samples) for evaluation in evaluations]
    if at == "last":
        return evaluations[-1]
    if at == "best":
        return evaluations[int(np.argmax(rates))]
    name, _, number = str(at).partition("=")
    if name == "pass@1":
        pairs = zip(rates, evaluations, strict=True)
        return next((evaluation for rate, evaluation in pairs if rate >= float(number)), None)
    if name == "rollouts":
        if rollouts is None:
            raise InputError(f"{who}: its run does not say its prompts and group_size; allowed: runs that do")
        return next((last for last in reversed(evaluations) if last.step * rollouts <= float(number)), None)
    steps = [evaluation.step for evaluation in evaluations]
    if at not in steps:
        raise InputError(f"{who}, was not evaluated at {at!r}; allowed: last, best, or a step of {steps}")
    return evaluations[steps.index(int(at))]


# Pairs: an arm beside a baseline, in the seeds of both


def find_baseline(name: str, arms: Sequence[ShownArm]) -> ShownArm:
    """Return the arm of a name, whose spelling does not count."""
    for normalise in (str, _normal_spelling):
        for arm in arms:
            if normalise(arm.name) == normalise(name):
                return arm
    raise InputError(f"baseline {name!r} is no evaluated arm; allowed: {', '.join(arm.name for arm in arms)}")


def _normal_spelling(name: str) -> str:
    """Return one text for all spellings of an arm, with the folder before it where it has one."""
    folder = name.partition("(")[0].rpartition("/")[0]
    for prefix in ("", f"{folder}/"):
        try:
            arm = read_arm(name.removeprefix(prefix))
        except InputError:
            continue
        return prefix + _spelled(arm)
    return name


def _spelled(arm: TrainingArm, *without: str) -> str:
    """Return one text for all spellings of an arm."""
    overrides = (f"{key}={arm.overrides[key]}" for key in sorted(arm.overrides) if key not in without)
    return "@".join([str(arm.method), *overrides])


def common_seeds(*pair: ShownArm) -> tuple[ShownArm, ShownArm]:
    """Return two arms with the seeds that both have, in one order."""
    seeds = sorted(pair[0].evaluations.keys() & pair[1].evaluations.keys())
    first, second = (arm._replace(evaluations={seed: arm.evaluations[seed] for seed in seeds}) for arm in pair)
    return first, second


# Measures: a number for each seed, or for each seed and problem, and means with their intervals


def measure_arm(arm: ShownArm, ks: Iterable[int]) -> dict[str, Float[np.ndarray, "S ..."]]:
    """Return by label (S,) metrics of training over its last tenth, and (S, P) pass@k and distinct solutions."""
    evaluations = arm.evaluations.values()
    values = {name: _last_means(arm, name) for name in TRAINING_METRICS}
    values |= {f"pass@{k}": np.stack([evaluation.pass_at_k(k) for evaluation in evaluations]) for k in ks}
    return values | {"distinct": np.stack([evaluation.distinct for evaluation in evaluations])}


def part_names(trainings: Iterable[Training]) -> list[str]:
    """Return the names of the parts of the rewards that trainings have recorded."""
    names = dict.fromkeys(name for training in trainings for name in training.metrics)
    pieces = (name.split("/") for name in names if name.startswith("rewards/") and name.endswith("/driven"))
    return ["/".join(piece[1:-1]) for piece in pieces]


def measure_part(arm: ShownArm, part: str) -> dict[str, Float[np.ndarray, " S"]]:
    """Return the metrics of a part of the rewards by label, over the last tenth of training; NaN without it."""
    return {label: _last_means(arm, f"rewards/{part}/{label}") for label in PART_METRICS}


def _last_means(arm: ShownArm, name: str) -> Float[np.ndarray, " S"]:
    """Average a metric of training over the last tenth of the steps up to each seed's evaluation, where it is known."""
    means = np.full(len(arm.evaluations), np.nan)
    for row, (seed, evaluation) in enumerate(arm.evaluations.items()):
        metrics = arm.trainings[seed].metrics
        if name in metrics:
            values = metrics[name][metrics["step"] <= evaluation.step]
            recent = values[len(values) * (LAST_PART - 1) // LAST_PART :]
            recent = recent[~np.isnan(recent)]
            means[row] = recent.mean() if recent.size else np.nan
    return means


def check_ks(ks: Sequence[int] | None, shown: Iterable[ShownArm], default: Sequence[int] | None = None) -> list[int]:
    """Return the k of pass@k, up to the fewest samples; by default ``default``, or the powers of 4 up to them."""
    samples = min(evaluation.samples for arm in shown for evaluation in arm.evaluations.values())
    if ks is None:
        return powers(samples, 4) if default is None else sorted({*default, samples})
    for k in ks:
        check_whole("pass@k's k", k, 1)
        if k > samples:
            raise InputError(f"pass@{k} cannot be told of {samples} samples a problem; allowed: k from 1 to {samples}")
    return list(ks)


class MeanEstimate(NamedTuple):
    """A mean, its standard error over seeds and its 95 % interval; NaN where that is not known."""

    mean: float
    error: float
    low: float
    high: float


def measure_bounds(label: str, values: Float[np.ndarray, "..."], most: float = np.inf) -> Bounds:
    """Return what a measure can be, where a count is ``most`` at most.

    A reward is between 0 and 1 where every recorded one is; a problem has no more different solutions than samples.
    """
    if label == "reward":
        return ANY if ((values < 0) | (values > 1)).any() else SHARE
    low, high = bounds_of(label)
    return (low, min(high, float(most))) if label == "distinct" else (low, high)


def most_samples(arms: Iterable[ShownArm]) -> int:
    """Return the samples of a problem, the most of any evaluation of some arms; 0 where none has been evaluated."""
    return max((evaluation.samples for arm in arms for evaluation in arm.evaluations.values()), default=0)


def estimate_mean(values: Float[np.ndarray, "S ..."], bounds: Bounds = ANY) -> MeanEstimate:
    """Estimate the mean: interval over seeds and problems, t-interval of seeds alone, or bootstrap of one seed.

    Those of several seeds are carried inside of ``bounds`` (``simlab.intervals.within``); there is none where all
    values are equal.
    """
    each = values.reshape(len(values), -1).mean(axis=1)
    mean = float(each.mean())
    if np.isnan(mean) or values.shape == (1,):
        return MeanEstimate(mean, np.nan, np.nan, np.nan)
    if len(values) == 1:
        return MeanEstimate(mean, np.nan, *interval(values[0], SEED, RESAMPLES)[1:])
    if values[0].size > 1:
        _, low, high = crossed_interval(values)
        half = (high - low) / 2 if np.ptp(values) else 0.0
        return MeanEstimate(mean, np.nan, *map(float, within(mean, half, bounds)))
    return MeanEstimate(*map(float, over_seeds(each, bounds)))

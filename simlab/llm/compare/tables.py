"""Write the tables of ``simlab compare``: a row an arm, differences from a baseline, and fitted sigmoids."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError
from simlab.intervals import BAND_SEEDS, change_of, too_few
from simlab.llm.compare import run_arms
from simlab.llm.compare.run_arms import ComparedArm, MeanEstimate, ShownArm
from simlab.llm.compare.runs import Run
from simlab.llm.instruments.significance import subsampling_test
from simlab.placebo import Excess, Paid, pair, verdict
from simlab.scaling import Curves, scaling_tables
from simlab.simulator.settings import TRUE_REWARD
from simlab.text import aligned

OVER_SEEDS = (
    "mean over seeds (standard error of the last digits), of evaluations [95 % interval over seeds and problems]"
)
OVER_PROBLEMS = "of one seed [95 % interval over problems]"
PARTS = (
    "parts of the reward in training; spread: standard deviation within groups, silent: share of groups in which a "
    "part does not vary, driven: share of the advantage"
)
SEED = 0  # of the subsamples: the same table every time
METHODS_ASK = "would other {} show it too? paired by seed and problem"
MODELS_ASK = (
    "and would these very models show it in other samples, on these problems? (m-out-of-n, F-GRPO App. Q; it says "
    "nothing of other seeds)"
)


def comparison_table(
    runs: Sequence[Run], *, at: str | int = "last", pass_at_k: Sequence[int] | None = None, baseline: str | None = None
) -> str:
    """Write one row for the start and for each arm of the runs, and one for each part of several rewards.

    Reward and entropy are means over the last tenth of the training steps up to the evaluation, which is the one at
    ``at``. All are means over seeds with the standard error, those of evaluations with the interval over seeds and
    problems; with a single seed there is only the interval over problems.

    Args:
        runs: with the same evaluation problems, else an ``InputError`` is raised.
        at: ``last``, ``best`` (by pass@1, which flatters), a step, or at equal ``rollouts=NUMBER`` or
            ``pass@1=NUMBER``.
        pass_at_k: the k; by default the powers of 4 up to the samples.
        baseline: the arm to which the others' differences are added, paired by seed and problem, and those of the
            very models in pass@k, without a p-value: seeds are not random to it.
    """
    run_arms.check_comparable(runs)
    arms = run_arms.gather_arms(runs)
    chosen = [run_arms.choose_evaluations(arm, at) for arm in arms]
    evaluated = [arm for arm in chosen if arm.evaluations]
    rows = run_arms.gather_starts(runs) + evaluated
    ks = run_arms.check_ks(pass_at_k, rows)
    table = []
    for arm in rows:
        steps = [evaluation.step for evaluation in arm.evaluations.values()]
        span = f"{steps[0]}" if min(steps) == max(steps) else f"{min(steps)}-{max(steps)}"
        table.append(
            {"arm": arm.name, "seeds": str(len(steps)), "steps": span}
            | _cells(_estimates(run_arms.measure_arm(arm, ks), run_arms.most_samples([arm])))
        )
    lines = [f"{run_arms.describe_moment(at)}; {_describe_errors(rows)}", *aligned(table)]
    for shown, all_seeds in zip(chosen, arms, strict=True):
        seeds = sum(bool(training.evaluations) for training in all_seeds.seeds.values())
        if not seeds:
            lines.append(f"{shown.name}: not evaluated yet")
        elif len(shown.evaluations) < seeds:
            lines.append(
                f"{shown.name}: {len(shown.evaluations)} of {seeds} seeds have a {run_arms.describe_moment(at)}"
            )
    lines += [f"{run.folder}: {change}" for run in runs for change in run.changes]
    counts = sorted({evaluation.samples for arm in rows for evaluation in arm.evaluations.values()})
    among = f"among {counts[0]} samples"
    if len(counts) > 1:
        among = f"among {counts[0]} to {counts[-1]} samples; not to be compared, as more samples find more"
    lines.append(f"distinct: different correct solutions of a problem {among}")
    lines += _part_lines(evaluated)
    paid = [Paid(arm.reward != TRUE_REWARD, arm.method) for arm in arms]
    lines += [_beside_placebo(chosen[placebo], chosen[arm], ks) for arm, placebo in pair(paid)]
    if baseline is not None:
        lines += ["", *_differences(run_arms.find_baseline(baseline, evaluated), evaluated, ks)]
    return "\n".join(lines)


def _part_lines(arms: Sequence[ShownArm]) -> list[str]:
    """Write a row for each arm and part of its rewards; nothing of runs without parts."""
    rows = [
        {"arm": arm.name, "part": part} | _cells(_estimates(run_arms.measure_part(arm, part)))
        for arm in arms
        for part in run_arms.part_names(arm.trainings.values())
    ]
    return ["", PARTS, *aligned(rows)] if rows else []


def _estimates(
    values: Mapping[str, Float[np.ndarray, "S ..."]], most: float = np.inf, *, change: bool = False
) -> dict[str, MeanEstimate]:
    """Return the mean and the interval of each measure, or of the difference of each; a count is ``most`` at most."""
    bounds = {label: run_arms.measure_bounds(label, array, most) for label, array in values.items()}
    if change:
        bounds = {label: change_of(limits) for label, limits in bounds.items()}
    return {label: run_arms.estimate_mean(array, bounds[label]) for label, array in values.items()}


def _cells(estimates: Mapping[str, MeanEstimate], sign: str = "") -> dict[str, str]:
    return {label: _cell(number, 2 if label == "distinct" else 3, sign) for label, number in estimates.items()}


def _cell(number: MeanEstimate, digits: int, sign: str = "") -> str:
    """Write ``0.684(4)`` with an error, ``0.684 [0.676, 0.692]`` with an interval alone, "-" for NaN.

    >>> _cell(MeanEstimate(0.684, 0.0041, 0.67, 0.69), 3)
    '0.684(4)'
    """
    if np.isnan(number.mean):
        return "-"
    mean = f"{number.mean:{sign}.{digits}f}"
    if not np.isnan(number.error):
        return f"{mean}({round(number.error * 10**digits)})"
    return mean if np.isnan(number.low) else f"{mean} {_interval(number.low, number.high, digits, sign)}"


def _interval(low: float, high: float, digits: int, sign: str = "") -> str:
    return f"[{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"


def _describe_errors(arms: Iterable[ShownArm]) -> str:
    """Explain the brackets behind the numbers of these arms."""
    several = {len(arm.evaluations) > 1 for arm in arms}
    return "; ".join([OVER_SEEDS] * (True in several) + [OVER_PROBLEMS] * (False in several))


# Differences from a baseline arm: between methods, paired by seed and problem; between models, as in F-GRPO's App. Q


def _differences(baseline: ShownArm, arms: Sequence[ShownArm], ks: Sequence[int]) -> list[str]:
    """Return the lines of two tables: paired differences to the baseline, and those of the very models in pass@k."""
    pairs = [run_arms.common_seeds(baseline, arm) for arm in arms if arm is not baseline]
    paired = [pair for pair in pairs if pair[1].evaluations]
    lines = []
    if paired:
        errors = _describe_errors(arm for _, arm in paired)
        rows, shown = [], []
        for first, second in paired:
            estimates, seeds = _paired(first, second, ks), len(second.evaluations)
            rows.append({"arm": second.name, "seeds": str(seeds)} | _cells(estimates, "+"))
            if seeds > 1:
                shown.append(_in_short(second.name, seeds, estimates))
        question = METHODS_ASK.format("seeds and problems" if shown else "problems")
        lines = [f"difference from {baseline.name}: {question}; {errors}", *aligned(rows), *shown]
    lines += [f"{arm.name}: no seed in common with {baseline.name}" for _, arm in pairs if not arm.evaluations]
    tests = [row for pair in paired for row in _test_rows(*pair, ks)]
    return [*lines, "", MODELS_ASK, *aligned(tests)] if tests else lines


def _paired(baseline: ShownArm, arm: ShownArm, ks: Sequence[int]) -> dict[str, MeanEstimate]:
    """Return by how much each measure of an arm is more than the baseline's, of seeds that are the same."""
    base = run_arms.measure_arm(baseline, ks)
    more = {label: values - base[label] for label, values in run_arms.measure_arm(arm, ks).items()}
    return _estimates(more, run_arms.most_samples([baseline, arm]), change=True)


def _beside_placebo(placebo: ShownArm, arm: ShownArm, ks: Sequence[int]) -> str:
    """Say in one sentence if an arm is told from a placebo arm in the smallest and the largest k of pass@k."""
    placebo, arm = run_arms.common_seeds(placebo, arm)
    paired = _paired(placebo, arm, ks) if arm.evaluations else {}
    shown = {label: number for label, number in paired.items() if label in (f"pass@{ks[0]}", f"pass@{ks[-1]}")}
    differences = {
        label: Excess(_cell(number, 3, "+"), number.low > 0 or number.high < 0) for label, number in shown.items()
    }
    return verdict(arm.name, placebo.name, differences, len(arm.evaluations))


def _in_short(name: str, seeds: int, differences: Mapping[str, MeanEstimate]) -> str:
    """Say in which measures an arm is higher and lower than the baseline, by intervals without 0; not by few seeds."""
    if seeds < BAND_SEEDS:
        return f"in short: {too_few(seeds, f'how {name} differs')}"
    higher = [label for label, number in differences.items() if number.low > 0]
    lower = [label for label, number in differences.items() if number.high < 0]
    parts = [f"{word} in {', '.join(labels)}" for word, labels in (("higher", higher), ("lower", lower)) if labels]
    return (
        f"in short: {name} is {' and '.join(parts) or 'not shown to differ'}, by {seeds} seeds and intervals without 0"
    )


def _test_rows(baseline: ShownArm, arm: ShownArm, ks: Sequence[int]) -> Iterator[dict[str, str]]:
    """Yield a row for each k ``[f-grpo:app-q-mean]``; the problems of all seeds are one set of problems to the test.

    It draws some of n samples of every problem, so that arms of different n, and k = n, have no row.
    """
    samples = {evaluation.samples for each in (baseline, arm) for evaluation in each.evaluations.values()}
    first, second = (
        np.concatenate([evaluation.correct for evaluation in each.evaluations.values()]) for each in (baseline, arm)
    )
    for k in ks:
        if len(samples) == 1 and k < min(samples):
            test = subsampling_test(first, second, min(samples), k, SEED)
            yield {
                "arm": arm.name,
                "k": str(k),
                "difference": f"{test.difference:+.3f}",
                "95 % interval": _interval(test.low, test.high, 3, "+"),
            }


def fit_tables(
    runs: Sequence[Run], first: float = 0.0, *, pass_at_k: Sequence[int] | None = None, baseline: str | None = None
) -> list[str]:
    """Return ``scaling_tables`` of pass@k by rollouts, 1 and all samples by default, from ``first`` rollouts on."""
    run_arms.check_comparable(runs)
    arms = [arm for arm in run_arms.gather_arms(runs) if any(training.evaluations for training in arm.seeds.values())]
    chosen = [run_arms.choose_evaluations(arm, "last") for arm in arms]
    ks = run_arms.check_ks(pass_at_k, chosen, default=[1])
    base = None if baseline is None else run_arms.find_baseline(baseline, chosen).name
    lines: list[str] = []
    for k in ks:
        curves = {arm.name: _curves(arm, k).between(first) for arm in arms}
        lines += [*[""] * bool(lines), *scaling_tables(f"pass@{k}", "rollouts", curves, base)]
    return lines


def _curves(arm: ComparedArm, k: int) -> Curves:
    """Return pass@k of the seeds that have a start and evaluations, at the steps that all of these have."""
    if arm.rollouts is None:
        raise InputError(f"the run of {arm.name} does not say its prompts and group_size; allowed: runs that do")
    by_seed = {
        seed: {each.step: float(each.pass_at_k(k).mean()) for each in (*training.evaluations, arm.starts[seed])}
        for seed, training in arm.seeds.items()
        if training.evaluations and seed in arm.starts
    }
    if not by_seed:
        raise InputError(f"{arm.name} has no evaluation before its first step; allowed: arms whose start was evaluated")
    steps = sorted(set.intersection(*map(set, by_seed.values())) - {0})
    values = np.array([[curve[step] for step in steps] for curve in by_seed.values()])
    base = np.array([curve[0] for curve in by_seed.values()])
    return Curves(np.array(list(by_seed)), np.array(steps, dtype=float) * arm.rollouts, values, base)

"""The table of ``simlab compare``: a row an arm."""

from collections.abc import Sequence

from simlab.columns import aligned
from simlab.llm.compare.arms import Arm, Shown, arms_of, check_comparable, shown_at, starts_of
from simlab.llm.compare.cells import cells, errors_in_words
from simlab.llm.compare.differences import baseline_of, differences
from simlab.llm.compare.measures import checked_ks, fewest_samples, values
from simlab.llm.compare.moments import in_words
from simlab.llm.compare.runs import Run


def comparison_table(
    runs: Sequence[Run],
    *,
    at: str | int = "last",
    pass_at_k: Sequence[int] | None = None,
    baseline: str | None = None,
) -> str:
    """One row for the start and for each arm of the runs, as text.

    Reward and entropy are means over the last tenth of the training steps up to the evaluation, which is the one that
    ``at`` says. All are means over seeds with the standard error, those of evaluations with the interval over seeds and
    problems; with a single seed there is only the interval over problems.

    Args:
        runs: with the same evaluation problems.
        at: ``last``, ``best`` (by pass@1, which flatters), a step, or at equal ``rollouts=NUMBER`` or
            ``pass@1=NUMBER``.
        pass_at_k: the k; by default the powers of 4 up to the samples.
        baseline: the arm to which the others' differences are added, paired by seed and problem, with the test of
            pass@k.

    Raises:
        InputError: for runs that do not compare, and for an evaluation, k or baseline that does not exist.
    """
    check_comparable(runs)
    arms = [shown_at(arm, at) for arm in arms_of(runs)]
    shown = [arm for arm in arms if arm.evaluations]
    rows = starts_of(runs) + shown
    ks = checked_ks(pass_at_k, fewest_samples(rows))
    lines = [f"{in_words(at)}; {errors_in_words(rows)}", *aligned([_row(arm, ks) for arm in rows])]
    lines += [_without(arm, own, at) for arm, own in zip(arms, arms_of(runs), strict=True) if _is_partial(arm, own)]
    lines += [f"{run.folder}: {change}" for run in runs for change in run.changes]
    lines.append(f"distinct: different correct solutions of a problem {_samples(rows)}")
    if baseline is not None:
        lines += ["", *differences(baseline_of(baseline, shown), shown, ks)]
    return "\n".join(lines)


def _is_partial(shown: Shown, arm: Arm) -> bool:
    return not shown.evaluations or len(shown.evaluations) < sum(bool(own.evaluations) for own in arm.seeds.values())


def _without(shown: Shown, arm: Arm, at: str | int) -> str:
    """What an arm, or some seeds of it, have not got to."""
    seeds = sum(bool(own.evaluations) for own in arm.seeds.values())
    reached = f"{len(shown.evaluations)} of {seeds} seeds have a {in_words(at)}"
    return f"{arm.name}: {reached if seeds else 'not evaluated yet'}"


def _samples(rows: Sequence[Shown]) -> str:
    counts = sorted({evaluation.samples for arm in rows for evaluation in arm.evaluations.values()})
    if len(counts) == 1:
        return f"among {counts[0]} samples"
    return f"among {counts[0]} to {counts[-1]} samples; not to be compared, as more samples find more"


def _row(arm: Shown, ks: Sequence[int]) -> dict[str, str]:
    """The cells of an arm, by the heads of their columns."""
    steps = [evaluation.step for evaluation in arm.evaluations.values()]
    span = f"{steps[0]}" if min(steps) == max(steps) else f"{min(steps)}-{max(steps)}"
    return {"arm": arm.name, "seeds": str(len(steps)), "steps": span} | cells(values(arm, ks))

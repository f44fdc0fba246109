"""Ceiling or clock: fit ScaleRL's sigmoid to the evaluations of arms against rollouts (``simlab compare --fit``)."""

from collections.abc import Sequence

import numpy as np

from simlab.errors import InputError
from simlab.llm.compare import measures
from simlab.llm.compare.arms import Arm, arms_of, check_comparable, shown_at
from simlab.llm.compare.differences import baseline_of
from simlab.llm.compare.measures import checked_ks, fewest_samples
from simlab.llm.compare.runs import Run
from simlab.scaling import Curves, scaling_tables


def fit_tables(
    runs: Sequence[Run],
    first: float = 0.0,
    *,
    pass_at_k: Sequence[int] | None = None,
    baseline: str | None = None,
) -> list[str]:
    """The lines of the tables of ``simlab.scaling.scaling_tables`` for pass@k of each k.

    R_0 is the evaluation before the first step. Compute is steps times P times G, the rollouts that updates used.

    Args:
        runs: with the same evaluation problems.
        first: the rollouts from which on evaluations are fitted.
        pass_at_k: the k; by default 1 and the samples.
        baseline: the arm to which the others are compared.

    Raises:
        InputError: for runs that do not compare, for a k or baseline that there is not, and for a run that does not say
            its batch.
    """
    check_comparable(runs)
    arms = [arm for arm in arms_of(runs) if any(own.evaluations for own in arm.seeds.values())]
    shown = [shown_at(arm, "last") for arm in arms]
    samples = fewest_samples(shown)
    ks = sorted({1, samples}) if pass_at_k is None else checked_ks(pass_at_k, samples)
    told = None if baseline is None else baseline_of(baseline, shown).name
    lines: list[str] = []
    for k in ks:
        curves = {arm.name: _curves(arm, k, _batch(arm)).between(first) for arm in arms}
        lines += [*[""] * bool(lines), *scaling_tables(f"pass@{k}", "rollouts", curves, told)]
    return lines


def _batch(arm: Arm) -> int:
    """The rollouts of a step: P times G."""
    if arm.rollouts is None:
        raise InputError(f"the run of {arm.name} does not say its prompts and group_size; allowed: runs that do")
    return arm.rollouts


def _curves(arm: Arm, k: int, batch: int) -> Curves:
    """Pass@k of the seeds that have a start and evaluations, at the steps that all of these have."""
    found = {}
    for seed, training in arm.seeds.items():
        own = {evaluation.step: float(measures.pass_at_k(evaluation, k).mean()) for evaluation in training.evaluations}
        if own and seed in arm.starts:
            found[seed] = own | {0: float(measures.pass_at_k(arm.starts[seed], k).mean())}
    if not found:
        raise InputError(f"{arm.name} has no evaluation before its first step; allowed: arms whose start was evaluated")
    steps = sorted(set.intersection(*(set(own) for own in found.values())) - {0})
    values = np.array([[own[step] for step in steps] for own in found.values()])
    base = np.array([own[0] for own in found.values()])
    return Curves(np.array(list(found)), np.array(steps, dtype=float) * batch, values, base)

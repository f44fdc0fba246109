"""Differences of arms from a baseline arm: paired by seed and problem, and tested as in F-GRPO's Appendix Q."""

from collections.abc import Iterator, Sequence

import numpy as np

from simlab.columns import aligned
from simlab.errors import InputError
from simlab.llm.compare.arms import Shown
from simlab.llm.compare.cells import cells, errors_in_words, interval
from simlab.llm.compare.measures import values
from simlab.llm.instruments.significance import subsampling_test
from simlab.llm.training.arm_text import read_arm

SEED = 0  # of the subsamples: the same table every time
TEST = "m-out-of-n test of F-GRPO App. Q; random to it are the samples of these models, not seeds and not problems"


def baseline_of(name: str, shown: Sequence[Shown]) -> Shown:
    """The arm of a name, whose spelling does not count.

    Raises:
        InputError: if no arm with an evaluation has it.
    """
    for same in (str, _spelt_alike):
        for arm in shown:
            if same(arm.name) == same(name):
                return arm
    raise InputError(f"baseline {name!r} is no evaluated arm; allowed: {', '.join(arm.name for arm in shown)}")


def _spelt_alike(name: str) -> str:
    """One text for all spellings of an arm, with the folder before it where it has one."""
    folder = name.partition("(")[0].rpartition("/")[0]
    for before in ("", f"{folder}/"):
        try:
            arm = read_arm(name.removeprefix(before))
            return before + "@".join([str(arm.method), *(f"{own}={arm.own[own]}" for own in sorted(arm.own))])
        except InputError:
            continue
    return name


def differences(baseline: Shown, shown: Sequence[Shown], ks: Sequence[int]) -> list[str]:
    """The lines of two tables: paired differences to the baseline, and the test of those of pass@k."""
    pairs = [_with_common_seeds(baseline, arm) for arm in shown if arm is not baseline]
    paired = [pair for pair in pairs if pair[1].evaluations]
    lines = (
        [f"more than {baseline.name}, paired by seed and problem; {errors_in_words(arm for _, arm in paired)}"]
        if paired
        else []
    )
    lines += aligned([_difference(*pair, ks) for pair in paired]) if paired else []
    lines += [f"{arm.name}: no seed in common with {baseline.name}" for _, arm in pairs if not arm.evaluations]
    tests = [row for pair in paired for row in _tests(*pair, ks)]
    return [*lines, "", TEST, *aligned(tests)] if tests else lines


def _with_common_seeds(first: Shown, second: Shown) -> tuple[Shown, Shown]:
    """Two arms with the seeds that both have, in one order."""
    seeds = sorted(first.evaluations.keys() & second.evaluations.keys())
    one, other = (arm._replace(evaluations={seed: arm.evaluations[seed] for seed in seeds}) for arm in (first, second))
    return one, other


def _difference(baseline: Shown, arm: Shown, ks: Sequence[int]) -> dict[str, str]:
    of_baseline, of_arm = values(baseline, ks), values(arm, ks)
    more = {label: found - of_baseline[label] for label, found in of_arm.items()}
    return {"arm": arm.name, "seeds": str(len(arm.evaluations))} | cells(more, "+")


def _tests(baseline: Shown, arm: Shown, ks: Sequence[int]) -> Iterator[dict[str, str]]:
    """A row for each k ``[f-grpo:app-q-mean]``; the problems of all seeds are one set of problems to the test.

    It draws some of n samples of every problem, so that arms of different n, and k = n, have no row.
    """
    counts = {evaluation.samples for each in (baseline, arm) for evaluation in each.evaluations.values()}
    for k in ks:
        if len(counts) == 1 and k < min(counts):
            found = subsampling_test(_correct(baseline), _correct(arm), min(counts), k, SEED)
            yield {
                "arm": arm.name,
                "k": str(k),
                "difference": f"{found.difference:+.3f}",
                "95 % interval": interval(found.low, found.high, 3, "+"),
                "p": f"{found.p:.2g}",
            }


def _correct(arm: Shown) -> np.ndarray:
    return np.concatenate([evaluation.correct for evaluation in arm.evaluations.values()])

"""The measures that arms are compared by: a number for each seed, or for each seed and problem."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from simlab.errors import InputError, check_whole
from simlab.llm.compare.arms import Shown
from simlab.llm.compare.runs import Evaluation, Training
from simlab.llm.instruments.pass_at_k import powers, unbiased_pass_at_k

OF_TRAINING = ("reward", "entropy")
LAST_PART = 10  # they are averaged over the last of so many equal parts of the steps


def values(arm: Shown, ks: Iterable[int]) -> dict[str, Float[np.ndarray, "S ..."]]:
    """By label: (S,) metrics of training, each averaged over its last tenth; (S, P) pass@k and distinct solutions."""
    evaluations = arm.evaluations.values()
    found = {
        name: np.array([last_mean(arm.trainings[seed], name, own.step) for seed, own in arm.evaluations.items()])
        for name in OF_TRAINING
    }
    found |= {f"pass@{k}": np.stack([pass_at_k(evaluation, k) for evaluation in evaluations]) for k in ks}
    return found | {"distinct": np.stack([evaluation.distinct for evaluation in evaluations])}


def pass_at_k(evaluation: Evaluation, k: int) -> Float[np.ndarray, " P"]:
    """The unbiased pass@k of each problem."""
    return unbiased_pass_at_k(evaluation.correct, evaluation.samples, k)


def last_mean(training: Training, name: str, until: int) -> float:
    """A metric averaged over the last tenth of the steps up to one; NaN if there are none."""
    if name not in training.metrics:
        return np.nan
    found = training.metrics[name][training.metrics["step"] <= until]
    count = -(-len(found) // LAST_PART)
    return float(found[-count:].mean()) if count else np.nan


def fewest_samples(shown: Iterable[Shown]) -> int:
    """The largest k that all evaluations can tell pass@k of."""
    return min(evaluation.samples for arm in shown for evaluation in arm.evaluations.values())


def checked_ks(ks: Sequence[int] | None, samples: int) -> list[int]:
    """The k of pass@k; by default the powers of 4 up to ``samples``.

    Raises:
        InputError: for a k that is no whole number from 1 to ``samples``.
    """
    if ks is None:
        return powers(samples, 4)
    for k in ks:
        check_whole("pass@k's k", k, 1)
        if k > samples:
            raise InputError(f"pass@{k} cannot be told of {samples} samples a problem; allowed: k from 1 to {samples}")
    return list(ks)

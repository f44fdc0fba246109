"""Tell whether rollouts become alike: entropy and distinct answers, in the first steps and in the last."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from simlab.diagnose.diagnosis import Diagnosis, Finding
from simlab.diagnose.estimate import jackknife_of, quotient, shown
from simlab.diagnose.log import NO_ANSWER
from simlab.diagnose.means import POSITIVE, Ends, Means, change_of, in_common
from simlab.diagnose.reading import LoggedRollouts, Reading
from simlab.diagnose.solve_rates import all_within
from simlab.llm.instruments.pass_at_k import powers
from simlab.text import plain_number

QUESTION = "do rollouts become alike?"
NOTABLE = 0.1  # part of what there was at first that must surely be lost
COLLAPSE = 0.3  # of what there was at first, as in the signs of a collapse that metrics are read for
CALM, ALIKE, COLLAPSED = 0.1, 0.3, 0.75  # concerns; that wrong rollouts grow alike comes with learning
Distinct = tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]  # prompts, and their distinct answers on average
VERDICTS = {CALM: "Rollouts stay as different as they were", ALIKE: "Rollouts become alike", COLLAPSED: "It collapses"}


class Measure(NamedTuple):
    """A measure of diversity over steps.

    Attributes:
        says: in words, with {} for its values.
        least: where all rollouts are alike.
    """

    says: str
    ends: Ends
    least: float


def do_rollouts_become_alike(reading: Reading, result: Diagnosis) -> Finding | None:
    """Compare the first and the last window; None where the log has neither entropy nor several answers a prompt."""
    means, rollouts = Means(reading, result), reading.rollouts
    entropies = _entropies(means, rollouts)
    measures = entropies[:1] + _distinct(means, rollouts, result.level)
    if not measures:
        return None
    sentence = "; ".join(each.says.format(_say(each.ends)) for each in measures)
    concern = max(_alarm(each) for each in measures)
    sentence = f"{VERDICTS[concern]}: {sentence}." if means.ends else f"{sentence.capitalize()}."
    rows = [row for each in [*measures, *entropies[1:]] for row in each.ends]
    return Finding(QUESTION, sentence, concern, tuple((row.name, row) for row in rows))


def _entropies(means: Means, rollouts: LoggedRollouts) -> list[Measure]:
    """Estimate entropy from what tells it best: that which is logged, or -log p, whose mean over rollouts it is."""
    if rollouts.entropy is not None and np.isfinite(rollouts.entropy).any():
        counted = np.isfinite(rollouts.entropy).astype(float)
        ends = means.over_steps("nats a token", [np.nan_to_num(rollouts.entropy), counted], quotient, POSITIVE)
        return [Measure("entropy as logged {} nats a token", ends, 0.0)]
    of, source = rollouts.log_probability, "-log p"
    if of is None:
        of, source = rollouts.sampler_log_probability, "-log p of the sampler"
    if of is None or not np.isfinite(of).any():
        return []
    counted, surprise = np.isfinite(of).astype(float), -np.nan_to_num(of)
    ends = means.over_steps("nats a rollout", [surprise, counted], quotient, POSITIVE)
    measures = [Measure(f"entropy ({source}) {{}} nats a rollout", ends, 0.0)]
    if rollouts.length is not None and (rollouts.length > 0).any():
        length = np.nan_to_num(rollouts.length) * counted
        of_rollouts = f"{_arrow(ends)} a rollout"
        ends = means.over_steps("nats a token", [surprise * (length > 0), length], quotient, POSITIVE)
        measures.insert(0, Measure(f"entropy ({source}) {{}} nats a token, {of_rollouts}", ends, 0.0))
    return measures


def _distinct(means: Means, rollouts: LoggedRollouts, level: float) -> list[Measure]:
    """Estimate the distinct answers among equally many rollouts of a prompt, of all that have one and of right ones."""
    if rollouts.answer is None:
        return []
    answered = rollouts.answer != NO_ANSWER
    windows = [answered & window for window in means.ends] or [answered]
    measures: list[Measure] = []
    for kind, of_kind in (("rollouts", answered), ("right ones", rollouts.correct)):
        masks = [window & of_kind for window in windows]
        counts = [count_answers(rollouts.prompt[mask], rollouts.answer[mask]) for mask in masks]
        size = min(counted.usual_size() for counted in counts)
        if size > 1:
            name = f"distinct of {size} {kind}"
            ends = _compare(name, [counted.expect_distinct(size) for counted in counts], means.steps, size, level)
            measures.append(Measure(f"{'of' if measures else 'distinct answers of'} {size} {kind} {{}}", ends, 1.0))
    return measures


class PromptAnswers(NamedTuple):
    """Answers of each prompt, and of each distinct answer the index of its prompt and how often it was given."""

    prompt: Int[np.ndarray, " P"]
    trials: Int[np.ndarray, " P"]
    owner: Int[np.ndarray, " S"]
    times: Int[np.ndarray, " S"]

    def usual_size(self) -> int:
        """Return the power of 2 up to the median of the prompts with two answers or more; 0 without such."""
        several = self.trials[self.trials > 1]
        return powers(int(np.quantile(several, 0.5, method="inverted_cdf")))[-1] if len(several) else 0

    def expect_distinct(self, size: int) -> Distinct:
        """Return the prompts with so many answers, and how many of as many drawn from them are distinct on average.

        An answer that x of n gave is missing from k of them with the chance C(n - x, k) / C(n, k) (rarefaction;
        Hurlbert 1971, Ecology 52): unbiased, and equal numbers of rollouts are compared.
        """
        missing = all_within(self.trials[self.owner] - self.times, self.trials[self.owner], size)
        distinct = np.bincount(self.owner, 1 - missing, len(self.prompt))
        enough = self.trials >= size
        return self.prompt[enough], distinct[enough]


def count_answers(prompt: Int[np.ndarray, " N"], answer: UInt64[np.ndarray, " N"]) -> PromptAnswers:
    """Count the answers of each prompt."""
    prompts, index = np.unique(prompt, return_inverse=True)
    answers, number = np.unique(answer, return_inverse=True)
    pairs, times = np.unique(index * len(answers) + number, return_counts=True)
    return PromptAnswers(prompts, np.bincount(index, minlength=len(prompts)), pairs // max(len(answers), 1), times)


def _compare(name: str, windows: list[Distinct], steps: list[str], size: int, level: float) -> Ends:
    """Estimate the means over prompts of one or two windows; prompts of both alone where these are many."""
    limits = (1.0, float(size))
    table = np.zeros((1 + max(prompt.max() for prompt, _ in windows), 2 * len(windows)))
    for end, (prompt, distinct) in enumerate(windows):
        table[prompt, 2 * end], table[prompt, 2 * end + 1] = distinct, 1.0
    if len(windows) == 1:
        return (jackknife_of(name, table, quotient, level, limits),)
    shared = in_common(*(prompt for prompt, _ in windows))
    table = table if shared is None else table[shared]
    first, last = (
        jackknife_of(f"{name}, {step}", table[:, 2 * end : 2 * end + 2], quotient, level, limits)
        for end, step in enumerate(steps)
    )
    change = jackknife_of(f"{name}, change", table, change_of(quotient), level, (1.0 - size, size - 1.0))
    return first, last, change


def _say(ends: Ends) -> str:
    """Write ``18.6 -> 1.01 (-17.6 [-18, -17])``, or the value with its interval."""
    if len(ends) == 1:
        return shown(ends[0])
    return f"{_arrow(ends)} ({shown(ends[-1], '+')})"


def _arrow(ends: Ends) -> str:
    return " -> ".join(plain_number(end.value) for end in ends[:2])


def _alarm(measure: Measure) -> float:
    """Return the concern: of a fall that is surely more than a tenth, and of a collapse, which leaves little."""
    if len(measure.ends) == 1:
        return CALM
    first, last = (end.value - measure.least for end in measure.ends[:2])
    if not measure.ends[-1].high < -NOTABLE * first:
        return CALM
    return COLLAPSED if last < COLLAPSE * first else ALIKE

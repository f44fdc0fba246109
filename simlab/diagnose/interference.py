"""Answer whether prompts harm one another: who is pushed down, by whom, and what pass@k loses at this pace.

A measurement predicts, to first order, the change of each prompt's solve rate by one step, with a standard error
(``simlab.interference``). Those of the last measurements are averaged, prompt by prompt: of the prompts outside of the
batches where some are watched, else of those of the batches.

In danger is a prompt whose true change is below 0. Where nobody harms anybody chance still pushes half of the prompts
down, so that none is counted for a noisy number. The interval of their share reaches from those that are surely in
danger to all but those that surely are not, by Holm's tests (1979, Scandinavian Journal of Statistics 6) of Student's
quotients: where none is in danger, one is named in at most (1 - level) / 2 of the logs, however the errors of prompts
go together. The value between is the share below 0 in the distribution of true changes that explains the measured ones.

With m of R rollouts right, a change d of the solve rate Q moves pass@k by k (1 - Q)^(k - 1) d. Its estimate

    k d C(R - 1 - m, k - 1) / C(R - 2, k - 1)

is unbiased where the mean of d for given m is in proportion to m (R - m), as it is for a covariance of rewards and
scores. The interval is Student's over measurements, each the mean over its prompts, for the errors of one batch go
together. What noise alone gives is a skewed quadratic form, of which a few draws often look too much alike: the
standard error is never below that of prompts whose errors are independent.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtr, stdtrit

from simlab.diagnose.diagnosis import Diagnosis, Finding, Rows
from simlab.diagnose.estimate import IntervalEstimate, missing, ratio, share, shown
from simlab.diagnose.mixture import fit_likelihood
from simlab.diagnose.prompts import HARD
from simlab.diagnose.reading import Reading
from simlab.diagnose.solve_rates import all_within
from simlab.diagnose.summary import describe_steps
from simlab.interference.record import Record
from simlab.intervals import half_width
from simlab.llm.instruments.pass_at_k import powers
from simlab.text import shortened

QUESTION = "do prompts harm one another?"
NAMED = 5  # prompts, and sources of harm, that are named
AHEAD = 10  # steps over which a pace is said: a line, whose slope changes as the policy does
FEWEST = 3  # measurements that tell how far one differs from another
CALM, OPEN, HARM, LOSS = 0.17, 0.25, 0.42, 0.55  # concerns; who records a probe wants to know
SPREAD = 12  # halvings of the largest measured change, the grid of true changes
CHANCES = "Holm's tests of Student's quotients"


class Changes(NamedTuple):
    """Predicted changes of a solve rate by one step, of each prompt (or source): means over the measurements.

    Attributes:
        prompts: the texts.
        mean, error: the change and its standard error.
        freedom: degrees of freedom of the error.
        rate: solve rate.
    """

    prompts: list[str]
    mean: Float[np.ndarray, " P"]
    error: Float[np.ndarray, " P"]
    freedom: Float[np.ndarray, " P"]
    rate: Float[np.ndarray, " P"]

    def select(self, mask: Bool[np.ndarray, " P"]) -> "Changes":
        """Return some of them."""
        texts = [text for text, is_chosen in zip(self.prompts, mask, strict=True) if is_chosen]
        return Changes(texts, *(column[mask] for column in self[1:]))

    def surely(self, level: float, sign: int = -1) -> Bool[np.ndarray, " P"]:
        """Find the changes below 0 (of the other sign for 1): an error in one of all, in (1 - level) / 2 of cases."""
        tails = stdtr(self.freedom, -sign * self.mean / self.error)
        order = np.argsort(tails)
        allowed = (1 - level) / 2 / np.arange(len(tails), 0, -1)
        passed = np.empty(len(tails), bool)
        passed[order] = np.logical_and.accumulate(tails[order] <= allowed)
        return passed

    def share_below(self, name: str, level: float) -> IntervalEstimate:
        """Estimate the share of prompts whose change is below 0."""
        count = len(self.mean)
        if not count:
            return missing(name, level, CHANCES)
        low, high = self.surely(level).mean(), 1 - self.surely(level, 1).mean()
        halves = np.abs(self.mean).max() * 0.5 ** np.arange(SPREAD)
        grid = np.concatenate([-halves, [0.0], halves[::-1]])
        logs = -0.5 * ((self.mean[:, None] - grid) / self.error[:, None]) ** 2
        mixture = fit_likelihood(np.exp(logs - logs.max(axis=1, keepdims=True)), np.ones(count, int))
        value = min(max(float(mixture.weights[grid < 0].sum()), low), high)
        return IntervalEstimate(name, value, float(low), float(high), level, f"{CHANCES}; mixture of points")

    def ends(self, level: float) -> Float[np.ndarray, "P 3"]:
        """Return each change with the ends of its interval, Student's."""
        halves = self.error * stdtrit(self.freedom, (1 + level) / 2)
        return np.stack([self.mean, self.mean - halves, self.mean + halves], axis=1)

    def rows(self, level: float, order: Int[np.ndarray, " n"]) -> Rows:
        """Return some prompts with their changes, each with Student's interval of its own."""
        name, method = "predicted change of a solve rate by a step", "Student's, errors of the probe"
        ends = self.ends(level)[order].tolist()
        labels = [f"  {shortened(self.prompts[at])}" for at in order]
        estimates = (IntervalEstimate(name, value, low, high, level, method) for value, low, high in ends)
        return tuple(zip(labels, estimates, strict=True))


def watched_rows(records: Sequence[Record]) -> list[Bool[np.ndarray, " N"]]:
    """Return of each measurement the mask of the prompts to answer for."""
    panel = any(not record.batch.all() for record in records)
    return [~record.batch if panel else record.batch for record in records]


def mean_changes(records: Sequence[Record]) -> Changes:
    """Average the predicted changes of each watched prompt; prompts of which nothing is known are left out.

    Rollouts all right or all wrong count as a change of 0 without error: 0 is what they measure, and without them the
    mean would be too large.
    """
    rows = [
        (text, *numbers)
        for record, mask in zip(records, watched_rows(records), strict=True)
        for text, numbers, watched in zip(record.prompts, np.stack(_columns(record), axis=1), mask, strict=True)
        if watched
    ]
    return _averaged(rows)


def _columns(record: Record) -> tuple[np.ndarray, ...]:
    net, error = record.interference.push.net, record.interference.error.net
    return record.pace * net, (record.pace * error) ** 2, record.rollouts, record.solve_rate


def _averaged(rows: Sequence[tuple[Any, ...]]) -> Changes:
    """Average rows of text, change, its variance, rollouts and solve rate by text (Satterthwaite 1946)."""
    if not rows:
        return Changes([], *np.zeros((4, 0)))
    texts, index = np.unique([row[0] for row in rows], return_inverse=True)
    change, variance, rollouts, rate = np.array([row[1:] for row in rows], float).T

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(index, values, len(texts))

    count, variances, squares = total(np.ones(len(index))), total(variance), total(variance**2 / (rollouts - 1))
    means, errors, freedom = total(change) / count, np.sqrt(variances) / count, ratio(variances**2, squares)
    rates = total(rate * rollouts) / total(rollouts)
    return Changes([str(text) for text in texts], means, errors, freedom, rates).select(variances > 0)


def pass_at_k_change(records: Sequence[Record], level: float) -> tuple[int, IntervalEstimate]:
    """Return k, the power of 2 up to half the fewest rollouts, and the change of pass@k by a step, over the prompts.

    For k close to the rollouts only prompts with a single right one would count.
    """
    masks = watched_rows(records)
    fewest = min(int(record.rollouts[mask].min()) for record, mask in zip(records, masks, strict=True))
    k = powers(fewest // 2)[-1]
    values, variances = [], []
    for record, mask in zip(records, masks, strict=True):
        change, variance, rollouts, rate = (column[mask] for column in _columns(record))
        wrong = np.round(rollouts * (1 - rate)).astype(int)
        factor = k * all_within(np.maximum(wrong - 1, 0), rollouts - 2, k - 1) / len(change)
        values.append(float(factor @ change))
        variances.append(float(factor**2 @ variance))
    name, method, value, count = f"change of pass@{k} a step", "Student's over measurements", fmean(values), len(values)
    if count < FEWEST:
        return k, missing(name, level, method, value)
    half = float(half_width(math.sqrt(max(float(np.var(values, ddof=1)), fmean(variances)) / count), count, level))
    return k, IntervalEstimate(name, value, value - half, value + half, level, method)


def harm_by_source(records: Sequence[Record], targets: set[str]) -> Changes:
    """Average what each source of the batches does to the mean solve rate of some prompts, when it is in the batch.

    Standard errors are bounds: those of one source's entries are added up, for they share its rollouts.
    """
    rows = []
    for record, mask in zip(records, watched_rows(records), strict=True):
        columns = mask & record.recorded & np.array([text in targets for text in record.prompts])
        for source in np.flatnonzero(record.batch) if columns.any() else ():
            others = columns & (np.arange(len(columns)) != source)
            push, error = (
                record.pace * float(matrix[source, others].sum()) / max(int(others.sum()), 1)
                for matrix in (record.interference.kernel, record.interference.kernel_error)
            )
            count, rate = float(record.rollouts[source]), float(record.solve_rate[source])
            rows.append((record.prompts[source], push, error**2, count, rate))
    return _averaged(rows)


def do_prompts_harm_one_another(reading: Reading, result: Diagnosis) -> Finding | None:
    """Answer by the measurements beside the log; None without any."""
    records, level = reading.probe, result.level
    if not records:
        return None
    changes = mean_changes(records)
    about = _about(records, changes)
    if not changes.prompts:
        sentence = "Whether prompts harm one another is not told: all rollouts of each are right, or all are wrong."
        return Finding(QUESTION, sentence, OPEN, about)
    danger = changes.share_below("share of prompts in danger", level)
    hard = changes.select(changes.rate <= HARD).share_below("share of hard prompts in danger", level)
    k, loss = pass_at_k_change(records, level)
    pace = loss.linear(f"change of pass@{k} in {AHEAD} steps", 0.0, AHEAD).within(-1.0, 1.0)
    # Predicted changes are those of the optimiser's steps where its preconditioner is known, or it has none.
    in_steps = records[-1].facts["preconditioner"] != "none" or "sgd" in records[-1].facts["optimizer"]
    step = "step" if in_steps else "plain gradient step"
    lost = changes.surely(level)
    order = np.argsort(stdtr(changes.freedom, changes.mean / changes.error), kind="stable")
    rows: Rows = (
        *about,
        ("prompts in danger", danger),
        (f"of those solved at most {HARD:.0%} of the time", hard),
        (f"pass@{k}, predicted change in {AHEAD} {step}s", pace),
        (f"most in danger, solve rate's change by a {step}", ""),
        *changes.rows(level, order[: max(min(int(lost.sum()), NAMED), 1)]),
    )
    if not lost.any():
        sentence, concern = _sentence_without_names(danger, pace, len(changes.mean))
        return Finding(QUESTION, f"{sentence} {_pace_sentence(pace, k, in_steps)}", concern, rows)
    sources = harm_by_source(records, set(changes.select(lost).prompts))
    worst = np.argsort(sources.mean, kind="stable")[:NAMED]
    rows += ((f"their change by a {step} of a prompt of the batch", ""), *sources.rows(level, worst))
    of_hard = "" if math.isnan(hard.value) else f" ({share(hard)} of the hard ones)"
    names = f"surely {_names(changes, order[: int(lost.sum())])}; {_by_whom(sources, level)}"
    sentence = f"Prompts harm one another: {share(danger)} of the {_kind(records)}{of_hard}, {names}."
    return Finding(QUESTION, f"{sentence} {_pace_sentence(pace, k, in_steps)}", LOSS if pace.high < 0 else HARM, rows)


def _sentence_without_names(danger: IntervalEstimate, pace: IntervalEstimate, count: int) -> tuple[str, float]:
    """Return what is said, and its concern, where no prompt is surely pushed down."""
    if pace.high < 0:
        return "Prompts harm one another, though no single one is surely pushed down.", HARM
    if danger.high <= HARM:
        return f"No prompt is surely pushed down by others, and {1 - danger.high:.0%} are surely pushed up.", CALM
    why = "More rollouts of each prompt, or more measurements, would tell."
    return f"Whether prompts harm one another is open: which of {count} are pushed down is lost in noise. {why}", OPEN


def _pace_sentence(pace: IntervalEstimate, k: int, in_steps: bool) -> str:
    """Say what pass@k loses; of plain gradient steps, where the optimiser takes others, only whether it does."""
    if math.isnan(pace.low):
        return f"What pass@{k} loses is not told by fewer than {FEWEST} measurements."
    verb = "rises" if pace.sign > 0 else "falls"
    if not in_steps:
        why = "the last layer alone knows nothing of the optimiser"
        return f"At this pace pass@{k} {verb if pace.sign else 'may move either way'}; how fast is not told, for {why}."
    if not pace.sign:
        return f"At this pace pass@{k} moves by {shown(pace, '+', '.2g')} in {AHEAD} steps, which may be chance."
    size = pace if pace.sign > 0 else pace.linear(pace.name, 0.0, -1.0)
    return f"At this pace pass@{k} {verb} by {shown(size, form='.2g')} in {AHEAD} steps."


def _by_whom(sources: Changes, level: float) -> str:
    harmful = sources.surely(level)
    if not harmful.any():
        return "by whom is lost in noise"
    order = np.argsort(np.where(harmful, sources.mean, np.inf), kind="stable")[: int(harmful.sum())]
    return f"mostly by {_names(sources, order)}"


def _about(records: Sequence[Record], changes: Changes) -> Rows:
    """Say what was measured."""
    kinds = {"full": "gradients of all that is trained", "head": "the last layer alone"}
    first, last = records[0], records[-1]
    number = f"{len(records)} at {describe_steps(first.step, last.step)}, by {kinds[last.facts['estimator']]}"
    every = {text for r, mask in zip(records, watched_rows(records), strict=True) for text in np.array(r.prompts)[mask]}
    return (("measurements", number), ("prompts whose push is known", f"{len(changes.mean):,} of {len(every):,}"))


def _kind(records: Sequence[Record]) -> str:
    if any(not record.batch.all() for record in records):
        return "watched prompts are pushed down by the updates"
    return "prompts are pushed down by others more than up by themselves"


def _names(changes: Changes, order: Int[np.ndarray, " n"]) -> str:
    names = [shortened(changes.prompts[at]) for at in order[:NAMED]]
    more = len(order) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")

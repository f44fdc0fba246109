"""Tell how long right and wrong rollouts are, how many were cut off, and what the mean of a loss makes of it."""

import numpy as np
from jaxtyping import Float

from simlab.diagnose.diagnosis import Diagnosis, Finding
from simlab.diagnose.estimate import IntervalEstimate, share, shown
from simlab.diagnose.means import POSITIVE, Means
from simlab.diagnose.reading import Reading

QUESTION = "are wrong rollouts cut off or longer, and what does the loss make of it?"
CUT_OFF, LENGTH = "{} rollouts cut off", "tokens of {} rollouts"
TIMES = "tokens of wrong rollouts by those of right"
WEIGHT = "weight of {} tokens if averaged by sequence"
ByLabel = dict[str, IntervalEstimate]
MOST_CONCERN = 0.8  # where all wrong rollouts are cut off, or their tokens weigh nothing


def are_lengths_a_bias(reading: Reading, result: Diagnosis) -> Finding | None:
    """Compare right and wrong rollouts by truncation and length; None where the log has neither."""
    means, rollouts = Means(reading, result), reading.rollouts
    cut, lengths, weights = ByLabel(), ByLabel(), ByLabel()
    if rollouts.truncated is not None:
        cut = _by_kind(means, reading, rollouts.truncated, CUT_OFF)
    if rollouts.length is not None:
        lengths = _by_kind(means, reading, rollouts.length, LENGTH)
        weights = _weights(means, reading, rollouts.length)
    if not cut and not lengths:
        return None
    wrong_cut, weight = cut.get(CUT_OFF.format("wrong")), weights.get(WEIGHT.format("wrong"))
    concerns = [0.0, wrong_cut.value if wrong_cut else 0.0, 1 - weight.value if weight else 0.0]
    rows = tuple((cut | lengths | weights).items())
    return Finding(QUESTION, _say(cut, lengths, weights), MOST_CONCERN * max(concerns), rows)


def _by_kind(means: Means, reading: Reading, values: Float[np.ndarray, " N"], name: str) -> ByLabel:
    """Estimate the mean of wrong and of right rollouts, and its change over steps, as far as there are such."""
    correct = reading.rollouts.correct
    estimates: ByLabel = {}
    for kind, mask in (("wrong", ~correct), ("right", correct)):
        label = name.format(kind)
        mean = means.share(label, values, mask) if name is CUT_OFF else means.mean(label, values, mask, POSITIVE)
        change = means.change(f"{label}, change", values, mask)
        estimates |= {row.name: row for row in (mean, change) if row is not None and np.isfinite(row.value)}
    return estimates


def _weights(means: Means, reading: Reading, length: Float[np.ndarray, " N"]) -> ByLabel:
    """Compare two ways to average a loss, in groups that hold right and wrong rollouts, which teach the difference.

    Averaged over each sequence first, a token of a rollout of length L weighs 1 / (N L), else 1 / sum L. Tokens of
    wrong rollouts thus weigh (mean L) / (mean L of wrong ones) times as much in the first.
    """
    log, correct = reading.log, reading.rollouts.correct
    teaches = ((log.correct > 0) & (log.correct < log.group_size))[reading.rollouts.group]
    wrong, right = teaches & ~correct, teaches & correct
    rows = [
        means.quotient_of_means(TIMES, length, ~correct, correct),
        means.quotient_of_means(WEIGHT.format("wrong"), length, teaches, wrong),
        means.quotient_of_means(WEIGHT.format("right"), length, teaches, right),
    ]
    return {row.name: row for row in rows if np.isfinite(row.value)}


def _say(cut: ByLabel, lengths: ByLabel, weights: ByLabel) -> str:
    """Say the shares, lengths and weights that there are, in at most 40 words."""
    kinds = ("wrong", "right")
    shares = [f"{share(cut[CUT_OFF.format(kind)])} of {kind}" for kind in kinds if CUT_OFF.format(kind) in cut]
    clauses = [f"{' and '.join(shares)} rollouts are cut off"] if shares else []
    if TIMES in weights:
        clauses.append(f"{'wrong ones' if clauses else 'wrong rollouts'} are {shown(weights[TIMES])} times as long")
    else:
        tokens = {kind: lengths[LENGTH.format(kind)] for kind in kinds if LENGTH.format(kind) in lengths}
        clauses += [f"{kind} rollouts have {shown(mean)} tokens" for kind, mean in tokens.items()]
    sentence = "; ".join(clauses).capitalize() + "."
    if (weight := weights.get(WEIGHT.format("wrong"))) is not None:
        sentence += f" Averaging the loss by sequence, not token, weighs their tokens {shown(weight)} times as much."
    return sentence

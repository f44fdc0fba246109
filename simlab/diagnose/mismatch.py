"""Tell how far the trainer's probabilities are from the sampler's, and what correcting for it costs."""

import numpy as np
from jaxtyping import Float

from simlab.diagnose.diagnosis import Diagnosis, Finding
from simlab.diagnose.estimate import IntervalEstimate, percent, ratio, share, shown
from simlab.diagnose.means import ANY, POSITIVE, Function, Means
from simlab.diagnose.reading import Reading
from simlab.diagnose.reading.cells import CUT, SUMS, weigh

QUESTION = "do sampler and trainer agree?"
SHARE = (0.0, 1.0)
CLOSE = 0.99  # effective share from which they agree
IMPOSSIBLE, DIFFER = 0.7, 0.5  # concerns, at least


def do_sampler_and_trainer_agree(reading: Reading, result: Diagnosis) -> Finding | None:
    """Compare both log-probabilities; None where the log lacks one of them.

    Rollouts are drawn by the sampler, so that the mean of log p - log q cannot lie above 0, which it would be minus the
    divergence of q from p; the weight p / q has the mean 1, and its effective share is (sum w)^2 / (n sum w^2).
    """
    rollouts, means = reading.rollouts, Means(reading, result)
    if rollouts.log_probability is None or rollouts.sampler_log_probability is None:
        return None
    log_ratio = rollouts.log_probability - rollouts.sampler_log_probability
    counted = np.isfinite(log_ratio)
    if not counted.any():
        return None
    columns = [np.where(counted, column, 0.0) for column in weigh(np.where(counted, log_ratio, 0.0))]
    rows = {f"rollouts: {name}": row for name, row in _estimates(means, columns).items()}
    if rollouts.token_ratios:
        of_tokens = [np.nan_to_num(rollouts.token_ratios[name]) for name in SUMS]
        rows = {f"tokens: {name}": row for name, row in _estimates(means, of_tokens).items()} | rows
    return _answer(rows, "tokens" if rollouts.token_ratios else "rollouts")


def _estimates(means: Means, columns: list[Float[np.ndarray, " N"]]) -> dict[str, IntervalEstimate]:
    """Estimate what the sums over tokens, or over rollouts, tell."""
    rows = {name: means.estimate(name, columns, *how) for name, how in FUNCTIONS.items()}
    if means.ends:
        rows |= {row.name: row for row in means.over_steps(EFFECTIVE, columns, *FUNCTIONS[EFFECTIVE])}
    return rows


# Functions of the columns ``SUMS``: n, sum d, sum d^2, sum w, sum w^2, n of w > 2, sum of w > 2.
MEAN, SPREAD, EFFECTIVE = "mean log-ratio", "spread of log-ratio", "effective share"
ABOVE = "share of weights above 2"
FUNCTIONS: dict[str, tuple[Function, tuple[float, float]]] = {
    MEAN: (lambda s: ratio(s[:, 1], s[:, 0]), ANY),
    SPREAD: (
        lambda s: np.asarray(np.sqrt(np.maximum(ratio(s[:, 2], s[:, 0]) - ratio(s[:, 1], s[:, 0]) ** 2, 0))),
        POSITIVE,
    ),
    EFFECTIVE: (lambda s: ratio(s[:, 3] ** 2, s[:, 0] * s[:, 4]), SHARE),
    ABOVE: (lambda s: ratio(s[:, 5], s[:, 0]), SHARE),
    "weight lost by truncation at 2": (lambda s: ratio(s[:, 6] - CUT * s[:, 5], s[:, 3]), SHARE),
    "weight lost by a mask above 2": (lambda s: ratio(s[:, 6], s[:, 3]), SHARE),
}


def _answer(rows: dict[str, IntervalEstimate], unit: str) -> Finding:
    """Say it of tokens where they are known, and of rollouts."""
    divergence, width, effect = (rows[f"{unit}: {name}"] for name in (MEAN, SPREAD, EFFECTIVE))
    concern = 1 - effect.value
    if divergence.low > 0:
        verdict, concern = "They cannot both be right (temperature, top-p or tokens differ?)", max(concern, IMPOSSIBLE)
    elif effect.value >= CLOSE:
        verdict = "Sampler and trainer agree"
    else:
        verdict, concern = "Sampler and trainer differ: correct for it, or mend the sampler", max(concern, DIFFER)
    sentence = f"{verdict}. Log-ratios of {unit} spread by {shown(width, form='.2g')} nats; "
    sentence += f"{share(effect)} of {unit} count"
    if unit == "tokens":
        sentence += f", of whole rollouts {share(rows[f'rollouts: {EFFECTIVE}'])}"
    sentence += f"; truncation at 2 meets {percent(rows[f'{unit}: {ABOVE}'].value)}."
    return Finding(QUESTION, sentence, concern, tuple(rows.items()))

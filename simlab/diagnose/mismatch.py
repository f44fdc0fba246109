"""Tell how far the trainer's probabilities are from the sampler's, and what correcting for it costs."""

import numpy as np
from jaxtyping import Float

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import IntervalEstimate, percent, ratio, share, shown
from simlab.diagnose.findings import Finding
from simlab.diagnose.means import ANY, POSITIVE, Means
from simlab.diagnose.reading import Reading
from simlab.diagnose.reading.ratios import CUT, SUMS, weigh

QUESTION = "do sampler and trainer agree?"
SHARE = (0.0, 1.0)
CLOSE = 0.99  # effective share from which they agree
IMPOSSIBLE, DIFFER = 0.7, 0.5  # concerns, at least
Sums = Float[np.ndarray, "rows 7"]
Values = Float[np.ndarray, " rows"]


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
    rows = {name: means.estimate(name, columns, function, limits) for name, function, limits in FUNCTIONS}
    if means.first is not None:
        rows |= {row.name: row for row in means.over_steps(EFFECTIVE, columns, effective, SHARE)}
    return rows


def mean(sums: Sums) -> Values:
    """Return the mean of log p - log q, in nats."""
    return ratio(sums[:, 1], sums[:, 0])


def spread(sums: Sums) -> Values:
    """Return its standard deviation."""
    return np.asarray(np.sqrt(np.maximum(ratio(sums[:, 2], sums[:, 0]) - mean(sums) ** 2, 0)))


def effective(sums: Sums) -> Values:
    """Return (sum w)^2 / (n sum w^2)."""
    return ratio(sums[:, 3] ** 2, sums[:, 0] * sums[:, 4])


def above(sums: Sums) -> Values:
    """Return the share with w > 2."""
    return ratio(sums[:, 5], sums[:, 0])


def cut(sums: Sums) -> Values:
    """Return the part of all weight that min(w, 2) takes away."""
    return ratio(sums[:, 6] - CUT * sums[:, 5], sums[:, 3])


def masked(sums: Sums) -> Values:
    """Return the part of all weight that has w > 2."""
    return ratio(sums[:, 6], sums[:, 3])


MEAN, SPREAD, EFFECTIVE = "mean log-ratio", "spread of log-ratio", "effective share"
ABOVE = "share of weights above 2"
FUNCTIONS = (
    (MEAN, mean, ANY),
    (SPREAD, spread, POSITIVE),
    (EFFECTIVE, effective, SHARE),
    (ABOVE, above, SHARE),
    ("weight lost by truncation at 2", cut, SHARE),
    ("weight lost by a mask above 2", masked, SHARE),
)


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
    sentence = (
        f"{verdict}. Log-ratios of {unit} spread by {shown(width, form='.2g')} nats; {share(effect)} of {unit} count"
    )
    if unit == "tokens":
        sentence += f", of whole rollouts {share(rows[f'rollouts: {EFFECTIVE}'])}"
    return Finding(
        QUESTION,
        f"{sentence}; truncation at 2 meets {percent(rows[f'{unit}: {ABOVE}'].value)}.",
        concern,
        tuple(rows.items()),
    )

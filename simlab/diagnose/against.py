"""Compare pass@k of two logs, or of the first and the last steps of one, with intervals of the difference."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simlab.diagnose.diagnosis import Diagnosis, Finding, Rows
from simlab.diagnose.estimate import IntervalEstimate, difference
from simlab.diagnose.log import Log
from simlab.diagnose.means import in_common
from simlab.diagnose.reading import Reading
from simlab.diagnose.solve_rates import (
    all_within,
    carried_ks,
    count_by_prompt,
    fit_population,
    pass_at_k,
    split_windows,
)
from simlab.diagnose.summary import describe_steps

NARROWER = " Many tries solve fewer prompts than before: hold up entropy, or weigh rare successes more."
VERDICTS = {  # by the signs of the changes of pass@1 and of the largest pass@k: in words, concern, advice
    (1, 1): ("It learns", 0.1, ""),
    (1, 0): ("It learns", 0.1, ""),
    (1, -1): ("It learns and narrows", 0.7, NARROWER),
    (0, 1): ("It widens", 0.1, ""),
    (0, 0): ("Whether it learns is open", 0.4, " The changes may be chance."),
    (0, -1): ("It narrows", 0.7, NARROWER),
    (-1, 1): ("It unlearns and widens", 0.6, " Find what changed before training on."),
    (-1, 0): ("It unlearns", 0.8, " Find what changed before training on."),
    (-1, -1): ("It unlearns", 0.8, " Find what changed before training on."),
}


class Comparison(NamedTuple):
    """Pass@k of several logs at each ``k``, and its change from the first to the last of them.

    Attributes:
        curves: of each log, at each k; of those between the first and the last at the ends of ``k``.
        prompts: in words, which are compared.
    """

    k: tuple[int, ...]
    curves: tuple[tuple[IntervalEstimate, ...], ...]
    change: tuple[IntervalEstimate, ...]
    prompts: str

    @property
    def ends(self) -> tuple[int, ...]:
        """The indices of the least and the largest k."""
        return (0, -1) if len(self.k) > 1 else (0,)


def does_it_learn(reading: Reading, result: Diagnosis) -> Finding | None:
    """Compare the windows of a log; None where there is one."""
    windows = split_windows(reading.log, len(result.solve_rates.windows))
    if len(windows) < 2:
        return None
    compared = compare(windows, result.level)
    verdict, concern, advice = VERDICTS[compared.change[0].sign, compared.change[-1].sign]
    names = [describe_steps(int(log.step[0]), int(log.step[-1])) for log in windows]
    return Finding("does it learn?", f"{verdict}: {_say(compared)}.{advice}", concern, _rows(compared, names))


def compare_logs(reading: Reading, other: Reading, names: tuple[str, str], level: float) -> Finding:
    """Compare the last windows of two logs, from ``other`` to ``reading``; ``names`` are theirs in this order."""
    numbers = {text: number for number, text in enumerate(reading.rollouts.prompt_hashes)}
    mapped = np.array([numbers.setdefault(text, len(numbers)) for text in other.rollouts.prompt_hashes])
    before = dataclasses.replace(other.log, prompt=mapped[other.log.prompt])
    logs = [split_windows(log)[-1] for log in (before, reading.log)]
    compared = compare(logs, level)
    _, concern, advice = VERDICTS[compared.change[0].sign, compared.change[-1].sign]
    steps = [describe_steps(int(log.step[0]), int(log.step[-1])) for log in logs]
    rows = _rows(compared, [f"{name}, {step}" for name, step in zip(names, steps, strict=True)])
    sentence = f"From {names[0]} to {names[1]}, {_say(compared)}.{advice}"
    return Finding(f"what changed from {names[0]} to {names[1]}?", sentence, concern, rows)


def log_names(before: Path, after: Path) -> tuple[str, str]:
    """Return the names of two files, with their folders where they are equal.

    >>> log_names(Path("a/log.jsonl"), Path("b/log.jsonl")), log_names(Path("base.csv"), Path("b/new.csv"))
    (('a/log.jsonl', 'b/log.jsonl'), ('base.csv', 'new.csv'))
    """
    return (before.name, after.name) if before.name != after.name else (str(before), str(after))


def compare(logs: Sequence[Log], level: float) -> Comparison:
    """Compare logs in which a prompt has one number.

    Prompts that the first and the last have in common are compared alone where these are many; a log between that has
    none of them has no curve. The correlation of both over these prompts makes the intervals paired ones.
    """
    first, last = (np.unique(log.prompt) for log in (logs[0], logs[-1]))
    shared = in_common(first, last)
    prompts = f"{len(first):,} and {len(last):,}, {len(np.intersect1d(first, last)):,} of them in both"
    if shared is not None:
        logs = [log.select(np.isin(log.prompt, shared)) for log in logs]
        prompts = f"{len(shared):,} that both have"
    populations = [fit_population(log, level) if len(log.prompt) else None for log in logs]
    ks = min((carried_ks(now) for now in (populations[0], populations[-1]) if now), key=len)
    ks_of_logs = [ks, *[(ks[0], ks[-1])] * (len(logs) - 2), ks]
    curves = tuple(pass_at_k(now, of) if now else () for now, of in zip(populations, ks_of_logs, strict=True))
    pairs = zip(ks, curves[0], curves[-1], strict=True)
    changes = tuple(
        difference(f"change of pass@{k}", before, after, _correlation(logs[0], logs[-1], k)).within(-1, 1)
        for k, before, after in pairs
    )
    return Comparison(ks, curves, changes, prompts)


def _correlation(first: Log, last: Log, k: int) -> float:
    """Correlate pass@k of the prompts that have k rollouts in both logs; 0 where it does not vary."""
    both = [count_by_prompt(log) for log in (first, last)]
    first_prompts, last_prompts = (counts.prompt[counts.trials >= k] for counts in both)
    shared = np.intersect1d(first_prompts, last_prompts)
    masks = [np.isin(counts.prompt, shared) for counts in both]
    missed = np.stack([
        all_within((counts.trials - counts.successes)[mask], counts.trials[mask], k)
        for counts, mask in zip(both, masks, strict=True)
    ])  # fmt: skip
    return float(np.corrcoef(missed)[0, 1]) if len(shared) > 1 and np.ptp(missed, axis=1).min() > 0 else 0.0


def _say(compared: Comparison) -> str:
    """Write ``pass@1 .295 -> .526 (+.231 [+.2, +.26]) while pass@8 .887 -> .562 (-.325 [-.36, -.29])``."""
    clauses = []
    for index in compared.ends:
        first, last, change = compared.curves[0][index], compared.curves[-1][index], compared.change[index]
        by = f"{_short(change.value, '+')} [{_short(change.low, '+')}, {_short(change.high, '+')}]"
        clauses.append(f"pass@{compared.k[index]} {_short(first.value)} -> {_short(last.value)} ({by})")
    opposite = compared.change[0].value * compared.change[-1].value < 0
    return (" while " if opposite else " and ").join(clauses)


def _short(number: float, sign: str = "") -> str:
    """Write a share.

    >>> _short(0.2954), _short(-0.3251, "+"), _short(1)
    ('.295', '-.325', '1.000')
    """
    return f"{number:{sign}.3f}".replace("0.", ".", 1) if abs(number) < 0.9995 else f"{number:{sign}.3f}"


def _rows(compared: Comparison, names: Sequence[str]) -> Rows:
    pairs = [(name, curve) for name, curve in zip(names, compared.curves, strict=True) if curve]
    values = [(f"pass@{compared.k[end]}, {name}", curve[end]) for end in compared.ends for name, curve in pairs]
    changes = [(change.name, change) for change in compared.change]
    return (*values, *changes, ("prompts", compared.prompts))

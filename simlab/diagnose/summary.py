"""Write a log's contents, and a diagnosis of it, for a terminal: five sentences, and the numbers behind them."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from simlab.diagnose.diagnosis import Diagnosis, Finding
from simlab.diagnose.estimate import IntervalEstimate, shown
from simlab.diagnose.reading import Reading
from simlab.text import plain_number

WIDTH = 80  # columns of a terminal
LABEL = 45  # columns of it for what a number is
SENTENCES = 5
GAPS = "docs/diagnose.md#what-a-log-cannot-tell"
COMMON_SIZES = 4  # sizes of groups that are named


def contents_json(reading: Reading) -> dict[str, Any]:
    """Return the contents of a log, for JSON; ``mean_reward`` is of rows, before the threshold."""
    log, logp = reading.log, reading.rollouts.log_probability
    sizes, groups = np.unique(log.group_size, return_counts=True)
    return {
        "format": log.format,
        "files": reading.files,
        "rows": int(log.group_size.sum()),
        "refused": {"count": log.refused.count, "first": log.refused.first},
        "prompts": len(np.unique(log.prompt)),
        "groups": len(log.prompt),
        "steps": {"number": len(np.unique(log.step)), "first": int(log.step[0]), "last": int(log.step[-1])},
        "group_sizes": {str(size): int(count) for size, count in zip(sizes, groups, strict=True)},
        "columns": reading.columns.of,
        "reward": reading.reward,
        "mean_reward": reading.mean_reward,
        "solve_rate": float(log.correct.sum() / log.group_size.sum()),
        "all_right": float((log.correct == log.group_size).mean()),
        "all_wrong": float((log.correct == 0).mean()),
        "answer": reading.answer,
        "distinct_answers": None if log.answers is None else len(np.unique(log.answers.answer)),
        "log_probabilities": 0 if logp is None else int(np.isfinite(logp).sum()),
        "truncated": truncated_shares(reading),
        "notes": [*reading.warnings, *reading.notes],
    }


def truncated_shares(reading: Reading) -> dict[str, float] | None:
    """Return the share of truncated rollouts, of all, the right and the wrong; None where the log does not say."""
    rollouts = reading.rollouts
    if rollouts.truncated is None:
        return None
    logged = np.isfinite(rollouts.truncated)
    masks = {"all": logged, "right": logged & rollouts.correct, "wrong": logged & ~rollouts.correct}
    return {name: float(rollouts.truncated[mask].mean()) for name, mask in masks.items() if mask.any()}


def contents_lines(reading: Reading) -> list[str]:
    """Return the contents of a log, a line each."""
    entries = contents_json(reading)
    steps, refused, answers = entries["steps"], entries["refused"], entries["distinct_answers"]
    shares = (entries["truncated"] or {}).items()
    solutions = "not told:" if answers is None else f"{answers:,} distinct correct answers"
    rows = [
        *(("WARNING", warning) for warning in reading.warnings),
        ("format", f"{entries['format']}, {entries['files']:,} file{'' if entries['files'] == 1 else 's'}"),
        ("columns", reading.guessed),
        ("rows", f"{entries['rows']:,}, and {refused['count']:,} refused"),
        ("prompts", f"{entries['prompts']:,}"),
        ("groups", f"{entries['groups']:,} of {_describe_sizes(entries['group_sizes'])}"),
        ("steps", f"{steps['number']:,}, from {steps['first']} to {steps['last']}"),
        ("reward", f"{plain_number(entries['mean_reward'], 4)} on average ({entries['reward']})"),
        ("correct", f"{entries['solve_rate']:.1%} of rollouts"),
        ("no signal", f"{entries['all_right']:.1%} of groups are all right, {entries['all_wrong']:.1%} all wrong"),
        ("solutions", f"{solutions} ({reading.answer})"),
        *[("truncated", ", ".join(f"{share:.1%} of {name}" for name, share in shares))] * bool(shares),
        *(("note", note) for note in reading.notes),
        *(("refused", why) for why in refused["first"]),
    ]
    more = refused["count"] - len(refused["first"])
    rows += [("refused", f"and {more:,} more")] * bool(more)
    return [line for label, text in rows for line in _wrap(f"{label:<12}{text}", 12)]


def _describe_sizes(groups: dict[str, int]) -> str:
    """Name the most common sizes.

    >>> _describe_sizes({"1": 1, "2": 1, "3": 1, "4": 1, "6": 2})
    '6 rollouts (2), 1 (1), 2 (1), 3 (1), other sizes: 1'
    """
    common = sorted(groups.items(), key=lambda item: -item[1])
    names = [f"{size} ({count:,})" for size, count in common[:COMMON_SIZES]]
    names += [f"other sizes: {others}"] if (others := len(common) - COMMON_SIZES) > 0 else []
    return ", ".join(names).replace(" (", " rollouts (", 1)


def summary(reading: Reading, result: Diagnosis, findings: Sequence[Finding]) -> list[str]:
    """Return the sentences of the first findings, their numbers, and how the log was read; JSON and page hold all."""
    window = result.solve_rates.windows[-1]
    most, others = findings[:SENTENCES], [finding.question for finding in findings[SENTENCES:]]
    lines = [line for warning in reading.warnings for line in _entry("WARNING", warning)]
    lines += [line for number, finding in enumerate(most, 1) for line in _wrap(f"{number}. {finding.sentence}", 3)]
    lines += ["", f"{describe_steps(window.first, window.last):<{LABEL}} {'value':<9} {result.level:.0%} interval"]
    for finding in most:
        lines += [finding.question, *(line for row in finding.rows for line in _row(*row))]
    lines += ["", *_entry("log", describe_log(reading)), *_entry("read", reading.guessed.removeprefix("read "))]
    lines += _entry("also", f"{' '.join(others)} (--html, --json)") if others else []
    return [*lines, *_entry("not told", f"{len(result.untold)} questions: {GAPS}")]


def describe_log(reading: Reading) -> str:
    """Say in a line how much was read."""
    entries = contents_json(reading)
    steps, refused = entries["steps"], entries["refused"]
    rows = f"{entries['rows']:,} rollouts of {entries['prompts']:,} prompts in {entries['groups']:,} groups"
    why = f" ({refused['first'][0]})" if refused["first"] else ""
    unscored = f", {reading.unscored:,} without a reward left out" if reading.unscored else ""
    return f"{rows}, {describe_steps(steps['first'], steps['last'])}; {refused['count']:,} rows refused{why}{unscored}"


def describe_steps(first: int, last: int) -> str:
    """Write ``steps 3 to 7``, or ``step 3``."""
    return f"step {first}" if first == last else f"steps {first} to {last}"


def number_and_interval(value: IntervalEstimate | str) -> tuple[str, str]:
    """Return the two cells of a number: itself, and its interval."""
    if isinstance(value, str):
        return value, ""
    number, _, interval = shown(value).partition(" ")
    return number, interval


def _row(label: str, value: IntervalEstimate | str) -> list[str]:
    number, interval = number_and_interval(value)
    line = f"  {label:<{LABEL - 2}} {number:<9} {interval}".rstrip()
    return [line] if len(line) <= WIDTH else _wrap(f"  {label}: {number} {interval}", 4)


def _entry(label: str, text: str) -> list[str]:
    return _wrap(f"{label:<10}{text}", 10)


def _wrap(line: str, indent: int) -> list[str]:
    """Fit a line to the terminal; commands and names are not broken."""
    return textwrap.wrap(line, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)

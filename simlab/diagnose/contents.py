"""What a log holds, before anything is estimated: its rows, groups, steps, rewards and answers."""

from typing import Any

import numpy as np

from simlab.diagnose.reading import Reading

COMMON_SIZES = 4  # sizes of groups that are named


def as_entries(reading: Reading) -> dict[str, Any]:
    """What a log holds, as JSON has it.

    Shares are of groups; ``mean_reward`` is of rows, before the threshold. ``distinct_answers`` counts the correct
    answers of each prompt once, and is null without answers.
    """
    log = reading.log
    sizes, groups = np.unique(log.group_size, return_counts=True)
    return {
        "format": log.format,
        "files": reading.files,
        "rows": int(log.group_size.sum()),
        "refused": {"count": log.refused.count, "first": list(log.refused.first)},
        "prompts": len(np.unique(log.prompt)),
        "groups": len(log.prompt),
        "steps": {"number": len(np.unique(log.step)), "first": int(log.step[0]), "last": int(log.step[-1])},
        "group_sizes": {str(size): int(count) for size, count in zip(sizes, groups, strict=True)},
        "reward": reading.reward,
        "mean_reward": reading.mean_reward,
        "solve_rate": float(log.correct.sum() / log.group_size.sum()),
        "all_right": float((log.correct == log.group_size).mean()),
        "all_wrong": float((log.correct == 0).mean()),
        "answer": reading.answer,
        "distinct_answers": None if log.answers is None else len(np.unique(log.answers.answer)),
        "log_probabilities": 0 if log.confidence is None else len(log.confidence.group),
        "notes": list(reading.notes),
    }


def in_words(reading: Reading) -> list[str]:
    """What a log holds, a line each."""
    found = as_entries(reading)
    steps, refused = found["steps"], found["refused"]
    lines = [
        f"format      {found['format']}, {_number(found['files'], 'file')}",
        f"rows        {found['rows']:,}, and {refused['count']:,} refused",
        f"prompts     {found['prompts']:,}",
        f"groups      {found['groups']:,} of {_sizes(found['group_sizes'])}",
        f"steps       {steps['number']:,}, from {steps['first']} to {steps['last']}",
        f"reward      {found['mean_reward']:.4g} on average ({found['reward']})",
        f"correct     {found['solve_rate']:.1%} of rollouts",
        f"no signal   {found['all_right']:.1%} of groups are all right, {found['all_wrong']:.1%} all wrong",
        f"solutions   {_solutions(found)}",
    ]
    if found["log_probabilities"]:
        drawn = ", drawn at random" if found["log_probabilities"] < found["rows"] else ""
        lines.append(f"likelihood  log-probabilities of {found['log_probabilities']:,} rollouts{drawn}")
    lines += [f"note        {note}" for note in found["notes"]]
    return lines + [f"refused     {why}" for why in refused["first"]] + _more(refused)


def _solutions(found: dict[str, Any]) -> str:
    if found["distinct_answers"] is None:
        return f"not told: {found['answer']}"
    return f"{found['distinct_answers']:,} distinct correct answers ({found['answer']})"


def _more(refused: dict[str, Any]) -> list[str]:
    left = refused["count"] - len(refused["first"])
    return [f"refused     and {left:,} more"] if left else []


def _sizes(groups: dict[str, int]) -> str:
    """The sizes of most groups.

    >>> _sizes({"7": 1, "8": 40}), _sizes({"1": 1, "2": 1, "3": 1, "4": 1, "6": 2})
    ('8 rollouts (40), 7 (1)', '6 rollouts (2), 1 (1), 2 (1), 3 (1), other sizes: 1')
    """
    common = sorted(groups.items(), key=lambda one: -one[1])
    first, *others = [f"{size} rollouts ({count:,})" for size, count in common[:COMMON_SIZES]]
    parts = [first, *(one.replace(" rollouts", "") for one in others)]
    left = len(common) - COMMON_SIZES
    return ", ".join([*parts, f"other sizes: {left}"] if left > 0 else parts)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"

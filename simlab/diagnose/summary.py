"""Write a log's contents, and a diagnosis of it, for a terminal: at most 25 lines, each number with its interval."""

import math
from typing import Any

import numpy as np

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import percent, share, shown
from simlab.diagnose.reading import Reading
from simlab.diagnose.recommend import PASS_AT, WeightEffects
from simlab.diagnose.solve_rates import SHARES_BELOW

LINES = 25
SHARE_BELOW = 0.1  # solve rates that count as hard
COMMON_SIZES = 4  # sizes of groups that are named


def contents_json(reading: Reading) -> dict[str, Any]:
    """Return the contents of a log, for JSON; ``mean_reward`` is of rows, before the threshold."""
    log = reading.log
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
        "log_probabilities": 0 if log.log_probs is None else len(log.log_probs.group),
        "truncated": truncated_shares(reading),
        "notes": [*reading.warnings, *reading.notes],
    }


def truncated_shares(reading: Reading) -> dict[str, float] | None:
    """Return the share of truncated rollouts, of all, the right and the wrong; None where the log does not say."""
    rollouts = reading.rollouts
    if rollouts.truncated is None:
        return None
    known = np.isfinite(rollouts.truncated)
    masks = {"all": known, "right": known & rollouts.correct, "wrong": known & ~rollouts.correct}
    return {name: float(rollouts.truncated[mask].mean()) for name, mask in masks.items() if mask.any()}


def contents_lines(reading: Reading) -> list[str]:
    """Return the contents of a log, a line each."""
    entries = contents_json(reading)
    steps, refused, answers = entries["steps"], entries["refused"], entries["distinct_answers"]
    solutions = "not told: {}" if answers is None else f"{answers:,} distinct correct answers ({{}})"
    files = f"{entries['files']:,} file{'' if entries['files'] == 1 else 's'}"
    lines = [
        f"format      {entries['format']}, {files}",
        f"columns     {reading.guessed}",
        f"rows        {entries['rows']:,}, and {refused['count']:,} refused",
        f"prompts     {entries['prompts']:,}",
        f"groups      {entries['groups']:,} of {_describe_sizes(entries['group_sizes'])}",
        f"steps       {steps['number']:,}, from {steps['first']} to {steps['last']}",
        f"reward      {entries['mean_reward']:.4g} on average ({entries['reward']})",
        f"correct     {entries['solve_rate']:.1%} of rollouts",
        f"no signal   {entries['all_right']:.1%} of groups are all right, {entries['all_wrong']:.1%} all wrong",
        f"solutions   {solutions.format(entries['answer'])}",
    ]
    if entries["truncated"]:
        lines.append(
            "truncated   " + ", ".join(f"{share:.1%} of {name}" for name, share in entries["truncated"].items())
        )
    if entries["log_probabilities"]:
        drawn = ", drawn at random" if entries["log_probabilities"] < entries["rows"] else ""
        lines.append(f"likelihood  log-probabilities of {entries['log_probabilities']:,} rollouts{drawn}")
    lines += [f"note        {note}" for note in entries["notes"]]
    lines += [f"refused     {why}" for why in refused["first"]]
    more = refused["count"] - len(refused["first"])
    return [*lines, f"refused     and {more:,} more"] if more else lines


def _describe_sizes(groups: dict[str, int]) -> str:
    """Name the most common sizes.

    >>> _describe_sizes({"1": 1, "2": 1, "3": 1, "4": 1, "6": 2})
    '6 rollouts (2), 1 (1), 2 (1), 3 (1), other sizes: 1'
    """
    common = sorted(groups.items(), key=lambda item: -item[1])
    names = [f"{size} ({count:,})" for size, count in common[:COMMON_SIZES]]
    names += [f"other sizes: {others}"] if (others := len(common) - COMMON_SIZES) > 0 else []
    return ", ".join(names).replace(" (", " rollouts (", 1)


def summary(reading: Reading, result: Diagnosis) -> list[str]:
    """Return at most ``LINES`` lines; the JSON and the report hold the rest."""
    lines = [*_log(reading), "", *_now(result), "", *_next(result), "", *_budget(result)]
    untold = [f"not told  {sentence}" for sentence in result.untold]
    return [*lines, *untold[: LINES - len(lines)]]


def _log(reading: Reading) -> list[str]:
    entries = contents_json(reading)
    steps, refused = entries["steps"], entries["refused"]
    return [
        f"columns   {reading.guessed}",
        f"log       {entries['format']}: {entries['rows']:,} rollouts of {entries['prompts']:,} prompts in "
        f"{entries['groups']:,} groups, steps {steps['first']} to {steps['last']}; {refused['count']:,} rows refused",
        f"observed  {entries['solve_rate']:.1%} correct ({reading.reward}); of the groups "
        f"{entries['all_right']:.1%} all right, {entries['all_wrong']:.1%} all wrong",
        *(f"refused   {why}" for why in refused["first"][:1]),
    ]


def _now(result: Diagnosis) -> list[str]:
    rates, groups, size = result.solve_rates, result.groups, result.groups.observed.group_size
    last, hard, curve = rates.windows[-1], SHARES_BELOW.index(SHARE_BELOW), result.pass_at_k
    by_size = {predicted.group_size: predicted for predicted in groups.at_sizes}
    dead = f"{share(by_size[size].dead)} at G = {size}"
    dead += "".join(f", {share(by_size[g].dead)} at {g}" for g in (size // 2, 2 * size, 4 * size) if g in by_size)
    change = "" if rates.change is None else f", changed by {shown(rates.change, '+')} since the first steps"
    masses = ", ".join(f"{entry.estimator} {share(entry.of_prompts[0])}" for entry in groups.gradient_masses[:4])
    effective = shown(by_size[size].effective_prompts)
    passes = f"pass@{curve.k[-1]} {shown(curve.carried[-1])}"
    if curve.beyond:
        passes += f"; extrapolated pass@{curve.beyond_k[-1]} {shown(curve.beyond[-1])}"
    lines = [
        f"now, steps {last.first} to {last.last} [{result.level:.0%} intervals]",
        f"  mean solve rate     {shown(rates.mean)}{change}",
        f"  prompts p <= {SHARE_BELOW:g}    {share(rates.below[hard])}; "
        f"raw frequencies say {percent(rates.raw_below[hard])}",
        f"  dead groups         {dead}",
        f"  effective prompts   {effective} of {groups.observed.groups_per_step:.4g} a step",
        f"  gradient, p <= 1/4   {masses}",
        f"  pass@k              {passes}",
    ]
    if result.unseen is not None:
        window, typical = result.unseen.windows[-1], result.unseen.typical
        against = typical.against[typical.group_sizes.index(size)]
        lines += [
            f"  unseen solutions    {share(window.share)} of the correct mass; Good-Turing "
            f"{percent(window.good_turing)}; {window.distinct:,} drawn",
            f"  typical solution    taught against by {share(against)} of teaching groups",
        ]
    if result.confidence is not None:
        lines.append(f"  entropy             {shown(result.confidence.entropy)} nats a rollout")
    return lines


def _next(result: Diagnosis) -> list[str]:
    prediction = result.prediction
    means = "; ".join(f"{estimate.name} {shown(estimate)}" for estimate in prediction.next_steps[:3])
    lines = [f"next {prediction.steps:<4} {means}"]
    if prediction.scored:
        scored = [entry for entry in prediction.scored if math.isfinite(entry.predicted.low)]
        inside = sum(entry.held for entry in scored)
        steps = f"in the last {prediction.share:.0%} of the steps"
        lines.append(f"held out  {inside} of {len(scored)} intervals hold what came {steps}")
    return lines


def _budget(result: Diagnosis) -> list[str]:
    advice = result.recommendation
    sizes = {advice.group_size // 2, advice.group_size, 2 * advice.group_size}
    if advice.recommended is not None:
        sizes.add(advice.recommended.group_size)
    teaching, gains = [], []
    for split in advice.splits:
        if split.group_size in sizes:
            in_use = split.group_size == advice.group_size
            mark = " (in use)" if in_use else ""
            teaching.append(f"{shown(split.teaching)} at {split.prompts} x {split.group_size}{mark}")
            gains += [] if in_use else [f"{shown(split.gain, '+')} at G = {split.group_size}"]
    lines = [
        f"budget    {advice.rollouts:,} rollouts a step: {advice.reason}",
        f"  teaching groups     {', '.join(teaching)}",
        f"  more than in use    {', '.join(gains)}",
    ]
    if result.weights is not None:
        lines.append(f"weights   {describe_weights(result.weights)}")
    return [*lines, *(f"try       {command}" for command in result.commands)]


def describe_weights(effects: WeightEffects) -> str:
    """Name the weights that surely raise pass@1 and pass@k, and by how much."""
    first, many, none = effects.for_pass_at_1, effects.for_pass_at_k, "none is surely higher"
    first_text = f"{first.weight} {shown(first.pass_at_1, '+')}" if first else none
    many_text = f"{many.weight} {shown(many.pass_at_k, '+')}" if many else none
    return f"simulated; pass@1: {first_text}; pass@{PASS_AT}: {many_text}"

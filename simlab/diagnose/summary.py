"""Write a log's contents, and a diagnosis of it, for a terminal: at most 25 lines, each number with its interval."""

import math
from typing import Any

import numpy as np

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import IntervalEstimate
from simlab.diagnose.reading import Reading
from simlab.diagnose.recommend import PASS_AT, BudgetSplit, WeightEffects

LINES = 25
SHARE_BELOW = 0.1  # solve rates that count as hard
COMMON_SIZES = 4  # sizes of groups that are named

# Contents, before anything is estimated


def contents_json(reading: Reading) -> dict[str, Any]:
    """Return the contents of a log, for JSON.

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
        "log_probabilities": 0 if log.log_probs is None else len(log.log_probs.group),
        "notes": list(reading.notes),
    }


def contents_lines(reading: Reading) -> list[str]:
    """Return the contents of a log, a line each."""
    entries = contents_json(reading)
    steps, refused, answers = entries["steps"], entries["refused"], entries["distinct_answers"]
    solutions = "not told: " if answers is None else f"{answers:,} distinct correct answers ("
    solutions += entries["answer"] if answers is None else f"{entries['answer']})"
    files = f"{entries['files']:,} file{'' if entries['files'] == 1 else 's'}"
    lines = [
        f"format      {entries['format']}, {files}",
        f"rows        {entries['rows']:,}, and {refused['count']:,} refused",
        f"prompts     {entries['prompts']:,}",
        f"groups      {entries['groups']:,} of {_describe_sizes(entries['group_sizes'])}",
        f"steps       {steps['number']:,}, from {steps['first']} to {steps['last']}",
        f"reward      {entries['mean_reward']:.4g} on average ({entries['reward']})",
        f"correct     {entries['solve_rate']:.1%} of rollouts",
        f"no signal   {entries['all_right']:.1%} of groups are all right, {entries['all_wrong']:.1%} all wrong",
        f"solutions   {solutions}",
    ]
    if entries["log_probabilities"]:
        drawn = ", drawn at random" if entries["log_probabilities"] < entries["rows"] else ""
        lines.append(f"likelihood  log-probabilities of {entries['log_probabilities']:,} rollouts{drawn}")
    lines += [f"note        {note}" for note in entries["notes"]]
    lines += [f"refused     {why}" for why in refused["first"]]
    more = refused["count"] - len(refused["first"])
    return [*lines, f"refused     and {more:,} more"] if more else lines


def _describe_sizes(groups: dict[str, int]) -> str:
    """Name the most common sizes.

    >>> _describe_sizes({"7": 1, "8": 40}), _describe_sizes({"1": 1, "2": 1, "3": 1, "4": 1, "6": 2})
    ('8 rollouts (40), 7 (1)', '6 rollouts (2), 1 (1), 2 (1), 3 (1), other sizes: 1')
    """
    common = sorted(groups.items(), key=lambda item: -item[1])
    names = [f"{size} ({count:,})" for size, count in common[:COMMON_SIZES]]
    names[0] = names[0].replace(" (", " rollouts (")
    others = len(common) - COMMON_SIZES
    return ", ".join([*names, f"other sizes: {others}"] if others > 0 else names)


# The summary of a diagnosis


def summary(reading: Reading, result: Diagnosis) -> list[str]:
    """Return at most ``LINES`` lines; the JSON and the report hold the rest."""
    lines = [*_log(reading), "", *_now(result), "", *_next(result), "", *_budget(result)]
    untold = [f"not told  {sentence}" for sentence in result.untold]
    return [*lines, *untold[: LINES - len(lines)]]


def _log(reading: Reading) -> list[str]:
    log = reading.log
    steps = np.unique(log.step)
    rows, groups = int(log.group_size.sum()), len(log.prompt)
    return [
        f"log       {log.format}: {rows:,} rollouts of {len(np.unique(log.prompt)):,} prompts in {groups:,} groups, "
        f"steps {steps[0]} to {steps[-1]}; {log.refused.count:,} rows refused",
        f"observed  {log.correct.sum() / rows:.1%} correct ({reading.reward}); of the groups "
        f"{(log.correct == log.group_size).mean():.1%} all right, {(log.correct == 0).mean():.1%} all wrong",
        *(f"refused   {why}" for why in log.refused.first[:1]),
    ]


def _now(result: Diagnosis) -> list[str]:
    rates, groups, size = result.solve_rates, result.groups, result.groups.observed.group_size
    last = rates.windows[-1]
    by_size = {predicted.group_size: predicted for predicted in groups.at_sizes}
    dead = f"{share(by_size[size].dead)} at G = {size}"
    dead += "".join(f", {share(by_size[g].dead)} at {g}" for g in (size // 2, 2 * size, 4 * size) if g in by_size)
    change = "" if rates.change is None else f", changed by {shown(rates.change, '+')} since the first steps"
    masses = ", ".join(f"{entry.estimator} {share(entry.of_prompts[0])}" for entry in groups.gradient_masses[:4])
    hard = next(n for n, estimate in enumerate(rates.below) if estimate.name.endswith(f"<= {SHARE_BELOW:g}"))
    effective = shown(by_size[size].effective_prompts)
    lines = [
        f"now, steps {last.first} to {last.last} [{result.level:.0%} intervals]",
        f"  mean solve rate     {shown(rates.mean)}{change}",
        f"  prompts p <= {SHARE_BELOW:g}    {share(rates.below[hard])}; "
        f"raw frequencies say {percent(rates.raw_below[hard])}",
        f"  dead groups         {dead}",
        f"  effective prompts   {effective} of {groups.observed.groups_per_step:.4g} a step",
        f"  gradient, p <= 1/4   {masses}",
        f"  pass@k              {_pass_at_k(result)}",
    ]
    if result.unseen is not None:
        window, typical = result.unseen.windows[-1], result.unseen.typical
        lines.append(
            f"  unseen solutions    {share(window.share)} of the correct mass; Good-Turing "
            f"{percent(window.good_turing)}; {window.distinct:,} drawn"
        )
        if size in typical.group_sizes:
            against = typical.against[typical.group_sizes.index(size)]
            lines.append(f"  typical solution    taught against by {share(against)} of teaching groups")
    if result.confidence is not None:
        lines.append(f"  entropy             {shown(result.confidence.entropy)} nats a rollout")
    return lines


def _pass_at_k(result: Diagnosis) -> str:
    curve = result.pass_at_k
    text = f"pass@{curve.k[-1]} {shown(curve.carried[-1])}"
    return f"{text}; extrapolated pass@{curve.beyond_k[-1]} {shown(curve.beyond[-1])}" if curve.beyond else text


def _next(result: Diagnosis) -> list[str]:
    prediction = result.prediction
    if not prediction.next_steps:
        return ["next      not predicted: too few steps"]
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
    splits = [split for split in advice.splits if split.group_size in sizes]
    others = [split for split in splits if split.group_size != advice.group_size]
    lines = [
        f"budget    {advice.rollouts:,} rollouts a step: {advice.reason}",
        "  teaching groups     " + ", ".join(_teaching(split, advice.group_size) for split in splits),
        "  more than in use    " + ", ".join(f"{shown(split.gain, '+')} at G = {split.group_size}" for split in others),
    ]
    if result.weights is not None:
        lines.append(f"weights   {describe_weights(result.weights)}")
    return [*lines, *(f"try       {command}" for command in result.commands)]


def describe_weights(effects: WeightEffects) -> str:
    """Name the weights that surely raise pass@1 and pass@k, and by how much."""
    first, many = effects.for_pass_at_1, effects.for_pass_at_k
    first_text = "none is surely higher" if first is None else f"{first.weight} {shown(first.pass_at_1, '+')}"
    many_text = "none is surely higher" if many is None else f"{many.weight} {shown(many.pass_at_k, '+')}"
    return f"simulated; pass@1: {first_text}; pass@{PASS_AT}: {many_text}"


def _teaching(split: BudgetSplit, in_use: int) -> str:
    mark = " (in use)" if split.group_size == in_use else ""
    return f"{shown(split.teaching)} at {split.prompts} x {split.group_size}{mark}"


def shown(estimate: IntervalEstimate, sign: str = "") -> str:
    """Write ``0.073 [0.051, 0.093]``; "-" where there is no value."""
    return _with_interval(estimate, f"{sign}.3g")


def share(estimate: IntervalEstimate) -> str:
    """Write ``58% [49%, 66%]``; "-" where there is no value."""
    return _with_interval(estimate, ".0%")


def _with_interval(estimate: IntervalEstimate, form: str) -> str:
    if not math.isfinite(estimate.value):
        return "-"
    value = f"{estimate.value:{form}}"
    return value if math.isnan(estimate.low) else f"{value} [{estimate.low:{form}}, {estimate.high:{form}}]"


def percent(value: float) -> str:
    """Write a share; "-" for NaN."""
    return f"{value:.0%}" if math.isfinite(value) else "-"

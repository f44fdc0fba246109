"""What a log tells, on a terminal: at most 25 lines, each number with its interval."""

import math
from collections.abc import Sequence

import numpy as np

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.difficulty import PASS_AT, Weighing
from simlab.diagnose.estimate import Estimate
from simlab.diagnose.reading import Reading
from simlab.diagnose.recommend import Split

LINES = 25
SHARE_BELOW = 0.1  # solve rates that count as hard


def summary(reading: Reading, found: Diagnosis) -> list[str]:
    """At most ``LINES`` lines; the JSON and the report hold the rest."""
    lines = [*_log(reading), "", *_now(found), "", *_next(found), "", *_budget(found)]
    untold = [f"not told  {sentence}" for sentence in found.untold]
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


def _now(found: Diagnosis) -> list[str]:
    rates, groups, size = found.solve_rates, found.groups, found.groups.observed.group_size
    last = rates.windows[-1]
    dead = {own.group_size: own for own in groups.at_sizes}
    masses = ", ".join(f"{own.estimator} {share(own.of_prompts[0])}" for own in groups.gradient_masses[:4])
    lines = [
        f"now, steps {last.first} to {last.last} [{found.level:.0%} intervals]",
        f"  mean solve rate     {shown(rates.mean)}{_change(rates.change)}",
        *(
            f"  prompts p <= {SHARE_BELOW:g}    {share(own)}; raw frequencies say {percent(raw)}"
            for own, raw in zip(rates.below, rates.raw_below, strict=True)
            if own.name.endswith(f"<= {SHARE_BELOW:g}")
        ),
        f"  dead groups         {share(dead[size].dead)} at G = {size}"
        + "".join(f", {share(dead[g].dead)} at {g}" for g in (size // 2, 2 * size, 4 * size) if g in dead),
        f"  effective prompts   {shown(dead[size].effective_prompts)} of {groups.observed.groups_per_step:.4g} a step",
        f"  gradient, p <= 1/4   {masses}",
        f"  pass@k              {_pass_at_k(found)}",
    ]
    if found.unseen is not None:
        window, typical = found.unseen.windows[-1], found.unseen.typical
        lines.append(
            f"  unseen solutions    {share(window.share)} of the correct mass; Good-Turing "
            f"{percent(window.good_turing)}; {window.distinct:,} drawn"
        )
        if size in typical.group_sizes:
            place = typical.group_sizes.index(size)
            lines.append(f"  typical solution    taught against by {share(typical.against[place])} of teaching groups")
    if found.confidence is not None:
        lines.append(f"  entropy             {shown(found.confidence.entropy)} nats a rollout")
    return lines


def _change(change: Estimate | None) -> str:
    return "" if change is None else f", changed by {shown(change, '+')} since the first steps"


def _pass_at_k(found: Diagnosis) -> str:
    own = found.pass_at_k
    carried, beyond = own.carried[-1], own.beyond[-1] if own.beyond else None
    text = f"pass@{own.k[-1]} {shown(carried)}"
    return text if beyond is None else f"{text}; extrapolated pass@{own.beyond_k[-1]} {shown(beyond)}"


def _next(found: Diagnosis) -> list[str]:
    own = found.prediction
    if not own.next_steps:
        return ["next      not predicted: too few steps"]
    several = "; ".join(f"{one.name.removeprefix('next steps: ')} {shown(one)}" for one in own.next_steps[:3])
    lines = [f"next {own.steps:<4} {several}"]
    if own.scored:
        scored = [one for one in own.scored if math.isfinite(one.predicted.low)]
        held = sum(one.held for one in scored)
        lines.append(
            f"held out  {held} of {len(scored)} intervals hold what came in the last {own.share:.0%} of the steps"
        )
    return lines


def _budget(found: Diagnosis) -> list[str]:
    own = found.recommendation
    named = {own.group_size // 2, own.group_size, 2 * own.group_size}
    if own.recommended is not None:
        named.add(own.recommended.group_size)
    splits = [split for split in own.splits if split.group_size in named]
    others = [split for split in splits if split.group_size != own.group_size]
    lines = [
        f"budget    {own.rollouts:,} rollouts a step: {own.reason}",
        "  teaching groups     " + ", ".join(_teaching(split, own.group_size) for split in splits),
        "  more than in use    " + ", ".join(f"{shown(split.gain, '+')} at G = {split.group_size}" for split in others),
    ]
    if found.weights is not None:
        lines.append(f"weights   {weights(found.weights)}")
    return [*lines, *(f"try       {command}" for command in found.commands)]


def weights(found: Weighing) -> str:
    """Which weight surely raises pass@1 and pass@k, and by how much."""
    first, many = found.for_pass_at_1, found.for_pass_at_k
    parts = (("pass@1", first, first and first.pass_at_1), (f"pass@{PASS_AT}", many, many and many.pass_at_k))
    told = [
        f"{name}: {own.weight} {shown(change, '+')}" if own and change else f"{name}: none is surely higher"
        for name, own, change in parts
    ]
    return f"simulated; {'; '.join(told)}"


def _teaching(split: Split, in_use: int) -> str:
    mark = " (in use)" if split.group_size == in_use else ""
    return f"{shown(split.teaching)} at {split.prompts} x {split.group_size}{mark}"


def shown(one: Estimate, sign: str = "") -> str:
    """``0.073 [0.051, 0.093]``; "-" where the log tells none."""
    if not math.isfinite(one.value):
        return "-"
    return _between([f"{value:{sign}.3g}" for value in (one.value, one.low, one.high)])


def share(one: Estimate) -> str:
    """``58% [49%, 66%]``."""
    return (
        "-" if not math.isfinite(one.value) else _between([percent(value) for value in (one.value, one.low, one.high)])
    )


def percent(value: float) -> str:
    """A share in words; "-" for NaN."""
    return f"{value:.0%}" if math.isfinite(value) else "-"


def _between(texts: Sequence[str]) -> str:
    value, low, high = texts
    return value if low in ("nan", "-") else f"{value} [{low}, {high}]"

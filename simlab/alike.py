"""Tell whether a weight is new: its normal form beside those of the registered estimators.

A weight may be a known one times a constant, a known *speed* with another baseline, Dr. GRPO's ``r_i - mean`` times a
number for each group (as all that sum to 0 in each group are), or none of these. The distance of two speeds is the sine
of the angle between c and c' as vectors of G numbers.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simlab.arms import parse
from simlab.errors import InputError
from simlab.estimators import REGISTRY, Estimator
from simlab.text import plain_number
from simlab.theory.likeness import ALIKE
from simlab.theory.normal_form import NormalForm, beyond, normal_form

GROUP_SIZE = 8
# Beside every registered estimator at its defaults: what the papers and trainers also use.
VARIANTS = (
    "f_grpo(gamma=0.5)", "f_grpo(gamma=2)", "power_alpha(alpha=1.5)", "power_alpha(alpha=3)", "easy_power(alpha=3)",
    "pass_at_k_chen(k=2)", "pkpo(k=2)", "pkpo(k=8)", "mix(k=8)",
)  # fmt: skip
WORDS = {
    "batch": "the other groups of the batch", "history": "earlier batches", "tokens": "the lengths of rollouts",
    "order": "the order of rollouts", "old_logp": "log-probabilities", "entropy": "entropies",
    "collision": "squared probabilities", "teacher_logp": "a teacher", "greedy_reward": "the greedy answer",
    "parts": "the parts of rewards", "role": "roles",
}  # fmt: skip
MOST_NUMBERS = 12  # of a curve that are printed
BARS = "▁▂▃▄▅▆▇█"


class Kind(NamedTuple):
    """A weight: its normal form where it has one, and all that it depends on besides the number of correct rollouts."""

    name: str
    beyond: tuple[str, ...]
    form: NormalForm | None

    @property
    def depends(self) -> str:
        """Say what the weight reads besides the number of correct rollouts; empty if nothing."""
        return " and ".join(WORDS.get(word, word) for word in self.beyond)


def classify(name: str, chosen: Estimator, group_size: int) -> Kind:
    """Compute the normal form on one group alone; None for what depends on the order or on log-probabilities."""
    depends = beyond(chosen)
    alone = chosen.needs == {"rewards"} and "order" not in depends
    return Kind(name, depends, normal_form(chosen, group_size) if alone else None)


def known(group_size: int) -> list[Kind]:
    """Classify each registered estimator at its defaults, and the ``VARIANTS`` that are allowed at this G."""
    kinds = [classify(name, entry.build(), group_size) for name, entry in REGISTRY.items() if name != "linked"]
    for text in VARIANTS:
        with contextlib.suppress(InputError):  # a k above G
            kinds.append(classify(text, parse(text).build().estimator, group_size))
    return kinds


class Likeness(NamedTuple):
    """The relation of a weight to those known.

    Attributes:
        same: known weights that are this one times a positive constant, with the constant.
        factors: the number for each group of 1 to G - 1 correct rollouts that ``r_i - mean`` is multiplied by, or None.
        same_speed: known weights of the same speed up to a factor, with other baselines.
        nearest, distance: the known weight whose speed is nearest, and the sine of the angle between the two.
    """

    same: Mapping[str, float]
    factors: Float[np.ndarray, " inner"] | None
    same_speed: tuple[str, ...]
    nearest: str
    distance: float


def compare(form: NormalForm, others: Sequence[Kind]) -> Likeness:
    """Compare a normal form with known ones, of which at least one has a form."""
    plain = [(kind.name, kind.form) for kind in others if kind.form is not None and not kind.beyond]
    both, others_whole = np.concatenate(form), {name: np.concatenate(other) for name, other in plain}
    same = {name: _ratio(both, whole) for name, whole in others_whole.items() if _sine(both, whole) <= ALIKE}
    distances = {name: _sine(form.speed, other.speed) for name, other in plain}
    equal = tuple(name for name, distance in distances.items() if distance <= ALIKE and name not in same)
    nearest = min(distances, key=distances.__getitem__)
    return Likeness(same, form.factors, equal, nearest, distances[nearest])


def _ratio(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / (second @ second)) if second.any() else 0.0


def _sine(first: np.ndarray, second: np.ndarray) -> float:
    """Return the sine of the angle between two vectors; 1 for those more than a right angle apart, or with a 0."""
    if not first.any() or (ratio := _ratio(first, second)) <= 0:
        return 1.0
    return float(np.linalg.norm(first - ratio * second) / np.linalg.norm(first))


def verdict(likeness: Likeness) -> str:
    """Say in a line what a weight is."""
    if likeness.same:
        name, ratio = next(iter(likeness.same.items()))
        return f"the same as {name}" if abs(ratio - 1) <= ALIKE else f"{plain_number(ratio, 4)} times {name}"
    if likeness.same_speed:
        return f"{likeness.same_speed[0]} with another baseline"
    nearest = f"its speed is nearest to {likeness.nearest}'s, {likeness.distance:.2g} away"
    return f"Dr. GRPO times a number a group; {nearest}" if likeness.factors is not None else f"new; {nearest}"


def bars(values: Float[np.ndarray, " n"]) -> str:
    """Draw numbers as a row of bars from 0 (or the least, below 0) to the largest; a space for NaN.

    >>> bars(np.array([0.0, 0.5, 1.0]))
    '▁▅█'
    """
    low, high = min(0.0, np.nanmin(values, initial=0)), np.nanmax(values, initial=0)
    span = high - low or 1.0
    return "".join(" " if np.isnan(value) else BARS[round((value - low) / span * (len(BARS) - 1))] for value in values)


def report(name: str, chosen: Estimator, group_size: int) -> str:
    """Describe a weight: its two curves, the nearest known weight, and what it reads that the form has not."""
    kind = classify(name, chosen, group_size)
    if kind.form is None:
        return f"{name} has no normal form: it reads {kind.depends}"
    likeness = compare(kind.form, [other for other in known(group_size) if other.name != name])
    form, shown = kind.form, range(0, group_size, -(-group_size // MOST_NUMBERS))
    rows = [("j", "", [str(j) for j in shown])]
    rows += [
        (head, bars(values), [_number(values[j]) for j in shown])
        for head, values in (("c(j)", form.speed), ("b(j)", form.baseline))
    ]
    lines = [
        f"{name}: A_i = c(j) (r_i - b(j)) in groups of {group_size}, where j of the others are correct",
        *(f"  {head:5} {drawn:{group_size}} " + "".join(f"{text:>7}" for text in texts) for head, drawn, texts in rows),
        f"in short: {verdict(likeness)}",
    ]
    if likeness.factors is not None:
        numbers = [f"{_number(likeness.factors[j])} with {j + 1}" for j in shown if j < group_size - 1]
        lines.append(f"it is Dr. GRPO, r - mean, times {', '.join(numbers)} correct in the group")
    if kind.beyond:
        lines.append(f"this is for one group alone, in a fresh state: it also reads {kind.depends}")
    return "\n".join(lines)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value + 0:.3g}"


def markdown(group_size: int) -> str:
    """Write all known weights as a GitHub table, in groups of equal speed, each with its two curves."""
    lines = ["| weight | speed c(j) | baseline b(j) | |", "| --- | --- | --- | --- |"]
    for title, kinds in groups(known(group_size)):
        lines.append(f"| **{title}** | | | |")
        for kind in kinds:
            curves, remarks = ["", ""], [f"reads {kind.depends}"] if kind.beyond else []
            if kind.form is not None:
                curves = [f"`{bars(values)}`" for values in (kind.form.speed, kind.form.baseline)]
                remarks += ["Dr. GRPO times a number a group"] * (kind.form.factors is not None)
            lines.append(f"| `{kind.name}` | {curves[0]} | {curves[1]} | {'; '.join(remarks)} |")
    return "\n".join(lines)


def groups(kinds: Sequence[Kind]) -> list[tuple[str, list[Kind]]]:
    """Group weights by equal speed, the largest group first; last those that have no form."""
    by_speed: list[tuple[np.ndarray, list[Kind]]] = []
    alone, without = [], []
    for kind in kinds:
        if kind.form is None:
            without.append(kind)
            continue
        if kind.beyond:
            alone.append(kind)
            continue
        speed = kind.form.speed
        group = next((group for other, group in by_speed if _sine(speed, other) <= ALIKE), None)
        if group is None:
            by_speed.append((speed, [kind]))
        else:
            group.append(kind)
    shared = sorted((group for _, group in by_speed if len(group) > 1), key=len, reverse=True)
    return [
        *((f"the speed of {group[0].name}", group) for group in shared),
        ("a speed of its own", [group[0] for _, group in by_speed if len(group) == 1]),
        ("for one group alone, in a fresh state", alone),
        ("no normal form", without),
    ]

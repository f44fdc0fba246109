"""Say which arms of a comparison are not told from a placebo, an arm that is paid at the same rate whatever it does."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from simlab.intervals import BAND_SEEDS, too_few


class Paid(NamedTuple):
    """An arm as its placebo sees it: two are compared where they share the setting."""

    is_placebo: bool
    method: Hashable
    setting: Hashable = None


class Excess(NamedTuple):
    """By how much an arm is above a placebo in a metric, as text, and if the interval of that leaves out 0."""

    text: str
    is_clear: bool


def pair(arms: Sequence[Paid]) -> list[tuple[int, int]]:
    """Return each arm with each of its placebos, by number: those of its method, or else all of its setting.

    >>> pair([Paid(False, "grpo"), Paid(False, "maxrl"), Paid(True, "grpo")])
    [(0, 2), (1, 2)]
    """
    pairs = []
    for number, arm in enumerate(arms):
        placebos = [each for each, other in enumerate(arms) if other.is_placebo and other.setting == arm.setting]
        same = [each for each in placebos if arms[each].method == arm.method]
        pairs += [(number, each) for each in same or placebos if not arm.is_placebo]
    return pairs


def verdict(arm: str, placebo: str, differences: Mapping[str, Excess], seeds: int) -> str:
    """Say in one sentence if an arm is told from a placebo, by differences in some metrics, paired by seed.

    >>> verdict("grpo", "dealt", {"pass@1": Excess("+0.20(1)", True), "pass@8": Excess("-0.01(4)", False)}, 8)
    'grpo is told from dealt in pass@1: differences pass@1 +0.20(1), pass@8 -0.01(4), paired by 8 seeds'
    """
    if seeds < BAND_SEEDS:
        return too_few(seeds, f"if {arm} differs from {placebo}")
    clear = [metric for metric, difference in differences.items() if difference.is_clear]
    verdict_words = f"told from {placebo} in {' and '.join(clear)}" if clear else f"not told from {placebo}"
    numbers = ", ".join(f"{metric} {difference.text}" for metric, difference in differences.items())
    return f"{arm} is {verdict_words}: differences {numbers}, paired by {seeds} seeds"

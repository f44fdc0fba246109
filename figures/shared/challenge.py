"""Place a weight of the user's on the frontier, and try it on problems that are drawn by a digest of its own file.

The shown problem is that of the frontier's first panel. A hidden one has another overlap, other solve rates and another
number of prompts; whoever changes the entry changes these too, so that nobody tunes to them. Beside it run weights that
are on the front of rewards alone. All take steps of the same lengths; the first half of the seeds chooses
what is on the front of a problem, the second half judges.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from figures import frontier
from figures.shared import by_number
from figures.shared.by_number import labelled, tabled
from figures.shared.front import KEPT, Point, front, halves, margin, points, price_at
from figures.shared.registry import script
from simlab.arms import parse
from simlab.errors import InputError, check_whole
from simlab.intervals import POSITIVE, SHARE, Estimate, over_seeds
from simlab.own_files import source_of
from simlab.plotting import STYLE
from simlab.sweeps.api import sweep
from simlab.sweeps.budget import Budget
from simlab.sweeps.presets.frontier import CONDITIONS
from simlab.text import aligned

SHOWN = "linear-0.3"
RIVALS = (
    *("grpo+reinforce", "pkpo+reinforce", "pass_at_k_tang+reinforce", "reject_easy(threshold=0.25)+reinforce"),
    *("f_grpo(gamma=2)+reinforce", "pass_at_k_chen+reinforce"),
)
HIDDEN = 2
LENGTHS = CONDITIONS[SHOWN].lengths[1:5]


def hidden_problems(digest: str, number: int = HIDDEN) -> list[dict[str, Any]]:
    """Return the parameters of problems that a digest in hexadecimal draws.

    >>> [sorted(problem) for problem in hidden_problems("0f", 1)]
    [['easy_rate', 'hard_rate', 'overlap', 'prompts']]
    """
    random = np.random.default_rng(int(digest, 16))
    return [
        {
            "prompts": int(random.choice([16, 24, 40])),
            "overlap": round(float(random.uniform(0.15, 0.6)), 2),
            "easy_rate": round(float(random.uniform(0.15, 0.4)), 2),
            "hard_rate": round(float(np.exp(random.uniform(np.log(0.005), np.log(0.03)))), 4),
        }
        for _ in range(number)
    ]


def digest_of(entry: str) -> str:
    """Return the SHA-256 of an entry: of its name, and of the files that it is read from."""
    arm = parse(entry)
    texts = [str(arm), *(source_of(name) for name in arm.files)]
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogateescape")).hexdigest()


def run_points(arms: Sequence[str], seeds: int, problem: dict[str, Any]) -> list[Point]:
    """Return the points of methods on one problem, at every length of a step of the frontier."""
    condition = CONDITIONS[SHOWN]
    budget: Budget = condition.shared["budget"]
    file = by_number.__file__
    result = sweep(
        list(dict.fromkeys(tabled(arm, file) for arm in arms)),
        problem="interference",
        seeds=seeds,
        budget=budget,
        optimizer="sgd",
        pass_at_k=(1, 256),
        top_n=0,
        learning_rate=1.0,
        update_norm=list(LENGTHS),
        **problem,
    )
    return list(points("entry", labelled(result, arms, file), condition.level))


@dataclass(frozen=True)
class Placed:
    """A point of an entry beside others, by the seeds that judge.

    ``price`` is the rollouts of the cheapest other point, by means, that keeps as much as the entry surely does, the
    lower end of its 95 % interval less a margin; infinite if none does.
    """

    point: Point
    rollouts: Estimate
    kept: Estimate
    price: float

    @property
    def is_ahead(self) -> bool:
        """True if the whole 95 % interval of the entry's rollouts lies below the price."""
        return _end(self.rollouts, "high") < self.price


def _end(estimate: Estimate, end: str) -> float:
    """Return an end of an interval, the mean of equal values."""
    value = float(getattr(estimate, end))
    return float(estimate.mean) if np.isnan(value) else value


def place(entry: Sequence[Point], rivals: Sequence[Point]) -> list[Placed]:
    """Place the points of an entry that are its own front beside all points of others that reach the level."""
    beside = [halves(point)[1] for point in rivals if point.reached]
    means = [(float(point.rollouts.mean()), float(point.kept.mean())) for point in beside]
    placed = []
    for point in (halves(own)[1] for own in front(entry)):
        kept = over_seeds(point.kept, SHARE)
        least = _end(kept, "low")
        price = price_at(means, least - margin(least))
        placed.append(Placed(point, over_seeds(point.rollouts, POSITIVE), kept, price))
    return placed


@dataclass(frozen=True)
class Challenge:
    """What an entry comes to: its points on the problem that is shown, and on each of the hidden ones."""

    entry: str
    data: dict[str, Any]  # of figures/frontier.py
    shown: list[Placed]
    hidden: list[tuple[dict[str, Any], list[Placed]]]

    @property
    def table(self) -> str:
        """Return a row for each point, and what they say in a sentence."""
        rows = [_row("shown", placed) for placed in self.shown]
        for number, (_, own) in enumerate(self.hidden, 1):
            rows += [_row(f"hidden {number}", placed) for placed in own]
        lines = [f"{self.entry}: rollouts to pass@1 = {CONDITIONS[SHOWN].level:g}, and {KEPT} there", *aligned(rows)]
        for number, (problem, own) in enumerate(self.hidden, 1):
            named = ", ".join(f"{name} {value:g}" for name, value in problem.items())
            lines.append(f"hidden {number}: {named}" + ("" if own else f"; {self.entry} does not get there"))
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """Say on how many hidden problems some point of the entry is ahead of the front."""
        ahead = sum(any(placed.is_ahead for placed in own) for _, own in self.hidden)
        where = "also" if any(placed.is_ahead for placed in self.shown) else "not"
        return (
            f"ahead of the front on {ahead} of {len(self.hidden)} hidden problems, and {where} on the one that is shown"
        )

    def figure(self) -> Figure:
        """Draw the entry on the panel of the problem that is shown."""
        with mpl.style.context(STYLE):
            figure = Figure(figsize=(7.2, 4.2), layout="constrained")
            axes = figure.subplots()
            frontier.draw_condition(axes, self.data, SHOWN)
            x, y = ([float(getattr(placed, name).mean) for placed in self.shown] for name in ("rollouts", "kept"))
            axes.plot(x, y, "*", markersize=11, color="black", label=self.entry)
            # Two searches of one class share a label.
            handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            axes.legend(handles.values(), handles, fontsize=7, loc="lower right")
        return figure


def _row(problem: str, placed: Placed) -> dict[str, str]:
    """Return a row of the table."""
    digits = {"rollouts": 0, "kept": 3}
    means, lows, highs = (
        {name: f"{float(getattr(getattr(placed, name), end)):.{digit}f}" for name, digit in digits.items()}
        for end in ("mean", "low", "high")
    )
    cells = {name: f"{means[name]} [{lows[name]}, {highs[name]}]" for name in digits}
    price = f"{placed.price:.0f}" if np.isfinite(placed.price) else "-"
    told = {"problem": problem, "step": placed.point.setting, "rollouts": cells["rollouts"], KEPT: cells["kept"]}
    return told | {"the front takes": price, "ahead": "yes" if placed.is_ahead else "no"}


def challenge(entry: str, seeds: int) -> Challenge:
    """Run an entry, and its rivals on the hidden problems.

    Args:
        entry: an arm, such as ``mine.py:weight``; without a surrogate it takes plain gradient steps.
        seeds: S, from 4 up; the second half judges.

    Raises: InputError: for an entry that is no method, and where the frontier's numbers are absent.
    """
    check_whole("seeds", seeds, 4)
    entry = entry if "+" in entry else f"{entry}+reinforce"
    if not frontier.DATA.exists():
        raise InputError(f"challenge reads {frontier.DATA.name}, which an installed package lacks; allowed: a clone")
    data = script("frontier").numbers
    fixed = [frontier.read_point(plain) for plain in data["conditions"][SHOWN][frontier.REWARDS]]
    shown = place(run_points([entry], seeds, {}), fixed)
    hidden = []
    for problem in hidden_problems(digest_of(entry)):
        every = run_points([entry, *RIVALS], seeds, problem)
        own, rivals = every[: len(LENGTHS)], every[len(LENGTHS) :]
        hidden.append((problem, place(own, rivals)))
    return Challenge(entry.removesuffix("+reinforce"), data, shown, hidden)

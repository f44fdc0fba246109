"""Place a weight of the user's on the frontier, and try it on problems that are drawn by a digest of its own file.

The shown problem is that of the frontier's first panel. A hidden one has another overlap, other solve rates and another
number of prompts; whoever changes the entry changes these too, so that nobody tunes to them. Beside it run weights that
are on the front of rewards alone. All take steps of the same lengths; the first half of the seeds chooses
what is on the front of a problem, the second half judges, paired by seed with the other weights.
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
from figures.shared.front import KEPT, Point, front, halves, margin, points, ratio_by_seed
from figures.shared.registry import script
from simlab.arms import parse
from simlab.errors import InputError, check_whole
from simlab.estimators import REGISTRY
from simlab.intervals import CHANGE, POSITIVE, SHARE, Estimate, over_seeds
from simlab.own_files import source_of
from simlab.plotting import STYLE
from simlab.sweeps.grid import Budget
from simlab.sweeps.presets.frontier import CONDITIONS
from simlab.sweeps.run import sweep
from simlab.text import aligned

SHOWN = "linear-0.3"
RIVALS = (
    *("grpo+reinforce", "pkpo+reinforce", "pass_at_k_tang+reinforce", "reject_easy(threshold=0.25)+reinforce"),
    *("f_grpo(gamma=2)+reinforce", "pass_at_k_chen+reinforce"),
    "reinforce+reinforce",  # raw rewards, what a link of the user's begins with
)
HIDDEN = 2
LENGTHS = CONDITIONS[SHOWN].lengths[1:5]
# Few weights at few lengths stand for the front: between their points it is not known to some per cent of the rollouts,
# and weights that are alike, such as raw rewards and GRPO, differ by 2 or 3.
LEAST_GAIN = 0.05


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

    ``price`` is the mean rollouts of the cheapest other point that the entry does not surely outdo; infinite if it
    outdoes all. To outdo is to keep a margin more, beyond the 95 % interval of the difference. ``ratio`` is the entry's
    rollouts over that point's, None without one. Both compare seed by seed.
    """

    point: Point
    rollouts: Estimate
    kept: Estimate
    price: float
    ratio: Estimate | None

    @property
    def is_ahead(self) -> bool:
        """True if the whole 95 % interval of the ratio lies ``LEAST_GAIN`` below 1, or there is no price."""
        return self.ratio is None or _end(self.ratio, "high") < 1 - LEAST_GAIN


def _end(estimate: Estimate, end: str) -> float:
    """Return an end of an interval, the mean of equal values."""
    value = float(getattr(estimate, end))
    return float(estimate.mean) if np.isnan(value) else value


def place(entry: Sequence[Point], rivals: Sequence[Point]) -> list[Placed]:
    """Place the points of an entry that are its own front beside all points of others that reach the level."""
    return [_place(chosen, [point for point in rivals if point.reached]) for chosen in front(entry)]


def _place(entry: Point, rivals: Sequence[Point]) -> Placed:
    judged = halves(entry)[1]
    first, last = len(entry.kept) - len(judged.kept), len(entry.kept)
    pairs = [
        (judged.seeds(slice(len(other.kept))), other) for other in (rival.seeds(slice(first, last)) for rival in rivals)
    ]
    rest = [(mine, other) for mine, other in pairs if not _outdoes(mine, other)]
    cheapest = min(rest, key=lambda pair: pair[1].rollouts.mean(), default=None)
    price = float(cheapest[1].rollouts.mean()) if cheapest else float("inf")
    ratio = ratio_by_seed(cheapest[0].rollouts, cheapest[1].rollouts) if cheapest else None
    return Placed(judged, over_seeds(judged.rollouts, POSITIVE), over_seeds(judged.kept, SHARE), price, ratio)


def _outdoes(point: Point, other: Point) -> bool:
    """Return whether a point keeps a margin more than another of the same seeds, beyond the 95 % interval."""
    return _end(over_seeds(point.kept - other.kept, CHANGE), "low") > margin(float(other.kept.mean()))


@dataclass(frozen=True)
class Challenge:
    """The points of an entry on the problem that is shown, and on each of the hidden ones."""

    entry: str
    data: dict[str, Any]  # the numbers of figures/frontier.py
    shown: list[Placed]
    hidden: list[tuple[dict[str, Any], list[Placed]]]

    @property
    def table(self) -> str:
        """Return a row for each point, and what they say in a sentence."""
        rows = [_row("shown", placed) for placed in self.shown]
        for number, (_, entries) in enumerate(self.hidden, 1):
            rows += [_row(f"hidden {number}", placed) for placed in entries]
        lines = [f"{self.entry}: rollouts to pass@1 = {CONDITIONS[SHOWN].level:g}, and {KEPT} there", *aligned(rows)]
        for number, (problem, entries) in enumerate(self.hidden, 1):
            named = ", ".join(f"{name} {value:g}" for name, value in problem.items())
            lines.append(f"hidden {number}: {named}" + ("" if entries else f"; {self.entry} does not get there"))
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """Say on how many hidden problems some point of the entry is ahead of the front."""
        ahead = sum(any(placed.is_ahead for placed in entries) for _, entries in self.hidden)
        where = "also" if any(placed.is_ahead for placed in self.shown) else "not"
        told = (
            f"ahead of the front on {ahead} of {len(self.hidden)} hidden problems, and {where} on the one that is shown"
        )
        least = f"{LEAST_GAIN:.0%} fewer rollouts beyond the 95 % interval of the ratio by seed, or no price"
        return "\n".join([told, *self._known, f"ahead: {least}"])

    @property
    def _known(self) -> list[str]:
        """Say in a line how the front treats an entry that is a weight of the registry; no line of another one."""
        if f"{self.entry}+reinforce" in RIVALS:
            return [f"{self.entry} is among the weights that stand for the front: it cannot be ahead"]
        if self.entry in REGISTRY:
            return [f"{self.entry} ran for the front that is shown; the {len(RIVALS)} weights of a hidden one lack it"]
        return []

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
    price, ratio = "-", "-"
    if placed.ratio is not None:
        price = f"{placed.price:.0f}"
        ratio = f"{float(placed.ratio.mean):.2f} [{_end(placed.ratio, 'low'):.2f}, {_end(placed.ratio, 'high'):.2f}]"
    told = {"problem": problem, "step": placed.point.setting, "rollouts": cells["rollouts"], KEPT: cells["kept"]}
    return told | {"the front takes": price, "ratio": ratio, "ahead": "yes" if placed.is_ahead else "no"}


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
        mine, rivals = every[: len(LENGTHS)], every[len(LENGTHS) :]
        hidden.append((problem, place(mine, rivals)))
    return Challenge(entry.removesuffix("+reinforce"), data, shown, hidden)

"""Spending what is known of interference: rollouts to a level of pass@1 against the pass@256 that is kept there.

python -m figures.shared.remedy_runs remedies.nc       (eight minutes of CPU time)
python -m figures.spend_interference remedies.nc       (condenses what is finished, and keeps the rest)
python -m figures.spend_interference --table           (every point, and what became of the prediction)
simlab figures spend_interference                      (draws from what is kept here)
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from figures.shared.condensed import keep, provenance, rounded
from figures.shared.front import KEPT, Point, halves, points
from figures.shared.remedy_runs import PROBLEMS, SWEEPS, path_of
from simlab.intervals import CHANGE, POSITIVE, SHARE, Estimate, over_seeds
from simlab.plotting import STYLE
from simlab.sweeps.result import read

DATA = Path(__file__).parent / "data" / "spend_interference.json"
MESSAGE = "Known by rollouts, who harms whom buys little; known exactly, much"
DIFFERS = (
    "Not in the papers: PCGrad and GEM are for tasks with data of their own, here for prompts that are hardly solved."
)
LEVEL, EQUAL = 0.45, 2560
ALSO = "pass@64"
TITLES = {
    "linear": "linear head, plain steps",
    "linear-adam": "linear head, Adam",
    "network": "two hidden layers, Adam",
}
LOOKS: dict[str, tuple[str, str, str]] = {
    "rewards": ("0.35", "s", "weights: GRPO, easy rejected, pass@k"),
    "entropy": ("C4", "D", "entropy bonus"),
    "memory": ("C0", "o", "remedies by earlier groups"),
    "step": ("C9", "v", "projection by the step's groups"),
    "with-tang": ("C2", "P", "pass@k, projected by earlier groups"),
    "oracle": ("C3", "^", "remedies by exact rates"),
    "half": ("0.65", "<", "half of the prompts, at random"),
    "batch": ("C1", ">", "half of the prompts, in danger first"),
}


def condense(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the kept data with the sweeps that are finished, which replace their old numbers."""
    conditions, origins = data["conditions"], {json.dumps(item["configuration"]): item for item in data["provenance"]}
    for sweep in [name for name in SWEEPS if path_of(path, name).exists()]:
        kind, name = next((sweep.removesuffix(f"-{name}"), name) for name in PROBLEMS if sweep in _of(name))
        dataset = read(path_of(path, sweep))
        base = float(dataset.pass_at_k.sel(k=256).isel(cost=0).mean())
        condition = conditions.setdefault(name, {"base": rounded(base, 4), "points": {}})
        also = points(kind, dataset, LEVEL, ALSO)
        equal = dataset.pass_at_k.sel(cost=EQUAL).mean("seed")
        at_equal = [equal.sel(k=k).values.ravel() for k in (1, 256)]
        condition["points"][kind] = [
            {"method": point.method, "setting": point.setting, "rollouts": rounded(point.rollouts, 6)}
            | {"kept": rounded(point.kept, 5), ALSO: rounded(more.kept, 5), "equal": rounded(np.array(same), 4)}
            for point, more, same in zip(points(kind, dataset, LEVEL), also, zip(*at_equal, strict=True), strict=True)
        ]
        origin = provenance(dataset)
        origins[json.dumps(origin["configuration"])] = origin
    return {"provenance": list(origins.values()), "conditions": conditions}


def _of(name: str) -> list[str]:
    return [sweep for sweep in SWEEPS if sweep.endswith(f"-{name}")]


def points_of(data: dict[str, Any], condition: str, *kinds: str, metric: str = "kept") -> list[Point]:
    """Return the points of some kinds, or of all, at which all seeds reach the level."""
    by_kind = data["conditions"][condition]["points"]
    chosen = [
        Point(kind, row["method"], row["setting"], *(np.array(row[of], float) for of in ("rollouts", metric)))
        for kind in kinds or by_kind
        for row in by_kind.get(kind, [])
    ]
    return [point for point in chosen if point.reached]


def rows(data: dict[str, Any]) -> Iterator[str]:
    """Yield every point as tab-separated text: means over the seeds that judge, and over all at equal rollouts."""
    heads = ("condition", "kind", "method", "setting", "reached", "rollouts", KEPT, "low", "high", ALSO)
    yield "\t".join((*heads, f"pass@1 at {EQUAL}", f"{KEPT} at {EQUAL}"))
    for condition, content in data["conditions"].items():
        for kind, row in ((kind, row) for kind, every in content["points"].items() for row in every):
            rollouts, passed, also = (np.array(row[of], float) for of in ("rollouts", "kept", ALSO))
            names = [condition, kind, row["method"], row["setting"], f"{np.isfinite(rollouts).mean():.2f}"]
            numbers = [""] * 5
            if np.isfinite(rollouts).all():
                judged = halves(Point(kind, "", "", rollouts, passed))[1]
                bounds = over_seeds(judged.kept, SHARE)
                shown = bounds.mean, bounds.low, bounds.high, halves(Point(kind, "", "", rollouts, also))[1].kept.mean()
                numbers = [f"{judged.rollouts.mean():.0f}", *(f"{float(value):.3f}" for value in shown)]
            yield "\t".join([*names, *numbers, *(f"{value:.3f}" for value in row["equal"])])


# The outcome of the prediction


def _told(estimate: Estimate, low: float, high: float) -> str:
    """Say whether an interval lies inside of what was allowed, outside of it, or across its end."""
    if estimate.low > low and estimate.high < high:
        return "hit"
    return "missed" if estimate.high < low or estimate.low > high else "undecided"


def _gain(point: Point, rivals: list[Point]) -> tuple[float, Point] | None:
    """Return a point's gain on the best rival of no more rollouts, and that rival, by the seeds that choose."""
    first = halves(point)[0]
    able = [rival for rival in rivals if halves(rival)[0].rollouts.mean() <= first.rollouts.mean()]
    best = max(able, key=lambda rival: halves(rival)[0].kept.mean(), default=None)
    return None if best is None else (float(first.kept.mean() - halves(best)[0].kept.mean()), best)


def largest_gain(candidates: list[Point], rivals: list[Point]) -> tuple[Point, Point, Estimate] | None:
    """Return the point that gains most on rivals, chosen by the first seeds, its rival, and the gain on the others."""
    gains = [(lead[0], point, lead[1]) for point in candidates if (lead := _gain(point, rivals))]
    if not gains:
        return None
    _, point, rival = max(gains, key=lambda gain: gain[0])
    return point, rival, over_seeds(halves(point)[1].kept - halves(rival)[1].kept, CHANGE)


def by_length(candidates: list[Point], rivals: list[Point]) -> list[tuple[Point, Point]]:
    """Pair points with rivals whose steps have the same length."""

    def length(point: Point) -> str:
        return next(term for term in point.setting.split(", ") if term.startswith(("update_norm", "learning_rate")))

    return [(point, rival) for point in candidates for rival in rivals if length(point) == length(rival)]


def _difference(pair: tuple[Point, Point], which: int) -> np.ndarray:
    value, rival = (halves(point)[which].kept for point in pair)
    return np.asarray(value - rival)


def farthest(pairs: list[tuple[Point, Point]], sign: Callable[[float], float] = abs) -> tuple[str, Estimate]:
    """Return the pair that differs most by the seeds that choose, and its difference on the others."""
    pair = max(pairs, key=lambda pair: sign(float(_difference(pair, 0).mean())))
    return pair[0].setting, over_seeds(_difference(pair, 1), CHANGE)


def _projected(every: list[Point], remedy: str = "project", strength: str = "1") -> list[Point]:
    """Return the points of a remedy at full strength, or at the only one."""
    named = [point for point in every if f"remedy = {remedy}" in point.setting]
    return [point for point in named if "remedy_strength" not in point.setting or _strength(point) == float(strength)]


def _strength(point: Point) -> float:
    return float(next(term for term in point.setting.split(", ") if "remedy_strength" in term).split(" = ")[1])


def verdicts(data: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each prediction that can be judged, what was found, and whether it is a hit."""
    linear, told = "linear", data["conditions"]

    def line(name: str, what: str, estimate: Estimate, low: float, high: float) -> tuple[str, str, str]:
        numbers = f"{float(estimate.mean):.3f} [{float(estimate.low):.3f}, {float(estimate.high):.3f}]"
        return name, f"{what}: {numbers}", _told(estimate, low, high)

    grpo = [point for point in points_of(data, linear, "rewards") if point.method == "grpo"]
    pairs = by_length(_projected(points_of(data, linear, "oracle")), grpo)
    quick = [pair for pair in pairs if pair[0].rollouts.mean() <= 2 * pair[1].rollouts.mean()]
    if quick:
        best = max(quick, key=lambda pair: halves(pair[0])[0].kept.mean())[0]
        yield line("oracle", best.setting, over_seeds(halves(best)[1].kept, SHARE), 0.95, 1.001)
    by_rollouts = points_of(data, linear, "memory", "step")
    if gain := largest_gain(by_rollouts, points_of(data, linear, "rewards")):
        yield line("no gain", f"{gain[0].setting} over {gain[1].name}", gain[2], -1.001, 0.05)
    yield from _entropy(by_rollouts, points_of(data, linear, "entropy"))
    if step := by_length(points_of(data, linear, "step"), grpo):
        yield line("step", *farthest(step), -0.05, 0.05)
    dropped = [row for row in told[linear]["points"].get("oracle", []) if _drops_all(row)]
    if dropped:
        share = max(float(np.isfinite(np.array(row["rollouts"], float)).mean()) for row in dropped)
        yield "drop", f"{share:.2f} of the seeds reach it", "hit" if share == 0 else "missed"
    batch = [point for point in points_of(data, linear, "batch") if "memory" in point.setting]
    if pairs := by_length(batch, points_of(data, linear, "half")):
        yield line("batch", *farthest(pairs), -0.05, 0.05)
    yield from _adam(data, line) if "linear-adam" in told else ()
    yield from _network(data, line) if "network" in told else ()


def _drops_all(row: dict[str, Any]) -> bool:
    return "remedy = drop" in row["setting"] and "remedy_strength = 1" in row["setting"]


def _entropy(remedies: list[Point], bonus: list[Point]) -> Iterator[tuple[str, str, str]]:
    first = [
        [point for point in every if halves(point)[0].kept.mean() >= 0.95]
        for every in (remedies, [point for point in bonus if "0.3" in point.setting])
    ]
    if remedies and not first[0]:
        yield "entropy", "none by memory or step keeps .95", "hit"
    elif all(first):
        best, rival = (min(every, key=lambda point: halves(point)[0].rollouts.mean()) for every in first)
        ratio = over_seeds(halves(best)[1].rollouts / halves(rival)[1].rollouts, POSITIVE)
        numbers = f"{float(ratio.mean):.2f} [{float(ratio.low):.2f}, {float(ratio.high):.2f}] times the rollouts"
        yield "entropy", f"{best.setting} over {rival.name}: {numbers}", _told(ratio, 1.0, np.inf)


def _adam(data: dict[str, Any], line: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    grpo = [point for point in points_of(data, "linear-adam", "rewards") if point.method == "grpo"]
    if grpo:
        best = max(grpo, key=lambda point: halves(point)[0].kept.mean())
        yield line("adam, GRPO", best.setting, over_seeds(halves(best)[1].kept, SHARE), 0.9, 1.001)
    if gain := largest_gain(points_of(data, "linear-adam", "memory"), grpo):
        yield line("adam, gain", f"{gain[0].setting} over {gain[1].name}", gain[2], -1.001, 0.03)


def _network(data: dict[str, Any], line: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    grpo = [point for point in points_of(data, "network", "rewards") if point.method == "grpo"]
    for name, kind, low, high in (("oracle", "oracle", 0.05, 1.001), ("memory", "memory", -1.001, 0.05)):
        if pairs := by_length(_projected(points_of(data, "network", kind)), grpo):
            yield line(f"network, {name}", *farthest(pairs, float), low, high)


# The figure


def draw(data: dict[str, Any]) -> Figure:
    """Draw a panel for each problem."""
    shown = [name for name in TITLES if name in data["conditions"]]
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        panels = list(figure.subplots(1, len(shown), squeeze=False).flat)
        for axes, name in zip(panels, shown, strict=True):
            _draw_condition(axes, data, name)
        pairs = [zip(*reversed(axes.get_legend_handles_labels()), strict=True) for axes in panels]
        handles = {label: handle for entries in pairs for label, handle in entries}
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=3, fontsize=7)
    return figure


def _draw_condition(axes: Axes, data: dict[str, Any], name: str) -> None:
    for kind, (colour, marker, label) in LOOKS.items():
        judged = [halves(point)[1] for point in points_of(data, name, kind)]
        if judged:
            x, y = (np.array([getattr(point, of).mean() for point in judged]) for of in ("rollouts", "kept"))
            style: dict[str, Any] = {"marker": marker, "color": colour, "markersize": 3.5, "linestyle": "none"}
            axes.plot(x, y, alpha=0.75, label=label, **style)
            if kind in ("rewards", "memory", "oracle"):
                order = np.argsort(x)
                most = np.maximum.accumulate(y[order])
                axes.plot(x[order], most, color=colour, linewidth=0.9, drawstyle="steps-post")
    axes.axhline(data["conditions"][name]["base"], color="0.6", linestyle="--", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(TITLES[name], loc="left", fontsize=8)
    axes.set(xlabel=f"rollouts to pass@1 = {LEVEL:g}", ylabel=f"{KEPT} there")


def main(arguments: list[str]) -> None:
    """Condense finished sweeps, or print the tables."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {"provenance": [], "conditions": {}}
    if arguments == ["--table"]:
        print("\n".join([*rows(data), "", *("\t".join(verdict) for verdict in verdicts(data))]))
    else:
        keep(DATA, condense(Path(*arguments), data))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The frontier: rollouts to a level of pass@1 against pass@256 there, for every setting of a run.

    python -m figures.shared.frontier_runs frontier.nc     (runs the sweeps)
    python -m figures.frontier frontier.nc                 (condenses what is finished, and keeps the rest)
    python -m figures.frontier --table [CONDITION]         (prints the front with its prices, tab-separated)
    python -m figures.frontier --tables KIND ...           (prints every point of these kinds)
    python -m figures.frontier --covered                   (prints how much of each kind was run in each condition)
    simlab figures frontier                                (draws from what is kept here)

A front is chosen on half of the seeds; its points are judged, and its steps priced, on the other half.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from figures.shared.condensed import keep, provenance, rounded
from figures.shared.front import CHOOSING, KEPT, Point, Step, front, halves, points, steps, with_more_seeds
from figures.shared.frontier_runs import named, path_of
from simlab.errors import InputError, check_choice
from simlab.intervals import Estimate
from simlab.plotting import STYLE
from simlab.sweeps.presets.frontier import CONDITIONS, FRONTIER, MANY, RARE
from simlab.sweeps.result import read

DATA = Path(__file__).parent / "data" / "frontier.json"
MESSAGE = "Where prompts interfere, pass@256 has a price in rollouts; where they do not, next to none"
DIFFERS = "Not in the papers: their weights, and all else that a run can be given, by rollouts and pass@256 kept."
TITLES = {
    "linear-0": "linear head, overlap 0",
    "linear-0.3": "linear head, overlap .3",
    "linear-0.6": "linear head, overlap .6",
    "network-adam": "one hidden layer, Adam",
    "linear-adam": "linear head, overlap .3, Adam",
    "bank": "bank of prompts",
}
COLOURS = {"weight": "C0", "group": "C1", "surrogate": "C2", "allocation": "C3", "entropy": "C4", "rejection": "C5"}
COLOURS |= {"kl": "C6", "teacher": "saddlebrown"}
WORDS = {"surrogate": "surrogate, 4 epochs", "allocation": "allocation, curriculum, tempering"}
WORDS |= {"entropy": "entropy bonus", "kl": "KL penalty", "group": "group size"}
WORDS |= {"rejection": "easy prompts rejected", "teacher": "distillation from a teacher"}
NEED_NO_SUCCESS = ("entropy", "bonus", "adaptive", "kl", "teacher")  # kinds that move a prompt which is not solved
REWARDS = "of rewards alone"
FRONTS = ("front", REWARDS)
PROMPTS = 32  # of a step
ROUNDING = 5e-4  # of four digits
ALSO = {"curriculum": "allocation", "tempering": "allocation", "bonus": "entropy", "adaptive": "entropy"}
ALSO |= {"rest": "weight"}  # drawn alike
MARKS = {"group_only": "D", "with_history": "s", "with_rates": "^"}
CLASSES = {"group_only": "best by group", "with_history": "best with history", "with_rates": "best by true solve rates"}
COLUMNS = ("kind", "method", "setting", "seeds", "rollouts", KEPT, "rollouts judged", f"{KEPT} judged", "error")
HEADS = ("condition", "front", "method", "rollouts", "", "", KEPT, "", "", "price", "", "", "gain", "holds")


def condition_points(path: Path, name: str) -> dict[str, Any]:
    """Return the points of a condition from finished sweeps, their provenance, and the base model."""
    finished = [sweep for sweep in FRONTIER if sweep.endswith(f"-{name}") and path_of(path, sweep).exists()]
    sweeps = {sweep: named(sweep, path) for sweep in finished}
    level = CONDITIONS[name].level
    measured = [
        point for sweep, dataset in sweeps.items() for point in points(sweep.removesuffix(f"-{name}"), dataset, level)
    ]
    every = [point for point in measured if point.kind != "judged"]
    more = [point for point in measured if point.kind == "judged"]
    base = [float(dataset.pass_at_k.sel(k=256).isel(cost=0).mean()) for dataset in sweeps.values()][:1]
    return {"points": every, "more": more, "provenance": [*map(provenance, sweeps.values())], "base": base}


def as_columns(every: list[Point]) -> dict[str, list[Any]]:
    """Return points by column: the means of both halves of the seeds, and the error of ``kept`` in the second."""
    rows = []
    for point in every:
        first, second = halves(point)
        means = [rounded(values.mean(), 4) for half in (first, second) for values in (half.rollouts, half.kept)]
        error = rounded(second.kept.std(ddof=1) / np.sqrt(len(second.kept)), 2)
        rows.append((point.kind, point.method, point.setting, int(np.isfinite(point.rollouts).sum()), *means, error))
    return dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))


def by_seed(point: Point) -> dict[str, Any]:
    """Return a point with the numbers of its seeds."""
    plain = {"kind": point.kind, "method": point.method, "setting": point.setting}
    return plain | {"rollouts": rounded(point.rollouts, 6), "kept": rounded(point.kept, 5)}


def read_point(plain: dict[str, Any]) -> Point:
    """Return the point of ``by_seed``."""
    return Point(*plain.values())._replace(rollouts=np.array(plain["rollouts"]), kept=np.array(plain["kept"]))


def replaces(anew: dict[str, Any], before: dict[str, Any]) -> bool:
    """Tell from the provenance of two sweeps if the first holds all points of the second."""
    new, old = anew["configuration"], before["configuration"]
    if "arms" not in old or any(new[key] != old[key] for key in ("problem", "optimizer", "budget")):
        return False
    first, second = new["parameters"], old["parameters"]
    same = (
        new["seeds"] >= old["seeds"]
        and first.keys() == second.keys()
        and all(set(values) <= set(first[key]) for key, values in second.items())
    )
    return same and set(old["arms"]) <= set(new["arms"]) and set(old["group_sizes"]) <= set(new["group_sizes"])


def kept_points(condition: dict[str, Any]) -> list[Point]:
    """Return the stored points of a condition: points of its fronts by seed, the others by the means that chose.

    The latter's rollouts are at the upper end of their rounding, so that a tie goes to a point with seeds.
    """
    by_name = {point.name: point for which in FRONTS for point in map(read_point, condition.get(which, []))}
    stored = []
    for kind, method, setting, _, *numbers in zip(*condition.get("points", {}).values(), strict=True):
        means = [np.nan] * 2 if None in numbers[:4] else numbers[:2]  # where some seed fails the level is not reached
        means = [means[0] * (1 + ROUNDING), means[1]]
        point = Point(kind, method, setting, *np.repeat(means, 2).reshape(2, 2))
        stored.append(by_name.get(point.name, point))
    return stored


def merged(name: str, results: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a condition: the points of new runs, and the other points as they were stored.

    Raises: InputError: if a point of a front is stored without its seeds, and no sweep of ``results`` has it.
    """
    names = {point.name for point in results["points"]}
    others = [point for point in kept_points(before) if point.name not in names]
    columns = {key: list(values) for key, values in as_columns(results["points"]).items()}
    for row in zip(*before.get("points", {}).values(), strict=True):
        if Point(*row[:3], *np.zeros((2, 1))).name not in names:
            for values, value in zip(columns.values(), row, strict=True):
                values.append(value)
    every = [*results["points"], *others]
    fronts = {"front": every, REWARDS: [point for point in every if point.kind not in NEED_NO_SUCCESS]}
    more = [*results["more"], *(read_point(entry) for which in FRONTS for entry in before.get(which, []))]
    chosen = {which: with_more_seeds(front(candidates), more) for which, candidates in fronts.items()}
    lost = dict.fromkeys(point.name for picks in chosen.values() for point in picks if len(point.kept) < 2 * CHOOSING)
    if lost:
        raise InputError(f"{name} was kept without the seeds of {', '.join(lost)}; allowed: with their sweeps run anew")
    plain = {which: [by_seed(point) for point in picks] for which, picks in chosen.items()}
    return {
        "level": CONDITIONS[name].level,
        "base": rounded(results["base"][0], 4),
        "points": columns,
    } | plain


def condense(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with the conditions that have finished sweeps in place of the old ones."""
    conditions = dict(data.get("conditions", {}))
    origins = {json.dumps(origin["configuration"]): origin for origin in data.get("provenance", [])}
    for name in CONDITIONS:
        results = condition_points(path, name)
        if results["points"]:
            fresh = results["provenance"]
            origins = {key: old for key, old in origins.items() if not any(replaces(new, old) for new in fresh)}
            conditions[name] = merged(name, results, conditions.get(name, {}))
            origins |= {json.dumps(origin["configuration"]): origin for origin in results["provenance"]}
    more: dict[str, Any] = {}
    if path_of(path, RARE).exists():
        more[RARE] = condense_rare(path)
        origin = provenance(read(path_of(path, RARE)))
        origins[json.dumps(origin["configuration"])] = origin
    if path_of(path, MANY).exists():
        dataset = named(MANY, path)
        more[MANY] = as_columns(list(points(MANY, dataset, CONDITIONS["linear-0.3"].level)))
        origins[json.dumps(json.loads(dataset.attrs["configuration"]))] = provenance(dataset)
    return data | more | {"provenance": list(origins.values()), "conditions": conditions}


def condense_rare(path: Path) -> list[dict[str, Any]]:
    """Return the fewest rollouts by which a method keeps the base model's pass@256, by hard rate and group size.

    The length of a step is chosen on the first seeds and judged on the others; a method that never keeps it has no row.
    """
    dataset, level = named(RARE, path), CONDITIONS["linear-0.3"].level
    rows = []
    for rate, size in itertools.product(dataset["hard_rate"].values, dataset["group_size"].values):
        here = dataset.sel(hard_rate=[rate], group_size=[size])
        base = float(here.pass_at_k.sel(k=256).isel(cost=0).mean())
        pairs = [halves(point) for point in points(RARE, here, level) if point.reached]
        for method in dict.fromkeys(first.method for first, _ in pairs):
            able = [pair for pair in pairs if pair[0].method == method and pair[0].kept.mean() >= base]
            if able:
                _, best = min(able, key=lambda pair: pair[0].rollouts.mean())
                row = {"hard_rate": float(rate), "group_size": int(size), "method": method, "setting": best.setting}
                rows.append(row | {"rollouts": rounded(best.rollouts, 6), "kept": rounded(best.kept, 4)})
    return rows


def front_steps(data: dict[str, Any], name: str, which: str = "front") -> list[Step]:
    """Return the front of a condition, or that of rewards alone, judged."""
    return steps([read_point(plain) for plain in data["conditions"][name][which]])


def written(value: Estimate | None, digits: int) -> list[str]:
    """Return mean and ends of an interval as text, empty without one."""
    numbers = [np.nan] * 3 if value is None else [float(value.mean), float(value.low), float(value.high)]
    return ["" if np.isnan(number) else f"{number:.{digits}f}" for number in numbers]


def table(data: dict[str, Any], names: list[str]) -> str:
    """Return the fronts as tab-separated text: each point as it is judged, and the price of the step to it."""
    lines = ["\t".join(HEADS)]
    for name in names:
        for which, step in [(key, step) for key in FRONTS for step in front_steps(data, name, key)]:
            numbers = written(step.rollouts, 0) + written(step.kept, 3) + written(step.ratio, 2)
            told = [*numbers, written(step.gain, 3)[0], "yes" if step.holds else "no"]
            lines.append("\t".join([name, which, step.point.name, *told]))
    return "\n".join(lines)


def rows_of(data: dict[str, Any], kinds: list[str]) -> Iterator[str]:
    """Yield every point of these kinds as tab-separated text, with a heading, the fewest rollouts first."""
    yield "\t".join(("condition", *COLUMNS))
    for name, condition in data["conditions"].items():
        rows = [row for row in zip(*condition["points"].values(), strict=True) if row[0] in kinds]
        for row in sorted(rows, key=lambda row: row[4] or np.inf):
            yield "\t".join([name, *("" if value is None else str(value) for value in row)])


def covered(data: dict[str, Any]) -> str:
    """Return the methods, and after them the points, of each kind in each condition, as tab-separated text."""
    count: dict[str, dict[str, tuple[int, int]]] = {}
    for name, condition in data["conditions"].items():
        kinds = condition["points"]["kind"]
        for kind in dict.fromkeys(kinds):
            methods = [method for method, its in zip(condition["points"]["method"], kinds, strict=True) if its == kind]
            count.setdefault(kind, {})[name] = len(set(methods)), len(methods)
    rows = [[kind, *("{} ({})".format(*at.get(name, (0, 0))) for name in TITLES)] for kind, at in count.items()]
    return "\n".join("\t".join(row) for row in [["kind", *TITLES], *rows])


def draw(data: dict[str, Any]) -> Figure:
    """Draw a panel for each condition."""
    shown = [name for name in TITLES if name in data["conditions"]]
    with mpl.style.context(STYLE):
        rows = -(-(len(shown) + (RARE in data)) // 2)
        figure = Figure(figsize=(7.2, 0.6 + 2.7 * rows), layout="constrained")
        panels = list(figure.subplots(rows, 2, squeeze=False).flat)
        for axes, name in zip(panels, shown, strict=False):
            draw_condition(axes, data, name)
        if RARE in data:
            draw_rare(panels[len(shown)], data[RARE])
        for axes in panels[len(shown) + (RARE in data) :]:
            axes.set_axis_off()
        labels = [zip(*reversed(axes.get_legend_handles_labels()), strict=True) for axes in panels[: len(shown)]]
        handles = {label: handle for pairs in labels for label, handle in pairs}
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, fontsize=7)
    return figure


def draw_condition(axes: Axes, data: dict[str, Any], name: str) -> None:
    """Draw all points that every seed reaches, the front with its intervals, and the best by class of information."""
    condition = data["conditions"][name]
    every = [row for row in zip(*condition["points"].values(), strict=True) if None not in row[4:8]]
    kinds = [ALSO.get(row[0], row[0]) for row in every]
    for kind in dict.fromkeys(kinds):
        x, y = (np.array([row[at] for row, its in zip(every, kinds, strict=True) if its == kind]) for at in (6, 7))
        style: dict[str, Any] = {"markersize": 2.2, "alpha": 0.6, "linestyle": "none", "color": COLOURS[kind]}
        axes.plot(x, y, marker="o", label=WORDS.get(kind, kind), **style)
    draw_front(axes, front_steps(data, name, REWARDS), color="0.45", label="front of rewards alone")
    draw_front(axes, front_steps(data, name), color="black", label="front, 95 %")
    for best in data.get("classes", []) if name == "linear-0.3" else []:
        style = {"marker": MARKS[best["class"]], "linestyle": "none", "markersize": 5, "markerfacecolor": "none"}
        where = np.mean(best["rollouts"]), np.mean(best["kept"])
        axes.plot(*where, color="black", label=CLASSES[best["class"]], **style)
    axes.axhline(condition["base"], color="0.6", linestyle="--", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(TITLES[name], loc="left", fontsize=9)
    axes.set(xlabel=f"rollouts to pass@1 = {condition['level']:g}", ylabel=f"{KEPT} there")


def draw_rare(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """Draw the fewest rollouts that keep the base model's pass@256 against the hard rate, and those until a success."""
    for size, dashes in ((8, "-"), (32, "--")):
        curve = [row for row in rows if row["group_size"] == size and row["method"] == "pass_at_k_tang"]
        where, means = [row["hard_rate"] for row in curve], [float(np.mean(row["rollouts"])) for row in curve]
        style: dict[str, Any] = {"marker": "o", "markersize": 3, "color": "C3"}
        axes.plot(where, means, dashes, label=f"pass@k of Tang et al., G = {size}", **style)
    rates = np.array(sorted({row["hard_rate"] for row in rows}))
    axes.plot(rates, PROMPTS / rates, ":", color="black", label="until a hard prompt is solved once")
    axes.set(xscale="log", yscale="log", xlabel="solve rate of hard prompts", ylabel="rollouts that keep the base's")
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title("the price of rare answers, overlap .3", loc="left", fontsize=9)
    axes.legend(fontsize=7)


def draw_front(axes: Axes, judged: list[Step], *, color: str, label: str) -> None:
    """Draw the points of a front as stairs, with the 95 % intervals of the seeds that judge."""
    x, y = (np.array([float(getattr(step, name).mean) for step in judged]) for name in ("rollouts", "kept"))
    axes.step(x, y, where="post", color=color, linewidth=0.9, label=label)
    for step, rollouts, retained in zip(judged, x, y, strict=True):
        for across, value, other in ((True, step.rollouts, retained), (False, step.kept, rollouts)):
            ends = [float(value.low), float(value.high)]
            if np.isfinite(ends).all():
                axes.plot(*((ends, [other] * 2) if across else ([other] * 2, ends)), color=color, linewidth=0.9)


def main(arguments: list[str]) -> None:
    """Condense results, or print what is kept."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    if arguments[:1] == ["--table"]:
        for name in arguments[1:]:
            check_choice("condition", name, list(data["conditions"]))
        print(table(data, arguments[1:] or list(data["conditions"])))
    elif arguments == ["--covered"]:
        print(covered(data))
    elif arguments[:1] == ["--tables"]:
        print(*rows_of(data, arguments[1:]), sep="\n")
    else:
        keep(DATA, condense(Path(*arguments), data))


if __name__ == "__main__":
    main(sys.argv[1:])

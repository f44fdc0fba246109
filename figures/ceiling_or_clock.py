"""Ceiling or clock: which weights change what pass@1 and pass@k come to, and which only how soon.

    simlab sweep --preset ceiling --out ceiling.nc              (10 minutes of CPU time)
    python -m figures.ceiling_or_clock ceiling.nc               (condenses what is finished, with countdown's runs)
    python -m figures.ceiling_or_clock --table                  (prints the tables of README.md)
    simlab figures ceiling_or_clock                             (draws from what is kept here)

The sigmoid of ScaleRL (arXiv 2510.13786, Eq. 1) is fitted to all of each run, and to its first quarter as if the run
had ended there: this forecast can be compared with the end.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import finished, keep, origins, rounded
from figures.shared.end_labels import end_labels
from figures.shared.fitted import averaged, fitted
from simlab.errors import InputError
from simlab.plotting import STYLE
from simlab.scaling import HIGHER, LOWER, MARGIN, Curves, Sigmoid
from simlab.sweeps.table import curves

DATA = Path(__file__).parent / "data" / "ceiling_or_clock.json"
COUNTDOWN = Path(__file__).parent / "data" / "countdown_conflict.json"
MESSAGE = "53 of 60 weights change how fast pass@1 rises, not where it ends"
DIFFERS = (
    "Not in the papers: ScaleRL fits recipes for language models; here are all weights, on two problems and countdown."
)
PRESET, BASELINE = "ceiling", "grpo"
METRICS = ("pass@1", "pass@256")
PART = 0.25  # of the compute, for the early fits
# Named in the panels of curves; all others are grey.
SHOWN = ("grpo", "reject_easy", "relu", "pass_at_k_chen", "pkpo", "positive_dominant")


def condense(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Mean curves, and the fits to all of the compute and to its first part, of each sweep, metric and arm.

    Arms of finished sweeps, GRPO among them, replace arms of the same name or are added.
    """
    sweeps, countdown = finished(PRESET, path), json.loads(COUNTDOWN.read_text())
    joined = {
        name: {metric: _joined(data["sweeps"][name][metric], curves(dataset, metric)) for metric in METRICS}
        for name, dataset in sweeps.items()
    }
    return {
        "provenance": origins(data, sweeps),
        "sweeps": data["sweeps"] | joined,
        "countdown": {metric: _of_metric(countdown_curves(countdown, metric)) for metric in ("pass@1", "pass@64")},
    }


def countdown_curves(data: dict[str, Any], metric: str) -> dict[str, Curves]:
    """The evaluations of countdown's arms against rollouts; all arms have as many rollouts a step."""
    rl = data["provenance"][0]["settings"]["rl"]
    by_arm = {}
    for arm, record in data["arms"].items():
        values, steps = np.array(record[metric]), np.array(record["step"], dtype=float)
        rollouts = steps[1:] * rl["prompts"] * rl["group_size"]
        by_arm[arm] = Curves(np.arange(len(values)), rollouts, values[:, 1:], values[:, 0])
    return by_arm


def _joined(earlier: dict[str, Any], arms: dict[str, Curves]) -> dict[str, Any]:
    """The earlier record of a metric, and more arms at the same compute."""
    new = _of_metric(arms)
    if new["compute"] != earlier["compute"]:
        raise InputError("runs of other lengths than those that are kept; allowed: the same")
    return new | {key: earlier[key] | new[key] for key in ("curves", "whole", "part")}


def _of_metric(arms: dict[str, Curves]) -> dict[str, Any]:
    compute = arms[BASELINE].compute
    first = {name: curve.between(0, PART * compute[-1]) for name, curve in arms.items()}
    return {
        "compute": rounded([0, *compute]),
        "curves": {name: averaged(curve) for name, curve in arms.items()},
        "whole": fitted(arms, BASELINE),
        "part": fitted(first, BASELINE),
    }


def draw(data: dict[str, Any]) -> Figure:
    """Curves with the fits to their first quarter; differences from GRPO of ceiling and clock; the forecasts."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 8.4), layout="constrained")
        panels = figure.subplots(3, 2).flat
        interference = data["sweeps"]["interference"]
        _draw_curves(panels[0], interference[METRICS[0]], METRICS[0])
        _draw_plane(panels[1], interference, [(0.95, 0.75), (0.45, 0.85)])
        _write_metrics(panels[1])
        _draw_curves(panels[2], interference[METRICS[1]], METRICS[1])
        _draw_foretold(panels[3], interference)
        _draw_countdown(panels[4], data["countdown"]["pass@64"])
        _draw_plane(panels[5], data["sweeps"]["bank"], [(0.37, 0.56), (0.37, 0.56)])
        titles = (
            "interfering prompts, pass@1",
            "the same: ceiling and clock",
            "interfering prompts, pass@256",
            "what a quarter foretells",
            "countdown, pass@64",
            "the bank, pass@1",
        )
        for letter, axes, title in zip("abcdef", panels, titles, strict=True):
            axes.set_title(f"({letter}) {title}", loc="left")
    return figure


def _draw_curves(axes: Axes, record: dict[str, Any], metric: str) -> None:
    """Means in 95 % bands against rollouts; dashed and grey, the fits to the first quarter beyond it."""
    compute = np.array(record["compute"][1:])
    for name, curve in record["curves"].items():
        mean, error = (np.array(curve[key][1:]) for key in ("mean", "error"))
        if name not in SHOWN:
            axes.plot(compute, mean, color="0.8", linewidth=0.5, zorder=0)
            continue
        colour = f"C{SHOWN.index(name)}"
        axes.plot(compute, mean, color=colour, label=name)
        low, high = np.clip([mean - 1.96 * error, mean + 1.96 * error], 0, 1)
        axes.fill_between(compute, low, high, color=colour, alpha=0.2, linewidth=0)
        if (fit := record["part"][name]) and "refusal" not in fit:
            beyond = compute[compute >= PART * compute[-1]]
            axes.plot(beyond, _curve(fit).at(beyond), color="0.5", linestyle="--", linewidth=1)
    axes.axvline(PART * compute[-1], color="0.6", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set(xlabel="rollouts", ylabel=metric)
    end_labels(axes, size=7.5)


def _write_metrics(axes: Axes) -> None:
    """The names of the metrics, in the colours of their points."""
    for number, metric in enumerate(METRICS):
        axes.text(0.97, 0.12 - 0.08 * number, metric, color=f"C{number}", ha="right", transform=axes.transAxes)


def _curve(fit: dict[str, Any]) -> Sigmoid:
    return Sigmoid(fit["base"], fit["asymptote"][0], fit["exponent"][0], fit["midpoint"][0])


def _draw_plane(axes: Axes, records: dict[str, Any], names: list[tuple[float, float]]) -> None:
    """Every arm with a fit: its asymptote less GRPO's, against its midpoint over GRPO's."""
    axes.axhspan(-MARGIN, MARGIN, color="0.92", zorder=0)
    axes.axvline(1, color="0.8", linewidth=0.8, zorder=0)
    for number, metric in enumerate(METRICS):
        against = {name: fit["against"] for name, fit in records[metric]["whole"].items() if fit["against"]}
        rows = {name: difference for name, difference in against.items() if "refusal" not in difference}
        numbers = (np.array([row[key] for row in rows.values()]) for key in ("midpoint", "asymptote"))
        clock, ceiling = (array.reshape(-1, 3).T for array in numbers)
        bars = {"xerr": np.abs(clock[1:] - clock[0]), "yerr": np.abs(ceiling[1:] - ceiling[0])}
        axes.errorbar(clock[0], ceiling[0], **bars, **_points(number))
        points = zip(clock[0], ceiling[0], rows, strict=True)
        _name(axes, [point for point in points if rows[point[2]]["verdict"] in (HIGHER, LOWER)], names[number])
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=MARGIN)
    axes.margins(0.1)
    axes.set(xlabel="C_mid over GRPO's", ylabel="A less GRPO's")


def _points(number: int) -> dict[str, Any]:
    return {"color": f"C{number}", "marker": "os"[number], "markersize": 3, "linestyle": "none", "elinewidth": 0.7}


def _name(axes: Axes, points: list[tuple[float, float, str]], start: tuple[float, float]) -> None:
    """The names of points (x, y, name) in a column down from ``start``, joined to the points by thin lines."""
    line = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.5", "shrinkA": 0, "shrinkB": 2}
    for number, (x, y, name) in enumerate(sorted(points, key=lambda point: -point[1])):
        position = (start[0], start[1] - 0.075 * number)
        axes.annotate(
            name, (x, y), position, textcoords="axes fraction", arrowprops=line, ha="right", va="center", fontsize=7
        )


def _draw_foretold(axes: Axes, records: dict[str, Any]) -> None:
    """The last record against the asymptote that the first quarter foretells."""
    axes.axline((0.5, 0.5), slope=1, color="0.8", linewidth=0.8)
    for number, (metric, names) in enumerate(zip(METRICS, ((0.33, 0.75), (0.6, 0.93)), strict=True)):
        fits = {name: fit for name, fit in records[metric]["part"].items() if "refusal" not in fit}
        asymptote = np.array([fit["asymptote"] for fit in fits.values()]).T
        last = np.array([records[metric]["curves"][name]["mean"][-1] for name in fits])
        axes.errorbar(asymptote[0], last, xerr=np.abs(asymptote[1:] - asymptote[0]), **_points(number))
        points = zip(asymptote[0], last, fits, strict=True)
        _name(axes, [point for point in points if point[1] - point[0] > 2 * MARGIN], names)
    axes.set(xlabel="A of the first quarter", ylabel="at the end", xlim=(0.05, 1.05), ylim=(0.3, 1.05))
    _write_metrics(axes)


def _draw_countdown(axes: Axes, record: dict[str, Any]) -> None:
    """All arms, and the fits that have an asymptote."""
    compute = np.array(record["compute"])
    told = [name for name, fit in record["whole"].items() if "refusal" not in fit]
    for name, curve in record["curves"].items():
        mean, error = (np.array(curve[key]) for key in ("mean", "error"))
        if name not in told:
            axes.plot(compute, mean, color="0.8", linewidth=0.7, zorder=0)
            continue
        colour = f"C{told.index(name)}"
        axes.errorbar(compute, mean, 1.96 * error, color=colour, marker="o", markersize=2, linestyle="none")
        fine = np.linspace(0, compute[-1], 200)
        axes.plot(fine, _curve(record["whole"][name]).at(fine), color=colour, linewidth=1, label=name)
    axes.set(xlabel="rollouts", ylabel="pass@64")
    end_labels(axes, size=7.5)


def tables(data: dict[str, Any]) -> str:
    """A table for each sweep and metric, with counts of verdicts by the whole run and by its first quarter."""
    texts = [
        _table(f"{sweep}, {metric}", record)
        for sweep, metrics in data["sweeps"].items()
        for metric, record in metrics.items()
    ]
    return "\n\n".join(texts + [_table(f"countdown, {metric}", record) for metric, record in data["countdown"].items()])


def _table(title: str, record: dict[str, Any]) -> str:
    heads = (
        "A of a quarter",
        "A",
        "at the end",
        "A less GRPO's",
        "C_mid over GRPO's",
        "verdict of a quarter",
        "verdict",
    )
    lines = [f"| {title} | {' | '.join(heads)} |", f"|---|{'---:|' * 5}---|---|"]
    for name, whole in record["whole"].items():
        first, against = record["part"][name], whole["against"] or {}
        cells = [
            _cell(first.get("asymptote")),
            _cell(whole.get("asymptote")),
            f"{record['curves'][name]['mean'][-1]:.3f}",
        ]
        cells += [_cell(against.get("asymptote"), "+.3f"), _cell(against.get("midpoint"), ".2f")]
        lines.append(f"| `{name}` | {' | '.join([*cells, verdict(first), verdict(whole)])} |")
    counts = [
        Counter(verdict(fit) for name, fit in record[key].items() if name != BASELINE) for key in ("part", "whole")
    ]
    lines += ["", *(f"{text}: {_counted(count)}" for text, count in zip(("a quarter", "all"), counts, strict=True))]
    return "\n".join(lines)


def verdict(fit: dict[str, Any]) -> str:
    """The verdict on an arm, or the head of the reason why there is none; empty for the baseline."""
    if "refusal" in fit:
        return str(fit["refusal"]).partition(":")[0].partition(",")[0]
    against = fit["against"]
    return "" if against is None else str(against.get("verdict", "GRPO has no fit"))


def _cell(interval: list[float | None] | None, form: str = ".3f") -> str:
    if interval is None or None in interval:
        return ""
    mean, low, high = (format(number, form) for number in interval)
    return f"{mean} [{low}, {high}]"


def _counted(count: Counter[str]) -> str:
    return ", ".join(f"{number} {word}" for word, number in count.most_common())


def main(arguments: list[str]) -> None:
    """Condense results, or print the tables of README.md."""
    if arguments == ["--table"]:
        print(tables(json.loads(DATA.read_text())))
    else:
        keep(DATA, condense(Path(*arguments), json.loads(DATA.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])

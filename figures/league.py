"""Every estimator on one bank of prompts at equal update norms, and chains of links beside them.

    simlab sweep --preset league --out league.nc                                    (minutes)
    python -m figures.league league-named.nc league-links.nc league-fixed-rate.nc   (condenses)
    python -m figures.league --tables                                               (prints the tables of README.md)
    simlab figures league                                                           (draws from what is kept here)

Estimators that are one up to a constant factor share a number; ``rivals`` says who beats whom.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from figures.shared.labels import number_points
from figures.shared.league_numbers import LEVEL, MATCHED_NORM, METRICS, SCORED, condense
from simlab.plotting import STYLE
from simlab.sweeps.result import read

DATA = Path(__file__).parent / "data" / "league.json"
DIFFERS = "Not in the papers: every estimator on one bank at equal update norms."
SHOWN_NORM = 1.0  # of panel (a)


def draw(data: dict[str, Any]) -> Figure:
    """Four panels, and which number is which estimator."""
    with mpl.style.context(STYLE):
        # Placed by hand: the solver of a constrained layout may round the last digit otherwise in another run.
        figure = Figure(figsize=(7.2, 8.3))
        place = {"left": 0.09, "right": 0.99, "top": 0.975, "bottom": 0.325, "wspace": 0.22, "hspace": 0.26}
        (at_norm, diverse), (curves, rate) = figure.subplots(2, 2, gridspec_kw=place)
        draw_at_norm(at_norm, data)
        draw_at_level(diverse, data)
        draw_curves(curves, data)
        draw_rates(rate, data)
        write_numbers(figure, data)
    return figure


def draw_at_norm(axes: Axes, data: dict[str, Any]) -> None:
    """Pass@1 and pass@256 at one norm."""
    place = data["norms"].index(SHOWN_NORM)
    rows = [data["named"][some[0]] for some in data["kin"]]
    mean, error = (np.array([row[key][place] for row in rows])[:, :2] for key in ("mean", "error"))
    axes.set(xlabel=METRICS[0], ylabel=METRICS[1])
    axes.set_title(f"(a) update norm {SHOWN_NORM:g}", loc="left")
    draw_numbers(axes, mean, error, list(range(len(rows))))


def draw_at_level(axes: Axes, data: dict[str, Any]) -> None:
    """Retained mass and entropy where pass@1 is the same."""
    numbers = [place for place, some in enumerate(data["kin"]) if "level" in data["named"][some[0]]]
    rows = [data["named"][data["kin"][place][0]] for place in numbers]
    mean, error = (np.array([row[key] for row in rows])[:, 2:] for key in ("level", "level_error"))
    axes.set(xlabel=METRICS[2], ylabel=METRICS[3])
    axes.set_title(f"(b) where pass@1 is {LEVEL:g}", loc="left")
    draw_numbers(axes, mean, error, numbers)


def draw_numbers(axes: Axes, mean: np.ndarray, error: np.ndarray, numbers: list[int]) -> None:
    """Crosses of 95 % intervals, (points, 2) each, and a number beside each."""
    axes.errorbar(*mean.T, *(1.96 * error.T[::-1]), fmt="none", ecolor="0.55", elinewidth=0.8)
    axes.margins(0.08)
    number_points(axes, *mean.T, numbers)


def draw_curves(axes: Axes, data: dict[str, Any]) -> None:
    """Pass@1 and retained mass of everyone at all norms, and the points that nobody beats in both."""
    unwritten = [name for name, calls in data["written_down"].items() if not calls]
    kinds = (
        ("named", list(data["named"]), "0.7", "-", "named"),
        ("links", unwritten, "C1", "--", "links, unpublished"),
    )
    for kind, names, colour, dashes, label in kinds:
        for number, name in enumerate(names):
            x, y = np.array(data[kind][name]["mean"])[:, [0, 2]].T
            axes.plot(x, y, dashes, color=colour, linewidth=0.7, label=None if number else label)
    ahead = np.array([point(data, name)["mean"][setting] for name, setting in data["front"]])
    axes.plot(ahead[:, 0], ahead[:, 2], "o", color="C0", markersize=3.2, label="beaten by nobody")
    outer = ahead[np.argsort(-ahead[:, 0])]
    outer = outer[outer[:, 2] >= np.maximum.accumulate(outer[:, 2])]
    axes.plot(outer[:, 0], outer[:, 2], ":", color="C0", linewidth=1.2, label="front of the means")
    axes.set(xlabel=METRICS[0], ylabel=METRICS[2])
    axes.set_title("(c) all norms", loc="left")
    axes.legend(loc="lower left")


def point(data: dict[str, Any], name: str) -> dict[str, Any]:
    """The numbers of a rival of either kind."""
    row: dict[str, Any] = data["named"].get(name) or data["links"][name]
    return row


def draw_rates(axes: Axes, data: dict[str, Any]) -> None:
    """Pass@1 at a fixed norm and at a fixed learning rate, by number."""
    names, rows = zip(*data["fixed_rate"]["estimators"].items(), strict=True)
    numbers = [next(place for place, some in enumerate(data["kin"]) if name in some) for name in names]
    mean, error = (
        np.array([[row[key][0] for key in keys] for row in rows])
        for keys in (("at_norm", "mean"), ("at_norm_error", "error"))
    )
    axes.axline((0.5, 0.5), slope=1, color="0.8", linewidth=0.8)
    axes.set(xlabel=f"pass@1, norm {MATCHED_NORM:g} at every step", ylabel="pass@1, fixed learning rate")
    axes.set_title("(d) the same norm at first", loc="left")
    draw_numbers(axes, mean, error, numbers)


def write_numbers(figure: Figure, data: dict[str, Any]) -> None:
    """Which number is which estimator, in columns."""
    lines = [f"{number + 1:>2}  {', '.join(some)}" for number, some in enumerate(data["kin"])]
    lines = [line if len(line) < 44 else line.replace(", ", ",\n      ", 2) for line in lines]
    columns, height = 3, -(-sum(line.count("\n") + 1 for line in lines) // 3)
    column, used = 0, 0
    for line in lines:
        if used + line.count("\n") >= height and column < columns - 1:
            column, used = column + 1, 0
        figure.text(0.02 + 0.33 * column, 0.265 * (1 - used / height), line, va="top", fontsize=7)
        used += line.count("\n") + 1


def cell(mean: float, error: float) -> str:
    """``0.684(4)``: a mean to three places and its standard error in units of the last."""
    return f"{mean:.3f}({round(error * 1000)})"


def tables(data: dict[str, Any]) -> str:
    """The tables of README.md: all estimators, then all chains, at their best norms, judged on half of the seeds."""
    lines = []
    for kind in ("named", "links"):
        last, rule = (" equals |", "---|") if kind == "links" else ("", "")
        level = f"pass@256 at {LEVEL:g} | retained at {LEVEL:g}"
        lines += [f"| {kind} | norm | {' | '.join(METRICS)} | {level} |{last}", f"|---|---:|{'---:|' * 6}{rule}"]
        for name, row in sorted(data[kind].items(), key=lambda item: -sum(item[1]["judged"][:SCORED])):
            cells = [cell(*pair) for pair in zip(row["judged"], row["judged_error"], strict=True)]
            there = zip(row["level"][1:3], row["level_error"][1:3], strict=True) if "level" in row else ()
            cells += [cell(*pair) for pair in there] or ["", ""]
            line = f"| `{name}` | {data['norms'][row['best']]:g} | {' | '.join(cells)} |"
            lines.append(line + (f" {', '.join(data['written_down'][name]) or 'nothing'} |" if last else ""))
        lines.append("")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Condense results, or print the tables of README.md."""
    if arguments == ["--tables"]:
        print(tables(json.loads(DATA.read_text())))
    else:
        keep(DATA, condense(*(read(Path(name)) for name in arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])

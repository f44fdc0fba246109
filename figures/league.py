"""Every estimator on one bank of prompts at equal update norms, and chains of links beside them.

    simlab sweep --preset league --out league.nc                                    (minutes)
    python -m figures.league league-named.nc league-links.nc league-fixed-rate.nc   (condenses)
    python -m figures.league --tables                                               (prints the tables of README.md)
    python -m figures.league --alike                                                (prints which methods are one)
    simlab figures league                                                           (draws from what is kept here)

Estimators that are one up to a constant factor share a row; ``rivals`` says who beats whom.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared import clock_table
from figures.shared.condensed import keep
from figures.shared.families import COLOURS, family, write_families
from figures.shared.league_numbers import LEVEL, MATCHED_NORM, METRICS, SCORED, condense
from simlab.plotting import STYLE
from simlab.sweeps.result import read

DATA = Path(__file__).parent / "data" / "league.json"
DIFFERS = "Not in the papers: every estimator on one bank at equal update norms."
MESSAGE = (
    "At equal pass@1, ReMax and weights of failures or pass@k keep the most rare answers;\n"
    "weights that push successes on easy prompts keep the fewest"
)
RANKED_BY, AT_LEVEL = 2, (2, 3, 1)  # indices into METRICS
PLACE = {"left": 0.245, "right": 0.985, "wspace": 0.1}


def draw(data: dict[str, Any]) -> Figure:
    """Everyone ranked by the rare answers that are left, in three metrics at equal pass@1; all norms; a fixed rate."""
    with mpl.style.context(STYLE):
        # Placed by hand: the solver of a constrained layout may round the last digit otherwise in another run.
        figure = Figure(figsize=(7.2, 10.4))
        figure.suptitle(MESSAGE, x=0.02, y=0.995, ha="left", va="top", fontsize=10, fontweight="bold")
        ranked = figure.subplots(1, 3, sharey=True, gridspec_kw=dict(PLACE, top=0.89, bottom=0.375))
        below = dict(PLACE, left=0.09, top=0.305, bottom=0.05, wspace=0.5)
        curves, rate = figure.subplots(1, 2, gridspec_kw=below)
        draw_ranked(ranked, data)
        write_families(figure, {family(some[0]) for some in data["kin"]}, left=0.02, top=0.95)
        draw_curves(curves, data)
        draw_rates(rate, data)
    return figure


def draw_ranked(panels: Sequence[Axes], data: dict[str, Any]) -> None:
    """Retained mass, entropy and pass@256 where pass@1 is the same, the most retained mass on top."""
    kin = [some for some in data["kin"] if "level" in data["named"][some[0]]]
    kin.sort(key=lambda some: data["named"][some[0]]["level"][RANKED_BY])
    rows = [data["named"][some[0]] for some in kin]
    colours = [COLOURS[family(some[0])] for some in kin]
    for axes, metric, letter in zip(panels, AT_LEVEL, "abc", strict=True):
        mean, error = (np.array([row[key][metric] for row in rows]) for key in ("level", "level_error"))
        axes.axvline(data["named"]["grpo"]["level"][metric], color="0.75", linewidth=0.8, zorder=0)
        axes.errorbar(mean, range(len(rows)), xerr=1.96 * error, fmt="none", ecolor=colours, elinewidth=1.2)
        axes.scatter(mean, range(len(rows)), color=colours, s=16, zorder=3)
        axes.set_title(f"({letter}) {METRICS[metric]}", loc="left")
        axes.grid(axis="y", color="0.92", linewidth=0.6)
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(rows)), [", ".join(some) for some in kin], fontsize=7.5)
    panels[0].set_ylim(-0.7, len(rows) - 0.3)
    for label, colour in zip(panels[0].get_yticklabels(), colours, strict=True):
        label.set_color(colour)
    panels[1].set_xlabel(f"where pass@1 is {LEVEL:g}; bars: 95 %; grey line: GRPO")


def draw_curves(axes: Axes, data: dict[str, Any]) -> None:
    """Pass@1 and retained mass of everyone at all norms, and the points that nobody beats in both."""
    unwritten = [name for name, calls in data["written_down"].items() if not calls]
    kinds = (
        ("named", list(data["named"]), "0.7", "-", "published"),
        ("links", unwritten, "C1", "--", "chains of links"),
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
    axes.set_title("(d) all update norms", loc="left")
    axes.legend(loc="lower left")


def point(data: dict[str, Any], name: str) -> dict[str, Any]:
    """The numbers of a rival of either kind."""
    row: dict[str, Any] = data["named"].get(name) or data["links"][name]
    return row


def draw_rates(axes: Axes, data: dict[str, Any]) -> None:
    """Pass@1 at one norm at every step, and at one learning rate that has this norm at first."""
    rows = sorted(data["fixed_rate"]["estimators"].items(), key=lambda item: item[1]["mean"][0])
    heights = range(len(rows))
    held, fixed = (np.array([row[key][0] for _, row in rows]) for key in ("at_norm", "mean"))
    errors = [np.array([row[key][0] for _, row in rows]) for key in ("at_norm_error", "error")]
    axes.hlines(heights, held, fixed, color="0.8", linewidth=1)
    axes.errorbar(held, heights, xerr=1.96 * errors[0], fmt="o", color="0.55", markersize=4, label="one norm")
    axes.errorbar(fixed, heights, xerr=1.96 * errors[1], fmt="o", color="C0", markersize=4, label="one learning rate")
    axes.set_yticks(heights, [name for name, _ in rows], fontsize=7.5)
    axes.set(xlabel=f"pass@1, at norm {MATCHED_NORM:g} or with it at first", xlim=(None, 0.9))
    axes.set_title("(e) without the fixed norm", loc="left")
    axes.legend(loc="lower right")


def cell(mean: float, error: float) -> str:
    """``0.684(4)``: a mean to three decimals and its standard error in units of the last."""
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
    """Condense results, or print tables of README.md."""
    if arguments == ["--tables"]:
        print(tables(json.loads(DATA.read_text())))
    elif arguments == ["--alike"]:
        print(clock_table.table())
    else:
        keep(DATA, condense(*(read(Path(name)) for name in arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Countdown from scratch: seven methods from the same starts, and how many different solutions are left.

    simlab train --preset countdown --out countdown
    python -m figures.countdown countdown   (condenses the run, prints its table)
    simlab figures countdown                (draws from the condensed numbers kept here)

The second also prints every arm beside GRPO at equal pass@1: F-GRPO's and MaxRL's weights are smaller than GRPO's, and
an arm that is only slower keeps more for that reason alone.
"""

import itertools
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

from figures.shared import trained
from simlab.intervals import half_width
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "countdown.json"
DIFFERS = "Not in the papers: seven methods train one small language model from scratch, five seeds."
MESSAGE = "Every method trades pass@64 for pass@1; at equal pass@1 none keeps more than GRPO"
SHOWN = ("pass@1", "pass@64", "distinct")  # differences from GRPO that are drawn
LABELS = {"distinct": "distinct solutions"}
NAMES = ("pass@16", "pass@64", "distinct", "entropy", "tail_miss", "tail_miss_lemma")


def numbers(files: dict[str, Any], arm: str, seed: int) -> np.ndarray:
    """(evaluations, 1 + NAMES) pass@1 and the compared numbers of an arm since its start."""
    lines = files[f"start/seed-{seed}/evaluation.jsonl"] + files[f"arms/{arm}/seed-{seed}/evaluation.jsonl"]
    return np.array([[_number(line, name) for name in ("pass@1", *NAMES)] for line in lines])


def _number(line: dict[str, Any], name: str) -> float:
    _, at, k = name.partition("@")
    return line["pass_at_k"][k]["mean"] if at else float(np.mean(line[name]))


def at_equal_pass_1(files: dict[str, Any], arm: str, seed: int) -> np.ndarray:
    """The end of an arm, less GRPO of the same seed where it first has that pass@1.

    GRPO is taken as linear between evaluations; where it never has that pass@1, the nearest evaluation stands, and a
    difference in pass@1 is left.
    """
    end, path = numbers(files, arm, seed)[-1], numbers(files, "grpo", seed)
    for before, after in itertools.pairwise(path):
        if before[0] <= end[0] <= after[0]:
            return end - before - (after - before) * (end[0] - before[0]) / (after[0] - before[0])
    return end - path[np.argmin(np.abs(path[:, 0] - end[0]))]


def at_the_end(files: dict[str, Any], arm: str, seed: int) -> np.ndarray:
    """The end of an arm, less the end of GRPO of the same seed."""
    return numbers(files, arm, seed)[-1] - numbers(files, "grpo", seed)[-1]


def interval(each: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over seeds, the first axis, and the half-widths of their 95 % t-intervals."""
    seeds = len(each)
    return each.mean(axis=0), half_width(each.std(axis=0, ddof=1) / np.sqrt(seeds), seeds)


def draw(files: dict[str, Any]) -> Figure:
    """Pass@k of the start and of GRPO, and every other arm's paired differences from GRPO."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.3))
        figure.suptitle(MESSAGE, x=0.01, y=0.985, ha="left", fontsize=9.5, fontweight="bold")
        curves = figure.add_axes((0.065, 0.16, 0.22, 0.66))
        margins = {"left": 0.385, "right": 0.985, "top": 0.82, "bottom": 0.16, "wspace": 0.16}
        panels = figure.subplots(1, len(SHOWN), sharey=True, gridspec_kw=margins)
        draw_pass_at_k(curves, files)
        draw_differences(panels, files)
        curves.set_title("(a) pass@k", loc="left")
        for letter, axes, name in zip("bcd", panels, SHOWN, strict=True):
            axes.set_title(f"({letter}) {LABELS.get(name, name)}", loc="left")
    return figure


def draw_pass_at_k(axes: Axes, files: dict[str, Any]) -> None:
    """The start and the end of GRPO's runs, in 95 % bands over seeds, each named at its line."""
    for folder, index, name, colour in (("start", 0, "start", "0.45"), ("arms/grpo", -1, "GRPO", "C0")):
        lines = [files[f"{folder}/seed-{seed}/evaluation.jsonl"][index] for seed in files["run.json"]["seeds"]]
        sizes = [int(k) for k in lines[0]["pass_at_k"]]
        mean, half = interval(np.array([[line["pass_at_k"][str(k)]["mean"] for k in sizes] for line in lines]))
        axes.plot(sizes, mean, color=colour)
        axes.fill_between(sizes, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
        above = name == "start"
        axes.annotate(name, (16, mean[sizes.index(16)]), (-4, 8) if above else (4, -14), color=colour,
                      textcoords="offset points", ha="right" if above else "left", fontweight="bold")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set(xticks=[1, 4, 16, 64], xticklabels=["1", "4", "16", "64"], xlabel="k")


def draw_differences(panels: Sequence[Axes], files: dict[str, Any]) -> None:
    """A row an arm: its difference from GRPO at the last step, and from GRPO at the same pass@1."""
    arms = [arm for arm in files["run.json"]["arms"] if arm != "grpo"]
    kinds = (
        (at_the_end, 0.16, "o", "C0", "circles: at the last step"),
        (at_equal_pass_1, -0.16, "D", "C1", "diamonds: at equal pass@1"),
    )
    for difference, shift, mark, colour, _ in kinds:
        each = np.array([[difference(files, arm, seed) for arm in arms] for seed in files["run.json"]["seeds"]])
        mean, half = interval(each)
        rows = np.arange(len(arms))[::-1] + shift
        for axes, name in zip(panels, SHOWN, strict=True):
            column = ("pass@1", *NAMES).index(name)
            axes.errorbar(mean[:, column], rows, xerr=half[:, column], fmt=mark, color=colour, markersize=4)
    for axes in panels:
        axes.axvline(0, color="0.6", linewidth=0.8, zorder=0)
        axes.grid(axis="y", color="0.93", linewidth=0.6)
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(arms)), arms[::-1])
    panels[1].set_xlabel("difference from GRPO of the same seed; bars: 95 %")
    for (*_, colour, label), x in zip(kinds, (0.39, 0.68), strict=True):
        panels[0].figure.text(x, 0.895, label, color=colour, fontsize=8.5, fontweight="bold")


def table(files: dict[str, Any]) -> str:
    """Means over seeds and their standard errors."""
    lines = ["at GRPO's step of equal pass@1, arm less GRPO: pass@1, " + ", ".join(NAMES)]
    for arm in files["run.json"]["arms"][1:]:
        each = np.array([at_equal_pass_1(files, arm, seed) for seed in files["run.json"]["seeds"]])
        errors = each.std(axis=0, ddof=1) / np.sqrt(len(each))
        cells = (f"{mean:+.3f}({error:.3f})" for mean, error in zip(each.mean(axis=0), errors, strict=True))
        lines.append(" ".join((arm.ljust(8), *cells)))
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Condense a run into the numbers kept here if one is given; print the tables."""
    path = trained.keep_run(DATA, Path(arguments[0])) if arguments else DATA
    print(table(json.loads(path.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])

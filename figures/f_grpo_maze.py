"""F-GRPO's Maze, Figures 6 and 7 of the paper, with its 3.94M model on small mazes ``[f-grpo:fig-6-maze]``.

simlab train --preset maze --arms "grpo,f_grpo(gamma=0.5),f_grpo" --prompts 16 --steps 30 --group-size 16
    --param task.size=9 --param task.max_new_tokens=36 --param task.evaluation_size=64
    --param model.max_positions=256 --param warm_start.steps=250 --param evaluation.every=10
    --param evaluation.samples=32 --out maze
python -m figures.f_grpo_maze maze   (condenses the run, prints its table)
simlab figures f_grpo_maze           (draws from the condensed numbers kept here)
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared import trained
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "f_grpo_maze.json"
DIFFERS = (
    "Mazes of 9 x 9, 250 supervised and 30 policy-gradient steps of 16 prompts x 16 rollouts, one seed, where the "
    "paper has 17 x 17, 1500 and 20,000 of 256 prompts: what two CPU cores reach in an hour."
)
LABELS = {"grpo": "GRPO", "f_grpo(gamma=0.5)": r"F-GRPO, $\gamma = .5$", "f_grpo": r"F-GRPO, $\gamma = 1$"}
LOOKS = {"grpo": ("C0", "-"), "f_grpo(gamma=0.5)": ("C1", "--"), "f_grpo": ("C2", "-.")}


def evaluations(files: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    """What an arm's evaluations say, that of the start first."""
    lines: list[dict[str, Any]] = files["start/seed-0/evaluation.jsonl"]
    return lines + files[f"arms/{arm}/seed-0/evaluation.jsonl"]


def draw(files: dict[str, Any]) -> Figure:
    """The end against k, and pass@1 and pass@32 on the way."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained")
        final, one, many = figure.subplots(1, 3)
        (start,) = files["start/seed-0/evaluation.jsonl"]
        _draw_band(final, _by_k(start), "C6", ":", "start")
        for arm, label in LABELS.items():
            lines, look = evaluations(files, arm), LOOKS[arm]
            _draw_band(final, _by_k(lines[-1]), *look, label)
            for axes, k in ((one, "1"), (many, "32")):
                _draw_band(axes, {line["step"]: line["pass_at_k"][k] for line in lines}, *look, label)
        final.set_xscale("log", base=2)
        final.set(xlabel="k", ylabel="pass@k", ylim=(0, 1))
        one.set(xlabel="step", ylim=(0, 0.25))
        many.set(xlabel="step", ylim=(0, 1))
        for axes, title in ((final, "(a) at step 30"), (one, "(b) pass@1"), (many, "(c) pass@32")):
            axes.set_title(title, loc="left")
        figure.legend(*final.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _by_k(line: dict[str, Any]) -> dict[int, dict[str, float]]:
    return {int(k): found for k, found in line["pass_at_k"].items()}


def _draw_band(axes: Axes, points: dict[int, dict[str, float]], colour: str, dashes: str, label: str) -> None:
    """Means in their 95 % intervals over problems."""
    mean, low, high = (np.array([point[part] for point in points.values()]) for part in ("mean", "low", "high"))
    axes.plot(list(points), mean, dashes, color=colour, label=label, marker="o", markersize=2.5)
    axes.fill_between(list(points), low, high, color=colour, alpha=0.12, lw=0)


if __name__ == "__main__":
    trained.keep_run(DATA, Path(sys.argv[1]))

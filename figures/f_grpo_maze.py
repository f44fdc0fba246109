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
from simlab.llm.instruments.pass_at_k import unbiased_pass_at_k
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "f_grpo_maze.json"
DIFFERS = (
    "Mazes of 9 x 9, 250 supervised and 30 policy-gradient steps of 16 prompts x 16 rollouts, one seed, where the "
    "paper has 17 x 17, 1500 and 20,000 of 256 prompts: what two CPU cores reach in an hour."
)
MESSAGE = "Pass@32 falls under all; with gamma = 1 it falls less and recovers sooner (one seed)"
LABELS = {"grpo": "GRPO", "f_grpo(gamma=0.5)": r"F-GRPO, $\gamma = .5$", "f_grpo": r"F-GRPO, $\gamma = 1$"}
LOOKS = {"grpo": ("C0", "-"), "f_grpo(gamma=0.5)": ("C1", "--"), "f_grpo": ("C2", "-.")}


def evaluations(files: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    """The evaluations of an arm, the start's first."""
    lines: list[dict[str, Any]] = files["start/seed-0/evaluation.jsonl"]
    return lines + files[f"arms/{arm}/seed-0/evaluation.jsonl"]


def draw(files: dict[str, Any]) -> Figure:
    """Pass@32 along training, and at the end F-GRPO's pass@k less GRPO's on the same mazes."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.1), layout="constrained")
        many, gain = figure.subplots(1, 2)
        for arm, label in LABELS.items():
            points = {line["step"]: line["pass_at_k"]["32"] for line in evaluations(files, arm)}
            _draw_band(many, points, *LOOKS[arm])
            end = points[max(points)]["mean"]
            many.annotate(label, (max(points), end), (4, 0), textcoords="offset points", va="center",
                          color=LOOKS[arm][0], fontsize=8, annotation_clip=False)  # fmt: skip
        for arm in ("f_grpo(gamma=0.5)", "f_grpo"):
            _draw_band(gain, over_grpo(files, arm), *LOOKS[arm])
        gain.axhline(0, color="0.6", linewidth=0.8)
        gain.set_xscale("log", base=2)
        gain.set(xlabel="k", xticks=[1, 2, 4, 8, 16, 32], xticklabels=["1", "2", "4", "8", "16", "32"])
        many.set(xlabel="step", ylim=(0, 1), xlim=(-1, 42), xticks=[0, 10, 20, 30])
        many.set_title("(a) pass@32", loc="left")
        gain.set_title("(b) pass@k less GRPO's, step 30, same mazes", loc="left")
    return figure


def over_grpo(files: dict[str, Any], arm: str) -> dict[int, dict[str, float]]:
    """The mean over mazes of an arm's pass@k less GRPO's at the end, and its 95 % interval, by k."""
    focal, usual = (evaluations(files, name)[-1] for name in (arm, "grpo"))
    gains = {}
    for k in map(int, focal["pass_at_k"]):
        both = (unbiased_pass_at_k(np.array(line["correct"]), line["samples"], k) for line in (focal, usual))
        differences = np.subtract(*both)
        mean, half = differences.mean(), 1.96 * differences.std(ddof=1) / np.sqrt(len(differences))
        gains[k] = {"mean": mean, "low": mean - half, "high": mean + half}
    return gains


def _draw_band(axes: Axes, points: dict[int, dict[str, float]], colour: str, dashes: str) -> None:
    """Means in their 95 % intervals over problems."""
    mean, low, high = (np.array([point[key] for point in points.values()]) for key in ("mean", "low", "high"))
    axes.plot(list(points), mean, dashes, color=colour, marker="o", markersize=2.5)
    axes.fill_between(list(points), low, high, color=colour, alpha=0.12, lw=0)


if __name__ == "__main__":
    trained.keep_run(DATA, Path(sys.argv[1]))

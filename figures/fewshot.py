"""SmolLM2-135M on few-shot arithmetic.

simlab train --preset fewshot --out fewshot
python -m figures.fewshot fewshot   (condenses the run, prints its table)
simlab figures fewshot              (draws from the condensed numbers kept here)
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.f_grpo_maze import evaluations, over_grpo
from figures.shared import trained
from figures.shared.end_labels import end_labels
from figures.shared.method_colours import METHOD_COLOURS
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "fewshot.json"
MESSAGE = "Held-out accuracy triples under GRPO and F-GRPO alike, and pass@4 rises with it"
DIFFERS = "Not in the papers: a pretrained model of 135M parameters, one seed."
LABELS = {"grpo": "GRPO", "f_grpo": "F-GRPO"}


def draw(files: dict[str, Any]) -> Figure:
    """Training curves; pass@k at the start and the end; and F-GRPO's less GRPO's at the end on the same questions."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        (reward, entropy), (ends, gain) = figure.subplots(2, 2)
        for axes, name, letter in ((reward, "reward", "a"), (entropy, "entropy", "b")):
            for arm, label in LABELS.items():
                lines = files[f"arms/{arm}/seed-0/metrics.jsonl"]
                steps, values = [line["step"] for line in lines], [line[name] for line in lines]
                axes.plot(steps, values, color=METHOD_COLOURS[arm], label=label)
            axes.set(xlabel="step", xticks=[3, 6, 9, 12])
            axes.set_title(f"({letter}) {name}", loc="left")
            end_labels(axes)
        start = evaluations(files, "grpo")[0]["pass_at_k"]
        _draw_points(ends, start, 0, color="0.55", label="start")
        for number, (arm, label) in enumerate(LABELS.items()):
            last = evaluations(files, arm)[-1]["pass_at_k"]
            _draw_points(ends, last, 0.06 * (number + 1), color=METHOD_COLOURS[arm], label=label)
        ends.set_title("(c) pass@k at the start and after 12 steps", loc="left")
        end_labels(ends)
        _draw_points(gain, over_grpo(files, "f_grpo"), 0, color=METHOD_COLOURS["f_grpo"], label="F-GRPO")
        gain.axhline(0, color=METHOD_COLOURS["grpo"], linewidth=0.8)
        gain.set_title("(d) pass@k less GRPO's, same questions", loc="left")
        end_labels(gain)
    return figure


def _draw_points(axes: Axes, points: dict[Any, dict[str, float]], shift: float, color: str, label: str) -> None:
    """Means by k with their 95 % intervals over questions, moved aside by ``shift`` octaves."""
    k = [int(key) * 2**shift for key in points]
    mean = [band["mean"] for band in points.values()]
    axes.plot(k, mean, color=color, marker="o", label=label)
    axes.vlines(k, [band["low"] for band in points.values()], [band["high"] for band in points.values()], color=color)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="k", xticks=[int(key) for key in points], xticklabels=[str(key) for key in points])


if __name__ == "__main__":
    trained.keep_run(DATA, Path(sys.argv[1]))

"""Does a language model side with the network: which weights keep pass@64 at equal pass@1, by Adam and by plain steps.

    python -m figures.shared.closed_countdown runs 0 1 2 3 4 5 6     (a seed at a time, as many as there is time for)
    python -m figures.weights_by_optimizer runs                      (adds the seeds that are finished to those kept)
    simlab train --preset weights-by-optimizer --out held-out        (other problems than those trained on: two hours)
    python -m figures.weights_by_optimizer --held-out held-out       (keeps its evaluations)
    python -m figures.shared.closed_tasks addition added 1 2 3 4 5   (another task, or maze; --optimizer for one)
    python -m figures.weights_by_optimizer --task addition added     (adds its seeds)
    python -m figures.weights_by_optimizer --table [GAIN]            (prints what was predicted and what came out, or
                                                                     what is read at another gain)
    simlab figures weights_by_optimizer                              (draws from what is kept here)

The prediction and the rule of judging, ``figures.shared.by_optimizer``, were committed before the runs. Seed 0 was
looked at before and is not judged; nothing is judged from fewer than five seeds.
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

from figures.shared import by_optimizer
from figures.shared.condensed import keep, origins_of_arms, rounded
from simlab.errors import check_choice
from simlab.llm.compare.runs import read_run
from simlab.llm.training.folder import RUN
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "weights_by_optimizer.json"
DIFFERS = "Not in the papers: a small language model by two optimisers, predicted before the runs."
MESSAGE = "On countdown weights part by Adam and by plain steps; addition and mazes decide little"
LOOKED_AT, FEWEST = 0, 5  # a seed, and how many of the others judge
TASKS = {by_optimizer.TRAINED: "countdown", "addition": "addition", "maze": "maze"}
COLUMNS = 3
EMPTY: dict[str, Any] = {"provenance": [], "seeds": {}}
LABELS = {"adamw": "Adam", "sgd": "plain steps", by_optimizer.BETWEEN: "difference"}
NAMES = {"grpo+entropy_bonus(coefficient=0.03)": "entropy bonus", "pass_at_k_chen(k=4)": "Chen's pass@4"}


def condense(folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the kept seeds, and those of ``folder``: all arms of an optimiser, which replace old ones."""
    runs = [json.loads(path.read_text()) for path in folder.glob("seed-*.json")]
    finished = {str(run["seed"]): run | {"arms": arms} for run in runs if (arms := whole(run))}
    seeds = data["seeds"] | {seed: data["seeds"].get(seed, {}) | run["arms"] for seed, run in finished.items()}
    origins = origins_of_arms(data["provenance"], data["seeds"], finished)
    return data | {"provenance": origins, "seeds": {seed: seeds[seed] for seed in sorted(seeds, key=int)}}


def whole(run: dict[str, Any]) -> dict[str, Any]:
    """Return a seed's arms of each optimiser whose arms are all there."""
    missing = {
        by_optimizer.of_arm(name)[1] for name in run["provenance"]["settings"]["arms"] if name not in run["arms"]
    }
    return {name: arm for name, arm in run["arms"].items() if by_optimizer.of_arm(name)[1] not in missing}


def condense_held_out(folder: Path) -> dict[str, Any]:
    """Return the evaluations of a run of ``weights-by-optimizer``, by seed and arm, the start's first."""
    run, seeds = read_run(folder), dict[str, Any]()
    for seed, start in run.starts.items():
        for name, trainings in run.arms.items():
            evaluations = (*start.evaluations[-1:], *trainings[seed].evaluations)
            curve = {f"pass@{k}": rounded([each.pass_at_k(k).mean() for each in evaluations]) for k in (1, 64)}
            seeds.setdefault(str(seed), {})[name] = curve
    return {"provenance": json.loads((folder / RUN).read_text()), "seeds": seeds}


def judging(data: dict[str, Any]) -> list[str]:
    """Return the seeds that count."""
    return [seed for seed in data["seeds"] if int(seed) != LOOKED_AT]


def curves(data: dict[str, Any]) -> dict[str, Any]:
    """Return (rates, seeds, evaluations) of what is read, by optimiser and method, of the arms that all seeds have.

    Where an arm ended, its last evaluation stands for the others: it has gained all that is judged.
    """
    seeds, task = [data["seeds"][seed] for seed in judging(data)], dict[str, Any]()
    longest = max(len(curve["pass@1"]) for arms in seeds for curve in arms.values())
    for name in (name for name in seeds[0] if all(name in arms for arms in seeds)):
        method, optimizer = by_optimizer.of_arm(name)
        rates = task.setdefault(optimizer, {}).setdefault(method, {read: [] for read in by_optimizer.READ})
        for read, rows in rates.items():
            rows.append(
                [arms[name][read] + arms[name][read][-1:] * (longest - len(arms[name][read])) for arms in seeds]
            )
    return task


def findings(
    data: dict[str, Any], task: str, gain: float | None = None
) -> tuple[dict[str, Any], by_optimizer.Intervals]:
    """Return the prediction, and the differences at the gain where it is judged; at another, nothing is predicted."""
    predicted = by_optimizer.prediction(task)
    if gain is not None:
        predicted |= {"judged_at": dict.fromkeys(by_optimizer.OPTIMIZERS, gain), "predicted": {}, "rival": {}}
    return predicted, by_optimizer.judged(curves(data), predicted["judged_at"])


def table(data: dict[str, Any], task: str, gain: float | None = None) -> str:
    """Return the differences with their intervals, and what they say of prediction and rival."""
    predicted, differences = findings(data, task, gain)
    few = len(judging(data)) < FEWEST
    lines = [f"seeds {', '.join(judging(data))}" + f": fewer than {FEWEST}, nothing is judged" * few]
    lines += ["| | method | found | predicted | outcome | rival |", "|---|---|---:|---:|---|---|"]
    for optimizer, methods in differences.items():
        for method, estimate in methods.items():
            if optimizer != by_optimizer.BETWEEN and method == "grpo":
                continue
            forecasts = [predicted[name].get(optimizer, {}).get(method) for name in ("predicted", "rival")]
            outcomes = ["" if few else by_optimizer.outcome(estimate, of) for of in forecasts]
            lines.append(
                f"| {optimizer} | `{method}` | {estimate[0]:+.3f} [{estimate[1]:+.3f}, {estimate[2]:+.3f}] | "
                f"{forecasts[0] or ''} | {' | '.join(outcomes)} |"
            )
    for optimizer in (name for name in by_optimizer.OPTIMIZERS if name in differences):
        order = by_optimizer.order(differences[optimizer], predicted["toy"])
        lines.append(f"Order under {optimizer} beside the toy network's: {order:.2f}")
    lines.append(f"(predicted under Adam: at least {predicted['order']})")
    return "\n".join(lines)


def of_task(data: dict[str, Any], task: str) -> dict[str, Any]:
    """Return what is kept of a task, or of the held-out problems of countdown."""
    content: dict[str, Any] = data if task == by_optimizer.TRAINED else data.get(task, EMPTY)
    return content


def draw(data: dict[str, Any]) -> Figure:
    """Draw what prediction and rival said and what was found of each method, a panel for each task and optimiser.

    There is none where no method gains what is judged in every seed.
    """
    judged = {task: content for task in TASKS if len(judging(content := of_task(data, task))) >= FEWEST}
    results = {task: findings(content, task) for task, content in judged.items()}
    shown = [
        (task, optimizer)
        for task, (_, differences) in results.items()
        for optimizer in LABELS
        if np.isfinite([*differences.get(optimizer, {}).values()]).any()
    ]
    rows = -(-len(shown) // COLUMNS)
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 0.7 + 2.5 * rows), layout="constrained")
        figure.suptitle(MESSAGE, x=0.01, ha="left", fontsize=10, fontweight="bold")
        figure.supxlabel("pass@64 less GRPO's at equal pass@1; orange: predicted, blue: by the rival", fontsize=9)
        panels = figure.subplots(rows, COLUMNS, sharey=True, squeeze=False)
        for letter, axes, (task, optimizer) in zip("abcdefghi", panels.flat, shown, strict=False):
            predicted, differences = results[task]
            forecasts = (predicted["predicted"].get(optimizer, {}), predicted["rival"].get(optimizer, {}))
            draw_panel(axes, forecasts, differences[optimizer])
            axes.set_title(f"{letter}  {TASKS[task].capitalize()}, {LABELS[optimizer]}", loc="left")
        for axes in panels.flat[len(shown) :]:
            axes.set_axis_off()
        methods = list(results[by_optimizer.TRAINED][1]["adamw"])
        panels[0, 0].set_yticks(range(len(methods)), [NAMES.get(method, method) for method in methods])
        panels[0, 0].invert_yaxis()
    return figure


def draw_panel(axes: Axes, forecasts: tuple[dict[str, Any], ...], differences: dict[str, list[float]]) -> None:
    """Draw intervals by method, over what prediction and rival said of each."""
    for row, (method, (mean, low, high)) in enumerate(differences.items()):
        for colour, shift, band in zip(("C1", "C0"), (-0.15, 0.15), forecasts, strict=True):
            if band.get(method):
                axes.plot(band[method], [row + shift] * 2, color=colour, alpha=0.35, linewidth=4, solid_capstyle="butt")
        axes.plot([low, high], [row, row], color="0.2", linewidth=1)
        axes.plot([mean], [row], "o", color="0.2", markersize=3)
    axes.axvline(0, color="0.6", linewidth=0.8)


def main(arguments: list[str]) -> None:
    """Add finished seeds to those that are kept, keep a run's on held-out problems, or print the tables."""
    data = json.loads(DATA.read_text()) if DATA.exists() else EMPTY
    held_out = by_optimizer.HELD_OUT
    if arguments[0] == "--table":
        gain = float(arguments[1]) if arguments[1:] else None
        for task in (by_optimizer.TRAINED, held_out, *list(TASKS)[1:]):
            content = of_task(data, task)
            if seeds := judging(content):
                print(f"{TASKS.get(task, task).capitalize()}, {len(seeds)} seeds\n{table(content, task, gain)}\n")
    elif arguments[0] == f"--{held_out.replace(' ', '-')}":
        keep(DATA, data | {held_out: condense_held_out(Path(arguments[1]))})
    elif arguments[0] == "--task":
        _, task, folder = arguments
        check_choice("task", task, list(TASKS)[1:])
        keep(DATA, data | {task: condense(Path(folder), of_task(data, task))})
    else:
        keep(DATA, condense(Path(*arguments), data))


if __name__ == "__main__":
    main(sys.argv[1:])

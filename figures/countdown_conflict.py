"""Countdown where problems conflict: which weights keep pass@64 at equal pass@1, beside the prediction.

    simlab train --preset countdown-conflict --out weights
    simlab train --preset countdown-conflict --arms grpo --group-size 2 --prompts 256 --out group-2
        (and --group-size 4 --prompts 128, 8 and 64, 32 and 16: 512 rollouts a step in all)
    python -m figures.countdown_conflict weights group-2 group-4 group-8 group-32   (condenses)
    python -m figures.countdown_conflict --table                                    (prints the tables of README.md)
    simlab figures countdown_conflict                                               (draws from what is kept here)

The prediction stands in figures/data/countdown_prediction.json, and was committed before the first run.
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

from figures.shared import countdown_prediction
from figures.shared.avoided import at_gain, gain_at_fall, share, verdict
from figures.shared.condensed import condense_or_print, rounded
from figures.shared.end_labels import end_labels
from figures.shared.trained import condense as condense_run
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "countdown_conflict.json"
MESSAGE = "GRPO gains pass@1 and loses pass@64; who keeps more pass@64 has gained less pass@1"
DIFFERS = "Not in the papers, but for the order over G (F-GRPO, Table 2): one small model from scratch, five seeds."
KEPT = ("pass@1", "pass@4", "pass@16", "pass@64", "distinct", "rare_nll")
SHOWN = 0  # of the falls
# Their names in the prediction.
NAMES = {"grpo+kl_penalty(coefficient=0.1)": "kl", "grpo+entropy_bonus(coefficient=0.03)": "entropy"}
USUAL_GROUP_SIZE = 16


def condense(*folders: Path) -> dict[str, Any]:
    """Each arm at each evaluation, (KEPT, seeds, evaluations), with the start first."""
    runs = [condense_run(folder) for folder in folders]
    return {
        "provenance": [files["run.json"] for files in runs],
        "arms": {name: curves for files in runs for name, curves in _arms(files).items()},
    }


def _arms(files: dict[str, Any]) -> dict[str, Any]:
    run = files["run.json"]
    size = run["settings"]["rl"]["group_size"]
    arms = {}
    for arm in run["arms"]:
        of_seeds = [_evaluations(files, arm, seed) for seed in run["seeds"]]
        name = NAMES.get(arm, arm) if size == USUAL_GROUP_SIZE else f"G = {size}"
        arms[name] = {
            "step": [line["step"] for line in of_seeds[0]],
            **{key: [[rounded(_number(line, key)) for line in lines] for lines in of_seeds] for key in KEPT},
        }
    return arms


def _evaluations(files: dict[str, Any], arm: str, seed: int) -> list[dict[str, Any]]:
    return [line for folder in ("start", f"arms/{arm}") for line in files[f"{folder}/seed-{seed}/evaluation.jsonl"]]


def _number(line: dict[str, Any], name: str) -> float:
    kind, at, k = name.partition("@")
    return float(line["pass_at_k"][k]["mean"] if at else np.mean(line[kind]))


def judged(data: dict[str, Any], fall: float) -> dict[str, dict[str, Any]]:
    """Judge each arm at a fall of GRPO's pass@64: its share, and its numbers at that pass@1, with standard errors."""
    pass_at_1, pass_at_64 = (np.array(data["arms"]["grpo"][name]) for name in ("pass@1", "pass@64"))
    gain = gain_at_fall(pass_at_1, pass_at_64, fall)
    at = {arm: _at(curves, gain) for arm, curves in data["arms"].items()}
    return {arm: _judged(values, at["grpo"], pass_at_64[:, 0]) for arm, values in at.items()}


def _at(curves: dict[str, Any], gain: float) -> dict[str, np.ndarray]:
    pass_at_1 = np.array(curves["pass@1"])
    steps = np.broadcast_to(np.array(curves["step"], dtype=float), pass_at_1.shape)
    values = {name: np.array(curves[name]) for name in KEPT} | {"step": steps}
    return {name: at_gain(pass_at_1, curve, gain) for name, curve in values.items()}


def _judged(arm: dict[str, np.ndarray], grpo: dict[str, np.ndarray], base: np.ndarray) -> dict[str, Any]:
    means = {name: _with_error(values) for name, values in arm.items()}
    if np.isnan(arm["pass@64"]).any():
        reached = int(np.isfinite(arm["pass@64"]).sum())
        return {"verdict": verdict(None, None), "reached": reached} | means
    avoided = share(arm["pass@64"], grpo["pass@64"], base)
    return avoided._asdict() | {"verdict": verdict(avoided.low, avoided.high), "reached": len(base)} | means


def _with_error(values: np.ndarray) -> list[float]:
    return [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))]


def outcome(predicted: dict[str, Any] | None, measured: dict[str, Any], baseline: dict[str, Any]) -> str:
    """Hit, miss, or the reason for neither, by the two verdicts."""
    if "low" not in baseline:
        return "not tested: some seed of GRPO does not fall so much"
    expected, seen = predicted["verdict"] if predicted else verdict(None, None), measured["verdict"]
    unclear = verdict(-1, 1)
    if expected == seen:
        return "hit" if seen != unclear else "nothing predicted, nothing seen"
    if unclear in (expected, seen):
        return "nothing predicted" if expected == unclear else "not seen"
    return "miss"


def draw(data: dict[str, Any]) -> Figure:
    """The paths of some arms; the predicted and the measured share of each; and two numbers by group size."""
    predicted = json.loads(countdown_prediction.DATA.read_text())
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 5.8), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=(1.5, 1))
        paths, shares = above.subplots(1, 2)
        _draw_paths(paths, data)
        _draw_shares(shares, judged(data, predicted["falls"][SHOWN]), predicted["predicted"][SHOWN])
        for axes, letter, (name, label) in zip(below.subplots(1, 2), "cd", OF_SIZES.items(), strict=True):
            _draw_sizes(axes, data, name)
            axes.set_ylabel(label)
            axes.set_title(f"({letter}) {label}, by group size", loc="left")
    return figure


OF_SIZES = {"pass@64": "pass@64", "rare_nll": "NLL of rare answers"}
PATH_NAMES = {"pass_at_k_chen(k=4)": "Chen's pass@4"}
PATHS = ("grpo", "f_grpo", "maxrl", "pass_at_k_chen(k=4)", "kl", "a_grae")


def _draw_paths(axes: Axes, data: dict[str, Any]) -> None:
    for number, arm in enumerate(PATHS):
        curves = data["arms"][arm]
        across, up = (np.mean(curves[name], axis=0) for name in ("pass@1", "pass@64"))
        axes.plot(across, up, marker="o", markersize=2, color=f"C{number}", label=arm)
    axes.set(xlabel="pass@1", ylabel="pass@64")
    axes.set_title("(a) from the start, top left, to step 100", loc="left")
    end_labels(axes, PATH_NAMES, size=7.5)


def _draw_shares(axes: Axes, results: dict[str, dict[str, Any]], predicted: dict[str, dict[str, Any]]) -> None:
    rows = [arm for arm in results if arm != "grpo"][::-1]
    for row, arm in enumerate(rows):
        if arm in predicted:
            low, high = predicted[arm]["low"], predicted[arm]["high"]
            axes.plot([low, high], [row, row], color="C1", alpha=0.35, linewidth=6, solid_capstyle="butt")
        result = results[arm]
        if "low" in result:
            axes.plot([result["low"], result["high"]], [row, row], color="0.2", linewidth=1)
            axes.plot([result["mean"]], [row], "o", color="0.2", markersize=3)
        else:
            axes.text(0.25, row, "too little pass@1", va="center", fontsize=7, color="0.4")
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [PATH_NAMES.get(arm, arm) for arm in rows], fontsize=7.5)
    axes.set_xlabel("share of GRPO's fall avoided")
    axes.set_title("(b) predicted (orange) and found", loc="left")


def _draw_sizes(axes: Axes, data: dict[str, Any], name: str) -> None:
    """The end of GRPO by group size, at 512 rollouts a step, beside the start."""
    sizes = {2: "G = 2", 4: "G = 4", 8: "G = 8", USUAL_GROUP_SIZE: "grpo", 32: "G = 32"}
    curves = [np.array(data["arms"][arm][name]) for arm in sizes.values()]
    mean, error = np.array([_with_error(curve[:, -1]) for curve in curves]).T
    axes.errorbar([*sizes], mean, error, color="C0", marker="o", markersize=3)
    start = curves[0][:, 0].mean()
    axes.axhline(start, color="0.5", linewidth=0.8, linestyle="--")
    axes.annotate(
        "start", (32, start), (0, -3), textcoords="offset points", color="0.4", va="top", ha="right", fontsize=8
    )
    axes.set_xscale("log", base=2)
    axes.set_xticks([*sizes], [*map(str, sizes)])
    axes.margins(y=0.12)
    axes.set_xlabel("group size at 512 rollouts a step")


def table(data: dict[str, Any]) -> str:
    """Predictions and results at each fall, with the numbers of each arm there; and the ends of all arms."""
    file = json.loads(countdown_prediction.DATA.read_text())
    texts = [_table(judged(data, fall), row, fall) for fall, row in zip(file["falls"], file["predicted"], strict=True)]
    return "\n\n".join([*texts, at_the_end(data)])


def at_the_end(data: dict[str, Any]) -> str:
    """The numbers of each arm after the last step, and its pass@64 less GRPO's, paired by seed."""
    heads = ("arm", *KEPT, "pass@64 less GRPO's")
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (1 + len(KEPT))}"]
    baseline = np.array(data["arms"]["grpo"]["pass@64"])[:, -1]
    for arm, curves in {"(start)": _start(data), **data["arms"]}.items():
        ends = {name: np.array(curves[name])[:, -1] for name in KEPT}
        gained = _with_error(ends["pass@64"] - baseline)
        lines.append(
            f"| `{arm}` | {' | '.join(_shown(value) for value in [*map(_with_error, ends.values()), gained])} |"
        )
    return "\n".join(lines)


def _start(data: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(data["arms"]["grpo"][name])[:, :1] for name in KEPT}


def _shown(value: list[float]) -> str:
    """A mean with its standard error, or nothing where not all seeds have one."""
    return f"{value[0]:.3f}({value[1]:.3f})" if np.isfinite(value[0]) else ""


def _table(results: dict[str, dict[str, Any]], predicted: dict[str, dict[str, Any]], fall: float) -> str:
    heads = ("arm", "predicted share", f"share where GRPO falls by {fall}", "outcome", "step", *KEPT)
    lines = [f"| {' | '.join(heads)} |", f"|---|---:|---:|---|{'---:|' * (1 + len(KEPT))}"]
    for arm, row in results.items():
        expected = predicted.get(arm)
        shown = [f"{expected['low']:.2f} to {expected['high']:.2f}" if expected else ""]
        reached = f"{row['reached']} of 5 seeds gain so much"
        shown.append(f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" if "low" in row else reached)
        shown.append("" if arm == "grpo" else outcome(expected, row, results["grpo"]))
        shown += [_shown(row[name]) for name in ("step", *KEPT)]
        lines.append(f"| `{arm}` | {' | '.join(shown)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Condense run folders, or print the tables of README.md."""
    condense_or_print(arguments, DATA, condense, table)


if __name__ == "__main__":
    main(sys.argv[1:])

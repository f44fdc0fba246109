"""Can a small language model spend what its rollouts say of interference: three remedies beside today's best.

    python -m figures.remedies_on_countdown runs 1 2 3 4 5     (trains a seed at a time; goes on where it was stopped)
    python -m figures.remedies_on_countdown --keep runs        (adds the seeds that are finished to those kept)
    python -m figures.shared.projection_controls runs 1 2 3 4 5    (two controls, run after the outcome was seen)
    python -m figures.remedies_on_countdown --controls runs    (keeps them)
    python -m figures.shared.projection_controls --fresh runs 6 7 8 9 10   (one of them, predicted, on fresh seeds)
    python -m figures.remedies_on_countdown --fresh runs/head  (keeps them)
    python -m figures.remedies_on_countdown --table            (prints what was predicted and what came out)
    simlab figures remedies_on_countdown                       (draws from what is kept here)

Countdown whose arms train on the very problems that are evaluated (``figures.shared.closed_countdown``), by AdamW at
two learning rates. The prediction and the rule of judging were committed before the runs; seed 0 was looked at before
and is not judged.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from figures import weights_by_optimizer
from figures.shared.avoided import at_gain
from figures.shared.by_optimizer import READ, TRAINED, best_of_others, interval, outcome, prediction
from figures.shared.closed_countdown import CHANGES, ClosedRun, train_arms
from figures.shared.condensed import keep
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "remedies_on_countdown.json"
PREDICTION = DATA.with_name("remedies_on_countdown_prediction.json")
FRESH_PREDICTION = DATA.with_name("projection_by_head_prediction.json")
DIFFERS = "Not in the papers: gradient surgery and two other remedies in RLVR, predicted before the runs."
MESSAGE = "Turning updates off the prompts they harm keeps less than a weight"
GRPO, BEST, PROJECTED = "GRPO", "F-GRPO, gamma 2", "update projected"
METHODS = {
    GRPO: "grpo",
    "entropy bonus": "grpo+entropy_bonus(coefficient=0.03)",
    BEST: "f_grpo(gamma=2)",
    "easy prompts rejected": "reject_easy(threshold=0.5)",
    "harmful prompts dropped": "grpo@remedy=drop@remedy_strength=0.5",
    PROJECTED: "grpo@remedy=project@remedy_strength=1",
    "prompts in danger again": "grpo@remedy=endangered@remedy_strength=0.5",
    "F-GRPO, projected": "f_grpo(gamma=2)@remedy=project@remedy_strength=1",
}
FRESH = {
    GRPO: METHODS[GRPO],
    BEST: METHODS[BEST],
    "projected by the last layer": METHODS[PROJECTED],
    "damped by the last layer": "grpo@remedy=damp@remedy_strength=1",
}
RATES = (2e-4, 4e-4)


def arm(method: str, rate: float) -> str:
    """Return a method by AdamW at a learning rate."""
    name, _, remedy = method.partition("@")
    return f"{name}@optimizer=adamw@learning_rate={rate:.4g}" + f"@{remedy}" * bool(remedy)


RUNS: dict[str, Any] = CHANGES | {"arms": [arm(method, rate) for method in METHODS.values() for rate in RATES]}
EACH = 64 * 8 * 10  # rollouts between two evaluations
PASS_1, PASS_64, KEPT = "pass@1, equal rollouts", "pass@64, equal rollouts", "pass@64, equal pass@1"
PRICE = "rollouts, binary logarithm"
BESIDE = f"{KEPT}, less F-GRPO's"
Intervals = dict[str, dict[str, list[float]]]


def curves(data: dict[str, Any], methods: dict[str, str] = METHODS) -> dict[str, np.ndarray]:
    """(pass@1 and pass@64, rates, seeds, evaluations) of each method, the start's first, of the seeds that count.

    Where an arm ended, its last evaluation stands for the others: it has gained all that is judged.
    """
    seeds = [data["seeds"][seed] for seed in weights_by_optimizer.judging(data)]
    longest = max(len(curve["pass@1"]) for arms in seeds for curve in arms.values())

    def padded(values: list[float]) -> list[float]:
        return values + values[-1:] * (longest - len(values))

    return {
        label: np.array(
            [[[padded(arms[arm(method, rate)][read]) for arms in seeds] for rate in RATES] for read in READ]
        )
        for label, method in methods.items()
    }


def readings(measures: np.ndarray, evaluation: int, gain: float) -> dict[str, np.ndarray]:
    """(seeds,) readings of a method, each at the learning rate that the other seeds choose.

    At equal rollouts, those until ``evaluation``, the highest pass@1 chooses. Where pass@1 first gains ``gain``, the
    highest pass@64 chooses; the price is the binary logarithm of the rollouts until there.
    """
    mass, many = measures
    steps = np.broadcast_to(np.arange(mass.shape[-1], dtype=float), mass.shape[1:])
    at = [np.array([at_gain(*pair, gain) for pair in zip(mass, values, strict=True)]) for values in (many, [steps] * 2)]
    early = mass[..., evaluation]
    return {
        PASS_1: best_of_others(early),
        PASS_64: best_of_others(early, many[..., evaluation]),
        KEPT: best_of_others(at[0]),
        PRICE: np.log2(best_of_others(at[0], at[1]) * EACH),
    }


def findings(data: dict[str, Any], methods: dict[str, str] = METHODS, path: Path = PREDICTION) -> tuple[Any, Intervals]:
    """Return the prediction, and each reading less GRPO's with its interval, by reading and method."""
    predicted = json.loads(path.read_text())
    judged = {label: readings(values, **predicted["judged_at"]) for label, values in curves(data, methods).items()}
    base, best = judged.pop(GRPO), judged[BEST][KEPT]
    bounds = {name: {label: interval(values[name] - base[name]) for label, values in judged.items()} for name in base}
    return predicted, bounds | {BESIDE: {label: interval(values[KEPT] - best) for label, values in judged.items()}}


def table(data: dict[str, Any]) -> str:
    """Return what was predicted and found, of the first seeds, the controls and the fresh seeds."""
    lines = judged_lines(data)
    lines += control_lines(data, json.loads(PREDICTION.read_text())["judged_at"])
    if fresh := data.get("fresh"):
        lines += ["Fresh seeds, by the last layer:", *judged_lines(fresh, FRESH, FRESH_PREDICTION)]
    return "\n".join(lines)


def judged_lines(data: dict[str, Any], methods: dict[str, str] = METHODS, path: Path = PREDICTION) -> list[str]:
    """Return the differences from GRPO with their intervals, what they say of a prediction, and all readings."""
    predicted, bounds = findings(data, methods, path)
    lines = [f"seeds {', '.join(weights_by_optimizer.judging(data))}"]
    lines += ["| | method | less GRPO's | predicted | outcome |", "|---|---|---:|---:|---|"]
    del bounds[BESIDE][BEST]
    for name, differences in bounds.items():
        for label, estimate in differences.items():
            forecast = predicted["predicted"].get(name, {}).get(label)
            numbers = f"{estimate[0]:+.3f} [{estimate[1]:+.3f}, {estimate[2]:+.3f}]"
            lines.append(f"| {name} | {label} | {numbers} | {forecast or ''} | {outcome(estimate, forecast)} |")
    return [*lines, "", *own_lines(curves(data, methods), predicted["judged_at"]), ""]


def own_lines(of: dict[str, np.ndarray], judged_at: dict[str, Any]) -> list[str]:
    """Return each reading of each method itself, with the standard error of its mean over seeds."""
    lines = [f"| method | {PASS_1} | {PASS_64} | {KEPT} | {PRICE} |", "|---|---:|---:|---:|---:|"]
    for label, values in of.items():
        rows = readings(values, **judged_at).values()
        numbers = (f"{each.mean():.3f} ({each.std(ddof=1) / np.sqrt(len(each)):.3f})" for each in rows)
        lines.append(f"| {label} | {' | '.join(numbers)} |")
    return lines


def control_lines(data: dict[str, Any], judged_at: dict[str, Any]) -> list[str]:
    """Return each control's readings, and their differences from GRPO, the projection and F-GRPO on its seeds."""
    lines, methods = list[str](), {label: METHODS[label] for label in (GRPO, PROJECTED, BEST)}
    for name, control in data.get("controls", {}).items():
        curve = curves(control, {name: METHODS[PROJECTED]})
        beside = curves({"seeds": {seed: data["seeds"][seed] for seed in control["seeds"]}}, methods)
        judged, *others = (readings(values, **judged_at) for values in (curve | beside).values())
        lines += [f"{name}, seeds {', '.join(control['seeds'])}", *own_lines(curve, judged_at), ""]
        lines += ["| less that of | what | difference |", "|---|---|---:|"]
        for label, other in zip(methods, others, strict=True):
            for what, values in judged.items():
                mean, low, high = interval(values - other[what])
                lines.append(f"| {label} | {what} | {mean:+.3f} [{low:+.3f}, {high:+.3f}] |")
        lines.append("")
    return lines


def draw(data: dict[str, Any]) -> Figure:
    """Draw what was predicted and found of each method, at equal rollouts and at equal pass@1."""
    predicted, bounds = findings(data)
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        figure.suptitle(MESSAGE, x=0.01, ha="left", fontsize=10, fontweight="bold")
        panels = figure.subplots(1, 3, sharey=True)
        for axes, name, letter in zip(panels, (PASS_1, PASS_64, KEPT), "abc", strict=True):
            weights_by_optimizer.draw_panel(axes, (predicted["predicted"].get(name, {}), {}), bounds[name])
            axes.set_title(f"{letter}  {name}", loc="left")
        panels[0].set_yticks(range(len(bounds[KEPT])), list(bounds[KEPT]))
        panels[0].invert_yaxis()
        panels[1].set_xlabel("less GRPO's; orange: predicted")
    return figure


def kept() -> dict[str, Any]:
    """Return the seeds that are kept."""
    data: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else weights_by_optimizer.EMPTY
    return data


def main(arguments: list[str]) -> None:
    """Train seeds, keep finished ones, or print the table."""
    data = kept()
    if arguments == ["--table"]:
        print(table(data))
    elif arguments[0] == "--controls":
        controls = {
            path.name: weights_by_optimizer.condense(path, weights_by_optimizer.EMPTY)
            for path in sorted(Path(arguments[1]).iterdir())
        }
        keep(DATA, data | {"controls": controls})
    elif arguments[0] == "--fresh":
        keep(DATA, data | {"fresh": weights_by_optimizer.condense(Path(arguments[1]), weights_by_optimizer.EMPTY)})
    elif arguments[0] == "--keep":
        keep(DATA, weights_by_optimizer.condense(Path(arguments[1]), data))
    else:
        folder, *seeds = arguments
        for seed in map(int, seeds):
            for name in train_arms(ClosedRun(seed, RUNS), Path(folder), prediction(TRAINED)["judged_at"]):
                print(f"seed {seed}: {name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""When a weight matters: predicted and measured pass@256 at equal pass@1, ``[simlab:weight-contrast]``.

    simlab sweep --preset network-law --out network-law.nc       (half an hour of CPU time)
    python -m figures.network_law network-law.nc                 (simulates the control and condenses, minutes)
    python -m figures.network_law --table                        (prints hits and misses)
    python -m figures.network_law --league                       (those of cells that the league has measured)
    simlab figures network_law                                   (draws from what is kept here)

The prediction, ``figures.shared.law_prediction``, was committed before the runs. The control sees inputs and answers in
random orthogonal bases: the same function at the start, the same plain steps, other coordinates for Adam.
"""

import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.style
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import simlab
from figures import network_league
from figures.shared.chosen import at_level
from figures.shared.condensed import keep, provenance, results, rounded
from figures.shared.flow import orthogonal
from figures.shared.law_prediction import PREDICTION
from simlab.plotting import STYLE
from simlab.problems.network import Network, network

DATA = Path(__file__).parent / "data" / "network_law.json"
EARLIER = DATA.with_name("law_prediction.json")  # another network, whose gain was fitted
DIFFERS = "Not in the papers: a prediction by the expected flow, committed before the runs that judge it."
MESSAGE = (
    "The expected flow foretells what a weight keeps at equal pass@1;\n"
    "in turned coordinates Adam hardly parts the weights"
)
TOLERANCE, CLEAR, PARTED, NEAR = 0.04, 0.02, 0.05, 0.01  # from the rule in the prediction
SEEDS, STEPS, EVERY = 6, 800, 10


@dataclass(frozen=True, eq=False)
class Turned(Network):
    """A network whose outputs are the logits in a random orthogonal basis of the answers."""

    def logits_of(self, parameters: Any, prompts: Int[Array, " P"] | None = None) -> Float[Array, "P A"]:
        """Turn the outputs back."""
        with jax.default_matmul_precision("highest"):
            return super().logits_of(parameters, prompts) @ jnp.asarray(orthogonal(self.entries, 2), jnp.float32)


def turned(problem: Network) -> Turned:
    """Return the same function of the prompts, its first and last layers in other coordinates."""
    inputs, answers = orthogonal(problem.inputs.shape[1], 1), orthogonal(problem.entries, 2)
    hidden = {**problem.hidden, "weights_1": problem.hidden["weights_1"] @ inputs.T}
    head = answers @ problem.head, answers @ problem.head_biases
    return Turned(problem.inputs @ inputs.T, hidden, *head, problem.correct, problem.target, problem.hard)


def at_smallest_rate(values: np.ndarray) -> tuple[float, float, int]:
    """Mean, standard error and index of the first row of ``values`` (rates, seeds) in which all seeds have a number."""
    for index, row in enumerate(values):
        if not np.isnan(row).any():
            return row.mean(), row.std(ddof=1) / np.sqrt(len(row)), index
    return np.nan, np.nan, -1


def measure(curves: Any, steps: np.ndarray, level: float) -> tuple[float, float, int]:
    """Read pass@256 where pass@1 reaches a level, at the smallest rate at which all seeds do."""
    ordered = curves.sortby("learning_rate").transpose("k", "learning_rate", "seed", "step")
    return at_smallest_rate(at_level(ordered.sel(k=1).values, ordered.sel(k=256).values, steps, level)[:, 0])


def control(predicted: dict[str, Any]) -> dict[str, Any]:
    """Run one layer under Adam in its own coordinates and turned."""
    plain = network().listed()
    bases: dict[str, Any] = {}
    for name, problem in (("adam", plain), ("adam, turned", turned(plain))):
        pairs = []
        for method in predicted["methods"]:
            run = simlab.simulate(
                problem, method, seeds=SEEDS, steps=STEPS, record_every=EVERY, group_size=8, optimizer="adam",
                optimizer_parameters={"learning_rate": 0.0005}, pass_at_k=(1, 256), top_n=0,
            )  # fmt: skip
            curves = run.pass_at_k.expand_dims(learning_rate=[0.0005])
            pairs.append(measure(curves, run.step.values, 0.45)[:2])
        bases[name] = dict(zip(("measured", "error"), rounded(np.transpose(pairs), 4), strict=True))
        bases[name]["predicted"] = predicted["pass@256 at .45"][name]
    return {"methods": predicted["methods"], "bases": bases}


def condense(path: Path) -> dict[str, Any]:
    """Return predicted and measured values of every cell, and the control."""
    prediction, sweeps = json.loads(PREDICTION.read_text()), results("network-law", path)
    cells = []
    for cell in prediction["cells"]:
        name = "{representation}-{optimizer}-{group_size}-{hard_rate:g}".format(**cell)
        if name not in sweeps:
            continue  # a cell of the league
        curves, steps = sweeps[name].pass_at_k.squeeze(drop=True), sweeps[name].step.values
        for level, predicted in zip(prediction["levels"], cell["pass@256"], strict=True):
            arms = [curves.sel(arm=f"{method}+reinforce") for method in prediction["methods"]]
            mean, error, rate = np.transpose([measure(arm, steps, level) for arm in arms])
            where = {key: cell[key] for key in ("representation", "optimizer", "group_size", "hard_rate")}
            numbers = {"predicted": predicted, "measured": rounded(mean, 4), "error": rounded(error, 2)}
            cells.append(where | {"level": level} | numbers | {"rate": rate.astype(int).tolist()})
    content = {"methods": prediction["methods"], "cells": cells, "control": control(prediction["controls"])}
    return {"provenance": [provenance(dataset) for dataset in sweeps.values()], **content}


def in_the_league(prediction: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a prediction that the league has measured, at the learning rate that is best there."""
    data, cells = json.loads(network_league.DATA.read_text()), []
    usual = {"prompts": network_league.USUAL_PROMPTS, "prompts_per_step": 0, "beside": ""}
    for cell in prediction["cells"]:
        where = {"representation": "one"} | {key: cell[key] for key in network_league.CONDITIONS if key in cell}
        levels = prediction.get("levels") or [cell["level"]]
        for level, predicted in zip(levels, np.atleast_2d(cell.get("pass@256", [])).tolist(), strict=True):
            wanted = {key: str(value) for key, value in (where | usual | {"level": level}).items()}
            scores = {row["method"]: row["pass@256"] for row in network_league.selected(data, wanted)}
            measured = [scores.get(method) for method in prediction["methods"]]
            if predicted and any(measured):
                cells.append(where | {"level": level, "predicted": predicted, "measured": measured})
    return {"methods": prediction["methods"], "cells": cells}


def judged(methods: list[str], cell: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Count hits, and what is judged, of levels, orders and partings from GRPO."""
    numbers = [np.array(cell[key], float) for key in ("predicted", "measured")]
    predicted, measured = (values[~np.isnan(numbers[1])] for values in numbers)
    levels = np.abs(measured - predicted) <= TOLERANCE
    pairs = [(i, j) for i, j in itertools.permutations(range(len(measured)), 2) if predicted[i] - predicted[j] > CLEAR]
    orders = [measured[i] > measured[j] for i, j in pairs]
    distances = [np.abs(values - values[methods.index("grpo")]) for values in numbers]
    sure = (np.abs(distances[0] - PARTED) > NEAR) & ~np.isnan(distances[1]) & (np.array(methods) != "grpo")
    parted = [(distances[0] > PARTED)[sure] == (distances[1] > PARTED)[sure]]
    return {
        name: (int(np.sum(right)), int(np.size(right)))
        for name, right in (("levels", levels), ("orders", orders), ("partings", parted))
    }


def table(numbers: dict[str, Any]) -> str:
    """Return a row for each cell: hits of what is judged, and the largest miss."""
    lines = []
    for cell in numbers["cells"]:
        hits = "\t".join(f"{hit}/{judged_}" for hit, judged_ in judged(numbers["methods"], cell).values())
        miss = np.nanmax(np.abs(np.array(cell["measured"], float) - cell["predicted"]))
        where = "\t".join(str(cell[key]) for key in ("representation", "optimizer", "group_size", "hard_rate", "level"))
        lines.append(f"{where}\t{hits}\t{miss:.3f}")
    return "\n".join(["representation\toptimizer\tG\thard rate\tlevel\tlevels\torders\tpartings\tlargest miss", *lines])


def draw(numbers: dict[str, Any]) -> Figure:
    """Draw measured against predicted under plain steps and under Adam, and the control."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.4))
        figure.suptitle(MESSAGE, x=0.02, y=0.99, ha="left", va="top", fontsize=10, fontweight="bold")
        panels = figure.subplots(
            1, 3, gridspec_kw={"left": 0.08, "right": 0.98, "top": 0.76, "bottom": 0.25, "wspace": 0.4}
        )
        for axes, optimizer, title in zip(panels, ("sgd", "adam"), ("a  Plain steps", "b  Adam"), strict=False):
            axes.axline((0.6, 0.6), slope=1, color="0.7", linewidth=1)
            draw_cells(axes, [cell for cell in numbers["cells"] if cell["optimizer"] == optimizer])
            axes.set_title(title, loc="left")
        panels[0].legend(frameon=False)
        draw_control(panels[2], numbers["control"])
    return figure


def draw_cells(axes: Axes, cells: list[dict[str, Any]]) -> None:
    """Draw a point for each method and level of the cells."""
    for name, marker, label in (("linear", "o", "linear head"), ("one", "s", "one hidden layer")):
        some = [cell for cell in cells if cell["representation"] == name]
        columns = ([value for cell in some for value in cell[key]] for key in ("predicted", "measured", "error"))
        predicted, measured, error = (np.array(column, float) for column in columns)
        axes.errorbar(predicted, measured, error, fmt=marker, markersize=3, linewidth=0.8, label=label)
    axes.set(xlabel="predicted pass@256", ylabel="measured pass@256")


def draw_control(axes: Axes, control: dict[str, Any]) -> None:
    """Draw one network in its own coordinates and turned: points are measured, lines predicted."""
    positions = range(len(control["methods"]))
    for name, marker in (("adam", "s"), ("adam, turned", "D")):
        values = control["bases"][name]
        axes.errorbar(positions, values["measured"], values["error"], fmt=marker, markersize=4, label=name)
        axes.plot(positions, values["predicted"], color="0.6", linewidth=1, zorder=0)
    names = [method.replace("(gamma=1)", " 1").replace("_alpha(alpha=3)", " 3") for method in control["methods"]]
    axes.set_xticks(positions, names, rotation=45, ha="right")
    axes.set(ylabel="pass@256 at pass@1 = .45")
    axes.set_title("c  One network, two bases", loc="left")
    axes.legend(frameon=False)


def main(arguments: list[str]) -> None:
    """Condense results, or print hits and misses, of the runs of the prediction or of the league."""
    if arguments == ["--table"]:
        print(table(json.loads(DATA.read_text())))
    elif arguments == ["--league"]:
        for path in (EARLIER, PREDICTION):
            print(f"{path.name}\n{table(in_the_league(json.loads(path.read_text())))}")
    else:
        keep(DATA, condense(*map(Path, arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])

"""A-GRAE's controlled experiments and the collapse of its negative-dominant control ``[a-grae:fig-3]``.

    simlab sweep --preset a-grae --out a-grae.nc
    python -m figures.a_grae_controls a-grae.nc   (condenses a-grae-few.nc and its siblings)
    simlab figures a_grae_controls                (draws from the condensed numbers kept here)

Some condensed numbers are not drawn; figures/README.md quotes them.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from figures.shared.condensed import keep, mean_and_error, provenance, results, rounded
from figures.shared.method_colours import METHOD_COLOURS
from simlab.columns import at_equal_mass
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "a_grae_controls.json"
MESSAGE = (
    "Positive-dominant weights lead at every k; under Adam, weights that sum below 0 lose prompts late in training"
)
DIFFERS = (
    "Tabular prompts in place of Qwen2.5-Math-7B on MATH; 24 to 200 seeds in place of one run, differences paired "
    "by seed."
)
LEVELS = np.array([0.6, 0.7, 0.8, 0.9])
CURVES = ("q_pos", "entropy", "retained_mass", "unsolved")
AT_EQUAL_MASS = ("entropy", "retained_mass", "pass_at_8", "pass_at_64", "pass_at_256")
EXPERIMENTS = ("few", "few-sgd", "many", "dapo")
# A surge of unsolved prompts, decided before the runs of many seeds: the expected share of prompts that eight samples
# leave unsolved is 1.5 times its lowest value so far, and larger by at least .05. A collapse: Q_pos is half its peak.
SURGE_FACTOR, SURGE_SHARE, COLLAPSE_FACTOR = 1.5, 0.05, 0.5
GROUP_SIZE = 8
COLOURS = {
    "grpo": METHOD_COLOURS["grpo"],
    "positive_dominant": "C1",
    "negative_dominant": "C6",
    "a_grae": "C2",
    "hard_focused": "C3",
    "easy_focused": "C4",
    "dr_grpo": "C5",
}
DASHES = {
    "grpo": "-",
    "positive_dominant": "-.",
    "negative_dominant": "--",
    "a_grae": ":",
    "hard_focused": (0, (7, 1.5)),
    "easy_focused": (0, (5, 1.5, 1, 1.5, 1, 1.5)),
    "dr_grpo": (0, (2, 2)),
}
DOMINANCE = ("grpo", "positive_dominant", "negative_dominant", "a_grae")
NAMES = {
    "grpo": "GRPO",
    "positive_dominant": "positive-dominant",
    "negative_dominant": "negative-dominant",
    "a_grae": "A-GRAE",
    "hard_focused": "hard-focused",
    "easy_focused": "easy-focused",
    "dr_grpo": "Dr. GRPO",
}


def condense(path: Path) -> dict[str, Any]:
    """Curves and final pass@k of every method, what each gains over GRPO, and how often and when runs collapse."""
    sweeps = results("a-grae", path)
    several = [(name, runs) for name, runs in sweeps.items() if name.startswith("collapse")]
    return {
        "provenance": [provenance(dataset) for dataset in sweeps.values()],
        "k": sweeps["few"]["k"].values.tolist(),
        "level": LEVELS.tolist(),
        "experiments": {name: _experiment(sweeps[name]) for name in EXPERIMENTS},
        "collapse": [
            {"sweep": name, "cell": label, **_collapse(runs)}
            for name, sweep in several
            for label, runs in _cells(sweep)
        ]
        + [{"sweep": "many", "cell": label, **_collapse(runs)} for label, runs in _cells(sweeps["many"])],
    }


def _cells(sweep: xr.Dataset) -> list[tuple[dict[str, Any], xr.Dataset]]:
    """The runs (seed, step) of every cell, with its place in the grid."""
    names = [str(name) for name in sweep["q_pos"].dims if name not in ("seed", "step")]
    points = itertools.product(*(sweep[name].values.tolist() for name in names))
    return [
        (cell, sweep.sel(cell).transpose("seed", "step", ...))
        for cell in (dict(zip(names, point, strict=True)) for point in points)
    ]


def _experiment(sweep: xr.Dataset) -> dict[str, Any]:
    """Every method by its name; A-GRAE's two readings and the surrogates are methods of their own."""
    methods = {}
    for cell, runs in _cells(sweep):
        if cell.get("easy_term", "paper") == "paper" or cell["estimator"] == "a_grae":
            others = [cell[name] for name in ("surrogate", "easy_term") if name in cell]
            methods[" ".join([cell["estimator"], *(word for word in others if word not in ("paper", "ppo_clip"))])] = (
                runs
            )
    reference = methods["grpo"]
    return {
        "step": sweep["step"].values.tolist(),
        "methods": {
            name: {
                "curves": {metric: mean_and_error(_metric(runs, metric).T) for metric in CURVES},
                "pass_at_k": {when: mean_and_error(_pass_at_k(runs, index)) for when, index in _moments(sweep).items()},
                "pass_at_k_over_grpo": {
                    when: mean_and_error(_pass_at_k(runs, index) - _pass_at_k(reference, index))
                    for when, index in _moments(sweep).items()
                },
                "at_equal_mass_over_grpo": {
                    metric: mean_and_error(_at_levels(runs, metric) - _at_levels(reference, metric))
                    for metric in AT_EQUAL_MASS
                },
            }
            for name, runs in methods.items()
        },
    }


def _metric(runs: xr.Dataset, name: str) -> np.ndarray:
    """(seeds, steps) of a metric; ``unsolved`` is the expected share of prompts that eight samples leave unsolved."""
    if name == "unsolved":
        return 1 - _metric(runs, f"pass_at_{GROUP_SIZE}")
    values: np.ndarray = (
        runs["pass_at_k"].sel(k=int(name.rpartition("_")[2])) if name.startswith("pass_at_") else runs[name]
    ).values
    return values


def _moments(runs: xr.Dataset) -> dict[str, int]:
    """The records at which pass@k is compared: at the end most prompts are solved by every method."""
    return {"start": 0, "quarter": runs.sizes["step"] // 4, "end": -1}


def _pass_at_k(runs: xr.Dataset, index: int) -> np.ndarray:
    """(k, seeds) pass@k of one record."""
    values: np.ndarray = runs["pass_at_k"].isel(step=index).transpose("k", "seed").values
    return values


def _at_levels(runs: xr.Dataset, name: str) -> np.ndarray:
    return at_equal_mass(_metric(runs, "q_pos"), _metric(runs, name), LEVELS)


def _collapse(runs: xr.Dataset) -> dict[str, Any]:
    """Count the seeds that surge and collapse, with times, ends, and what the final unsolved share correlates with."""
    q_pos, unsolved, entropy = (_metric(runs, name) for name in ("q_pos", "unsolved", "entropy"))
    lowest = np.minimum.accumulate(unsolved, axis=1)
    surge = (unsolved > SURGE_FACTOR * lowest) & (unsolved - lowest > SURGE_SHARE)
    collapse = q_pos < COLLAPSE_FACTOR * np.maximum.accumulate(q_pos, axis=1)
    surged = surge.any(axis=1)
    first = runs["step"].values[surge.argmax(axis=1)][surged]
    early = _moments(runs)["quarter"]
    before = {"q_pos": q_pos, "entropy": entropy, "unsolved": unsolved, "retained_mass": _metric(runs, "retained_mass")}
    return {
        "seeds": len(q_pos),
        "surged": int(surged.sum()),
        "collapsed": int(collapse.any(axis=1).sum()),
        "first_surge_quantiles": rounded(np.quantile(first, (0.05, 0.25, 0.5, 0.75, 0.95))) if len(first) else [],
        "final_surged": int(surge[:, -1].sum()),
        "final": {
            name: [rounded(values[:, -1].mean()), rounded(values[:, -1].std(ddof=1))] for name, values in before.items()
        },
        "final_pass_at_256": rounded(_metric(runs, "pass_at_256")[:, -1].mean()),
        "lowest_unsolved": rounded(lowest[:, -1].mean()),
        "entropy_start_and_peak": rounded(np.array([entropy[:, 0].mean(), entropy.mean(axis=0).max()])),
        "histogram_start_and_end": rounded(runs["solve_rate_histogram"].isel(step=[0, -1]).mean("seed").values),
        "rank_correlation_of_final_unsolved_with_early": {
            name: rounded(spearmanr(values[:, early], unsolved[:, -1])[0])
            for name, values in before.items()
            if len(first)
        },
    }


def draw(data: dict[str, Any]) -> Figure:
    """Entropy and unsolved prompts while training, final pass@k against GRPO's, and the share of runs that surge."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 5.2), layout="constrained")
        panels = figure.subplots(2, 3)
        _draw_curves(panels[0, 0], data["experiments"]["few"], "entropy")
        _draw_curves(panels[0, 1], data["experiments"]["many"], "entropy")
        _draw_curves(panels[0, 2], data["experiments"]["many"], "unsolved")
        _draw_gains(panels[1, 0], data, "few")
        _draw_gains(panels[1, 1], data, "few-sgd")
        _draw_surges(panels[1, 2], data["collapse"])
        titles = (
            "(a) entropy, 64 actions",
            "(b) entropy, 1000 actions",
            "(c) unsolved, 1000 actions",
            "(d) pass@k over GRPO, Adam",
            "(e) pass@k over GRPO, SGD",
            "(f) runs with a surge",
        )
        for axes, title in zip(panels.flat, titles, strict=True):
            axes.set_title(title, loc="left")
        lines = {}
        for axes in panels.flat[:5]:
            lines |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4)
    return figure


def banded(axes: Axes, x: Any, values: dict[str, Any], method: str) -> None:
    """A line of the mean of a method in its 95 % band."""
    mean, half = np.array(values["mean"]), 1.96 * np.array(values["error"])
    axes.plot(x, mean, linestyle=DASHES[method], color=COLOURS[method], label=NAMES[method])
    axes.fill_between(x, mean - half, mean + half, color=COLOURS[method], alpha=0.2, lw=0)


def _draw_curves(axes: Axes, experiment: dict[str, Any], metric: str) -> None:
    for method in DOMINANCE:
        banded(axes, experiment["step"], experiment["methods"][method]["curves"][metric], method)
    axes.set(xlabel="step", ylim=(0, None))


def _draw_gains(axes: Axes, data: dict[str, Any], experiment: str) -> None:
    axes.axhline(0, color="0.6", linewidth=0.8)
    for method in COLOURS:
        if method != "grpo":
            gains = data["experiments"][experiment]["methods"][method]["pass_at_k_over_grpo"]["quarter"]
            banded(axes, data["k"], gains, method)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="k, at step 375")


def _draw_surges(axes: Axes, cells: list[dict[str, Any]]) -> None:
    """The share of runs with a surge, with the 95 % interval of Wilson."""
    rows = [(label, cell) for cell in cells if (label := _surge_label(cell))]
    for row, (_, cell) in enumerate(rows):
        share, count = cell["surged"] / cell["seeds"], cell["seeds"]
        centre = (share + 1.92 / count) / (1 + 3.84 / count)
        half = 1.96 * np.sqrt(share * (1 - share) / count + 0.96 / count**2) / (1 + 3.84 / count)
        colour = COLOURS[cell["cell"]["estimator"]]
        axes.plot([centre - half, centre + half], [row, row], color=colour, linewidth=1.2)
        axes.plot(share, row, "o", color=colour)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="share of seeds", xlim=(-0.04, 1.04))


def _surge_label(cell: dict[str, Any]) -> str:
    """Name what sets a cell of the collapse sweeps apart; empty for cells that panel (f) leaves out."""
    setting = cell["cell"]
    special = {
        "collapse": f"rate {setting.get('learning_rate', 0):g}",
        "collapse-a-grae": "A-GRAE",
        "collapse-eps": f"eps {setting.get('eps', 0):.0e}",
        "collapse-sgd": f"SGD, {setting.get('learning_rate', 0):g}",
        "collapse-group": "G = 32",
        "collapse-actions": "250 actions",
    }
    return special.get(cell["sweep"], "")


def main(arguments: list[str]) -> None:
    """Condense results into the numbers kept here."""
    keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Figure 8 of FADE: the scheduler along a run, and its entropy target and the rank ``[fade:fig-8-continuous]``.

    python -m figures.fade_fig8    (simulates, in a few minutes of one core)
    simlab figures fade_fig8       (draws from the condensed numbers kept here)

Bands and bars are 95 % of the mean over seeds.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep, mean_and_error, provenance, rounded
from figures.shared.scheduled import scheduled
from simlab.plotting import STYLE
from simlab.sweeps import Sweep, run
from simlab.sweeps.presets import PRESETS

DATA = Path(__file__).parent / "data" / "fade_fig8.json"
MESSAGE = "The schedule's order is the paper's, but a higher entropy target brings updates no nearer to rank 1"
DIFFERS = (
    "The schedule is that of a bank of 64 tabular prompts, at the means of solve rate and entropy over prompts; the "
    "head is a linear softmax with shared features, in place of a language model's."
)
SEEDS = 8
BANK = PRESETS["fade"]["scheduler"] | {"seeds": SEEDS}
BANK_CHANGES = {
    "estimator.alpha_max": (3.0,),
    "estimator.delta_min": (0.3,),
    "estimator.beta": (0.02,),
    "run.update_norm": (0.0,),
}
HEAD = PRESETS["fade-rank"]["sgd"] | {"seeds": SEEDS, "record_every": 30}
HEAD_CHANGES = {"problem.failure_modes": (8,), "problem.success_modes": (1,), "problem.answers": ("shared",)}
TARGETS = (0.5, 1.0, 1.5, 2.0, 2.5)
STATIC = (0.3, 1.0)
MEASURES = ("singular_gap", "leading_share", "norm", "q_pos", "entropy")


def simulate() -> dict[str, Any]:
    """One run of the scheduler on a bank, and runs at several entropy targets on prompts that share a head."""
    head = {name: values for name, values in HEAD["parameters"].items() if name != "estimator.delta"} | HEAD_CHANGES
    targets = HEAD | {"estimators": ("fade",), "parameters": head | {"estimator.target_entropy": TARGETS}}
    static = HEAD | {"parameters": head | {"estimator.delta": STATIC}}
    with tempfile.TemporaryDirectory() as folder:
        bank, of_targets, of_static = (
            run(Sweep(**settings), Path(folder) / f"{number}.nc")
            for number, settings in enumerate(
                (BANK | {"parameters": BANK["parameters"] | BANK_CHANGES}, targets, static)
            )
        )
    runs = bank.isel(estimator=0, group_size=0).transpose("step", ..., "seed")
    return {
        "provenance": [provenance(dataset) for dataset in (bank, of_targets, of_static)],
        "step": bank["step"].values.tolist(),
        "bank": {name: mean_and_error(runs[name].values) for name in ("q_pos", "entropy")},
        "targets": [_ended(of_targets.sel(target_entropy=target)) | {"target": target} for target in TARGETS],
        "static": [_ended(of_static.sel(delta=delta)) | {"delta": delta} for delta in STATIC],
    }


def _ended(dataset: xr.Dataset) -> dict[str, Any]:
    """The ends of the runs of one setting, and their entropy at the start."""
    runs = dataset.isel(estimator=0, group_size=0)
    last = runs.isel(step=-1)
    last = last.assign(norm=last["singular_values"].isel(singular=0) / np.sqrt(last["leading_share"]))
    start = rounded(runs["entropy"].isel(step=0).mean().item())
    return {"start_entropy": start} | {name: mean_and_error(last[name].values) for name in MEASURES}


def draw(data: dict[str, Any]) -> Figure:
    """The scheduler's path, and the weight change at each target."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=(1, 1.25))
        _draw_schedule(above.subplots(1, 4), data)
        singular, norm = below.subplots(1, 2)
        _draw_targets(singular, data, "singular_gap", "$s_1/s_2$ of $W_t - W_0$")
        _draw_targets(norm, data, "norm", r"$\|W_t - W_0\|_F$")
        singular.set_title("(b) singular values", loc="left")
        norm.set_title("(c) size", loc="left")
    return figure


def schedule(data: dict[str, Any]) -> np.ndarray:
    """(steps, 2) alpha and delta at the mean solve rate and the mean entropy of each record."""
    rates, entropies = (np.array(data["bank"][name]["mean"]) for name in ("q_pos", "entropy"))
    return np.array([scheduled(p, h, entropies[0] / 2) for p, h in zip(rates, entropies, strict=True)])


def _draw_schedule(panels: Sequence[Axes], data: dict[str, Any]) -> None:
    """The solve rate and the entropy over its target, and the alpha and delta that these lead to, a panel each."""
    alpha, delta = schedule(data).T
    entropy = np.array(data["bank"]["entropy"]["mean"])
    drawn = {
        "(a) solve rate": data["bank"]["q_pos"]["mean"],
        "$H - H^*$ (nats)": entropy - entropy[0] / 2,
        r"$\alpha$": alpha,
        r"$\delta$": delta,
    }
    for number, (axes, (name, values)) in enumerate(zip(panels, drawn.items(), strict=True)):
        axes.plot(data["step"], values, color=f"C{number // 2}")
        axes.set_title(name, loc="left")
        axes.set_xlabel("step")
    panels[1].axhline(0, color="0.6", lw=0.6, zorder=0)


def _draw_targets(axes: Axes, data: dict[str, Any], measure: str, label: str) -> None:
    """A measure of the accumulated weight change against the entropy target; static weights as levels."""
    rows = [row[measure] for row in data["targets"]]
    mean, error = (np.array([row[key] for row in rows]) for key in ("mean", "error"))
    targets = [row["target"] for row in data["targets"]]
    axes.errorbar(targets, mean, 1.96 * error, color="C4", marker="o", ms=4)
    axes.annotate("FADE", (targets[0], mean[0]), (6, 4), textcoords="offset points", color="C4", fontsize=8)
    for row, dashes, side in zip(data["static"], (":", "--"), ("left", "right"), strict=True):
        level = row[measure]["mean"]
        axes.axhline(level, color="0.3", ls=dashes, lw=1)
        name = rf"AsymGRPO $\delta$ = {row['delta']:g}"
        position = (float(side == "right"), level)
        axes.annotate(name, position, xycoords=("axes fraction", "data"), ha=side, va="bottom", fontsize=7.5)
    axes.set(xlabel="entropy target $H^*$ (nats)", ylabel=label)


if __name__ == "__main__":
    keep(DATA, simulate())

"""Figure 14 of FADE: entropy while learning, at one learning rate and at equal steps ``[fade:fig-14]``.

    python -m figures.fade_fig14    (simulates, in a few minutes of one core)
    simlab figures fade_fig14       (draws from the condensed numbers kept here)

Bands are 95 % of the mean over seeds. Figure 6 is drawn from the same runs.
"""

import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import simlab
from figures.shared.condensed import keep, mean_and_error, provenance, rounded
from simlab.plotting import STYLE
from simlab.sweeps import Sweep, run
from simlab.sweeps.presets import PRESETS
from simlab.theory.power_law import power_laws

DATA = Path(__file__).parent / "data" / "fade_fig14.json"
MESSAGE = "At equal pass@1 most of what scales do to the entropy is gone, but for Power-4"
DIFFERS = (
    "A bank of 64 tabular prompts in place of 7B and 32B models; learning rates are equalised as in the paper, by the "
    "largest |A| of a group."
)
# The preset's runs of FADE on a bank, at the learning rate that gives mean GRPO about its pace there.
BANK = PRESETS["fade"]["weights"] | {"seeds": 8, "pass_at_k": (1, 2, 4, 8, 16, 32, 64, 100, 128, 256, 1024)}
REFERENCE, RATE = "grpo", 4.0
GROUP_SIZE = 16
WEIGHTS: dict[str, tuple[str, dict[str, Any]]] = {
    "GRPO": ("grpo", {}),
    "mean GRPO": ("dr_grpo", {}),
    "Skew-R": ("skew_r", {}),
    "MaxRL": ("maxrl", {}),
    "Power-2": ("power_alpha", {"alpha": 2.0}),
    "Power-4": ("power_alpha", {"alpha": 4.0}),
    "delta .3": ("asym_grpo", {"delta": 0.3}),
    "delta 3": ("asym_grpo", {"delta": 3.0}),
    "Chen's pass@4": ("pass_at_k_chen", {"k": 4}),
}
RATES = ("equal", "same")
LINES = {
    "GRPO": ("C0", "-"),
    "mean GRPO": ("C1", "--"),
    "Skew-R": ("C2", ":"),
    "Power-4": ("C3", "-."),
    "delta .3": ("C4", (0, (5, 1, 1, 1, 1, 1))),
    "delta 3": ("C6", (0, (1, 1))),
}


def largest_advantage(name: str, parameters: dict[str, Any]) -> float:
    """The largest |A| of any group of rewards 0 and 1."""
    groups = (np.arange(GROUP_SIZE) < np.arange(GROUP_SIZE + 1)[:, None]).astype(float)
    return float(np.abs(simlab.advantages(name, groups, **parameters)).max())


def simulate() -> dict[str, Any]:
    """All weights at the learning rate of GRPO, and at rates of one largest step."""
    of_reference = largest_advantage(*WEIGHTS["GRPO"])
    data: dict[str, Any] = {"rates": {name: {} for name in RATES}, "runs": {name: {} for name in RATES}}
    with tempfile.TemporaryDirectory() as folder:
        for label, (name, parameters) in WEIGHTS.items():
            factor = of_reference / largest_advantage(name, parameters)
            for kind, rate in zip(RATES, (RATE * factor, RATE), strict=True):
                dataset = run(_sweep(name, parameters, rate), Path(folder) / f"{label} {kind}.nc")
                data["rates"][kind][label] = rounded(rate)
                data["runs"][kind][label] = _condensed(dataset)
                data |= {"provenance": provenance(dataset), "step": dataset["step"].values.tolist()}
                data["k"] = dataset["k"].values.tolist()
    return data


def _sweep(name: str, parameters: dict[str, Any], rate: float) -> Sweep:
    estimator = {f"estimator.{parameter}": (value,) for parameter, value in parameters.items()}
    changes = {"optimizer.learning_rate": (rate,), "run.update_norm": (0.0,)}
    return Sweep(**BANK | {"estimators": (name,), "parameters": BANK["parameters"] | changes | estimator})


def _condensed(dataset: xr.Dataset) -> dict[str, Any]:
    """Along training: entropy, pass@1, pass@k and the shifted power law of each seed."""
    runs = dataset.isel(estimator=0, group_size=0).transpose("step", ..., "seed")
    law = power_laws(runs["pass_at_k"]).transpose("step", "seed")
    curves = {name: mean_and_error(runs[name].values) for name in ("entropy", "q_pos")}
    curves |= {name: mean_and_error(law[name].values) for name in ("scale", "exponent")}
    return curves | {"pass_at_k": mean_and_error(runs["pass_at_k"].transpose("step", "k", "seed").values)}


def draw(data: dict[str, Any]) -> Figure:
    """The two panels of the figure, and entropy against pass@1 in place of steps."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.0), layout="constrained")
        panels = figure.subplots(1, 3, sharey=True)
        for axes, kind, title in zip(panels, ("equal", "same", "equal"), _TITLES, strict=True):
            _draw_curves(axes, data, kind, "q_pos" if axes is panels[2] else None)
            axes.set_title(title, loc="left")
        panels[0].set_ylabel("entropy (nats)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, columnspacing=1.2)
    return figure


_TITLES = ("(a) equalised rates", "(b) one rate", "(c) equalised, by pass@1")


def _draw_curves(axes: Axes, data: dict[str, Any], kind: str, across: str | None) -> None:
    """Entropy with its band, against steps or against another quantity's mean."""
    for name, (colour, dashes) in LINES.items():
        runs = data["runs"][kind][name]
        mean, half = (np.array(runs["entropy"][key]) for key in ("mean", "error"))
        x = runs[across]["mean"] if across else data["step"]
        axes.plot(x, mean, linestyle=dashes, color=colour, label=name.replace("delta", r"$\delta$ ="))
        axes.fill_between(x, mean - 1.96 * half, mean + 1.96 * half, color=colour, alpha=0.2, lw=0)
    axes.set_xlabel("pass@1" if across else "step")


if __name__ == "__main__":
    keep(DATA, simulate())

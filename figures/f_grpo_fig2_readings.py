"""Other readings of F-GRPO's App. J ``[f-grpo:app-j]``, as the paper states neither optimiser nor gradient.

    python -m figures.f_grpo_fig2_readings   (runs the sweeps, some minutes on two cores)
    simlab figures f_grpo_fig2_readings      (draws from the numbers kept here)

Each panel is one reading, at gamma = 0: the final correct mass and retained mass against group size, 4 seeds.
"""

import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from simlab.plotting import LABELS, STYLE
from simlab.sweeps import Sweep, run
from simlab.sweeps.presets import F_GRPO_FIG2

DATA = Path(__file__).parent / "data" / "f_grpo_fig2_readings.json"
MESSAGE = "Only the ratio form with Adam gives the paper's Figure 2"
DIFFERS = "Not in the paper: what its Figure 2 would be under the other readings of App. J."

# Reading: optimiser, and what differs from the preset's parameters.
READINGS: dict[str, tuple[str, dict[str, tuple[Any, ...]]]] = {
    "ratio form, Adam": ("adam", {}),
    "ratio form, AdamW (decay 0.01)": ("adamw", {}),
    "ratio form, plain gradient": ("sgd", {}),
    "literal p form, Adam": ("adam", {"run.update_rule": ("simulator_literal",)}),
    "literal p form, plain gradient": ("sgd", {"run.update_rule": ("simulator_literal",)}),
    "theorem (distinct sets), Adam": (
        "adam",
        {"run.update_rule": ("theorem",), "estimator.base": ("reinforce",)},
    ),
}


def simulate_readings() -> dict[str, Any]:
    """Final mean and standard error over seeds of each reading."""
    data: dict[str, Any] = {"group_size": list(F_GRPO_FIG2["group_sizes"]), "readings": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, (optimizer, changes) in READINGS.items():
            parameters = F_GRPO_FIG2["parameters"] | {"estimator.gamma": (0.0,)} | changes
            sweep = Sweep(**F_GRPO_FIG2 | {"optimizer": optimizer, "parameters": parameters})
            dataset = run(sweep, Path(folder) / f"{len(data['readings'])}.nc")
            final = dataset.isel(step=-1, estimator=0)
            data["readings"][name] = {
                metric: {
                    "mean": [float(f"{value:.6g}") for value in final[metric].mean("seed").values],
                    "error": [
                        float(f"{v:.3g}") for v in final[metric].std("seed", ddof=1).values / np.sqrt(sweep.seeds)
                    ],
                }
                for metric in ("q_pos", "retained_mass")
            }
            data["provenance"] = {
                key: dataset.attrs[key] for key in ("commit", "code", "versions", "dtype", "platform")
            }
            data["seeds"], data["step"] = sweep.seeds, sweep.steps
    return data


def draw(data: dict[str, Any]) -> Figure:
    """A panel for each reading."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        panels = figure.subplots(2, 3, sharex=True, sharey=True)
        for panel, (name, metrics) in zip(panels.flat, data["readings"].items(), strict=True):
            for metric, dashes in (("q_pos", "-"), ("retained_mass", "--")):
                mean, error = (np.array(metrics[metric][key]) for key in ("mean", "error"))
                panel.errorbar(
                    data["group_size"], mean, 1.96 * error, linestyle=dashes, marker="o", label=LABELS[metric]
                )
            panel.set_title(name, loc="left", fontsize=8)
            panel.set_xscale("log", base=2)
            panel.set_ylim(-0.03, 1.05)
        for panel in panels[-1]:
            panel.set_xlabel(LABELS["group_size"])
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    keep(DATA, simulate_readings())

"""Single runs of A-GRAE's negative-dominant control, of which some lose prompts late ``[a-grae:fig-9]``,
``[a-grae:app-d5-collapses]``.

    python -m figures.a_grae_fig9   (a minute; the negative-dominant runs of the preset a-grae, its bank "many")
    simlab figures a_grae_fig9      (draws from the numbers kept here)

Figure 9 of the paper. Every run is thin; drawn thick are the one with the fewest and the one with the most unsolved
prompts at the end.
"""

import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from figures.shared.condensed import keep, provenance, rounded
from simlab.plotting import STYLE
from simlab.sweeps import Sweep, run
from simlab.sweeps.presets import PRESETS

DATA = Path(__file__).parent / "data" / "a_grae_fig9.json"
MESSAGE = "With 1000 actions under Adam every run ends with more unsolved prompts, how many differs from seed to seed"
DIFFERS = (
    "16 tabular prompts of 1000 actions in place of Qwen2.5-Math-7B on MATH, and 24 runs in place of two; the counts "
    "are expectations, computed exactly, so that they do not jump from step to step."
)
SETTINGS = PRESETS["a-grae"]["many"] | {"estimators": ("negative_dominant",)}
PROMPTS, SAMPLES = 16, 8


def condense() -> dict[str, Any]:
    """Q_pos and the expected number of prompts that eight samples leave unsolved, of every run."""
    with tempfile.TemporaryDirectory() as folder:
        result = run(Sweep(**SETTINGS), Path(folder) / "runs.nc")
    runs = result.squeeze(["estimator", "group_size"]).transpose("seed", "step", ...)
    return {
        "provenance": provenance(result),
        "step": runs["step"].values.tolist(),
        "q_pos": rounded(runs["q_pos"].values, 4),
        "unsolved": rounded(PROMPTS * (1 - runs["pass_at_k"].sel(k=SAMPLES).values), 4),
    }


def draw(data: dict[str, Any]) -> Figure:
    """Unsolved prompts and accuracy of every run."""
    unsolved = np.array(data["unsolved"])
    last = unsolved[:, -1]
    shown = {int(last.argmin()): ("C0", "-", "fewest"), int(last.argmax()): ("C1", "--", "most")}
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.6), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, values in zip(panels, (unsolved, np.array(data["q_pos"])), strict=True):
            axes.plot(data["step"], values.T, color="0.75", linewidth=0.6)
            for seed, (colour, dashes, word) in shown.items():
                label = f"{word} unsolved at the end (seed {seed})"
                axes.plot(data["step"], values[seed], color=colour, linestyle=dashes, linewidth=1.8, label=label)
            axes.set(xlabel="step", ylim=(0, None))
        panels[0].set_title(f"(a) prompts unsolved by {SAMPLES} samples, of {PROMPTS}", loc="left")
        panels[1].set_title("(b) accuracy", loc="left")
        panels[1].set_ylim(0, 1.02)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    keep(DATA, condense())

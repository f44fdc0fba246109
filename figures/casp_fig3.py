"""Figure 3 of CaSP: log-probability of the sampled token and of rank-n candidates ``[casp:figure-3]``, as they learn.

    simlab train --preset countdown --arms "grpo,psr,nsr,casp,grpo+casp(alpha=0.1)" --seeds 1 --steps 100 \\
        --param record.top_n=4 --param evaluation.every=100 --out ranks      (some ten minutes of two cores)
    python -m figures.casp_fig3 ranks   (condenses the run; so do casp_fig2 and casp_candidates)
    simlab figures casp_fig3            (draws from the condensed numbers kept here)

Lines are means over ten steps.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.shared.condensed import keep
from figures.shared.rank_runs import ARMS, metrics, run_file
from simlab.plotting import STYLE

DATA = Path(__file__).parent / "data" / "casp_fig3.json"
MESSAGE = "Rank 1 rises and ranks 2 and 3 fall under every method, CaSP included"
DIFFERS = (
    "Countdown by a model of 0.12 million parameters from scratch, one seed, in place of Llama and Qwen on "
    "mathematics; CaSP at ten times its alpha is added."
)
WINDOW = 10  # steps, averaged into one point


def condense(run: Path) -> dict[str, Any]:
    """The metrics of every arm."""
    return {"run.json": run_file(run), "arms": {arm: metrics(run, arm) for arm in ARMS}}


def draw(data: dict[str, Any]) -> Figure:
    """The sampled token, and the candidates of ranks 1 to 3."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        panels = figure.subplots(1, 4)
        titles = ("(a) sampled token", "(b) rank 1", "(c) rank 2", "(d) rank 3")
        for rank, (axes, title) in enumerate(zip(panels, titles, strict=True)):
            for arm, style in ARMS.items():
                curves = data["arms"][arm]
                logp = curves["sample_logp"] if rank == 0 else np.array(curves["rank_logp"])[:, rank - 1]
                _draw_smoothed(axes, np.array(curves["step"]), np.array(logp), style)
            axes.set_title(title, loc="left")
            axes.set_xlabel("step")
        panels[0].set_ylabel(r"$\Lambda$ (nats)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(ARMS))
    return figure


def _draw_smoothed(axes: Axes, step: np.ndarray, values: np.ndarray, style: tuple[str, str, Any]) -> None:
    """Means over windows of steps."""
    label, colour, dashes = style
    count = len(step) // WINDOW * WINDOW
    x, y = (series[:count].reshape(-1, WINDOW).mean(axis=1) for series in (step, values))
    axes.plot(x, y, linestyle=dashes, color=colour, label=label)


def main(arguments: list[str]) -> None:
    """Condense a run into the numbers kept here."""
    keep(DATA, condense(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])

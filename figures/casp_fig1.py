"""Figure 1 of CaSP: where methods intervene, by rollout, token and candidate ``[casp:eq-4]``, ``[casp:eq-5]``."""

from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from figures.shared.candidate_cells import coefficients, example
from simlab.plotting import STYLE

MESSAGE = "CaSP alone weighs candidates that were not sampled, and only where the entropy gate is open"
DIFFERS = (
    "The paper sketches the three granularities; here the library's methods weigh one small example, CaSP with an "
    "alpha and a penalty far above the paper's, so that they can be seen."
)
CONFIGURATION: dict[str, Any] = {
    "policies": [[0.5, 0.3, 0.15, 0.05], [0.91, 0.05, 0.03, 0.01], [0.4, 0.35, 0.2, 0.05]],
    "sampled_ranks": [[1, 1, 2], [2, 1, 1], [1, 1, 1], [1, 2, 3]],
    "rewards": [1.0, 0.0, 0.0, 0.0],
    "methods": {
        "response: F-GRPO": "f_grpo",
        "token: CW-GRPO": "cw_grpo",
        "candidate: CaSP": "grpo+casp(alpha=0.6,candidates=3,quantile=0.3,top_penalty=1.8)",
    },
}


def draw(configuration: dict[str, Any]) -> Figure:
    """A panel for each method."""
    ranks = np.array(configuration["sampled_ranks"]) - 1
    policies = np.broadcast_to(np.array(configuration["policies"]), (*ranks.shape, 4))
    rollouts = example(policies, ranks, np.array(configuration["rewards"]))
    cells = {title: coefficients(name, rollouts, ranks) for title, name in configuration["methods"].items()}
    limit = max(np.abs(values).max() for values in cells.values())
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 2.5), layout="constrained")
        panels = figure.subplots(1, len(cells), sharey=True)
        for axes, (title, values), letter in zip(panels, cells.items(), "abc", strict=True):
            mesh = _draw_cells(axes, values, ranks, limit)
            axes.set_title(f"({letter}) {title}", loc="left")
        rewards = configuration["rewards"]
        panels[0].set_yticks(range(len(rewards)), ["right" if reward else "wrong" for reward in rewards])
        panels[0].set_ylim(len(rewards) - 0.5, -0.5)
        panels[0].set_ylabel("rollout")
        panels[1].set_xlabel("rank of the candidate, at tokens 1, 2 and 3")
        figure.colorbar(mesh, ax=panels, label=r"coefficient of $\nabla\log\pi$", aspect=14, pad=0.01)
    return figure


def _draw_cells(axes: Axes, cells: np.ndarray, ranks: np.ndarray, limit: float) -> QuadMesh:
    """Coefficients by rollout, token and candidate; a dot on each sampled candidate."""
    size, tokens, candidates = cells.shape
    edges = np.arange(tokens * candidates + 1) - 0.5
    axes.set_facecolor("0.93")
    values = np.where(cells == 0, np.nan, cells).reshape(size, -1)
    mesh = axes.pcolormesh(
        edges, np.arange(size + 1) - 0.5, values, cmap="PuOr_r", vmin=-limit, vmax=limit, edgecolors="white", lw=0.5
    )
    columns = ranks + candidates * np.arange(tokens)
    axes.scatter(columns.ravel(), np.repeat(np.arange(size), tokens), s=6, color="black")
    for token in range(1, tokens):
        axes.axvline(token * candidates - 0.5, color="0.3", lw=0.8)
    axes.set_xticks(range(tokens * candidates), [str(rank + 1) for rank in range(candidates)] * tokens, fontsize=7)
    axes.tick_params(length=0)
    return mesh

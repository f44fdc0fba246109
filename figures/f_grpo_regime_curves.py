"""Cuts through the map of group size and actions, against the target's expected draws too ``[f-grpo:lemma-3.1]``.

The numbers are those of ``figures/f_grpo_regime_map.py``, whose head says how to make them anew.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figures.f_grpo_regime_map import HELD, PAPER_ACTIONS, SHRINKING, Row, initial_masses, rows
from simlab.plotting import LABELS, STYLE
from simlab.theory import tail_miss

DATA = Path(__file__).parent / "data" / "f_grpo_regime_map.json"
MESSAGE = "By draws of the target a step, runs of most sizes lose and keep their rare answers at the same places"
DIFFERS = "Not in the paper: its Figure 2 for other numbers of actions."
LEGEND = "actions N; dashed, the lemma: Pr(missed | active) in (a), Pr(active, missed) in (b)"


def draw(data: dict[str, Any]) -> Figure:
    """Retained mass of every number of actions, against G tau and against G."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        shrinking, held = rows(data, SHRINKING, 0.0), rows(data, HELD, 0.0)
        colours = dict(zip(shrinking, mpl.colormaps["viridis"](np.linspace(0, 0.95, len(shrinking))), strict=True))
        lines = _draw_cut(left, shrinking, colours, scaled=True)
        left.set_title("(a) the anchor's mass shrinks as 1/N", loc="left")
        _draw_cut(right, held, colours, scaled=False)
        right.set_title("(b) the anchor's mass is held", loc="left")
        left.set_ylabel(f"{LABELS['retained_mass']} at step {data['step'][-1]}")
        figure.legend(handles=lines, loc="outside lower center", ncols=7, title=LEGEND)
    return figure


def _draw_cut(axes: Axes, found: dict[int, Row], colours: dict[int, Any], *, scaled: bool) -> list[Line2D]:
    """Retained mass of each N against G, or against G tau, with its 95 % band."""
    lines = []
    for actions, row in found.items():
        x = row.group_size * initial_masses(SHRINKING, actions)[2] if scaled else row.group_size
        half = 1.96 * row.retained_error
        colour = colours[actions]
        lines += axes.plot(
            x, row.retained, marker="o", markersize=2, color=colour, linewidth=1.1, label=_power(actions)
        )
        axes.fill_between(x, row.retained - half, row.retained + half, color=colour, alpha=0.2, linewidth=0)
    if scaled:
        x = np.geomspace(2**-12, 2**6, 200)
        axes.plot(x, np.exp(-x), "--", color="black", linewidth=1)
        axes.set(xlabel=r"$G\tau$, expected draws of the target per step", xlim=(2**-13, 2**5))
    else:
        _, mu, tau = initial_masses(HELD, max(found))
        x = np.arange(2, 4096)
        axes.plot(x, tail_miss(x, mu, tau), "--", color="black", linewidth=1)
        axes.set(xlabel=LABELS["group_size"])
    axes.set_xscale("log", base=2)
    axes.set_ylim(-0.03, 1.05)
    return lines


def _power(actions: int) -> str:
    return "128000" if actions == PAPER_ACTIONS else f"$2^{{{actions.bit_length() - 1}}}$"

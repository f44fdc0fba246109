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

from figures.f_grpo_regime_map import HELD, PAPER_ACTIONS, SHRINKING, Row, initial_masses, rows
from figures.shared.end_labels import end_labels
from simlab.plotting import LABELS, STYLE
from simlab.theory import tail_miss

DATA = Path(__file__).parent / "data" / "f_grpo_regime_map.json"
MESSAGE = "By draws of the target a step, runs of most sizes lose and keep their rare answers at the same places"
DIFFERS = "Not in the paper: its Figure 2 for other numbers of actions."
NOTE = "Names: actions N. Dashed, the lemma: Pr(missed | active) in (a), Pr(active, missed) in (b)."
PANELS = 3  # of each cut, so that few lines share one


def draw(data: dict[str, Any]) -> Figure:
    """Retained mass of every number of actions, some a panel, against G tau and against G."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        panels = figure.subplots(2, PANELS, sharey=True)
        for row, path, title in (
            (panels[0], SHRINKING, "(a) the anchor's mass shrinks as 1/N"),
            (panels[1], HELD, "(b) the anchor's mass is held"),
        ):
            by_actions = rows(data, path, 0.0)
            for axes, some in zip(row, np.array_split(sorted(by_actions), PANELS), strict=True):
                _draw_cut(axes, {int(actions): by_actions[actions] for actions in some}, scaled=path == SHRINKING)
                end_labels(axes)
            row[0].set_title(title, loc="left")
            row[0].set_ylabel(f"{LABELS['retained_mass']}")
        figure.supxlabel(NOTE, fontsize=8, color="0.3")
    return figure


def _draw_cut(axes: Axes, by_actions: dict[int, Row], *, scaled: bool) -> None:
    """Retained mass of each N against G, or against G tau, with its 95 % band."""
    for number, (actions, row) in enumerate(by_actions.items()):
        x = row.group_size * initial_masses(SHRINKING, actions)[2] if scaled else row.group_size
        half = 1.96 * row.retained_error
        colour = f"C{number}"
        axes.plot(x, row.retained, marker="o", markersize=2, color=colour, linewidth=1.1, label=_power(actions))
        axes.fill_between(x, row.retained - half, row.retained + half, color=colour, alpha=0.2, linewidth=0)
    if scaled:
        x = np.geomspace(*_ends(axes), 200)
        axes.plot(x, np.exp(-x), "--", color="0.5", linewidth=1)
        axes.set(xlabel=r"$G\tau$, draws of the target a step")
    else:
        _, mu, tau = initial_masses(HELD, max(by_actions))  # as for every N
        x = np.arange(2, 4096)
        axes.plot(x, tail_miss(x, mu, tau), "--", color="0.5", linewidth=1)
        axes.set(xlabel=LABELS["group_size"], xlim=(2**0.5, 2**18))
    axes.set_xscale("log", base=2)
    axes.set_ylim(-0.03, 1.05)


def _ends(axes: Axes) -> tuple[float, float]:
    """The smallest and the largest x of the lines drawn."""
    drawn = np.concatenate([line.get_xdata() for line in axes.get_lines()])
    return float(drawn.min()), float(drawn.max())


def _power(actions: int) -> str:
    return "128000" if actions == PAPER_ACTIONS else f"$2^{{{actions.bit_length() - 1}}}$"

"""F-GRPO's Figure 2 over both G and N ``[f-grpo:fig-2]``, beside the tail-miss probability ``[f-grpo:lemma-3.1]``.

    python -m figures.f_grpo_regime_map --run FOLDER   (runs what FOLDER does not hold yet, some 40 minutes on two busy
                                                        cores, condenses it)
    python -m figures.f_grpo_regime_map FOLDER         (condenses what FOLDER holds)
    simlab figures f_grpo_regime_map                   (draws from the condensed numbers kept here)

The runs are those of the preset f-grpo-fig2, with N actions of which 5 N / 64 are correct, as in the paper. There, a
correct action other than the anchor is the target, so that tau is about 8.06 / N. The anchor's mass either shrinks with
the others' (its logit stays 5), or is held at the paper's 4.653e-4 (its logit grows with log N).
``figures/f_grpo_regime_curves.py`` draws cuts through the map.
"""

import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from figures.shared.condensed import keep
from simlab.plotting import LABELS, STYLE
from simlab.sweeps import Sweep, run
from simlab.sweeps.presets import F_GRPO_FIG2
from simlab.sweeps.result import configuration, read
from simlab.theory import conditional_tail_miss, tail_miss

DATA = Path(__file__).parent / "data" / "f_grpo_regime_map.json"
MESSAGE = "The lemma tells how the upper edge of the zone of lost answers moves, not the lower one"
DIFFERS = "Not in the paper: its Figure 2 over the number of actions as well as over group size."
FIGURE_2 = DATA.with_name("f_grpo_fig2.json")
METRICS = ("q_pos", "retained_mass")
SHRINKING, HELD = "shrinking", "fixed"
PAPER_ACTIONS, PAPER_ANCHOR_MASS = 128_000, 4.653e-4
CORRECT_LOGIT = 3.0
COLLAPSED = 0.5
MEMORY = 9 * 2**30
RESAMPLES = 1000
WIDEST_GAP = 1.01  # octaves of G that an edge is interpolated over
Edge = tuple[float, float]


class Piece(NamedTuple):
    """One sweep: a shrinking or a fixed anchor, N, G, the gammas, the number of seeds, and the storage."""

    anchor: str
    actions: int
    group_size: int
    gammas: tuple[float, ...]
    seeds: int
    storage: str

    @property
    def name(self) -> str:
        """Name of the file of its result."""
        gammas = "_".join(f"{gamma:g}" for gamma in self.gammas)
        return f"{self.anchor}-{self.actions.bit_length() - 1}-{self.group_size}-{gammas}-{self.seeds}.nc"

    def sweep(self) -> Sweep:
        """The preset on its problem."""
        parameters = F_GRPO_FIG2["parameters"] | {
            "estimator.gamma": self.gammas,
            "problem.actions": (self.actions,),
            "problem.correct": (correct(self.actions),),
            "problem.anchor_logit": (anchor_logit(self.anchor, self.actions),),
        }
        changes = {"group_sizes": (self.group_size,), "seeds": self.seeds, "record_every": 100, "storage": self.storage}
        return Sweep(**F_GRPO_FIG2 | changes | {"parameters": parameters, "pass_at_k": (), "top_n": 0})


def correct(actions: int) -> int:
    """The number of correct actions, at the paper's share."""
    return 5 * actions // 64


def anchor_logit(anchor: str, actions: int) -> float:
    """The paper's logit of the anchor, or the one that gives the anchor its mass in the paper."""
    if anchor == SHRINKING:
        return 5.0
    odds = PAPER_ANCHOR_MASS / (1 - PAPER_ANCHOR_MASS)
    return round(math.log(odds * _others(actions)), 6)


def _others(actions: int) -> float:
    """Unnormalised mass of all actions but the anchor."""
    return (correct(actions) - 1) * math.exp(CORRECT_LOGIT) + actions - correct(actions)


def initial_masses(anchor: str, actions: int) -> tuple[float, float, float]:
    """Masses of the anchor, of all correct actions (mu), and of a correct one other than the anchor (tau)."""
    likeliest = math.exp(anchor_logit(anchor, actions))
    total = likeliest + _others(actions)
    tau = math.exp(CORRECT_LOGIT) / total
    return likeliest / total, likeliest / total + (correct(actions) - 1) * tau, tau


BOTH, MAIN = (0.0, 1.0), (0.0,)
# A shrinking or a fixed anchor, log2 N and log2 G of the pieces, gammas, seeds, storage.
GRID: tuple[tuple[str, Iterable[int], Iterable[int], tuple[float, ...], int, str], ...] = (
    (SHRINKING, (10,), (*range(1, 8), 10), BOTH, 8, "dense"),
    (SHRINKING, (10,), (8, 9), BOTH, 8, "lumped"),
    (SHRINKING, (12, 14, 16), range(1, 10), BOTH, 8, "lumped"),
    (SHRINKING, (12,), (10, 11), BOTH, 8, "dense"),
    (SHRINKING, (14,), range(10, 14), BOTH, 8, "dense"),
    (SHRINKING, (16,), range(12, 16), BOTH, 8, "dense"),
    (SHRINKING, (10, 16), (11,), MAIN, 8, "dense"),
    (SHRINKING, (12,), (12,), MAIN, 8, "dense"),
    (SHRINKING, (18,), range(1, 6), MAIN, 8, "lumped"),
    (SHRINKING, (18,), (6,), MAIN, 4, "lumped"),
    (SHRINKING, (18,), (7, 8), BOTH, 8, "lumped"),
    (SHRINKING, (18,), (9,), BOTH, 4, "dense"),
    (SHRINKING, (18,), range(10, 18), MAIN, 4, "dense"),
    (SHRINKING, (20, 22, 24, 28, 32, 40), range(1, 8), BOTH, 8, "lumped"),
    (SHRINKING, (36,), range(1, 7), BOTH, 8, "lumped"),
    (SHRINKING, (36,), (7,), MAIN, 8, "lumped"),
    (SHRINKING, (20,), (8,), BOTH, 8, "lumped"),
    (SHRINKING, (22, 24, 28, 32, 36, 40), (8,), MAIN, 8, "lumped"),
    (SHRINKING, (20, 22, 40), (9,), MAIN, 8, "lumped"),
    (SHRINKING, (20,), (10,), MAIN, 4, "lumped"),
    (HELD, (20, 22, 24, 28, 32, 36, 40), range(1, 8), BOTH, 8, "lumped"),
    (HELD, (20, 22, 24, 28, 32, 36, 40), (8,), MAIN, 8, "lumped"),
    (HELD, (20,), (9,), MAIN, 4, "lumped"),
    (HELD, (40,), (9,), MAIN, 8, "lumped"),
)


def pieces() -> Iterator[Piece]:
    """All sweeps of the map."""
    for anchor, actions, group_sizes, gammas, seeds, storage in GRID:
        for size, number in itertools.product(group_sizes, actions):
            yield Piece(anchor, 2**number, 2**size, gammas, seeds, storage)


def condense(folder: Path) -> dict[str, Any]:
    """Final Q_pos and retained mass of each seed of each cell that the folder holds, with their provenance."""
    cells, provenance = [], {}
    for piece in pieces():
        path = folder / piece.name
        if not path.exists():
            continue
        dataset = read(path).squeeze(["estimator", "group_size"])
        provenance[json.dumps({name: dataset.attrs[name] for name in PROVENANCE})] = configuration(path)
        for gamma in piece.gammas:
            runs = dataset.sel(gamma=gamma) if "gamma" in dataset.dims else dataset
            cell = piece._asdict() | {
                "gamma": gamma,
                "mean_retained_mass": _rounded(runs["retained_mass"].mean("seed")),
            }
            del cell["gammas"]
            cell |= {"correct": correct(piece.actions), "anchor_logit": anchor_logit(piece.anchor, piece.actions)}
            final = runs.isel(step=-1)
            cells.append(cell | {name: _rounded(final[name]) for name in METRICS})
    (attributes,) = provenance  # all made by one version of the code
    shared = provenance[attributes]
    for name in ("problem.actions", "problem.correct", "problem.anchor_logit", "estimator.gamma"):
        shared["parameters"][name] = "see cells"
    shared |= dict.fromkeys(("group_sizes", "seeds", "storage"), "see cells")
    return {
        "provenance": json.loads(attributes) | {"configuration": shared},
        "step": dataset["step"].values.tolist(),
        "cells": cells,
    }


def _rounded(values: Iterable[Any]) -> list[float]:
    return [float(f"{float(value):.4g}") for value in values]


class Row(NamedTuple):
    """The runs of one N: (G,) group sizes, and mean over seeds and its standard error of the final metrics."""

    group_size: np.ndarray
    q_pos: np.ndarray
    q_pos_error: np.ndarray
    retained: np.ndarray
    retained_error: np.ndarray


def rows(data: dict[str, Any], anchor: str, gamma: float) -> dict[int, Row]:
    """The runs of each N, in order of G, with Figure 2's runs at its N, where both anchors are the same."""
    cells: dict[int, list[tuple[float, ...]]] = {}
    for cell in data["cells"]:
        if (cell["anchor"], cell["gamma"]) == (anchor, gamma):
            statistics = [value for name in METRICS for value in _mean_and_error(cell[name])]
            cells.setdefault(cell["actions"], []).append((cell["group_size"], *statistics))
    cells[PAPER_ACTIONS] = _figure_2(gamma)
    return {actions: Row(*np.array(sorted(cells[actions])).T) for actions in sorted(cells)}


def _mean_and_error(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values))


def _figure_2(gamma: float) -> list[tuple[float, ...]]:
    """The cells of the paper's N, from the condensed numbers of its figure."""
    data = json.loads(FIGURE_2.read_text())
    columns = [np.array(data["group_size"], dtype=float)]
    for name in METRICS:
        mean, std = (np.array(data["metrics"][name][key])[data["gamma"].index(gamma), :, -1] for key in ("mean", "std"))
        columns += [mean, std / np.sqrt(data["seeds"])]
    return list(zip(*columns, strict=True))


def zone(row: Row) -> tuple[Edge, Edge]:
    """Lower and upper edge of the zone of lost mass, as log2 G with a standard error; NaN where it has none.

    An edge is where the mean retained mass crosses one half, interpolated in log G; its error is the spread over normal
    draws of the means.
    """
    sizes = np.log2(row.group_size)
    random = np.random.default_rng(0)
    edges = crossings(sizes, row.retained)
    drawn = random.normal(row.retained, row.retained_error, (RESAMPLES, len(sizes)))
    spread = np.array([crossings(sizes, retained) for retained in drawn])
    lower, upper = (
        (edges[side], float(np.nanstd(spread[:, side], ddof=1)) if np.isfinite(edges[side]) else math.nan)
        for side in (0, 1)
    )
    return lower, upper


def crossings(sizes: np.ndarray, retained: np.ndarray) -> Edge:
    """Sizes at which retained mass first falls below one half and last rises above it; NaN for none or a wide gap."""
    inside = np.flatnonzero(retained < COLLAPSED)
    if inside.size == 0:
        return math.nan, math.nan
    first, last = inside[0], inside[-1]
    lower = _between(sizes, retained, first - 1) if first > 0 else math.nan
    upper = _between(sizes, retained, last) if last + 1 < len(sizes) else math.nan
    return lower, upper


def _between(sizes: np.ndarray, retained: np.ndarray, index: int) -> float:
    if sizes[index + 1] - sizes[index] > WIDEST_GAP:
        return math.nan
    share = (retained[index] - COLLAPSED) / (retained[index] - retained[index + 1])
    return float(sizes[index] + share * (sizes[index + 1] - sizes[index]))


def slope(edges: dict[int, Edge], *, between: Edge = (0, math.inf)) -> tuple[float, float, int]:
    """Least-squares slope of log G* in log N, its standard error from the residuals, and the number of N."""
    points = [(math.log2(n), at) for n, (at, _) in edges.items() if between[0] <= n <= between[1] and np.isfinite(at)]
    x, y = np.array(points).T
    x = x - x.mean()
    gradient = float(x @ y / (x @ x))
    residuals = y - y.mean() - gradient * x
    return gradient, math.sqrt(float(residuals @ residuals) / (len(x) - 2) / float(x @ x)), len(x)


def all_edges(data: dict[str, Any], anchor: str, gamma: float) -> tuple[dict[int, Edge], dict[int, Edge]]:
    """Lower and upper edge at each N."""
    zones = {actions: zone(row) for actions, row in rows(data, anchor, gamma).items()}
    return {n: edges[0] for n, edges in zones.items()}, {n: edges[1] for n, edges in zones.items()}


def group_sizes(largest: int) -> np.ndarray:
    """Whole group sizes from 2 up, at most eight an octave."""
    return np.unique(np.round(2 ** np.arange(1, math.log2(largest) + 1 / 16, 1 / 8)))


def lemma_size(anchor: str, actions: int, level: float) -> float:
    """The G at which the lemma's conditional tail-miss probability falls through ``level``, interpolated in log G."""
    _, mu, tau = initial_masses(anchor, actions)
    sizes = group_sizes(2**50)
    missed = conditional_tail_miss(sizes, mu, tau)
    after = int(np.argmax(missed < level))
    share = (missed[after - 1] - level) / (missed[after - 1] - missed[after])
    return float(sizes[after - 1] * (sizes[after] / sizes[after - 1]) ** share)


def lemma_maximum(anchor: str, actions: int) -> float:
    """The G at which an active group that misses the target is most probable."""
    _, mu, tau = initial_masses(anchor, actions)
    sizes = np.arange(2.0, 200.0)
    return float(sizes[np.argmax(tail_miss(sizes, mu, tau))])


def draw(data: dict[str, Any]) -> Figure:
    """Two maps."""
    with mpl.style.context(STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        maps = figure.subplots(1, 2)
        titles = ("(a) the anchor's mass shrinks as 1/N", "(b) the anchor's mass is held")
        for axes, anchor, title in zip(maps, (SHRINKING, HELD), titles, strict=True):
            mesh = _draw_map(axes, data, anchor)
            axes.set_title(title, loc="left")
        figure.colorbar(mesh, ax=list(maps), label=f"{LABELS['retained_mass']} at step {data['step'][-1]}", aspect=30)
        maps[0].set_ylabel("actions N")
        figure.legend(handles=_map_legend(), loc="outside lower center", ncols=3)
    return figure


LEMMA: dict[str, Any] = {
    "color": "black",
    "linewidth": 1,
    "path_effects": [withStroke(linewidth=2.5, foreground="white")],
}
SHOWN_ACTIONS = (9, 42)  # log2
LEVELS = {0.9: "-", 0.5: "--", 0.05: ":"}
EDGES: dict[float, dict[str, Any]] = {
    0.0: {"markerfacecolor": "C1", "markersize": 4},
    1.0: {"markerfacecolor": "none", "markersize": 5.5},
}


def _draw_map(axes: Axes, data: dict[str, Any], anchor: str) -> Any:
    """Retained mass over G and N, with the zone's edges and the lemma's lines."""
    by_actions = rows(data, anchor, 0.0)
    borders = _borders(np.log2(list(by_actions)))
    for row, bottom, top in zip(by_actions.values(), borders[:-1], borders[1:], strict=True):
        x, y = 2.0 ** _borders(np.log2(row.group_size)), 2.0 ** np.array([bottom, top])
        mesh = axes.pcolormesh(
            x, y, row.retained[None], cmap="cividis", vmin=0, vmax=1, edgecolor="face", linewidth=0.2
        )
    for gamma, style in EDGES.items():
        for edges in all_edges(data, anchor, gamma):
            n = [actions for actions, (at, _) in edges.items() if np.isfinite(at)]
            at, error = (np.array([edges[actions][index] for actions in n]) for index in (0, 1))
            width = 2**at - 2 ** (at - 1.96 * error), 2 ** (at + 1.96 * error) - 2**at
            axes.errorbar(2**at, n, xerr=width, fmt="o", color="C1", **style)
    whole = [64 * round(2**power / 64) for power in np.linspace(borders[0], SHOWN_ACTIONS[1], 80)]
    for level, dashes in LEVELS.items():
        axes.plot([lemma_size(anchor, n, level) for n in whole], whole, dashes, **LEMMA)
    axes.plot([lemma_maximum(anchor, n) for n in whole], whole, "-.", **LEMMA)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlim=(2**0.5, 2**17.5), ylim=2.0 ** np.array(SHOWN_ACTIONS), xlabel=LABELS["group_size"], facecolor="0.8")
    axes.set_yticks(10.0 ** np.arange(3, 13, 3))
    axes.minorticks_off()
    return mesh


def _borders(centres: np.ndarray) -> np.ndarray:
    """Borders halfway between neighbours, and as far beyond the ends."""
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def _map_legend() -> list[Line2D]:
    style: dict[str, Any] = {"color": "black", "linewidth": 1}
    edges = [
        Line2D([], [], linestyle="", marker="o", color="C1", label=rf"edge of the zone, $\gamma = {gamma:g}$", **look)
        for gamma, look in EDGES.items()
    ]
    contours = [
        Line2D([], [], linestyle=dashes, label=f"lemma: Pr(missed | active) = {level:g}", **style)
        for level, dashes in LEVELS.items()
    ]
    most = Line2D([], [], linestyle="-.", label="lemma: Pr(active, missed) largest", **style)
    return [*edges, most, *contours]


PROVENANCE = ("versions", "commit", "code", "platform", "dtype")


def run_into(folder: Path) -> None:
    """Run the pieces that the folder has no result of."""
    folder.mkdir(parents=True, exist_ok=True)
    for piece in pieces():
        if not (folder / piece.name).exists():
            run(piece.sweep(), folder / piece.name, memory=MEMORY)


def main(arguments: list[str]) -> None:
    """Run what is missing if asked to, and condense a folder."""
    folder = Path(arguments[-1])
    if arguments[:-1] == ["--run"]:
        run_into(folder)
    elif arguments[:-1]:
        sys.exit(f"unknown arguments {arguments}; allowed: FOLDER, or --run FOLDER")
    keep(DATA, condense(folder))


if __name__ == "__main__":
    main(sys.argv[1:])

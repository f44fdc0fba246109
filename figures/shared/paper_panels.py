"""Panels of the figures of papers' presets: differences with intervals, and the way of pass@k."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from figures.shared.paper_runs import Data, gained

MEASURE_STYLES = {"pass@1": ("C0", "o"), "pass@32": ("C1", "s")}


def draw_gains(axes: Axes, data: Data, baselines: Mapping[str, str], labels: Mapping[str, str]) -> None:
    """A row for each arm: by how much it ends above its baseline in pass@1 and in pass@32, with 95 % intervals.

    Args:
        axes: where to draw.
        data: a condensed run.
        baselines: the baseline of each arm to draw, from the top down.
        labels: the names of the rows, by arm.
    """
    rows = list(baselines)[::-1]
    for shift, (measure, (colour, marker)) in zip((0.12, -0.12), MEASURE_STYLES.items(), strict=True):
        estimates = [gained(data, arm, baselines[arm], measure) for arm in rows]
        spread = np.array([[estimate.mean - estimate.low, estimate.high - estimate.mean] for estimate in estimates]).T
        axes.errorbar(
            [estimate.mean for estimate in estimates],
            np.arange(len(rows)) + shift,
            xerr=spread,
            ls="none",
            marker=marker,
            color=colour,
            lw=0.9,
            label=measure,
        )
    axes.axvline(0, color="0.6", lw=0.8, zorder=0)
    axes.set_yticks(range(len(rows)), [labels[arm] for arm in rows])
    axes.set(ylim=(-0.6, len(rows) - 0.4), xlabel="difference at the end")


def draw_paths(axes: Axes, data: Data, styles: Mapping[str, tuple[str, str, Any]], measure: str = "pass@32") -> None:
    """The way of each arm from the start, a cross: pass@1 across, another measure up; means over seeds.

    ``styles`` has a label, a colour and dashes for each arm.
    """
    for arm, (label, colour, dashes) in styles.items():
        across, up = (np.mean(data["arms"][arm][name], axis=0) for name in ("pass@1", measure))
        axes.plot(across, up, color=colour, linestyle=dashes, marker="o", markersize=2, label=label)
    axes.plot(across[:1], up[:1], "x", color="0.2", markersize=6)
    axes.set(xlabel="pass@1", ylabel=measure)


def draw_entropy(axes: Axes, data: Data, styles: Mapping[str, tuple[str, str, Any]]) -> None:
    """The entropy of a token along the training of each arm; means over seeds. ``styles`` is as for ``draw_paths``."""
    for arm, (label, colour, dashes) in styles.items():
        entropy = np.mean(data["training"][arm]["entropy"], axis=0)
        axes.plot(windows_of(data, arm, "entropy"), entropy, color=colour, linestyle=dashes, label=label)
    axes.set(xlabel="step", ylabel="nats")


def windows_of(data: Data, arm: str, name: str) -> np.ndarray:
    """The steps at which the windows of a training curve end."""
    count = np.array(data["training"][arm][name]).shape[1]
    steps: np.ndarray = data["window"] * np.arange(1, count + 1)
    return steps

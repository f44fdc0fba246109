"""Histograms of token entropies and of the likeliest candidates' probabilities, as CaSP's Figures 8 and 9."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.style
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from simlab.errors import InputError
from simlab.llm.compare.arms import Shown, arms_of, check_comparable, shown_at, starts_of
from simlab.llm.compare.figure import add_legend, with_looks, write
from simlab.llm.compare.moments import short
from simlab.llm.compare.runs import Run
from simlab.plotting import STYLE, check_figure

RANKS = 3  # most panels of candidates, as in CaSP's Figure 9
LEAST = 1e-5  # share of tokens at the lower edge of the panels


def draw_histograms(runs: Sequence[Run], path: Path, *, at: str | int = "last") -> None:
    """Draw ``histogram_figure`` into a file, of the kind its suffix says: SVG, PDF or PNG.

    Raises:
        InputError: as ``histogram_figure``, for an unknown kind of file, or a path that cannot be written.
    """
    check_figure(path)
    write(histogram_figure(runs, at=at), path)


def histogram_figure(runs: Sequence[Run], *, at: str | int = "last") -> Figure:
    """A panel of tokens by their entropy, and one of each of the likeliest candidates by its probability.

    A line is the mean over seeds of the shares of tokens, at the evaluations that ``at`` says; the start is grey. There
    are as many candidates as all runs have recorded (``record.top_n``), 3 at most. The last bin of entropies, from 4
    nats on, has no end.

    Raises:
        InputError: for runs that do not compare, without histograms, and for an evaluation that there is not.
    """
    check_comparable(runs)
    arms = [shown for arm in arms_of(runs) if (shown := shown_at(arm, at)).evaluations]
    starts = starts_of(runs)
    found = {arm.name: entropy_shares(arm) for arm in (*arms, *starts)}
    ranks = min(RANKS, *(len(own.candidates) for arm in (*arms, *starts) for own in arm.evaluations.values()))
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(3.6 if not ranks else 2.4 + 1.8 * ranks, 2.6), layout="constrained")
        panels = np.atleast_1d(figure.subplots(1, 1 + ranks, sharey=True))
        for arm, look in with_looks(arms, starts):
            for axes, shares in zip(panels, [found[arm.name], *candidate_shares(arm, ranks)], strict=True):
                axes.stairs(shares, np.arange(len(shares) + 1) / 10, baseline=None, label=arm.name, **look)
        titles = [f"(a) tokens, {short(at)}"] + [f"({'bcd'[rank]}) candidate {rank + 1}" for rank in range(ranks)]
        labels = ["entropy (nats)"] + ["probability"] * ranks
        for axes, title, label in zip(panels, titles, labels, strict=True):
            axes.set_title(title, loc="left")
            axes.set_xlabel(label)
            axes.set(yscale="log", ylim=(LEAST, 1.2))
        figure.supylabel("share of tokens")
        for axes in panels[1:]:
            axes.set_xticks([0, 0.5, 1])
        add_legend(figure, panels[0])
    return figure


def entropy_shares(arm: Shown) -> Float[np.ndarray, " B"]:
    """The share of tokens in each bin of entropies, averaged over seeds.

    Raises:
        InputError: for an evaluation without them.
    """
    counts = [evaluation.entropies for evaluation in arm.evaluations.values()]
    if not all(own.sum() for own in counts):
        raise InputError(f"an evaluation of {arm.name} has no histogram; allowed: runs of this version and later")
    return _mean_share(np.stack(counts))


def candidate_shares(arm: Shown, ranks: int) -> list[Float[np.ndarray, " B"]]:
    """The share of tokens in each bin of probabilities, averaged over seeds, for candidates by rank."""
    counts = [evaluation.candidates for evaluation in arm.evaluations.values()]
    return [_mean_share(np.stack([own[rank] for own in counts])) for rank in range(ranks)]


def _mean_share(counts: Int[np.ndarray, "S B"]) -> Float[np.ndarray, " B"]:
    shares: np.ndarray = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares

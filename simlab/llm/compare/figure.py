"""The figure of ``simlab compare``: training and evaluations against step, and pass@k against k at the end."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from simlab.errors import InputError
from simlab.llm.compare.arms import Arm, Shown, arms_of, check_comparable, shown_at, starts_of
from simlab.llm.compare.estimates import Estimate, estimate
from simlab.llm.compare.measures import pass_at_k
from simlab.llm.compare.moments import short
from simlab.llm.compare.runs import Evaluation, Run
from simlab.llm.instruments.pass_at_k import powers
from simlab.plotting import DASHES, STYLE, check_figure, write_figure

POINTS = 100  # of a curve of training: a longer one is averaged over so many parts
COLOURS = 7  # of the style
LEGEND_WIDTH = 110  # in letters; a label has its line and the gaps beside it, too
GREY = "0.55"  # of the start


def draw_comparison(runs: Sequence[Run], path: Path, *, at: str | int = "last") -> None:
    """Draw ``comparison_figure`` into a file, of the kind its suffix says: SVG, PDF or PNG.

    Raises:
        InputError: as ``comparison_figure``, for an unknown kind of file, or a path that cannot be written.
    """
    check_figure(path)
    write(comparison_figure(runs, at=at), path)


def write(figure: Figure, path: Path) -> None:
    """Write a figure of runs in the style of all figures; ``InputError`` for a path that cannot be written."""
    try:
        with matplotlib.style.context(STYLE):
            write_figure(figure, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; the runs are as they were") from None


def comparison_figure(runs: Sequence[Run], *, at: str | int = "last") -> Figure:
    """Six panels: reward, entropy, pass@1, pass@k of the largest k, distinct solutions; and pass@k against k.

    Lines are means over seeds, as far as all seeds of an arm have come, in bands of 95 %: t-intervals over seeds, for
    evaluations the intervals over seeds and problems, or of one seed over problems. Curves of more than ``POINTS``
    steps are averaged over so many parts. The start is grey. The last panel shows the evaluations that ``at`` says, as
    in ``comparison_table``.

    Raises:
        InputError: for runs that do not compare, and for an evaluation that there is not.
    """
    check_comparable(runs)
    arms, starts = arms_of(runs), starts_of(runs)
    shown = [shown_at(arm, at) for arm in arms]
    most = min(evaluation.samples for arm in arms for evaluations in _histories(arm) for evaluation in evaluations)
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(7.2, 4.8), layout="constrained")
        reward, entropy, first, largest, distinct, by_k = figure.subplots(2, 3).flat
        _draw_training(reward, "reward", arms)
        _draw_training(entropy, "entropy", arms)
        _draw_evaluations(first, lambda evaluation: pass_at_k(evaluation, 1), arms, starts)
        _draw_evaluations(largest, lambda evaluation: pass_at_k(evaluation, most), arms, starts)
        _draw_evaluations(distinct, lambda evaluation: evaluation.distinct, arms, starts)
        _draw_by_k(by_k, shown, starts)
        titles = ("reward", "entropy", "pass@1", f"pass@{most}", "distinct solutions", f"pass@k, {short(at)}")
        for letter, panel, title in zip("abcdef", figure.axes, titles, strict=True):
            panel.set_title(f"({letter}) {title}", loc="left")
        add_legend(figure, by_k)
    return figure


def add_legend(figure: Figure, axes: Axes) -> None:
    """Put the names of a panel's lines below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    fit = LEGEND_WIDTH // (max(map(len, labels)) + 8)
    figure.legend(handles, labels, loc="outside lower center", ncols=max(1, min(4, fit, len(labels))))


def _draw_training(axes: Axes, name: str, arms: Sequence[Arm]) -> None:
    """A metric of training against step; a single seed has no band."""
    for number, arm in enumerate(arms):
        trainings = [training.metrics for training in arm.seeds.values() if name in training.metrics]
        steps = _common([metrics["step"] for metrics in trainings])
        if not steps.size:
            continue
        found = np.stack([metrics[name][np.isin(metrics["step"], steps)] for metrics in trainings])
        parts = np.array_split(np.arange(len(steps)), min(POINTS, len(steps)))
        means = [estimate(found[:, part].mean(axis=1)) for part in parts]
        _draw_line(axes, [steps[part].mean() for part in parts], means, **_look(number))
    _label_steps(axes)


def _draw_evaluations(
    axes: Axes,
    measure: Callable[[Evaluation], Float[np.ndarray, " P"]],
    arms: Sequence[Arm],
    starts: Sequence[Shown],
) -> None:
    """A measure against step, with that of the start as a level."""
    for number, start in enumerate(starts):
        level = estimate(np.stack([measure(evaluation) for evaluation in start.evaluations.values()]))
        axes.axhline(level.mean, color=GREY, linestyle=DASHES[number % len(DASHES)])
    for number, arm in enumerate(arms):
        histories = [{evaluation.step: evaluation for evaluation in own} for own in _histories(arm)]
        steps = _common([np.array(list(history)) for history in histories])
        means = [estimate(np.stack([measure(history[step]) for history in histories])) for step in steps]
        _draw_line(axes, steps, means, marker="o", **_look(number))
    _label_steps(axes)


def _draw_by_k(axes: Axes, shown: Sequence[Shown], starts: Sequence[Shown]) -> None:
    """Pass@k against k, by powers of 2 and the number of samples."""
    longest = 1
    for arm, look in with_looks(shown, starts):
        evaluations = arm.evaluations.values()
        samples = min((evaluation.samples for evaluation in evaluations), default=0)
        ks = sorted({*powers(samples), samples}) if evaluations else []
        means = [estimate(np.stack([pass_at_k(evaluation, k) for evaluation in evaluations])) for k in ks]
        _draw_line(axes, ks, means, label=arm.name, **look)
        longest = max(longest, samples)
    axes.set_xscale("log", base=2)
    ticks = powers(longest, 4)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlabel("k")


def _histories(arm: Arm) -> list[list[Evaluation]]:
    """The evaluations of each evaluated seed, from the start on."""
    return [
        [*([arm.starts[seed]] if seed in arm.starts and own.evaluations[0].step else []), *own.evaluations]
        for seed, own in arm.seeds.items()
        if own.evaluations
    ]


def _common(steps: Sequence[Int[np.ndarray, "..."]]) -> Int[np.ndarray, " C"]:
    """The steps that all seeds have, each given with its own; none of no seed."""
    return functools.reduce(np.intersect1d, steps) if steps else np.array([], dtype=int)


def with_looks(shown: Sequence[Shown], starts: Sequence[Shown]) -> list[tuple[Shown, dict[str, Any]]]:
    """Each arm, and in grey below them each start, with what its lines look like."""
    looks = [(arm, _look(number)) for number, arm in enumerate(shown)]
    for number, start in enumerate(starts):
        looks.append((start, {"color": GREY, "linestyle": DASHES[number % len(DASHES)], "zorder": 0.5}))
    return looks


def _look(number: int) -> dict[str, Any]:
    """The colour and the dashes of an arm, in every panel."""
    return {"color": f"C{number % COLOURS}", "linestyle": DASHES[number % len(DASHES)]}


def _draw_line(axes: Axes, x: Sequence[float] | np.ndarray, means: Sequence[Estimate], **style: Any) -> None:
    """Means in their 95 % band, where that is known."""
    (line,) = axes.plot(x, [found.mean for found in means], **style)
    low, high = [found.low for found in means], [found.high for found in means]
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def _label_steps(axes: Axes) -> None:
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))

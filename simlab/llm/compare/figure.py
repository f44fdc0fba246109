"""Draw the figures of ``simlab compare``: training and evaluations against step, pass@k against k, and histograms."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib.style
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from simlab.errors import InputError
from simlab.intervals import BAND_SEEDS, CHANGE, SHARE, Bounds
from simlab.llm.compare import run_arms
from simlab.llm.compare.run_arms import ComparedArm, ShownArm
from simlab.llm.compare.runs import EvaluationResult, Run
from simlab.llm.instruments.pass_at_k import powers
from simlab.plotting import DASHES, STYLE, line_style

POINTS = 100  # of a curve of training: a longer one is averaged over so many parts
LEGEND_WIDTH = 110  # in letters; a label has its line and the gaps beside it, too
GREY = "0.55"  # of the start
RANKS = 3  # most panels of candidates, as in CaSP's Figure 9
LEAST_SHARE = 1e-5  # of tokens, at the lower edge of the histograms
Measure = Callable[[EvaluationResult], Float[np.ndarray, " P"]]
ByNumber = dict[int, Float[np.ndarray, "..."]]  # values by a step, or by a k


def comparison_figure(runs: Sequence[Run], *, at: str | int = "last", baseline: str | None = None) -> Figure:
    """Draw six panels: reward, entropy, pass@1, pass@k of the largest k, distinct solutions; and pass@k against k.

    Lines are means over seeds, as far as all seeds of an arm have come, in bands of 95 %: t-intervals over seeds, for
    evaluations the intervals over seeds and problems, or of one seed over problems; of two or three seeds, which tell
    too little for a band, with the seeds as thin lines. Curves of more than ``POINTS``
    steps are averaged over so many parts. The start is grey. The last panel shows the evaluations at ``at``, as in
    ``comparison_table``. Rewards in several parts add a row: the mean of each part, the share of silent groups, and the
    share of the advantage that it drives. With a ``baseline``, the last row has the differences of the other arms from
    it, paired by seed and problem.

    Raises ``InputError`` for runs that do not compare, and for an evaluation or a baseline that there is not.
    """
    run_arms.check_comparable(runs)
    arms, starts = run_arms.gather_arms(runs), run_arms.gather_starts(runs)
    shown = [run_arms.choose_evaluations(arm, at) for arm in arms]
    evaluated = [arm for arm in shown if arm.evaluations]
    base = None if baseline is None else shown.index(run_arms.find_baseline(baseline, evaluated))
    most = min(each.samples for arm in arms for training in arm.seeds.values() for each in training.evaluations)
    with matplotlib.style.context(STYLE):
        parts = run_arms.part_names(training for arm in arms for training in arm.seeds.values())
        rows = 2 + bool(parts) + (base is not None)
        figure = Figure(figsize=(7.2, 2.4 * rows), layout="constrained")
        reward, entropy, first, largest, distinct, by_k, *others = figure.subplots(rows, 3).flat
        _draw_training(reward, "reward", arms)
        _draw_training(entropy, "entropy", arms)
        at_1, at_most = (functools.partial(EvaluationResult.pass_at_k, k=k) for k in (1, most))
        _draw_evaluations(first, "pass@1", at_1, arms, starts)
        _draw_evaluations(largest, f"pass@{most}", at_most, arms, starts)
        _draw_evaluations(distinct, "distinct", lambda evaluation: evaluation.distinct, arms, starts)
        _draw_by_k(by_k, [(arm.name, _by_k(arm), style) for arm, style in _with_styles(shown, starts)], SHARE)
        last = f"pass@k, {run_arms.abbreviate_moment(at)}"
        titles = ["reward", "entropy", "pass@1", f"pass@{most}", "distinct solutions", last]
        if parts:
            titles += _draw_parts(others[:3], parts, arms)
        if base is not None:
            less = others[-3:]
            _draw_step_differences(less[0], at_1, arms, base)
            _draw_step_differences(less[1], at_most, arms, base)
            _draw_k_differences(less[2], shown, base)
            titles += [f"{title}, difference" for title in ("pass@1", f"pass@{most}", "pass@k")]
            less[0].set_ylabel(f"more than {shown[base].name}")
        for letter, panel, title in zip("abcdefghijkl", figure.axes, titles, strict=False):
            panel.set_title(f"({letter}) {title}", loc="left")
            if panel.get_xlabel() != "k":
                panel.set_xlabel("step")
                panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        _add_legend(figure, by_k)
    return figure


def _add_legend(figure: Figure, axes: Axes) -> None:
    """Put the names of a panel's lines below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    columns = LEGEND_WIDTH // (max(map(len, labels)) + 8)
    figure.legend(handles, labels, loc="outside lower center", ncols=max(1, min(4, columns, len(labels))))


def _draw_parts(panels: Sequence[Axes], parts: Sequence[str], arms: Sequence[ComparedArm]) -> list[str]:
    """Draw what is recorded of each part of the rewards, dashed by part; return the titles of the panels."""
    titles = {"mean": "mean of a part", "silent": "groups without signal", "driven": "share of the advantage"}
    for axes, label in zip(panels, titles, strict=True):
        for number, part in enumerate(parts):
            dashes = DASHES[number % len(DASHES)]
            _draw_training(axes, f"rewards/{part}/{label}", arms, linestyle=dashes)
            axes.plot([], [], color=GREY, linestyle=dashes, label=part)
    panels[0].legend(loc="best")
    return list(titles.values())


def _draw_training(axes: Axes, name: str, arms: Sequence[ComparedArm], **style: Any) -> None:
    """Draw a metric of training against step, where it is known; a single seed has no band."""
    for number, arm in enumerate(arms):
        trainings = [training.metrics for training in arm.seeds.values() if name in training.metrics]
        steps = _common_steps([metrics["step"] for metrics in trainings])
        if not steps.size:
            continue
        values = np.stack([metrics[name][np.isin(metrics["step"], steps)] for metrics in trainings])
        pieces = np.array_split(np.arange(len(steps)), min(POINTS, len(steps)))
        means = [np.ma.masked_invalid(values[:, piece]).mean(axis=1).filled(np.nan) for piece in pieces]
        bounds = run_arms.measure_bounds(name, np.array(means))
        _draw_line(axes, [steps[piece].mean() for piece in pieces], means, bounds, **line_style(number) | style)


def _draw_evaluations(
    axes: Axes, name: str, measure: Measure, arms: Sequence[ComparedArm], starts: Sequence[ShownArm]
) -> None:
    """Draw a measure against step, with that of the start as a level."""
    for number, start in enumerate(starts):
        level = run_arms.estimate_mean(np.stack([measure(evaluation) for evaluation in start.evaluations.values()]))
        axes.axhline(level.mean, color=GREY, linestyle=DASHES[number % len(DASHES)])
    for number, arm in enumerate(arms):
        samples = max((each.samples for training in arm.seeds.values() for each in training.evaluations), default=0)
        _draw_by_step(axes, _measured(arm, measure), run_arms.measure_bounds(name, np.zeros(0), samples), number)


def _draw_step_differences(axes: Axes, measure: Measure, arms: Sequence[ComparedArm], base: int) -> None:
    """Draw by how much a share is more than the baseline's against step, of the seeds and steps that both have."""
    axes.axhline(0, **line_style(base))
    theirs = _measured(arms[base], measure)
    for number, arm in enumerate(arms):
        if number != base:
            ours = _measured(arm, measure)
            less = {seed: _differences(ours[seed], theirs[seed]) for seed in ours if seed in theirs}
            _draw_by_step(axes, less, CHANGE, number)


def _draw_by_step(axes: Axes, by_seed: Mapping[int, ByNumber], bounds: Bounds, number: int) -> None:
    """Draw what is known of each seed by step, at the steps that all seeds have."""
    steps = _common_steps([np.array(list(by_step)) for by_step in by_seed.values()])
    values = [np.stack([by_step[step] for by_step in by_seed.values()]) for step in steps]
    _draw_line(axes, steps, values, bounds, marker="o", **line_style(number))


def _draw_k_differences(axes: Axes, shown: Sequence[ShownArm], base: int) -> None:
    """Draw by how much pass@k is more than the baseline's against k, of the seeds that both have."""
    axes.axhline(0, **line_style(base))
    pairs = [(number, run_arms.common_seeds(shown[base], arm)) for number, arm in enumerate(shown) if number != base]
    curves = [
        (ours.name, _differences(_by_k(ours), _by_k(theirs)), line_style(number)) for number, (theirs, ours) in pairs
    ]
    _draw_by_k(axes, curves, CHANGE)


def _draw_by_k(axes: Axes, curves: Iterable[tuple[str, ByNumber, dict[str, Any]]], bounds: Bounds) -> None:
    most = 1
    for name, by_k, style in curves:
        _draw_line(axes, list(by_k), list(by_k.values()), bounds, label=name, **style)
        most = max([most, *by_k])
    axes.set_xscale("log", base=2)
    ticks = powers(most, 4)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlabel("k")


def _by_k(arm: ShownArm) -> ByNumber:
    """Return pass@k of seeds and problems by k, for powers of 2 and the number of samples."""
    evaluations = arm.evaluations.values()
    samples = min((evaluation.samples for evaluation in evaluations), default=0)
    ks = sorted({*powers(samples), samples}) if evaluations else []
    return {k: np.stack([evaluation.pass_at_k(k) for evaluation in evaluations]) for k in ks}


def _measured(arm: ComparedArm, measure: Measure) -> dict[int, ByNumber]:
    """Return a measure of each evaluated seed by step, from the start on."""
    by_seed = {}
    for seed, training in arm.seeds.items():
        if training.evaluations:
            history = *filter(None, [arm.starts.get(seed)]), *training.evaluations
            by_seed[seed] = {evaluation.step: measure(evaluation) for evaluation in history}
    return by_seed


def _differences(ours: ByNumber, theirs: ByNumber) -> ByNumber:
    return {number: values - theirs[number] for number, values in ours.items() if number in theirs}


def _common_steps(steps: Sequence[Int[np.ndarray, "..."]]) -> Int[np.ndarray, " C"]:
    """Return the steps that all seeds have; none of no seed."""
    return functools.reduce(np.intersect1d, steps) if steps else np.array([], dtype=int)


def _with_styles(arms: Sequence[ShownArm], starts: Sequence[ShownArm]) -> list[tuple[ShownArm, dict[str, Any]]]:
    """Return each arm, and in grey below them each start, with the style of its lines."""
    grey = {"color": GREY, "zorder": 0.5}
    styles = [(arm, line_style(number)) for number, arm in enumerate(arms)]
    return styles + [(start, line_style(number) | grey) for number, start in enumerate(starts)]


def _draw_line(
    axes: Axes,
    x: Sequence[float] | np.ndarray,
    values: Sequence[Float[np.ndarray, "S ..."]],
    bounds: Bounds,
    **style: Any,
) -> None:
    """Draw means of a measure in their 95 % band, where that is known; of two or three seeds, the seeds."""
    means = [run_arms.estimate_mean(each, bounds) for each in values]
    (line,) = axes.plot(x, [estimate.mean for estimate in means], **style)
    seeds = np.array([each.reshape(len(each), -1).mean(axis=1) for each in values])
    if 1 < seeds.shape[-1] < BAND_SEEDS:
        axes.plot(x, seeds, color=line.get_color(), linewidth=0.6, alpha=0.5)
    else:
        low, high = [estimate.low for estimate in means], [estimate.high for estimate in means]
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def histogram_figure(runs: Sequence[Run], *, at: str | int = "last") -> Figure:
    """Draw tokens by their entropy, and the likeliest candidates by their probability, as CaSP's Figures 8 and 9.

    A line is the mean over seeds of the shares of tokens, at the evaluations of ``at``; the start is grey. There are as
    many candidates as all runs have recorded (``record.top_n``), 3 at most. The last bin of entropies, from 4 nats on,
    has no end.

    Raises ``InputError`` for runs that do not compare, without histograms, and for an evaluation that there is not.
    """
    run_arms.check_comparable(runs)
    arms = [shown for arm in run_arms.gather_arms(runs) if (shown := run_arms.choose_evaluations(arm, at)).evaluations]
    starts = run_arms.gather_starts(runs)
    for arm in (*arms, *starts):
        if not all(evaluation.entropies.sum() for evaluation in arm.evaluations.values()):
            raise InputError(f"an evaluation of {arm.name} has no histogram; allowed: runs of this version and later")
    ranks = min(RANKS, *(len(entry.candidates) for arm in (*arms, *starts) for entry in arm.evaluations.values()))
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(3.6 if not ranks else 2.4 + 1.8 * ranks, 2.6), layout="constrained")
        panels = np.atleast_1d(figure.subplots(1, 1 + ranks, sharey=True))
        for arm, style in _with_styles(arms, starts):
            evaluations = arm.evaluations.values()
            counts = [np.stack([evaluation.entropies for evaluation in evaluations])]
            counts += [np.stack([evaluation.candidates[rank] for evaluation in evaluations]) for rank in range(ranks)]
            for axes, by_seed in zip(panels, counts, strict=True):
                shares = (by_seed / by_seed.sum(axis=1, keepdims=True)).mean(axis=0)
                axes.stairs(shares, np.arange(len(shares) + 1) / 10, baseline=None, label=arm.name, **style)
        for number, (letter, axes) in enumerate(zip("abcd", panels, strict=False)):
            name = f"candidate {number}" if number else f"tokens, {run_arms.abbreviate_moment(at)}"
            axes.set_title(f"({letter}) {name}", loc="left")
            axes.set_xlabel("probability" if number else "entropy (nats)")
            axes.set(yscale="log", ylim=(LEAST_SHARE, 1.2))
            if number:
                axes.set_xticks([0, 0.5, 1])
        figure.supylabel("share of tokens")
        _add_legend(figure, panels[0])
    return figure

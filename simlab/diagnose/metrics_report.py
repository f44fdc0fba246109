"""Tell what metrics over steps say: levels, changes and when they began, and what is known to precede a collapse."""

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from simlab.diagnose.change import FEWEST, Shift, find_change
from simlab.diagnose.estimate import as_json
from simlab.diagnose.reading import Metrics
from simlab.diagnose.report import PAGE, svg, table_row, tags
from simlab.files import WRITER
from simlab.text import plain_number

WIDTH = 80  # of the terminal
EDGE = 0.1  # share of the steps whose mean is the first and the last level
SILENT = 0.95  # share of groups without signal at which a run learns next to nothing
NEAR_ZERO = 0.01  # mean size of a loss that people take for a fault


class Trend(NamedTuple):
    """A metric over steps: its means over the first and the last tenth, and its change where there is a sure one."""

    name: str
    source: str
    first: float
    last: float
    change: Shift | None

    def ends(self, digits: int = 3) -> tuple[str, str]:
        """Write the two means."""
        return plain_number(self.first, digits), plain_number(self.last, digits)


# Signs of trouble by metric: the change from one level to another that tells it, and the words for it.
# ``docs/diagnose.md`` names the public source of each.
SIGNS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "entropy": (
        lambda old, new: new < 0.3 * old,
        "entropy collapses, and with it what can still be explored; a higher upper clip, fewer gradient steps a batch "
        "or an entropy bonus slow it",
    ),
    "kl": (
        lambda old, new: new > 3 * max(old, 0) + 1e-3,
        "the policy runs away from where it was sampled or began; a smaller learning rate or fewer gradient steps a "
        "batch hold it",
    ),
    "grad_norm": (lambda old, new: new > 5 * old, "gradients blow up; look at the rollouts of that time"),
    "reward": (lambda old, new: new < old, "the reward falls"),
    "reward_std": (
        lambda old, new: new < 0.3 * old,
        "rewards of a group are ever more alike, so that little is left to learn from; other prompts or larger groups "
        "help",
    ),
    "no_signal": (lambda old, new: new > max(0.5, old), "most groups teach nothing; other prompts help"),
    "clip_share": (
        lambda old, new: new > max(2 * old, 0.01),
        "ever more tokens are clipped: the policy leaves its sampler within a batch; fewer gradient steps a batch or a "
        "smaller learning rate help",
    ),
    "truncated": (
        lambda old, new: new > old + 0.1,
        "ever more rollouts are cut off; raise the limit, or leave them out of the loss",
    ),
    "length": (
        lambda old, new: new > 1.5 * old,
        "rollouts grow; where the reward does not grow with them, it is the loss that rewards length",
    ),
}


class MetricsReport(NamedTuple):
    """The answer that a table of metrics gives.

    Attributes:
        metrics: the table.
        trends: of each known metric.
        sentences: the answer in words, most important first.
    """

    metrics: Metrics
    trends: tuple[Trend, ...]
    sentences: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the report for a terminal of 80 columns."""
        step, sources = self.metrics.step, ", ".join(f"`{trend.source}` as {trend.name}" for trend in self.trends)
        span = f"{len(step):,} steps, from {step[0]:g} to {step[-1]:g}, of {self.metrics.files} file(s)"
        lines = [f"metrics   {span}; they hold no rollouts"]
        for number, sentence in enumerate(self.sentences, 1):
            lines += textwrap.wrap(f"{number}. {sentence}", WIDTH, subsequent_indent="   ")
        lines += ["", f"{'metric':<14} {'first':>9}    {'last':<9} change [90% interval of its beginning]"]
        for trend in self.trends:
            first, last = trend.ends(4)
            lines.append(f"{trend.name:<14} {first:>9} -> {last:<9} {describe(trend.change)}")
        others = f"; and {len(self.metrics.others):,} of other names" if self.metrics.others else ""
        return [*lines, *textwrap.wrap(f"read {sources}{others}", WIDTH, subsequent_indent="     ")]

    def as_json(self) -> dict[str, Any]:
        """Return the table, trends and sentences for JSON, null for NaN."""
        columns = {**self.metrics.values, **self.metrics.others}
        table = as_json({name: column.tolist() for name, column in columns.items()})
        trends, steps = as_json(self.trends), self.metrics.step.tolist()
        return {"sentences": self.sentences, "trends": trends, "steps": steps, "metrics": table}

    def page(self) -> str:
        """Return the report as one HTML file that opens offline."""
        rows = [(t.name, t.source, *t.ends(4), describe(t.change)) for t in self.trends]
        sentences, table = tags("li", self.sentences), "\n".join(map(table_row, rows))
        return PAGE.format(writer=WRITER, body=BODY.format(sentences=sentences, plots=svg(self.figure), rows=table))

    def figure(self) -> Figure:
        """Draw each metric over steps, and the interval in which its change began."""
        count = -(-len(self.trends) // 3)
        page = Figure(figsize=(7.2, 1.7 * count), layout="constrained")
        for axes, trend in zip(page.subplots(count, 3, squeeze=False).flat, self.trends, strict=False):
            logged = np.isfinite(self.metrics.values[trend.name])
            axes.plot(self.metrics.step[logged], self.metrics.values[trend.name][logged], linewidth=0.9)
            if trend.change is not None:
                axes.axvspan(trend.change.low, trend.change.high, color="C3", alpha=0.2, linewidth=0)
                axes.axvline(trend.change.began, color="C3", linewidth=0.8)
            axes.set_title(trend.name, loc="left", fontsize=9)
            axes.set_xlabel("step")
        for axes in page.axes[len(self.trends) :]:
            axes.remove()
        return page


def report_metrics(metrics: Metrics) -> MetricsReport:
    """Find the changes of each metric, and what they are signs of."""
    trends = []
    for name, column in metrics.values.items():
        logged = column[np.isfinite(column)]
        edge = max(1, int(EDGE * len(logged)))
        change = find_change(metrics.step, column)
        first, last = float(logged[:edge].mean()), float(logged[-edge:].mean())
        trends.append(Trend(name, metrics.sources[name], first, last, change))
    return MetricsReport(metrics, tuple(trends), tuple(_sentences(metrics, {trend.name: trend for trend in trends})))


def describe(change: Shift | None) -> str:
    """Write a change in words.

    >>> describe(Shift(False, 40, 32, 47, 1.0, 0.2, 0.002)), describe(None)
    ('falls from step 40 on [32, 47]', 'none that is sure')
    """
    if change is None:
        return "none that is sure"
    verb = "rises" if change.after > change.before else "falls"
    step = plain_number(change.began, 4)
    how = f"at step {step}" if change.is_sudden else f"from step {step} on"
    return f"{verb} {how} [{change.low:g}, {change.high:g}]"


def _sentences(metrics: Metrics, trends: dict[str, Trend]) -> list[str]:
    signs = [
        f"{name} {describe(trend.change)}, from {' to '.join(trend.ends())}: {words}."
        for name, (is_met, words) in SIGNS.items()
        if (trend := trends.get(name)) and trend.change and is_met(trend.first, trend.last)
    ]
    others, signal = [], trends.get("no_signal")
    is_silent = signal is not None and signal.last >= SILENT
    if not is_silent and "loss" in trends and np.nanmean(np.abs(metrics.values["loss"])) < NEAR_ZERO:
        others.append(
            "A loss near 0 is no fault: the advantages of a group sum to 0, and the gradient does not; look at groups "
            "without signal instead."
        )
    if signal is not None:
        shares = f"{signal.last:.0%} of the last groups teach nothing, {signal.first:.0%} of the first"
        remedy = "run the verifier on a known right answer; if it passes, take prompts of middle difficulty"
        signs[:0] = [f"{shares}: {remedy}."] if is_silent else []
        others += [] if is_silent else [f"{shares}."]
    reward = trends.get("reward")
    if reward is not None and reward.change is not None and reward.last > reward.first:
        others.append(f"The reward {describe(reward.change)}, from {' to '.join(reward.ends())}.")
    if len(metrics.step) < FEWEST:
        others.append(f"{len(metrics.step)} steps are too few to tell a change from noise; needed: {FEWEST}.")
    elif not signs:
        others.append("Nothing changes that is known to precede a collapse.")
    return [*signs, *others]


BODY = """<h1>What these metrics tell</h1>
<ol>{sentences}</ol>
<div class="map">{plots}</div>
<p>A red line marks where a change began, the band its 90% interval.</p>
<table><tr><th>metric</th><th>read from</th><th>first tenth</th><th>last tenth</th><th>change</th></tr>
{rows}
</table>"""

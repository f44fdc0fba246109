"""Write the report of a diagnosis: one HTML file that opens offline, with its plots inside."""

import html
import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import IntervalEstimate
from simlab.diagnose.reading import Reading
from simlab.diagnose.summary import shown, summary
from simlab.plotting import STYLE

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>simlab diagnose</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }}
pre {{ background: #f4f4f4; padding: 1rem; overflow-x: auto; font-size: 13px }}
table {{ border-collapse: collapse; font-size: 14px; display: block; overflow-x: auto }}
th, td {{ text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #ddd; vertical-align: top }}
svg {{ max-width: 100%; height: auto }}
</style></head><body>
<h1>What this log tells</h1>
<pre>{summary}</pre>
{plots}
<h2>What to run next</h2>
{commands}
<h2>What this log cannot tell</h2>
<ul>{untold}</ul>
<h2>All estimates</h2>
<p>Intervals hold the truth in {level} of such logs, as far as the assumptions of their method hold.</p>
<table><tr><th>estimate</th><th>value [interval]</th><th>method</th></tr>
{rows}
</table></body></html>
"""
NO_COMMAND = "No split of the budget is surely better than the one in use."


def report(reading: Reading, result: Diagnosis) -> str:
    """Return the page."""
    commands = "".join(f"<li><code>{html.escape(command)}</code></li>" for command in result.commands)
    return PAGE.format(
        summary=html.escape("\n".join(summary(reading, result))),
        plots=_draw_plots(result),
        commands=f"<ul>{commands}</ul>" if commands else f"<p>{NO_COMMAND}</p>",
        untold="".join(f"<li>{html.escape(sentence)}</li>" for sentence in result.untold),
        level=f"{result.level:.0%}",
        rows="\n".join(_table_row(estimate) for estimate in dict.fromkeys(_list_estimates(result))),
    )


def _table_row(estimate: IntervalEstimate) -> str:
    texts = (estimate.name, shown(estimate), estimate.method)
    return f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}</tr>"


def _list_estimates(record: object) -> list[IntervalEstimate]:
    """Return all estimates within a record of them, in order."""
    if isinstance(record, IntervalEstimate):
        return [record]
    fields = (
        record if isinstance(record, (tuple, list)) else vars(record).values() if hasattr(record, "__dict__") else ()
    )
    return [estimate for field in fields for estimate in _list_estimates(field)]


def _draw_plots(result: Diagnosis) -> str:
    file = io.StringIO()
    with mpl.style.context(STYLE):
        figure(result).savefig(file, format="svg")
    text = file.getvalue()
    return text[text.index("<svg") :]


def figure(result: Any) -> Figure:
    """Draw dead groups, pass@k, and splits of the budget, in the style in use.

    Args:
        result: a ``Diagnosis``, or its JSON as objects with ``groups``, ``pass_at_k`` and ``recommendation``.
    """
    panels: dict[str, Callable[[Axes, Any], None]] = {
        "Dead groups": _draw_dead_groups,
        "pass@k": _draw_pass_at_k,
        f"Groups of {result.recommendation.rollouts:,} rollouts a step": _draw_teaching_groups,
    }
    page = Figure(figsize=(7.2, 2.7), layout="constrained")
    for (title, draw), axes in zip(panels.items(), page.subplots(1, len(panels)).flat, strict=True):
        draw(axes, result)
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_xscale("log", base=2)
        axes.legend(fontsize=7)
    return page


def _draw_band(
    axes: Axes, x: Sequence[int], estimates: Sequence[IntervalEstimate], label: str, colour: str = "C0"
) -> None:
    low, high = [estimate.low for estimate in estimates], [estimate.high for estimate in estimates]
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, [estimate.value for estimate in estimates], color=colour, label=label, marker="o", markersize=3)


def _mark_size_in_use(axes: Axes, group_size: int) -> None:
    axes.axvline(group_size, color="0.6", linewidth=0.8)
    transform = axes.get_xaxis_transform()
    axes.text(group_size, 0.12, "in use", transform=transform, rotation=90, ha="right", color="0.4", fontsize=7)


def _draw_dead_groups(axes: Axes, result: Any) -> None:
    by_size = result.groups.at_sizes
    sizes = [groups.group_size for groups in by_size]
    _draw_band(axes, sizes, [groups.all_wrong for groups in by_size], "all wrong", "C3")
    _draw_band(axes, sizes, [groups.all_right for groups in by_size], "all right", "C2")
    _mark_size_in_use(axes, result.groups.observed.group_size)
    axes.set(xlabel="group size G", ylabel="share of groups", ylim=(0, 1))


def _draw_pass_at_k(axes: Axes, result: Any) -> None:
    curve = result.pass_at_k
    _draw_band(axes, curve.k, curve.carried, "carried by the log")
    if curve.beyond:
        _draw_band(axes, curve.beyond_k, curve.beyond, "extrapolated", "C1")
    axes.set(xlabel="k", ylim=(0, 1))


def _draw_teaching_groups(axes: Axes, result: Any) -> None:
    splits = result.recommendation.splits
    sizes = [split.group_size for split in splits]
    _draw_band(axes, sizes, [split.teaching for split in splits], "teach")
    against = [split.against for split in splits if split.against is not None]
    if len(against) == len(splits):
        _draw_band(axes, sizes, against, "teach against a\ntypical solution", "C3")
    _mark_size_in_use(axes, result.recommendation.group_size)
    axes.set(xlabel="group size G", ylabel="groups a step", ylim=(0, None))

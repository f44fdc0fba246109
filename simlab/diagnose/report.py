"""Write the report of a diagnosis: one HTML file that opens offline, with its plots inside."""

import html
import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simlab.diagnose.diagnosis import Diagnosis
from simlab.diagnose.estimate import IntervalEstimate, shown
from simlab.diagnose.reading import Reading
from simlab.diagnose.summary import summary
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
    svg = io.StringIO()
    with mpl.style.context(STYLE):
        figure(result).savefig(svg, format="svg")
    commands = "".join(f"<li><code>{html.escape(command)}</code></li>" for command in result.commands)
    rows = [(estimate.name, shown(estimate), estimate.method) for estimate in dict.fromkeys(_list_estimates(result))]
    return PAGE.format(
        summary=html.escape("\n".join(summary(reading, result))),
        plots=svg.getvalue()[svg.getvalue().index("<svg") :],
        commands=f"<ul>{commands}</ul>" if commands else f"<p>{NO_COMMAND}</p>",
        untold="".join(f"<li>{html.escape(sentence)}</li>" for sentence in result.untold),
        level=f"{result.level:.0%}",
        rows="\n".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows),
    )


def _list_estimates(record: object) -> list[IntervalEstimate]:
    if isinstance(record, IntervalEstimate):
        return [record]
    fields = record if isinstance(record, tuple) else ()
    return [estimate for field in fields for estimate in _list_estimates(field)]


def figure(result: Any) -> Figure:
    """Draw dead groups, pass@k and splits of the budget of a ``Diagnosis``, or of its JSON as objects."""
    groups, curve, advice = result.groups, result.pass_at_k, result.recommendation
    page = Figure(figsize=(7.2, 2.7), layout="constrained")
    dead, passes, teaching = page.subplots(1, 3).flat
    sizes = [predicted.group_size for predicted in groups.at_sizes]
    _draw_band(dead, sizes, [predicted.all_wrong for predicted in groups.at_sizes], "all wrong", "C3")
    _draw_band(dead, sizes, [predicted.all_right for predicted in groups.at_sizes], "all right", "C2")
    dead.set(xlabel="group size G", ylabel="share of groups", ylim=(0, 1))
    _draw_band(passes, curve.k, curve.carried, "carried by the log")
    if curve.beyond:
        _draw_band(passes, curve.beyond_k, curve.beyond, "extrapolated", "C1")
    passes.set(xlabel="k", ylim=(0, 1))
    sizes = [split.group_size for split in advice.splits]
    _draw_band(teaching, sizes, [split.teaching for split in advice.splits], "teach")
    against = [split.against for split in advice.splits if split.against is not None]
    if len(against) == len(sizes):
        _draw_band(teaching, sizes, against, "teach against a\ntypical solution", "C3")
    teaching.set(xlabel="group size G", ylabel="groups a step", ylim=(0, None))
    titles = ("Dead groups", "pass@k", f"Groups of {advice.rollouts:,} rollouts a step")
    in_uses = (groups.observed.group_size, None, advice.group_size)
    for axes, title, in_use in zip(page.axes, titles, in_uses, strict=True):
        if in_use is not None:
            axes.axvline(in_use, color="0.6", linewidth=0.8)
            axes.text(
                in_use,
                0.12,
                "in use",
                transform=axes.get_xaxis_transform(),
                rotation=90,
                ha="right",
                color="0.4",
                fontsize=7,
            )
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
